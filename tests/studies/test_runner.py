"""Runs that are started, resumed, left out, refused, or stopped by a budget."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from protofed import experiment
from protofed.core.errors import ConfigError, DataError, MessageError
from protofed.runs.directory import RunDir
from protofed.runs.lock import Lock
from protofed.studies.compare import compare, plan_comparison
from protofed.studies.runner import (
    ELSEWHERE,
    FAILED,
    FINISHED,
    PAUSED,
    REFUSED,
    WAITING,
    carry_out,
    read_budget,
)

SMALL = {"models": "mlp", "clients": 4, "engine": "sequential", "rounds": 3, "epochs": 1}


class Watch:
    """Notes what happens, and may interrupt."""

    def __init__(self, stop_at: tuple[int, int] | None = None):
        self.begun: list[str] = []
        self.rounds: list[int] = []
        self.reused: list[str] = []
        self.notes: list[str] = []
        self.stop_at = stop_at  # (run number, round)

    def found(self, done: Any) -> None:
        self.reused += [f"{done.planned.row} s{done.planned.seed}"] * done.reused
        self.notes += [done.found.note] * bool(done.found.note)

    def begin(self, number: int, total: int, planned: Any) -> None:
        self.begun.append(f"{planned.row} s{planned.seed}")

    def round(self, record: dict[str, Any]) -> None:
        self.rounds.append(record["round"])
        if self.stop_at == (len(self.begun), record["round"]):
            raise KeyboardInterrupt

    def end(self, done: Any) -> None:
        self.last = done


def lines_of(found: dict[str, Any]) -> list[Any]:
    """The table without times, NaN as a word: it equals nothing."""
    lines = [dataclasses.replace(line, seconds=0.0) for line in compare(list(found.values())).lines]
    return [{key: str(value) for key, value in vars(line).items()} for line in lines]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROTOFED_CACHE", str(tmp_path / "cache"))


def test_an_interrupted_comparison_goes_on(tmp_path: Path) -> None:
    """Stopped in round 2 of the second run: the first is not repeated, the second goes on at round 2 (the
    interruption came before its end was noted), and the table equals that of an undisturbed comparison."""
    plan = plan_comparison(["local", "fedproto"], SMALL, 2)
    with pytest.raises(KeyboardInterrupt):
        carry_out(plan, tmp_path / "a", watcher=Watch((2, 2)))
    again = Watch()
    found = carry_out(plan, tmp_path / "a", watcher=again)
    assert again.begun == ["fedproto s0", "local s1", "fedproto s1"]
    assert again.rounds == [3, 1, 2, 3, 1, 2, 3]
    assert lines_of(found) == lines_of(carry_out(plan, tmp_path / "b"))


def test_finished_runs_are_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_comparison(["local"], SMALL, 1)
    first = carry_out(plan, tmp_path)

    def never(*args: Any) -> None:
        raise AssertionError("a finished run was touched")

    monkeypatch.setattr(experiment, "build", never)
    monkeypatch.setattr(experiment, "reopen", never)
    again = carry_out(plan, tmp_path)
    assert [one.path for one in again.values()] == [one.path for one in first.values()]
    assert [(one.state, one.reused) for one in again.values()] == [(FINISHED, True)]
    assert [(one.state, one.reused) for one in first.values()] == [(FINISHED, False)]


def test_another_comparison_uses_the_same_runs(tmp_path: Path) -> None:
    carry_out(plan_comparison(["fedproto"], SMALL, 1), tmp_path)
    watch = Watch()
    carry_out(plan_comparison(["fedproto:lam=0.1", "local"], SMALL, 1), tmp_path, watcher=watch)
    assert watch.begun == ["local s0"]
    assert watch.reused == ["fedproto:lam=0.1 s0"]


def test_a_run_of_another_process_is_left_to_it(tmp_path: Path) -> None:
    """Another call has begun the first run: this one makes the second. When the other is gone, the first goes
    on from its checkpoint."""
    plan = plan_comparison(["local", "fedproto"], SMALL, 1)
    with pytest.raises(KeyboardInterrupt):
        carry_out(plan, tmp_path / "a", watcher=Watch((1, 2)))
    other = Lock(next(iter(carry_out(plan, tmp_path / "a", budget=0).values())).path)
    other.take()
    found = carry_out(plan, tmp_path / "a")
    assert [one.state for one in found.values()] == [ELSEWHERE, FINISHED]
    assert {line.method for line in compare(list(found.values())).lines} == {"fedproto"}
    other.release()
    watch = Watch()
    found = carry_out(plan, tmp_path / "a", watcher=watch)
    assert [one.state for one in found.values()] == [FINISHED, FINISHED]
    assert watch.rounds == [3]


@pytest.mark.parametrize("when", ["before it is built", "while it is built"])
def test_a_run_that_another_process_finishes_meanwhile_is_taken(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both look when neither run is there; the other makes `fedproto` while this one is at `local`, or while
    it reads the data for `fedproto`."""
    plan = plan_comparison(["local", "fedproto"], SMALL, 1)
    build = experiment.build
    asked: list[str] = []

    def with_another(config: Any) -> Any:
        asked.append(config.method)
        if asked == (["local"] if when.startswith("before") else ["local", "fedproto"]):
            with monkeypatch.context() as alone:
                alone.setattr(experiment, "build", build)
                carry_out(plan[1:], tmp_path)
        return build(config)

    monkeypatch.setattr(experiment, "build", with_another)
    watch = Watch()
    found = carry_out(plan, tmp_path, watcher=watch)
    assert [(one.state, one.reused) for one in found.values()] == [(FINISHED, False), (FINISHED, True)]
    assert watch.rounds == [1, 2, 3]


