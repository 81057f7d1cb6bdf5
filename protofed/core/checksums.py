"""Checksums of what is kept on disk: bytes, JSON objects, and files to which lines are added.

A checksum finds damage, careless edits and files that got into the wrong folder. It keeps nobody out who
reckons it anew: for that, files would have to be signed.

`key` binds a checksum to an owner, say a run or a client: what was written for another does not match.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

from .errors import DamageError

CHECK = "check"  # the field that holds a checksum
_TRAILER = re.compile(rb"\nblake2b ([0-9a-f]{32})\n\Z")
_LINE = re.compile(r'(\{.+), "check": "([0-9a-f]{32})"\}')


def digest(data: bytes, key: str = "") -> str:
    """Of any content."""
    return blake2b(data, digest_size=16, key=key.encode()[:64]).hexdigest()


def add_checksum(data: bytes, key: str = "") -> bytes:
    """The content of a file that carries its own checksum, as a last line."""
    return data + f"\nblake2b {digest(data, key)}\n".encode()


def strip_checksum(data: bytes, file: Any, key: str = "") -> bytes:
    """Inverse of `add_checksum`; DamageError, which names the file, if it does not match."""
    found = _TRAILER.search(data[-48:])
    content = data[: len(data) - len(found[0])] if found else data
    if not found or found[1].decode() != digest(content, key):
        raise DamageError(f"{file} is damaged: its checksum {'does not match' if found else 'is missing'}")
    return content


def seal(value: Mapping[str, Any], key: str = "") -> dict[str, Any]:
    """A JSON object with its checksum as a field; it has finite numbers only.

    >>> unseal(seal({"round": 5}, "a run"), "manifest.json", "a run")
    {'round': 5}
    """
    return {**value, CHECK: _of_object(value, key)}


def unseal(value: Any, file: Any, key: str = "") -> dict[str, Any]:
    """Inverse of `seal`; DamageError, which names the file, if it does not match."""
    if not isinstance(value, Mapping) or CHECK not in value:
        raise DamageError(f"{file} is damaged: its checksum is missing")
    content = {name: item for name, item in value.items() if name != CHECK}
    try:
        matches = value[CHECK] == _of_object(content, key)
    except (ValueError, RecursionError):  # a number that is not finite, or nested without end: not ours
        matches = False
    if not matches:
        raise DamageError(f"{file} is damaged: its checksum does not match")
    return content


def _of_object(value: Mapping[str, Any], key: str) -> str:
    read_back = json.loads(json.dumps(value, allow_nan=False))  # keys as a reader sees them
    return digest(json.dumps(read_back, sort_keys=True).encode(), key)


class LastLine(NamedTuple):
    """How far a file of lines goes: their number, and the checksum of the last, which covers all."""

    lines: int = 0
    check: str = ""


def chain(text: str, before: LastLine, key: str = "") -> tuple[str, LastLine]:
    """The next line of a file: a JSON object with a checksum that covers the lines before it too, so that
    none can be changed, left out, added or moved."""
    check = _of_line(text, before, key)
    return f'{text[:-1]}, "{CHECK}": "{check}"}}', LastLine(before.lines + 1, check)


def follow(lines: Iterable[str], key: str = "") -> Iterator[LastLine]:
    """The head after each line, as far as they are what `chain` made."""
    head = LastLine()
    for line in lines:
        found = _LINE.fullmatch(line)
        if not found or found[2] != _of_line(found[1] + "}", head, key):
            return
        head = LastLine(head.lines + 1, found[2])
        yield head


def is_chained(line: str) -> bool:
    """Whether a line was written with a checksum, matching or not."""
    return _LINE.fullmatch(line) is not None


def _of_line(text: str, before: LastLine, key: str) -> str:
    return digest(f"{before.lines} {before.check} {text}".encode(errors="surrogateescape"), key)
