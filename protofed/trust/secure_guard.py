"""Secure sums in one process: for simulations, and as the rehearsal of a deployment.

A simulation adds the rounded values without masks, which cancel: its numbers are those of a deployment, at
the cost of an addition. A rehearsal goes through the whole protocol, with every client's messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec

from ..core.algorithm import Leg
from ..core.answer import Replies, Reply, Work
from ..core.errors import MessageError
from ..core.guard import Guard
from ..core.record import Nothing
from ..core.task import Task, Turn
from .secure_account import Account
from .secure_client import begin, mask, open_sum, share
from .secure_crypto import WORDS, is_signed, sign
from .secure_encode import encode, has_something
from .secure_layout import Layout, Shapes, make_layout, shapes_in
from .secure_server import MaskedSum, threshold_for
from .secure_settings import Secure
from .secure_spread import Party, read_first, released, spread

Blocks = list[np.ndarray]
Choose = Callable[[np.ndarray], list[int]]  # from the first block: the classes that are opened


class SecureSums(Guard):
    """Puts the sum of the uploads in their place; with `masked` by the protocol of a deployment."""

    def __init__(self, task: Task, secure: Secure, masked: bool = False):
        self.task = task
        self.secure = secure
        self.masked = masked
        self._own: dict[int, ec.EllipticCurvePrivateKey] = {}
        self._account = Account(self.task)
        self._record: dict[str, Any] = {}

    def combine(self, replies: Replies, state: Any, leg: Leg, turn: Turn) -> Replies:
        """Replies with equal values, whose sums are those of all."""
        got = replies.all()
        if leg.up is Nothing:
            return Replies(got)
        layout = self._layout(leg, got)
        senders = [reply for reply in got if has_something(layout, reply.up)]
        idle = [reply for reply in got if not has_something(layout, reply.up)]
        if not senders:
            return Replies(idle)
        if len(senders) < self.secure.holders:
            raise MessageError(
                f"secure: round {turn.round}: {len(senders)} clients in the sum; {self.secure.holders} are "
                "needed (secure_holders): nothing is opened"
            )
        return Replies([*self._summed(layout, senders, turn), *idle])

    def _layout(self, leg: Leg, got: Sequence[Reply]) -> Layout:
        shapes: Shapes = {}
        for reply in got:  # who has nothing to add has no rows: the largest tells
            for name, (whole, shape) in shapes_in(leg, reply.up.arrays()).items():
                known = shapes.get(name, (whole, shape))[1]
                shapes[name] = (whole, max(shape, known))
        weight = sum(max(reply.n, _most_counted(reply)) for reply in got)
        scale = self.secure.scale(weight, len(got))
        return make_layout(self.task.algorithm.name, leg, shapes, self.task.C, scale)

    def _summed(self, layout: Layout, senders: Sequence[Reply], turn: Turn) -> list[Reply]:
        words = {reply.client: encode(layout, reply.up, reply.n, Work()).blocks for reply in senders}
        parties = [
            Party(reply.client, reply.n, {name: getattr(reply.up, name) for name in layout.plain})
            for reply in senders
        ]

        def choose(first: np.ndarray) -> list[int]:
            return released(layout, read_first(layout, first, parties), self.secure.holders)

        add = self._add_masked if self.masked else _add_plainly
        first, rows = add(f"{turn.round} {turn.leg}".encode(), words, layout.scale.bits, choose)
        summed = read_first(layout, first, parties)
        self._record = self._account.of(layout, summed, rows, len(parties), 0)
        return spread(layout, summed, rows, parties, self.task)

    def _add_masked(
        self, sum_id: bytes, words: Mapping[int, Blocks], bits: int, choose: Choose
    ) -> tuple[np.ndarray, dict[int, np.ndarray]]:
        """Every step of the protocol, between clients that keep to it."""
        threshold = threshold_for(len(words), self.secure.threshold)
        for client in words:
            self._own.setdefault(client, ec.generate_private_key(ec.SECP256R1()))

        def known(client: int, signature: bytes, text: bytes) -> bool:
            return is_signed(self._own[client].public_key(), signature, text)

        sessions, keys, sealed = {}, {}, {}
        for client in words:
            own = self._own[client]
            sessions[client], keys[client] = begin(sum_id, client, partial(sign, own))
        sizes = [len(block) for block in next(iter(words.values()))]
        for client in words:
            sessions[client], sealed[client] = share(
                sessions[client], keys, known, threshold, len(sizes), self.secure.holders
            )
        server = MaskedSum(sum_id, keys, list(words), threshold, sizes, bits)
        for client, blocks in words.items():
            others = {peer: texts[client] for peer, texts in sealed.items() if peer != client}
            sessions[client], sent = mask(sessions[client], others, blocks, bits)
            server.add(client, sent)
        helpers = sorted(words)[:threshold]
        for client in helpers:
            sessions[client], opened = open_sum(sessions[client], server.survivors, [0])
            server.take(opened)
        first = server.first()
        classes = choose(first)
        for client in helpers:
            server.take(open_sum(sessions[client], server.survivors, [1 + c for c in classes])[1])
        return first, {c: server.block(1 + c) for c in classes}

    def record(self) -> dict[str, Any]:
        """How many were in the sum, and what was withheld or clipped."""
        found, self._record = self._record, {}
        return {"secure": found} if found else {}


def _add_plainly(
    sum_id: bytes, words: Mapping[int, Blocks], bits: int, choose: Choose
) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """The sums that the masked ones are."""
    signed = f"<i{bits // 8}"
    total = [
        np.add.reduce(list(blocks), dtype=WORDS[bits]).view(signed).astype(np.int64)
        for blocks in zip(*words.values())
    ]
    return total[0], {c: total[1 + c] for c in choose(total[0])}


def _most_counted(reply: Reply) -> int:
    """Of a client's counts, which may be of pixels."""
    counts = getattr(reply.up, "n", None)
    return 0 if counts is None else int(counts.sum())