def test_a_method_that_refuses_is_listed_once(tmp_path: Path) -> None:
    """SCAFFOLD needs plain SGD, FedAvg one architecture. The others go on."""
    settings = {**SMALL, "models": "mlp|small_cnn:dim=32", "rounds": 1}
    watch = Watch()
    found = carry_out(plan_comparison(["local", "scaffold", "fedavg"], settings, 2), tmp_path, watcher=watch)
    assert watch.begun == ["local s0", "scaffold s0", "fedavg s0", "local s1"]
    refused = compare(list(found.values())).refused
    assert list(refused) == ["scaffold", "fedavg"]
    assert "needs one architecture for all clients, got 2" in refused["fedavg"]
    assert not list(tmp_path.glob("fedavg*"))


def test_missing_data_of_one_row_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_comparison(["local", "fedproto"], {**SMALL, "rounds": 1}, 1)
    real = experiment.build

    def missing(config: Any) -> Any:
        if config.method == "local":
            raise DataError("pacs: no such file")
        return real(config)

    monkeypatch.setattr(experiment, "build", missing)
    states = [(one.state, one.message) for one in carry_out(plan, tmp_path).values()]
    assert states == [(REFUSED, "pacs: no such file"), (FINISHED, "")]


def test_a_mistake_that_concerns_all_stops(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="newcomers: 4 of 4"):
        carry_out(plan_comparison(["local", "fedproto"], {**SMALL, "newcomers": 4}, 1), tmp_path)


def test_a_run_that_diverges_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_comparison(["local", "fedproto"], {**SMALL, "rounds": 1}, 1)
    real = experiment.Experiment.play

    def diverge(built: Any, directory: RunDir, progress: Any) -> Any:
        if built.config.method == "local":
            raise MessageError("upload of client 0 is not finite")
        return real(built, directory, progress)

    monkeypatch.setattr(experiment.Experiment, "play", diverge)
    states = [(one.planned.row, one.state) for one in carry_out(plan, tmp_path).values()]
    assert states == [("local", FAILED), ("fedproto", FINISHED)]
    paused = carry_out(plan, tmp_path, budget=0.0)  # looked at again: it still failed, and why
    assert [one.state for one in paused.values()] == [FAILED, FINISHED]
    assert "client 0 is not finite" in next(iter(paused.values())).message
    monkeypatch.setattr(experiment.Experiment, "play", real)  # and it is tried again
    assert [one.state for one in carry_out(plan, tmp_path).values()] == [FINISHED, FINISHED]


