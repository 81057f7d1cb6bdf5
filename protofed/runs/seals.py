"""Checksums of a run directory, and copies from which damaged files are recovered.

    checksums.json      the mark of the run, a checksum for each file that is written as a whole, and how far
                        metrics.jsonl and clients.jsonl went when the run ended; itself with a checksum
    checkpoint/copies/  copies of all these files

Checksums are bound to the run's mark: a file of another run does not match. A file and its checksum cannot
be written at one moment, so before a file is replaced both its old and its new checksum are listed, and
the new one alone afterwards; "" stands for: not there.

Runs of earlier versions have no checksums.json. They are read and continued as they are.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..core.checksums import LastLine, digest, seal, unseal
from ..core.errors import DamageError, RunError
from .files import as_json, read_json, value_of, write_atomic

FILE = "checksums.json"
COPIES = Path("checkpoint", "copies")
FORMAT = 1
ANEW = "restore the folder from a backup, or run it anew with --force"
log = logging.getLogger("protofed")


@dataclass(frozen=True)
class Seals:
    """What checksums.json says."""

    run: str  # the mark
    files: Mapping[str, Sequence[str]] = field(default_factory=dict)  # checksums that a file may have
    lines: Mapping[str, LastLine] = field(default_factory=dict)  # of a run that has ended

    def admit(self, name: str, data: bytes | None) -> bool:
        """Whether a file is what the run wrote; None: there is no such file."""
        found = "" if data is None else digest(data, self.run)
        return found in self.files.get(name, [""])


def begin_seals(run: Path) -> None:
    """A mark for a new run: from now on its files have checksums."""
    _store(run, Seals(secrets.token_hex(8)))


def read_seals(run: Path) -> Seals | None:
    """The checksums of a run, if need be from their copy; None for a run of an earlier version."""
    main, copy = seals_in(run / FILE), seals_in(run / COPIES / FILE)
    if main and copy and main.run != copy.run and _matches(run, copy) > _matches(run, main):
        main = None  # of another run
    if main:
        return main
    if copy:
        tell_copy(run, FILE)
        return copy
    if (run / FILE).exists():
        raise DamageError(f"{run / FILE} is damaged, and so is its copy: nothing can be verified; {ANEW}")
    return None


def mark_of(run: Path) -> str | None:
    """The mark of a run; None for one of an earlier version."""
    seals = read_seals(run)
    return seals.run if seals else None


def there(run: Path, name: str) -> bool:
    """Whether a run has a file, or must have had it: one that was deleted is missed when it is read."""
    if (run / name).exists():
        return True
    seals = read_seals(run)
    return seals is not None and not seals.admit(name, None)


def write_whole(run: Path, name: str, value: Any, lines: Mapping[str, LastLine] | None = None) -> None:
    """Write a JSON file of a run with its checksum. `lines`: how far the files of lines go, at the end."""
    write_content(run, name, as_json(value), lines)


def write_content(run: Path, name: str, data: bytes, lines: Mapping[str, LastLine] | None = None) -> None:
    """The same for any file."""
    seals = read_seals(run)
    if seals is None:
        write_atomic(run / name, data)
        return
    new, old = digest(data, seals.run), seals.files.get(name, [""])
    _change(run, seals, name, [new, *old], lambda: _write_both(run, name, data), [new], lines)


def erase_whole(run: Path, name: str) -> None:
    """Delete a file of a run."""
    seals = read_seals(run)
    if seals is None:
        _unlink(run / name)
    elif name in seals.files or (run / name).exists():
        old = seals.files.get(name, [])
        _change(run, seals, name, [*old, ""], lambda: _unlink(run / name, run / COPIES / name), [""])


def read_whole(run: Path, name: str, older: bool = False) -> Any:
    """The value of a JSON file of a run. One that is not what the run wrote is read from its copy, with a
    warning; DamageError if that is not whole either. `older`: earlier versions wrote the file without a
    checksum; such a one is read with a warning too."""
    return value_of(run / name, read_content(run, name, older))


def read_content(run: Path, name: str, older: bool = False) -> bytes:
    """The same for any file."""
    seals, data = read_seals(run), read_bytes(run / name)
    if older and seals is not None and name not in seals.files and data is not None:
        log.warning("%s has no checksum: an earlier version wrote it", run / name)
        return data
    while seals is not None and not seals.admit(name, data):
        again = read_seals(run)  # a running process may have written between the two
        if again == seals:
            return _copy_of(run, name, seals)
        seals, data = again, read_bytes(run / name)
    if data is None:
        raise RunError(f"{run / name} is missing")
    return data


def _copy_of(run: Path, name: str, seals: Seals) -> bytes:
    """The copy of a damaged file, which a warning names."""
    data = read_bytes(run / COPIES / name)
    if data is not None and name in seals.files and seals.admit(name, data):
        tell_copy(run, name)
        return data
    what = "is not what the run wrote" if (run / name).exists() else "is missing"
    raise DamageError(f"{run / name} {what} (its checksum does not match), nor is its copy; {ANEW}")


def missing_seals(run: Path, name: str) -> DamageError:
    """The error for a file that was written with a checksum, in a folder without checksums.json."""
    return DamageError(f"{run / FILE} is missing: {name} cannot be verified without it; {ANEW}")


def tell_copy(run: Path, name: str, where: str = "") -> None:
    """Warn that a file is read from its copy."""
    log.warning(
        "%s%s %s; taking its copy in %s (`protofed verify %s --repair` puts it back)",
        run / name,
        where,
        "is not what the run wrote" if (run / name).exists() else "is missing",
        run / COPIES,
        run,
    )


def repair_whole(run: Path) -> list[str]:
    """Make files and copies what the run wrote, as far as one of the two is; returns what was mended. Only
    for whoever holds the lock of the run."""
    seals = read_seals(run)
    if seals is None:
        return []
    mended = []
    for name, admitted in seals.files.items():
        found = [read_bytes(run / name), read_bytes(run / COPIES / name)]
        whole = [data for data in found if seals.admit(name, data)]
        if whole and (found[0] != found[1] or len(admitted) > 1):
            data = whole[0]
            new = "" if data is None else digest(data, seals.run)
            write = (lambda: None) if data is None else _writer(run, name, data)
            seals = _change(run, seals, name, admitted, write, [new])
            mended.append(name)
    wanted = _text(seals)
    if read_bytes(run / FILE) != wanted or read_bytes(run / COPIES / FILE) != wanted:
        _store(run, seals)
        mended.append(FILE)
    return mended


def forget_end(run: Path, heads: Mapping[str, LastLine]) -> None:
    """The run goes on from fewer lines than it had when it ended."""
    seals = read_seals(run)
    if seals and any(head.lines > heads.get(name, LastLine()).lines for name, head in seals.lines.items()):
        _store(run, replace(seals, lines={}))


def read_bytes(path: Path) -> bytes | None:
    """The content of a file; None if there is none."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror or error}") from error


