"""A client that holds a valid key sends what nobody expects: it is refused by name, and the round goes on."""

import json
import math

import pytest
import torch
from local_link import LocalLink

from protofed.algorithms.fedproto import FedProto
from protofed.core.errors import MessageError
from protofed.deploy.agreement import LONGEST, parse_member
from protofed.engines.store import Store
from protofed.engines.transport import Transport
from protofed.flower.engine import Flower
from protofed.testing import Toy

BAD = 1
DEEP = "[" * 100_000


def federation(tmp_path, change):
    """A deployment over a link in this process; `change(reply)` is what the bad client answers."""
    made = Toy("fedproto").build(on_failure="drop")
    link = LocalLink(made, tmp_path, change=lambda client, reply: change(reply) if client == BAD else reply)
    sizes = [len(made.data.test(client)) for client in range(made.task.clients)]
    made.federation.engine = Flower(
        made.task,
        made.data,
        Store(),
        link,
        Transport(),
        "test",
        counts_samples=True,
        tested=sizes.__getitem__,
    )
    return made.federation


TRAINED = {
    "endless steps": {"steps": math.inf},
    "steps beyond counting": {"steps": 10**18},
    "steps of text": {"steps": DEEP},
    "a loss of text": {"loss": "[bold]"},
    "samples below zero": {"samples": -1},
    "samples that are none": {"n": True},
    "an endless loss": {"loss": math.inf},
    "a loss beyond all": {"loss": 1e200},
}


@pytest.mark.parametrize("meta", TRAINED.values(), ids=list(TRAINED))
def test_a_hostile_reply_is_refused_and_the_round_goes_on(meta, tmp_path):
    made = federation(tmp_path, lambda reply: reply._replace(meta={**reply.meta, **meta}))
    record = made.play()
    assert "client 1" in record["failed"]["1"]
    assert len(record["failed"]["1"]) < 300
    assert record["clients"] == made.task.clients - 1


def test_an_exception_that_nobody_thought_of_is_the_clients_own(tmp_path, caplog, monkeypatch):
    def read(job, packet):
        if job.client == BAD:
            raise ZeroDivisionError("who would have thought")
        return before(job, packet)

    import protofed.flower.engine as engine

    before = engine.read_reply
    monkeypatch.setattr(engine, "read_reply", read)
    record = federation(tmp_path, lambda reply: reply).play()
    assert record["failed"] == {"1": "client 1: the reply cannot be read (ZeroDivisionError)"}
    assert "who would have thought" in caplog.text


ONE = dict.fromkeys(FedProto().modes, 1)
SIGNS = {"guesses": ONE, "majority": 1, "own": 1, "few": 0, "spread": 0.5}
SCORE = {"loss": 0.5, "correct": ONE, "signs": SIGNS}


def score(**changed):
    """The text of a test result, parts of it changed; `signs` names parts of the signs."""
    signs = {**SIGNS, **changed.pop("signs", {})}
    return {"score": json.dumps({**SCORE, "signs": signs, **changed})}


TESTED = {
    "nested without end": {"score": DEEP},
    "no text": {"score": 3},
    "a mode is missing": score(correct={"clf": 1}),
    "a mode of its own": score(correct={"clf": 1, "x" * 500: 1}),
    "modes without end": score(correct={str(number): 1 for number in range(1000)}),
    "more right than tested": score(correct={**ONE, "clf": 10**6}),
    "less than none right": score(correct={**ONE, "clf": -1}),
    "half of one right": score(correct={**ONE, "clf": 0.5}),
    "more samples than it has": {"n": 10**18},
    "fewer samples than it has": {"n": 1},
    "no samples": {"n": 0},
    "endless samples": {"n": math.inf},
    "text without end": {"score": "x" * 200_000},
    "an endless loss": {"score": json.dumps(SCORE).replace("0.5", "1e999")},
    "a loss that is no number": {"score": json.dumps(SCORE).replace("0.5", "Infinity")},
    "a loss beyond all": score(loss=1e200),
    "a key twice": {"score": json.dumps(SCORE).replace('"few": 0', '"few": 0, "few": 1')},
    "signs of another kind": {"score": json.dumps({**SCORE, "signs": [1, 2]})},
    "more classes than there are": score(signs={"own": 1000}),
    "more rare classes than classes": score(signs={"own": 1, "few": 2}),
    "guesses of other modes": score(signs={"guesses": {"clf": 1}}),
}


def test_the_test_reply_that_is_spoilt_below_is_sound_before(tmp_path):
    """Else the tests below would refuse it for another reason."""
    made = federation(tmp_path, lambda reply: _tested(reply, score()))
    made.play()
    assert len(made.evaluate(range(made.task.clients))) == made.task.clients


def _tested(reply, meta):
    return reply._replace(meta={**reply.meta, **meta}) if reply.meta["kind"] == "evaluate" else reply


@pytest.mark.parametrize("meta", TESTED.values(), ids=list(TESTED))
def test_a_hostile_test_reply_is_left_out(meta, tmp_path, caplog):
    made = federation(tmp_path, lambda reply: _tested(reply, meta))
    made.play()
    scores = made.evaluate(range(made.task.clients))
    assert [score.client for score in scores] == [0, 2, 3, 4, 5]
    assert "client 1 was not tested: test of client 1" in caplog.text


HELLO = {
    "name": "north",
    "model": "mlp",
    "shape": [1, 8, 8],
    "dim": 16,
    "classes": ["a", "b"],
    "train": 10,
    "test": 5,
    "dense": False,
}
BOUNDS = {
    "dim is 100000000000000; expected": {"dim": 10**14},
    "dim is -1; expected": {"dim": -1},
    "dim is inf|Infinity is no number": {"dim": math.inf},
    "dim is True": {"dim": True},
    "dim is '16'": {"dim": "16"},
    "at most 100,000,000": {"shape": [10**6, 10**6]},
    "shape: 7 values": {"shape": [1] * 7},
    "shape is 0; expected": {"shape": [0, 8]},
    "shape is '188'; expected a list": {"shape": "188"},
    "classes: 100,001 values": {"classes": [str(number) for number in range(100_001)]},
    "none twice": {"classes": ["a", "a"]},
    "at least one": {"classes": []},
    "train is 10000000000001": {"train": 10_000_000_000_001},
    "test is 1.5": {"test": 1.5},
    "dense is 'no'": {"dense": "no"},
    "name is dict": {"name": {}},
    "model: 5,000 characters": {"model": "m" * 5000},
    "files: 101": {"files": {str(number): "" for number in range(101)}},
}


@pytest.mark.parametrize("reason", BOUNDS)
def test_a_hello_has_bounds(reason):
    assert parse_member(json.dumps(HELLO)).dim == 16
    with pytest.raises(MessageError, match=reason) as caught:
        parse_member(json.dumps({**HELLO, **BOUNDS[reason]}))
    assert len(str(caught.value)) <= 300


@pytest.mark.parametrize("text", ["", "null", "[]", DEEP, "x" * (LONGEST + 1), '{"name": 1e999}'])
def test_a_hello_that_is_none_is_refused(text):
    with pytest.raises(MessageError, match="hello"):
        parse_member(text)


def test_scores_with_other_modes_do_not_end_a_run():
    from protofed.core.answer import Score
    from protofed.metrics.scores import summarise

    scores = [Score(0, 4, {"clf": 1, "gp_all": 2}, 0.0, {}), Score(1, 4, {"clf": 3}, 0.0, {})]
    assert list(summarise(scores)["acc"]) == ["clf"]
    assert torch.isfinite(torch.tensor(summarise(scores)["acc"]["clf"]["mean"]))
