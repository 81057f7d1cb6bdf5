"""Arguments from dataclasses: every option's name, type, default and help are written once, there."""

from __future__ import annotations

import argparse
import types
import typing
from collections.abc import Callable, Collection, Sequence
from importlib import import_module
from itertools import pairwise
from typing import Any, NoReturn

from .. import __version__
from ..core.errors import unknown
from ..core.options import OptionInfo, options_of
from .commands import COMMANDS

Command = Callable[[argparse.Namespace], int]


class UsageError(Exception):
    """Arguments that argparse does not understand."""


class Parser(argparse.ArgumentParser):
    """Raises instead of printing a usage and leaving."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see `{self.prog} --help`)")


class _Commands(argparse._SubParsersAction):  # type: ignore[type-arg]
    """Takes a command's line of help from the table, where it is written once."""

    def add_parser(self, name: str, **how: Any) -> Any:
        """A command, with its line."""
        return super().add_parser(name, help=COMMANDS[name].help, **how)


def make_parser(argv: Sequence[str]) -> tuple[Command, argparse.Namespace]:
    """The command named by `argv` and its parsed arguments; unknown options name their nearest match."""
    name = argv[0] if argv else "--help"
    if not name.startswith("-") and name not in COMMANDS:
        raise UsageError(unknown("command", name, COMMANDS))
    parser, commands = build_parser(argv, [name] if name in COMMANDS else [])
    if not argv:
        parser.print_help()
        raise SystemExit(0)
    if name.startswith("-") and name not in parser._option_string_actions:
        raise UsageError(f"expected a command first, got {name!r} (see `protofed --help`)")
    parsed, rest = parser.parse_known_args(list(argv))
    if rest:
        raise UsageError(_unknown_argument(rest[0], commands[name]))
    return parsed.function, parsed


def build_parser(
    argv: Sequence[str] = (), declared: Collection[str] = COMMANDS
) -> tuple[Parser, dict[str, Parser]]:
    """The parser, and those of the commands by name; `argv` tells whose options `run` has.

    The files of the `declared` commands are imported; of the others name and line are known.
    """
    if argv[:1] != ["completion"] and (files := _imported(argv)):  # whose words are another line
        from ..config import load_imports

        load_imports(files)
    parser = Parser(
        prog="protofed",
        description="Federated learning with class prototypes.",
        epilog="`protofed COMMAND --help` explains a command; `protofed run METHOD --help` a method. A "
        "method of your own is named FILE.py:CLASS.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"protofed {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser, action=_Commands)
    files_of_declared = {COMMANDS[name].file for name in declared}
    for name, listed in COMMANDS.items():
        if listed.file not in files_of_declared:
            commands.add_parser(name)
        elif name not in commands.choices:  # a file may declare several
            import_module(f".{listed.file}", __package__).add(commands, argv)
    return parser, commands.choices


def _unknown_argument(given: str, parser: argparse.ArgumentParser) -> str:
    known = [s for action in parser._actions for s in action.option_strings if s.startswith("--")]
    if given.startswith("-"):
        return unknown("option", given.split("=")[0], known)
    takes_pairs = next((flag for flag in ("--over", "--set") if flag in known), None)
    if "=" in given and takes_pairs:
        return f"unexpected argument {given!r}; did you mean {takes_pairs} {given}?"
    return f"unexpected argument {given!r} (see `{parser.prog} --help`)"


def add_settings(parser: argparse.ArgumentParser, method: str | None) -> None:
    """Flags for all settings, and for the options of a method if it is known."""
    from ..config import SECTIONS, Config
    from ..core.algorithm import methods

    skip = {"method", "options", "imports", *SECTIONS}
    top = parser.add_argument_group("what is run")
    taken = set()
    for info in options_of(Config):
        if info.name not in skip:
            _add_flag(top, info)
            taken.add(info.name)
    add_sites(top)
    add_import(top)
    titles = {"train": "local training", "rounds": "rounds and participation", "system": "system"}
    titles |= {"transport": "messages of the Flower engine", "trust": "attackers, defences and privacy"}
    for name, cls in SECTIONS.items():
        group = parser.add_argument_group(titles[name])
        for info in options_of(cls):
            _add_flag(group, info, method)
            taken.add(info.name)
    more = parser.add_argument_group(f"options of {method}" if method else "options of the method")
    more.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="an option of the method"
    )
    if method is not None and method in methods:
        for info in options_of(methods[method]):
            if info.name not in taken:
                _add_flag(more, info, method, prefix="option:")


def add_sites(group: Any) -> None:
    """Flags for files that are a client each."""
    group.add_argument(
        "--sites",
        dest="setting:sites",
        nargs="+",
        default=argparse.SUPPRESS,
        metavar="FILE",
        help="in place of --data: a file or folder for each client (.csv, .npz, .parquet, images), or "
        "KIND:PATH,OPTIONS; classes are matched by name",
    )
    group.add_argument(
        "--each",
        dest="setting:each",
        default=argparse.SUPPRESS,
        metavar="OPTIONS",
        help="options for all sites, as label=diagnosis,standardise=true",
    )


def add_import(group: Any) -> None:
    """The flag for files of the user's. They are run before anything else is looked at: see `make_parser`."""
    group.add_argument(
        "--import",
        dest="setting:imports",
        action="append",
        default=argparse.SUPPRESS,
        metavar="FILE.py",
        help="a Python file that registers data, partitions, models or methods; repeatable",
    )


def _imported(argv: Sequence[str]) -> list[str]:
    """The files after --import, before anything is parsed."""
    apart = [after for word, after in pairwise(argv) if word == "--import"]
    joined = [word.partition("=")[2] for word in argv if word.startswith("--import=")]
    return apart + joined


def settings_of(args: argparse.Namespace) -> dict[str, Any]:
    """The settings given on the command line, as a layer for `config.resolve`."""
    layer: dict[str, Any] = {"options": {}}
    for key, value in vars(args).items():
        if key.startswith("option:"):
            layer["options"][key.removeprefix("option:")] = value
        elif key.startswith("setting:"):
            layer[key.removeprefix("setting:")] = value
    for text in args.set:
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set {text!r}: expected KEY=VALUE")
        layer["options"][key.strip()] = value.strip()
    return layer


def _add_flag(group: Any, info: OptionInfo, method: str | None = None, prefix: str = "setting:") -> None:
    flag = "--" + info.name.replace("_", "-")
    text = f"{info.help} ({default_of(info, method)})".replace("%", "%%")
    common = {"dest": prefix + info.name, "default": argparse.SUPPRESS, "help": text}
    if info.type is bool:
        group.add_argument(flag, action=argparse.BooleanOptionalAction, **common)
    else:
        choices = "{" + ",".join(info.choices) + "}" if info.choices else _metavar(info.type)
        group.add_argument(flag, metavar=choices, **common)


def default_of(info: OptionInfo, method: str | None) -> str:
    """What a bare run takes, and what the preset `paper` has instead, if the method has one that differs."""
    from ..core.algorithm import methods

    presets = methods[method].presets if method is not None and method in methods else {}
    values = [
        {**presets[name].options, **presets[name].train}.get(info.name, info.default)
        for name in ("default", "paper")
        if name in presets
    ] or [info.default]
    default, paper = ("none" if value is None else value for value in (values[0], values[-1]))
    return f"default: {default}" if default == paper else f"default: {default}; preset paper: {paper}"


def _metavar(hint: Any) -> str:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        hint = next(a for a in typing.get_args(hint) if a is not type(None))
    return {int: "INT", float: "NUMBER", str: "TEXT"}.get(hint, "VALUE")
