"""`protofed.compare`: several methods on one setting, or runs that are there, as one table."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..config import Config, resolve
from ..core.errors import ConfigError
from ..result import Result, Results
from ..runs.directory import RunDir
from ..runs.frames import frame_of
from ..runs.kept_files import settings_with_kept
from ..runs.notebook import chart, table
from ..runs.outcome import Outcome
from ..studies.compare import Comparison, plan_comparison
from ..studies.compare import compare as compare_done
from ..studies.comparison_table import comparison_tables, heading
from ..studies.plan import Planned
from ..studies.runner import FINISHED, PAUSED, Done, carry_out
from ..studies.study_progress import StudyProgress
from ..studies.tables import Table

What = str | Path | Result | Results


@dataclasses.dataclass(repr=False)
class Compared:
    """The lines of a comparison: accuracy and cost of each method in each prediction mode, over its seeds.
    `runs` are the run directories, by row and seed."""

    comparison: Comparison
    tables: list[Table]
    runs: dict[str, Path]

    @property
    def table(self) -> Table:
        """Accuracy, as `protofed compare` prints it."""
        return self.tables[0]

    def to_frame(self) -> Any:
        """A pandas DataFrame with all numbers, a row for each method and prediction mode."""
        return frame_of([dataclasses.asdict(line) for line in self.comparison.lines])

    def markdown(self) -> str:
        """Both tables."""
        return "\n".join(one.markdown() for one in self.tables)

    def __repr__(self) -> str:
        shown = self.table
        rows = [shown.headings, *shown.rows]
        widths = [max(len(row[i]) for row in rows) for i in range(len(shown.headings))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
        return "\n".join([shown.title, *lines, *shown.notes])

    def _repr_html_(self) -> str:
        curves = {}
        for name, path in self.runs.items():
            run = Outcome.read(path)
            if run.main:
                curves[f"{name} ({run.main})"] = [(t.round, t.scores[run.main]["mean"]) for t in run.tests]
        return table(self.table.headings, self.table.rows, self.table.title) + chart(curves)


def compare(
    what: Sequence[What],
    *,
    seeds: int = 1,
    out: str | Path = "runs/compare",
    modes: str = "all",
    progress: bool = False,
    **settings: Any,
) -> Compared:
    """Compare methods on one setting (names, as `protofed compare` takes them), or runs that are there:
    results of `run` and `federate` with `out`, or run directories.

    Methods get the same split, first weights, participants and batches. Runs that are finished in `out` are
    reused.
    """
    if isinstance(what, str | Path | Result) or not what:
        raise ConfigError("compare: expected a list of methods, of results or of run directories")
    paths = [path for one in what for path in _paths(one)]
    if paths and any(not _paths(one) for one in what):
        raise ConfigError("compare: methods are carried out, runs are read: give one kind, not both")
    if paths:
        if settings:
            raise ConfigError(f"compare: {next(iter(settings))}: runs that are there have their settings")
        done = {str(one.path): one for one in _found(paths)}
    else:
        plan = plan_comparison([str(one) for one in what], settings, seeds)
        with StudyProgress(quiet=not progress) as watcher:
            done = carry_out(plan, Path(out).absolute() / "runs", None, watcher)
    found = compare_done(list(done.values()))
    if not found.lines:
        raise ConfigError(f"compare: nothing to compare: {'; '.join(_reasons(found)) or 'no run has a test'}")
    title = heading([one.planned.config for one in done.values()])
    runs = {_name(one): one.path for one in done.values() if one.state in (FINISHED, PAUSED)}
    return Compared(found, comparison_tables(found, title, modes), runs)


def _reasons(found: Comparison) -> list[str]:
    told: Mapping[str, str] = {**found.refused, **found.failed}
    return [f"{row}: {message}" for row, message in told.items()]


def _name(done: Done) -> str:
    return f"{done.planned.row}, seed {done.planned.seed}"


def _paths(one: What) -> list[Path]:
    """Run directories that are meant; none for the name of a method."""
    if isinstance(one, Results):
        return [path for run in one for path in _paths(run)]
    if isinstance(one, Result):
        if one.path is None:
            raise ConfigError("compare: a result without a run directory; give `out` to run or federate")
        return [one.path]
    path = Path(one)
    if (path / "config.json").exists():
        return [path.absolute()]
    if isinstance(one, Path):
        RunDir.open(path)  # says what is missing
    return []


def _found(paths: Sequence[Path]) -> list[Done]:
    """Runs that are there, as those of a study: of one method, those that differ in the seed alone are one
    row; others have the names of their folders."""
    configs = {path: resolve(settings_with_kept(RunDir.open(path).config, path)) for path in paths}
    found = []
    for path, config in configs.items():
        alike = [one for one in configs.values() if one.method == config.method]
        plain = {_apart_from_seed(one) for one in alike}
        seeds = {one.seed for one in alike}
        row = (
            config.method
            if len(plain) == 1 and len(seeds) == len(alike)
            else f"{config.method} ({path.name})"
        )
        state = FINISHED if RunDir.open(path).summary else PAUSED
        found.append(Done(Planned(row, config), path, state))
    return found


def _apart_from_seed(config: Config) -> str:
    return repr(dataclasses.replace(config, seed=0))
