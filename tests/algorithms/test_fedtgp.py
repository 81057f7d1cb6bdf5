"""FedTGP: client loss, what travels, server step, options. The server's maths: tests/ops."""

import math

import pytest
import torch
from torch import nn
from vmap_check import check_vmap

from protofed.algorithms.fedtgp import FedTGP
from protofed.config import resolve
from protofed.core.algorithm import Ran
from protofed.core.answer import Replies, Reply
from protofed.core.data import Batch, LocalData
from protofed.core.errors import ConfigError
from protofed.core.net import BoundNet
from protofed.core.task import Turn
from protofed.models.base import Model
from protofed.ops import tgp_server
from protofed.ops.prototypes import Protos
from protofed.testing import CHECKS, CLASSES, EMBEDDING, Toy

FAST = {"server_epochs": 10}
VARIANTS = [
    Toy("fedtgp", {"level": "sample", "distance": "mse", "lam": 10.0, "proto_pass": "pre", **FAST}),
    Toy("fedtgp", {"margin": "none", "process": False, "server_batch": None, **FAST}),
    Toy("fedtgp", {"margin": "fixed", "tau": 1.0, "send_initial": True, **FAST}),
    Toy("fedtgp", FAST, models="mixed"),
]
EVERY_LOSS = [*VARIANTS, Toy("fedtgp"), Toy("fedtgp", models="norm"), Toy("fedtgp", {"distance": "l2sq"})]


def identity_net() -> BoundNet:
    """Embedding = input [·, 2]; logits 0 for 3 classes, so that cross-entropy is log 3."""
    model = Model(nn.Identity(), nn.Linear(2, 3)).double()
    nn.init.zeros_(model.head.weight)
    nn.init.zeros_(model.head.bias)
    return BoundNet({"model": model}, {f"model.{n}": t for n, t in model.state_dict().items()})


def batch(x, y) -> Batch:
    x, y = torch.tensor(x, dtype=torch.float64), torch.tensor(y)
    return Batch(x, y, torch.arange(len(y)), torch.tensor(1.0), {})


BATCH = batch([[1.0, 0.0], [3.0, 0.0], [0.0, 2.0]], [0, 0, 2])
PROTOS = torch.tensor([[2.0, 4.0], [9.0, 9.0], [0.0, 0.0]], dtype=torch.float64)
KNOWN = torch.ones(3, dtype=torch.bool)


@pytest.mark.parametrize(
    "case", EVERY_LOSS, ids=lambda c: "-".join([c.models, *map(str, c.options.values())])
)
def test_loss_runs_under_vmap(case):
    check_vmap(case)


@pytest.mark.thorough
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("case", VARIANTS, ids=lambda c: "-".join([c.models, *map(str, c.options.values())]))
def test_conformance_of_variants(case, check):
    check(case)


# client


def test_loss_compares_batch_means():
    """Class 0: mean (2, 0), G (2, 4): distance 4. Class 2: (0, 2) and (0, 0): 2. Mean over the two
    classes of the batch: 3. L = log 3 + 0.1·3."""
    loss = FedTGP().loss(identity_net(), BATCH, {"protos": PROTOS, "known": KNOWN})
    assert float(loss) == pytest.approx(math.log(3) + 0.3)


def test_loss_of_the_released_code():
    """Mean squares over D = 2: (1 + 16)/2, (1 + 16)/2, (0 + 4)/2; batch mean 19/3; times λ = 10."""
    official = resolve({"method": "fedtgp", "preset": "official"}).make_method()
    loss = official.loss(identity_net(), BATCH, {"protos": PROTOS, "known": KNOWN})
    assert float(loss) == pytest.approx(math.log(3) + 10 * 19 / 3)


@pytest.mark.parametrize("level", ["class", "sample"])
def test_no_prototypes_no_term(level):
    view = {"protos": torch.zeros(3, 2, dtype=torch.float64), "known": torch.zeros(3, dtype=torch.bool)}
    loss = FedTGP(level=level).loss(identity_net(), BATCH, view)
    assert float(loss) == pytest.approx(math.log(3))


def test_a_batch_mean_on_its_prototype_has_finite_gradients():
    x = torch.tensor([[2.0, 4.0]], dtype=torch.float64, requires_grad=True)
    one = BATCH._replace(x=x, y=torch.tensor([0]))
    loss = FedTGP().loss(identity_net(), one, {"protos": PROTOS, "known": KNOWN})
    (grad,) = torch.autograd.grad(loss, x)
    assert torch.isfinite(grad).all()


