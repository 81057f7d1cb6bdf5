"""Completion: what can stand next, asked as the scripts of the shells ask."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from small_run import Call

from protofed.cli.commands import COMMANDS
from protofed.cli.completion import SCRIPTS, complete


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["sh"], ["show"]),
        ([""], sorted([*COMMANDS, "--help", "--version"])),
        (["list", ""], ["attacks", "data", "defences", "methods", "models", "partitions"]),
        (["list", "methods", "fedprot"], ["fedproto", "fedproto_margin"]),
        (["run", "fedprot"], ["fedproto", "fedproto_margin"]),
        (["compare", "local", "fedprox"], ["fedprox"]),
        (["run", "fedproto", "--lam"], ["--lam"]),
        (["run", "--data", "digits"], ["digits"]),
        (["run", "--models", "htfe9"], ["htfe9"]),
        (["show", "--j"], ["--json"]),
        (["deploy", "in"], ["init"]),
        (["deploy", "init", "--own"], ["--own-keys"]),
        (["completion", "z"], ["zsh"]),
        (["no_such", ""], []),
    ],
)
def test_words(line: list[str], expected: list[str]) -> None:
    assert complete(line) == expected


@pytest.mark.parametrize("shell", SCRIPTS)
def test_scripts_are_printed(call: Call, shell: str) -> None:
    got = call("completion", shell)
    assert (got.code, got.err) == (0, "")
    assert "protofed completion --words --" in got.out


def test_another_shell_is_refused(call: Call) -> None:
    got = call("completion", "csh")
    assert (got.code, got.out) == (2, "")
    assert "expected one of bash, zsh, fish, got 'csh'" in got.err


def test_files_of_the_line_are_not_run(call: Call, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("open('was_run', 'w')\nclass Mine: ...\n")
    for line in (["run", "--import", "mine.py", "--dat"], ["run", "mine.py:Mine", "--dat"]):
        assert "--data\n" in call("completion", "--words", "--", *line).out
    assert not Path("was_run").exists()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes(tmp_path: Path) -> None:
    """As TAB does after `protofed list me`."""
    program = tmp_path / "protofed"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m protofed "$@"\n')
    program.chmod(0o755)
    typed = 'COMP_WORDS=(protofed list me); COMP_CWORD=2; _protofed; echo "${COMPREPLY[@]}"'
    done = subprocess.run(
        ["bash", "-c", f'eval "$(protofed completion bash)"; {typed}'],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("methods\n", "")
