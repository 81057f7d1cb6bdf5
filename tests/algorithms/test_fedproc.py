"""FedProc: mixed loss, its schedule, averages, first round."""

import math

import pytest
import torch
from torch import nn
from vmap_check import check_vmap

from protofed.algorithms.fedproc import FedProc, Global, Model
from protofed.config import resolve
from protofed.core.answer import Replies, Reply
from protofed.core.data import Batch
from protofed.core.errors import ConfigError
from protofed.core.net import BoundNet
from protofed.core.task import Turn
from protofed.models.base import Model as Halves
from protofed.testing import CHECKS, CLASSES, EMBEDDING, Toy

VARIANTS = [Toy("fedproc", {"horizon": 2, "tau": 0.1}), Toy("fedproc", {"horizon": 100}, models="norm")]
LOG3 = math.log(3)


def names(case: Toy) -> str:
    return "-".join([case.models, *map(str, case.options)])


def floats(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def identity_net() -> BoundNet:
    """Embedding = input [·, 2]; 3 logits of 0, so that cross-entropy is log 3."""
    model = Halves(nn.Identity(), nn.Linear(2, 3)).double()
    return BoundNet({"model": model}, {f"model.{n}": 0 * t for n, t in model.state_dict().items()})


def batch(x: torch.Tensor, y: list[int]) -> Batch:
    return Batch(x, torch.tensor(y), torch.arange(len(y)), floats(1.0), {})


def view(alpha: float, known=(True, True, False)) -> dict[str, torch.Tensor]:
    protos = floats([[2.0, 0.0], [0.0, 3.0], [0.0, 0.0]])
    return {"protos": protos, "known": torch.tensor(known), "alpha": floats(alpha)}


@pytest.mark.parametrize("case", [*VARIANTS, Toy("fedproc")], ids=names)
def test_loss_runs_under_vmap(case):
    check_vmap(case)


@pytest.mark.thorough
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("case", VARIANTS, ids=names)
def test_conformance_of_variants(case, check):
    check(case)


# client


@pytest.mark.parametrize(("tau", "contrast"), [(1.0, 0.313262), (0.5, 0.126928)])
def test_loss_by_hand(tau, contrast):
    """Embedding (5, 0), prototypes (2, 0) and (0, 3), the third class unknown: cosines 1 and 0, so
    L_gpc = log(1 + e^(−1/τ)) for class 0. α = 1/4: 1/4 L_gpc + 3/4 log 3."""
    loss = FedProc(tau=tau).loss(identity_net(), batch(floats([[5.0, 0.0]]), [0]), view(0.25))
    assert float(loss) == pytest.approx(0.25 * contrast + 0.75 * LOG3, abs=1e-6)


def test_a_class_without_prototype_has_plain_cross_entropy():
    """α = 1: the first sample has L_gpc = log(1 + 1/e) alone, the second log 3 alone; mean of both."""
    loss = FedProc(tau=1.0).loss(identity_net(), batch(floats([[5.0, 0.0], [1.0, 1.0]]), [0, 2]), view(1.0))
    assert float(loss) == pytest.approx((0.313262 + LOG3) / 2, abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("known", [(True, True, False), (False, False, False)])
def test_awkward_embeddings_have_finite_gradients(dtype, known):
    x = torch.tensor([[0.0, 0.0], [-1.0, 0.0], [1e-30, 0.0], [2.0, 0.0], [1e6, -1e6], [0.0, 0.0]])
    x = x.to(dtype).requires_grad_()
    net = BoundNet({"model": Halves(nn.Identity(), nn.Linear(2, 3)).to(dtype)}, {})
    seen = {n: t.to(dtype) if t.is_floating_point() else t for n, t in view(0.5, known).items()}
    loss = FedProc(tau=1.0).loss(net, batch(x, [0, 0, 1, 1, 2, 2]), seen)
    (grad,) = torch.autograd.grad(loss, x)
    assert torch.isfinite(loss)
    assert torch.isfinite(grad).all()


@pytest.mark.parametrize(
    ("horizon", "round", "expected"), [(None, 1, 1.0), (None, 3, 0.5), (10, 3, 0.8), (2, 2, 0.5), (2, 9, 0.0)]
)
def test_alpha_falls_over_the_rounds(horizon, round, expected):
    """α = 1 − t/T with t = round − 1; T is the 4 rounds of the run where it is not given."""
    task = Toy("fedproc").build(rounds=4).task
    method = FedProc(horizon=horizon)
    down = method.broadcast(method.init(task, Turn(task, 0)), Turn(task, round, client=0))
    prepared = method.prepare(None, None, down, {}, Turn(task, round, client=0))
    assert float(prepared["alpha"]) == pytest.approx(expected)


# server


def aggregate(state: Global, *ups: tuple[int, Model]) -> Global:
    replies = Replies(iter([Reply(client, n, up) for client, (n, up) in enumerate(ups)]))
    return FedProc().aggregate(state, replies, None)


def upload(weight: float, mean, cls, n) -> Model:
    return Model({"model.w": floats([weight])}, floats(mean), torch.tensor(cls), torch.tensor(n))


def test_weights_by_samples_and_prototypes_by_class_counts():
    """Class 0: (10 · (1, 0) + 30 · (0, 1)) / 40 = (0.25, 0.75). Weights: (15 · 1 + 45 · 5) / 60 = 4."""
    state = Global({}, torch.zeros(3, 2, dtype=torch.float64), torch.zeros(3, dtype=torch.int64))
    one = upload(1.0, [[1.0, 0.0], [8.0, 8.0]], [0, 1], [10, 5])
    two = upload(5.0, [[0.0, 1.0]], [0], [30])
    state = aggregate(state, (15, one), (45, two))
    assert state.weights["model.w"].tolist() == [4.0]
    assert state.mean.tolist() == [[0.25, 0.75], [8.0, 8.0], [0.0, 0.0]]
    assert state.known.tolist() == [40, 5, 0]
    later = aggregate(state, (1, upload(0.0, [[2.0, 2.0]], [1], [1])))
    assert later.mean.tolist() == [[0.25, 0.75], [2.0, 2.0], [0.0, 0.0]]
    protos, cls = FedProc().prototypes(later)
    assert (protos.shape, cls.tolist()) == ((2, 2), [0, 1])


def test_the_first_round_is_federated_averaging():
    """No prototypes yet: the same weights as FedAvg after round 1, but not after round 2."""
    for rounds, same in ((1, True), (2, False)):
        runs = [Toy(method).build(rounds=rounds) for method in ("fedproc", "fedavg")]
        for run in runs:
            run.play(None)
        ours, theirs = (run.federation.state.weights["model.head.weight"] for run in runs)
        assert torch.allclose(ours, theirs, rtol=0, atol=1e-12) is same


def test_payload():
    """Down in round 2: the model (6·16 + 16 + 16·8 + 8 + 8·5 + 5 = 293) and 4 prototypes, to 6 clients."""
    records = Toy("fedproc").build(rounds=2).play(None)
    assert records[0]["down"]["params"] == 6 * 293
    assert records[1]["down"]["params"] == 6 * (293 + 4 * EMBEDDING)
    assert records[1]["up"]["params"] == 6 * 293 + 12 * EMBEDDING
    assert CLASSES == 5


# settings


def test_presets_and_wrong_options():
    official = resolve({"method": "fedproc", "preset": "official"})
    assert (official.make_method().horizon, official.train.epochs, official.train.momentum) == (100, 10, 0.9)
    assert FedProc.modes[0] == "clf"
    with pytest.raises(ConfigError, match="tau: must be greater than 0"):
        resolve({"method": "fedproc", "options": {"tau": 0}})
