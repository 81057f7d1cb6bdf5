"""Lists of data sets, partitioners, models, attacks, defences, levels of privacy: from their registries."""

from __future__ import annotations

from typing import Any

from protofed.core.registry import Registry
from protofed.models.describe import describe_groups

from .markdown import code, module_text, options_table, prose, source_file, table


def entries(registry: Registry[Any], level: str = "##") -> str:
    """A table of all, then a section for each."""
    rows = [[f"[{name}](#{name})", registry.summary(name)] for name in registry]
    sections = (_entry(registry[name], name, level) for name in registry)
    return "\n".join([table(["name", "what it is"], rows), *sections])


def _entry(cls: type, name: str, level: str) -> str:
    parts = [f"{level} {name}", prose(module_text(cls)), options_table(cls), f"Source: {source_file(cls)}"]
    return "\n\n".join(filter(None, parts)) + "\n"


def options_of_each(registry: Registry[Any]) -> str:
    """What each is in a line, and its options; for those that share a file."""
    parts = [f"**{name}**: {registry.summary(name)}\n\n{options_table(registry[name])}" for name in registry]
    return "\n\n".join(parts)


def groups() -> str:
    """Networks that papers give to their clients."""
    found = describe_groups()
    rows = [[code(name), g.help, ", ".join(map(code, g.members)), g.rule] for name, g in found]
    return table(["group", "what it is", "members", "rule"], rows)
