"""FCCL+: agreement on public data, averages, local distillation."""

import dataclasses
import math

import pytest
import torch
from fake_net import FakeNet, batch, floats, odds, says
from vmap_check import check_vmap

from protofed.algorithms.fcclplus import FcclPlus, Knowledge, State, _standard
from protofed.config import resolve
from protofed.core.answer import Replies, Reply
from protofed.core.data import LocalData
from protofed.core.errors import ConfigError
from protofed.core.record import Nothing, Weights
from protofed.core.task import Turn
from protofed.experiment import make_task
from protofed.testing import CHECKS, Toy, toy_groups

ADAM = 1e-6  # engines differ by more than rounding where Adam divides by vanishing gradients
VARIANTS = [
    Toy("fcclplus", {"batch_public": 5}, models="mixed", tolerance=ADAM),
    Toy("fcclplus", {"average": "never"}, tolerance=ADAM),
]
SINGLE_LEG = "survives_a_failing_client"  # expects that nothing of a failed client's round was kept


@pytest.mark.thorough
@pytest.mark.parametrize("check", [c for c in CHECKS if c.__name__ != SINGLE_LEG], ids=lambda c: c.__name__)
@pytest.mark.parametrize("toy", VARIANTS, ids=["mixed", "never"])
def test_conformance(toy, check):
    check(toy)


def test_a_client_that_fails_locally_keeps_what_the_exchanges_before_gave_it():
    """Client 0 has NaN in its own data only: the public exchanges count, the local one does not."""
    experiment = Toy("fcclplus").build(rounds=2, on_failure="drop")
    data, good = experiment.data, experiment.data.train
    broken = LocalData(good(0).x * float("nan"), good(0).y)
    data.train = lambda client: broken if client == 0 else good(client)
    record = experiment.federation.play()
    assert list(record["failed"]) == ["0"]
    kept = experiment.federation.engine.store.get(0).kept
    assert all(torch.isfinite(t).all() for t in kept.values())
    healthy = Toy("fcclplus").build(rounds=2)
    healthy.federation.play()
    for name, tensor in experiment.federation.state.arrays().items():
        assert torch.equal(tensor, healthy.federation.state.arrays()[name]), name


@pytest.mark.parametrize("toy", [Toy("fcclplus"), Toy("fcclplus", {"batch_public": 5}, models="mixed")])
def test_losses_under_vmap(toy):
    check_vmap(toy)


# public loss


def public(method, z, logits, target, similar, idx=(0, 1)):
    view = {"logits": target, "similar": similar}
    return method.public_loss(FakeNet(says(z, logits)), batch([-1] * len(idx), list(idx)), view)


def test_standardised_logits():
    """Columns (1, 3) and (5, 5): (−1, 1)/√(1 + 1e-6), and zeros for the constant one."""
    found = _standard(floats([[1, 5], [3, 5]]))
    assert found[:, 0].tolist() == pytest.approx([-1 / math.sqrt(1 + 1e-6), 1 / math.sqrt(1 + 1e-6)])
    assert found[:, 1].tolist() == [0, 0]


def test_cross_correlation_by_hand():
    """Standardised own logits: columns (−1, 1) and (1, −1); averaged ones: (−1, 1) twice. M = ZᵀZ̄/2 =
    [[1, 1], [−1, −1]]: diagonal (1−1)² + (−1−1)² = 4; off it (1+1)² + (−1+1)² = 4, times 0.25."""
    own, target = floats([[0, 10], [2, 0]]), floats([[0, 0], [20, 200]])
    method = FcclPlus(off_weight=0.25, sim_weight=0.0)
    loss = public(method, torch.eye(2, dtype=torch.float64), own, target, torch.zeros(2, 1).double())
    assert loss.item() == pytest.approx(4 + 0.25 * 4, abs=1e-4)


def test_similarities_by_hand():
    """Three embeddings of any length at 0°, 60° and 180°: cosines without diagonal (½, −1), (½, −½),
    (−1, −½). With temperature 1/log 4, e^{s/temp} = 4^s: own rows ∝ (2, ¼), (2, ½), (¼, ½). The target
    similarities are 0, so (½, ½) each. KL((½,½)‖(a,b)) = −½·log(4ab): ab = ½/(9/4)², 1/(5/2)², ⅛/(¾)²."""
    angle = floats([0, 60, 180]).deg2rad()
    z = torch.stack([angle.cos(), angle.sin()], 1) * floats([[1], [3], [0.1]])
    method = FcclPlus(off_weight=0.0, sim_weight=2.0, sim_temp=1 / math.log(4))
    logits = floats([[0], [1], [2]])
    loss = public(method, z, logits, logits, torch.zeros(3, 2).double(), (0, 1, 2))
    products = (0.5 / 2.25**2, 1 / 2.5**2, 0.125 / 0.75**2)
    divergence = sum(-math.log(4 * p) / 2 for p in products) / 3
    assert loss.item() == pytest.approx(2 * divergence, abs=1e-9)


