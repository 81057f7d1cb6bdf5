"""Markdown from Python: templates, tables, docstrings, options."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader

from protofed.core.options import OptionInfo, options_of

from .formulas import with_formulas, with_symbols


def render(template: str, **values: Any) -> str:
    """A template of this folder, filled in."""
    made = Environment(loader=FileSystemLoader(Path(__file__).parent), trim_blocks=True, lstrip_blocks=True)
    for function in (prose, with_formulas, with_symbols, source_file, shown_value, count):
        made.filters[function.__name__] = function
    return made.get_template(template).render(values) + "\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> str:
    """A table; the columns numbered in `right` hold numbers."""
    rule = ["---:" if i in right else "---" for i in range(len(header))]
    lines = [header, rule, *([_cell(text) for text in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _cell(text: str) -> str:
    """A bar would end the cell, but for one between backquotes."""
    return re.sub(r"(`[^`]*`)|\|", lambda found: found[1] or r"\|", " ".join(text.split()))


def code(text: str) -> str:
    return f"`{text}`"


def count(value: float) -> str:
    """Thousands apart, tenths where there are any."""
    return f"{value:,.1f}".removesuffix(".0")


def prose(text: str) -> str:
    """A docstring as Markdown: lists get the empty line that they need, papers a link."""
    text = re.sub(r"^(?!- |\d+\. | )(.+)\n(?=- |\d+\. )", r"\1\n\n", text, flags=re.MULTILINE)
    paper = r"\b(?:arxiv\.org/abs/|arXiv:)(\d{4}\.\d{4,5})"
    return re.sub(paper, r"[arXiv:\1](https://arxiv.org/abs/\1)", text)


def module_text(cls: type) -> str:
    """The docstring of the module that defines a class."""
    return inspect.getdoc(sys.modules[cls.__module__]) or ""


def source_file(thing: Any) -> str:
    """Where a class, or that of an object, is defined, seen from the root of the repository."""
    return code(thing.__module__.replace(".", "/") + ".py")


def shown_value(value: Any) -> str:
    """A default as it is written on the command line."""
    if value is dataclasses.MISSING:
        return "must be given"
    if value in (None, "", ()):
        return "none"
    text = "+".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return code(text.lower() if isinstance(value, bool) else text)


def options_table(cls: type, skip: Sequence[str] = ()) -> str:
    """Name, default and meaning of every option; empty if there is none."""
    infos = [info for info in options_of(cls) if info.name not in skip]
    rows = [[code(info.name), shown_value(info.default), _meaning(info)] for info in infos]
    return table(["option", "default", "meaning"], rows) if rows else ""


def _meaning(info: OptionInfo) -> str:
    choices = ", ".join(map(code, filter(None, info.choices or ())))
    return f"{info.help}. One of {choices}." if choices else info.help
