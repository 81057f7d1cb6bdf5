"""FedProto: aggregation, loss, prediction and what travels, by hand-worked numbers."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from by_hand import IdentityNet, assert_tame, batch, floats, prototype_terms, replies, turn
from fedproto_messages import empty, protos
from torch import Tensor
from vmap_check import check_vmap

from protofed.algorithms.fedproto import FedProto
from protofed.config import resolve
from protofed.core.algorithm import Ran
from protofed.core.answer import Replies, Reply
from protofed.core.data import LocalData
from protofed.core.errors import ConfigError
from protofed.testing import (
    COUNTS,
    Toy,
    assert_close,
    ignores_reply_order,
    resumes_exactly,
    snapshot,
    survives_partial_participation,
)

CACHED = Toy("fedproto", {"share_model": True, "stale": "cache"}, models="norm")
LOSSES = [Toy("fedproto"), Toy("fedproto", models="norm"), CACHED]
LOSSES += [Toy("fedproto", {"proto_pass": "running_all", "distance": "emd"}, models="mixed")]
LOSSES += [Toy("fedproto", {"level": "sample", "distance": d}) for d in ("mse", "l2", "l2sq", "l1")]


ONE, TWO = protos({0: ([1.0, 0.0], 10)}), protos({0: ([0.0, 1.0], 30)})


@pytest.mark.parametrize(
    ("agg", "expected"),
    [("weighted", [0.25, 0.75]), ("uniform", [0.5, 0.5]), ("literal", [0.125, 0.375])],
)
def test_aggregation(agg: str, expected: list[float]) -> None:
    """P_1=(1,0) of 10 samples, P_2=(0,1) of 30: weights ¼ and ¾; the printed form halves once more."""
    state = FedProto(agg=agg).aggregate(empty(), replies(ONE, TWO), turn())
    assert state.mean[0].tolist() == expected
    assert state.known.tolist() == [40, 0, 0]


def test_a_client_that_lacks_a_class_does_not_count_for_it() -> None:
    """Class 1 is client 0's alone; class 0 is both's."""
    both = protos({0: ([1.0, 0.0], 10), 1: ([5.0, 6.0], 2)})
    state = FedProto().aggregate(empty(), replies(both, TWO), turn())
    assert state.mean.tolist() == [[0.25, 0.75], [5.0, 6.0], [0.0, 0.0]]
    assert state.known.tolist() == [40, 2, 0]


def test_an_upload_of_no_prototypes_changes_nothing() -> None:
    state = FedProto().aggregate(empty(), replies(ONE, protos({})), turn())
    assert state.mean[0].tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("stale", "first", "known"),
    [("keep", [1.0, 0.0], [10, 4, 0]), ("drop", [0.0, 0.0], [0, 4, 0]), ("cache", [1.0, 0.0], [10, 4, 0])],
)
def test_a_class_absent_this_round(stale: str, first: list[float], known: list[int]) -> None:
    """Round 1: client 0 sends class 0. Round 2: client 1 sends class 1 alone."""
    method = FedProto(stale=stale)
    state = method.aggregate(empty(), replies(ONE), turn())
    later = Reply(1, 1, protos({1: ([2.0, 2.0], 4)}))
    state = method.aggregate(state, Replies(iter([later])), turn())
    assert state.mean.tolist() == [first, [2.0, 2.0], [0.0, 0.0]]
    assert state.known.tolist() == known
    sent = method.broadcast(state, turn())
    assert sent.cls.tolist() == [c for c in range(3) if known[c]]


def test_the_cache_averages_the_last_upload_of_every_client() -> None:
    """Round 1: client 0 sends (1,0)·10, client 1 (0,1)·30. Round 2: client 0 sends (3,0)·10 alone:
    ¼·(3,0) + ¾·(0,1) = (0.75, 0.75)."""
    method = FedProto(stale="cache")
    state = method.aggregate(empty(), replies(ONE, TWO), turn())
    assert state.mean[0].tolist() == [0.25, 0.75]
    state = method.aggregate(state, replies(protos({0: ([3.0, 0.0], 10)})), turn())
    assert state.mean[0].tolist() == [0.75, 0.75]
    assert {name.split("/")[0] for name in state.cache} == {"0", "1"}


def test_only_the_cache_grows_with_the_clients() -> None:
    assert FedProto().aggregate(empty(), replies(ONE, TWO), turn()).cache == {}


# client

X, Y = floats([[0.0, 0.0], [2.0, 0.0], [3.0, 4.0]]), [0, 0, 1]
DOWN = protos({0: ([1.0, 2.0], 5), 1: ([0.0, 0.0], 5)})


@pytest.mark.parametrize(
    ("distance", "expected"),
    [("l2", 2.0 + 5.0), ("l2sq", 4.0 + 25.0), ("mse", 2.0 + 12.5), ("l1", 2.0 + 7.0), ("emd", 31 / 84)],
)
def test_loss_between_class_means(distance: str, expected: float) -> None:
    """Batch means (1,0) and (3,4) against (1,2) and (0,0): distances 2 and 5; squares 4 and 25; their
    halves; sums of moduli 2 and 7. EMD: histograms (1,0)–(⅓,⅔) and (3/7,4/7)–(½,½), Σ|cumulated gaps|
    2/3 and 1/14, over D=2: 31/84 in all."""
    terms = prototype_terms(FedProto(lam=1.0, distance=distance), DOWN, X, Y)
    assert float(terms) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("distance", "expected"),
    [
        ("l2", (2 * math.sqrt(5) + 5) / 3),
        ("l2sq", (5 + 5 + 25) / 3),
        ("mse", (2.5 + 2.5 + 12.5) / 3),
        ("l1", (3 + 3 + 7) / 3),
    ],
)
def test_loss_of_each_embedding(distance: str, expected: float) -> None:
    """(0,0) and (2,0) are √5 from (1,2), (3,4) is 5 from (0,0); the mean is over all three."""
    method = FedProto(lam=1.0, level="sample", distance=distance)
    assert float(prototype_terms(method, DOWN, X, Y)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("level", "expected"), [("class", 2.0), ("sample", 2 * math.sqrt(5) / 3)])
def test_classes_without_prototype_add_nothing(level: str, expected: float) -> None:
    """Class 1 has no prototype: only class 0 pulls, but its samples stay in the denominator."""
    down = protos({0: ([1.0, 2.0], 5)})
    terms = prototype_terms(FedProto(lam=1.0, level=level), down, X, Y)
    assert float(terms) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("level", ["class", "sample"])
def test_before_any_prototype_the_loss_is_cross_entropy(level: str) -> None:
    assert float(prototype_terms(FedProto(level=level, lam=7.0), protos({}), X, Y)) == 0.0


def test_lambda_scales_the_pull() -> None:
    one, three = (prototype_terms(FedProto(lam=lam), DOWN, X, Y) for lam in (1.0, 3.0))
    assert float(three) == pytest.approx(3 * float(one), abs=1e-9)


@pytest.mark.parametrize("level", ["class", "sample"])
@pytest.mark.parametrize("distance", ["l2", "l2sq", "mse", "l1", "emd"])
def test_awkward_embeddings_leave_loss_and_gradient_finite(distance: str, level: str) -> None:
    down = protos({0: ([1.0, 0.0], 1), 1: ([0.0, 1.0], 1), 2: ([0.0, 0.0], 1)})
    assert_tame(FedProto(distance=distance, level=level), down)


def test_prototypes_are_not_pulled_in_turn() -> None:
    """Global knowledge is a constant: no gradient flows into it."""
    down = protos({0: ([1.0, 2.0], 5)})
    down.mean.requires_grad_()
    x = X.clone().requires_grad_()
    (grad,) = torch.autograd.grad(prototype_terms(FedProto(), down, x, Y), x)
    assert torch.isfinite(grad).all()
    assert grad[2].tolist() == [0.0, 0.0]


def ran(sums: dict[str, Tensor]) -> Ran:
    return Ran(1, 0.1, {}, sums, None, {})


def test_prototypes_after_training_are_class_means() -> None:
    data = LocalData(X, torch.tensor(Y))
    up, mem = FedProto().upload(IdentityNet(), data, protos({}), {}, ran({}), turn())  # type: ignore[arg-type]
    assert up.mean.tolist() == [[1.0, 0.0], [3.0, 4.0]]
    assert (up.cls.tolist(), up.n.tolist(), up.weights) == ([0, 1], [2, 1], {})
    assert mem["mean"].tolist() == [[1.0, 0.0], [3.0, 4.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("proto_pass", "last", "expected"),
    [
        ("post", 1.0, None),
        ("running", 1.0, [2.0, 0.0]),
        ("running", 0.0, [0.0, 0.0]),
        ("running_all", 0.0, [2.0, 0.0]),
    ],
)
def test_running_sums_count_in_the_last_epoch_or_in_all(
    proto_pass: str, last: float, expected: list[float] | None
) -> None:
    method = FedProto(proto_pass=proto_pass)
    net = IdentityNet()
    view = method.prepare(net, None, DOWN, {}, turn())  # type: ignore[arg-type]
    _, sums = method.loss(net, batch(X, Y, last), view)  # type: ignore[arg-type]
    assert (sums["z"][0].tolist() if sums else None) == expected


def test_running_prototypes_equal_those_collected_by_hand() -> None:
    """One epoch at a learning rate that moves nothing: what was collected is the mean of the start."""
    toy = Toy("fedproto", {"proto_pass": "running"}, {"lr": 1e-300, "momentum": 0.0, "epochs": 3})
    running, post = toy.build(rounds=1), Toy("fedproto", {}, toy.settings).build(rounds=1)
    for experiment in (running, post):
        experiment.federation.play()
    assert_close(running.federation.state.arrays(), post.federation.state.arrays(), 1e-12)


def test_running_prototypes_are_taken_before_each_step() -> None:
    """One batch per epoch: the last epoch sees the weights after all epochs but one."""
    settings = {"batch_size": 64, "epochs": 3}
    running = Toy("fedproto", {"proto_pass": "running"}, settings).build(rounds=1)
    shorter = Toy("fedproto", {}, {**settings, "epochs": 2}).build(rounds=1)
    for experiment in (running, shorter):
        experiment.federation.play()
    assert_close(running.federation.state.arrays(), shorter.federation.state.arrays(), 1e-12)


def test_a_client_without_steps_sends_what_it_has() -> None:
    toy = Toy("fedproto", {"proto_pass": "running"}, {"epochs": 0})
    experiment = toy.build(rounds=1)
    experiment.federation.play()
    owned = torch.tensor(COUNTS).sum(0).tolist()
    assert experiment.federation.state.arrays()["known"].tolist() == [*owned, 0]


# whole runs


def test_lambda_zero_is_local_training_bit_for_bit() -> None:
    pulled, alone = Toy("fedproto", {"lam": 0.0}).build(), Toy("local").build()
    for experiment in (pulled, alone):
        experiment.play(None)
    one, two = ({n: t for n, t in snapshot(e).items() if "/kept/" in n} for e in (pulled, alone))
    assert len(one) == len(COUNTS) * 6
    assert_close(one, two, 0.0)


def test_lambda_moves_the_weights() -> None:
    pulled, alone = Toy("fedproto", {"lam": 1.0}).build(), Toy("local").build()
    for experiment in (pulled, alone):
        experiment.play(None)
    name = "client/0/kept/model.base.0.weight"
    assert not torch.equal(snapshot(pulled)[name], snapshot(alone)[name])


def test_share_model_averages_weights_by_samples() -> None:
    """10 samples at w=1 and 30 at w=5: ¼·1 + ¾·5 = 4."""
    ups = [protos({0: ([1.0, 0.0], 1)}, {"model.w": floats([w])}) for w in (1.0, 5.0)]
    state = FedProto(share_model=True).aggregate(empty(), replies(*ups, n=[10, 30]), turn())
    assert state.weights["model.w"].tolist() == [4.0]


def test_share_model_is_reported_by_its_classifier() -> None:
    assert FedProto(share_model=True).modes[0] == "clf"
    assert sorted(FedProto(share_model=True).modes) == sorted(FedProto().modes)
    assert FedProto().modes[0] == "gp_local"


def test_share_model_keeps_nothing_at_the_clients() -> None:
    assert FedProto(share_model=True).keep == ()
    assert FedProto(share_model=True).needs.model
    experiment = Toy("fedproto", {"share_model": True}).build(rounds=1)
    experiment.play(None)
    assert not any("/kept/" in name for name in snapshot(experiment))


def test_share_model_in_the_cache_mode_averages_this_rounds_weights() -> None:
    """Client 1 is absent in round 2: its prototypes stay, its old weights do not come back."""
    method = FedProto(share_model=True, stale="cache")
    ups = [protos({0: ([1.0, 0.0], 1)}, {"model.w": floats([w])}) for w in (1.0, 5.0)]
    state = method.aggregate(empty(), replies(*ups, n=[10, 30]), turn())
    state = method.aggregate(state, replies(ups[0], n=[10]), turn())
    assert state.weights["model.w"].tolist() == [1.0]
    assert "1/mean" in state.cache


def test_presets() -> None:
    official = resolve({"method": "fedproto", "preset": "official"})
    assert official.make_method() == FedProto(
        lam=1.0, level="sample", distance="mse", agg="uniform", proto_pass="running", stale="drop"
    )
    assert (official.train.batch_size, official.train.drop_last) == (4, True)
    assert resolve({"method": "fedproto", "preset": "tgp"}).make_method().lam == 10.0  # type: ignore[attr-defined]
    paper = resolve({"method": "fedproto", "preset": "paper"})
    assert paper.make_method() == FedProto(lam=1.0)
    assert (paper.train.batch_size, paper.train.lr, paper.train.epochs) == (8, 0.01, 1)
    assert resolve({"method": "fedproto"}).make_method() == FedProto()


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"lam": -1}, "method fedproto: lam: must be at least 0, got -1.0"),
        ({"distance": "l3"}, "method fedproto: distance: unknown value 'l3'"),
        ({"lamda": 1}, "method fedproto: unknown option 'lamda'; did you mean 'lam'"),
    ],
)
def test_option_errors(options: dict[str, object], line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        resolve({"method": "fedproto", "options": options})


@pytest.mark.parametrize("case", LOSSES, ids=lambda c: "-".join([c.models, *map(str, c.options.values())]))
def test_loss_runs_under_vmap(case: Toy) -> None:
    check_vmap(case)


@pytest.mark.thorough
@pytest.mark.parametrize("check", [resumes_exactly, survives_partial_participation, ignores_reply_order])
def test_conformance_with_shared_weights_and_cache(check: Callable[[Toy], None]) -> None:
    check(CACHED)
