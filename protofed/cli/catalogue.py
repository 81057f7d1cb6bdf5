"""What there is, read from the text of the sources: names and lines without importing torch.

Classes of other packages and of the user's files are not in that text: where there are any, the registries
are asked, which import everything. A test holds that both ways tell the same.
"""

from __future__ import annotations

import ast
import runpy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.errors import ConfigError
from ..core.plugins import plugins
from ..core.registry import Registry

PACKAGE = Path(__file__).parents[1]
KINDS = {  # kind → folder of its files, name of its registry there, and group of entry points
    "methods": ("algorithms", "methods", "protofed.methods"),
    "data": ("data/source", "sources", "protofed.sources"),
    "partitions": ("data/partition", "partitions", "protofed.partitions"),
    "models": ("models", "families", "protofed.models"),
    "attacks": ("trust/attacks", "attacks", "protofed.attacks"),
    "defences": ("trust/defences", "defences", "protofed.defences"),
}
PRESETS = ("default", "paper")  # of a method that says nothing of them: see core/algorithm.py


@dataclass(frozen=True)
class Entry:
    """A line of a list. Paper and presets are those of methods."""

    name: str
    summary: str
    paper: str = ""
    presets: tuple[str, ...] = ()

    def as_dict(self, kind: str) -> dict[str, Any]:
        """What the kind has, for JSON."""
        found: dict[str, Any] = {"name": self.name, "summary": self.summary}
        return {**found, "paper": self.paper, "presets": list(self.presets)} if kind == "methods" else found


def catalogue(kind: str, imported: bool = False) -> list[Entry]:
    """All of a kind, by name. `imported`: the user named files which may register more."""
    folder, _, group = KINDS[kind]
    if imported or plugins(group) or not (PACKAGE / folder).is_dir():
        return from_registry(kind)
    return from_sources(kind)


def named_groups() -> dict[str, Any]:
    """Groups of models: their file imports nothing, so it is run without the package around it."""
    found: dict[str, Any] = runpy.run_path(str(PACKAGE / "models" / "named_groups.py"))["named_groups"]
    return dict(sorted(found.items()))


def registry_of(kind: str) -> Registry[Any]:
    """The registry of a kind, filled."""
    from .. import experiment as _registers_everything  # noqa: F401
    from ..core.algorithm import methods
    from ..data import partitions, sources
    from ..models.base import families
    from ..trust.attacks._base import attacks
    from ..trust.defences._base import defences

    known: dict[str, Registry[Any]] = {"methods": methods, "data": sources}
    known |= {"partitions": partitions, "models": families, "attacks": attacks, "defences": defences}
    return known[kind]


def from_registry(kind: str) -> list[Entry]:
    """As the classes say themselves."""
    registry, found = registry_of(kind), []
    for name in registry:
        try:
            summary, cls = registry.summary(name), registry[name]
        except ConfigError as error:  # of another package, which is broken
            found.append(Entry(name, str(error)))
            continue
        more = (cls.paper, tuple(cls.presets)) if kind == "methods" else ()
        found.append(Entry(name, summary, *more))
    return found


def from_sources(kind: str) -> list[Entry]:
    """As the text of the built-in files says."""
    folder, registry, _ = KINDS[kind]
    found = []
    for path in sorted((PACKAGE / folder).glob("[!_]*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                found += [_entry(kind, name, node) for name in _registered(node, registry)]
    return sorted(found, key=lambda entry: entry.name)


def _registered(node: ast.ClassDef, registry: str) -> Iterator[str]:
    """The name in @registry.register("name")."""
    for mark in node.decorator_list:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == f"{registry}.register":
            yield ast.literal_eval(mark.args[0])


def _entry(kind: str, name: str, node: ast.ClassDef) -> Entry:
    summary = (ast.get_docstring(node) or "").split("\n", 1)[0]
    if kind != "methods":
        return Entry(name, summary)
    values = {
        target.id: statement.value
        for statement in node.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    paper = ast.literal_eval(values["paper"]) if "paper" in values else ""
    presets = _keys(values["presets"]) if "presets" in values else PRESETS
    return Entry(name, summary, paper, presets if "default" in presets else ("default", *presets))


def _keys(node: ast.expr) -> tuple[str, ...]:
    """Of {"key": …} or dict.fromkeys(("key", …), …)."""
    if isinstance(node, ast.Dict):
        return tuple(ast.literal_eval(key) for key in node.keys if key is not None)
    assert isinstance(node, ast.Call)
    return tuple(ast.literal_eval(node.args[0]))
