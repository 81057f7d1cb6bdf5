"""What the pages say can be typed: Python is run, commands are parsed by the real parser or carried out."""

from __future__ import annotations

import contextlib
import io
import linecache
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from snippets import REPO, Block, inline_commands, read_blocks, written_pages

from protofed.cli.main import main
from protofed.cli.parser import UsageError, make_parser
from protofed.config import Config, resolve
from protofed.core.algorithm import methods
from protofed.core.errors import ConfigError
from protofed.core.registry import Registry
from protofed.data import partitions, sources
from protofed.data.specs import parse_source
from protofed.models.base import families
from protofed.models.groups import read_members

PAGES = {path.relative_to(REPO).as_posix(): path.read_text() for path in written_pages()}
BLOCKS = {page: read_blocks(text, page) for page, text in PAGES.items()}
ACTIVE = [page for page, blocks in BLOCKS.items() if any(_b.kind == "python" or _b.marker for _b in blocks)]
ACTIVE.remove("README.md")  # run by tests/test_api.py


@pytest.fixture(autouse=True)
def _registries_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a page registers is gone after it."""
    registries: list[Registry[Any]] = [methods, sources, partitions, families]
    for registry in registries:
        monkeypatch.setattr(registry, "_classes", dict(registry._filled()))


@pytest.mark.parametrize("page", ACTIVE)
def test_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader who types everything on a page, from top to bottom in one folder, gets no error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PROTOFED_CACHE", str(tmp_path / "cache"))
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)  # dataclasses look their module up
    try:
        done = sum(_carry_out(block, vars(module)) for block in BLOCKS[page])
    finally:
        for block in BLOCKS[page]:  # files that the page wrote and imported
            sys.modules.pop(Path(block.title).stem, None)
    assert done or all(block.skipped for block in BLOCKS[page])


def _carry_out(block: Block, names: dict[str, Any]) -> int:
    """How many things of the block were done."""
    if block.skipped:
        assert "," in block.marker, f"{block.where}: a skipped block needs a reason"
        return 0
    if block.title:
        Path(block.title).write_text(block.text)
        return 1
    if block.kind == "python":
        return _run_python(block, names)
    if block.marker == "run":
        for words in block.commands:
            _run_command(block, with_few_rounds(words))
        return len(block.commands)
    return 0


def _run_python(block: Block, names: dict[str, Any]) -> int:
    """Run under the page's name, so that errors show the line of the page."""
    text = "\n" * (block.line - 1) + block.text
    linecache.cache[block.page] = (len(text), None, text.splitlines(keepends=True), block.page)
    exec(compile(text, block.page, "exec"), names)
    return 1


def with_few_rounds(words: list[str]) -> list[str]:
    """The same command with two rounds (a resumed run goes on to three): enough to see that it works."""
    after, few = ["", *words], "3" if words[0] == "resume" else "2"
    return [few if before == "--rounds" else word for before, word in zip(after, words)]


def _run_command(block: Block, words: list[str]) -> None:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(words)
        except SystemExit as end:  # after --help
            code = int(end.code or 0)
    assert code == 0, f"{block.where}: protofed {' '.join(words)}\n{err.getvalue()}"
    assert out.getvalue() or err.getvalue()


@pytest.mark.parametrize("page", [page for page in PAGES if "protofed " in PAGES[page]])
def test_commands_are_right(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command, carried out or not, has only options that exist, with possible values."""
    monkeypatch.chdir(tmp_path)
    for block in BLOCKS[page]:
        if block.title:
            Path(block.title).write_text(block.text)
    commands = [words for block in BLOCKS[page] if not block.skipped for words in block.commands]
    for words in commands + inline_commands(PAGES[page]):
        check_command(words, page)


def check_command(words: list[str], page: str) -> None:
    words = words if len(words) > 1 else [*words, "--help"]  # a command's name alone: it must exist
    try:
        _, args = make_parser(words)
    except SystemExit:  # after printing the help
        assert "--help" in words, f"{page}: protofed {' '.join(words)}"
        return
    except UsageError as error:
        pytest.fail(f"{page}: protofed {' '.join(words)}: {error}")
    given = {key.removeprefix("setting:"): value for key, value in vars(args).items() if ":" in key}
    options = {
        key.removeprefix("option:"): given.pop(key) for key in list(given) if key.startswith("option:")
    }
    target = getattr(args, "target", None)
    if target in methods:
        given["method"] = target
        given["options"] = options
    _check_specs(resolve(given))


def _check_specs(config: Config) -> None:
    """Names and options of data, partition and models."""
    parse_source(config.data)
    partitions.make(config.partition)
    read_members(config.models)


def test_wrong_option_is_found() -> None:
    """The checks above can fail."""
    for words in (["run", "fedproto", "--lamda", "1"], ["run", "fedproto", "--partition", "nway:m=3"]):
        with pytest.raises((pytest.fail.Exception, ConfigError)):
            check_command(words, "here")


def test_blocks_are_read() -> None:
    """Marker, title, line and kind of a block; a continued command is one command."""
    text = "A\n\n<!-- test: skip, slow -->\n```sh\nprotofed run \\\n  local  # why\n```\n"
    text += '```python title="a.py"\nx\n```\n'
    first, second = read_blocks(text, "page.md")
    assert first.skipped
    assert first.commands == [["run", "local"]]
    assert first.line == 5
    assert with_few_rounds(["run", "--rounds", "20", "x"]) == ["run", "--rounds", "2", "x"]
    assert (second.kind, second.title, second.text) == ("python", "a.py", "x\n")
    assert inline_commands("`protofed run local`, `protofed run METHOD`") == [["run", "local"], ["run"]]
