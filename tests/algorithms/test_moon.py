"""MOON: the contrastive term, the previous model, the projection."""

import copy
import math

import pytest
import torch
from tiny import floats
from torch import nn
from vmap_check import check_vmap

from protofed.algorithms.moon import Moon
from protofed.config import resolve
from protofed.core.data import Batch
from protofed.core.errors import ConfigError
from protofed.core.net import BoundNet, LiveNet
from protofed.core.record import Weights
from protofed.core.task import Turn
from protofed.models.base import Model
from protofed.testing import CHECKS, EMBEDDING, Toy, assert_close, assert_equal

VARIANTS = [
    Toy("moon", {"project": False, "mu": 1.0}),
    Toy("moon", {"project": False, "params_only": True, "mu": 1.0}, models="norm"),
    Toy("moon", {"project": False, "others": "train", "mu": 1.0}, models="norm"),
]
IDENTITY = [[1.0, 0.0], [0.0, 1.0]]
QUARTER_TURN = [[0.0, -1.0], [1.0, 0.0]]  # (1, 0) becomes (0, 1)


@pytest.mark.thorough
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("case", VARIANTS, ids=["mlp", "norm", "train"])
def test_conformance_of_variants(case, check):
    check(case)


@pytest.mark.parametrize("models", ["mlp", "norm"])
@pytest.mark.parametrize("project", [True, False])
def test_loss_runs_under_vmap(models, project):
    check_vmap(Toy("moon", {"project": project}, models=models))


def tensors(base):
    return {"model.base.weight": floats(base), "model.head.weight": torch.zeros(2, 2, dtype=torch.float64)}


def term(method, now, received, previous, x):
    """What the loss adds to the cross-entropy (log 2: the head is 0), and its gradient at the base."""
    model = Model(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)).double()
    bound = {name: tensor.requires_grad_() for name, tensor in tensors(now).items()}
    net = BoundNet({"model": model}, bound)
    mem = {f"prev/{n}": t for n, t in tensors(previous).items()} if previous else {}
    view = method.prepare(net, None, Weights(tensors(received)), mem, None)
    batch = Batch(floats(x), torch.zeros(len(x), dtype=torch.int64), torch.arange(len(x)), floats(1.0), {})
    loss = method.loss(net, batch, view)
    (grad,) = torch.autograd.grad(loss, bound["model.base.weight"])
    return loss.item() - math.log(2), grad


def test_the_term_by_hand():
    """u = (1, 0); the received model gives (1, 0), the previous one (0, 1): cosines 1 and 0. τ = 0.5:
    −log(e² / (e² + 1)) = log(1 + e⁻²) = 0.126928; μ = 5 gives 0.634640."""
    value, _ = term(Moon(project=False), IDENTITY, IDENTITY, QUARTER_TURN, [[1.0, 0.0]])
    assert value == pytest.approx(5 * 0.126928, abs=1e-5)


def test_the_other_way_round():
    """Received and previous swapped: log(1 + e²) = 2.126928."""
    value, _ = term(Moon(project=False, mu=1.0), IDENTITY, QUARTER_TURN, IDENTITY, [[1.0, 0.0]])
    assert value == pytest.approx(2.126928, abs=1e-6)


def test_temperature():
    """τ = 1: log(1 + e⁻¹) = 0.313262."""
    value, _ = term(Moon(project=False, mu=1.0, tau=1.0), IDENTITY, IDENTITY, QUARTER_TURN, [[1.0, 0.0]])
    assert value == pytest.approx(0.313262, abs=1e-6)


def test_first_participation_gives_log_2_and_no_gradient():
    """Without a previous model both cosines are equal, whatever the current model."""
    x = [[1.0, 0.0], [0.3, -2.0], [5.0, 1.0]]
    value, grad = term(Moon(project=False, mu=1.0), [[2.0, 1.0], [0.0, 1.0]], IDENTITY, None, x)
    assert value == pytest.approx(math.log(2))
    assert grad.abs().max() < 1e-15


def test_a_zero_embedding_has_similarity_0_and_a_finite_gradient():
    """x = 0 makes all embeddings 0: cosines 0, the term log 2."""
    value, grad = term(Moon(project=False, mu=1.0), IDENTITY, IDENTITY, QUARTER_TURN, [[0.0, 0.0]])
    assert value == pytest.approx(math.log(2))
    assert torch.isfinite(grad).all()


