"""Weights of the clients in a round's record: FedAvg's are shares of samples, ProtoMargin's its attention."""

from __future__ import annotations

from typing import Any

import pytest
from torch.testing import assert_close

from protofed import client_weights, experiment
from protofed.config import resolve

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


def test_failed_clients_are_left_out() -> None:
    built, records = play("fedavg")
    clients = records[-1]["average"]["clients"]
    left = client_weights.weights_of_round(built.federation, {str(clients[0]): "gone"})["average"]
    assert left["clients"] == clients[1:]
    assert sum(left["weights"]) == pytest.approx(1.0, abs=1e-5)
    nobody = client_weights.weights_of_round(built.federation, {str(client): "" for client in clients})
    assert nobody == {"average": {"clients": [], "weights": []}}


def test_other_methods_and_large_rounds_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "average" not in play("local", sample=None)[1][0]
    monkeypatch.setattr(client_weights, "MOST", 3)
    assert "average" not in play("fedavg")[1][0]
