"""Ctrl-C while modules are imported, and folders that cannot be written: a line, never a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from refusals import Call, assert_refused

AT_IMPORT = """
import sys
class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            {act}
sys.meta_path.insert(0, Stop())
from protofed.cli.main import main
sys.exit(main(["run", "local"]))
"""
ENOUGH = "import sys, protofed.cli.main; print([name for name in {heavy!r} if name in sys.modules])"


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


@pytest.mark.parametrize("name", ["protofed.cli.stop", "rich.console", "protofed.cli.parser", "torch"])
@pytest.mark.parametrize("act", ["raise KeyboardInterrupt", "import os; os.kill(os.getpid(), 2); 1 / 0"])
def test_ctrl_c_while_importing(name: str, act: str) -> None:
    """Also where a module makes an error of its own of it."""
    if name == "protofed.cli.stop" and "kill" in act:
        pytest.skip("the handler of protofed is not there yet: Python's own raises KeyboardInterrupt")
    found = python(AT_IMPORT.format(name=name, act=act))
    assert (found.returncode, found.stdout) == (130, "")
    assert found.stderr == "\nprotofed: interrupted\n"


def test_nothing_heavy_comes_before_the_guard() -> None:
    heavy = ["torch", "numpy", "rich", "argparse", "protofed.core.errors"]
    before = python(f"import sys; print([name for name in {heavy!r} if name in sys.modules])")
    assert python(ENOUGH.format(heavy=heavy)).stdout == before.stdout


COMMANDS = (
    ("deploy", "init", "{}/f", "--clients", "a,b", "--insecure"),
    ("partition", "iid", "--clients", "2", "--pfllib", "{}/p"),
)


@pytest.mark.parametrize("argv", COMMANDS)
def test_a_folder_below_a_file(call: Call, argv: tuple[str, ...]) -> None:
    Path("file").write_text("")
    got = call(*(word.format("file") for word in argv))
    assert_refused(got._replace(out=""), "cannot use file/", "Not a directory", code=1)


@pytest.mark.parametrize("argv", COMMANDS)
def test_a_folder_that_may_not_be_written(
    call: Call, argv: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may write everywhere: the refusal of the system is played."""
    make = Path.mkdir

    def mkdir(self: Path, *args: object, **more: object) -> None:
        if str(self).startswith("locked"):
            raise PermissionError(13, "Permission denied", str(self))
        make(self, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "mkdir", mkdir)
    got = call(*(word.format("locked") for word in argv))
    assert_refused(got._replace(out=""), "cannot use locked", "Permission denied", code=1)
