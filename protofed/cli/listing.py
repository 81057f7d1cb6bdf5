"""`protofed list methods|data|partitions|models|attacks|defences [NAME]`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from ..core.errors import ConfigError
from ..core.options import options_of
from .catalogue import KINDS, Entry, catalogue, named_groups, registry_of
from .output import make_console
from .parser import add_import

INPUT, CLASSES = "3x32x32", 10


def add(commands: Any, argv: Sequence[str]) -> None:
    """Declare the command."""
    parser = commands.add_parser("list", allow_abbrev=False)
    parser.add_argument("kind", choices=KINDS, help="what to list")
    parser.add_argument("name", nargs="?", help="show the options of this one; or FILE.py:CLASS")
    add_import(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--costs", action="store_true", help="with `models`: build all and count parameters and multiply-adds"
    )
    parser.add_argument(
        "--input", metavar="CxHxW", help=f"with `models`: the same, for such inputs (default: {INPUT})"
    )
    parser.add_argument(
        "--classes",
        type=int,
        metavar="N",
        help=f"with `models`: the same, for so many (default: {CLASSES})",
    )
    parser.set_defaults(function=listing)


def listing(args: argparse.Namespace) -> int:
    """Print all of a kind, or the options of one."""
    counted = args.costs or args.input is not None or args.classes is not None
    if counted and (args.kind != "models" or args.name):
        raise ConfigError("--costs, --input and --classes belong to `protofed list models`, without a name")
    if args.name:
        found, tables = _options(args.kind, args.name)
    elif counted:
        found, tables = _costs(_shape(args.input or INPUT), CLASSES if args.classes is None else args.classes)
    else:
        entries = catalogue(args.kind, bool(getattr(args, "setting:imports", None)))
        found, tables = [entry.as_dict(args.kind) for entry in entries], [_names(entries, args.kind)]
    if args.json:
        sys.stdout.write(json.dumps(found, indent=2, default=str) + "\n")
        return 0
    console = make_console()
    for table in [*tables, *([_groups()] if args.kind == "models" and not args.name else [])]:
        console.print(table)
    return 0


def _shape(text: str) -> tuple[int, ...]:
    try:
        shape = tuple(int(part) for part in text.lower().split("x"))
    except ValueError:
        shape = ()
    if not shape or min(shape) < 1:
        raise ConfigError(f"--input: expected sizes such as 3x32x32 or 60, got {text!r}")
    return shape


def _costs(shape: tuple[int, ...], classes: int) -> tuple[list[dict[str, Any]], list[Table]]:
    from .. import experiment as _registers_everything  # noqa: F401
    from ..models.describe import describe_families

    with Console(stderr=True).status("building all models to count them"):
        rows = describe_families(shape, classes)
    size = "×".join(str(s) for s in shape)
    table = Table(title=f"models, for inputs of {size} and {classes} classes (multiply-adds of one sample)")
    table.add_column("name", no_wrap=True)
    for column in ("embedding", "parameters", "of the base", "10⁶ multiply-adds"):
        table.add_column(column, justify="right")
    table.add_column("what it is")
    found: list[dict[str, Any]] = []
    for row in rows:
        numbers = {} if row.cost is None else dataclasses.asdict(row.cost)
        found.append({"name": row.spec, "summary": row.summary, **numbers, "note": row.note})
        if row.cost is None:
            table.add_row(row.spec, "", "", "", "", row.note or row.summary)
            continue
        cost = row.cost
        millions = f"{cost.multiply_adds / 1e6:.2f}"
        table.add_row(
            row.spec,
            str(cost.embedding),
            f"{cost.parameters:,}",
            f"{cost.base:,}",
            millions,
            row.summary,
        )
    return found, [table]


def _groups() -> Table:
    table = Table(title="groups of models")
    for column in ("name", "members", "rule"):
        table.add_column(column)
    for name, group in named_groups().items():
        table.add_row(name, " | ".join(group.members), group.rule)
    return table


def _names(entries: Sequence[Entry], kind: str) -> Table:
    table = Table(title=kind)
    table.add_column("name", no_wrap=True)
    table.add_column("what it is")
    if kind == "methods":
        table.add_column("paper")
        table.add_column("presets")
    for entry in entries:
        more = [entry.paper, ", ".join(entry.presets)] if kind == "methods" else []
        table.add_row(entry.name, entry.summary, *more)
    return table


def _options(kind: str, name: str) -> tuple[list[dict[str, Any]], list[Table]]:
    registry = registry_of(kind)
    cls = registry[name]
    table = Table(title=f"{name}: {registry.summary(name)}")
    for column in ("option", "default", "what it does", "choices"):
        table.add_column(column)
    infos = options_of(cls) if dataclasses.is_dataclass(cls) else []
    for info in infos:
        default = "none" if info.default is None else str(info.default)
        table.add_row(info.name, default, info.help, ", ".join(info.choices or ()))
    keys = ("name", "default", "help", "choices")
    return [{key: getattr(info, key) for key in keys} for info in infos], [table]
