"""FedKD: adaptive losses, compression of both directions, versions of the auxiliary model."""

import dataclasses
import math

import pytest
import torch
from fake_net import FakeNet, batch, floats, odds, says
from vmap_check import check_vmap

from protofed.algorithms.fedkd import SMALLEST_SCALE, FedKD, Packed, State
from protofed.config import resolve
from protofed.core.answer import Replies, Reply
from protofed.core.errors import ConfigError
from protofed.core.task import Group, Turn
from protofed.core.train import phase_opts
from protofed.models import assign
from protofed.ops.distill import auxiliary_group
from protofed.ops.lowrank import unpack
from protofed.testing import CHECKS, Toy

OFFICIAL = {"compress": "params", "rank": "reference", "t_end": 0.98, "kl_mean": "element", "detach": False}
VARIANTS = [Toy("fedkd", OFFICIAL, models="mixed"), Toy("fedkd", {"t_start": 0.5}, models="mixed")]


@pytest.mark.thorough
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("toy", VARIANTS, ids=["official", "delta"])
def test_conformance(toy, check):
    check(toy)


@pytest.mark.parametrize("options", [{}, OFFICIAL], ids=["paper", "official"])
def test_loss_under_vmap(options):
    check_vmap(Toy("fedkd", options))


# loss


def mutual(method, own, aux, z_own, z_aux, W):
    parts = {"aux": says(z_aux, aux), "proj": lambda z: z @ W.T}
    return method.loss(FakeNet(says(z_own, own), parts=parts), batch([0]), {})


def example():
    """p_a = (½, ½), p_g = (¼, ¾), label 0; z_a = (1, 2), W_h z_g = diag(3, 1)·(1, 1) = (3, 1)."""
    z_own, z_aux = floats([[1, 2]]).requires_grad_(), floats([[1, 1]]).requires_grad_()
    return odds((1, 1)), odds((1, 3)), z_own, z_aux, floats([[3, 0], [0, 1]]).requires_grad_()


S = math.log(2) + math.log(4)  # CE_a + CE_g of the example
FROM_AUX = 0.25 * math.log(0.5) + 0.75 * math.log(1.5)  # KL(p_g ‖ p_a)
FROM_OWN = math.log(4 / 3) / 2  # KL(p_a ‖ p_g)
MSE = (2**2 + 1**2) / 2  # between (1, 2) and (3, 1)


def test_loss_by_hand():
    """L_a + L_g = CE_a + CE_g + (KL(p_g‖p_a) + KL(p_a‖p_g) + 2·MSE)/s, s = CE_a + CE_g = log 8, MSE = 2.5."""
    loss = mutual(FedKD(), *example())
    assert loss.item() == pytest.approx(S + (FROM_AUX + FROM_OWN + 2 * MSE) / S)


def test_gradients_with_constant_teachers():
    """d MSE/d z_a = (z_a − W z_g) = (−2, 1)/s, once; d/d z_g = Wᵀ(W z_g − z_a) = (6, −1)/s, once; W_h
    learns from both losses: 2·(W z_g − z_a) z_gᵀ/s = 2·[[2, 2], [−1, −1]]/s. Own logits:
    (p_a − onehot) + (p_a − p_g)/s."""
    own, aux, z_own, z_aux, W = example()
    grads = torch.autograd.grad(mutual(FedKD(), own, aux, z_own, z_aux, W), (z_own, z_aux, W, own))
    assert torch.allclose(grads[0], floats([[-2, 1]]) / S)
    assert torch.allclose(grads[1], floats([[6, -1]]) / S)
    assert torch.allclose(grads[2], 2 * floats([[2, 2], [-1, -1]]) / S)
    assert torch.allclose(grads[3], floats([[-0.5, 0.5]]) + floats([[0.25, -0.25]]) / S)


def test_official_gradients_run_everywhere():
    """Embeddings learn from both losses: twice the gradient. s is not constant: with element-mean KL
    (half of each), d/d own logits has −(½·KLs + 2·MSE)/s²·(p_a − onehot) beside the teacher's part."""
    own, aux, z_own, z_aux, W = example()
    method = FedKD(**OFFICIAL)
    loss = mutual(method, own, aux, z_own, z_aux, W)
    extra = (FROM_AUX + FROM_OWN) / 2 + 2 * MSE
    assert loss.item() == pytest.approx(S + extra / S)
    grads = torch.autograd.grad(loss, (z_own, z_aux, own))
    assert torch.allclose(grads[0], 2 * floats([[-2, 1]]) / S)
    assert torch.allclose(grads[1], 2 * floats([[6, -1]]) / S)
    as_student, as_teacher = 0.25 / 2, math.log(3) / 4 / 2
    expected = -0.5 + 0.5 * extra / S**2 + (as_student + as_teacher) / S
    assert grads[2][0, 0].item() == pytest.approx(expected)


