"""Markdown from Python: tables, docstrings, options."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from protofed.core.options import OptionInfo, options_of

_LIST_ITEM = re.compile(r"^(- |\d+\. )")
_ARXIV = re.compile(r"\b(?:arxiv\.org/abs/|arXiv:)(\d{4}\.\d{4,5})")


def table(header: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> str:
    """A table; the columns numbered in `right` hold numbers."""
    rule = ["---:" if i in right else "---" for i in range(len(header))]
    lines = [header, rule, *([_cell(text) for text in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _cell(text: str) -> str:
    """A bar would end the cell, but for one between backquotes."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
    return "".join(parts)


def code(text: str) -> str:
    return f"`{text}`"


def prose(text: str) -> str:
    """A docstring as Markdown: lists get the empty line that they need, papers a link."""
    lines: list[str] = []
    for line in text.split("\n"):
        before = lines[-1] if lines else ""
        inside_list = _LIST_ITEM.match(before) or before.startswith(" ")
        if _LIST_ITEM.match(line) and before and not inside_list:
            lines.append("")
        lines.append(line)
    return with_links("\n".join(lines))


def with_links(text: str) -> str:
    return _ARXIV.sub(r"[arXiv:\1](https://arxiv.org/abs/\1)", text)


def module_text(cls: type) -> str:
    """The docstring of the module that defines a class."""
    source = Path(sys.modules[cls.__module__].__file__ or "").read_text()
    return ast.get_docstring(ast.parse(source)) or ""


def source_file(cls: type) -> str:
    """Where a class is defined, seen from the root of the repository."""
    return cls.__module__.replace(".", "/") + ".py"


def shown_value(value: Any) -> str:
    """A default as it is written on the command line."""
    if isinstance(value, bool):
        return code(str(value).lower())
    if isinstance(value, tuple):
        return code("+".join(map(str, value))) if value else "none"
    return "none" if value in (None, "") else code(str(value))


def options_table(cls: type, skip: Sequence[str] = ()) -> str:
    """Name, default and meaning of every option; empty if there is none."""
    infos = [info for info in options_of(cls) if info.name not in skip]
    if not infos:
        return ""
    rows = [[code(info.name), shown_value(info.default), _meaning(info)] for info in infos]
    return table(["option", "default", "meaning"], rows)


def _meaning(info: OptionInfo) -> str:
    choices = ", ".join(code(choice) for choice in info.choices or ())
    return f"{info.help}. One of {choices}." if choices else info.help
