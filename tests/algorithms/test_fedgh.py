"""FedGH: the server's steps on the header, what travels and what stays, both test modes."""

import pytest
import torch
from torch import nn
from vmap_check import check_vmap

from protofed.algorithms.fedgh import FedGH
from protofed.config import resolve
from protofed.core.answer import Replies, Reply
from protofed.core.errors import ConfigError
from protofed.core.record import Weights
from protofed.core.task import Turn
from protofed.ops.prototypes import Protos
from protofed.testing import CHECKS, CLASSES, EMBEDDING, Toy

VARIANTS = [
    Toy("fedgh", models="mixed"),
    Toy("fedgh", {"server_batch": 4, "server_epochs": 5, "server_shuffle": True}, models="norm"),
]
WEIGHT, BIAS = "model.head.weight", "model.head.bias"


def names(case: Toy) -> str:
    return "-".join([case.models, *map(str, case.options)])


def header() -> Weights:
    gen = torch.Generator().manual_seed(0)
    weight = torch.randn(CLASSES, EMBEDDING, generator=gen, dtype=torch.float64)
    return Weights({WEIGHT: weight, BIAS: torch.zeros(CLASSES, dtype=torch.float64)})


def pairs() -> tuple[torch.Tensor, torch.Tensor]:
    gen = torch.Generator().manual_seed(1)
    return torch.randn(7, EMBEDDING, generator=gen, dtype=torch.float64), torch.arange(7) % CLASSES


def received(mean: torch.Tensor, cls: torch.Tensor, cut: int = 3) -> Replies:
    """The first rows from client 2, the others from client 5; client 5 answers first."""
    ups = [(5, Protos(mean[cut:], cls[cut:])), (2, Protos(mean[:cut], cls[:cut]))]
    return Replies(iter([Reply(client, 1, up) for client, up in ups]))


def server(**options) -> tuple[FedGH, Turn]:
    task = Toy("fedgh", options).build().task
    return task.algorithm, Turn(task, 1)


def sgd(weights, mean, cls, lr, chunks) -> nn.Linear:
    """The same steps with torch's modules and optimiser."""
    layer = nn.Linear(EMBEDDING, CLASSES).double()
    layer.load_state_dict({"weight": weights[WEIGHT], "bias": weights[BIAS]})
    optimiser = torch.optim.SGD(layer.parameters(), lr=lr)
    for chunk in chunks:
        optimiser.zero_grad()
        nn.functional.cross_entropy(layer(mean[chunk]), cls[chunk]).backward()
        optimiser.step()
    return layer


@pytest.mark.parametrize("case", [*VARIANTS, Toy("fedgh")], ids=names)
def test_loss_runs_under_vmap(case):
    check_vmap(case)


@pytest.mark.thorough
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("case", VARIANTS, ids=names)
def test_conformance_of_variants(case, check):
    check(case)


# server


def test_one_step_by_hand():
    """Zero header, 5 classes: the prediction is 1/5 each. Pair (e_1, class 2), η = 0.5: row 2 gains
    0.5 · (1 − 1/5) = 0.4 in its first entry and its bias, every other row loses 0.5 · 1/5 = 0.1."""
    method, turn = server(server_lr=0.5)
    zero = Weights({name: torch.zeros_like(tensor) for name, tensor in header().weights.items()})
    mean = torch.eye(1, EMBEDDING, dtype=torch.float64)
    after = method.aggregate(zero, Replies(iter([Reply(0, 1, Protos(mean, torch.tensor([2])))])), turn)
    assert after.weights[BIAS].tolist() == pytest.approx([-0.1, -0.1, 0.4, -0.1, -0.1])
    assert after.weights[WEIGHT][:, 0].tolist() == pytest.approx([-0.1, -0.1, 0.4, -0.1, -0.1])
    assert after.weights[WEIGHT][:, 1:].abs().max() == 0


@pytest.mark.parametrize(("size", "epochs"), [(1, 1), (1, 3), (4, 2), (50, 1)])
def test_steps_equal_torch_sgd_in_the_order_of_clients(size, epochs):
    method, turn = server(server_lr=0.3, server_batch=size, server_epochs=epochs)
    mean, cls = pairs()
    after = method.aggregate(header(), received(mean, cls), turn).weights
    expected = sgd(header().weights, mean, cls, 0.3, torch.arange(7).split(size) * epochs)
    assert torch.allclose(after[WEIGHT], expected.weight, rtol=0, atol=1e-12)
    assert torch.allclose(after[BIAS], expected.bias, rtol=0, atol=1e-12)
    assert not after[WEIGHT].requires_grad


def test_shuffled_pairs_follow_the_turn():
    method, turn = server(server_lr=0.3, server_shuffle=True)
    mean, cls = pairs()
    after = method.aggregate(header(), received(mean, cls), turn).weights
    order = torch.randperm(7, generator=turn.generator("server batches"))
    expected = sgd(header().weights, mean, cls, 0.3, order.split(1))
    assert torch.allclose(after[WEIGHT], expected.weight, rtol=0, atol=1e-12)


def test_the_given_state_is_not_changed():
    method, turn = server()
    before = header()
    method.aggregate(before, received(*pairs()), turn)
    assert torch.equal(before.weights[WEIGHT], header().weights[WEIGHT])


def test_the_header_learns_the_means():
    """Enough passes over separable means: every one is classified."""
    method, turn = server(server_lr=0.5, server_epochs=200, server_batch=7)
    mean, cls = pairs()
    after = method.aggregate(header(), received(mean, cls), turn).weights
    assert torch.equal((mean @ after[WEIGHT].T + after[BIAS]).argmax(1), cls)


# client


def test_only_the_base_stays_and_only_means_go_up():
    """Down 8·5 + 5 = 45 numbers to each of 6 clients, also in round 1; up 8 for each of 12 classes."""
    experiment = Toy("fedgh").build(rounds=1)
    records = experiment.play(None)
    assert records[0]["down"]["params"] == 6 * 45
    assert records[0]["up"]["params"] == 12 * EMBEDDING
    state = experiment.federation.engine.store.get(0)
    assert all(name.startswith("model.base.") for name in state.kept)
    assert state.mem.keys() == {WEIGHT, BIAS}


def test_modes_differ_by_the_header():
    """`clf` has the global header, `own` the client's; before it ever trained they are the same."""
    experiment = Toy("fedgh").build(rounds=1)
    experiment.play(None)
    task, state = experiment.task, experiment.federation.state
    client = experiment.federation.engine.store.get(0)
    x = experiment.data.test(0).x
    tensors = {**client.kept, **state.weights}
    net = task.net(0, tensors)
    found = task.algorithm.predict(net, x, None, state, client.mem)
    own = task.net(0, {**client.kept, **client.mem})
    assert torch.equal(found["clf"], net(x)[1])
    assert torch.equal(found["own"], own(x)[1])
    assert not torch.allclose(found["clf"], found["own"])
    assert torch.equal(task.algorithm.predict(net, x, None, state, {})["own"], found["clf"])


# settings


def test_settings():
    assert FedGH.modes[0] == "own"
    assert FedGH().prototypes(header()) is None
    with pytest.raises(ConfigError, match="server_lr: must be greater than 0"):
        resolve({"method": "fedgh", "options": {"server_lr": 0}})
