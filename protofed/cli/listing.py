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
from ..core.errors import ConfigError
from ..core.options import options_of
from ..core.registry import Registry
from ..data import partitions, sources
from ..models.base import families
from ..models.describe import describe_families, describe_groups
from .output import make_console
from .parser import add_import

KINDS: dict[str, Registry[Any]] = {
    "methods": methods,
    "data": sources,
    "partitions": partitions,
    "models": families,
}


def add(commands: Any, argv: Sequence[str]) -> None:
    """Declare the command."""
    parser = commands.add_parser("list", allow_abbrev=False)
    parser.add_argument("kind", choices=KINDS, help="what to list")
    parser.add_argument("name", nargs="?", help="show the options of this one; or FILE.py:CLASS")
    add_import(parser)
    parser.add_argument(
        "--input",
        default="3x32x32",
        metavar="CxHxW",
        help="with `models`: inputs for which parameters and cost are counted (default: 3x32x32)",
    )
    parser.add_argument("--classes", type=int, default=10, help="with `models`: classes (default: 10)")
    parser.add_argument("--names", action="store_true", help="with `models`: names only, at once")
    parser.set_defaults(function=listing)


def listing(args: argparse.Namespace) -> int:
    """Print all of a kind, or the options of one."""
    registry, console = KINDS[args.kind], make_console()
    if args.name:
        console.print(_options(registry, args.name))
    elif args.kind == "models":
        shape = _shape(args.input)
        with Console(stderr=True).status("building all models to count them; --names lists names only"):
            table = _models() if args.names else _costs(shape, args.classes)
        console.print(table)
        console.print(_groups())
    else:
        console.print(_names(registry, args.kind))
    return 0


def _shape(text: str) -> tuple[int, ...]:
    try:
        shape = tuple(int(part) for part in text.lower().split("x"))
    except ValueError:
        shape = ()
    if not shape or min(shape) < 1:
        raise ConfigError(f"--input: expected sizes such as 3x32x32 or 60, got {text!r}")
    return shape


def _models() -> Table:
    table = Table(title="models")
    table.add_column("name", no_wrap=True)
    table.add_column("what it is")
    for row in describe_families():
        table.add_row(row.spec, row.summary)
    return table


def _costs(shape: tuple[int, ...], classes: int) -> Table:
    size = "×".join(str(s) for s in shape)
    table = Table(title=f"models, for inputs of {size} and {classes} classes (multiply-adds of one sample)")
    table.add_column("name", no_wrap=True)
    for column in ("embedding", "parameters", "of the base", "10⁶ multiply-adds"):
        table.add_column(column, justify="right")
    table.add_column("what it is")
    for row in describe_families(shape, classes):
        if row.cost is None:
            table.add_row(row.spec, "", "", "", "", row.note or row.summary)
            continue
        cost = row.cost
        numbers = [
            str(cost.embedding),
            f"{cost.parameters:,}",
            f"{cost.base:,}",
            f"{cost.multiply_adds / 1e6:.2f}",
        ]
        table.add_row(row.spec, *numbers, row.summary)
    return table


def _groups() -> Table:
    table = Table(title="groups of models")
    for column in ("name", "members", "rule"):
        table.add_column(column)
    for name, group in describe_groups():
        table.add_row(name, " | ".join(group.members), group.rule)
    return table


def _names(registry: Registry[Any], kind: str) -> Table:
    table = Table(title=kind)
    table.add_column("name", no_wrap=True)
    table.add_column("what it is")
    if kind == "methods":
        table.add_column("paper")
        table.add_column("presets")
    for name in registry:
        try:
            row = [name, registry.summary(name)]
        except ConfigError as error:  # of another package, which is broken
            table.add_row(name, str(error))
            continue
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