@pytest.mark.parametrize("proto_pass", ["post", "pre"])
def test_upload_is_of_the_model_after_or_before_training(proto_pass):
    """Embedding = scale · input. Class means of the inputs: (2, 0) and (0, 2); scale 1 before, 3 after."""
    task = Toy("fedtgp").build().task
    turn = Turn(task, 1, client=0)
    data = LocalData(BATCH.x, BATCH.y)
    net = identity_net()
    method = FedTGP(proto_pass=proto_pass)
    before = method.before(net, data, None, {}, turn)
    net.modules["model"].base = nn.Linear(2, 2, bias=False).double()
    net.bound = {**net.bound, "model.base.weight": 3 * torch.eye(2, dtype=torch.float64)}
    with torch.no_grad():
        up, mem = method.upload(net, data, None, {}, Ran(1, 0.1, {}, {}, before, {}), turn)
    scale = 3 if proto_pass == "post" else 1
    assert up.cls.tolist() == [0, 2]
    assert (up.mean / scale).tolist() == [[2, 0], [0, 2]]
    assert mem["n"].tolist() == [2, 0, 1, 0, 0]


# server


def replies(*uploads) -> Replies:
    return Replies(iter([Reply(client, 1, Protos(mean, torch.tensor(cls))) for client, mean, cls in uploads]))


def test_round_one_sends_nothing_unless_asked():
    for send_initial in (False, True):
        task = Toy("fedtgp", {"send_initial": send_initial}).build().task
        state = task.algorithm.init(task, Turn(task, 0))
        down = task.algorithm.broadcast(state, Turn(task, 1, client=0))
        assert down.cls.tolist() == (list(range(CLASSES)) if send_initial else [])
        assert task.algorithm.prototypes(state)[0].shape == (CLASSES * send_initial, EMBEDDING)


def test_server_step_trains_on_uploads_in_the_order_of_clients():
    """The state is what `tgp_server.train` makes of the rows of clients 1 and 4, whatever came first."""
    task = Toy("fedtgp", {"server_epochs": 3, "margin": "pairwise_max"}).build().task
    method, turn = task.algorithm, Turn(task, 1)
    state = method.init(task, Turn(task, 0))
    rows = torch.randn(3, EMBEDDING, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    after = method.aggregate(state, replies((4, rows[2:], [3]), (1, rows[:2], [0, 3])), turn)
    cls = torch.tensor([0, 3, 3])
    delta = float((rows[0] - (rows[1] + rows[2]) / 2).norm())
    expected = tgp_server.train(
        state.trained, rows, cls, delta, 3, 10, 0.01, turn.generator("server batches")
    )
    for name, tensor in expected.items():
        assert torch.allclose(after.trained[name], tensor, rtol=0, atol=1e-12)
    assert torch.equal(after.mean, tgp_server.prototypes(after.trained))


def test_every_class_has_a_prototype_after_training():
    """Class 4 belongs to nobody; its prototype exists, is sent, and may be predicted."""
    experiment = Toy("fedtgp").build(rounds=1)
    experiment.play(None)
    protos, cls = experiment.task.algorithm.prototypes(experiment.federation.state)
    assert cls.tolist() == [0, 1, 2, 3, 4]
    assert torch.isfinite(protos).all()


def test_payload_is_classes_times_embedding():
    """Up 8 floats for each of the 2 + 2 + 1 + 3 + 2 + 2 = 12 owned classes, no counts; down 5 × 8 to
    each of 6 clients, from round 2."""
    records = Toy("fedtgp").build(rounds=2).play(None)
    assert records[1]["up"]["params"] == 12 * EMBEDDING
    assert records[0]["down"]["params"] == 0
    assert records[1]["down"]["params"] == 6 * CLASSES * EMBEDDING
    assert records[1]["up"]["meta_bytes"] == 12 * 8


def test_without_f_the_vectors_are_the_prototypes():
    task = Toy("fedtgp", {"process": False}).build().task
    state = task.algorithm.init(task, Turn(task, 0))
    assert torch.equal(state.mean, state.trained["E"])
    assert state.mean is not state.trained["E"]


# settings


def test_presets_and_modes():
    config = resolve({"method": "fedtgp", "preset": "paper"})
    method = config.make_method()
    assert (method.lam, method.tau, method.server_epochs, method.server_batch) == (0.1, 100.0, 100, 10)
    assert (config.train.batch_size, config.train.lr, config.train.momentum) == (10, 0.01, 0.0)
    assert FedTGP.modes[0] == "gp_all"
    official = resolve({"method": "fedtgp", "preset": "official"}).make_method()
    assert (official.lam, official.level, official.proto_pass) == (10.0, "sample", "pre")


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [("margin", "maximum", "margin"), ("tau", -1, "at least 0"), ("server_batch", 0, "at least 1")],
)
def test_wrong_options_are_refused(option, value, words):
    with pytest.raises(ConfigError, match=words):
        resolve({"method": "fedtgp", "options": {option: value}})
