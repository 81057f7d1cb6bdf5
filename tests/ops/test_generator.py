"""The generator of embeddings and its training at the server."""

import math

import pytest
import torch

from protofed.ops.generator import Generator, Plan, diversity, draw, ensemble_ce, train


def floats(values):
    return torch.tensor(values, dtype=torch.float64)


def test_generator_by_hand():
    """Input [ε, one-hot] = [2, 0, 1], inner weights (1, 10, 100) and bias 0: 102; BatchNorm in eval mode
    with mean 100 and variance 1 (+1e-5): 2/√1.00001; outer weight 3, bias 1: 1 + 6/√1.00001."""
    generator = Generator(1, 2, 1, 1).double().eval()
    with torch.no_grad():
        generator.inner.weight.copy_(floats([[1, 10, 100]]))
        generator.inner.bias.zero_()
        generator.norm.running_mean.fill_(100.0)
        generator.outer.weight.fill_(3.0)
        generator.outer.bias.fill_(1.0)
    out = generator(floats([[2]]), floats([[0, 1]]))
    assert out.item() == pytest.approx(1 + 6 / math.sqrt(1.00001))
    assert generator(floats([[-200]]), floats([[0, 1]])).item() == 1.0  # ReLU


def test_labels_are_drawn_in_proportion():
    """Counts (0, 1, 3): class 0 never, class 2 about three times as often as class 1."""
    eps, y = draw(torch.tensor([0, 1, 3]), 4000, 5, torch.float64, torch.Generator().manual_seed(0))
    found = torch.bincount(y, minlength=3)
    assert found[0] == 0
    assert 2.6 < float(found[2] / found[1]) < 3.4
    assert eps.shape == (4000, 5)
    assert 0 <= eps.min() < 0.01
    assert 0.99 < eps.max() <= 1


def test_ensemble_by_hand():
    """Teachers say (log 2, 0) and (0, log 4) with weights ¾ and ¼ for label 0, 0 and 1 for label 1.
    Label 0: logits (¾·log 2, ½·log 2), CE = log(1 + 2^(½−¾)). Label 1: (0, log 4), CE = log(5/4)."""
    logits = floats([[[math.log(2), 0]] * 2, [[0, math.log(4)]] * 2])
    weight = floats([[0.75, 0.0], [0.25, 1.0]])
    value = ensemble_ce(logits, weight, torch.tensor([0, 1]))
    assert value.item() == pytest.approx((math.log(1 + 2**-0.25) + math.log(1.25)) / 2)


def test_diversity_by_hand():
    """ε = (0, 0), (1, 3): mean square gap 5; z = (0), (2): gap 2. Of four pairs two have 10: exp(−5)."""
    assert diversity(floats([[0, 0], [1, 3]]), floats([[0], [2]])).item() == pytest.approx(math.exp(-5))
    assert diversity(floats([[0, 0], [1, 3]]), floats([[2], [2]])).item() == 1.0


def test_training_equals_a_loop_with_torchs_adam():
    head, weight, labels = floats([[[1, -1, 0], [0, 2, 1]]]), floats([[1, 1, 1]]), torch.tensor([3, 1, 2])
    plan = Plan(steps=5, batch_size=4, noise=2, lr=0.1, eta=0.5)
    torch.manual_seed(0)
    ours = Generator(2, 3, 4, 2).double()
    theirs = Generator(2, 3, 4, 2).double()
    theirs.load_state_dict(ours.state_dict())
    with torch.no_grad():
        train(ours, lambda z: z @ head, weight, labels, plan, torch.Generator().manual_seed(1))
    rng, adam = torch.Generator().manual_seed(1), torch.optim.Adam(theirs.parameters(), lr=0.1)
    for _ in range(5):
        y = torch.multinomial(labels.double(), 4, replacement=True, generator=rng)
        eps = torch.rand(4, 2, generator=rng, dtype=torch.float64)
        z = theirs(eps, torch.nn.functional.one_hot(y, 3).double())
        loss = torch.nn.functional.cross_entropy(z @ head[0], y) + 0.5 * diversity(eps, z)
        adam.zero_grad()
        loss.backward()
        adam.step()
    for name, tensor in ours.state_dict().items():
        assert torch.allclose(tensor, theirs.state_dict()[name], atol=1e-7), name


def test_training_teaches_the_labels():
    """A generator trained through a fixed head makes embeddings that the head gives the right label."""
    head = 3 * torch.eye(3, dtype=torch.float64)[None]
    torch.manual_seed(0)
    generator = Generator(4, 3, 8, 3).double()
    plan = Plan(steps=60, batch_size=8, noise=4, lr=0.1)
    train(
        generator,
        lambda z: z @ head,
        floats([[1, 1, 1]]),
        torch.ones(3),
        plan,
        torch.Generator().manual_seed(0),
    )
    generator.eval()
    made = generator(torch.rand(3, 4, dtype=torch.float64), torch.eye(3, dtype=torch.float64))
    assert made.argmax(1).tolist() == [0, 1, 2]
