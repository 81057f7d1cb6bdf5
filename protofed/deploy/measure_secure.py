"""`protofed deploy measure --secure`: what secure sums cost, beside the same rounds in the clear.

All clients in this process, one after the other, with every message that a deployment would send: bytes are
those of its messages, seconds the work of server and clients without the way between them.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from .. import experiment as experiments
from ..config import resolve
from ..engines.store import Store
from ..engines.transport import Transport
from ..flower.codec import decode, encode, size
from ..flower.engine import Flower
from ..flower.packet import Exchanged, Packet
from ..flower.respond import Desk, head_of, respond
from ..flower.secure_desk import SecureDesk
from ..flower.secure_engine import SecureFlower
from ..flower.vault import Vault
from ..trust.secure_crypto import is_signed, sign
from ..trust.secure_settings import secure_of

ROUNDS = 3
METHODS = ("fedproto", "fedavg")
SETTINGS = {"data": "digits", "partition": "iid", "epochs": 1, "lr": 0.05, "engine": "sequential"}
RUN = "measured"


class InProcess:
    """A link to clients in this process; messages become Flower's records on their way."""

    def __init__(self, made: experiments.Experiment, root: Path, secure: bool):
        self.made, self.root, self.secure = made, root, secure
        self.keys = [ec.generate_private_key(ec.SECP384R1()) for _ in range(made.task.clients)]

    def exchange(self, packets: Mapping[int, Packet], timeout: float) -> Exchanged:
        """Every client's answer."""
        contents = {client: encode(packet) for client, packet in packets.items()}
        replies = {client: decode(encode(self._answer(client, decode(c)))) for client, c in contents.items()}
        return Exchanged(replies, {}, sum(map(size, contents.values())))

    def close(self) -> None:
        """Nothing is held."""

    def _answer(self, client: int, packet: Packet) -> Packet:
        vault, desk = Vault(self.root, RUN, str(client)), None
        if self.secure:
            desk = SecureDesk(
                client,
                RUN,
                vault.path,
                secure_of(self.made.config.trust),
                partial(sign, self.keys[client]),
                self._known,
            )
        if desk is not None and packet.meta["kind"] == "secure":
            return Packet({**head_of(packet), **desk.step(packet)}, {})
        data = self.made.federation.data
        return respond(
            Desk(
                self.made.task,
                client,
                lambda: data.train(client),
                lambda: data.test(client),
                vault,
                secure=desk,
            ),
            packet,
        )

    def _known(self, client: int, signature: bytes, text: bytes) -> bool:
        return is_signed(self.keys[client].public_key(), signature, text)


def cost_of_secure_sums(clients: int, rounds: int) -> list[dict[str, Any]]:
    """Seconds of a round, and bytes a client and round, of each method in the clear and with secure sums."""
    return [_cost(method, secure, clients, rounds) for method in METHODS for secure in (False, True)]


def _cost(method: str, secure: bool, clients: int, rounds: int) -> dict[str, Any]:
    settings = {**SETTINGS, "method": method, "clients": clients, "rounds": rounds + 1, "secure": secure}
    made = experiments.build(resolve(settings))
    federation = made.federation
    with TemporaryDirectory() as folder:
        link = InProcess(made, Path(folder), secure)
        kind = partial(SecureFlower, secure=secure_of(made.config.trust)) if secure else Flower
        federation.guards = ()
        federation.engine = kind(made.task, federation.data, Store(), link, Transport(), RUN)
        records = [federation.play() for _ in range(rounds + 1)][1:]  # the first builds what later ones have
    last = records[-1]
    line: dict[str, Any] = {"method": method, "uploads": "secure sums" if secure else "in the clear"}
    line["payload_bytes"] = last["up"]["bytes"] // clients
    line |= {f"message_{way}": last["wire"][way] // clients for way in ("up", "down")}
    return {**line, "seconds": statistics.median(record["seconds"] for record in records)}
