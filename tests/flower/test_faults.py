"""What clients do wrong, with real client processes: refused by name, and the round goes on without them."""

import os
import re
import time

import pytest
import torch
from process_link import ProcessLink, from_bytes, to_bytes

from protofed.engines.store import Store
from protofed.engines.transport import Transport
from protofed.flower.engine import Flower
from protofed.testing import Toy

BAD = 1  # the client that misbehaves
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


@pytest.fixture
def federation(tmp_path):
    """Makes a federation over client processes; they are killed at the end."""
    links = []

    def make(misbehave, method="fedproto", rounds=2, **transport):
        experiment = Toy(method).build(rounds=rounds, on_failure="drop")
        link = ProcessLink(experiment, tmp_path, misbehave)
        links.append(link)
        engine = Flower(
            experiment.task,
            experiment.federation.data,
            Store(),
            link,
            Transport(**{"round_timeout": 3.0, "repeat_pause": 0.1, **transport}),
            "test",
        )
        experiment.federation.engine = engine
        return experiment.federation

    yield make
    for link in links:
        link.close()


def training(client, asked, round=1):
    return client == BAD and asked.meta["kind"] == "train" and asked.meta["tag"] == f"{round}.0"


def spoil(**arrays):
    """A client that changes arrays of its upload in round 1."""

    def misbehave(client, asked, reply):
        if training(client, asked):
            changed = {name: change(reply.arrays[name]) for name, change in arrays.items()}
            return reply._replace(arrays={**reply.arrays, **changed})
        return reply

    return misbehave


def retell(**meta):
    """A client that changes the meta data of its reply in round 1."""
    return lambda c, asked, reply: (
        reply._replace(meta={**reply.meta, **meta}) if training(c, asked) else reply
    )


def drop_array(client, asked, reply):
    if training(client, asked):
        return reply._replace(arrays={name: t for name, t in reply.arrays.items() if name != "n"})
    return reply


def add_array(client, asked, reply):
    return (
        reply._replace(arrays={**reply.arrays, "gift": torch.ones(1)}) if training(client, asked) else reply
    )


FAULTS = {
    "NaN": (spoil(mean=lambda t: t * float("nan")), "not finite|finite"),
    "wrong shape": (spoil(mean=lambda t: t[:, :-1]), "mean has shape"),
    "wrong kind": (spoil(n=lambda t: t.double()), "n must hold integers"),
    "rows that do not match": (spoil(cls=lambda t: t[:-1]), "has shape"),
    "a negative count": (spoil(n=lambda t: -t), "negative"),
    "a class that is not there": (spoil(cls=lambda t: t + 100), "class 10"),
    "a huge norm": (spoil(mean=lambda t: t + 1e9), "norm .* limit"),
    "a missing array": (drop_array, "'n' is missing"),
    "an array too many": (add_array, "unexpected array 'gift'"),
    "an old round": (retell(tag="0.0"), "answered tag '0.0', asked was '1.0'"),
    "another client": (retell(client=0), "answered client 0, asked was 1"),
    "an older server": (retell(session=0), "answered session"),
    "another sample count": (retell(n=10**9), "says it has 1000000000 training samples"),
    "a loss that is NaN": (retell(loss=float("nan")), "loss nan"),
    "an explanation": (retell(error="disk full"), "disk full"),
}


def drop_bias(client, asked, reply):
    if training(client, asked):
        return reply._replace(arrays={n: t for n, t in reply.arrays.items() if not n.endswith("head.bias")})
    return reply


def rename_bias(client, asked, reply):
    if training(client, asked):
        return reply._replace(
            arrays={n.replace("head.bias", "heat.bias"): t for n, t in reply.arrays.items()}
        )
    return reply


@pytest.mark.parametrize("misbehave", [drop_bias, rename_bias])
def test_weights_with_a_hole_are_refused_by_name(federation, misbehave):
    made = federation(misbehave, method="fedavg")
    first, second = made.play(), made.play()
    assert re.search(r"client 1: weights/model\.head\.bias is missing", first["failed"]["1"])
    assert (first["clients"], second["clients"], second["failed"]) == (5, 6, {})


@pytest.mark.parametrize("fault", FAULTS)
def test_bad_reply_is_refused_by_name(federation, fault):
    misbehave, reason = FAULTS[fault]
    made = federation(misbehave)
    first, second = made.play(), made.play()
    assert list(first["failed"]) == [str(BAD)]
    assert f"client {BAD}" in first["failed"][str(BAD)]
    assert re.search(reason, first["failed"][str(BAD)])
    assert all(torch.isfinite(t).all() for t in made.state.arrays().values() if t.is_floating_point())
    assert (first["clients"], second["clients"], second["failed"]) == (5, 6, {})


