"""What is made from the code: parts of pages, called there by `<!-- made: NAME -->`, and a page a method."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from protofed import experiment as _registers_everything  # noqa: F401
from protofed.core.algorithm import methods
from protofed.data import partitions, sources
from protofed.models.base import families
from protofed.trust.attacks._base import attacks
from protofed.trust.defences._base import defences
from protofed.trust.levels import levels

from .commands import commands, settings
from .examples import Seen, play
from .methods import method_page, overview
from .python import python, python_method
from .recipes import recipe_form, recipes
from .registries import entries, groups, options_of_each

_RESULTS = Path(__file__).parents[1] / "results"


@cache
def examples() -> dict[str, Seen]:
    """Made once: `mkdocs serve` builds often."""
    return {name: play(name) for name in methods}


def results() -> str:
    """A list of whatever lies in docs/results."""
    titles = {path.name: path.read_text().partition("\n")[0] for path in sorted(_RESULTS.glob("*.md"))}
    return "\n".join(f"- [{t.removeprefix('# ')}]({n})" for n, t in titles.items() if n != "index.md")


PARTS: dict[str, Callable[[], str]] = {
    "commands": commands,
    "settings": settings,
    "data": lambda: entries(sources),
    "partitions": lambda: entries(partitions),
    "models": lambda: entries(families),
    "groups": groups,
    "attacks": lambda: entries(attacks, "###"),
    "defences": lambda: entries(defences, "###"),
    "levels": lambda: options_of_each(levels),
    "recipes": recipes,
    "recipe_form": recipe_form,
    "methods": lambda: overview(examples()),
    "results": results,
    "python": python,
    "python_method": python_method,
}


def filled(text: str) -> str:
    """A page with the parts that it leaves to the code."""
    return re.sub(r"<!-- made: (\w+) -->", lambda found: PARTS[found[1]](), text)


def method_pages() -> dict[str, str]:
    """Place in the site to Markdown."""
    return {f"methods/{name}.md": method_page(name, seen) for name, seen in examples().items()}
