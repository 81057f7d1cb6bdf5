"""One small federation of each method, to see what its messages carry.

Payload depends on shapes, not on accuracy, so two rounds suffice: the second is the first in which every
server has something to send. Of what is sent once, the round that carried it is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from protofed import experiment
from protofed.cli.parser import make_parser, settings_of
from protofed.config import resolve
from protofed.core.algorithm import methods
from protofed.core.record import Record
from protofed.engines.base import Job

CLIENTS = 10
EXAMPLE = f"--clients {CLIENTS} --rounds 2 --batch-size 64"  # large batches: few steps, the same payload


@dataclass(frozen=True)
class Sent:
    """All messages of one leg in one direction, one a client."""

    leg: str
    way: str  # "down" or "up"
    kind: type[Record]
    records: list[Record]


@dataclass(frozen=True)
class Seen:
    """What the rounds showed."""

    sent: list[Sent]
    params: dict[str, float]  # "down", "up": parameters a client
    sizes: dict[str, int]  # C, D, N


def command(method: str) -> str:
    """The run that gives the same counts."""
    needs = methods[method]().needs
    more = " --public digits --public-samples 100" if needs.public else ""
    return f"protofed run {method} {EXAMPLE}{more}{' --momentum 0' if needs.sgd else ''}"


def play(method: str) -> Seen:
    """Carry out `command` and look at the last round, or at the first where that carried more."""
    _, args = make_parser(command(method).split()[1:])
    config = resolve({"method": method, "engine": "sequential", "eval_every": 2}, settings_of(args))
    federation = experiment.build(config).federation
    sent: list[Sent] = []
    run = federation.engine.run

    def watched(jobs: Iterable[Job]) -> Iterator[Any]:
        jobs = list(jobs)
        done = list(run(jobs))
        leg = jobs[0].leg
        sent.append(Sent(leg.name, "down", leg.down, [job.down for job in jobs]))
        sent.append(Sent(leg.name, "up", leg.up, [one.up for one in done]))
        return iter(done)

    federation.engine.run = watched  # type: ignore[method-assign]
    records = [federation.play(), federation.play()]
    params = {way: max(record[way]["params"] for record in records) / CLIENTS for way in ("down", "up")}
    rounds = zip(sent[: len(sent) // 2], sent[len(sent) // 2 :], strict=True)
    return Seen(
        [max(last, first, key=_floats) for first, last in rounds], params, dict(federation.task.sizes)
    )


def _floats(sent: Sent) -> int:
    return sum(record.payload().floats for record in sent.records)