@pytest.mark.parametrize("options", [{}, OFFICIAL], ids=["paper", "official"])
def test_a_vanishing_scale_does_not_divide_by_zero(options):
    """Both models are certain and right: CE = 0 exactly, s is raised to 1e-6, loss and gradients are
    finite."""
    own = torch.tensor([[2000.0, 0.0]], requires_grad=True)
    aux = torch.tensor([[3000.0, 0.0]], requires_grad=True)
    z = torch.ones(1, 2, requires_grad=True)
    loss = mutual(FedKD(**options), own, aux, z, z.detach(), 2 * torch.eye(2))
    assert loss.item() == pytest.approx(2 * 1.0 / SMALLEST_SCALE)
    assert all(torch.isfinite(g).all() for g in torch.autograd.grad(loss, (own, aux, z)))


def test_optimisers():
    task = Toy("fedkd").build(lr=0.05).task
    phase = FedKD(lr_g=0.3).legs[0].phases[0]
    opts = phase_opts(task, phase, Turn(task, 1))
    assert (opts["model."].lr, opts["proj."].lr, opts["aux."].lr) == (0.05, 0.05, 0.3)
    assert {opts[p].clip for p in ("model.", "proj.", "aux.")} == {10.0}
    assert FedKD(clip_each=None).legs[0].phases[0].opts["model."] == {}


# compression


def test_the_share_of_energy_moves_over_the_rounds():
    """0.9 → 0.98 over 4 rounds: 0.9 before the first, 0.92, 0.94, 0.96, 0.98."""
    task = Toy("fedkd").build(rounds=4).task
    method = FedKD(t_start=0.9, t_end=0.98)
    shares = [method.energy(Turn(task, round)) for round in range(5)]
    assert shares == pytest.approx([0.9, 0.92, 0.94, 0.96, 0.98])


def test_released_code_counts_rounds_from_0_and_sends_the_first_model_whole():
    """0.9, 0.92, 0.94, 0.96 in rounds 1 to 4; what goes down first is the model, bit for bit."""
    run = Toy("fedkd", OFFICIAL).build(rounds=4)
    method = FedKD(t_start=0.9, t_end=0.98, rank="reference")
    shares = [method.energy(Turn(run.task, round)) for round in range(1, 5)]
    assert shares == pytest.approx([0.9, 0.92, 0.94, 0.96])
    start = {n: t for n, t in run.task.fresh(0).items() if n.startswith("aux.")}
    assert run.federation.state.factors.keys() == start.keys()
    assert all(torch.equal(run.federation.state.factors[n], t) for n, t in start.items())


@pytest.mark.parametrize("method", ["fml", "fedkd"])
def test_the_auxiliary_model_may_start_as_clients_of_its_architecture(method):
    """aux_start=model with init=common: that of the smallest group; an architecture of nobody's is drawn."""
    run = Toy(method, {"aux_start": "model"}, {"init": "common"}, models="mixed").build()
    task, state = run.task, run.federation.state
    found = state.weights or state.factors
    smallest = task.smallest_group()
    client = task.group_index.tolist().index(smallest)
    start = task.fresh(smallest, client)
    assert all(torch.equal(found[f"aux.{n[6:]}"], t) for n, t in start.items() if n.startswith("model."))
    assert auxiliary_group(task, "cnn4") is None
    own = Toy(method, {}, {"init": "common"}, models="mixed").build().federation.state
    assert not torch.equal((own.weights or own.factors)["aux.head.weight"], found["aux.head.weight"])


