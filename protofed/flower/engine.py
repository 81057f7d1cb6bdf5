"""The Flower engine: jobs become packets, replies become outcomes. The round loop stays the common one.

A leg counts with at least `min_clients` accepted replies. With fewer, those who did not answer are asked
again (they answer from their disk if they have trained already), or the leg is skipped: everybody fails,
the server's state and the clients' committed states stay as they were.

Where client states live: in a deployment on the clients' disks, and the engine remembers only the tag that it
accepted last of each client, in every checkpoint. In a simulation the disk is shared, and the store holds the
states themselves, as with every other engine.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from ..core.answer import Answer, ClientState, Failure, Reply, Score
from ..core.data import ClientData, LocalData
from ..core.errors import EngineError, MessageError
from ..core.outside import SAID, reading, shown
from ..core.record import Tree
from ..core.task import Task
from ..engines.base import Engine, Job
from ..engines.checks import SAMPLES, Checks, Outside, Reference
from ..engines.store import Store
from ..engines.transport import Transport
from .messages import read_reply, read_score, tag_of, write_job
from .packet import Exchanged, Link, Meta, Packet
from .reading_mark import NoMark, ReadingMark
from .vault import Tag, Vault

log = logging.getLogger("protofed")
Watch = Callable[[dict[str, Any]], None]


class Flower(Engine):
    """Trains and tests clients behind a link. It checks uploads itself: a quorum counts accepted ones."""

    name: ClassVar[str] = "flower"

    def __init__(
        self,
        task: Task,
        data: ClientData,
        store: Store,
        link: Link,
        transport: Transport,
        experiment: str,
        session: int = 1,
        shared_disk: Path | None = None,
        watch: Watch | None = None,
        sample: Callable[[int], LocalData] | None = None,
        counts_samples: bool = False,
        tested: Callable[[int], int] | None = None,
        mark: ReadingMark | NoMark | None = None,
    ):
        """`sample` gives two samples in the shape of a client's, where its own are not here; with
        `counts_samples` a client's counts are held against the number of its samples; `tested` tells with how
        many test samples each joined (None: not known, or labels are of pixels)."""
        super().__init__(task, data, store)
        self.link = link
        self.transport = transport
        self.experiment = experiment
        self.session = session
        self.shared_disk = shared_disk  # None in a deployment
        self._watch = watch or (lambda event: None)
        self._reference = Reference(sample or self._own_samples)
        more = Outside(self._reference, transport.max_norm, data.size, counts_samples)
        self._own_checks, self.checks = Checks(task, more), None
        self._tested = tested
        self._mark = mark or NoMark()
        self._wire = {"up": 0, "down": 0}
        self._accepted: dict[int, Tag] = {}  # in a deployment: where each client stands
        self._held: dict[int, tuple[Tag, ClientState]] = {}  # states that lie in the clients' vaults

    def run(self, jobs: Sequence[Job]) -> Iterator[Answer]:
        """A reply, or a failure, for each job."""
        accepted, failed = self._gather(jobs)
        if self.shared_disk is None:
            self._accepted |= {job.client: tag_of(job) for job in jobs if job.client in accepted}
        for job in jobs:
            yield accepted.get(job.client) or Failure(job.client, failed[job.client])

    def evaluate(self, jobs: Sequence[Job]) -> Iterator[Score]:
        """Scores of those that answered."""
        got = self._exchange(jobs)
        for job in jobs:
            client = job.client
            reason = got.failures.get(client)
            try:
                if reason is None:
                    samples = None if self._tested is None else self._tested(client)
                    with self._mark.reading(client, write_job(job)), reading(f"test of client {client}"):
                        score = read_score(
                            client, got.replies[client], self.task.C, self.task.tested_modes, samples
                        )
                    yield score
                    continue
            except MessageError as error:
                reason = str(error)
            if self.shared_disk is not None:
                raise EngineError(f"test of client {client} failed: {reason}")
            log.warning("client %d was not tested: %s", client, reason)
            self._watch({"event": "untested", "client": client, "reason": reason})

    def notes(self) -> dict[str, Any]:
        """Serialised bytes of the legs since the last call."""
        wire, self._wire = self._wire, {"up": 0, "down": 0}
        return {"wire": wire}

    def memory(self) -> dict[str, Any]:
        """The tags accepted last, in a deployment."""
        return {"accepted": {str(client): str(tag) for client, tag in self._accepted.items()}}

    def recall(self, memory: dict[str, Any]) -> None:
        """Go on from a checkpoint's tags."""
        found = {int(client): Tag.read(text) for client, text in memory.get("accepted", {}).items()}
        self._accepted = {client: tag for client, tag in found.items() if tag is not None}
        if self.shared_disk is None and "accepted" not in memory:  # of version 0.1: as a client's memory
            states = {client: self.store.get(client) for client in self.store}
            old = {client: state.mem["accepted"].tolist() for client, state in states.items() if state}
            self._accepted = {client: Tag(*tag) for client, tag in old.items()}

    def close(self) -> None:
        """Free the link."""
        self.link.close()

    # a leg

    def _gather(self, jobs: Sequence[Job]) -> tuple[dict[int, Reply], dict[int, str]]:
        accepted: dict[int, Reply] = {}
        failed: dict[int, str] = {}
        needed = self.transport.min_clients
        tries = self._tries
        for number in range(tries):
            waiting = [job for job in jobs if job.client not in accepted]
            started = time.monotonic()
            self._ask(waiting, accepted, failed)
            if len(accepted) >= needed or not waiting:
                return accepted, failed
            log.warning(
                "%d of %d needed replies (attempt %d of %d)", len(accepted), needed, number + 1, tries
            )
            self._pause(started, number)
        for job in jobs:
            own = failed.get(job.client, "its reply came, but too few others did")
            failed[job.client] = f"leg skipped with {len(accepted)} of {needed} needed replies: {own}"
        return {}, failed

    @property
    def _tries(self) -> int:
        return 1 + (self.transport.repeats if self.transport.too_few == "repeat" else 0)

    def _pause(self, started: float, number: int) -> None:
        """Before a leg is asked for again: a client that comes back needs time."""
        if number + 1 < self._tries:
            time.sleep(max(0.0, started + self.transport.repeat_pause - time.monotonic()))

    def _ask(self, jobs: Sequence[Job], accepted: dict[int, Reply], failed: dict[int, str]) -> None:
        got = self._exchange(jobs)
        self._wire["down"] += got.wire_down
        for job in jobs:
            client = job.client
            reason = got.failures.get(client)
            if reason is None:
                self._wire["up"] += got.replies[client].wire_bytes
                try:
                    with self._mark.reading(client, write_job(job)), reading(f"client {client}: the reply"):
                        accepted[client] = self._read(job, got.replies[client])
                except MessageError as error:
                    reason = str(error)
            if reason is None:
                failed.pop(client, None)
            else:
                failed[client] = reason
                log.warning("client %d: %s", client, reason)
            self._report(job, reason, client in got.silent)

    def _report(self, job: Job, reason: str | None, silent: bool) -> None:
        outcome = "accepted" if reason is None else "late" if silent else "refused"
        event = {"event": "train", "client": job.client, "round": job.turn.round, "reason": reason}
        self._watch({**event, "outcome": outcome})

    def _exchange(self, jobs: Sequence[Job]) -> Exchanged:
        arrays: dict[int, Tree] = {}  # one dict per different download, so that links pack it once
        packets = {}
        for job in jobs:
            tensors = arrays.setdefault(id(job.down), job.down.arrays())
            packets[job.client] = Packet(self._meta(job), tensors)
        return self._send(packets)

    def _send(self, packets: Mapping[int, Packet]) -> Exchanged:
        """The answers to these packets; what answers something else is a failure."""
        got = self.link.exchange(packets, self.transport.round_timeout)
        replies, failures, silent = dict(got.replies), dict(got.failures), set(got.silent)
        for client, packet in packets.items():
            if client in replies:
                problem = _mismatch(packet.meta, replies[client].meta)
                if problem is not None:
                    del replies[client]
                    failures[client] = f"client {client}: {problem}"
            elif client not in failures:
                failures[client] = f"client {client}: no reply within {self.transport.round_timeout:.0f} s"
                silent.add(client)
        return got._replace(replies=replies, failures=failures, silent=frozenset(silent))

    def _meta(self, job: Job) -> Meta:
        accepted = str(self._last(job.client) or "")
        meta: Meta = {"experiment": self.experiment, "session": self.session, "accepted": accepted}
        precision: Meta = {} if job.turn.leg == "eval" else {"upload": self.transport.upload}
        return {**write_job(job), **meta, **precision}

    def _last(self, client: int) -> Tag | None:
        """What was accepted last of this client. Its vault is brought to the state of the store."""
        if self.shared_disk is None:
            return self._accepted.get(client)
        state = self.store.get(client)
        if state is None:
            return None
        tag, held = self._held.get(client, (Tag(0, 0), None))
        if held is not state:
            self._vault(client).install(tag, state)
            self._held[client] = (tag, state)
        return tag

    def _read(self, job: Job, packet: Packet) -> Reply:
        """The reply that a packet brings, if its upload passes all checks."""
        self._reference.learn(job.turn, job.leg, job.down)
        reply = read_reply(job, packet)
        problem = self._own_checks.problem(reply, job.leg, job.turn.round)
        if problem is not None:
            raise MessageError(problem)
        if self.shared_disk is None:
            return reply
        state = self._vault(job.client).read(tag_of(job))
        self._held[job.client] = (tag_of(job), state)
        return reply._replace(state=state)

    def _own_samples(self, client: int) -> LocalData:
        data = self.data.train(client)
        return LocalData(data.x[:SAMPLES], data.y[:SAMPLES])

    def _vault(self, client: int) -> Vault:
        if self.shared_disk is None:
            raise EngineError(f"the state of client {client} is on its own machine")
        return Vault(self.shared_disk, self.experiment, str(client))


def _mismatch(asked: Meta, got: Meta) -> str | None:
    """Why a reply is no answer to the packet."""
    if "error" in got:
        return str(got["error"])[:SAID]
    for key in ("kind", "client", "session", "tag", "step", "attempt"):
        if key in asked and got.get(key) != asked[key]:
            return f"answered {key} {shown(got.get(key))}, asked was {asked[key]!r}"
    return None
