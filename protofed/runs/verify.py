"""Whether a run directory is what the run wrote, file by file, and what can be recovered."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ..core.errors import DamageError, RunError
from .checkpoint import Checkpoints
from .directory import OF_DEPLOYMENTS, RunDir
from .kept_files import FOLDER, check_copy, read_kept
from .line_files import NAMES, lines_of, write_lines
from .loose import REMEDIES, problem
from .outcome import Outcome
from .seals import COPIES, FILE, Seals, read_bytes, read_seals, repair_whole, seals_in

WHOLE, RECOVERABLE, DAMAGED, UNKNOWN = "whole", "recoverable", "damaged", "not verified"
OUTPUT = "no checksum"  # logs and exports, which no command reads


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
    checked = [_seals(path, seals), *whole, *lines, *_checkpoint(run, bool(seals.lines)), *_kept(path)]
    return [*checked, *_loose(path), *_others(path, {one.file for one in checked})]


def worst(checked: Sequence[Checked]) -> str:
    """The state of a run as a whole."""
    states = {one.state for one in checked}
    return next(state for state in (DAMAGED, UNKNOWN, RECOVERABLE, WHOLE) if state in states)


def _loose(path: Path) -> Iterator[Checked]:
    """What others noted beside the run: each of these files has its own checksum."""
    for name in REMEDIES:
        if (path / name).exists():
            told = problem(path / name)
            yield Checked(name, DAMAGED if told else WHOLE, told)


def _others(path: Path, checked: Collection[str]) -> Iterator[Checked]:
    """Files in the folder that have no checksum: of an earlier version, or what a run only puts out."""
    for file in sorted(path.iterdir()):
        if file.name in OF_DEPLOYMENTS and file.name not in checked:
            yield Checked(file.name, UNKNOWN, "an earlier version wrote it, without a checksum")
        elif file.is_file() and not {file.name} & {*checked, *REMEDIES} and not file.name.startswith("."):
            yield Checked(file.name, OUTPUT)


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
    fine = fine and not main.lacks(copy)
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
