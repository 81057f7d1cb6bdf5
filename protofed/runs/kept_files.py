"""The user's own Python files within a run directory.

    files/index.json    which they are, where they were and their fingerprints
    files/…             copies of them, as they were when the run began

So a run goes on from any folder, can be read when a file is gone, and a file that was changed meanwhile is
noticed instead of mixing two methods in one run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..config import read_recipe
from ..core.checksums import digest
from ..core.errors import RunError
from ..core.user_files import UserFile, absolute, load_file
from ..core.written_files import change_files, change_models, files_in
from ..data.moved import path_from, spec_from
from .about import has_about, read_about
from .files import write_atomic
from .fingerprint import WEIGHTS, of_file, user_files
from .seals import read_bytes, read_seals, read_whole, there, write_whole

FOLDER = "files"
INDEX = "index.json"
REFUSE, KEPT, CURRENT = "refuse", "kept", "current"  # what to do about a file that has changed


@dataclass(frozen=True)
class KeptFile:
    """A file that settings name. `parts` are its text and those that it imports from beside it: paths from
    its folder, with their fingerprints."""

    written: str
    path: str  # where it was
    copy: str  # within the folder of the copies
    parts: Mapping[str, str]
    earlier: Sequence[str] = ()  # fingerprints that it had in earlier rounds, if it was changed knowingly

    def state(self) -> str:
        """Whether it is still what it was: "same", "changed" or "gone"."""
        folder = Path(self.path).parent
        if not Path(self.path).is_file():
            return "gone"
        whole = all((folder / part).is_file() for part in self.parts)
        same = whole and all(of_file(folder / part) == found for part, found in self.parts.items())
        return "same" if same else "changed"


def keep_files(run: Path, settings: Mapping[str, Any]) -> None:
    """Copy the files that settings name into the run directory."""
    _keep(run, user_files(settings), {})


def renew_files(run: Path) -> None:
    """Take over files that have changed: the run goes on with what they are now."""
    kept = read_kept(run)
    found = {one.written: load_file(one.path, one.written) for one in kept}
    _keep(run, found, {one.written: one for one in kept})


def _keep(run: Path, found: Mapping[str, UserFile], before: Mapping[str, KeptFile]) -> None:
    folders = list(dict.fromkeys(file.path.parent for file in found.values()))
    kept = []
    for written, file in found.items():
        number = folders.index(file.path.parent)
        place = str(number + 1) if number else ""  # files of one folder stay together: they import each other
        parts = {os.path.relpath(path, file.path.parent): digest(text) for path, text in file.texts.items()}
        earlier = _earlier(before.get(written), parts)
        kept.append(KeptFile(written, str(file.path), os.path.join(place, file.path.name), parts, earlier))
        _copy(file, run / FOLDER / place)
    if kept:
        write_whole(run, f"{FOLDER}/{INDEX}", [asdict(one) for one in kept])


def _earlier(before: KeptFile | None, parts: Mapping[str, str]) -> list[str]:
    if before is None:
        return []
    old = [found for part, found in before.parts.items() if parts.get(part) != found]
    return [*before.earlier, *old]


def settings_with_kept(
    settings: Mapping[str, Any],
    run: Path,
    changed: str = KEPT,
    warn: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """The settings of a run with its files where they are now: in their old place, or the run's copies where
    they are gone, and its data as it was meant where the run began. For those that have changed `changed`
    says what to do; `warn` is told."""
    kept = {one.written: one for one in read_kept(run)}
    places = {w: _place(kept[w], run, changed, warn) for w in files_in(settings) if w in kept}
    return _with_paths(change_files(settings, lambda written: places.get(written, written)), run)


def _with_paths(settings: dict[str, Any], run: Path) -> dict[str, Any]:
    """Data and weights whose paths are relative: meant from the folder where the run began."""
    began = read_about(run, settings).folder if has_about(run) else ""
    if not began or began == os.getcwd():
        return settings
    folder = Path(began)
    data = {
        key: spec_from(settings[key], folder)
        for key in ("data", "public")
        if isinstance(settings.get(key), str)
    }

    def moved(form: str) -> str:
        return WEIGHTS.sub(lambda found: path_from(found[0], folder), form)

    return {**change_models(settings, moved), **data}


def recipe_of_run(path: Path, warn: Callable[[str], None] | None = None) -> dict[str, Any]:
    """The settings of a recipe; if it is the configuration of an earlier run, with the files that it kept."""
    seals = read_seals(path.parent) if path.name == "config.json" else None
    if seals is not None and not seals.admit(path.name, read_bytes(path)):
        raise RunError(
            f"{path} is not what the run wrote: copy it elsewhere to run it with changes, or put it back: "
            f"`protofed verify {path.parent} --repair`"
        )
    return settings_with_kept(read_recipe(path), path.parent, warn=warn)


def read_kept(run: Path) -> list[KeptFile]:
    """What files/index.json lists; a run without files of the user's has none."""
    path = run / FOLDER / INDEX
    if not there(run, f"{FOLDER}/{INDEX}"):
        return []
    try:
        return [KeptFile(**one) for one in read_whole(run, f"{FOLDER}/{INDEX}")]
    except TypeError as error:
        raise RunError(f"{path} is damaged: {error}") from error


def _place(one: KeptFile, run: Path, changed: str, warn: Callable[[str], None] | None) -> str:
    state = one.state()
    if state == "same" or (state == "changed" and changed == CURRENT):
        return one.written if str(absolute(one.written)) == one.path else one.path
    copy = run / FOLDER / one.copy
    if state == "changed" and changed == REFUSE:
        raise RunError(
            f"{one.path} has changed since {run} began: go on with --changed current, or with what "
            f"it was ({copy}) by --changed kept"
        )
    check_copy(one, run)
    if warn:
        warn(f"{one.path} {'is gone' if state == 'gone' else 'has changed'}; taking the run's copy, {copy}")
    return str(copy)


def check_copy(one: KeptFile, run: Path) -> None:
    """Whether the copies of a file and of what it imports are what they were when the run began."""
    folder = (run / FOLDER / one.copy).parent
    for part, found in one.parts.items():
        if of_file(folder / part) != found:
            raise RunError(f"{folder / part} is damaged: it is not the copy that {run} was begun with")


def _copy(file: UserFile, folder: Path) -> None:
    for path, text in file.texts.items():
        target = folder / os.path.relpath(path, file.path.parent)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target, text)
