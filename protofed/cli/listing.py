"""`protofed list methods|data|partitions|models [NAME]`."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from .. import experiment as _registers_everything  # noqa: F401
from ..core.algorithm import methods
from ..core.options import options_of
from ..core.registry import Registry
from ..data import partitions, sources
from ..models.base import families

KINDS: dict[str, Registry[Any]] = {
    "methods": methods,
    "data": sources,
    "partitions": partitions,
    "models": families,
}


def add(commands: Any, argv: Sequence[str]) -> None:
    parser = commands.add_parser("list", help="list methods, data, partitions or models", allow_abbrev=False)
    parser.add_argument("kind", choices=KINDS, help="what to list")
    parser.add_argument("name", nargs="?", help="show the options of this one")
    parser.set_defaults(function=listing)


def listing(args: argparse.Namespace) -> int:
    registry = KINDS[args.kind]
    Console().print(_options(registry, args.name) if args.name else _names(registry, args.kind))
    return 0


def _names(registry: Registry[Any], kind: str) -> Table:
    table = Table(title=kind)
    table.add_column("name", no_wrap=True)
    table.add_column("what it is")
    if kind == "methods":
        table.add_column("paper")
        table.add_column("presets")
    for name in registry:
        row = [name, registry.summary(name)]
        if kind == "methods":
            row += [registry[name].paper, ", ".join(registry[name].presets)]
        table.add_row(*row)
    return table


def _options(registry: Registry[Any], name: str) -> Table:
    cls = registry[name]
    table = Table(title=f"{name}: {registry.summary(name)}")
    for column in ("option", "default", "what it does", "choices"):
        table.add_column(column)
    if dataclasses.is_dataclass(cls):
        for info in options_of(cls):
            default = "none" if info.default is None else str(info.default)
            table.add_row(info.name, default, info.help, ", ".join(info.choices or ()))
    return table
