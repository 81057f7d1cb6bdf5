"""`protofed deploy measure --accuracy`: what coarser uploads cost in accuracy.

The same runs with uploads in full precision, fp16 and int8. Clients are trained one after the other in this
process, and every upload goes through the message that a deployment would send. The cost is the difference
to the run of the same seed in full precision.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .. import experiment as experiments
from ..config import resolve
from ..core.answer import Answer, Reply
from ..engines.base import Job
from ..engines.sequential import Sequential
from ..flower.codec import decode, encode
from ..flower.packet import Packet
from ..runs.records import scores_of

METHODS = ("fedproto", "fedavg")
UPLOADS = ("full", "fp16", "int8")
SEEDS, ROUNDS = 3, 40
SETTINGS = {
    "data": "digits",
    "partition": "dirichlet:beta=0.5,pool=true",
    "clients": 6,
    "epochs": 1,
    "lr": 0.05,
}


class Coarse(Sequential):
    """Uploads arrive as a message of this precision brings them."""

    upload = "full"
    sent = 0  # bytes of all messages

    def run(self, jobs: Sequence[Job]) -> Iterator[Answer]:
        """Replies with uploads as they arrive."""
        for job, answer in zip(jobs, super().run(jobs)):
            if not isinstance(answer, Reply):
                yield answer
                continue
            packet = decode(encode(Packet({"kind": "train"}, answer.up.arrays(), self.upload)))
            self.sent += packet.wire_bytes
            yield answer._replace(up=job.leg.up.of(packet.arrays))


def cost_of_precision(rounds: int, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """One line per method and precision."""
    lines = []
    for method in METHODS:
        full: list[float] = []
        for upload in UPLOADS:
            say(f"{method}, uploads {upload}: {SEEDS} runs of {rounds} rounds")
            runs = [_play(method, upload, seed, rounds) for seed in range(SEEDS)]
            values = [accuracy for accuracy, _ in runs]
            full = full or values
            lines.append(
                {
                    "method": method,
                    "upload": upload,
                    "accuracy": _spread(values),
                    "cost": _spread([before - after for before, after in zip(full, values)]),
                    "message_up": runs[0][1],
                }
            )
    return lines


def _play(method: str, upload: str, seed: int, rounds: int) -> tuple[float, int]:
    """Accuracy in the method's main mode after the last round, and the bytes of an upload."""
    given = {"method": method, "seed": seed, "rounds": rounds, "eval_every": rounds, "engine": "sequential"}
    built = experiments.build(resolve(SETTINGS, given))
    engine = Coarse(built.task, built.data, built.federation.engine.store)
    engine.upload = upload
    built.federation.engine = engine
    last = built.play(None)[-1]
    messages = rounds * built.task.clients
    return scores_of(last)[built.task.algorithm.modes[0]]["mean"], engine.sent // messages


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"mean": statistics.mean(values), "std": statistics.stdev(values)}
