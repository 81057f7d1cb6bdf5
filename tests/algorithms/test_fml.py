"""FML: mutual losses, the auxiliary model, what travels."""

import dataclasses
import math

import pytest
import torch
from fake_net import FakeNet, batch, floats, odds, says
from vmap_check import check_vmap

from protofed.algorithms.fml import Fml
from protofed.config import resolve
from protofed.core.answer import Replies, Reply
from protofed.core.errors import ConfigError
from protofed.core.record import Payload, Weights
from protofed.core.task import Group, Task, Turn
from protofed.core.train import phase_opts
from protofed.models import assign
from protofed.testing import CHECKS, Toy

OFFICIAL = {"kl_mean": "element", "detach": False}


@pytest.mark.thorough
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize(
    "toy", [Toy("fml", models="mixed"), Toy("fml", OFFICIAL, models="norm")], ids=["mixed", "official"]
)
def test_conformance(toy, check):
    check(toy)


@pytest.mark.parametrize("toy", [Toy("fml"), Toy("fml", OFFICIAL, models="mixed")], ids=["paper", "official"])
def test_loss_under_vmap(toy):
    check_vmap(toy)


def mutual(method, own, aux):
    z = floats([[0.0]])
    return method.loss(FakeNet(says(z, own), parts={"aux": says(z, aux)}), batch([0]), {})


def test_loss_by_hand():
    """p_a = (½, ½), p_g = (¼, ¾), label 0: CE_a = log 2, CE_g = log 4, KL(p_g‖p_a) = ¼·log ½ + ¾·log 3/2,
    KL(p_a‖p_g) = ½·log(4/3). With α = ¼ and β = ¾: ¼·CE_a + ¾·KL(p_g‖p_a) + ¾·CE_g + ¼·KL(p_a‖p_g)."""
    loss = mutual(Fml(alpha=0.25, beta=0.75), odds((1, 1)), odds((1, 3)))
    from_aux = 0.25 * math.log(0.5) + 0.75 * math.log(1.5)
    from_own = math.log(4 / 3) / 2
    expected = 0.25 * math.log(2) + 0.75 * from_aux + 0.75 * math.log(4) + 0.25 * from_own
    assert loss.item() == pytest.approx(expected)


def test_each_model_learns_from_its_own_loss_only():
    """α = β = ½. Own logits: ½·(p_a − onehot) + ½·(p_a − p_g) = ½·(−½, ½) + ½·(¼, −¼). Auxiliary:
    ½·(p_g − onehot) + ½·(p_g − p_a) = ½·(−¾, ¾) + ½·(−¼, ¼)."""
    own, aux = odds((1, 1)), odds((1, 3))
    grads = torch.autograd.grad(mutual(Fml(), own, aux), (own, aux))
    assert torch.allclose(grads[0], floats([[-0.125, 0.125]]))
    assert torch.allclose(grads[1], floats([[-0.5, 0.5]]))


def test_official_divides_by_the_classes_and_lets_teachers_learn():
    """KL halves with two classes. The teacher's part of the own gradient is p_c·(log(p_c/q_c) − KL)/2:
    see the derivation in test_distill: ¼·log 3 for KL(p_a‖p_g), so ½·½·(±¼·log 3) here."""
    own, aux = odds((1, 1)), odds((1, 3))
    loss = mutual(Fml(**OFFICIAL), own, aux)
    from_aux = 0.25 * math.log(0.5) + 0.75 * math.log(1.5)
    expected = (math.log(2) + math.log(4) + from_aux / 2 + math.log(4 / 3) / 4) / 2
    assert loss.item() == pytest.approx(expected)
    (grad,) = torch.autograd.grad(loss, own)
    student = 0.5 * -0.5 + 0.25 * 0.25
    assert grad[0, 0].item() == pytest.approx(student + 0.25 * math.log(3) / 4)


def test_certain_models_that_disagree_give_finite_gradients():
    own = torch.tensor([[800.0, -800.0]], requires_grad=True)
    aux = torch.tensor([[-800.0, 800.0]], requires_grad=True)
    loss = mutual(Fml(**OFFICIAL), own, aux)
    grads = torch.autograd.grad(loss, (own, aux))
    assert torch.isfinite(loss)
    assert all(torch.isfinite(g).all() for g in grads)


