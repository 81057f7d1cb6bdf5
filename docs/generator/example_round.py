"""One small federation of each method, to see what its messages carry.

Payload depends on shapes, not on accuracy, so two rounds suffice: the second is the first in which every
server has something to send.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from protofed import experiment
from protofed.config import resolve
from protofed.core.algorithm import methods
from protofed.core.answer import Reply
from protofed.core.record import Nothing, Record
from protofed.engines.base import Job

CLIENTS, ROUNDS, BATCH, PUBLIC = 10, 2, 64, 100  # large batches: few steps, the same payload


@dataclass
class Sent:
    """All messages of one leg in one direction, one a client."""

    leg: str
    way: str  # "down" or "up"
    records: list[Record] = field(default_factory=list)

    @property
    def kind(self) -> type[Record]:
        return next((type(r) for r in self.records if not isinstance(r, Nothing)), Nothing)


@dataclass
class Seen:
    """What the last round showed."""

    sent: list[Sent]
    params: dict[str, float]  # "down", "up": parameters a client
    sizes: dict[str, int]  # C, D, N


def command(method: str) -> str:
    """The run that gives the same counts."""
    text = f"protofed run {method} --clients {CLIENTS} --rounds {ROUNDS} --batch-size {BATCH}"
    text += f" --public digits --public-samples {PUBLIC}" if methods[method]().needs.public else ""
    return text + (" --momentum 0" if methods[method]().needs.sgd else "")


def play(method: str) -> Seen:
    """Carry out the rounds of `command` and look at the last."""
    built = _build(method)
    federation, engine = built.federation, built.federation.engine
    for _ in range(ROUNDS - 1):
        federation.play()
    sent: list[Sent] = []
    run = engine.run

    def watched(jobs: Any) -> Iterator[Any]:
        jobs, done = list(jobs), list(run(jobs))
        sent.extend(_messages(jobs, done))
        return iter(done)

    engine.run = watched  # type: ignore[method-assign]
    record = federation.play()
    params = {way: record[way]["params"] / CLIENTS for way in ("down", "up")}
    return Seen(sent, params, dict(federation.task.sizes))


def _build(method: str) -> experiment.Experiment:
    settings: dict[str, Any] = {"method": method, "clients": CLIENTS, "rounds": ROUNDS, "batch_size": BATCH}
    settings |= {"engine": "sequential", "eval_every": ROUNDS}
    if methods[method]().needs.public:
        settings |= {"public": "digits", "public_samples": PUBLIC}
    if methods[method]().needs.sgd:
        settings |= {"momentum": 0.0}
    return experiment.build(resolve(settings))


def _messages(jobs: list[Job], done: list[Any]) -> list[Sent]:
    ups = [one.up for one in done if isinstance(one, Reply)]
    if len(ups) < len(jobs):
        raise RuntimeError(
            f"{jobs[0].turn.task.algorithm.name}: a client of the example did not answer: {done}"
        )
    leg = jobs[0].leg.name
    return [Sent(leg, "down", [job.down for job in jobs]), Sent(leg, "up", ups)]
