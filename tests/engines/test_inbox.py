"""The inbox: uploads checked together or alone, with the same verdict; bundles; counts."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from protofed.algorithms.fedproto import FedProto, Protos
from protofed.core.client import ClientState, Outcome, Work
from protofed.core.errors import MessageError
from protofed.core.record import Block, Nothing, Replies, blocks, cat
from protofed.core.task import Group, Task
from protofed.engines.base import Bundle, Failure
from protofed.engines.inbox import Inbox, Tally
from protofed.engines.store import Store

D = 3
TASK = Task(FedProto(), [Group("linear", lambda: nn.Linear(1, 1))], np.zeros(9, dtype=np.int64), 4, (D,))


def upload(rows: int, value: float = 1.0) -> Protos:
    return Protos(torch.full((rows, D), value), torch.arange(rows), torch.ones(rows, dtype=torch.int64), {})


def outcome(client: int, up: Protos | Nothing) -> Outcome:
    mem = {"who": torch.tensor([client])}
    return Outcome(client, 5, up, ClientState({}, mem), Work(2, 10, float(client)))


def bundle(outcomes: list[Outcome]) -> Bundle:
    clients, counts, ups, states, works = zip(*outcomes)
    joined = Protos.join(ups, TASK.sizes)
    assert joined is not None
    return Bundle(clients, counts, joined, states, works)


def inbox(on_failure: str = "drop") -> Inbox:
    return Inbox(TASK, FedProto().legs[0], 1, Store(), Tally(), on_failure)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=8))
def test_joined_records_are_cut_into_the_same_records(rows: list[int]) -> None:
    ups = [upload(n, float(i)) for i, n in enumerate(rows)]
    joined = Protos.join(ups, TASK.sizes)
    assert joined is not None
    assert Protos.sound(joined, TASK.sizes)
    for before, after in zip(ups, Protos.cut(joined), strict=True):
        assert all(torch.equal(t, after.arrays()[name]) for name, t in before.arrays().items())


COUNT = torch.ones(2, dtype=torch.int64)
BAD = {
    "not finite": Protos(torch.full((2, D), torch.nan), torch.arange(2), COUNT, {}),
    "has shape": Protos(torch.ones(2, D + 1), torch.arange(2), COUNT, {}),
    "must hold floats": Protos(torch.ones(2, D).long(), torch.arange(2), COUNT, {}),
    "cls has shape": Protos(torch.ones(2, D), torch.arange(3), COUNT, {}),
    "expected Protos": Nothing(),
}


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("reason", BAD)
def test_the_guilty_client_is_named_and_the_others_count(reason: str, together: bool) -> None:
    box = inbox()
    answers = [outcome(0, upload(2)), outcome(1, BAD[reason]), outcome(2, upload(3))]
    accepted = [reply.client for block in box.read(answers, together) for reply in block]
    assert accepted == [0, 2]
    (failure,) = box.tally.failures
    assert failure.client == 1
    assert reason in failure.reason
    assert "upload of client 1" in failure.reason
    assert sorted(box.store) == [0, 2]
    assert box.answered == {0, 2}


def test_a_bad_upload_stops_the_round_where_asked() -> None:
    with pytest.raises(MessageError, match="upload of client 1"):
        list(inbox("stop").read([outcome(0, upload(2)), outcome(1, BAD["not finite"])], together=True))


def test_a_failure_among_answers_is_noted() -> None:
    box = inbox()
    list(box.read([outcome(0, upload(2)), Failure(4, "gone")], together=True))
    assert box.tally.failures == [Failure(4, "gone")]
    assert box.answered == {0}


@pytest.mark.parametrize("how", ["alone", "together", "bundle"])
def test_counts_do_not_depend_on_the_way(how: str) -> None:
    """Clients 1, 2, 3 send 1, 2, 3 rows: 6 · 3 floats and 6 · 2 int64; losses 1, 2, 3 on the mean 2."""
    box = inbox()
    outcomes = [outcome(c, upload(c)) for c in (1, 2, 3)]
    answers = [bundle(outcomes)] if how == "bundle" else outcomes
    list(box.read(answers, together=how != "alone"))
    assert box.tally.up == (18, 96)
    assert box.tally.loss == 2.0
    assert box.tally.samples == 30
    assert sorted(box.store) == [1, 2, 3]


def test_a_bundle_that_was_spoilt_names_the_client() -> None:
    made = bundle([outcome(1, upload(2)), outcome(2, upload(2))])
    made.up.fields["mean"][3] = torch.inf  # second row of client 2
    box = inbox()
    accepted = [reply.client for block in box.read([made], together=True) for reply in block]
    assert accepted == [1]
    assert "upload of client 2" in box.tally.failures[0].reason


def test_single_replies_of_a_bundle_are_made_only_when_read() -> None:
    asked = []
    joined = bundle([outcome(1, upload(2, 7.0)), outcome(2, upload(1, 8.0))]).up.fields
    block = Block.lazy(2, lambda: asked.append(True) or [], joined)
    (same,) = blocks(Replies.of_blocks(iter([block])))
    assert cat(same, "mean")[0][:, 0].tolist() == [7.0, 7.0, 8.0]
    assert len(same) == 2
    assert not asked


def test_replies_of_a_bundle_hold_their_own_rows() -> None:
    box = inbox()
    answers = [bundle([outcome(1, upload(2, 7.0)), outcome(2, upload(1, 8.0))]), outcome(3, upload(1, 9.0))]
    replies = Replies.of_blocks(box.read(answers, together=True)).all()
    assert [(r.client, r.up.mean[:, 0].tolist()) for r in replies] == [
        (1, [7.0, 7.0]),
        (2, [8.0]),
        (3, [9.0]),
    ]
