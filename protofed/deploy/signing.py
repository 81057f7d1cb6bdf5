"""The app that clients run, signed with the federation's own key.

Flower sends the client app's code from the server to the clients. So that nobody who reaches the server, nor
the server itself once it is taken over, can make clients run anything else, `deploy init` builds the app,
signs it with an Ed25519 key that stays offline, and gives every client the public half. Flower's SuperNode
(`--trusted-entities`) refuses apps without this signature. The app is a few lines that call the protofed
which is installed at the client, so a new version of protofed needs no new signature.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from ..core.errors import ConfigError
from ..runs.files import read_json, write_json
from .private import private_folder, write_private
from .templates import APP

TRUSTED = "trusted.yaml"
APP_ID = "@protofed/protofed-app"  # publisher and name in its pyproject.toml
OPENSSH = serialization.Encoding.OpenSSH


@dataclass(frozen=True)
class SignedApp:
    """The bundle and what Flower's SuperNode looks at before it runs it."""

    content: bytes
    verifications: dict[str, str]

    @property
    def hash(self) -> str:
        """As Flower names the bundle."""
        return hashlib.sha256(self.content).hexdigest()


def write_signing_key(path: Path) -> None:
    """A new Ed25519 key in OpenSSH's form."""
    private_folder(path.parent)
    key = ed25519.Ed25519PrivateKey.generate()
    form = serialization.PrivateFormat.OpenSSH
    content = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    write_private(path, content)


def write_app(server: Path, key: Path | None) -> None:
    """app/protofed.fab; with a key also app/signature.json and app/trusted.yaml, which clients have too."""
    from flwr.cli.build import build_fab_from_files

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a library that Flower uses
        content, _ = build_fab_from_files({name: text.encode() for name, text in APP.items()})
    (server / "app").mkdir(exist_ok=True)
    (server / "app" / "protofed.fab").write_bytes(content)
    if key is not None:
        signer = _read_key(key)
        write_json(server / "app" / "signature.json", sign(content, signer))
        (server / "app" / TRUSTED).write_text(_trusted(public_line(signer)))


def sign(content: bytes, key: ed25519.Ed25519PrivateKey) -> dict[str, str]:
    """What Flower keeps beside a bundle, by the key's id: the second, and a signature of it and of the
    bundle's digest. "valid_license" is Flower's own mark that there are signatures to look at."""
    second = int(time.time())
    signature = key.sign(second.to_bytes(8, "big") + hashlib.sha256(content).digest())
    coded = base64.urlsafe_b64encode(signature).decode().rstrip("=")
    found = json.dumps({"signed_at": second, "signature": coded})
    return {key_id(public_line(key)): found, "valid_license": "Valid"}


def _trusted(line: str) -> str:
    """The file of a client that names the key whose apps it runs. JSON is YAML."""
    return f"# Clients run only apps that are signed with this key.\n{json.dumps({key_id(line): line})}\n"


def check_trusted(path: Path) -> Path:
    """The file, if it names a key: Flower takes an empty one as leave to run anything."""
    try:
        lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        found = json.loads("\n".join(lines))
        keys = [serialization.load_ssh_public_key(line.encode()) for line in found.values()]
    except OSError as error:
        raise ConfigError(
            f"{path} is missing, without which this client would run any app: copy it from the federation's "
            f"directory (`protofed deploy sign` writes it for one that was made before there were signatures)"
        ) from error
    except (ValueError, AttributeError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{path} is damaged: {error}; copy it from the federation's directory") from error
    if not keys or not all(isinstance(key, ed25519.Ed25519PublicKey) for key in keys):
        raise ConfigError(f"{path} names no Ed25519 key; copy it from the federation's directory")
    return path


def read_app(server: Path, insecure: bool = False) -> SignedApp:
    """What the server submits. It cannot sign: the key is elsewhere."""
    bundle, signature = server / "app" / "protofed.fab", server / "app" / "signature.json"
    if not bundle.exists() or (not insecure and not signature.exists()):
        raise ConfigError(
            f"{server / 'app'} has no signed app, which clients ask for: run `protofed deploy sign` in the "
            "directory where the federation was made, and copy server/app/ and each client's trusted.yaml"
        )
    return SignedApp(bundle.read_bytes(), {} if insecure else dict(read_json(signature)))


def public_line(key: ed25519.Ed25519PrivateKey) -> str:
    """The public half, as OpenSSH writes it."""
    return key.public_key().public_bytes(OPENSSH, serialization.PublicFormat.OpenSSH).decode()


def key_id(line: str) -> str:
    """A short name of a public key."""
    return "protofed-" + hashlib.sha256(line.encode()).hexdigest()[:16]


def _read_key(path: Path) -> ed25519.Ed25519PrivateKey:
    try:
        key = serialization.load_ssh_private_key(path.read_bytes(), None)
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{path} is needed to sign the app: {error}") from error
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise ConfigError(f"{path} is no Ed25519 key")
    return key
