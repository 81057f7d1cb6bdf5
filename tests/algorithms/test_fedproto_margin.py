"""ProtoMargin: the server's weights and the client's margins, with numbers by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from vmap_check import check_vmap

from protofed.algorithms.fedproto_margin import Aggregate, FedProtoMargin, Margins
from protofed.config import resolve
from protofed.core.answer import Replies, Reply
from protofed.core.client import run_leg
from protofed.core.errors import ConfigError
from protofed.core.task import ClientTurn
from protofed.experiment import Experiment
from protofed.testing import CHECKS, COUNTS, Toy, assert_close, assert_equal

SIZES = torch.tensor([sum(counts) for counts in COUNTS], dtype=torch.float64)
VARIANTS = [
    Toy("fedproto_margin", {"attention": "apm_only", "carry": True}),
    Toy("fedproto_margin", {"attention": "lpm_only"}),
    Toy("fedproto_margin", {"attention": "dplus_only"}),
    Toy("fedproto_margin", {"attention": "fairness", "tolerate": False}),
    Toy("fedproto_margin", settings={"allow_zero": True, "stragglers": 0.8}, models="norm"),
]


def rows(*values: tuple[float, ...]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def reply(client: int, n: int, weight: float, mean: Any, counts: Any, local: Any) -> Reply:
    tree = {"w": rows((weight,))[0]}
    return Reply(client, n, Margins(tree, rows(*mean), torch.tensor(counts), rows(local)[0]))


def two_clients() -> list[Reply]:
    """Client 0: W = 1, prototypes of the check value. Client 1: W = 3, prototypes equal to the aggregate."""
    return [
        reply(0, 10, 1.0, [(0, 0), (1, 0)], [4, 6], (0.5, 0.5)),
        reply(1, 30, 3.0, [(0, 0.5), (1, 1)], [30, 0], (0, 0)),
    ]


def known(n: tuple[int, int] = (5, 5)) -> Aggregate:
    """The server after a round: aggregate prototypes (0,½) and (1,1)."""
    empty = torch.zeros(0, dtype=torch.float64)
    return Aggregate({"w": rows((0,))[0]}, rows((0, 0.5), (1, 1)), torch.tensor(n), empty, empty.long())


def aggregate(state: Aggregate, replies: list[Reply], **options: Any) -> Aggregate:
    turn: Any = None  # the server step reads neither task nor round
    return FedProtoMargin(**options).aggregate(state, Replies(iter(replies)), turn)


def test_first_round_weighs_by_samples() -> None:
    """a = 10/40, 30/40; W = ¼·1 + ¾·3 = 2.5.

    Class 0: (4·(0,0) + 30·(0,½))/34 = (0, 15/34). Class 1 is client 0's alone: (1,0).
    """
    state = known((0, 0))
    start = Aggregate(state.weights, torch.zeros_like(state.mean), state.n, state.attention, state.clients)
    got = aggregate(start, two_clients())
    assert got.attention.tolist() == [0.25, 0.75]
    assert got.clients.tolist() == [0, 1]
    assert got.weights["w"].item() == pytest.approx(2.5)
    assert got.mean.tolist() == [[0, pytest.approx(15 / 34)], [1, 0]]
    assert got.n.tolist() == [34, 6]


def test_attention_of_both_margins() -> None:
    """APM. Client 0: μ = (0.477592, 0.055728), v = 0.630257. Client 1 has class 0 alone: |C'| = 1, v = ½.
    a_agg = (0.630257, 0.5)/1.130257 = (0.557623, 0.442377).
    LPM. Sums 1 and 0: v = 0.731059, 0.5; a_loc = (0.593846, 0.406154).
    a = (0.575735, 0.424265); W = 0.575735 + 3·0.424265 = 1.848531.
    """
    got = aggregate(known(), two_clients())
    assert got.attention.tolist() == pytest.approx([0.575735, 0.424265], abs=1e-6)
    assert got.weights["w"].item() == pytest.approx(1.848531, abs=2e-6)
    # Arrival order does not matter, and the ids stay beside their weights.
    turned = aggregate(known(), two_clients()[::-1])
    assert_equal(got.arrays(), turned.arrays())


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"attention": "apm_only"}, (0.557623, 0.442377)),
        ({"attention": "lpm_only"}, (0.593846, 0.406154)),
        ({"attention": "fairness"}, (0.5, 0.5)),
    ],
)
def test_ablations(options: dict[str, Any], expected: tuple[float, float]) -> None:
    assert aggregate(known(), two_clients(), **options).attention.tolist() == pytest.approx(
        expected, abs=1e-6
    )


@pytest.mark.parametrize(("dplus", "sign"), [("lowers", -1), ("raises", 1)])
def test_dplus_only(dplus: str, sign: int) -> None:
    """Against the aggregate: d⁺ = ½ + 1 = 1.5 for client 0, 0 for client 1 (which shares class 0 alone).
    Locally −0.2 and −0.6 for `lowers`, as uploaded. σ(−1.5) = 0.182426: a_agg = (0.267317, 0.732683).
    `raises`: σ(1.5) = 0.817574, a_agg = (0.620515, 0.379485).
    """
    replies = [
        reply(0, 10, 1.0, [(0, 0), (1, 0)], [4, 6], (0.1 * sign, 0.1 * sign)),
        reply(1, 30, 3.0, [(0, 0.5), (0, 0)], [30, 0], (0.6 * sign, 0.0)),
    ]
    local = torch.sigmoid(sign * rows((0.2, 0.6))[0])
    remote = {"lowers": (0.267317, 0.732683), "raises": (0.620515, 0.379485)}[dplus]
    got = aggregate(known(), replies, attention="dplus_only", dplus=dplus)
    assert torch.allclose(got.attention, (local / local.sum() + rows(remote)[0]) / 2, atol=1e-6)


def test_absent_class_is_forgotten_or_carried() -> None:
    """Nobody has class 1 this round: without `carry` it leaves the aggregate, with it the old one stays."""
    replies = [reply(k, 10, 1.0, [(0, 1), (0, 0)], [7, 0], (0, 0)) for k in (0, 1)]
    dropped = aggregate(known(), replies)
    assert dropped.n.tolist() == [14, 0]
    assert dropped.mean[1].tolist() == [0, 0]
    kept = aggregate(known(), replies, carry=True)
    assert kept.n.tolist() == [14, 5]
    assert kept.mean.tolist() == [[0, 1], [1, 1]]


def test_class_unseen_in_the_last_round_is_no_shared_class() -> None:
    """With class 1 unknown to the server |C'| = 1 for both: a_agg = (½, ½), and zeros are no prototype."""
    state = known((5, 0))
    got = aggregate(state, two_clients(), attention="apm_only")
    assert got.attention.tolist() == [0.5, 0.5]


