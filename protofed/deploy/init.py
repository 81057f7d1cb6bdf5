"""`protofed deploy init`: everything for a federation in one directory, ready to be copied to its hosts.

`deploy add` puts a further client into it; `deploy renew` gives the server a new certificate; `deploy sign`
signs the app anew. What signs certificates and apps lies in offline/, which no host needs."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import tomlkit

from ..config import read_recipe, resolve
from ..core.errors import ConfigError
from ..core.user_files import UserFile
from ..core.version import VERSION as __version__
from ..runs.files import write_atomic
from .certificates import read_certificate, renew_server, write_authority, write_key_pair
from .keys import spread_keys
from .own_files import by_name, load_common
from .private import private_folder
from .settings import check_name, read_server
from .signing import TRUSTED, write_app, write_signing_key
from .templates import CLIENT, RECIPE, SERVER, UNIT_CLIENT, UNIT_SERVER, filled
from .templates_readme import INSECURE, MADE_HERE, OWN_KEYS, README, SECURE

APP_KEY = "app.key"


def init(
    folder: Path,
    clients: list[str],
    host: str,
    port: int,
    recipe: Path | None,
    insecure: bool,
    own_keys: bool = False,
) -> None:
    """Write the directory. An existing federation is not touched. With `own_keys` clients make their keys
    themselves: see keys.py."""
    if (folder / "server").exists():
        raise ConfigError(f"{folder} already holds a federation; choose another directory")
    if not clients:
        raise ConfigError("deploy init: no clients; name them with --clients a,b,c")
    if twice := [name for name in clients if clients.count(name) > 1]:
        raise ConfigError(
            f"deploy init: {twice[0]!r} is named twice in --clients; give each client its own name"
        )
    for name in clients:
        check_name(name, "deploy init")
    if recipe is not None:
        resolve(read_recipe(recipe))  # a mistake in it is told before anything is written
    server = private_folder(folder / "server")
    _write_server(server, clients, host, port, recipe, insecure)
    own = _copy_files(recipe, server)
    for name in clients:
        _write_client(folder / "clients" / name, name, server, f"{host}:{port}", insecure, own, own_keys)
    spread_keys(folder)
    _write_units(folder / "systemd")
    (folder / "README.md").write_text(_readme(folder, clients, host, port, insecure, own_keys))


def add(folder: Path, name: str, own_keys: bool = False) -> None:
    """A further client: its directory, its public key at the server, its name in server.toml."""
    check_name(name, "deploy add")
    settings = read_server(folder / "server")
    if name in settings.clients or (folder / "clients" / name).exists():
        raise ConfigError(f"{folder} has a client {name} already; choose another name")
    path = settings.home / "server.toml"
    document = tomlkit.parse(path.read_text())
    document["clients"].append(name)
    address = f"{settings.host}:{settings.port}"
    own = load_common(read_recipe(settings.home / settings.recipe))
    _write_client(
        folder / "clients" / name, name, folder / "server", address, settings.insecure, own, own_keys
    )
    write_atomic(path, tomlkit.dumps(document).encode())
    spread_keys(folder)


def renew(folder: Path) -> date:
    """A new certificate for the server; the day on which it expires."""
    server = folder / "server" if (folder / "server").is_dir() else folder
    certificates = server / "certificates"
    old = certificates / "ca.key"  # where it lay in federations of earlier versions
    renew_server(certificates, old if old.exists() else _offline(server) / "ca.key")
    return read_certificate(certificates / "server.crt").not_valid_after_utc.date()


def sign(folder: Path) -> None:
    """Sign the app again, with the key in offline/ or, where there is none, with a new one."""
    settings = read_server(folder / "server")
    if settings.insecure:
        raise ConfigError(f"{folder} was made with --insecure: its clients look at no signature")
    key = folder / "offline" / APP_KEY
    if not key.exists():
        write_signing_key(key)
    write_app(settings.home, key)
    for client in settings.clients:
        if (folder / "clients" / client).is_dir():
            shutil.copy(settings.home / "app" / TRUSTED, folder / "clients" / client)


def _offline(server: Path) -> Path:
    """Beside server/: keys that no host needs."""
    return server.parent / "offline"


def _readme(folder: Path, clients: list[str], host: str, port: int, insecure: bool, own_keys: bool) -> str:
    values = {"host": host, "port": port, "first": clients[0], "names": ", ".join(clients)}
    values |= {"version": __version__, "flag": " --insecure" if insecure else ""}
    if insecure:
        return README.format(**values, keys="", security=INSECURE.format(**values))
    folder = folder / "server" / "certificates"
    days = [read_certificate(folder / f"{n}.crt").not_valid_after_utc.date() for n in ("server", "ca")]
    how = "Clients make their own." if own_keys else MADE_HERE
    values["keys"] = OWN_KEYS.format(**values, how=how)
    return README.format(**values, security=SECURE.format(**values, server_ends=days[0], ca_ends=days[1]))


def _write_server(
    server: Path, clients: list[str], host: str, port: int, recipe: Path | None, insecure: bool
) -> None:
    listen = "127.0.0.1" if host in ("127.0.0.1", "localhost") else "0.0.0.0"
    values = {"host": host, "listen": listen, "port": port, "clients": clients, "insecure": insecure}
    (server / "server.toml").write_text(filled(SERVER, values))
    if recipe is None:
        (server / "recipe.toml").write_text(RECIPE)
    else:
        shutil.copy(recipe, server / "recipe.toml")
    if insecure:
        return write_app(server, None)
    hosts = list(dict.fromkeys([host, "127.0.0.1", "localhost"]))
    write_authority(server / "certificates", _offline(server) / "ca.key", hosts)
    write_signing_key(_offline(server) / APP_KEY)
    write_app(server, _offline(server) / APP_KEY)


def _copy_files(recipe: Path | None, server: Path) -> list[UserFile]:
    """The Python files of the user's that a recipe names, beside the server's recipe."""
    own = [] if recipe is None else load_common(read_recipe(recipe))
    if own:
        path = server / "recipe.toml"
        document = tomlkit.parse(path.read_text())
        document.update(by_name(document.unwrap()))
        path.write_text(tomlkit.dumps(document))
    _write_files(own, server)
    return own


def _write_files(own: Sequence[UserFile], folder: Path) -> None:
    for file in own:
        for path, text in file.texts.items():
            target = folder / path.relative_to(file.path.parent)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text)


def _write_client(
    folder: Path,
    name: str,
    server: Path,
    address: str,
    insecure: bool,
    own: Sequence[UserFile],
    own_keys: bool,
) -> None:
    private_folder(folder)
    values: dict[str, Any] = {"name": name, "server": address, "insecure": insecure}
    if own:
        values["imports"] = [file.path.name for file in own]
    (folder / "client.toml").write_text(filled(CLIENT, values))
    _write_files(own, folder)
    if insecure:
        return
    shutil.copy(server / "certificates" / "ca.crt", folder / "ca.crt")
    shutil.copy(server / "app" / TRUSTED, folder)
    (server / "keys").mkdir(exist_ok=True)
    if own_keys:
        return
    write_key_pair(folder / "key")
    shutil.copy(folder / "key.pub", server / "keys" / f"{name}.pub")


def _write_units(folder: Path) -> None:
    folder.mkdir()
    program = str(Path(sys.executable).parent / "protofed")
    (folder / "protofed-server.service").write_text(UNIT_SERVER.format(program=program))
    (folder / "protofed-client.service").write_text(UNIT_CLIENT.format(program=program))
