"""Options: frozen dataclasses whose fields carry their help, choices and range.

Methods, partitioners, model families and the run settings are all declared this way, so that
`--help`, validation and the resolved configuration come from one place.

    @dataclass(frozen=True)
    class Mix:
        beta: float = option(0.1, "concentration; small means few classes per client", above=0)
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from .errors import ConfigError, unknown
from .user_files import is_form, split_form

T = TypeVar("T")


def option(
    default: Any,
    help: str,
    *,
    choices: Sequence[str] | None = None,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    below: float | None = None,
) -> Any:
    """A dataclass field with its help. `low` and `high` are inclusive, `above` and `below` exclusive."""
    limits = {"low": low, "high": high, "above": above, "below": below}
    metadata = {"help": help, "choices": choices, **limits}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=lambda: dict(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True)
class OptionInfo:
    """One option as `--help` and the docs show it."""

    name: str
    type: Any
    default: Any
    help: str
    choices: Sequence[str] | None

    @property
    def type_name(self) -> str:
        """The type as a reader writes it: "int", "float | None"."""
        return getattr(self.type, "__name__", str(self.type)).replace("NoneType", "None")


def options_of(cls: type) -> list[OptionInfo]:
    """The options of a dataclass in the order of their declaration, inherited ones last."""
    hints = typing.get_type_hints(cls)
    found = []
    own = cls.__dict__.get("__annotations__", {})
    for field in sorted(dataclasses.fields(cls), key=lambda field: field.name not in own):
        default = field.default
        if default is dataclasses.MISSING and field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        meta = field.metadata
        found.append(
            OptionInfo(field.name, hints[field.name], default, meta.get("help", ""), meta.get("choices"))
        )
    return found


def build(cls: type[T], values: Mapping[str, Any], where: str) -> T:
    """Make `cls` from plain values (strings from the command line, or typed ones from TOML).

    Unknown names, wrong types, values outside the choices or the range raise ConfigError, with
    `where` (say "method fedproto") in front.
    """
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    hints = typing.get_type_hints(cls)
    made: dict[str, Any] = {}
    for name, value in values.items():
        key = name.replace("-", "_")
        if key not in fields:
            meant = getattr(cls, "also_called", {}).get(key)
            hint = (
                f"unknown option {name!r}; did you mean {meant!r}?"
                if meant
                else unknown("option", name, fields)
            )
            raise ConfigError(f"{where}: {hint}")
        made[key] = _convert(value, hints[key], f"{where}: {key}")
        _check(made[key], fields[key].metadata, f"{where}: {key}")
    for name, field in fields.items():
        missing = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if name not in made and missing:
            raise ConfigError(f"{where}: option {name!r} must be given ({field.metadata.get('help', '')})")
    return cls(**made)


def parse_spec(text: str) -> tuple[str, dict[str, str]]:
    """Split "name:key=value,key=value" into the name and its options. The name may be FILE.py:CLASS.

    >>> parse_spec("nway:n=3,k=100")
    ('nway', {'n': '3', 'k': '100'})
    """
    if is_form(text):
        file, inside, rest = split_form(text)
        name = f"{file}:{inside}"
    else:
        name, _, rest = text.partition(":")
    options: dict[str, str] = {}
    for part in filter(None, (p.strip() for p in rest.split(","))):
        key, equals, value = part.partition("=")
        if not equals:
            raise ConfigError(f"{text!r}: expected key=value after the colon, got {part!r}")
        options[key.strip()] = value.strip()
    return name.strip(), options


def _convert(value: Any, hint: Any, where: str) -> Any:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        inner = [a for a in typing.get_args(hint) if a is not type(None)]
        empty = value is None or (isinstance(value, str) and value.lower() in ("none", ""))
        if empty and type(None) in typing.get_args(hint):
            return None
        for candidate in inner:
            try:
                return _convert(value, candidate, where)
            except ConfigError:
                if candidate is inner[-1]:
                    raise
    if hint is Any or (dataclasses.is_dataclass(hint) and isinstance(value, hint)):  # type: ignore[arg-type]
        return value
    if origin in (dict, Mapping) or hint is dict:
        if not isinstance(value, Mapping):
            raise ConfigError(f"{where}: expected a table of options, got {value!r}")
        return dict(value)
    if origin is tuple:
        item = typing.get_args(hint)[0]
        if not isinstance(value, str | list | tuple):
            raise ConfigError(f"{where}: expected a list, got {value!r}")
        parts = [p for p in value.split("+") if p] if isinstance(value, str) else list(value)
        return tuple(_convert(p, item, where) for p in parts)
    if hint is bool:
        return _boolean(value, where)
    if hint is int and not isinstance(value, bool):
        return _integer(value, where)
    if hint is float and not isinstance(value, bool):
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):
            pass
    if hint is str and isinstance(value, str):
        return value
    plain = {int: "a whole number", float: "a number", str: "text"}
    name = plain.get(hint, getattr(hint, "__name__", str(hint)))
    raise ConfigError(f"{where}: expected {name}, got {value!r}")


def _boolean(value: Any, where: str) -> bool:
    words = {"true": True, "yes": True, "1": True, "on": True}
    words |= {"false": False, "no": False, "0": False, "off": False}
    if isinstance(value, bool):
        return value
    if str(value).lower() in words:
        return words[str(value).lower()]
    raise ConfigError(f"{where}: expected true or false, got {value!r}")


def _integer(value: Any, where: str) -> int:
    try:
        number = int(value)
        if float(value) == number:
            return number
    except (TypeError, ValueError, OverflowError):
        pass
    raise ConfigError(f"{where}: expected a whole number, got {value!r}")


def _check(value: Any, meta: Mapping[str, Any], where: str) -> None:
    if value is None:
        return
    choices = meta.get("choices")
    if choices is not None and value not in choices:
        raise ConfigError(f"{where}: {unknown('value', str(value), choices)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{where}: must be a finite number, got {value}")
    if (low := meta.get("low")) is not None and value < low:
        raise ConfigError(f"{where}: must be at least {low}, got {value}")
    if (high := meta.get("high")) is not None and value > high:
        raise ConfigError(f"{where}: must be at most {high}, got {value}")
    if (above := meta.get("above")) is not None and value <= above:
        raise ConfigError(f"{where}: must be greater than {above}, got {value}")
    if (below := meta.get("below")) is not None and value >= below:
        raise ConfigError(f"{where}: must be less than {below}, got {value}")
