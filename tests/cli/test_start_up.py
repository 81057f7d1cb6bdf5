"""What answers at once: commands that need no tensor do not import torch, which takes a second or more."""

from __future__ import annotations

import subprocess
import sys

import pytest

from protofed.cli.commands import COMMANDS
from protofed.cli.parser import build_parser

PROGRAM = (
    "import sys; from protofed.cli.main import main\n"
    "try: code = main(sys.argv[1:])\n"
    "except SystemExit as end: code = end.code\n"
    "heavy = [name for name in ('torch', 'numpy', 'sklearn', 'scipy') if name in sys.modules]\n"
    "sys.stderr.write(f'{code or 0} {heavy}')"
)


def heavy_imports(*argv: str) -> tuple[str, str]:
    """What a command printed; its exit code and the heavy modules that it imported."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, *argv], capture_output=True, text=True, timeout=60)
    return done.stdout, done.stderr


@pytest.mark.parametrize("argv", [["--help"], ["--version"], []])
def test_help_and_version_import_nothing_heavy(argv: list[str]) -> None:
    printed, seen = heavy_imports(*argv)
    assert "protofed" in printed
    assert seen == "0 []"


def test_the_table_lists_what_the_files_declare() -> None:
    """A command that its file does not declare, or under another name, would be a line without a command."""
    parsers = build_parser()[1]
    assert list(parsers) == list(COMMANDS)
    assert all(parser.get_default("function") is not None for parser in parsers.values())


def test_an_unknown_command_is_known_before_anything_is_imported() -> None:
    _, seen = heavy_imports("comprae")
    assert "did you mean compare?" in seen or "compare" in seen
    assert seen.endswith("2 []")
