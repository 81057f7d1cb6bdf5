"""Carry out planned runs: start, resume, reuse what is finished and the same, stop when the time is up.

With a budget, the runs of the first seed come first, and among them those that others are compared with.
Each unfinished run may use an equal share of the time that is left, so that every row of a table gets some
rounds; what one does not use goes to the next.
A run stops at a checkpoint and goes on from there when the study is called again. One that failed (its
training diverged) is left out of the tables, and tried again, last, when the study is called again.

Several calls may share a folder, on several cores: a run that another process is at is left to it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from .. import experiment
from ..core.errors import ConfigError, DataError, MessageError
from ..runs.about import has_about
from ..runs.directory import RunDir
from ..runs.lock import Busy
from ..runs.seals import erase_whole, read_whole, there, write_whole
from .model_measures import keep
from .plan import Planned
from .reuse import OnShelf, Shelf

FINISHED, PAUSED, REFUSED, FAILED, WAITING = "finished", "paused", "refused", "failed", "not started"
ELSEWHERE = "left to another process"
FAILURE = "failed.json"  # in the directory of a run that failed


@dataclass(frozen=True)
class Done:
    """What became of a planned run."""

    planned: Planned
    path: Path
    state: str
    message: str = ""
    reused: bool = False  # finished before this study was called
    found: OnShelf | None = None  # what was on disk


class Watcher(Protocol):
    """Told what was found of each run on disk, and about each run and each round."""

    def found(self, done: Done) -> None:
        """What was on disk of a run, before any is carried out."""

    def begin(self, number: int, total: int, planned: Planned) -> None:
        """Run `number` of `total` begins."""

    def round(self, record: dict[str, Any]) -> None:
        """A round of it is over."""

    def end(self, done: Done) -> None:
        """It is done, failed or stopped."""


class TimeIsUp(Exception):
    """Raised between two rounds, right after a checkpoint."""


def carry_out(
    plan: Sequence[Planned],
    root: Path,
    budget: float | None = None,
    watcher: Watcher | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, Done]:
    """Run what is not finished, and return what became of every key.

    `budget` is in seconds; None means no limit, 0 starts nothing. Planned runs with the same key are one.
    """
    unique = _merged(plan)
    aims = {planned.reference.key for planned in unique.values() if planned.reference}
    ordered = sorted(unique, key=lambda key: (unique[key].seed, key not in aims))
    found = _look_up(unique, root, watcher)
    paths = {key: done.path for key, done in found.items()}
    left = [key for key in ordered if found[key].state != FINISHED]
    todo = sorted(left, key=lambda key: found[key].state == FAILED)
    until = None if budget is None else clock() + budget
    refused: dict[str, str] = {}  # a row that was refused once is not asked again for its other seeds
    for number, key in enumerate(todo, 1):
        planned = unique[key]
        if planned.row in refused:
            found[key] = replace(found[key], state=REFUSED, message=refused[planned.row])
            continue
        share = None
        if until is not None:
            same_seed = sum(unique[k].seed == planned.seed for k in todo[number - 1 :])
            share = (until - clock()) / same_seed
            if share <= 0:
                break
        if watcher:
            watcher.begin(number, len(todo), planned)
        done = _run(planned, paths, _Pacer(planned, share, watcher, clock))
        found[key] = replace(done, found=found[key].found)
        if found[key].state == REFUSED:
            refused[planned.row] = found[key].message
        if watcher:
            watcher.end(found[key])
    for key in todo:
        if found[key].state == ELSEWHERE and _is_finished(paths[key]):
            found[key] = replace(found[key], state=FINISHED, message="")
    _raise_if_all_refused(list(found.values()))
    return {planned.key: found[planned.key] for planned in plan}


def _merged(plan: Sequence[Planned]) -> dict[str, Planned]:
    """One run for each key, with the looks of all that planned it."""
    unique: dict[str, Planned] = {}
    for planned in plan:
        first = unique.setdefault(planned.key, planned)
        looks = tuple(dict.fromkeys((*first.looks, *planned.looks)))
        unique[planned.key] = replace(first, looks=looks, reference=first.reference or planned.reference)
    return unique


def _look_up(unique: Mapping[str, Planned], root: Path, watcher: Watcher | None) -> dict[str, Done]:
    """What is on disk of each planned run; those of one data set together, so that it is read once."""
    shelf, found = Shelf(root), {}
    for key in sorted(unique, key=lambda key: unique[key].config.data):
        found[key] = _look(unique[key], shelf.find(unique[key]))
    if watcher:
        for key in unique:
            watcher.found(found[key])
    return found


class _Pacer:
    """The `progress` of a run: passes records on, and stops the run when its time is up."""

    def __init__(
        self, planned: Planned, share: float | None, watcher: Watcher | None, clock: Callable[[], float]
    ):
        self.every = planned.config.system.checkpoint_every
        self.last = planned.config.rounds.rounds
        self.watcher = watcher
        self.clock = clock
        self.until = None if share is None else clock() + share
        self.look: Callable[[int], None] = lambda round: None

    def __call__(self, record: dict[str, Any]) -> None:
        self.look(record["round"])
        if self.watcher:
            self.watcher.round(record)
        at_checkpoint = record["round"] % self.every == 0 and record["round"] != self.last
        if self.until is not None and at_checkpoint and self.clock() >= self.until:
            raise TimeIsUp


def _looker(
    planned: Planned, built: experiment.Experiment, paths: Mapping[str, Path]
) -> Callable[[int], None]:
    """Takes the measures of a round, between it and the next."""

    def look(round: int) -> None:
        reference = paths.get(planned.reference.key) if planned.reference else None
        for one in planned.looks:
            if one.round == round:
                keep(built, paths[planned.key], one.measure, reference)

    return look


def _look(planned: Planned, found: OnShelf) -> Done:
    path = found.path
    if not found.there:
        return Done(planned, path, WAITING, found=found)
    if RunDir.open(path).summary is not None:
        return Done(planned, path, FINISHED, reused=True, found=found)
    if there(path, FAILURE):
        return Done(planned, path, FAILED, str(read_whole(path, FAILURE)["message"]), found=found)
    return Done(planned, path, PAUSED, found=found)


def _run(planned: Planned, paths: Mapping[str, Path], pacer: _Pacer) -> Done:
    path = paths[planned.key]
    if _is_finished(path):  # by another process, since this one looked
        return Done(planned, path, FINISHED, reused=True)
    try:
        built, directory = _open(planned, path)
        if directory.summary is not None:
            return Done(planned, path, FINISHED, reused=True)
        pacer.every = built.config.system.checkpoint_every  # of a resumed run: as it was started
        pacer.look = _looker(planned, built, paths)
        erase_whole(path, FAILURE)
        experiment.carry_out(built, directory, pacer)
    except TimeIsUp:
        return Done(planned, path, PAUSED)
    except (ConfigError, DataError) as error:  # the method cannot do this, or its data is missing; others may
        return Done(planned, path, REFUSED, str(error))
    except MessageError as error:  # for example, the training diverged
        write_whole(path, FAILURE, {"message": str(error)})
        return Done(planned, path, FAILED, str(error))
    except Busy:
        return Done(planned, path, ELSEWHERE)
    return Done(planned, path, FINISHED)


def _is_finished(path: Path) -> bool:
    return has_about(path) and RunDir.open(path).summary is not None


def _open(planned: Planned, path: Path) -> tuple[experiment.Experiment, RunDir]:
    built = None if has_about(path) else experiment.build(planned.config)
    if built is None or has_about(path):  # another process may have begun it meanwhile
        directory = RunDir.open(path)
        directory.lock.take()
        return experiment.reopen(directory), directory
    return built, RunDir.create(path, built.config.to_dict(), force=True)  # no round was played there


def _raise_if_all_refused(done: Sequence[Done]) -> None:
    """A mistake in the setting concerns every method: then there is no table to make."""
    if done and all(one.state == REFUSED for one in done):
        raise ConfigError(done[0].message)


def read_budget(text: str) -> float:
    """Seconds of "90s", "20m", "1h30m".

    >>> read_budget("1h30m")
    5400.0
    """
    parts = re.fullmatch(r"(?:([\d.]+)h)?(?:([\d.]+)m)?(?:([\d.]+)s)?", text.strip())
    try:
        if parts is None or not any(parts.groups()):
            raise ValueError(text)
        hours, minutes, seconds = (float(part or 0) for part in parts.groups())
    except ValueError as error:
        raise ConfigError(f"budget: expected a time such as 20m, 90s or 1h30m, got {text!r}") from error
    return 3600 * hours + 60 * minutes + seconds