@pytest.mark.parametrize("method", ["fml", "fedkd"])
def test_a_common_start_that_no_client_has_is_told(method):
    """aux_start=model with init=own: the weights are no client's. Nothing is said with init=common, of a
    start of its own, or of an architecture that no client has."""
    task = Toy(method, {"aux_start": "model"}, models="mixed").build().task
    (line,) = task.algorithm.idle(task)
    assert line.startswith(f"aux_start: model is of no use to {method} with init own")
    assert line.endswith("set init to common, or aux_start to own")
    group = task.smallest_group()
    aux = task.algorithm.first_aux(task)["aux.head.weight"]
    of_it = [client for client in range(task.clients) if task.group_of(client) == group]
    assert not any(torch.equal(task.fresh(group, client)["model.head.weight"], aux) for client in of_it)
    common = Toy(method, {"aux_start": "model"}, {"init": "common"}, models="mixed").build().task
    assert list(common.algorithm.idle(common)) == []
    for options in ({"aux_start": "own"}, {"aux_start": "model", "aux": "cnn4"}):
        assert list(dataclasses.replace(task.algorithm, **options).idle(task)) == []


def plane(method):
    """A task with an auxiliary model that has a 20×20 matrix, and an update of that matrix with
    singular values 3 and 1 (energies 9 and 1 of 10)."""
    task = Toy("fedkd").build().task
    build = assign("mlp:hidden=20,dim=20", 1, (20,), 20).builders[0]
    task = dataclasses.replace(
        task, algorithm=method, groups=[Group("square", build)], num_classes=20, embed_dims=(20,)
    )
    change = torch.zeros(20, 20, dtype=torch.float64)
    change[0, 0], change[1, 1] = 3.0, 1.0
    return task, change


NAME = "aux.base.1.weight"


def zeros_like_aux(task):
    return {n: torch.zeros_like(t) for n, t in task.fresh(0).items() if n.startswith("aux.")}


def test_updates_travel_up_with_r_times_m_plus_n_plus_1_floats():
    """e = 0.9: the first singular value holds 9/10 of the energy, r = 1: 41 floats for 400. The other
    matrices did not change: zeros travel raw, as do biases."""
    method = FedKD(t_start=0.9, t_end=0.9)
    task, change = plane(method)
    net, start = task.live(0), task.fresh(0)
    net.install({**start, NAME: start[NAME] + change})
    ran = type("Ran", (), {"start": start})()
    up, _ = method.upload(net, None, None, {}, ran, Turn(task, 1, client=0))
    assert sum(t.numel() for n, t in up.factors.items() if n.startswith(NAME)) == 41
    assert up.factors["aux.head.weight"].shape == (20, 20)
    assert up.factors["aux.head.weight"].abs().sum() == 0
    back = unpack(up.factors, zeros_like_aux(task))[NAME]
    assert back[0, 0].item() == pytest.approx(3)
    assert back.abs().sum().item() == pytest.approx(3, abs=1e-9)


def test_the_server_adds_the_compressed_average_without_weights():
    """Updates diag(3, 1) and diag(5, 1) of clients with 1 and 9 samples: average diag(4, 1), energies
    16 and 1 of 17. At e = 0.9 only 4 remains, and that is what server and clients add."""
    method = FedKD(t_start=0.9, t_end=0.9)
    task, change = plane(method)
    state = method.init(task, Turn(task, 0))
    ups = [{**zeros_like_aux(task), NAME: change}, {**zeros_like_aux(task), NAME: change.clone()}]
    ups[1][NAME][0, 0] = 5.0
    replies = Replies(iter([Reply(0, 1, Packed(ups[0])), Reply(3, 9, Packed(ups[1]))]))
    new = method.aggregate(state, replies, Turn(task, 1))
    moved = new.weights[NAME] - state.weights[NAME]
    assert moved[0, 0].item() == pytest.approx(4)
    assert moved.abs().sum().item() == pytest.approx(4, abs=1e-9)
    assert new.holds.tolist() == [1, 0, 0, 1, 0, 0]
    assert new.factors[f"{NAME}/s"].tolist() == pytest.approx([4])


def test_a_client_that_missed_a_round_is_sent_the_model_whole():
    weights, factors = {"aux.w": floats([1.0])}, {"aux.w": floats([0.5])}
    state = State(factors, weights, torch.tensor([1, 0]))
    task = Toy("fedkd").build().task
    up_to_date, late = (FedKD().broadcast(state, Turn(task, 2, client=c)) for c in (0, 1))
    assert up_to_date.factors is factors
    assert not up_to_date.weights
    assert late.weights is weights
    assert not late.factors


