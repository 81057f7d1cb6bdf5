"""Code blocks of Markdown pages, with what their marker says.

A marker is an HTML comment on the line before a block:

    <!-- test: run -->             the commands of a shell block are carried out, with two rounds
    <!-- test: skip, REASON -->    nothing is done with the block

Without a marker Python blocks are run, and commands of shell blocks are parsed. A block with a title is
written to a file of that name, for the blocks after it.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

REPO = Path(__file__).parents[2]
DOCS = REPO / "docs"
_BLOCK = re.compile(
    r"(?:<!-- test: (?P<marker>.*?) -->\n)?"
    r"^(?P<indent> *)```(?P<info>\w*)(?P<title>[^\n]*)\n(?P<text>.*?)^ *```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """One block. `line` is that of its first line of code."""

    page: str
    line: int
    kind: str
    text: str
    marker: str = ""
    title: str = ""

    @property
    def skipped(self) -> bool:
        return self.marker.startswith("skip")

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> list[list[str]]:
        """The words of every `protofed` command, without the program's name."""
        if self.kind != "sh":
            return []
        lines = self.text.replace("\\\n", " ").split("\n")
        words = [shlex.split(line, comments=True) for line in lines]
        return [line[1:] for line in words if line and line[0] == "protofed"]


def read_blocks(text: str, page: str) -> list[Block]:
    return [_block(found, text, page) for found in _BLOCK.finditer(text)]


def _block(found: re.Match[str], text: str, page: str) -> Block:
    title = re.search(r'title="([^"]+)"', found["title"])
    code = re.sub(f"^{found['indent']}", "", found["text"], flags=re.MULTILINE)
    line = text.count("\n", 0, found.start("text")) + 1
    return Block(page, line, found["info"], code, found["marker"] or "", title[1] if title else "")


def written_pages() -> list[Path]:
    """All pages in docs/, and the two at the top of the repository."""
    return [REPO / "README.md", REPO / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


def inline_commands(text: str) -> list[list[str]]:
    """Commands between backquotes in running text; of those with a placeholder (dots, RUN) the name alone."""
    prose = _BLOCK.sub("", text)
    commands = [shlex.split(found) for found in re.findall(r"`protofed ([a-z][^`\n]*)`", prose)]
    return [words[:1] if _is_open(words) else words for words in commands]


def _is_open(words: list[str]) -> bool:
    return any("…" in word or "..." in word or re.fullmatch(r"[A-Z]{2,}", word) for word in words)