def test_the_others_count_as_if_the_bad_client_was_absent(federation, tmp_path):
    """The state after a round with a refused upload is that of the five good uploads."""
    made = federation(spoil(mean=lambda t: t * float("nan")))
    made.play()
    plain = Toy("fedproto").build()
    engine, good = plain.federation.engine, [c for c in range(6) if c != BAD]
    run = engine.run
    engine.run = lambda jobs: run([job for job in jobs if job.turn.client in good])
    plain.federation.play()
    for name, tensor in plain.federation.state.arrays().items():
        torch.testing.assert_close(made.state.arrays()[name], tensor)


def test_raises(federation):
    def misbehave(client, asked, reply):
        if training(client, asked):
            raise RuntimeError("a bug in the client")
        return reply

    made = federation(misbehave)
    record = made.play()
    assert "client 1: its process died" in record["failed"]["1"]
    made.engine.link.start(BAD)
    assert made.play()["failed"] == {}


def test_hangs_until_the_timeout(federation):
    def misbehave(client, asked, reply):
        if training(client, asked):
            time.sleep(60)
        return reply

    made = federation(misbehave, round_timeout=2.0)
    started = time.monotonic()
    record = made.play()
    assert "no reply within 2 s" in record["failed"]["1"]
    assert time.monotonic() - started < 10
    assert record["clients"] == 5


def test_dies_after_training_and_comes_back(federation):
    """Its reply of round 1 was lost: what it learned there is forgotten, as the server never took it."""

    def misbehave(client, asked, reply):
        if training(client, asked):
            os._exit(1)
        return reply

    made = federation(misbehave)
    assert "died" in made.play()["failed"]["1"]
    assert str(BAD) not in made.engine.memory()["accepted"]
    made.engine.link.start(BAD)
    assert made.play()["failed"] == {}
    assert made.engine.memory()["accepted"][str(BAD)] == "2.0"


def test_too_few_replies_are_asked_for_again(federation, tmp_path):
    """With a quorum of 6 the silent client is asked again, and answers from its disk: the numbers are
    those of a round without trouble."""
    mark = tmp_path / "lost"

    def misbehave(client, asked, reply):
        if training(client, asked) and not mark.exists():
            mark.write_text("x")
            return reply._replace(meta={**reply.meta, "error": "lost on the way"})
        return reply

    made = federation(misbehave, min_clients=6, repeats=1)
    record = made.play()
    assert (record["failed"], record["clients"]) == ({}, 6)
    plain = Toy("fedproto").build()
    plain.federation.play()
    for name, tensor in plain.federation.state.arrays().items():
        torch.testing.assert_close(made.state.arrays()[name], tensor)


@pytest.mark.parametrize("too_few", ["repeat", "skip"])
def test_a_round_below_the_quorum_changes_nothing(federation, too_few):
    made = federation(spoil(mean=lambda t: t * float("nan")), min_clients=6, too_few=too_few, repeats=1)
    before = made.state
    record = made.play()
    assert (record["clients"], len(record["failed"])) == (0, 6)
    assert "leg skipped with 5 of 6 needed replies" in record["failed"]["0"]
    assert made.state is before
    assert made.play()["failed"] == {}


def test_answers_twice(federation):
    """The second answer finds nobody waiting: the numbers are those of a run without trouble."""
    made = federation(lambda client, asked, reply: [reply, reply] if client == BAD else reply)
    assert [made.play()["failed"] for _ in range(2)] == [{}, {}]
    plain = Toy("fedproto").build(rounds=2)
    plain.play(None)
    for name, tensor in plain.federation.state.arrays().items():
        torch.testing.assert_close(made.state.arrays()[name], tensor)


def test_answers_a_question_with_the_reply_of_an_old_round(federation, tmp_path):
    """What the client sent in round 1 is no answer to round 2."""
    kept = tmp_path / "kept"

    def misbehave(client, asked, reply):
        if training(client, asked):
            kept.write_bytes(to_bytes(reply))
        return from_bytes(kept.read_bytes()) if training(client, asked, round=2) else reply

    made = federation(misbehave)
    assert made.play()["failed"] == {}
    assert "answered tag '1.0', asked was '2.0'" in made.play()["failed"]["1"]