def test_weights_travel_as_factors_from_the_start():
    """compress=params: every download and upload holds the compressed weights themselves."""
    experiment = Toy("fedkd", {"compress": "params", "t_start": 0.5, "t_end": 0.5}).build(rounds=2)
    state, task = experiment.federation.state, experiment.task
    assert any(name.endswith("/s") for name in state.factors)
    assert not state.weights
    loaded = FedKD(compress="params").load(
        {}, FedKD(compress="params").broadcast(state, Turn(task, 1, client=0)), Turn(task, 1, client=0)
    )
    lost = loaded["aux.base.0.weight"] - task.fresh(0)["aux.base.0.weight"]
    assert 0 < lost.square().sum() <= 0.5 * task.fresh(0)["aux.base.0.weight"].square().sum() + 1e-9


@pytest.mark.parametrize("settings", [{}, {"sample": 2}, {"sample": 3, "stragglers": 0.5}])
def test_clients_and_server_hold_the_same_auxiliary_model(settings):
    """However often a client took part: what it would load now is the server's model, bit for bit."""
    experiment = Toy("fedkd", {"t_start": 0.6}, {"rounds": 5, **settings}, models="norm").build()
    federation, task = experiment.federation, experiment.task
    for _ in range(5):
        federation.play()
        for client in range(task.clients):
            turn = Turn(task, federation.round + 1, client=client)
            stored = federation.engine.store.get(client)
            tensors = stored.kept if stored else task.fresh(0, client)
            loaded = task.algorithm.load(tensors, task.algorithm.broadcast(federation.state, turn), turn)
            for name, tensor in federation.state.weights.items():
                assert torch.equal(loaded[name], tensor), (federation.round, client, name)


def test_payload_of_the_first_and_of_later_rounds():
    """Toy model 6→16→8→5: 6·16 + 16 + 16·8 + 8 + 8·5 + 5 = 293 parameters go down whole in round 1.
    Later rounds and uploads are never larger."""
    first, second = Toy("fedkd", {"t_start": 0.3, "t_end": 0.3}).build(rounds=2).play(None)
    assert first["down"]["params"] == 6 * 293
    assert first["up"]["params"] < 6 * 293
    assert second["down"]["params"] < 6 * 293


def test_private_parts_stay():
    experiment = Toy("fedkd").build(rounds=1)
    experiment.play(None)
    kept = experiment.federation.engine.store.get(0).kept
    assert {name.split(".")[0] for name in kept} == {"model", "proj", "ref"}
    assert not torch.equal(kept["proj.weight"], experiment.task.fresh(0, 0)["proj.weight"])


# settings and hazards


@pytest.mark.parametrize("compress", ["delta", "params"])
def test_rounds_without_steps(compress):
    """Updates are zero and travel raw; the auxiliary model stays."""
    experiment = Toy("fedkd", {"compress": compress}, {"epochs": 0}, models="norm").build(rounds=2)
    before = experiment.federation.state.weights
    experiment.play(None)
    for name, tensor in experiment.federation.state.weights.items():
        assert torch.equal(tensor, before[name]), name
    assert all(torch.isfinite(t).all() for t in experiment.federation.state.arrays().values())


def test_a_named_auxiliary_model_with_embeddings_of_another_size():
    """W_h maps from the auxiliary model's embedding (mlp: 32) to the client's (8)."""
    method = FedKD(aux="mlp")
    task = dataclasses.replace(
        Toy("fedkd").build().task,
        algorithm=method,
        make_model=lambda written: assign(written, 1, (6,), 5).builders[0](),
    )
    assert task.fresh(0)["proj.weight"].shape == (8, 32)


@pytest.mark.parametrize(
    ("name", "value"), [("t_start", 0), ("t_end", 1.5), ("compress", "all"), ("rank", "two"), ("lr_g", 0)]
)
def test_wrong_options(name, value):
    with pytest.raises(ConfigError, match=name):
        resolve({"method": "fedkd", "options": {name: value}})


def test_presets():
    paper = resolve({"method": "fedkd"}).make_method()
    assert (paper.t_start, paper.t_end, paper.lr_g, paper.compress) == (0.95, 0.95, 0.01, "delta")
    official = resolve({"method": "fedkd", "preset": "official"}).make_method()
    assert dataclasses.asdict(official).items() >= OFFICIAL.items()
