"""For every method: an upload that is spoilt in some way is refused by name, or does no harm."""

import pytest
import torch
from local_link import LocalLink
from test_every_method import GENTLE

from protofed.core.algorithm import methods
from protofed.core.answer import Replies, Reply
from protofed.core.errors import MessageError
from protofed.core.task import Turn
from protofed.engines.base import Job
from protofed.engines.checks import Checks, Outside, Reference
from protofed.engines.store import Store
from protofed.engines.transport import Transport
from protofed.flower.engine import Flower
from protofed.flower.messages import read_reply, write_reply
from protofed.flower.packet import Packet
from protofed.testing import Toy

BAD = 1
NO_REFERENCE = Reference(lambda client: None)


def read(job, arrays, expected, counted=False):
    """The reply with these arrays as the engine reads it, or MessageError."""
    task = job.turn.task
    meta = {"n": 14, "steps": 1, "samples": 14, "loss": 0.5}
    reply = read_reply(job, Packet(meta, arrays))
    more = Outside(expected, 1e6, lambda client: 14, counted)
    problem = Checks(task, more).problem(reply, job.leg, job.turn.round)
    if problem is not None:
        raise MessageError(problem)
    return reply.up


def without(arrays, name):
    return {key: value for key, value in arrays.items() if key != name}


SPOILS = {
    "missing": without,
    "renamed": lambda a, n: {**without(a, n), n + "x": a[n]},
    "alone": lambda a, n: {n: a[n]} if len(a) > 1 else {},
    "a gift": lambda a, n: {**a, n.partition("/")[0] + "/gift": torch.ones(3, dtype=torch.float64)},
    "shorter": lambda a, n: {**a, n: a[n][:-1]} if a[n].ndim and len(a[n]) else None,
    "longer": lambda a, n: {**a, n: torch.cat([a[n], a[n][-1:]])} if a[n].ndim and len(a[n]) else None,
    "flat": lambda a, n: {**a, n: a[n].reshape(-1)} if a[n].ndim != 1 else None,
    "integers": lambda a, n: {**a, n: a[n].long()} if a[n].is_floating_point() else None,
    "half": lambda a, n: {**a, n: a[n].half()} if a[n].is_floating_point() else None,
    "NaN": lambda a, n: {**a, n: a[n] * torch.nan} if a[n].is_floating_point() and a[n].numel() else None,
}
# Shorter lists of classes, and what belongs to them, are uploads of a client with fewer classes.
HARMLESS = ("shorter", "longer")


def legs(case):
    """(jobs, uploads, state) of every leg of the first two rounds."""
    made = case.build(rounds=2)
    federation, found = made.federation, []
    run = federation.engine.run

    def record(jobs):
        outcomes = list(run(jobs))
        found.append((jobs, outcomes, federation.state))
        return iter(outcomes)

    federation.engine.run = record
    made.play(None)
    return made, found


def cases():
    for name in methods:
        needs = methods[name](**GENTLE.get(name, {})).needs
        if not needs.merged:
            yield Toy(name, GENTLE.get(name, {}), models="mlp" if needs.model or needs.base else "mixed")
    yield Toy("fedproto", {"share_model": True})
    yield Toy("fesem", {"assign": "ways"})


@pytest.mark.parametrize("case", list(cases()), ids=lambda c: "-".join([c.method, *c.options]))
def test_spoilt_uploads_are_refused_or_harmless(case):
    made, found = legs(case)
    expected = Reference(lambda client: made.data.train(client))
    refused = 0
    for jobs, outcomes, state in found:
        job, good = jobs[BAD], outcomes[BAD].up.arrays()
        for one, outcome in zip(jobs, outcomes, strict=True):  # what honest clients send is accepted
            expected.learn(one.turn, one.leg, one.down)
            read(one, write_reply(outcome)[1], expected)
        for name in good:
            for kind, spoil in SPOILS.items():
                arrays = spoil(good, name)
                if arrays is None:
                    continue
                up, reason = attempt(job, arrays, expected)
                if up is None:
                    assert f"upload of client {BAD}" in reason
                    refused += 1
                else:
                    assert kind in HARMLESS, (name, kind)
                    aggregate(made, job, outcomes, up, state)
    assert refused or not any(outcomes[BAD].up.arrays() for _, outcomes, _ in found)


def attempt(job, arrays, expected):
    """(the accepted upload, None) or (None, why it was refused)."""
    try:
        return read(job, arrays, expected), None
    except MessageError as error:
        return None, str(error)


def aggregate(made, job: Job, outcomes, up, state):
    """The server's step with this upload in place of the good one."""
    replies = [Reply(o.client, o.n, up if o.client == BAD else o.up) for o in outcomes]
    with torch.no_grad():
        turn = Turn(made.task, job.turn.round, job.leg.name)
        made.task.algorithm.aggregate(state, Replies(iter(replies)), turn)


def upload(n):
    """A job of the toy, and an upload of client 1, which has 14 samples, with these counts."""
    jobs, outcomes, _ = legs(Toy("fedproto"))[1][0]
    arrays = outcomes[BAD].up.arrays()
    return jobs[BAD], {**arrays, "n": torch.tensor(n)}


def test_counts_beyond_the_samples_of_the_client_are_refused():
    job, arrays = upload([8, 6])
    read(job, arrays, NO_REFERENCE, counted=True)
    job, arrays = upload([10**12, 10**12])
    with pytest.raises(MessageError, match="n counts 2000000000000 samples; it joined with 14"):
        read(job, arrays, NO_REFERENCE, counted=True)
    read(job, arrays, NO_REFERENCE)  # dense labels: pixels are counted
    job, arrays = upload([2**62, 2**62])  # their sum does not fit into 64 bits
    with pytest.raises(MessageError, match=f"n holds {2**62}; expected 1 to 1,000,000,000,000"):
        read(job, arrays, NO_REFERENCE)


def test_the_engine_holds_counts_against_the_samples(tmp_path):
    """In a deployment; the client is left out and the round goes on."""
    made = Toy("fedproto").build(on_failure="drop")

    def change(client, reply):
        arrays = reply.arrays
        return reply._replace(arrays={**arrays, "n": arrays["n"] + 1000}) if client == BAD else reply

    link = LocalLink(made, tmp_path, change=change)
    made.federation.engine = Flower(
        made.task, made.data, Store(), link, Transport(), "test", counts_samples=True
    )
    record = made.federation.play()
    assert "n counts 2014 samples; it joined with 14" in record["failed"][str(BAD)]
    assert record["clients"] == 5


def test_a_method_that_cannot_be_carried_out_blank_is_checked_for_less(caplog):
    jobs, outcomes, _ = legs(Toy("fedproto"))[1][0]
    expected = Reference(lambda client: 1 / 0)
    expected.learn(jobs[0].turn, jobs[0].leg, jobs[0].down)
    assert expected.known(jobs[0].turn) is None
    assert "not checked: ZeroDivisionError" in caplog.text
    read(jobs[0], outcomes[0].up.arrays(), expected)