def write_copy(run: Path, name: str, data: bytes) -> None:
    """A copy, from which a damaged file is recovered."""
    (run / COPIES / name).parent.mkdir(parents=True, exist_ok=True)
    write_atomic(run / COPIES / name, data, flush=False)


def _change(
    run: Path,
    seals: Seals,
    name: str,
    during: Sequence[str],
    write: Callable[[], None],
    after: Sequence[str],
    lines: Mapping[str, LastLine] | None = None,
) -> Seals:
    """List what a file may be while it is written, write it, and list what it is then."""
    seals = replace(seals, lines=lines or seals.lines)
    _store(run, replace(seals, files={**seals.files, name: list(dict.fromkeys(during))}))
    write()
    seals = replace(seals, files={**seals.files, name: list(after)})
    _store(run, seals)
    return seals


def _writer(run: Path, name: str, data: bytes) -> Callable[[], None]:
    return lambda: _write_both(run, name, data)


def _write_both(run: Path, name: str, data: bytes) -> None:
    write_atomic(run / name, data)
    write_copy(run, name, data)


def _store(run: Path, seals: Seals) -> None:
    write_atomic(run / FILE, _text(seals))
    write_copy(run, FILE, _text(seals))


def _text(seals: Seals) -> bytes:
    lines = {name: list(head) for name, head in seals.lines.items()}
    files = {name: list(found) for name, found in seals.files.items()}
    return as_json(seal({"format": FORMAT, "run": seals.run, "files": files, "lines": lines}))


def seals_in(path: Path) -> Seals | None:
    """What one file says; None if it is missing or damaged."""
    with suppress(RunError, KeyError, TypeError, AttributeError):
        found = unseal(read_json(path), path)
        lines = {name: LastLine(*head) for name, head in found["lines"].items()}
        return Seals(found["run"], found["files"], lines)
    return None


def _matches(run: Path, seals: Seals) -> int:
    """How many files of the folder these checksums belong to."""
    return sum(
        digest(read_bytes(run / name) or b"", seals.run) in found for name, found in seals.files.items()
    )


def _unlink(*paths: Path) -> None:
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise RunError(f"cannot delete {path}: {error.strerror or error}") from error
