"""Pages about data sets, partitioners and models, made from their registries."""

from __future__ import annotations

from typing import Any

from protofed.core.registry import Registry
from protofed.data import partitions, sources
from protofed.models.base import families
from protofed.models.describe import describe_groups

from .markdown import code, module_text, options_table, prose, source_file, table

DATA = """# Data sets

`--data NAME`, or `--data NAME:option=value,option=value`. `protofed list data` prints the names. `digits`
and `synthetic` need no file. The papers' sets are read from the folder that the environment variable
`PROTOFED_DATA` names. See also [your own data](../own/data.md) and [data and partitions](../data.md).

"""
PARTITIONS = """# Partitioners

`--partition NAME:option=value,…` says how a data set is divided among the clients. `protofed partition` shows
the result before anything is trained:

```sh
protofed partition dirichlet:beta=0.5 --clients 5
```

"""
MODELS = """# Models

`--models` says which client gets which network:

| written | meaning |
| --- | --- |
| `small_cnn` | all clients have this one |
| `small_cnn:width=8` | with options |
| `small_cnn:width=8|small_cnn|mlp` | client i gets member i mod 3 |
| `small_cnn|mlp@blocks` | the first half of the clients the first member, the rest the second |
| `small_cnn|mlp@0,1,1` | one member number for each client |
| `htfe8`, `htfe8:dim=256` | a named group, with options for all its members |

`protofed list models` prints parameters and multiply-adds of each. A network of your own:
[your own model](../own/model.md). At the end of this page stand the [groups](#groups) that papers use.

"""


def data_page() -> str:
    return DATA + _entries(sources)


def partitions_page() -> str:
    return PARTITIONS + _entries(partitions)


def models_page() -> str:
    rows = [[code(name), g.help, _members(g.members), g.rule] for name, g in describe_groups()]
    groups = table(["group", "what it is", "members", "rule"], rows)
    rule = (
        "Rule `mod`: client i gets member i mod the number of members; `blocks`: neighbours get the same.\n\n"
    )
    return f"{MODELS}{_entries(families)}\n## Groups\n\n{rule}{groups}"


def _members(members: tuple[str, ...]) -> str:
    return ", ".join(code(member) for member in members)


def _entries(registry: Registry[Any]) -> str:
    """A table of all, then a section for each."""
    rows = [[f"[{name}](#{name})", registry.summary(name)] for name in registry]
    sections = [_entry(registry[name], name) for name in registry]
    return "\n".join([table(["name", "what it is"], rows), *sections])


def _entry(cls: type, name: str) -> str:
    parts = [f"## {name}", prose(module_text(cls)), options_table(cls)]
    return "\n\n".join(filter(None, parts)) + f"\n\nSource: {code(source_file(cls))}\n"
