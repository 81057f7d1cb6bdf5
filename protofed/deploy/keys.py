"""Keys of clients: made at the client, sent as their public half, entered at the server under one name.

`protofed deploy join` makes the pair on the client's own machine; `protofed deploy accept` enters the public
half. The private half never travels. A key stands for one client: neither another key for a name that has
one, nor one key for two names is taken; and a run goes on with the keys with which it began.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ..core.errors import ConfigError
from ..runs.files import write_atomic
from ..runs.seals import read_whole, there, write_whole
from .certificates import write_key_pair
from .settings import ServerSettings, read_client, read_server

RUN_KEYS = "keys.json"  # in the run directory: the keys with which a run began
PEERS = "peers"  # at a client: the folder of the others' public keys
CURVES = (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)


def join(folder: Path) -> str:
    """A key pair for the client of this directory, made here; the fingerprint of its public half."""
    settings = read_client(folder)
    path = settings.home / "key"
    if settings.insecure:
        raise ConfigError(f"{settings.home}: client.toml says insecure = true: no key is needed")
    if path.exists():
        raise ConfigError(f"{path} is there already; send key.pub, or remove both to make a new pair")
    write_key_pair(path)
    return fingerprint(path.with_name("key.pub"))


def accept(folder: Path, name: str, key: Path) -> str:
    """Enter the public key that a client sent; its fingerprint, to be compared with the client's."""
    settings = read_server(folder / "server" if (folder / "server").is_dir() else folder)
    if name not in settings.clients:
        raise ConfigError(
            f"{name} is not in server.toml; put it there first: protofed deploy add {folder} {name}"
        )
    pem, target = public_key(key), settings.home / "keys" / f"{name}.pub"
    for other in (settings.home / "keys").glob("*.pub"):
        if other != target and public_key(other) == pem:
            raise ConfigError(f"{key} is the key of {other.stem}; {name} needs one of its own")
    if target.exists() and public_key(target) != pem:
        raise ConfigError(
            f"{name} has another key already ({fingerprint(target)}); if it is to be replaced, and the "
            f"client itself has told you so, remove {target} first"
        )
    target.parent.mkdir(exist_ok=True)
    write_atomic(target, key.read_bytes())
    spread_keys(settings.home.parent)
    return fingerprint(target)


def spread_keys(federation: Path) -> None:
    """The public keys that the server has, in every client's folder that is here: see peers.py."""
    for key in sorted((federation / "server" / "keys").glob("*.pub")):
        for client in sorted((federation / "clients").glob("*/client.toml")):
            (client.parent / PEERS).mkdir(exist_ok=True)
            shutil.copy(key, client.parent / PEERS)


def public_key(path: Path) -> bytes:
    """A client's public key as Flower keeps it (PEM), from OpenSSH's form."""
    try:
        key = serialization.load_ssh_public_key(path.read_bytes())
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{path} cannot be read as a public key: {error}") from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, CURVES):
        raise ConfigError(f"{path} is no ECDSA key on a NIST curve; `protofed deploy join` makes one")
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(serialization.Encoding.PEM, form)


def fingerprint(path: Path) -> str:
    """As `ssh-keygen -l` shows it."""
    public_key(path)
    raw = base64.b64decode(path.read_text().split()[1])
    return "SHA256:" + base64.b64encode(hashlib.sha256(raw).digest()).decode().rstrip("=")


def client_key(settings: ServerSettings, name: str) -> Path:
    """Where the server has a client's public key."""
    path = settings.home / "keys" / f"{name}.pub"
    if not path.exists():
        raise ConfigError(
            f"{path} is missing: enter the key.pub that {name} made with `protofed deploy join`: protofed "
            f"deploy accept DIR {name} key.pub"
        )
    return path


def keys_of_run(settings: ServerSettings, out: Path, clients: Sequence[str]) -> dict[str, bytes]:
    """The public keys by which a run knows its clients: those with which it began, so that nobody takes the
    place of a client in the middle of a run, whatever was registered since."""
    if settings.insecure:
        return {}
    now = {name: public_key(client_key(settings, name)).decode() for name in clients}
    begun = there(out, "agreement.json")
    began = dict(read_whole(out, RUN_KEYS, older=True)) if begun and there(out, RUN_KEYS) else {}
    if not began.keys() >= now.keys():
        began = {**now, **began}
        if begun:
            keep_keys(out, began)
    return {name: pem.encode() for name, pem in began.items()}


def keep_keys(out: Path, keys: Mapping[str, str]) -> None:
    """Write the keys of a run that begins, or has another client, into its directory."""
    write_whole(out, RUN_KEYS, dict(keys))
