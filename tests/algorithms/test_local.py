"""Local: no communication, own models, cross-entropy alone."""

from __future__ import annotations

import torch
from vmap_check import check_vmap

from protofed.core.record import Nothing
from protofed.testing import COUNTS, Toy, snapshot


def test_nothing_is_sent() -> None:
    records = Toy("local").build(rounds=2).play(None)
    for record in records:
        assert record["up"] == record["down"] == {"params": 0, "bytes": 0, "meta_bytes": 0}


def test_a_client_does_not_depend_on_the_others() -> None:
    """Two of the clients train the same whether all take part or they alone."""
    whole, few = Toy("local").build(rounds=1), Toy("local").build(rounds=1, sample=2)
    for experiment in (whole, few):
        experiment.play(None)
    assert len(few.federation.engine.store) == 2
    together = snapshot(whole)
    assert all(torch.equal(tensor, together[name]) for name, tensor in snapshot(few).items())


def test_the_server_has_no_state() -> None:
    experiment = Toy("local").build(rounds=1)
    experiment.play(None)
    assert isinstance(experiment.federation.state, Nothing)
    assert len(experiment.federation.engine.store) == len(COUNTS)


def test_architectures_may_differ() -> None:
    records = Toy("local", models="mixed").build(rounds=2).play(None)
    assert records[-1]["tested_clients"] == len(COUNTS)


def test_loss_runs_under_vmap() -> None:
    check_vmap(Toy("local", models="norm"))