def test_the_previous_model_is_the_one_that_left_training():
    experiment = Toy("moon").build(rounds=1)
    experiment.play(None)
    task, federation = experiment.task, experiment.federation
    mem = federation.engine.store.get(0).mem
    assert {name.removeprefix("prev/") for name in mem} == set(task.names(0).all)
    net = task.live(0)
    view = task.algorithm.prepare(net, None, federation.state, mem, Turn(task, 2, client=0))
    assert_equal(view["previous"], {n.removeprefix("prev/"): t for n, t in mem.items()})
    assert view["received"]["model.head.weight"] is federation.state.weights["model.head.weight"]


def test_the_first_round_equals_fedavg():
    """Log 2 has no gradient: after one round both have the same weights."""
    one, two = Toy("moon", {"project": False}).build(), Toy("fedavg").build()
    for experiment in (one, two):
        experiment.federation.play()
    assert_close(one.federation.state.arrays(), two.federation.state.arrays(), 1e-12)
    one.federation.play()
    two.federation.play()
    gap = (
        one.federation.state.weights["model.base.0.weight"]
        - two.federation.state.weights["model.base.0.weight"]
    )
    assert gap.abs().max() > 1e-6  # from the second round on the term acts


def test_the_projection_is_shared_and_sent():
    """Linear(D, D) and Linear(D, 256) with D = 8: 72 + 2,304 = 2,376 numbers more than FedAvg."""
    assert EMBEDDING == 8
    sent = {}
    for name, toy in {
        "moon": Toy("moon"),
        "plain": Toy("moon", {"project": False}),
        "fedavg": Toy("fedavg"),
    }.items():
        sent[name] = toy.build().federation.play()["up"]["params"] / 6
    assert sent["moon"] - sent["fedavg"] == 2376
    assert sent["plain"] == sent["fedavg"]


def test_the_previous_model_of_absent_clients_stays():
    """Two of six clients a round: who took part in the first round but not in the second keeps its memory."""
    experiment = Toy("moon").build(sample=2, rounds=2)
    store = experiment.federation.engine.store
    experiment.federation.play()
    before = {client: store.get(client).mem for client in store}
    store.changed.clear()
    experiment.federation.play()
    absent = before.keys() - store.changed
    assert absent
    for client in absent:
        assert_equal(before[client], store.get(client).mem)
    for client in store.changed & before.keys():
        assert not torch.equal(
            before[client]["prev/model.head.bias"], store.get(client).mem["prev/model.head.bias"]
        )


def test_presets_and_errors():
    paper = resolve({"method": "moon"}).make_method()
    assert (paper.mu, paper.tau, paper.project) == (5.0, 0.5, True)
    plcc = resolve({"method": "moon", "preset": "plcc"}).make_method()
    assert (plcc.project, plcc.others) == (False, "train")
    with pytest.raises(ConfigError, match="tau: must be greater than 0"):
        resolve({"method": "moon", "options": {"tau": 0}})


def test_others_in_train_mode_see_statistics_of_the_batch():
    """A base that is BatchNorm alone, samples 1 and 3. In train mode every model gives −1 and 1, whatever its
    running mean; in eval mode a mean of 4 gives −3 and −1: only the current model differs. The head is 0."""
    model = Model(nn.BatchNorm1d(1, affine=False, eps=1e-12), nn.Linear(1, 2, bias=False)).double()
    live, frozen = model, copy.deepcopy(model).eval()
    nn.init.zeros_(live.head.weight)
    net = LiveNet({"model": live}, {"model": frozen})
    given = {**net.tensors(), "model.base.running_mean": floats([4.0])}
    view = {"received": net.tensors(), "previous": given}
    batch = Batch(floats([[1.0], [3.0]]), torch.tensor([0, 0]), torch.arange(2), floats(1.0), {})
    kept = {name: tensor.clone() for name, tensor in given.items()}
    live.train()
    terms = [Moon(project=False, mu=1.0, others=mode).loss(net, batch, view) for mode in ("train", "eval")]
    assert terms[0].item() == pytest.approx(2 * math.log(2))  # both cosines are 1
    # eval: the received model (mean 0) gives cosines −1, 1; the previous one 1, −1
    expected = (math.log(1 + math.exp(4)) + math.log(1 + math.exp(-4))) / 2
    assert terms[1].item() == pytest.approx(math.log(2) + expected)
    assert_equal(given, kept)
