"""FedDistill: distillation term, what is collected and averaged, leave-one-out, stale classes."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from vmap_check import check_vmap

from protofed.algorithms.feddistill import FedDistill, Global, Logits
from protofed.config import resolve
from protofed.core.algorithm import Ran
from protofed.core.answer import Replies, Reply
from protofed.core.data import Batch, LocalData
from protofed.core.errors import ConfigError
from protofed.core.net import BoundNet
from protofed.core.task import Turn
from protofed.models.base import Model
from protofed.testing import CHECKS, CLASSES, Toy

VARIANTS = [
    Toy("feddistill", {"leave_one_out": True}),
    Toy("feddistill", {"leave_one_out": True, "stale": "drop"}, models="norm"),
    Toy("feddistill", {"stale": "drop"}, models="mixed"),
]
EVERY_LOSS = [*VARIANTS, Toy("feddistill"), Toy("feddistill", {"raw_target": True})]
TWO_CLASSES = SimpleNamespace(C=2)  # all that `prepare` reads of a task
NET = BoundNet({"model": Model(nn.Identity(), nn.Identity())}, {})  # the logits are the input
LOG3 = math.log(3)


def names(case: Toy) -> str:
    return "-".join([case.models, *map(str, case.options)])


def floats(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def batch(x, y) -> Batch:
    return Batch(floats(x), torch.tensor(y), torch.arange(len(y)), floats(1.0), {})


def turn(round: int = 1, client: int | None = None) -> Turn:
    return Turn(Toy("feddistill").build().task, round, client=client)


def rows(mean, cls) -> Logits:
    """Rows of 5 logits, the given numbers first."""
    padded = [[*row, *[0.0] * (CLASSES - len(row))] for row in mean]
    return Logits(floats(padded), torch.tensor(cls))


def start(method: FedDistill) -> Global:
    at = turn(0)
    return method.init(at.task, at)


def received(*ups: tuple[int, Logits]) -> Replies:
    return Replies(iter([Reply(client, 1, up) for client, up in ups]))


FIRST = ((0, rows([[2, 0]], [0])), (1, rows([[4, 2], [7, 7]], [0, 2])))


def table(down: Logits) -> dict[int, list[float]]:
    return {int(c): row[:2].tolist() for c, row in zip(down.cls, down.mean)}


@pytest.mark.parametrize("case", EVERY_LOSS, ids=names)
def test_loss_runs_under_vmap(case):
    check_vmap(case)


@pytest.mark.thorough
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("case", VARIANTS, ids=names)
def test_conformance_of_variants(case, check):
    check(case)


# client


@pytest.mark.parametrize(("raw", "term"), [(False, 1.111641), (True, 1.523000)])
def test_loss_by_hand(raw, term):
    """Logits (0, log 3): p = (1/4, 3/4). Sample of class 0: CE log 4; its teacher (log 3, 0) has the
    softmax (3/4, 1/4), so −(3/4 log 1/4 + 1/4 log 3/4) = 1.111641; raw: log 3 · log 4 = 1.523000. Class 1
    has no teacher: CE log 4/3 and nothing else. Batch means; γ = 2."""
    method = FedDistill(gamma=2.0, raw_target=raw)
    x = batch([[0.0, LOG3], [0.0, LOG3]], [0, 1])
    down = Logits(floats([[LOG3, 0.0]]), torch.tensor([0]))
    at = Turn(TWO_CLASSES, 2, client=0)
    loss, _ = method.loss(NET, x, method.prepare(NET, None, down, {}, at))
    expected = (math.log(4) + math.log(4 / 3)) / 2 + 2 * term / 2
    assert float(loss) == pytest.approx(expected, abs=1e-6)


def test_without_a_teacher_it_is_cross_entropy_with_finite_gradients():
    x = floats([[50.0, -50.0]]).requires_grad_()
    none = Logits(floats([]).reshape(0, 2), torch.tensor([], dtype=torch.int64))
    method = FedDistill()
    view = method.prepare(NET, None, none, {}, Turn(TWO_CLASSES, 1))
    loss, _ = method.loss(NET, batch([[0.0, 0.0]], [1])._replace(x=x), view)
    (grad,) = torch.autograd.grad(loss, x)
    assert loss.item() == pytest.approx(100.0)
    assert grad.tolist() == [[1.0, -1.0]]


def test_void_pixels_are_left_out():
    """Two pixels with logits (0, log 3): class 0, taught by (1/2, 1/2), and void."""
    method = FedDistill()
    x = floats([0.0, 0.0, LOG3, LOG3]).reshape(1, 2, 1, 2)
    pixels = Batch(x, torch.tensor([[[0, -1]]]), torch.tensor([0]), floats(1.0), {})
    down = Logits(floats([[0.0, 0.0]]), torch.tensor([0]))
    loss, sums = method.loss(NET, pixels, method.prepare(NET, None, down, {}, Turn(TWO_CLASSES, 2)))
    term = -(math.log(1 / 4) + math.log(3 / 4)) / 2
    assert float(loss) == pytest.approx(math.log(4) + term)
    assert sums["n"].tolist() == [1, 0]


def test_upload_is_the_mean_of_the_training_logits():
    """Collected over all steps: class 0 (2 + 4, 0 + 2) / 2; without steps one pass over the data."""
    method, at = FedDistill(), turn(client=0)
    x = floats([[2.0, 0, 0, 0, 0], [4.0, 2, 0, 0, 0]])
    zeros = torch.zeros(CLASSES, CLASSES, dtype=torch.float64)
    view = {"teacher": zeros, "known": torch.zeros(CLASSES, dtype=torch.bool)}
    steps = [method.loss(NET, batch(x[i : i + 1].tolist(), [0]), view)[1] for i in (0, 1)]
    sums = {name: steps[0][name] + steps[1][name] for name in steps[0]}
    trained, _ = method.upload(NET, None, None, {}, Ran(2, 0.1, {}, sums, None, view), at)
    idle, _ = method.upload(
        NET, LocalData(x, torch.tensor([0, 0])), None, {}, Ran(0, 0.1, {}, {}, None, view), at
    )
    for up in (trained, idle):
        assert table(up) == {0: [3.0, 1.0]}


# server


def test_average_over_owners():
    """Class 0: ((2, 0) + (4, 2)) / 2; class 2: client 1 alone."""
    method = FedDistill()
    state = method.aggregate(start(method), received(*FIRST), turn())
    for client in (0, 1, 5):
        down = method.broadcast(state, turn(2, client))
        assert table(down) == {0: [3.0, 1.0], 2: [7.0, 7.0]}


def test_leave_one_out():
    """Each of the two learns class 0 from the other; client 1, alone with class 2, has no teacher for it."""
    method = FedDistill(leave_one_out=True)
    state = method.aggregate(start(method), received(*FIRST), turn())
    assert table(method.broadcast(state, turn(2, 0))) == {0: [4.0, 2.0], 2: [7.0, 7.0]}
    assert table(method.broadcast(state, turn(2, 1))) == {0: [2.0, 0.0]}
    assert table(method.broadcast(state, turn(2, 5))) == {0: [3.0, 1.0], 2: [7.0, 7.0]}


@pytest.mark.parametrize("leave_one_out", [False, True])
def test_classes_absent_from_a_round(leave_one_out):
    """Round 2 brings class 0 alone, from client 1: it replaces all of class 0; class 2 stays or goes."""
    for stale, expected in {"keep": {0: [8.0, 0.0], 2: [7.0, 7.0]}, "drop": {0: [8.0, 0.0]}}.items():
        method = FedDistill(leave_one_out=leave_one_out, stale=stale)
        state = method.aggregate(start(method), received(*FIRST), turn())
        state = method.aggregate(state, received((1, rows([[8, 0]], [0]))), turn(2))
        assert table(method.broadcast(state, turn(3, 5))) == expected


def test_the_only_sender_of_a_class_keeps_its_teacher():
    """Class 0: clients 0 and 1 in round 1, client 0 alone in round 2. It goes on learning from client 1's
    older row, all others from its new one; in round 3 client 1's new row replaces the old one."""
    method = FedDistill(leave_one_out=True)
    state = method.aggregate(start(method), received(*FIRST), turn())
    state = method.aggregate(state, received((0, rows([[6, 0]], [0]))), turn(2))
    assert table(method.broadcast(state, turn(3, 0))) == {0: [4.0, 2.0], 2: [7.0, 7.0]}
    assert table(method.broadcast(state, turn(3, 1))) == {0: [6.0, 0.0]}
    assert table(method.broadcast(state, turn(3, 5))) == {0: [6.0, 0.0], 2: [7.0, 7.0]}
    state = method.aggregate(state, received((1, rows([[8, 0]], [0]))), turn(3))
    assert table(method.broadcast(state, turn(4, 0)))[0] == [8.0, 0.0]
    assert table(method.broadcast(state, turn(4, 1)))[0] == [6.0, 0.0]
    assert len(state.cls) == 3  # nothing piles up


def test_payload():
    """Up a row of 5 logits for each of 12 owned classes; down 4 classes (nobody has the fifth) to 6."""
    records = Toy("feddistill").build(rounds=2).play(None)
    assert records[0]["down"]["params"] == 0
    assert records[1]["up"]["params"] == 12 * CLASSES
    assert records[1]["down"]["params"] == 6 * 4 * CLASSES


# settings


def test_presets_and_wrong_options():
    assert resolve({"method": "feddistill", "preset": "fd"}).make_method().leave_one_out
    tgp = resolve({"method": "feddistill", "preset": "tgp"})
    assert (tgp.train.batch_size, tgp.train.momentum, tgp.make_method().gamma) == (10, 0.0, 1.0)
    with pytest.raises(ConfigError, match="gamma: must be at least 0"):
        resolve({"method": "feddistill", "options": {"gamma": -1}})
