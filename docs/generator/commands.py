"""The reference of the command line: what `--help` prints, and a table of the settings."""

from __future__ import annotations

import argparse
import os
from unittest import mock

from protofed.cli.parser import build_parser
from protofed.config import SECTIONS, Config

from .markdown import options_table

WIDTH = "88"  # letters of a line


def commands() -> str:
    """The list of all, then a section a command, with one below it for each of its own (`deploy init`)."""
    whole, parsers = build_parser()
    with mock.patch.dict(os.environ, COLUMNS=WIDTH):
        sections = [_command(name, parser) for name, parser in parsers.items()]
        return "\n".join([f"```text\n{whole.format_help()}```\n", *sections])


def _command(name: str, parser: argparse.ArgumentParser, level: int = 2) -> str:
    of_runs = [action for action in parser._actions if action.dest.startswith(("setting:", "option:"))]
    for action in of_runs:
        action.help = argparse.SUPPRESS
    parts = [f"{'#' * level} {name}", f"```text\n{parser.format_help()}```"]
    parts += ["and the [settings](#settings)."] if len(of_runs) > 1 else []
    nested = [a.choices for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    parts += [_command(f"{name} {verb}", p, level + 1) for choices in nested for verb, p in choices.items()]
    return "\n\n".join(parts) + "\n"


def settings() -> str:
    """A table of those of the run, and one a section."""
    top = options_table(Config, skip=("method", "options", *SECTIONS))
    return "\n".join([top, *(f"### {name}\n\n{options_table(cls)}" for name, cls in SECTIONS.items())])