def test_agreement_costs_only_the_correlation_between_classes():
    """One class, own logits and similarities equal to the averaged ones: both terms vanish."""
    z, logits = floats([[1, 0], [0.6, 0.8]]), floats([[0], [2]])
    loss = public(FcclPlus(), z, logits, logits, floats([[0.6], [0.6]]))
    assert loss.item() == pytest.approx(0, abs=1e-5)


def test_rows_are_found_by_their_number():
    """A batch of the public rows 3 and 1 reads the averaged logits and similarities of these rows."""
    target = floats([[9], [2], [9], [0]])
    similar = floats([[9, 9], [0.6, 9], [9, 9], [0.6, 9]])
    z, logits = floats([[1, 0], [0.6, 0.8]]), floats([[0], [2]])
    loss = public(FcclPlus(), z, logits, target, similar, (3, 1))
    assert loss.item() == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("size", [1, 3])
def test_dead_models_give_finite_gradients(size):
    """All embeddings zero and all logits equal; also a batch of a single sample."""
    z = torch.zeros(size, 4, requires_grad=True)
    logits = torch.ones(size, 2, requires_grad=True)
    rows = tuple(range(size))
    loss = public(FcclPlus(), z, logits, torch.randn(size, 2), torch.zeros(size, 255), rows)
    grads = torch.autograd.grad(loss, (z, logits), allow_unused=True)
    assert torch.isfinite(loss)
    assert all(g is None or torch.isfinite(g).all() for g in grads)


# local loss


def test_local_loss_by_hand():
    """Label 0, own (1, 1, 2)/4, previous (2, 1, 1)/4: CE = log 4. Over classes 1 and 2 at T = 1: ¼·log 1 +
    ¼·log ½ = −¼·log 2."""
    z = floats([[0.0]])
    net = FakeNet(says(z, odds((1, 1, 2))), frozen=says(z, odds((2, 1, 1))))
    loss = FcclPlus(T=1.0).loss(net, batch([0]), {"previous": {}})
    assert loss.item() == pytest.approx(math.log(4) - math.log(2) / 4)


def test_the_teacher_is_the_model_of_the_previous_round():
    """In the first exchange a client stores the model with which it enters the round: in round 1 the
    initial one, in round 2 the one that local training left. The memory is empty after the round."""
    experiment = Toy("fcclplus", {"average": "never"}).build(rounds=2)
    task, method = experiment.task, experiment.task.algorithm
    turn = Turn(task, 1, "ask", 0)
    net = task.live(0)
    net.install(task.fresh(0, 0))
    up, mem = method.upload(net, None, Nothing(), {}, None, turn)
    assert isinstance(up, Knowledge)
    for name, tensor in task.fresh(0, 0).items():
        assert torch.equal(mem[f"previous/{name}"], tensor)
    view = method.prepare(net, None, Weights({}), mem, Turn(task, 1, "local", 0))
    assert torch.equal(view["previous"]["model.head.bias"], task.fresh(0, 0)["model.head.bias"])
    experiment.federation.play()
    assert experiment.federation.engine.store.get(0).mem == {}


# exchanges


def test_knowledge_covers_every_public_sample_and_pair():
    """16 public samples in batches of 5: 5, 5, 5 and 1. Pairs 3·5·4 + 0 = 60; the last sample has none.
    Rows of the table hold the cosines with the other members of the batch."""
    method = FcclPlus(batch_public=5)
    task = Toy("fcclplus", {"batch_public": 5}).build().task
    turn = Turn(task, 1, "ask", 0)
    net = task.live(0)
    net.install(task.fresh(0, 0))
    for module in net.modules.values():
        module.eval()
    with torch.no_grad():
        up, _ = method.upload(net, None, Nothing(), {}, None, turn)
        z, logits = net(task.public.x)
        table = method.prepare(net, None, up, {}, turn)["similar"]
    assert up.similar.shape == (60,)
    assert torch.allclose(up.logits, logits)
    assert table.shape == (16, 4)
    *whole, lonely = turn.public_batches(5)
    for idx in whole:
        expected = torch.nn.functional.cosine_similarity(z[idx[:1]], z[idx[1:]])
        assert torch.allclose(table[idx[0]], expected)
    assert table[lonely].abs().sum() == 0


def test_payload_counts_logits_and_similarities():
    """N = 16, C = 5, one batch: 16·(5 + 15) = 320 floats up and down; averaged models of 293 floats
    up and down as well, and with two architectures none. In round 1 the common start comes down too."""
    for models, weights in (("mlp", 293), ("mixed", 0)):
        first, second = Toy("fcclplus", models=models).build(rounds=2).play(None)
        assert first["down"]["params"] == 6 * (320 + 2 * weights)
        assert second["down"]["params"] == 6 * (320 + weights)
        assert first["up"]["params"] == second["up"]["params"] == 6 * (320 + weights)


