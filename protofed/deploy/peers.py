"""The keys by which clients know each other, where they add up their uploads with secure sums.

Each client has the public keys of the others as peers/NAME.pub beside its client.toml, from `deploy init`,
`add` and `accept`, or from the operator's hand. They do not come from the server when a run begins: a server
that lies could otherwise put itself in the place of every other client.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ..core.errors import ConfigError
from ..core.options import build
from ..flower.secure_desk import SecureDesk
from ..trust.secure_crypto import is_signed, sign
from ..trust.secure_settings import secure_of
from ..trust.settings import Trust
from .keys import PEERS, public_key
from .notices import tell
from .place import Place
from .settings import ClientSettings


def peer_key(settings: ClientSettings, name: str) -> ec.EllipticCurvePublicKey:
    """The public key of another client, as this one knows it."""
    path = settings.home / PEERS / f"{name}.pub"
    if not path.exists():
        raise ConfigError(
            f"client {settings.name} lacks {PEERS}/{name}.pub, the public key of {name}, without which it "
            f"takes part in no secure sum: copy {name}'s key.pub there"
        )
    key = serialization.load_pem_public_key(public_key(path))
    assert isinstance(key, ec.EllipticCurvePublicKey)
    return key


def check_peers(settings: ClientSettings, names: Sequence[str]) -> None:
    """ConfigError unless this client has its own key and those of all others."""
    own = own_key(settings).public_key()
    for name in names:
        if name != settings.name:
            peer_key(settings, name)
        elif (settings.home / PEERS / f"{name}.pub").exists() and peer_key(settings, name) != own:
            raise ConfigError(f"client {name}: {PEERS}/{name}.pub is not the public half of its own key")


def own_key(settings: ClientSettings) -> ec.EllipticCurvePrivateKey:
    """The private key by which Flower knows this client."""
    path = settings.home / "key"
    try:
        key = serialization.load_ssh_private_key(path.read_bytes(), None)
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise ConfigError(
            f"{path} cannot be read as a private key, which secure sums need: {error}"
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigError(f"{path} is no ECDSA key; `protofed deploy join` makes one")
    return key


def secure_desk(settings: ClientSettings, place: Place, folder: Path) -> SecureDesk | None:
    """Where this client takes part in the secure sums of a run; None if the run has none. ConfigError if
    client.toml asks for them, and the run has none."""
    trust = build(Trust, place.config.get("trust", {}), "the agreement: trust")
    if not trust.secure:
        if settings.secure:
            raise ConfigError(
                f"client {settings.name} takes part only in runs with secure sums (secure = true in "
                "client.toml), and this one has none"
            )
        return None
    check_peers(settings, place.peers)
    own = own_key(settings)

    def known(client: int, signature: bytes, text: bytes) -> bool:
        if client >= len(place.peers):
            return False
        public = own.public_key() if client == place.client else peer_key(settings, place.peers[client])
        return is_signed(public, signature, text)

    signer, notice = partial(sign, own), partial(tell, settings.home)
    return SecureDesk(place.client, place.experiment, folder, secure_of(trust), signer, known, notice)
