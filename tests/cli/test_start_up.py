"""What answers at once: commands that need no tensor do not import torch, which takes a second or more."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from small_run import Call

from protofed.cli.catalogue import KINDS, catalogue, from_registry, from_sources, named_groups, registry_of
from protofed.cli.commands import COMMANDS
from protofed.cli.parser import build_parser

ONE_OF = {"methods": "fedproto", "data": "digits", "partitions": "nway", "models": "htcnn"}
ONE_OF |= {"attacks": "signflip", "defences": "multikrum"}
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


@pytest.mark.parametrize("more", [[], ["--json"]])
@pytest.mark.parametrize("kind", KINDS)
def test_lists_import_nothing_heavy(kind: str, more: list[str]) -> None:
    printed, seen = heavy_imports("list", kind, *more)
    assert ONE_OF[kind] in printed
    assert seen == "0 []"


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_run_is_shown_without_torch(finished: Callable[..., None], more: list[str]) -> None:
    finished("a")
    printed, seen = heavy_imports("show", "a", *more)
    assert "gp_all" in printed
    assert seen == "0 []"


@pytest.mark.parametrize("kind", KINDS)
def test_the_text_of_the_sources_says_what_the_classes_say(kind: str) -> None:
    found = from_sources(kind)
    assert found == from_registry(kind)
    assert KINDS[kind][2] == registry_of(kind).group


def test_groups_of_models_are_those_of_the_package() -> None:
    from protofed.models.named_groups import named_groups as real

    assert {name: group.members for name, group in named_groups().items()} == {
        name: real[name].members for name in sorted(real)
    }


def test_a_file_of_the_user_is_in_the_list(call: Call, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\nfrom protofed.data import Partitioner, partitions\n"
        '@partitions.register("by_hand")\n@dataclass(frozen=True)\nclass ByHand(Partitioner):\n'
        '    """Divided by hand."""\n    def split(self, *rest): ...\n'
    )
    assert "by_hand" not in [entry.name for entry in catalogue("partitions")]
    got = call("list", "partitions", "--import", str(tmp_path / "mine.py"))
    assert "Divided by hand." in got.out