def test_optimisers_are_the_runs_own_with_clipping_per_model():
    task = Toy("fml").build(lr=0.05, momentum=0.5, clip=3.0).task
    phase = Fml().legs[0].phases[0]
    opts = phase_opts(task, phase, Turn(task, 1))
    assert opts["model."] == opts["aux."]
    assert (opts["aux."].lr, opts["aux."].momentum, opts["aux."].clip) == (0.05, 0.5, 10.0)
    unset = phase_opts(task, Fml(clip_each=None).legs[0].phases[0], Turn(task, 1))
    assert unset["aux."].clip == 3.0


def test_the_server_averages_without_weights():
    """(2 + 6)/2 = 4, though the second client has nine times the samples."""
    ups = [Weights({"aux.w": floats([v])}) for v in (2.0, 6.0)]
    replies = Replies(iter([Reply(0, 1, ups[0]), Reply(1, 9, ups[1])]))
    assert Fml().aggregate(Weights({}), replies, None).weights["aux.w"].item() == 4


def test_only_the_auxiliary_model_travels_and_own_models_stay():
    """The smallest of the toy's two architectures is the narrow one: 6·10 + 10 + 10·8 + 8 + 8·5 + 5 =
    203 parameters, each way, for six clients."""
    experiment = Toy("fml", models="mixed").build(rounds=1)
    (record,) = experiment.play(None)
    assert record["up"]["params"] == record["down"]["params"] == 6 * 203
    kept = experiment.federation.engine.store.get(0).kept
    assert kept
    assert all(name.startswith("model.") for name in kept)


def test_payload_of_the_specification():
    """The 4-layer CNN has 924,708 parameters: 20 clients, both directions, 36,988,320."""
    method = Fml()
    chosen = assign("htfe8", 20, (3, 32, 32), 100)

    def sketch(build):
        """Without memory for the numbers: the large models are only counted."""

        def made():
            with torch.device("meta"):
                return build()

        return made

    builders = [chosen.builders[0], *map(sketch, chosen.builders[1:])]
    groups = [Group(name, make) for name, make in zip(chosen.specs, builders)]
    task = Task(method, groups, chosen.of, 100, (512,) * len(groups))
    assert task.smallest_group() == 0
    state, buffers, total = method.init(task, Turn(task, 0)), task.names(0).buffers, Payload()
    for client in range(20):
        up, _ = method.upload(task.live(0), None, None, {}, None, Turn(task, 1, client=client))
        total = total + method.broadcast(state, Turn(task, 1, client=client)).payload(buffers)
        total = total + up.payload(buffers)
    assert total.floats == 36_988_320


def test_a_named_auxiliary_model():
    method = Fml(aux="mlp")
    task = Toy("fml").build().task
    nameless = dataclasses.replace(task, algorithm=method, make_model=None)
    with pytest.raises(ConfigError, match="aux='mlp'"):
        method.init(nameless, Turn(nameless, 0))
    task = dataclasses.replace(task, algorithm=method)
    state = method.init(task, Turn(task, 0))
    assert state.weights["aux.base.1.weight"].shape == (64, 6)


def test_rounds_without_steps_leave_the_auxiliary_model():
    """Every client sends back what it received, and six equal trees have that average."""
    experiment = Toy("fml", settings={"epochs": 0}, models="norm").build(rounds=1)
    before = experiment.federation.state.weights
    experiment.play(None)
    for name, tensor in experiment.federation.state.weights.items():
        assert torch.allclose(tensor, before[name], atol=1e-14), name


@pytest.mark.parametrize(
    ("name", "value"), [("alpha", 2), ("beta", -1), ("clip_each", 0), ("kl_mean", "sum")]
)
def test_wrong_options(name, value):
    with pytest.raises(ConfigError, match=name):
        resolve({"method": "fml", "options": {name: value}})


def test_presets():
    paper = resolve({"method": "fml"}).make_method()
    assert (paper.alpha, paper.beta, paper.clip_each, paper.detach) == (0.5, 0.5, 10.0, True)
    official = resolve({"method": "fml", "preset": "official"}).make_method()
    assert (official.kl_mean, official.detach) == ("element", False)
