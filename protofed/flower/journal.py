"""A client's journal: which of its states is committed and which pending, and the checksum of every file.

It is written twice, so that a damaged one is recovered from the copy; with both damaged nothing is used.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..core.checksums import seal, unseal
from ..core.errors import DamageError, RunError
from ..runs.files import read_json, write_json

NAMES = ("journal.json", "journal.copy.json")
log = logging.getLogger("protofed")


@dataclass
class Journal:
    """What a client's directory says of itself."""

    committed: list[str] = field(default_factory=list)  # tags that the server is known to have accepted
    pending: dict[str, Any] | None = None  # tag, digest of the download, and the reply, if it is kept
    session: int = 0  # of the server that asked last
    files: dict[str, str] = field(default_factory=dict)  # checksums by name

    def write(self, folder: Path) -> None:
        """The journal first, then its copy."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in NAMES:
            write_json(folder / name, seal(asdict(self), _owner(folder)))


def read_journal(folder: Path) -> Journal:
    """The journal of a client's directory; an empty one where there is none. RunError if nothing sound is
    left."""
    problems: list[str] = []
    for name in NAMES:
        if not (folder / name).exists():
            continue
        try:
            found = _read(folder / name)
        except RunError as error:
            problems.append(str(error))
            continue
        for problem in problems:
            log.warning("%s; recovered from %s", problem, name)
        return found
    if problems:
        raise DamageError(f"{problems[0]}, and no copy is sound; restore {folder}, or start a new run")
    return Journal()


def _read(path: Path) -> Journal:
    try:
        return Journal(**unseal(read_json(path), path, _owner(path.parent)))
    except (TypeError, ValueError, RecursionError) as error:
        raise DamageError(f"{path} is damaged ({type(error).__name__})") from error


def _owner(folder: Path) -> str:
    """The run and the client: the journal of another does not match."""
    return "/".join(folder.parts[-2:])
