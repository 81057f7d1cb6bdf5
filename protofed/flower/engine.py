"""The Flower engine: jobs become packets, replies become outcomes. The round loop stays the common one.

A leg counts with at least `min_clients` accepted replies. With fewer, those who did not answer are asked
again (they answer from their disk if they have trained already), or the leg is skipped: everybody fails,
the server's state and the clients' committed states stay as they were.

Where client states live: in a deployment on the clients' disks, and the store of the server holds only
the tag that it accepted last, so that a checkpoint knows where each client stands. In a simulation the
disk is shared, and the store holds the states themselves, as with every other engine.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch

from ..core.client import ClientState, Outcome, Work
from ..core.data import ClientData, LocalData
from ..core.errors import EngineError, MessageError
from ..core.record import Record, Tree
from ..core.task import Task
from ..engines.base import Engine, Failure, Job
from ..engines.store import Store
from ..engines.transport import Transport
from ..metrics.scores import Score
from .checks import Limits, read_upload
from .expected import SAMPLES, Expected
from .packet import Exchanged, Link, Meta, Packet
from .respond import read_score
from .vault import Tag, Vault

ACCEPTED = "accepted"  # what the server of a deployment keeps of a client: [round, leg]
log = logging.getLogger("protofed")
Watch = Callable[[dict[str, Any]], None]


class Flower(Engine):
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
    ):
        """`sample` gives two samples in the shape of a client's, where its own are not here; with
        `counts_samples` a client's counts are held against the number of its samples."""
        super().__init__(task, data, store)
        self.link = link
        self.transport = transport
        self.experiment = experiment
        self.session = session
        self.shared_disk = shared_disk  # None in a deployment
        self._watch = watch or (lambda event: None)
        self._expected = Expected(sample or self._own_samples)
        self._counts_samples = counts_samples
        self._wire = {"up": 0, "down": 0}
        self._held: dict[int, tuple[Tag, ClientState]] = {}  # states that lie in the clients' vaults

    def run(self, jobs: Sequence[Job]) -> Iterator[Outcome | Failure]:
        accepted, failed = self._gather(jobs)
        for job in jobs:
            client = _client(job)
            if client in accepted:
                yield accepted[client]
            else:
                yield Failure(client, failed[client])

    def evaluate(self, jobs: Sequence[Job]) -> Iterator[Score]:
        got = self._exchange("evaluate", jobs)
        for job in jobs:
            client = _client(job)
            reason = got.failures.get(client)
            try:
                if reason is None:
                    yield read_score(client, got.replies[client], self.task.C)
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

    def close(self) -> None:
        self.link.close()

    # a leg

    def _gather(self, jobs: Sequence[Job]) -> tuple[dict[int, Outcome], dict[int, str]]:
        accepted: dict[int, Outcome] = {}
        failed: dict[int, str] = {}
        needed = self.transport.min_clients
        tries = 1 + (self.transport.repeats if self.transport.too_few == "repeat" else 0)
        for number in range(tries):
            waiting = [job for job in jobs if _client(job) not in accepted]
            started = time.monotonic()
            self._ask(waiting, accepted, failed)
            if len(accepted) >= needed or not waiting:
                return accepted, failed
            log.warning(
                "%d of %d needed replies (attempt %d of %d)", len(accepted), needed, number + 1, tries
            )
            if number + 1 < tries:  # a client that comes back needs time
                time.sleep(max(0.0, started + self.transport.repeat_pause - time.monotonic()))
        for job in jobs:
            own = failed.get(_client(job), "its reply came, but too few others did")
            failed[_client(job)] = f"leg skipped with {len(accepted)} of {needed} needed replies: {own}"
        return {}, failed

    def _ask(self, jobs: Sequence[Job], accepted: dict[int, Outcome], failed: dict[int, str]) -> None:
        got = self._exchange("train", jobs)
        self._wire["down"] += got.wire_down
        for job in jobs:
            client = _client(job)
            reason = got.failures.get(client)
            if reason is None:
                self._wire["up"] += got.replies[client].wire_bytes
                try:
                    accepted[client] = self._outcome(job, got.replies[client])
                except MessageError as error:
                    reason = str(error)
            if reason is None:
                failed.pop(client, None)
            else:
                failed[client] = reason
                log.warning("client %d: %s", client, reason)
            self._watch({"event": "train", "client": client, "round": job.turn.round, "reason": reason})

    def _exchange(self, kind: str, jobs: Sequence[Job]) -> Exchanged:
        arrays: dict[int, Tree] = {}  # one dict per different download, so that links pack it once
        packets = {}
        for job in jobs:
            tensors = arrays.setdefault(id(job.down), job.down.arrays())
            packets[_client(job)] = Packet(self._meta(kind, job), tensors)
        got = self.link.exchange(packets, self.transport.round_timeout)
        replies, failures = dict(got.replies), dict(got.failures)
        for client, packet in packets.items():
            if client in replies:
                problem = _mismatch(packet.meta, replies[client].meta)
                if problem is not None:
                    del replies[client]
                    failures[client] = f"client {client}: {problem}"
            elif client not in failures:
                failures[client] = f"client {client}: no reply within {self.transport.round_timeout:.0f} s"
        return got._replace(replies=replies, failures=failures)

    def _meta(self, kind: str, job: Job) -> Meta:
        turn = job.turn
        held = self._last(_client(job))
        meta: Meta = {
            "kind": kind,
            "experiment": self.experiment,
            "session": self.session,
            "algorithm": self.task.algorithm.name,
            "client": _client(job),
            "accepted": str(held or ""),
        }
        if kind == "evaluate":
            return {**meta, "round": turn.round}
        upload: Meta = {"epochs": turn.epochs, "late": turn.late, "upload": self.transport.upload}
        return {**meta, "tag": str(self._tag(job)), **upload}

    def _tag(self, job: Job) -> Tag:
        return Tag(job.turn.round, [leg.name for leg in self.task.algorithm.legs].index(job.leg.name))

    def _last(self, client: int) -> Tag | None:
        """What was accepted last of this client. Its vault is brought to the state of the store."""
        state = self.store.get(client)
        if state is None:
            return None
        if self.shared_disk is None:
            return Tag(*state.mem[ACCEPTED].tolist())
        tag, held = self._held.get(client, (Tag(0, 0), None))
        if held is not state:
            self._vault(client).install(tag, state)
            self._held[client] = (tag, state)
        return tag

    def _outcome(self, job: Job, packet: Packet) -> Outcome:
        client, tag = _client(job), self._tag(job)
        expected = self._expected.upload(job.turn, job.leg, job.down)
        samples = self.data.size(client) if self._counts_samples else None
        up = read_upload(job, packet.arrays, expected, Limits(self.transport.max_norm, samples))
        n, work = self._work(client, packet.meta)
        if self.shared_disk is None:
            state = ClientState({}, {ACCEPTED: torch.tensor([tag.round, tag.leg])})
        else:
            state = self._vault(client).read(tag)
            self._held[client] = (tag, state)
        moved: Record = up.map(lambda tensor: tensor.to(self.task.device))
        return Outcome(client, n, moved, state, work)

    def _work(self, client: int, meta: Meta) -> tuple[int, Work]:
        try:
            n, steps, samples = (int(meta[key]) for key in ("n", "steps", "samples"))
            loss = float(meta["loss"])
        except (KeyError, ValueError, TypeError) as error:
            raise MessageError(f"client {client}: the reply is damaged ({error!r})") from error
        if n != self.data.size(client):
            raise MessageError(
                f"client {client}: says it has {n} training samples; it joined with {self.data.size(client)}"
            )
        if min(steps, samples) < 0 or (steps and not math.isfinite(loss)):
            raise MessageError(f"client {client}: {steps} steps, {samples} samples, loss {loss}")
        return n, Work(steps, samples, loss)

    def _own_samples(self, client: int) -> LocalData:
        data = self.data.train(client)
        return LocalData(data.x[:SAMPLES], data.y[:SAMPLES])

    def _vault(self, client: int) -> Vault:
        assert self.shared_disk is not None
        return Vault(self.shared_disk, self.experiment, str(client))


def _mismatch(asked: Meta, got: Meta) -> str | None:
    """Why a reply is no answer to the packet."""
    if "error" in got:
        return str(got["error"])
    for key in ("kind", "client", "session", "tag"):
        if key in asked and got.get(key) != asked[key]:
            return f"answered {key} {got.get(key)!r}, asked was {asked[key]!r}"
    return None


def _client(job: Job) -> int:
    assert job.turn.client is not None
    return job.turn.client
