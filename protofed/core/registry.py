"""Registries: named, documented classes with options. One each for methods, sources, partitions, models.

A class gets in by registration, by an entry point of an installed package, or by being named with its file:
`my_method.py:FedMedian`.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint
from pkgutil import iter_modules
from typing import Any, Generic, TypeVar

from .errors import ConfigError, unknown
from .options import build, parse_spec
from .plugins import load_plugin, origin, plugins
from .user_files import PREFIX, is_form, load_file, load_named, refuse_nameless, split_form

T = TypeVar("T")
_registries: list[Registry[Any]] = []


class Registry(Generic[T]):
    """Names to frozen dataclasses. `make("nway:n=3")` builds one from its written form.

    `base` is what all classes derive from, and `group` that of the entry points. With `files`, a class may be
    named as FILE.py:CLASS. `home` is the package whose import registers the built-in classes: it is imported
    when the registry is first asked.
    """

    def __init__(
        self, kind: str, base: type | None = None, group: str = "", files: bool = False, home: str = ""
    ):
        self.kind = kind
        self.base = base
        self.group = group
        self.files = files
        self.home = home
        self._classes: dict[str, type[T]] = {}
        self._entered: dict[str, dict[str, type[T]]] = {}  # by module, then by name
        _registries.append(self)

    def register(self, name: str) -> Callable[[type[T]], type[T]]:
        """A decorator that enters a class under this name."""

        def add(cls: type[T]) -> type[T]:
            known = self._classes.get(name)
            if known is not None and not _same(known, cls):
                raise ConfigError(
                    f"{self.kind} {name!r} is registered twice: by {_place(known)} and by {_place(cls)}; "
                    "choose another name"
                )
            self._classes[name] = cls
            self._entered.setdefault(cls.__module__, {})[name] = cls
            cls.name = name  # type: ignore[attr-defined]
            return cls

        return add

    def _filled(self) -> dict[str, type[T]]:
        if self.home:
            import_module(self.home)
        return self._classes

    def __getitem__(self, name: str) -> type[T]:
        self._filled()
        point = plugins(self.group).get(name) if self.group else None
        if point is not None:
            return self._from_package(name, point)
        if name in self._classes:
            return self._classes[name]
        if self.files and is_form(name):
            return self.from_file(name)
        if self.files and name.endswith(".py"):
            refuse_nameless(name, f"{self.kind} {name}", self._what, self._fits)
        raise ConfigError(unknown(self.kind, name, self))

    def __contains__(self, name: object) -> bool:
        """Whether it can be asked for. A file is not opened for that."""
        if not isinstance(name, str):
            return False
        known = name in self._filled() or (self.files and (is_form(name) or name.endswith(".py")))
        return known or (bool(self.group) and name in plugins(self.group))

    def __iter__(self) -> Iterator[str]:
        outside = plugins(self.group) if self.group else {}
        return iter(sorted({*self._filled(), *outside}))

    def enter_again(self, module: str) -> None:
        """What a module registered holds again, also where a copy of its file has taken its place since."""
        self._classes.update(self._entered.get(module, {}))

    def from_file(self, form: str) -> type[T]:
        """The class of FILE.py:CLASS. It goes by the name of the class."""
        where, options = f"{self.kind} {form}", split_form(form)[2]
        if options:
            raise ConfigError(f"{where}: options cannot stand here; give them apart: {options}")
        found: type[T] = load_named(form, where, self._what, self._fits)
        self._check(found, where)
        if self._filled().get(found.__name__, found) is not found:
            raise ConfigError(f"{where}: there is a built-in {self.kind} of that name; rename the class")
        return found

    def _from_package(self, name: str, point: EntryPoint) -> type[T]:
        known, where = self._classes.get(name), f"{self.kind} {name!r} of {origin(point)}"
        if known is not None and f"{known.__module__}:{known.__qualname__}" == point.value:
            return known
        if known is not None:
            raise ConfigError(f"{where}: there is a built-in {self.kind} of that name; remove the package")
        found = load_plugin(point, self.kind)
        self._check(found, where)
        return self.register(name)(found)

    def make(self, spec: str, extra: Mapping[str, Any] | None = None) -> T:
        """Build from "name:key=value,…"; `extra` adds or overrides options."""
        name, options = parse_spec(spec)
        return build(self[name], {**options, **(extra or {})}, f"{self.kind} {name}")

    def summary(self, name: str) -> str:
        """First line of the class's docstring."""
        doc = inspect.getdoc(self[name]) or ""
        return doc.split("\n", 1)[0]

    @property
    def _what(self) -> str:
        return f"classes that derive from {self.base.__name__ if self.base else 'object'}"

    def _fits(self, found: Any) -> bool:
        base = self.base or object
        return inspect.isclass(found) and issubclass(found, base) and found is not base

    def _check(self, found: Any, where: str) -> None:
        if not self._fits(found):
            raise ConfigError(f"{where}: {found!r} is none of the {self._what}")
        parameters = vars(found).get("__dataclass_params__")
        if not dataclasses.is_dataclass(found) or parameters is None or not parameters.frozen:
            line = _line(found)
            raise ConfigError(f"{where}: write @dataclass(frozen=True) above class {found.__name__}{line}")


def import_all(package: str, path: Iterable[str]) -> None:
    """Import the modules of a package, so that they register themselves; not those that start with "_"."""
    for module in iter_modules(path):
        if not module.name.startswith("_"):
            import_module(f"{package}.{module.name}")


def import_file(written: str, where: str) -> None:
    """Run a file of the user's for what it registers."""
    module = load_file(written, where).module.__name__
    for registry in _registries:
        registry.enter_again(module)


def _line(cls: type) -> str:
    try:
        return f" (line {inspect.getsourcelines(cls)[1]})"
    except (OSError, TypeError):  # no source: a class made at run time
        return ""


def _same(one: type, two: type) -> bool:
    """One class, also when its file was run anew or imported under another name, or is the copy of a run."""
    files = _file(one), _file(two)
    copied = all(cls.__module__.startswith(PREFIX) for cls in (one, two))
    alike = copied and len({os.path.basename(file or "") for file in files}) == 1
    same_file = files[0] is not None and files[0] == files[1]
    return one is two or (one.__qualname__ == two.__qualname__ and (same_file or alike))


def _file(cls: type) -> str | None:
    return getattr(sys.modules.get(cls.__module__), "__file__", None)


def _place(cls: type) -> str:
    return f"{cls.__qualname__} in {_file(cls) or cls.__module__}"
