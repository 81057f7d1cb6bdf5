"""From written forms ("mnist:per_class=100", "npz:PATH", "nway:n=3") to datasets and splits."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..core.errors import ConfigError, unknown
from ..core.options import build, options_of, parse_spec
from ..core.user_files import is_form
from .base import Dataset, Split, partitions, sources
from .check import check_dataset, check_split
from .near_names import name_notes
from .user_source import load_from_file


def load(spec: str, extra: Mapping[str, Any] | None = None) -> Dataset:
    """Open a dataset: a name, "name:key=value,…", "kind:PATH" for kinds that take a path, or FILE.py:NAME.

    After a path, further options may follow: "npz:PATH,per_class=100". `extra` adds options.
    """
    name, options = parse_source(spec)
    if is_form(name):
        return _with_notes(check_dataset(load_from_file(name, {**options, **(extra or {})})))
    return _with_notes(check_dataset(_source(name, {**options, **(extra or {})}).load()))


def check_source(spec: str) -> None:
    """Refuse a misspelt name or option of data, without reading any."""
    name, options = parse_source(spec)
    if not is_form(name):
        _source(name, options)


def _source(name: str, options: Mapping[str, Any]) -> Any:
    return build(sources[name], options, f"data {name}")


def _with_notes(dataset: Dataset) -> Dataset:
    """With what is odd about the names of its classes."""
    return replace(dataset, notes=tuple(dict.fromkeys([*dataset.notes, *name_notes(dataset)])))


def divide(
    spec: str, dataset: Dataset, clients: int, seed: int, extra: Mapping[str, Any] | None = None
) -> Split:
    """Divide a dataset among clients, and check the result.

    `clients=0` means as many as the data names, for partitioners that know (natural, domain, pfllib).
    """
    if clients < 0:
        raise ConfigError(f"partition {spec}: clients must be at least 0, got {clients}")
    partitioner = partitions.make(spec, extra)
    if clients == 0 and not partitioner.counts_clients:
        raise ConfigError(f"partition {spec}: clients must be at least 1, got 0")
    return check_split(partitioner.split(dataset, clients, seed), dataset, f"partition {spec}")


def parse_source(spec: str) -> tuple[str, dict[str, str]]:
    """Split a data spec into its name and options; a path may hold colons, commas and equal signs.

    >>> parse_source("npz:/data/a=b.npz,per_class=5")
    ('npz', {'per_class': '5', 'path': '/data/a=b.npz'})
    """
    if is_form(spec):
        return parse_spec(spec)
    name, _, rest = spec.partition(":")
    name = name.strip()
    cls = sources[name]
    if cls.positional is None:
        return parse_spec(spec)
    names = {info.name for info in options_of(cls)}
    options: dict[str, str] = {}
    while "," in rest or "=" in rest:  # peel known options off the end; what is left is the path
        head, _, last = rest.rpartition(",")
        key, equals, value = last.partition("=")
        if not equals or key.strip().replace("-", "_") not in names:
            break
        options[key.strip()] = value.strip()
        rest = head
    if cls.positional == "path":
        _check_no_option(rest, name, names)
    if rest:
        options[cls.positional] = os.path.expanduser(rest) if cls.positional == "path" else rest
    return name, options


def _check_no_option(path: str, name: str, known: set[str]) -> None:
    """An option that the source does not know looks like a part of the path, unless such a file is there."""
    first, comma, last = os.path.expanduser(path).rpartition(",")
    key, equals, _ = last.partition("=")
    if comma and equals and not os.path.exists(f"{first},{last}") and os.path.exists(first.split(",")[0]):
        raise ConfigError(f"data {name}: {unknown('option', key.strip(), sorted(known))}")
