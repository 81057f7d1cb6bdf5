"""The one reader of what comes from outside: other machines, and files that others may have written.

Everything is asked for by name, with its type and its bounds, and the bounds are looked at before anything is
built. What does not keep to them raises MessageError, in one short line; what nobody thought of is made
one by `reading`. Messages: flower/codec.py and messages.py; hellos: deploy/agreement.py.
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from safetensors import SafetensorError

from .errors import MessageError, ProtofedError
from .record import Tree
from .tensor_file import of_bytes

COUNT = 10**12  # a whole number beyond is no count of anything
TEXT = 1000  # characters of a name or an option
SAID = 2000  # characters of an error that a client reports
HEADER, ARRAYS = 10_000_000, 100_000  # of a buffer of tensors: bytes that describe it, and tensors
AXES, NAME = 8, 500  # of a tensor: axes, and characters of its name
DEPTH = 8
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{}]', re.DOTALL)  # strings, so that theirs do not count
_SHOWN = 80  # characters of a value in an error
log = logging.getLogger("protofed")


@contextmanager
def reading(whose: str) -> Iterator[None]:
    """Whatever goes wrong while a client's message is read is refused as that client's fault: it never ends
    the run. The log tells all of it."""
    try:
        yield
    except ProtofedError:
        raise
    except Exception as error:
        log.exception("%s cannot be read", whose)
        raise MessageError(f"{whose} cannot be read ({type(error).__name__})") from error


def read_json(text: Any, where: str, length: int, depth: int = DEPTH) -> Any:
    """The value of a JSON text: not longer, not deeper, no key twice, and no number that is not finite."""
    if not isinstance(text, str):
        raise MessageError(f"{where}: {shown(text)} is no text")
    if len(text) > length:
        raise MessageError(f"{where}: {len(text):,} characters; expected at most {length:,}")
    if _deepest(text, depth) > depth:
        raise MessageError(f"{where}: damaged (nested deeper than {depth})")
    try:
        return json.loads(
            text, parse_constant=_not_finite, parse_float=_finite, object_pairs_hook=_without_copies
        )
    except (ValueError, RecursionError) as error:
        raise MessageError(f"{where}: damaged ({shown(str(error))})") from error


def read_tensors(buffer: bytes, where: str) -> Tree:
    """The tensors of a safetensors buffer, whose header is looked at first."""
    size = int.from_bytes(buffer[:8], "little") if len(buffer) >= 8 else -1
    if not 2 <= size <= min(HEADER, len(buffer) - 8):
        raise MessageError(f"{where}: the buffer is damaged (a header of {size:,} of {len(buffer):,} bytes)")
    try:
        header = buffer[8 : 8 + size].decode()
    except UnicodeDecodeError as error:
        raise MessageError(f"{where}: the buffer is damaged (its header is no text)") from error
    entries = Fields(read_json(header, f"{where}: the buffer", HEADER, depth=3), f"{where}: the buffer")
    if len(entries.values) > ARRAYS:
        raise MessageError(f"{where}: {len(entries.values):,} arrays; expected at most {ARRAYS:,}")
    for name in entries.values:
        if len(name) > NAME:
            raise MessageError(f"{where}: the name of an array has {len(name):,} characters")
        if name != "__metadata__":
            Fields(entries.values[name], f"{where}: array {shown(name)}").wholes("shape", AXES, 0, COUNT)
    try:
        return of_bytes(buffer)
    except (SafetensorError, KeyError, ValueError, RuntimeError, OverflowError) as error:
        raise MessageError(f"{where}: the buffer is damaged ({shown(str(error))})") from error


class Fields:
    """Values by name, each asked for with its type and its bounds."""

    def __init__(self, values: Any, where: str):
        self.where = where
        if not isinstance(values, dict):
            raise MessageError(f"{where}: damaged ({shown(values)} instead of named values)")
        self.values: dict[str, Any] = values

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def any(self, name: str) -> Any:
        """The value as it is."""
        if name not in self.values:
            raise MessageError(f"{self.where}: damaged ({clipped(name)} is missing)")
        return self.values[name]

    def whole(self, name: str, low: int = 0, high: int = COUNT) -> int:
        """A whole number within bounds."""
        return self._whole(self.any(name), name, low, high)

    def wholes(self, name: str, most: int, low: int = 0, high: int = COUNT) -> tuple[int, ...]:
        """A list of at most so many whole numbers."""
        return tuple(self._whole(value, name, low, high) for value in self._list(name, most))

    def number(self, name: str, low: float = -math.inf, high: float = math.inf) -> float:
        """A finite number within bounds; NaN stands for what was not measured, as null does."""
        value = self.any(name)
        if value is None or (type(value) is float and math.isnan(value)):
            return math.nan
        if type(value) not in (int, float) or not low <= value <= high or abs(value) > 1e300:
            self._refuse(name, value, "a finite number" if low == -math.inf else f"{low:g} to {high:g}")
        return float(value)

    def text(self, name: str, most: int = TEXT) -> str:
        """A text of at most so many characters."""
        return self._text(self.any(name), name, most)

    def texts(self, name: str, most: int, length: int = TEXT) -> tuple[str, ...]:
        """A list of at most so many texts."""
        return tuple(self._text(value, name, length) for value in self._list(name, most))

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self.any(name)
        if not isinstance(value, bool):
            self._refuse(name, value, "true or false")
        return bool(value)

    def named(self, name: str, most: int) -> Fields:
        """Further named values, at most so many, with names of ordinary length."""
        inner = Fields(self.any(name), f"{self.where}: {clipped(name)}")
        if len(inner.values) > most:
            raise MessageError(
                f"{self.where}: {clipped(name)}: {len(inner.values):,}; expected at most {most:,}"
            )
        for key in inner.values:
            self._text(key, name, TEXT)
        return inner

    def _list(self, name: str, most: int) -> list[Any]:
        values = self.any(name)
        if not isinstance(values, list):
            self._refuse(name, values, "a list")
        if len(values) > most:
            raise MessageError(
                f"{self.where}: {clipped(name)}: {len(values):,} values; expected at most {most:,}"
            )
        return list(values)

    def _whole(self, value: Any, name: str, low: int, high: int) -> int:
        if type(value) is not int or not low <= value <= high:
            self._refuse(name, value, f"a whole number from {low:,} to {high:,}")
        return int(value)

    def _text(self, value: Any, name: str, most: int) -> str:
        if not isinstance(value, str):
            self._refuse(name, value, "a text")
        if len(value) > most:
            raise MessageError(
                f"{self.where}: {clipped(name)}: {len(value):,} characters; expected at most {most:,}"
            )
        return str(value)

    def _refuse(self, name: str, value: Any, expected: str) -> NoReturn:
        raise MessageError(f"{self.where}: damaged ({clipped(name)} is {shown(value)}; expected {expected})")


def clipped(name: str) -> str:
    """A name from outside, its first characters."""
    return name if len(name) <= _SHOWN else name[:_SHOWN] + "…"


def shown(value: Any) -> str:
    """A value from outside as a few characters of an error; large ones are not written out first."""
    if isinstance(value, str | bytes):
        text = repr(value[:_SHOWN])
    elif isinstance(value, int):
        text = str(value) if -(10**30) < value < 10**30 else "a number without end"
    elif value is None or isinstance(value, float):
        text = repr(value)
    else:
        text = type(value).__name__
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def deeper_than(value: Any, most: int) -> bool:
    """Whether lists and tables lie deeper in each other; without recursion, which has an end of its own."""
    level = [value]
    for _ in range(most):
        inner = (
            one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)
        )
        level = [item for items in inner for item in items]
        if not level:
            return False
    return any(isinstance(one, dict | list) for one in level)


def _deepest(text: str, most: int) -> int:
    depth = deepest = 0
    for found in _BRACKETS.finditer(text):
        mark = text[found.start()]
        if mark == '"':
            continue
        depth += 1 if mark in "[{" else -1
        deepest = max(deepest, depth)
        if deepest > most:
            break
    return deepest


def _not_finite(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number without end")
    return value


def _without_copies(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a key is there twice")
    return values
