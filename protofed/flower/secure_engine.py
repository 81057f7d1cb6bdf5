"""The Flower engine with secure sums: a leg's uploads arrive masked, and the server opens their sum alone.

    keys     every client's fresh keys, signed                                           ┐
    shares   each gets all keys, and answers with encrypted shares for each other        │ the server carries
    train    each gets the download and its shares, trains, and answers masked           │ what it cannot read
    open     shares of those in the sum (the first block), then of the classes that      │
             enough clients hold                                                         ┘

Clients that are lost on the way are left out; with fewer than are needed the attempt ends, and nothing was
opened. It is repeated, or the leg skipped, as with any other leg. A leg that sends nothing up is an ordinary
one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ..core.algorithm import Leg
from ..core.answer import Reply
from ..core.errors import EngineError, MessageError
from ..core.outside import Fields, reading
from ..core.record import Nothing, Tree
from ..engines.base import Job
from ..trust.secure_account import Account
from ..trust.secure_client import Keys
from ..trust.secure_layout import Layout, Shapes, blocks_of, make_layout, shapes_in
from ..trust.secure_server import MaskedSum, threshold_for
from ..trust.secure_settings import Secure
from ..trust.secure_spread import Party, read_first, released, spread
from .engine import Flower
from .messages import tag_of
from .packet import Meta, Packet
from .secure_desk import as_words
from .secure_messages import (
    CONTENT,
    MASKED,
    MOST_CLIENTS,
    SECURE,
    Moment,
    content,
    read_content,
    read_keys,
    read_opened,
    read_texts,
    sealed_size,
    write_keys,
    write_shapes,
    write_texts,
)

T = TypeVar("T")
log = logging.getLogger("protofed")


class SecureFlower(Flower):
    """Legs that send something up are secure sums."""

    def __init__(self, *args: Any, secure: Secure, **more: Any):
        super().__init__(*args, **more)
        self.secure = secure
        self._attempt = 0
        self._account = Account(self.task)
        self._told: dict[str, Any] = {}
        secure.scale(self._weight(range(self.task.clients)), self.task.clients)  # too fine: told at once

    def notes(self) -> dict[str, Any]:
        """Bytes, and what the sums of the round had to say; what went up are their vectors."""
        told, self._told = self._told, {}
        words, bits = told.pop("words", 0), told.pop("bits", 0)
        sent = {"params": words, "bytes": words * bits // 8, "meta_bytes": 0} if told else None
        return {**super().notes(), **({"up": sent, "secure": told} if told else {})}

    def _gather(self, jobs: Sequence[Job]) -> tuple[dict[int, Reply], dict[int, str]]:
        if not jobs or jobs[0].leg.up is Nothing:
            return super()._gather(jobs)
        failed: dict[int, str] = {}
        for number in range(self._tries):
            started = time.monotonic()
            try:
                accepted = _Sum(self, jobs, failed).carry_out()
            except MessageError as error:
                log.warning("%s (attempt %d of %d)", error, number + 1, self._tries)
                failed = {job.client: failed.get(job.client, str(error)) for job in jobs}
                self._pause(started, number)
                continue
            for job in jobs:
                self._report(job, None if job.client in accepted else failed[job.client], False)
            return accepted, failed
        for job in jobs:
            self._report(job, failed[job.client], False)
        return {}, {client: f"leg skipped: {reason}" for client, reason in failed.items()}

    def _weight(self, clients: Sequence[int]) -> float:
        """What the weights of these clients add up to; labels of pixels count one by one."""
        return sum(self.data.size(client) * self._reference.sample(client).y[0].numel() for client in clients)


class _Sum:
    """One attempt at one leg. `failed` collects why clients are not in it."""

    def __init__(self, engine: SecureFlower, jobs: Sequence[Job], failed: dict[int, str]):
        engine._attempt += 1
        self.engine, self.failed = engine, failed
        self.jobs = {job.client: job for job in jobs}
        self.leg: Leg = jobs[0].leg
        self.moment = Moment(engine.session, engine._attempt, str(tag_of(jobs[0])))
        self.sum_id = self.moment.sum_id(engine.experiment)
        self.blocks = blocks_of(self.leg, engine.task.C)

    def carry_out(self) -> dict[int, Reply]:
        """A reply of every client in the sum; MessageError if it cannot be opened."""
        keys: dict[int, Keys] = {}
        for client, found in self._ask("keys", self.jobs, lambda c: {}, self._read_keys).items():
            keys[client] = found
        threshold = threshold_for(len(keys), self.engine.secure.threshold)
        self._check_enough(keys, threshold, "sent keys")
        sealed = self._ask(
            "shares",
            keys,
            lambda c: {"keys": write_keys(keys), "blocks": self.blocks},
            self._read_sealed(keys),
        )
        self._check_enough(sealed, threshold, "shared their keys")
        layout = self._layout()
        total = MaskedSum(self.sum_id, keys, sorted(sealed), threshold, layout.sizes, layout.scale.bits)
        parties, idle = self._train(layout, sealed, total)
        if not parties:
            return idle
        self._check_enough(total.survivors, threshold, "are in the sum")
        return {**self._open(layout, total, parties, sorted({*total.survivors, *idle})), **idle}

    def _check_enough(self, clients: Any, threshold: int, did: str) -> None:
        needed = max(threshold, self.engine.secure.holders, self.engine.transport.min_clients)
        if len(clients) < needed:
            raise MessageError(
                f"secure sum: {len(clients)} clients {did}; {needed} are needed: nothing is opened"
            )

    # the steps

    def _read_keys(self, client: int, values: Fields) -> Keys:
        found = read_keys(values.named("keys", MOST_CLIENTS))
        if found.keys() != {client}:
            raise MessageError("secure sum: keys of another client")
        return found[client]

    def _read_sealed(self, keys: Mapping[int, Keys]) -> Callable[[int, Fields], dict[int, bytes]]:
        def read(client: int, values: Fields) -> dict[int, bytes]:
            found = read_texts(values.named("sealed", MOST_CLIENTS), sealed_size(self.blocks))
            if found.keys() != keys.keys() - {client}:
                raise MessageError("secure sum: shares for other clients than were asked for")
            return found

        return read

    def _layout(self) -> Layout:
        """Of uploads as a client without memory would send them in answer to these downloads."""
        engine, shapes = self.engine, None
        for job in {job.turn.group: job for job in self.jobs.values()}.values():
            arrays = engine._reference.of(job.turn, job.leg, job.down)
            if arrays is None:
                raise EngineError(
                    f"secure: what {engine.task.algorithm.name} sends is not known to the server"
                )
            found: Shapes = shapes_in(self.leg, arrays)
            if shapes is not None and shapes != found:
                raise EngineError("secure: clients of different models send arrays of different shapes")
            shapes = found
        assert shapes is not None
        scale = engine.secure.scale(engine._weight(list(self.jobs)), len(self.jobs))
        return make_layout(engine.task.algorithm.name, self.leg, shapes, engine.task.C, scale)

    def _train(
        self, layout: Layout, sealed: Mapping[int, Mapping[int, bytes]], total: MaskedSum
    ) -> tuple[list[Party], dict[int, Reply]]:
        """Those whose masked uploads are in the sum, and the replies of those with nothing to add."""
        engine, parties, idle = self.engine, [], {}
        common = {"shapes": write_shapes(layout.shapes), "bits": layout.scale.bits, "clients": len(self.jobs)}
        arrays: dict[int, Tree] = {}  # one dict for each different download, so that links pack it once
        packets = {}
        for client in sorted(sealed):
            job = self.jobs[client]
            theirs = {peer: texts[client] for peer, texts in sealed.items() if peer != client}
            text = content({**common, "sealed": write_texts(theirs)})
            meta: Meta = {**engine._meta(job), "attempt": self.moment.attempt, CONTENT: text}
            packets[client] = Packet(meta, arrays.setdefault(id(job.down), job.down.arrays()))

        def read(client: int, packet: Packet) -> None:
            n = Fields(packet.meta, "the reply").whole("n")
            if n != engine.data.size(client):
                raise MessageError(
                    f"says it has {n} training samples; it joined with {engine.data.size(client)}"
                )
            plain = {name: packet.arrays[name] for name in layout.plain if name in packet.arrays}
            if packet.arrays.keys() - {MASKED} != set(layout.plain):
                raise MessageError("the reply holds other arrays than the masked one")
            party = Party(client, n, plain)
            if MASKED in packet.arrays:
                total.add(client, as_words(packet.arrays[MASKED]))
                parties.append(party)
            else:
                idle[client] = _nothing(layout, party, engine.task.zeros("0"))

        self._exchange(packets, read)
        return parties, idle

    def _open(
        self, layout: Layout, total: MaskedSum, parties: Sequence[Party], helpers: Sequence[int]
    ) -> dict[int, Reply]:
        engine = self.engine
        self._take(total, helpers, [0])
        summed = read_first(layout, total.first(), parties)
        classes = released(layout, summed, engine.secure.holders)
        if classes:
            self._take(total, helpers, [1 + c for c in classes])
        rows = {c: total.block(1 + c) for c in classes}
        engine._told = {
            **engine._account.of(layout, summed, rows, len(parties), len(total.lost)),
            "words": engine._told.get("words", 0) + sum(layout.sizes) * len(parties),
            "bits": layout.scale.bits,
        }
        return {reply.client: reply for reply in spread(layout, summed, rows, parties, engine.task)}

    def _take(self, total: MaskedSum, helpers: Sequence[int], blocks: Sequence[int]) -> None:
        """Have these blocks opened; more shares than are needed do no harm."""
        survivors, lost = sorted(total.survivors), total.lost if 0 in blocks else []
        asked = {"survivors": survivors, "blocks": list(blocks)}
        got = self._ask(
            "open", helpers, lambda c: asked, lambda c, values: read_opened(values, survivors, lost, blocks)
        )
        for opened in got.values():
            total.take(opened)

    # messages

    def _ask(
        self, step: str, clients: Any, told: Callable[[int], Any], read: Callable[[int, Fields], T]
    ) -> dict[int, T]:
        """One step of the protocol at these clients; what those who answered said."""
        found: dict[int, T] = {}
        head: Meta = {"kind": SECURE, "step": step, "tag": self.moment.tag, "attempt": self.moment.attempt}
        head |= {"experiment": self.engine.experiment, "session": self.engine.session}
        packets = {
            client: Packet({**head, "client": client, CONTENT: content(told(client))}, {})
            for client in sorted(clients)
        }

        def take(client: int, packet: Packet) -> None:
            found[client] = read(client, read_content(packet.meta, f"client {client}: secure sum"))

        self._exchange(packets, take)
        return found

    def _exchange(self, packets: Mapping[int, Packet], read: Callable[[int, Packet], None]) -> None:
        engine = self.engine
        got = engine._send(packets)
        engine._wire["down"] += got.wire_down
        for client, packet in packets.items():
            reason = got.failures.get(client)
            if reason is None:
                engine._wire["up"] += got.replies[client].wire_bytes
                try:
                    with engine._mark.reading(client, packet.meta), reading(f"client {client}: the reply"):
                        read(client, got.replies[client])
                except MessageError as error:
                    reason = f"client {client}: {error}"
            if reason is not None:
                self.failed[client] = reason
                log.warning("client %d: %s", client, reason)


def _nothing(layout: Layout, party: Party, empty: Any) -> Reply:
    """The reply of a client that has nothing to add."""
    parts = (*layout.open, *layout.rows)
    rows = {part.name: empty.new_zeros((0, *part.shape[part in layout.open :])) for part in parts}
    whole = {part.name: rows[part.name].long() for part in parts if part.whole}
    by = {layout.by: empty.new_zeros(0).long()} if layout.by else {}
    return Reply(party.client, party.n, layout.kind.of({**rows, **whole, **by, **party.plain}))
