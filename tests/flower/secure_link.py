"""Clients of a secure run in this process: messages through the codec, keys and states on disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from local_link import LocalLink

from protofed.core.errors import ProtofedError
from protofed.engines.store import Store
from protofed.engines.transport import Transport
from protofed.experiment import Experiment
from protofed.flower.packet import Exchanged, Packet
from protofed.flower.respond import Desk, head_of, respond
from protofed.flower.secure_desk import SecureDesk
from protofed.flower.secure_engine import SecureFlower
from protofed.flower.vault import Vault
from protofed.trust.secure_crypto import is_signed, sign
from protofed.trust.secure_settings import secure_of
from protofed.trust.settings import Trust

KEYS = [ec.generate_private_key(ec.SECP256R1()) for _ in range(8)]
Silent = Callable[[int, Packet], bool]


class SecureLink(LocalLink):
    """`silent(client, packet)` says who does not answer what; `got` holds all that the server received."""

    def __init__(self, experiment: Experiment, root: Path, trust: Trust, silent: Silent | None = None):
        super().__init__(experiment, root)
        self.trust, self.silent = trust, silent or (lambda client, packet: False)
        self.got: list[tuple[int, Packet]] = []
        self.told: list[str] = []

    def exchange(self, packets: Mapping[int, Packet], timeout: float) -> Exchanged:
        heard = {client: packet for client, packet in packets.items() if not self.silent(client, packet)}
        found = super().exchange(heard, timeout)
        self.got += list(found.replies.items())
        return found

    def answer(self, client: int, packet: Packet) -> Packet:
        vault = Vault(self.root, self.name, str(client))
        known = lambda peer, signature, text: is_signed(KEYS[peer].public_key(), signature, text)  # noqa: E731
        secure = SecureDesk(
            client,
            self.name,
            vault.path,
            secure_of(self.trust),
            partial(sign, KEYS[client]),
            known,
            self.told.append,
        )
        if packet.meta["kind"] == "secure":
            try:
                return Packet({**head_of(packet), **secure.step(packet)}, {})
            except ProtofedError as error:
                return Packet({**head_of(packet), "error": str(error)}, {})
        train, test = lambda: self.data.train(client), lambda: self.data.test(client)
        return respond(Desk(self.task, client, train, test, vault, secure=secure, max_norm=1e6), packet)


def put_on_secure_link(
    experiment: Experiment, root: Path, silent: Silent | None = None, session: int = 1, **transport
) -> SecureLink:
    """Replace the experiment's engine by the secure Flower engine over a local link, as in a deployment."""
    trust = experiment.config.trust
    link = SecureLink(experiment, root, trust, silent)
    federation = experiment.federation
    link.data = federation.data
    settings = Transport(**{"repeat_pause": 0, "too_few": "skip", **transport})
    federation.guards, federation.on_failure = (), "drop"
    federation.engine = SecureFlower(
        experiment.task, federation.data, Store(), link, settings, link.name, session, secure=secure_of(trust)
    )
    return link
