"""A page per method (method.md is its form), and one table of all (overview.md)."""

from __future__ import annotations

import re
from typing import NamedTuple

from protofed.core.algorithm import methods

from .examples import Seen, command
from .markdown import module_text, options_table, render
from .messages import messages_section, sends_prototypes, sent_parts

# Neither is declared by the methods: `aggregate` may do anything, and HeteroFL checks its own groups.
TRAINS_AT_SERVER = ("fedgen", "fedgh", "fedtgp")
WIDTHS_OF_ONE_MODEL = ("heterofl",)


class Parts(NamedTuple):
    """A module docstring, cut into what the page shows."""

    title: str
    idea: str
    paper: str
    how: str
    departures: str


def read_parts(text: str, has_paper: bool) -> Parts:
    """Title and idea; the citation; how it works; and, from their heading on, the departures."""
    first, *paragraphs = text.split("\n\n")
    title, _, idea = " ".join(first.split()).partition(": ")
    paper = " ".join(paragraphs.pop(0).split()) if has_paper else ""
    heading = re.compile(r"(Departures|Choices)\b[^:]*:\s*")
    start = next((i for i, p in enumerate(paragraphs) if heading.match(p)), len(paragraphs))
    rest = heading.sub("", "\n\n".join(paragraphs[start:]), count=1)
    how = "\n\n".join(paragraphs[:start])
    return Parts(title, idea[:1].upper() + idea[1:], paper, how, rest[:1].upper() + rest[1:])


def method_parts(name: str) -> Parts:
    return read_parts(module_text(methods[name]), bool(methods[name].paper))


def method_page(name: str, seen: Seen) -> str:
    cls = methods[name]
    values = {"method": cls(), "parts": method_parts(name), "options": options_table(cls)}
    return render("method.md", seen=seen, command=command(name), messages=messages_section(seen), **values)


def overview(examples: dict[str, Seen]) -> str:
    """A table of all methods, one a line."""
    rows = [
        (
            name,
            method_parts(name).title,
            methods[name]().needs,
            sends_prototypes(seen),
            sent_parts(seen),
            seen,
        )
        for name, seen in examples.items()
    ]
    return render("overview.md", rows=rows, train=TRAINS_AT_SERVER, widths=WIDTHS_OF_ONE_MODEL)
