"""A round's record keeps who took part and who was late, and the clients' weights in the average: those of
FedAvg are shares of samples, ProtoMargin's its attention."""

from __future__ import annotations

from typing import Any

import pytest
from torch.testing import assert_close

from protofed import experiment
from protofed.config import resolve
from protofed.core.answer import Block
from protofed.core.errors import MessageError
from protofed.core.record import Record
from protofed.engines import federation

SMALL = {"models": "mlp", "clients": 6, "sample": 4, "engine": "sequential", "rounds": 2, "epochs": 2}


def play(method: str, **settings: Any) -> tuple[experiment.Experiment, list[dict[str, Any]]]:
    built = experiment.build(resolve({"method": method}, {**SMALL, **settings}))
    records = built.play(None)
    built.federation.engine.close()
    return built, records


def test_fedavg_weighs_by_samples() -> None:
    built, records = play("fedavg", partition="dirichlet:beta=1.0")
    for record in records:
        clients, weights = record["average"]["clients"], record["average"]["weights"]
        sizes = [built.data.size(client) for client in clients]
        assert len(clients) == record["clients"] == 4
        assert len(set(sizes)) > 1
        assert weights == pytest.approx([size / sum(sizes) for size in sizes], abs=1e-6)


def test_uniform_weights() -> None:
    _, records = play("fedavg", options={"weighting": "uniform"})
    assert records[-1]["average"]["weights"] == [0.25] * 4


def test_stragglers_that_are_dropped_have_no_weight() -> None:
    """δ = 0.5 of 4 participants: 2 are late."""
    _, dropped = play("fedavg", stragglers=0.5)
    _, used = play("fedavg", stragglers=0.5, options={"tolerate": True})
    assert [len(record["average"]["clients"]) for record in dropped] == [2, 2]
    assert [len(record["average"]["clients"]) for record in used] == [4, 4]
    assert set(dropped[0]["average"]["clients"]) < set(used[0]["average"]["clients"])


def test_attention_of_protomargin_is_that_of_its_state() -> None:
    built, records = play("fedproto_margin")
    state = built.federation.state
    assert_close(state.attention.tolist(), records[-1]["average"]["weights"], atol=1e-6, rtol=0)  # type: ignore[attr-defined]
    assert state.clients.tolist() == records[-1]["average"]["clients"]  # type: ignore[attr-defined]
    assert sum(records[0]["average"]["weights"]) == pytest.approx(1.0, abs=1e-5)


def test_participants_and_weights_name_the_same_clients() -> None:
    _, records = play("fedavg", rounds=4)
    assert len({tuple(record["participants"]) for record in records}) > 1
    for record in records:
        assert record["participants"] == record["average"]["clients"]
        assert len(record["participants"]) == 4
        assert record["late"] == []


def test_late_clients_are_kept_whether_they_are_used_or_not() -> None:
    _, dropped = play("fedavg", stragglers=0.5)
    _, used = play("fedavg", stragglers=0.5, options={"tolerate": True})
    assert len(dropped[0]["late"]) == 2
    assert not set(dropped[0]["late"]) & set(dropped[0]["participants"])
    assert dropped[0]["late"] == used[0]["late"]
    assert set(used[0]["late"]) < set(used[0]["participants"])


def test_failed_clients_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is drawn again: who failed has neither part nor weight."""
    first = play("fedavg")[1][0]["participants"][0]
    check = Record.check

    def refuse(self: Record, sizes: Any, who: str) -> None:
        if who.endswith(f"client {first}"):
            raise MessageError(f"{who}: gone")
        check(self, sizes, who)

    monkeypatch.setattr(Record, "check", refuse)
    monkeypatch.setattr(Block, "join", classmethod(lambda cls, *given: None))
    record = play("fedavg", on_failure="drop")[1][0]
    assert list(record["failed"]) == [str(first)]
    assert first not in record["participants"]
    assert record["average"]["clients"] == record["participants"]
    assert len(record["participants"]) == 3
    assert sum(record["average"]["weights"]) == pytest.approx(1.0, abs=1e-5)


def test_other_methods_tell_no_weights_and_large_rounds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    record = play("local", sample=None)[1][0]
    assert "average" not in record
    assert record["participants"] == list(range(6))
    monkeypatch.setattr(federation, "MOST_KEPT", 3)
    assert not {"average", "participants", "late"} & set(play("fedavg")[1][0])
