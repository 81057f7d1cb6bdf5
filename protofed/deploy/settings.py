"""The two files that a person edits: server.toml at the server, client.toml at each client."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from ..core.errors import ConfigError
from ..core.options import build, option

T = TypeVar("T")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}")


@dataclass(frozen=True)
class ServerSettings:
    """server.toml. Paths are relative to the file."""

    host: str = option("127.0.0.1", "name or address under which clients reach the server")
    listen: str = option("0.0.0.0", "address on which the server listens")
    port: int = option(9443, "port", low=1, high=65535)
    clients: list[str] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)  # empty: all names that the clients bring, sorted
    recipe: str = option("recipe.toml", "method, rounds, training")
    insecure: bool = option(False, "no TLS and no keys")
    join_timeout: float = option(600.0, "seconds to wait for the clients before the first round", above=0)
    metrics_port: int = option(0, "port on 127.0.0.1 for metrics; 0: none", low=0, high=65535)
    home: Path = Path()


@dataclass(frozen=True)
class ClientSettings:
    """client.toml. Paths are relative to the file."""

    name: str = option("", "the name under which the server knows this client")
    server: str = option("127.0.0.1:9443", "host:port of the server")
    model: str = option("small_cnn", "this client's model")
    data: str = option("digits", "this client's data")
    partition: str | None = option(None, "take one part of the data, divided so")
    parts: int = option(1, "number of parts", low=1)
    part: int = option(0, "which part", low=0)
    seed: int = option(0, "of the division", low=0)
    classes: list[str] = field(default_factory=list)  # names by own numbering; empty: as the data says
    imports: list[str] = field(default_factory=list)  # Python files that this client may run
    insecure: bool = option(False, "no TLS and no key")
    secure: bool = option(False, "take part only in runs with secure sums")
    state: str = option("state", "where this client's model and memory are kept")
    preload: bool = option(True, "fork the process of each message from one that has imported all (Linux)")
    keep_runs: int = option(3, "runs whose states are kept there; a new run removes older ones", low=1)
    home: Path = Path()


def read_server(path: Path) -> ServerSettings:
    """From server.toml, or the directory that holds it."""
    path = path / "server.toml" if path.is_dir() else path
    made = _read(ServerSettings, path)
    if not made.clients:
        raise ConfigError(f"{path}: clients: expected the names of the clients, got none")
    for name in made.clients:
        check_name(name, str(path))
    if len(set(made.clients)) < len(made.clients):
        raise ConfigError(f"{path}: clients: a name stands there twice: {', '.join(made.clients)}")
    return made


def read_client(path: Path) -> ClientSettings:
    """From client.toml, or the directory that holds it."""
    path = path / "client.toml" if path.is_dir() else path
    made = _read(ClientSettings, path)
    check_name(made.name, str(path))
    return made


def check_name(name: str, where: str) -> None:
    """Names become directories and file names, so they must be plain."""
    if not NAME.fullmatch(name):
        raise ConfigError(f"{where}: client name {name!r}: expected letters, digits, - and _, at most 41")


def _read(cls: type[T], path: Path) -> T:
    try:
        values = tomllib.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from error
    given = [key for key in ("clients", "classes", "imports") if key in values]
    more: dict[str, Any] = {key: _names(values.pop(key), f"{path}: {key}") for key in given}
    more["home"] = path.resolve().parent
    if "home" in values:
        raise ConfigError(f"{path}: unknown setting 'home'")
    return replace(build(cls, values, str(path)), **more)  # type: ignore[type-var]


def _names(value: Any, where: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ConfigError(f"{where}: expected a list of names, got {value!r}")
    return [name.strip() for name in value]