def test_clients_of_one_architecture_start_alike():
    """New clients are sent the server's model; one that took part keeps its own."""
    experiment = Toy("fcclplus").build(sample=2)
    task, method = experiment.task, experiment.task.algorithm
    start = experiment.federation.state
    downs = [method.broadcast(start, Turn(task, 1, "ask", c)).weights for c in range(6)]
    assert all(torch.equal(d["model.head.bias"], task.fresh(0)["model.head.bias"]) for d in downs)
    record = experiment.federation.play()
    state = experiment.federation.state
    assert record["clients"] == int(state.joined.sum()) == 2
    for client in range(6):
        down = method.broadcast(state, Turn(task, 1, "eval", client)).weights
        assert (down == {}) == bool(state.joined[client])


def test_the_server_averages_knowledge_plainly_and_weights_by_samples():
    """Logits (1 + 3)/2 = 2 and similarities (0 + 1)/2, though n = 1 and 3; weights (1·4 + 3·8)/4 = 7."""
    task = Toy("fcclplus").build().task
    method = FcclPlus()
    state = State(floats([[0]]), floats([]), {}, torch.tensor([0, 0, 0]))
    ups = [Knowledge(floats([[1.0]]), floats([0.0])), Knowledge(floats([[3.0]]), floats([1.0]))]
    asked = Replies(iter([Reply(0, 1, ups[0]), Reply(1, 3, ups[1])]))
    state = method.aggregate(state, asked, Turn(task, 1, "ask"))
    assert (state.logits.item(), state.similar.item()) == (2.0, 0.5)
    assert state.joined.tolist() == [1, 1, 0]
    models = [Weights({"model.w": floats([v])}) for v in (4.0, 8.0)]
    trained = Replies(iter([Reply(0, 1, models[0]), Reply(1, 3, models[1])]))
    state = method.aggregate(state, trained, Turn(task, 1, "public"))
    assert state.weights["model.w"].item() == 7
    assert state.logits.item() == 2


def test_clients_of_one_architecture_start_local_training_from_the_average():
    experiment = Toy("fcclplus", settings={"epochs": 0}).build(rounds=1)
    experiment.play(None)
    weights = experiment.federation.state.weights
    kept = [experiment.federation.engine.store.get(c).kept for c in range(6)]
    assert all(torch.equal(tree[n], t) for tree in kept for n, t in weights.items())
    apart = Toy("fcclplus", {"average": "never"}, {"epochs": 0}).build(rounds=1)
    apart.play(None)
    one, two = (apart.federation.engine.store.get(c).kept["model.head.bias"] for c in (0, 1))
    assert not torch.equal(one, two)


def test_public_training_brings_the_clients_logits_together():
    """After public training alone the standardised logits correlate more with the average than before."""
    experiment = Toy("fcclplus", {"epochs_public": 30, "average": "never"}, {"epochs": 0}).build(rounds=2)
    task, federation = experiment.task, experiment.federation

    def agreement():
        outputs = []
        for client in range(task.clients):
            stored = federation.engine.store.get(client)
            net = task.net(0, stored.kept if stored else task.fresh(0, client))
            outputs.append(_standard(net(task.public.x)[1]))
        mean = _standard(torch.stack(outputs).mean(0))
        return torch.stack([(o * mean).mean(0).mean() for o in outputs]).mean().item()

    before = agreement()
    federation.play()
    assert agreement() > before + 0.05


# settings


def test_public_data_is_required():
    config = resolve({"method": "fcclplus"})
    groups, index = toy_groups("mlp")
    with pytest.raises(ConfigError, match="fcclplus needs a public unlabelled data set"):
        make_task(config, config.make_method(), groups, index, (6,), tuple("abcde"))


@pytest.mark.parametrize(
    ("name", "value"), [("T", 0), ("sim_temp", 0), ("batch_public", 1), ("average", "yes"), ("lr_public", -1)]
)
def test_wrong_options(name, value):
    with pytest.raises(ConfigError, match=name):
        resolve({"method": "fcclplus", "options": {name: value}})


def test_presets():
    paper = resolve({"method": "fcclplus"}).make_method()
    assert dataclasses.asdict(paper) == {
        "off_weight": 0.0051,
        "sim_weight": 3.0,
        "sim_temp": 0.02,
        "T": 3.0,
        "lr_public": 0.001,
        "epochs_public": 1,
        "batch_public": 256,
        "average": "auto",
    }
    original = resolve({"method": "fcclplus", "preset": "original"})
    assert (original.train.optimizer, original.train.lr, original.train.epochs) == ("adam", 0.001, 20)
