"""One run on disk.

config.json     the resolved configuration: `protofed run config.json` repeats the run
about.json      what is known before the first round: names of classes, prediction modes, …: see about.py
inputs.json     how raw samples become inputs; class_counts.dat: samples of each class at each client
metrics.jsonl   one line a round: see records.py
clients.jsonl   per-client accuracy, one line a test
checkpoint/     see checkpoint.py
files/          the user's own Python files that the run needs: see kept_files.py
summary.json    written at the end
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..core.errors import RunError
from .checkpoint import Checkpoints
from .files import finite, read_json, write_atomic, write_json

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

OF_A_RUN = (
    *("about.json", "inputs.json", "class_counts.dat"),
    *("metrics.jsonl", "clients.jsonl", "summary.json"),
)
OF_OTHERS = ("failed.json", "metrics.csv", "metrics.parquet", "mlflow.json")  # studies and trackers


class RunDir:
    """Paths and files of a run."""

    def __init__(self, path: Path):
        self.path = path
        self.checkpoints = Checkpoints(path)

    @classmethod
    def create(cls, path: Path, config: dict[str, Any], force: bool = False) -> RunDir:
        """A new directory; an existing run is never overwritten unless asked for."""
        if (path / "config.json").exists() and not force:
            raise RunError(
                f"{path} already holds a run: continue it with `protofed resume {path}`, "
                "choose another `out`, or start over with `force`"
            )
        run = cls(path)
        if (path / "files" / "index.json").exists():  # copies of an earlier run: see kept_files.py
            shutil.rmtree(path / "files", ignore_errors=True)
        old = [path / name for name in (*OF_A_RUN, *OF_OTHERS)]
        try:
            path.mkdir(parents=True, exist_ok=True)
            for file in [*old, run.checkpoints.manifest, run.checkpoints.previous]:
                file.unlink(missing_ok=True)
        except OSError as error:
            raise RunError(f"cannot create {path}: {error.strerror or error}") from error
        write_json(path / "config.json", config)
        return run

    @classmethod
    def open(cls, path: Path) -> RunDir:
        """The directory of a run that is there."""
        if not (path / "config.json").exists():
            raise RunError(f"{path} is not a run directory: it has no config.json")
        found = read_json(path / "config.json")  # a damaged one shows now
        if not isinstance(found, dict) or not isinstance(found.get("rounds"), dict) or "method" not in found:
            raise RunError(f"{path / 'config.json'} is damaged: it is not the configuration of a run")
        return cls(path)

    @property
    def config(self) -> dict[str, Any]:
        """The resolved configuration."""
        return dict(read_json(self.path / "config.json"))

    @property
    def summary(self) -> dict[str, Any] | None:
        """What summary.json says; None for a run that is not finished."""
        path = self.path / "summary.json"
        if not path.exists():
            return None
        found = read_json(path)
        if not isinstance(found, dict):
            raise RunError(f"{path} is damaged; remove it, and `protofed resume` writes it again")
        told, there = found.get("rounds"), self.lines("metrics.jsonl")
        if told is not None and told != (there[-1]["round"] if there else 0):
            raise RunError(
                f"{self.path} is damaged: it had {told} rounds, and metrics.jsonl does not hold them all; "
                "run it anew with --force, or remove the folder"
            )
        return found

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other processes from writing to the run at the same time."""
        if fcntl is None:
            yield
            return
        handle = os.open(self.path, os.O_RDONLY)
        try:
            self._lock(handle)
            yield
        finally:
            os.close(handle)

    def _lock(self, handle: int) -> None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(
                f"{self.path} is being written by another process; wait for it, or stop it"
            ) from None
        except OSError:
            pass  # a file system without locks

    def append(self, name: str, record: dict[str, Any]) -> None:
        """Add a line and flush it to disk."""
        try:
            with open(self.path / name, "a") as file:
                file.write(json.dumps(finite(record)) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise RunError(f"cannot write {self.path / name}: {error.strerror or error}") from error

    def lines(self, name: str) -> list[dict[str, Any]]:
        """All whole lines. A last line cut off by a crash is left out."""
        path = self.path / name
        if not path.exists():
            return []
        return list(_whole_lines(path.read_text(errors="replace").split("\n")))

    def rewind(self, round: int) -> None:
        """Drop the lines after `round`, which a resumed run will write again."""
        for name in ("metrics.jsonl", "clients.jsonl"):
            kept = [line for line in self.lines(name) if line["round"] <= round]
            if (self.path / name).exists():
                write_atomic(self.path / name, "".join(json.dumps(x) + "\n" for x in kept).encode())

    def longer(self, rounds: int) -> dict[str, Any]:
        """The configuration with more rounds."""
        config = self.config
        done = max((line["round"] for line in self.lines("metrics.jsonl")), default=0)
        if rounds <= done:
            raise RunError(f"--rounds {rounds}: {self.path} has done {done} rounds already; give more")
        return {**config, "rounds": {**config["rounds"], "rounds": rounds}}

    def extend(self, config: dict[str, Any]) -> None:
        """Go on with a configuration of more rounds: a finished run is one on its way then."""
        summary = self.path / "summary.json"
        try:
            summary.unlink(missing_ok=True)
        except OSError as error:
            raise RunError(f"cannot go on with {self.path}: {error.strerror or error}") from error
        write_json(self.path / "config.json", config)

    def restate(self, setting: str, value: str) -> None:
        """Write a setting as this version means it, if the run of an earlier one wrote it otherwise."""
        if self.config.get(setting) != value:
            write_json(self.path / "config.json", {**self.config, setting: value})

    def finish(self, summary: dict[str, Any]) -> None:
        """Write the summary: the run has come to its end."""
        write_json(self.path / "summary.json", summary)


def _whole_lines(texts: Iterable[str]) -> Iterable[dict[str, Any]]:
    for text in texts:
        try:
            value = json.loads(text)
        except ValueError:
            continue
        if isinstance(value, dict):
            yield value