# client


def answer(experiment: Experiment, client: int, epochs: int) -> Reply:
    task, federation = experiment.task, experiment.federation
    turn = ClientTurn(task, federation.round + 1, "train", client=client, epochs=epochs)
    down = task.algorithm.broadcast(federation.state, turn)
    return run_leg(turn, task.algorithm.legs[0], None, experiment.data.train(client), down)


def test_client_without_an_epoch_has_margin_one() -> None:
    """F' = 0: the prototypes do not move, d⁺ = 0, so μ = 1 for every class; W^t comes back unchanged.
    Client 2 has one class only: no margin."""
    experiment = Toy("fedproto_margin", models="norm").build()
    up = answer(experiment, 3, 0).up
    assert up.local.tolist() == [1, 1, 1, 0, 0]
    assert up.n.tolist() == [5, 5, 5, 0, 0]
    assert_equal(up.weights, experiment.federation.state.weights)
    assert answer(experiment, 2, 0).up.local.tolist() == [0, 0, 0, 0, 0]


def test_client_uploads_scaled_prototypes_of_the_trained_model() -> None:
    """Class means of the trained model by a plain loop, scaled; the LPM from the received model's."""
    experiment = Toy("fedproto_margin").build()
    up, data = answer(experiment, 3, 2).up, experiment.data.train(3)

    def prototypes(tensors: Any) -> list[torch.Tensor]:
        z = experiment.task.net(0, tensors).embed(data.x)
        centres = [z[data.y == c].mean(0) for c in range(3)]
        return [(p - p.min()) / (p.max() - p.min()) for p in centres]

    before, after = prototypes(experiment.federation.state.weights), prototypes(up.weights)
    assert torch.allclose(up.mean[:3], torch.stack(after))
    assert not up.mean[3:].any()
    plus = (before[0] - after[0]).norm()
    minus = ((before[0] - after[1]).norm() + (before[0] - after[2]).norm()) / 2
    assert float(up.local[0]) == pytest.approx(float((minus - plus) / (minus + plus)))