def test_a_run_that_was_prolonged_is_not_taken_for_the_planned_one(tmp_path: Path) -> None:
    plan = plan_comparison(["local"], {**SMALL, "rounds": 1}, 1)
    (done,) = carry_out(plan, tmp_path).values()
    directory = RunDir.open(done.path)
    directory.extend(directory.longer(4))
    watch = Watch()
    (again,) = carry_out(plan, tmp_path, watcher=watch).values()
    assert (again.path.name, again.state) == (f"{done.path.name}-2", FINISHED)
    assert watch.notes == [f"{done.path.name} is not the same: it was prolonged"]


class OneSecondARound(Watch):
    """Watches, and is the clock."""

    now = 0.0

    def round(self, record: dict[str, Any]) -> None:
        self.now += 1
        super().round(record)

    def __call__(self) -> float:
        return self.now


def test_a_budget_pauses_at_a_checkpoint_and_goes_on(tmp_path: Path) -> None:
    """Time is up after round 1; the next checkpoint is that of round 2."""
    plan = plan_comparison(["local"], {**SMALL, "rounds": 6, "checkpoint_every": 2}, 1)
    clock = OneSecondARound()
    (done,) = carry_out(plan, tmp_path, budget=1.0, watcher=clock, clock=clock).values()
    assert (done.state, clock.rounds) == (PAUSED, [1, 2])
    (line,) = compare([done]).lines
    assert (line.rounds, line.planned_rounds) == (2, 6)
    watch = Watch()
    (done,) = carry_out(plan, tmp_path, watcher=watch).values()
    assert (done.state, watch.rounds) == (FINISHED, [3, 4, 5, 6])


def test_the_first_seed_comes_first_and_shares_are_equal(tmp_path: Path) -> None:
    """Eight rounds of time: four for each run of seed 0, none for seed 1."""
    plan = plan_comparison(["local", "fedproto"], {**SMALL, "rounds": 50}, 2)
    clock = OneSecondARound()
    found = carry_out(plan, tmp_path, budget=8.0, watcher=clock, clock=clock)
    assert clock.begun == ["local s0", "fedproto s0"]
    assert clock.rounds == [1, 2, 3, 4, 1, 2, 3, 4]
    assert [one.state for one in found.values()] == [PAUSED, WAITING, PAUSED, WAITING]


def test_time_that_a_run_does_not_use_goes_to_the_others(tmp_path: Path) -> None:
    """Of nine rounds of time the first run (a third: three) uses two, so the other two have 3.5 each."""
    short = plan_comparison(["local"], {**SMALL, "rounds": 2}, 1)
    long = plan_comparison(["fedproto", "fedavg"], {**SMALL, "rounds": 50}, 1)
    clock = OneSecondARound()
    carry_out([*short, *long], tmp_path, budget=9.0, watcher=clock, clock=clock)
    assert clock.rounds == [1, 2, 1, 2, 3, 4, 1, 2, 3]


def test_no_time_starts_nothing(tmp_path: Path) -> None:
    found = carry_out(plan_comparison(["local"], SMALL, 1), tmp_path, budget=0.0)
    assert [one.state for one in found.values()] == [WAITING]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("20m", 1200), ("2h", 7200), ("1h30m", 5400), ("1.5m", 90)]
)
def test_budgets_as_text(text: str, seconds: float) -> None:
    assert read_budget(text) == seconds


@pytest.mark.parametrize("text", ["", "20", "m", "20x", "1m2h", "..m", "-5m"])
def test_budgets_that_make_no_sense(text: str) -> None:
    with pytest.raises(ConfigError, match="budget: expected a time such as 20m"):
        read_budget(text)


def test_refusal_state_is_reported(tmp_path: Path) -> None:
    plan = plan_comparison(["local", "scaffold"], {**SMALL, "rounds": 1}, 1)
    assert [one.state for one in carry_out(plan, tmp_path).values()] == [FINISHED, REFUSED]
