"""Protections put on the same uploads: what would have been seen of them with each.

A protection is written as a run has it: `secure`, `client:noise=…` or `example:noise=…` (as `--dp` takes
them), `fp16` or `int8` (as `--upload`). Those that stand between clients and server are the guards of a run
themselves, so that nothing is tested but what is used.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from ..core.answer import Replies, Reply
from ..core.errors import ConfigError, EngineError, ProtofedError
from ..core.guard import Guard
from ..core.task import Turn
from ..experiment import Experiment
from ..trust.guards import make_guards
from ..trust.levels import levels, make_level
from ..trust.privacy import private_steps
from ..trust.robust import Robust
from ..trust.settings import Trust
from .uploads_again import Seen, Sent, read

NONE, SECURE = "none", "secure"
COARSE = ("fp16", "int8")
DEFAULT = (SECURE, "int8", "client:noise=0.1", "client:noise=1")


@dataclass(frozen=True)
class Protection:
    """What is done to uploads before somebody sees them; `refused`: why it cannot be done to these."""

    name: str
    guards: Sequence[Guard] = ()
    precision: str = ""
    epsilon: float | None = None  # of all rounds of the run, with noise
    refused: str = ""

    @property
    def mixes(self) -> bool:
        """Whether what is seen is of all clients together."""
        return bool(self.guards)

    def seen(self, sent: Sent, turn: Turn) -> Mapping[int, Seen]:
        """What is seen of each client."""
        if not self.mixes:
            return {
                client: read([_coarse(reply, self.precision)], sent.leg)
                for client, reply in sent.replies.items()
            }
        replies = Replies(sent.replies.values())
        with torch.no_grad():
            for guard in self.guards:
                replies = guard.combine(replies, sent.state, sent.leg, turn)
            together = read(replies.all(), sent.leg)
        return dict.fromkeys(sent.replies, together)


def protections(experiment: Experiment, asked: Sequence[str] | None, clients: int) -> list[Protection]:
    """None at all, those of the run itself, and those that are asked for (by default some usual ones), on
    uploads of so many clients. What is asked for and cannot be done is an error, what is usual is told."""
    found = [Protection(NONE), *_own(experiment)]
    for written in DEFAULT if asked is None else asked:
        try:
            made = make_protection(experiment, written.removeprefix("dp:"), clients)
        except ProtofedError as error:
            if asked is not None:
                raise
            made = Protection(written, refused=str(error))
        if made.name not in {one.name for one in found}:
            found.append(made)
    return found


def _own(experiment: Experiment) -> list[Protection]:
    """What the run itself does between the uploads and whoever sees them."""
    trust, upload = experiment.config.trust, experiment.config.transport.upload
    guards = [one for one in experiment.federation.guards if not isinstance(one, Robust)]
    names = [*([SECURE] if trust.secure else []), *([trust.dp] if trust.dp else [])]
    found = [Protection(upload, precision=upload)] if upload in COARSE else []
    if guards:
        found.append(Protection(" + ".join(names), guards, epsilon=_spent(guards, experiment)))
    return found


def make_protection(experiment: Experiment, written: str, clients: int) -> Protection:
    """The protection that is written so; ConfigError, or one of another kind, where it cannot be."""
    if written in COARSE:
        if importlib.util.find_spec("flwr") is None:
            raise EngineError(f"protect {written}: needs Flower: pip install 'protofed[deploy]'")
        return Protection(written, precision=written)
    if written != SECURE and written.split(":")[0] not in levels:
        known = ", ".join((SECURE, *COARSE, *(f"{name}:noise=…" for name in levels)))
        raise ConfigError(f"protect {written}: not known; one of {known}")
    trust = Trust(secure=True) if written == SECURE else Trust(dp=written)
    task = experiment.task
    if private_steps(trust, task.algorithm) is not None and trust.dp is not None:
        make_level(trust.dp)
        raise ConfigError(
            f"protect {written}: noise in local steps changes the training itself; run with --dp {written}, "
            "and measure that run beside this one"
        )
    samples = sum(experiment.data.size(client) for client in experiment.active)
    guards = make_guards(trust, task, clients, samples=samples)
    return Protection(written, guards, epsilon=_spent(guards, experiment))


def _spent(guards: Sequence[Guard], experiment: Experiment) -> float | None:
    """ε after all rounds of the run."""
    for guard in guards:
        budget = getattr(guard, "budget", None)
        if budget is not None:
            rounds = max(1, experiment.federation.round)
            return float(budget.level.epsilon(budget.once + rounds * budget.each_round))
    return None


def _coarse(reply: Reply, precision: str) -> Reply:
    """A reply as a message of this precision brings it."""
    if not precision:
        return reply
    from ..flower.codec import decode, encode
    from ..flower.packet import Packet

    packet = decode(encode(Packet({"kind": "train"}, reply.up.arrays(), precision)))
    return reply._replace(up=type(reply.up).of(packet.arrays))
