"""`protofed deploy init`: everything for a federation in one directory, ready to be copied to its hosts."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from ..core.errors import ConfigError
from .certificates import write_authority, write_key_pair
from .settings import check_name
from .templates import APP, CLIENT, README, RECIPE, SERVER, UNIT_CLIENT, UNIT_SERVER


def init(folder: Path, clients: list[str], host: str, port: int, recipe: Path | None, insecure: bool) -> None:
    """Write the directory. An existing federation is not touched."""
    if (folder / "server").exists():
        raise ConfigError(f"{folder} already holds a federation; choose another directory")
    if not clients:
        raise ConfigError("deploy init: no clients; name them with --clients a,b,c")
    for name in clients:
        check_name(name, "deploy init")
    server = folder / "server"
    server.mkdir(parents=True)
    _write_server(server, clients, host, port, recipe, insecure)
    for name in clients:
        _write_client(folder / "clients" / name, name, server, f"{host}:{port}", insecure)
    _write_units(folder / "systemd")
    values = {"host": host, "port": port, "first": clients[0], "python": sys.executable}
    (folder / "README.md").write_text(README.format(**values))


def _write_server(
    server: Path, clients: list[str], host: str, port: int, recipe: Path | None, insecure: bool
) -> None:
    names = ", ".join(f'"{name}"' for name in clients)
    values = {"host": host, "port": port, "clients": names, "insecure": str(insecure).lower()}
    values["listen"] = "127.0.0.1" if host in ("127.0.0.1", "localhost") else "0.0.0.0"
    (server / "server.toml").write_text(SERVER.format(**values))
    if recipe is None:
        (server / "recipe.toml").write_text(RECIPE)
    else:
        shutil.copy(recipe, server / "recipe.toml")
    for name, text in APP.items():
        path = server / "app" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if not insecure:
        write_authority(server / "certificates", list(dict.fromkeys([host, "127.0.0.1", "localhost"])))


def _write_client(folder: Path, name: str, server: Path, address: str, insecure: bool) -> None:
    folder.mkdir(parents=True)
    values = {"name": name, "address": address, "insecure": str(insecure).lower()}
    (folder / "client.toml").write_text(CLIENT.format(**values))
    if insecure:
        return
    shutil.copy(server / "certificates" / "ca.crt", folder / "ca.crt")
    write_key_pair(folder / "key")
    (server / "keys").mkdir(exist_ok=True)
    shutil.copy(folder / "key.pub", server / "keys" / f"{name}.pub")


def _write_units(folder: Path) -> None:
    folder.mkdir()
    program = str(Path(sys.executable).parent / "protofed")
    (folder / "protofed-server.service").write_text(UNIT_SERVER.format(program=program))
    (folder / "protofed-client.service").write_text(UNIT_CLIENT.format(program=program))
