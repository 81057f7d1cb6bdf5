"""One run on disk.

config.json     the resolved configuration: `protofed run config.json` repeats the run
about.json      what is known before the first round: names of classes, prediction modes, …: see about.py
inputs.json     how raw samples become inputs; class_counts.dat: samples of each class at each client
metrics.jsonl   one line a round: see records.py and line_files.py
clients.jsonl   per-client accuracy, one line a test
checkpoint/     see checkpoint.py
files/          the user's own Python files that the run needs: see kept_files.py
summary.json    written at the end
checksums.json  of all of them: see seals.py; notes of a deployment's server and of trackers: see loose.py
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.checksums import LastLine
from ..core.errors import RunError
from .checkpoint import Checkpoints
from .line_files import NAMES, START, Lines, append_line, read_lines, write_lines
from .lock import Lock
from .loose import REMEDIES
from .seals import (
    COPIES,
    FILE,
    begin_seals,
    erase_whole,
    forget_end,
    mark_of,
    read_seals,
    read_whole,
    repair_whole,
    there,
    write_whole,
)

if TYPE_CHECKING:
    from ..core.record import Record
    from ..engines.base import Engine

OF_A_RUN = (
    *("about.json", "inputs.json", "class_counts.dat", "mixtures.json"),
    *(*NAMES, "summary.json", "measures.json"),
)
OF_DEPLOYMENTS = ("agreement.json", "session.json", "keys.json", "released.json")  # see deploy/server_app.py
OF_OTHERS = ("failed.json", "metrics.csv", "metrics.parquet")  # studies and trackers


class RunDir:
    """Paths and files of a run."""

    def __init__(self, path: Path):
        self.path = path
        self.checkpoints = Checkpoints(path)
        self.lock = Lock(path)
        self._heads: dict[str, LastLine] = {}  # of the lines that this process wrote

    @classmethod
    def create(
        cls, path: Path, config: dict[str, Any], force: bool = False, keep: Collection[str] = ()
    ) -> RunDir:
        """A new directory; an existing run is never overwritten unless asked for, nor while it is written.
        The lock is held until the run has been carried out. Files named in `keep` are the caller's own."""
        run = cls(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            run.lock.take()
            if not force and _holds_run(path):
                raise RunError(
                    f"{path} already holds a run: continue it with `protofed resume {path}`, "
                    "choose another `out`, or start over with `force`"
                )
            run._empty(keep)
        except OSError as error:
            raise RunError(f"cannot create {path}: {error.strerror or error}") from error
        begin_seals(path)
        write_whole(path, "config.json", config)
        return run

    def _empty(self, keep: Collection[str]) -> None:
        """Delete an earlier run. What is left of it, should that be interrupted, is no run."""
        (self.path / "config.json").unlink(missing_ok=True)
        (self.path / FILE).unlink(missing_ok=True)
        shutil.rmtree(self.path / COPIES, ignore_errors=True)
        if (self.path / "files" / "index.json").exists():  # copies of an earlier run: see kept_files.py
            shutil.rmtree(self.path / "files", ignore_errors=True)
        names = [name for name in (*OF_A_RUN, *OF_DEPLOYMENTS, *OF_OTHERS, *REMEDIES) if name not in keep]
        old = [self.path / name for name in names]
        for file in [*old, self.checkpoints.manifest, self.checkpoints.previous]:
            file.unlink(missing_ok=True)

    @classmethod
    def open(cls, path: Path) -> RunDir:
        """The directory of a run that is there."""
        if not there(path, "config.json"):
            raise RunError(f"{path} is not a run directory: it has no config.json")
        found = read_whole(path, "config.json")  # a damaged one shows now
        if not isinstance(found, dict) or not isinstance(found.get("rounds"), dict) or "method" not in found:
            raise RunError(f"{path / 'config.json'} is damaged: it is not the configuration of a run")
        return cls(path)

    @cached_property
    def mark(self) -> str | None:
        """What binds checksums to this run; None for one of an earlier version, which has no checksums."""
        return mark_of(self.path)

    @property
    def config(self) -> dict[str, Any]:
        """The resolved configuration."""
        return dict(read_whole(self.path, "config.json"))

    @property
    def summary(self) -> dict[str, Any] | None:
        """What summary.json says; None for a run that is not finished."""
        path = self.path / "summary.json"
        if not there(self.path, "summary.json"):
            return None
        found = read_whole(self.path, "summary.json")
        if not isinstance(found, dict):
            raise RunError(f"{path} is damaged; remove it, and `protofed resume` writes it again")
        told, lines = found.get("rounds"), self.lines("metrics.jsonl")
        if told is not None and told != (lines[-1]["round"] if lines else 0):
            raise RunError(
                f"{self.path} is damaged: it had {told} rounds, and metrics.jsonl does not hold them all; "
                "run it anew with --force, or remove the folder"
            )
        return found

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other processes from writing to the run at the same time, until the end of the block."""
        self.lock.take()
        try:
            yield
        finally:
            self.lock.release()

    def append(self, name: str, record: dict[str, Any]) -> None:
        """Add a line and flush it to disk."""
        head = self._heads.get(name) or self.read_lines(name).head
        self._heads[name] = append_line(self.path, name, record, head, self.mark)

    def lines(self, name: str) -> list[dict[str, Any]]:
        """All whole lines. A last line cut off by a crash is left out; what is not what the run wrote is
        read from its copy, or refused."""
        return self.read_lines(name).records()

    def read_lines(self, name: str) -> Lines:
        """The same, as they are written."""
        known = self.known_head(name)
        while True:
            try:
                return read_lines(self.path, name, self.mark, known)
            except RunError:
                again = self.known_head(name)
                if again == known:  # else: a running process wrote meanwhile
                    raise
                known = again

    def known_head(self, name: str) -> LastLine:
        """How far a file of lines must go, by the last checkpoint and the end of the run."""
        seals = read_seals(self.path)
        if seals is None:
            return START
        return max(self.checkpoints.heads().get(name, START), seals.lines.get(name, START))

    def save(self, round: int, state: Record, engine: Engine) -> None:
        """Write a checkpoint."""
        self.checkpoints.save(round, state, engine.store, engine.memory(), self._heads)

    def rewind(self, round: int) -> None:
        """Drop the lines after `round`, that of the checkpoint which was loaded: a resumed run will write
        them again. Damaged files become what they were."""
        repair_whole(self.path)
        if self.mark is None:
            self._rewind_plain(round)
            return
        heads = self.checkpoints.loaded_heads
        kept = {
            name: read_lines(self.path, name, self.mark, heads.get(name, START), rest=False) for name in NAMES
        }
        self.checkpoints.settle()
        forget_end(self.path, heads)
        for name, lines in kept.items():
            head = heads.get(name, START)
            if lines.texts or (self.path / name).exists():
                write_lines(self.path, name, lines.texts[: head.lines], self.mark)
            self._heads[name] = head

    def _rewind_plain(self, round: int) -> None:
        """The same for a run of an earlier version."""
        for name in NAMES:
            kept = [line for line in self.lines(name) if line["round"] <= round]
            if (self.path / name).exists():
                write_lines(self.path, name, [json.dumps(line) for line in kept], None)

    def longer(self, rounds: int) -> dict[str, Any]:
        """The configuration with more rounds."""
        config = self.config
        done = max((line["round"] for line in self.lines("metrics.jsonl")), default=0)
        if rounds <= done:
            raise RunError(f"--rounds {rounds}: {self.path} has done {done} rounds already; give more")
        return {**config, "rounds": {**config["rounds"], "rounds": rounds}}

    def extend(self, config: dict[str, Any]) -> None:
        """Go on with a configuration of more rounds: a finished run is one on its way then."""
        erase_whole(self.path, "summary.json")
        write_whole(self.path, "config.json", config)

    def restate(self, setting: str, value: str) -> None:
        """Write a setting as this version means it, if the run of an earlier one wrote it otherwise."""
        if self.config.get(setting) != value:
            write_whole(self.path, "config.json", {**self.config, setting: value})

    def finish(self, summary: dict[str, Any]) -> None:
        """Write the summary: the run has come to its end."""
        write_whole(self.path, "summary.json", summary, self._heads)


def _holds_run(path: Path) -> bool:
    try:
        return there(path, "config.json")
    except RunError:  # damaged, but something is there
        return True