def test_dplus_only_uploads_displacements() -> None:
    """No margin, but the distance the prototypes moved (Eq. 11 with d⁺); 0 for absent classes. `lowers`
    turns the sign round."""
    up = answer(Toy("fedproto_margin", {"attention": "dplus_only"}).build(), 3, 2).up
    assert (up.local[:3] > 0).all()
    assert up.local[3:].tolist() == [0, 0]
    lowers = {"attention": "dplus_only", "dplus": "lowers"}
    assert torch.equal(answer(Toy("fedproto_margin", lowers).build(), 3, 2).up.local, -up.local)


# whole rounds


def test_first_round_equals_fedavg_and_later_ones_do_not() -> None:
    ours, fedavg = Toy("fedproto_margin").build(), Toy("fedavg").build()
    ours.federation.play()
    fedavg.federation.play()
    assert torch.allclose(ours.federation.state.attention, SIZES / SIZES.sum())
    assert_close(ours.federation.state.weights, fedavg.federation.state.weights, 1e-12)
    ours.federation.play()
    assert not torch.allclose(ours.federation.state.attention, SIZES / SIZES.sum(), atol=1e-2)
    assert float(ours.federation.state.attention.sum()) == pytest.approx(1)


def test_fairness_equals_the_plain_average() -> None:
    fair, plain = (
        Toy("fedproto_margin", {"attention": "fairness"}).build(),
        Toy("fedavg", {"weighting": "uniform"}).build(),
    )
    for _ in range(2):
        fair.federation.play()
        plain.federation.play()
    assert fair.federation.state.attention.tolist() == pytest.approx([1 / 6] * 6)
    assert_close(fair.federation.state.weights, plain.federation.state.weights, 1e-12)


def test_stragglers_are_used_or_dropped() -> None:
    """δ = 1, all late. Dropping keeps W^t; toleration uses whoever did part of the work."""
    strict = Toy("fedproto_margin", {"tolerate": False}).build(stragglers=1.0)
    start = strict.federation.state
    assert strict.federation.play()["clients"] == 0
    assert strict.federation.state is start
    tolerant = Toy("fedproto_margin").build(stragglers=1.0)
    assert tolerant.federation.play()["clients"] == len(COUNTS)
    assert tolerant.federation.state is not start


def test_payload() -> None:
    """Each of 6 clients sends its model, 5 × 8 prototypes and 5 margins; 5 counts of 8 bytes are meta.
    The model: 6·16+16 + 16·8+8 + 8·5+5 = 293 floats. Only the model comes down."""
    record = Toy("fedproto_margin").build().federation.play()
    assert record["up"] == {"params": 6 * (293 + 40 + 5), "bytes": 4 * 6 * 338, "meta_bytes": 6 * 5 * 8}
    assert record["down"] == {"params": 6 * 293, "bytes": 4 * 6 * 293, "meta_bytes": 0}


@pytest.mark.thorough
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("toy", VARIANTS, ids=lambda toy: "-".join(map(str, toy.options.values())) or "zero")
def test_variants_conform(toy: Toy, check: Any) -> None:
    check(toy)


def test_loss_under_vmap() -> None:
    check_vmap(Toy("fedproto_margin"))


# settings


def test_presets() -> None:
    config = resolve({"method": "fedproto_margin", "preset": "classification"})
    assert (config.train.epochs, config.train.batch_size, config.train.lr) == (20, 10, 0.01)
    dense = resolve({"method": "fedproto_margin", "preset": "segmentation"}).train
    assert (dense.optimizer, dense.lr, dense.weight_decay, dense.schedule) == ("adam", 1e-4, 4e-5, "poly")
    assert FedProtoMargin.sampling == "size"


def test_unknown_attention_is_refused() -> None:
    with pytest.raises(ConfigError, match="attention: unknown value 'apm'; known: apm_only"):
        resolve({"method": "fedproto_margin", "options": {"attention": "apm"}})
