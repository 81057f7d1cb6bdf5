"""The inbox: uploads checked together or alone, with the same verdict; blocks; counts."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from protofed.algorithms.fedproto import FedProto, Protos
from protofed.core.answer import Block, ClientState, Failure, Replies, Reply, Work, blocks, cat
from protofed.core.errors import MessageError
from protofed.core.record import Nothing
from protofed.core.task import Group, Task
from protofed.engines.checks import Checks
from protofed.engines.inbox import Inbox, Tally
from protofed.engines.sequential import Sequential
from protofed.engines.store import Store

D = 3
TASK = Task(FedProto(), [Group("linear", lambda: nn.Linear(1, 1))], np.zeros(9, dtype=np.int64), 4, (D,))


def upload(rows: int, value: float = 1.0) -> Protos:
    return Protos(torch.full((rows, D), value), torch.arange(rows), torch.ones(rows, dtype=torch.int64), {})


def answer(client: int, up: Protos | Nothing) -> Reply:
    mem = {"who": torch.tensor([client])}
    return Reply(client, 5, up, ClientState({}, mem), Work(2, 10, float(client)))


def block(*replies: Reply) -> Block:
    made = Block.join(Protos, replies, TASK.sizes)
    assert made is not None
    return made


def inbox(on_failure: str = "drop", together: bool = True) -> Inbox:
    engine = Sequential(TASK, None, Store())
    engine.together = together
    return Inbox(engine, FedProto().legs[0], 1, Tally(), on_failure)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=2, max_size=8))
def test_joined_records_are_cut_into_the_same_records(rows: list[int]) -> None:
    replies = [answer(i, upload(n, float(i))) for i, n in enumerate(rows)]
    made = block(*replies)
    assert made.sound(TASK.sizes)
    for before, after in zip(replies, made, strict=True):
        assert before.client == after.client
        assert all(torch.equal(t, after.up.arrays()[name]) for name, t in before.up.arrays().items())


COUNT = torch.ones(2, dtype=torch.int64)
BAD = {
    "not finite": Protos(torch.full((2, D), torch.nan), torch.arange(2), COUNT, {}),
    "has shape": Protos(torch.ones(2, D + 1), torch.arange(2), COUNT, {}),
    "must hold floats": Protos(torch.ones(2, D).long(), torch.arange(2), COUNT, {}),
    "cls has shape": Protos(torch.ones(2, D), torch.arange(3), COUNT, {}),
    "cls holds class 4; expected 0 to 3": Protos(torch.ones(2, D), torch.tensor([1, 4]), COUNT, {}),
    "cls holds -1; expected no negative": Protos(torch.ones(2, D), torch.tensor([-1, 1]), COUNT, {}),
    "n holds -5; expected no negative": Protos(torch.ones(2, D), torch.arange(2), COUNT * -5, {}),
    "n holds 0; expected 1 to": Protos(torch.ones(2, D), torch.arange(2), COUNT * 0, {}),
    f"n holds {2**62}; expected": Protos(torch.ones(2, D), torch.arange(2), COUNT * 2**62, {}),
    "cls holds class 1 2 times": Protos(torch.ones(2, D), torch.tensor([1, 1]), COUNT, {}),
    "mean has dtype torch.float64; expected torch.float32": Protos(
        torch.ones(2, D, dtype=torch.float64), torch.arange(2), COUNT, {}
    ),
    "mean has norm 2.45e+30": Protos(torch.full((2, D), 1e30), torch.arange(2), COUNT, {}),
    "mean has norm 7.35e+38": Protos(torch.full((2, D), 3e38), torch.arange(2), COUNT, {}),
    "expected Protos": Nothing(),
}


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("reason", BAD)
def test_the_guilty_client_is_named_and_the_others_count(reason: str, together: bool) -> None:
    box = inbox(together=together)
    answers = [answer(0, upload(2)), answer(1, BAD[reason]), answer(2, upload(3))]
    accepted = [reply.client for some in box.read(answers) for reply in some]
    assert accepted == [0, 2]
    (failure,) = box.tally.failures
    assert failure.client == 1
    assert reason in failure.reason
    assert "upload of client 1" in failure.reason
    assert sorted(box.engine.store) == [0, 2]
    assert box.answered == {0, 2}


@pytest.mark.parametrize(
    ("classes", "sound"),
    [
        ([[0, 1, 2], [1, 2, 3]], True),  # one length, ascending
        ([[2, 0, 1], [3, 2, 1]], True),  # one length, any order
        ([[0, 1], [1, 2, 3]], True),
        ([[3, 1], [3]], True),  # the same class in two uploads
        ([[0, 1, 2], [1, 3, 3]], False),
        ([[2, 0, 2], [1, 2, 3]], False),
        ([[0, 1], [1, 2, 1]], False),
    ],
)
def test_a_class_comes_once_in_an_upload(classes: list[list[int]], sound: bool) -> None:
    ups = [Protos(torch.ones(len(c), D), torch.tensor(c), torch.ones(len(c)).long(), {}) for c in classes]
    replies = [answer(client, up) for client, up in enumerate(ups)]
    checks = Checks(TASK)
    assert checks.together(block(*replies), sound=True) == sound
    alone = [checks.problem(reply, FedProto().legs[0], 1) for reply in replies]
    assert all(reason is None for reason in alone) == sound


def test_a_bad_upload_stops_the_round_where_asked() -> None:
    with pytest.raises(MessageError, match="upload of client 1"):
        list(inbox("stop").read([answer(0, upload(2)), answer(1, BAD["not finite"])]))


def test_a_failure_among_answers_is_noted() -> None:
    box = inbox()
    list(box.read([answer(0, upload(2)), Failure(4, "gone")]))
    assert box.tally.failures == [Failure(4, "gone")]
    assert box.answered == {0}


@pytest.mark.parametrize("how", ["alone", "together", "block"])
def test_counts_do_not_depend_on_the_way(how: str) -> None:
    """Clients 1, 2, 3 send 1, 2, 3 rows: 6 · 3 floats and 6 · 2 int64; losses 1, 2, 3 on the mean 2."""
    box = inbox(together=how != "alone")
    replies = [answer(c, upload(c)) for c in (1, 2, 3)]
    answers = [block(*replies)] if how == "block" else replies
    list(box.read(answers))
    assert box.tally.up == (18, 96)
    assert box.tally.loss == 2.0
    assert box.tally.samples == 30
    assert sorted(box.engine.store) == [1, 2, 3]


def test_a_block_that_was_spoilt_names_the_client() -> None:
    made = block(answer(1, upload(2)), answer(2, upload(2)))
    made.joined.fields["mean"][3] = torch.inf  # second row of client 2
    box = inbox()
    accepted = [reply.client for some in box.read([made]) for reply in some]
    assert accepted == [1]
    assert "upload of client 2" in box.tally.failures[0].reason


def test_single_replies_of_a_block_are_made_only_when_read(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    made = block(answer(1, upload(2, 7.0)), answer(2, upload(1, 8.0)))
    monkeypatch.setattr(Block, "_cut", lambda block: asked.append(True) or [])
    (same,) = blocks(Replies.of_blocks(iter([made])))
    assert cat(same, "mean")[0][:, 0].tolist() == [7.0, 7.0, 8.0]
    assert len(same) == 2
    assert not asked


def test_replies_of_a_block_hold_their_own_rows() -> None:
    box = inbox()
    answers = [block(answer(1, upload(2, 7.0)), answer(2, upload(1, 8.0))), answer(3, upload(1, 9.0))]
    replies = Replies.of_blocks(box.read(answers)).all()
    assert [(r.client, r.up.mean[:, 0].tolist()) for r in replies] == [
        (1, [7.0, 7.0]),
        (2, [8.0]),
        (3, [9.0]),
    ]


def test_methods_see_no_private_state() -> None:
    box = inbox()
    answers = [block(answer(1, upload(2)), answer(2, upload(1))), answer(3, upload(1))]
    replies = Replies.of_blocks(box.read(answers)).all()
    assert [reply.state for reply in replies] == [ClientState()] * 3
    assert {client: box.engine.store.get(client).mem["who"].tolist() for client in box.engine.store} == {
        1: [1],
        2: [2],
        3: [3],
    }


def test_what_a_deployment_asks_besides_is_asked_of_each() -> None:
    def more(turn, reply, who):
        if reply.client == 2:
            raise MessageError("too many rows")

    box = inbox()
    box.engine.checks = Checks(TASK, more)
    list(box.read([block(answer(1, upload(2)), answer(2, upload(1)))]))
    assert box.answered == {1}
    assert box.tally.failures[0].reason.endswith("upload of client 2: too many rows")


def test_an_engine_that_checked_itself_is_believed() -> None:
    box = inbox()
    box.engine.checks = None
    list(box.read([answer(1, BAD["not finite"])]))
    assert box.answered == {1}
