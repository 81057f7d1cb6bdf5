"""Methods, data sources, partitioners and models of other installed packages, found by their entry points.

    [project.entry-points."protofed.methods"]
    fedmedian = "my_package.fedmedian:FedMedian"

A name is looked up when it is asked for; the package is imported then, and not before.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from .errors import ConfigError
from .user_files import reason


def plugins(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group, by name."""
    return _plugins(group, tuple(sys.path))


def load_plugin(point: EntryPoint, kind: str) -> Any:
    """Import what an entry point names."""
    try:
        return point.load()
    except Exception as error:  # whatever the package raises
        raise ConfigError(
            f"{kind} {point.name!r} of {origin(point)} cannot be loaded: {reason(error)}"
        ) from error


def origin(point: EntryPoint) -> str:
    """The package that brings it, with its version."""
    return f"package {point.dist.name} {point.dist.version}" if point.dist else f"{point.value!r}"


@lru_cache(maxsize=16)
def _plugins(group: str, path: tuple[str, ...]) -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        first = found.setdefault(point.name, point)
        if first.value != point.value:
            raise ConfigError(
                f"two packages bring {point.name!r} for {group}: {origin(first)} and {origin(point)}; "
                "remove one of them"
            )
    return found
