"""Whether a run directory is what the run wrote, file by file, and what can be recovered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ..core.errors import DamageError, RunError
from .checkpoint import Checkpoints
from .directory import RunDir
from .kept_files import FOLDER, check_copy, read_kept
from .line_files import NAMES, lines_of, write_lines
from .outcome import Outcome
from .seals import COPIES, FILE, Seals, read_bytes, read_seals, repair_whole, seals_in

WHOLE, RECOVERABLE, DAMAGED, UNKNOWN = "whole", "recoverable", "damaged", "not verified"


class Checked(NamedTuple):
    """One file, or several that were checked together."""

    file: str
    state: str
    text: str = ""  # what is wrong, and what to do


def verify(path: Path) -> list[Checked]:
    """All files of a run. Nothing is changed."""
    run = RunDir(path)
    try:
        seals = read_seals(path)
        if seals is None:
            return [_earlier(run), *_checkpoint(run)]
    except DamageError as error:
        return [Checked(FILE, DAMAGED, str(error))]
    whole = [_whole(path, seals, name) for name in seals.files if seals.files[name] != [""]]
    lines = [found for name in NAMES if (found := _lines(run, name))]
    return [_seals(path, seals), *whole, *lines, *_checkpoint(run, bool(seals.lines)), *_kept(path)]


def worst(checked: Sequence[Checked]) -> str:
    """The state of a run as a whole."""
    states = {one.state for one in checked}
    return next(state for state in (DAMAGED, UNKNOWN, RECOVERABLE, WHOLE) if state in states)


def repair(path: Path) -> None:
    """Put back what can be recovered, files and copies alike; not while another process writes."""
    run = RunDir(path)
    with run.locked():
        repair_whole(path)
        for name in NAMES:
            checked = _lines(run, name)
            if run.mark is not None and checked and checked.state == RECOVERABLE:
                write_lines(path, name, run.read_lines(name).texts, run.mark)


def _earlier(run: RunDir) -> Checked:
    """A run without checksums, if no file says that it had some; RunError if it is no run at all."""
    Outcome.read(run.path)
    for name in NAMES:
        run.lines(name)
    told = "an earlier version made the run, without checksums: only the files of its checkpoint have them"
    return Checked(FILE, UNKNOWN, told)


def _seals(path: Path, seals: Seals) -> Checked:
    found = [seals_in(path / FILE), seals_in(path / COPIES / FILE)]
    return _judged(FILE, found[0] == seals, found[1] == seals)


def _whole(path: Path, seals: Seals, name: str) -> Checked:
    found = [read_bytes(path / name), read_bytes(path / COPIES / name)]
    return _judged(name, *(seals.admit(name, data) for data in found))


def _judged(name: str, main: bool, copy: bool) -> Checked:
    if main and copy:
        return Checked(name, WHOLE)
    if main:
        return Checked(name, RECOVERABLE, f"its copy {COPIES / name} is missing or not what the run wrote")
    if copy:
        return Checked(name, RECOVERABLE, "missing or not what the run wrote; its copy is whole")
    return Checked(name, DAMAGED, "missing or not what the run wrote, and so is its copy")


def _lines(run: RunDir, name: str) -> Checked | None:
    known = run.known_head(name)
    main, copy = (lines_of(run.path / place / name, run.mark or "") for place in ("", COPIES))
    if not known.lines and not (run.path / name).exists() and not (run.path / COPIES / name).exists():
        return None
    fine, copied = (lines.reach(known) and not lines.more for lines in (main, copy))
    found = _judged(name, fine, copied and (not fine or copy.heads == main.heads))
    return found if fine else found._replace(text=f"line {len(main.texts) + 1}: {found.text}")


def _checkpoint(run: RunDir, ended: bool = False) -> Iterator[Checked]:
    """The newest checkpoint, with all files that it names, and the one before."""
    checkpoints = run.checkpoints
    newest, previous = (_try(checkpoints, path) for path in (checkpoints.manifest, checkpoints.previous))
    if isinstance(newest, int):
        yield Checked(_name(checkpoints.manifest), WHOLE, f"round {newest}")
    elif checkpoints.exist or ended:
        back = isinstance(previous, int)
        told = f"{newest}; resume goes back to round {previous}" if back else newest
        yield Checked(_name(checkpoints.manifest), RECOVERABLE if back else DAMAGED, told)
    if isinstance(previous, int):
        yield Checked(_name(checkpoints.previous), WHOLE, f"round {previous}")
    elif checkpoints.previous.exists() or checkpoints.has_previous:
        told = f"{previous}; it would be needed only if the newest checkpoint were damaged"
        yield Checked(_name(checkpoints.previous), RECOVERABLE if isinstance(newest, int) else DAMAGED, told)


def _try(checkpoints: Checkpoints, path: Path) -> int | str:
    """The round of a checkpoint, or what is wrong with it."""
    try:
        return checkpoints.check(path)
    except RunError as error:
        return str(error)


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def _kept(path: Path) -> Iterator[Checked]:
    """The run's copies of the user's own files."""
    try:
        kept = read_kept(path)
    except RunError:  # its index is told of already
        return
    for one in kept:
        name = f"{FOLDER}/{one.copy}"
        try:
            check_copy(one, path)
            yield Checked(name, WHOLE)
        except RunError as error:
            same = one.state() == "same"
            told = f"{error}; the file itself, {one.path}, is unchanged" if same else str(error)
            yield Checked(name, RECOVERABLE if same else DAMAGED, told)
