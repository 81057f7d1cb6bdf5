"""A client's answers to the messages of a secure sum: the protocol's functions between packet and disk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ..core.answer import Reply, Work
from ..core.errors import MessageError
from ..core.outside import Fields
from ..core.record import Tree
from ..engines.base import Job
from ..engines.checks import Checks, check_norm
from ..trust.secure_client import IsSigned, Sign, begin, mask, open_sum, share
from ..trust.secure_encode import encode, has_something
from ..trust.secure_layout import Scale, make_layout
from ..trust.secure_server import threshold_for
from ..trust.secure_settings import Secure
from .packet import Meta, Packet
from .secure_messages import (
    CONTENT,
    MASKED,
    MOST_BLOCKS,
    MOST_CLIENTS,
    MOST_PARTS,
    STEPS,
    content,
    moment_of,
    read_bits,
    read_content,
    read_keys,
    read_shapes,
    read_texts,
    sealed_size,
    write_keys,
    write_opened,
    write_texts,
)
from .secure_store import SecureStore

WHERE = "secure sum"


@dataclass(frozen=True)
class SecureDesk:
    """Where a client takes part in secure sums: settings, its own key, those of the others, its disk."""

    client: int
    experiment: str
    folder: Path
    secure: Secure
    sign: Sign
    is_signed: IsSigned
    tell: Callable[[str], None] = lambda text: None  # the person at the client

    def step(self, packet: Packet) -> Meta:
        """Advertise keys, share secrets, or open a sum."""
        if packet.meta.get("client") != self.client:
            raise MessageError(f"{WHERE}: the message is for another client")
        name = Fields(packet.meta, WHERE).text("step")
        if name not in STEPS:
            raise MessageError(f"{WHERE}: unknown step")
        steps = {"keys": self._keys, "shares": self._shares, "open": self._open}
        return {CONTENT: steps[name](packet.meta)}

    def _keys(self, meta: Meta) -> str:
        moment, store = moment_of(meta), SecureStore.read(self.folder)
        session, keys = begin(moment.sum_id(self.experiment), self.client, self.sign)
        store.begin(moment, session)
        return content({"keys": write_keys({self.client: keys})})

    def _shares(self, meta: Meta) -> str:
        store, values = SecureStore.read(self.folder), read_content(meta, WHERE)
        session = store.current(moment_of(meta).sum_id(self.experiment))
        peers = read_keys(values.named("keys", MOST_CLIENTS))
        threshold = threshold_for(len(peers), self.secure.threshold)
        blocks = values.whole("blocks", 1, MOST_BLOCKS)
        session, sealed = share(session, peers, self.is_signed, threshold, blocks, self.secure.holders)
        store.keep(session)
        return content({"sealed": write_texts(sealed)})

    def _open(self, meta: Meta) -> str:
        store, values, moment = SecureStore.read(self.folder), read_content(meta, WHERE), moment_of(meta)
        session = store.current(moment.sum_id(self.experiment))
        survivors = tuple(sorted(values.wholes("survivors", MOST_CLIENTS)))
        blocks = values.wholes("blocks", MOST_BLOCKS)
        session, opened = open_sum(session, survivors, blocks)
        store.check_opening(moment.tag, survivors)
        store.keep(session if 0 in blocks and len(session.seeds) > 1 else None)
        return content(write_opened(opened, blocks))

    def upload(self, job: Job, meta: Meta, told: Meta, up: Tree, max_norm: float) -> tuple[Meta, Tree]:
        """A reply as it is sent: the upload masked, or a word that there is nothing to add. What the server
        can no longer check is checked here."""
        work = Work(int(told["steps"]), int(told["samples"]), float(told["loss"]))
        reply = Reply(self.client, int(told["n"]), job.leg.up.of(up), work=work)
        problem = Checks(job.turn.task).problem(reply, job.leg, job.turn.round)
        if problem is not None:
            raise MessageError(problem)
        for name, tensor in up.items():
            check_norm(tensor, max_norm, f"upload of client {self.client}: {name}")
        store, values = SecureStore.read(self.folder), read_content(meta, WHERE)
        session = store.current(moment_of(meta).sum_id(self.experiment))
        scale = Scale(
            self.secure.bound, self.secure.step, read_bits(values), values.whole("clients", 1, MOST_CLIENTS)
        )
        task, shapes = job.turn.task, read_shapes(values.named("shapes", MOST_PARTS))
        layout = make_layout(task.algorithm.name, job.leg, shapes, task.C, scale)
        plain = {name: up[name] for name in layout.plain}
        if not has_something(layout, reply.up):
            return {"n": reply.n}, plain
        encoded = encode(layout, reply.up, reply.n, work)
        if encoded.clipped:
            self.tell(
                f"round {job.turn.round}: {encoded.clipped} values beyond ±{scale.bound:g} were clipped; the "
                "recipe's secure_bound is too small, or training diverges"
            )
        sealed = read_texts(values.named("sealed", MOST_CLIENTS), sealed_size(len(encoded.blocks)))
        session, words = mask(session, sealed, encoded.blocks, scale.bits)
        store.keep(session)
        return {"n": reply.n}, {**plain, MASKED: as_tensor(words)}


def as_tensor(words: np.ndarray) -> torch.Tensor:
    """Words as they travel: torch knows signed ones alone."""
    return torch.from_numpy(words.view(f"<i{words.itemsize}"))


def as_words(tensor: torch.Tensor) -> np.ndarray:
    """Inverse of `as_tensor`."""
    return tensor.numpy().view(f"<u{tensor.element_size()}")
