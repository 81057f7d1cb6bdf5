"""FedTGP's server step: the margin, the loss, and the hand-written gradient."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import cross_entropy, one_hot

from protofed.core.rng import torch_generator
from protofed.ops import tgp_server


def generator(key: str = "test") -> torch.Generator:
    return torch_generator("tgp_server", key)


def problem(classes=4, dim=6, rows=23, process=True):
    gen = generator("problem")
    trained = {n: t.double() for n, t in tgp_server.init(classes, dim, process, gen).items()}
    protos = torch.randn(rows, dim, generator=gen, dtype=torch.float64)
    cls = torch.randint(classes, (rows,), generator=gen)
    return trained, protos, cls


def server_loss(protos, rows, y, delta):
    """Eq. 10 as a formula, batch mean."""
    squared = rows.square().sum(1, keepdim=True) + protos.square().sum(1) - 2 * rows @ protos.T
    distance = squared.clamp(min=1e-12).sqrt()
    own = one_hot(y, len(protos)).to(protos.dtype)
    return cross_entropy(-(distance + delta * own), y)


class Reference(nn.Module):
    """G = F(E) as ordinary modules."""

    def __init__(self, trained):
        super().__init__()
        self.vectors = nn.Parameter(trained["E"].clone())
        self.process = "W1" in trained
        if self.process:
            dim = self.vectors.shape[1]
            self.first, self.second = nn.Linear(dim, dim).double(), nn.Linear(dim, dim).double()
            self.first.load_state_dict({"weight": trained["W1"], "bias": trained["b1"]})
            self.second.load_state_dict({"weight": trained["W2"], "bias": trained["b2"]})

    def forward(self):
        return self.second(self.first(self.vectors).relu()) if self.process else self.vectors

    def tensors(self):
        found = {"E": self.vectors}
        if self.process:
            found |= {"W1": self.first.weight, "b1": self.first.bias}
            found |= {"W2": self.second.weight, "b2": self.second.bias}
        return {name: tensor.detach() for name, tensor in found.items()}


def train_by_autograd(trained, protos, cls, delta, epochs, batch, lr, gen):
    """The same procedure with autograd and torch.optim.SGD."""
    module = Reference(trained)
    optimiser = torch.optim.SGD(module.parameters(), lr=lr)
    for _ in range(epochs):
        order = torch.randperm(len(protos), generator=gen)
        for chunk in order.split(batch or len(protos)):
            optimiser.zero_grad()
            server_loss(module(), protos[chunk], cls[chunk], delta).backward()
            optimiser.step()
    return module.tensors()


@pytest.mark.parametrize("process", [True, False])
@pytest.mark.parametrize("batch", [10, 3, None])
def test_training_equals_autograd_with_sgd(process, batch):
    trained, protos, cls = problem(process=process)
    arguments = (trained, protos, cls, 1.7, 40, batch, 0.1)
    ours = tgp_server.train(*arguments, generator("order"))
    theirs = train_by_autograd(*arguments, generator("order"))
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert float((tensor - theirs[name]).abs().max()) < 1e-10, name
        assert float((tensor - trained[name]).abs().max()) > 1e-3, f"{name} was not trained"


@given(rows=st.integers(1, 12), classes=st.integers(1, 6), dim=st.integers(1, 5), delta=st.floats(0, 100))
@settings(max_examples=25, deadline=None)
def test_the_slope_is_the_gradient(rows, classes, dim, delta):
    gen = generator(f"{rows} {classes} {dim}")
    protos = torch.randn(classes, dim, generator=gen, dtype=torch.float64, requires_grad=True)
    uploads = torch.randn(rows, dim, generator=gen, dtype=torch.float64)
    y = torch.randint(classes, (rows,), generator=gen)
    (expected,) = torch.autograd.grad(server_loss(protos, uploads, y, delta), protos)
    ours = tgp_server.slope_at(protos.detach(), uploads, y, delta)
    assert torch.allclose(ours, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(("delta", "expected"), [(1.0, 0.313262), (0.0, 0.126928)])
def test_server_loss_by_hand(delta, expected):
    """P = 0, G = (1, 3), y = 0: log(1 + e^(1 + δ − 3)) = log(1 + e^(δ − 2)): 0.313262 and 0.126928."""
    protos = torch.tensor([[1.0], [3.0]], dtype=torch.float64)
    loss = server_loss(protos, torch.zeros(1, 1, dtype=torch.float64), torch.tensor([0]), delta)
    assert float(loss) == pytest.approx(expected, abs=1e-6)


def test_slope_by_hand():
    """P = 0, G = (1, 3), y = 0, δ = 1: softmax of −(2, 3) = (0.731059, 0.268941); ∂L/∂d = (0.268941,
    −0.268941); d grows with G on this side, so the gradient is the same: G[0] moves in, G[1] out."""
    protos = torch.tensor([[1.0], [3.0]], dtype=torch.float64)
    slope = tgp_server.slope_at(protos, torch.zeros(1, 1, dtype=torch.float64), torch.tensor([0]), 1.0)
    assert slope.flatten().tolist() == pytest.approx([0.268941, -0.268941], abs=1e-6)


def test_a_prototype_on_an_upload_has_no_slope_and_no_nan():
    """P = G[0]: the distance is clamped, its slope 0; G[1] is still pushed."""
    protos = torch.tensor([[2.0, 1.0], [2.0, 2.0]], dtype=torch.float64)
    slope = tgp_server.slope_at(protos, protos[:1].clone(), torch.tensor([0]), 0.0)
    assert torch.isfinite(slope).all()
    assert slope[0].abs().max() == 0
    assert slope[1, 1] < 0


def test_large_coinciding_points_stay_finite_in_float32():
    """Norms near 1e4: round-off of the square is about ±10, of either sign."""
    protos = 1e3 * torch.randn(5, 64, generator=generator("large")) + 1e3
    slope = tgp_server.slope_at(protos, protos.repeat(3, 1), torch.arange(15) % 5, 10.0)
    assert torch.isfinite(slope).all()


@pytest.mark.parametrize(
    ("reading", "expected"),
    [("adaptive", 1), ("literal", 2), ("pairwise_max", 3), ("fixed", 100), ("none", 0)],
)
def test_margin_of_four_points_on_a_line(reading, expected):
    """Centres 0, 1, 2, 3. Nearest others: all 1. Farthest others: 3, 2, 2, 3, of which the smallest is 2
    and the largest 3."""
    protos = torch.tensor([[0.0], [1.0], [2.0], [3.0]])
    assert tgp_server.margin(protos, torch.arange(4), reading, 100.0) == expected


def test_margin_uses_plain_means_of_the_uploads():
    """Class 0: (0 + 2) / 2 = 1; class 1: 5 → 4; class 7 at 15: nearest other at 10, the largest."""
    protos = torch.tensor([[0.0], [5.0], [2.0], [15.0]])
    assert tgp_server.margin(protos, torch.tensor([0, 1, 0, 7]), "adaptive", 100.0) == 10.0


@pytest.mark.parametrize("reading", ["adaptive", "literal", "pairwise_max"])
def test_margin_is_capped_and_zero_for_one_class(reading):
    protos = torch.tensor([[0.0], [500.0]])
    assert tgp_server.margin(protos, torch.tensor([0, 1]), reading, 100.0) == 100.0
    assert tgp_server.margin(protos, torch.tensor([3, 3]), reading, 100.0) == 0.0
    assert tgp_server.margin(protos[:0], torch.zeros(0, dtype=torch.int64), reading, 100.0) == 0.0


def test_coinciding_classes_give_no_margin():
    assert tgp_server.margin(torch.ones(2, 3), torch.tensor([0, 1]), "adaptive", 100.0) == 0.0


def test_training_brings_prototypes_to_their_class():
    trained, protos, cls = problem(dim=8, rows=40)
    centres = 4 * torch.randn(4, 8, generator=generator("centres"), dtype=torch.float64)
    protos = 0.1 * protos + centres[cls]
    first = tgp_server.prototypes(trained)
    after = tgp_server.prototypes(tgp_server.train(trained, protos, cls, 1.0, 300, 10, 0.1, generator()))
    assert torch.equal(torch.cdist(centres, after).argmin(1), torch.arange(4))
    assert server_loss(after, protos, cls, 1.0) < server_loss(first, protos, cls, 1.0) / 2


def test_start_and_sizes():
    """C·D + 2(D² + D) numbers: 10·6 + 2(36 + 6) = 144; linear layers within ±1/√6."""
    trained = tgp_server.init(10, 6, True, generator())
    assert sum(t.numel() for t in trained.values()) == 144
    assert all(trained[n].abs().max() <= 1 / math.sqrt(6) for n in ("W1", "b1", "W2", "b2"))
    assert tgp_server.init(10, 6, False, generator()).keys() == {"E"}


def test_nothing_to_train_on_changes_nothing():
    trained, protos, cls = problem()
    for batch in (10, None):
        after = tgp_server.train(trained, protos[:0], cls[:0], 0.0, 2, batch, 0.1, generator())
        assert all(torch.equal(after[name], trained[name]) for name in trained)
