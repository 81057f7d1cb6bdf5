"""Registries: named, documented classes with options. One each for methods, sources, partitions, models."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from .errors import ConfigError, unknown
from .options import build, parse_spec

T = TypeVar("T")


class Registry(Generic[T]):
    """Names to frozen dataclasses. `make("nway:n=3")` builds one from its written form."""

    def __init__(self, kind: str):
        self.kind = kind
        self._classes: dict[str, type[T]] = {}

    def register(self, name: str) -> Callable[[type[T]], type[T]]:
        def add(cls: type[T]) -> type[T]:
            if name in self._classes and self._classes[name] is not cls:
                raise ConfigError(f"{self.kind} {name!r} is registered twice")
            self._classes[name] = cls
            cls.name = name  # type: ignore[attr-defined]
            return cls

        return add

    def __getitem__(self, name: str) -> type[T]:
        if name not in self._classes:
            raise ConfigError(unknown(self.kind, name, self._classes))
        return self._classes[name]

    def __contains__(self, name: str) -> bool:
        return name in self._classes

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._classes))

    def make(self, spec: str, extra: Mapping[str, Any] | None = None) -> T:
        """Build from "name:key=value,…"; `extra` adds or overrides options."""
        name, options = parse_spec(spec)
        return build(self[name], {**options, **(extra or {})}, f"{self.kind} {name}")

    def summary(self, name: str) -> str:
        """First line of the class's docstring."""
        doc = inspect.getdoc(self[name]) or ""
        return doc.split("\n", 1)[0]
