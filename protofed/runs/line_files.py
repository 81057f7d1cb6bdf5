"""metrics.jsonl and clients.jsonl: a line a round, or a test, each with a checksum that covers all before it.

A last line that was cut off is what a crash leaves, and is written again by `resume`. Anything else that is
not what the run wrote is read from the copy (see seals.py), or refused with the number of the line: lines
that were changed, moved, added, taken from another run, or that a checkpoint has seen and that are gone. A
line is written to the file before its copy: lines that only the copy has were lost.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..core.checksums import CHECK, LastLine, chain, follow, is_chained
from ..core.errors import DamageError, RunError
from .files import finite, write_atomic
from .seals import ANEW, COPIES, missing_seals, read_bytes, tell_copy, write_copy

NAMES = ("metrics.jsonl", "clients.jsonl")
START = LastLine()


class Lines(NamedTuple):
    """The lines of a file that are what the run wrote, from its beginning."""

    texts: list[str]
    heads: list[LastLine]  # after each; none in a run of an earlier version
    more: bool = False  # whether lines follow that do not match; one that was cut off does not count

    def reach(self, known: LastLine) -> bool:
        """Whether what a checkpoint has seen is there."""
        return known.lines == 0 or (known.lines <= len(self.heads) and self.heads[known.lines - 1] == known)

    @property
    def head(self) -> LastLine:
        """After the last."""
        return self.heads[-1] if self.heads else LastLine()

    def lacks(self, copy: Lines) -> bool:
        """Whether a sound copy goes on where these lines end."""
        return len(copy.heads) > len(self.heads) and not copy.more and copy.reach(self.head)

    def records(self) -> list[dict[str, Any]]:
        """Their values, without checksums."""
        found = [json.loads(text) for text in self.texts]
        return [{name: value for name, value in record.items() if name != CHECK} for record in found]


def read_lines(run: Path, name: str, mark: str | None, known: LastLine = START, rest: bool = True) -> Lines:
    """The lines of a run with this mark, from the file or else its copy. `known`: what must be there.
    Without `rest`, lines after that do not matter."""
    if mark is None:
        return _plain(run, name)
    copy = lines_of(run / COPIES / name, mark)  # first: a running process adds to it last
    found = [lines_of(run / name, mark), copy]
    first = len(found[0].texts) + 1  # that does not match
    for lines in found:
        if lines.reach(known) and not (rest and (lines.more or lines.lacks(copy))):
            if lines is not found[0]:
                tell_copy(run, name, f", line {first},")
            return lines
    raise DamageError(
        f"{run / name}, line {first}: not what the run wrote (changed, moved or missing: checksums do not "
        f"match), nor is the copy; {ANEW}"
    )


def append_line(
    run: Path, name: str, record: Mapping[str, Any], head: LastLine, mark: str | None
) -> LastLine:
    """Add a line after `head` and flush it to disk; returns the new head."""
    text = json.dumps(finite(record))
    if mark is not None:
        text, head = chain(text, head, mark)
    try:
        _append(run / name, text, flush=True)
        if mark is not None:
            (run / COPIES).mkdir(parents=True, exist_ok=True)
            _append(run / COPIES / name, text, flush=False)
    except OSError as error:
        raise RunError(f"cannot write {run / name}: {error.strerror or error}") from error
    return head


def write_lines(run: Path, name: str, texts: Sequence[str], mark: str | None) -> None:
    """Write a file and its copy anew; the copy first, which never has more lines than the file."""
    data = "".join(text + "\n" for text in texts).encode()
    if mark is not None:
        write_copy(run, name, data)
    write_atomic(run / name, data)


def lines_of(path: Path, mark: str) -> Lines:
    """What one file holds of a run with this mark, as far as it matches."""
    *whole, last = (read_bytes(path) or b"").decode(errors="surrogateescape").split("\n")
    texts = [*whole, last] if last else whole
    heads = list(follow(texts, mark))
    return Lines(texts[: len(heads)], heads, len(heads) < len(whole))


def _plain(run: Path, name: str) -> Lines:
    """Of a run of an earlier version: lines that are no JSON objects are left out."""
    texts = (read_bytes(run / name) or b"").decode(errors="replace").split("\n")
    if any(is_chained(text) for text in texts):
        raise missing_seals(run, name)
    return Lines([text for text in texts if _is_object(text)], [], False)


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _append(path: Path, text: str, flush: bool) -> None:
    with open(path, "a") as file:
        file.write(text + "\n")
        file.flush()
        if flush:
            os.fsync(file.fileno())
