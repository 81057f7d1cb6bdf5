"""FedAvg: the average, what is shared, which model is tested, stragglers."""

from __future__ import annotations

import pytest
import torch
from by_hand import floats, replies, turn
from torch import Tensor
from vmap_check import check_vmap

from protofed.algorithms.fedavg import FedAvg
from protofed.core.record import Weights
from protofed.testing import COUNTS, Toy, assert_equal, snapshot

STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


def up(value: float, counter: int) -> Weights:
    return Weights({"model.w": floats([value]), "model.num_batches_tracked": torch.tensor(counter)})


@pytest.mark.parametrize(("weighting", "expected"), [("samples", 4.0), ("uniform", 3.0)])
def test_the_average(weighting: str, expected: float) -> None:
    """w=1 of 10 samples, w=5 of 30: ¼·1 + ¾·5 = 4, or plainly 3. The counter is the first client's."""
    method = FedAvg(weighting=weighting)
    state = method.aggregate(Weights({}), replies(up(1.0, 7), up(5.0, 9), n=[10, 30]), turn())
    assert state.weights["model.w"].tolist() == [expected]
    assert int(state.weights["model.num_batches_tracked"]) == 7


def test_one_client_alone_gives_its_own_weights() -> None:
    state = FedAvg().aggregate(Weights({}), replies(up(1.5, 1), n=[3]), turn())
    assert state.weights["model.w"].tolist() == [1.5]


def played(toy: Toy, **changes: object):  # type: ignore[no-untyped-def]
    experiment = toy.build(**changes)
    experiment.play(None)
    return experiment


def test_all_clients_start_a_round_from_the_servers_weights() -> None:
    """Without local epochs the average of what went down is what went down."""
    experiment = Toy("fedavg", settings={"epochs": 0}).build(rounds=1)
    before = experiment.federation.state.arrays()
    experiment.federation.play()
    for name, tensor in experiment.federation.state.arrays().items():
        assert torch.allclose(tensor, before[name], atol=1e-15)


def test_one_round_equals_the_mean_of_local_training() -> None:
    """Local training from the same start, averaged by hand with the clients' sample counts."""
    toy = {"settings": {"init": "common"}}
    alone, together = played(Toy("local", **toy), rounds=1), played(Toy("fedavg", **toy), rounds=1)
    found, sizes = snapshot(alone), [sum(counts) for counts in COUNTS]
    for name, tensor in together.federation.state.weights.items():
        parts = [found[f"client/{k}/kept/{name}"] * n for k, n in enumerate(sizes)]
        # Local training of FedAvg draws its batches under the same keys, so only rounding differs.
        assert torch.allclose(tensor, sum(parts, start=torch.zeros_like(tensor)) / sum(sizes), atol=1e-12)


def test_payload_is_the_model_both_ways() -> None:
    """mlp 6→16→8→5: 6·16+16 + 16·8+8 + 8·5+5 = 293 floats per client."""
    record = Toy("fedavg").build(rounds=1).federation.play()
    assert record["up"]["params"] == record["down"]["params"] == 293 * len(COUNTS)


def test_batchnorm_statistics_are_averaged_but_not_counted() -> None:
    """6·12+12 + 2·12 + 12·8+8 + 8·5+5 = 257 floats; two statistics of 12 float64 and an int64 are meta."""
    record = Toy("fedavg", models="norm").build(rounds=1).federation.play()
    assert record["up"]["params"] == 257 * len(COUNTS)
    assert record["up"]["meta_bytes"] == (2 * 12 * 8 + 8) * len(COUNTS)


def test_params_only_leaves_the_statistics_at_the_clients() -> None:
    experiment = played(Toy("fedavg", {"params_only": True}, models="norm"), rounds=2)
    state = experiment.federation.state.weights
    assert not any(name.endswith(STATISTICS) for name in state)
    for client in range(len(COUNTS)):
        kept = experiment.federation.engine.store.get(client).kept
        assert {name.rsplit(".", 1)[1] for name in kept} == set(STATISTICS)


def test_after_local_tests_each_clients_own_model() -> None:
    """The same training; only what is tested differs."""
    one, two = Toy("fedavg"), Toy("fedavg", {"eval_model": "after_local"})
    first, second = played(one), played(two)
    assert_equal(first.federation.state.arrays(), second.federation.state.arrays())
    scores = [e.federation.evaluate(e.tested()) for e in (first, second)]
    assert [s.loss for s in scores[0]] != [s.loss for s in scores[1]]


def test_who_never_took_part_is_tested_with_the_servers_model() -> None:
    """One client a round: who took part earlier differs from the average, which is the last one's model."""
    one = Toy("fedavg", {"eval_model": "after_local"}).build(rounds=4, sample=1)
    two = Toy("fedavg").build(rounds=4, sample=1)
    for _ in range(4):
        one.federation.play()
        two.federation.play()
    own, shared = ([s.loss for s in e.federation.evaluate(e.tested())] for e in (one, two))
    never = [k for k in range(6) if one.federation.engine.store.get(k) is None]
    assert 0 < len(never) < 5
    assert all(own[k] == shared[k] for k in never)
    assert any(a != b for a, b in zip(own, shared, strict=True))


@pytest.mark.parametrize(("tolerate", "count"), [(False, 3), (True, 6)])
def test_stragglers_are_dropped_unless_tolerated(tolerate: bool, count: int) -> None:
    toy = Toy("fedavg", {"tolerate": tolerate})
    assert toy.build(rounds=1, stragglers=0.5).federation.play()["clients"] == count


def test_loss_runs_under_vmap() -> None:
    check_vmap(Toy("fedavg", models="norm"))


def test_keep() -> None:
    assert FedAvg().keep == ()
    assert FedAvg(params_only=True).keep == ("buffers",)
    assert FedAvg(eval_model="after_local").keep == ("",)


def test_broadcast_sends_the_state_itself() -> None:
    state = Weights({"model.w": Tensor([1.0])})
    assert FedAvg().broadcast(state, turn()) is state
