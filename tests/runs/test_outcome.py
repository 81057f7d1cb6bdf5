"""The one reader of runs: what is missing never wins, and is left out of means; numbers by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from protofed.config import resolve
from protofed.core.errors import RunError
from protofed.runs.about import AboutRun, write_about
from protofed.runs.directory import RunDir
from protofed.runs.files import write_json
from protofed.runs.outcome import Outcome
from protofed.runs.records import headline, number_in, scores_of
from protofed.runs.seals import write_whole

NAN = math.nan
PLANNED = 30  # rounds: "smoothed" is over the last 3


def record(round: int, clf: float | None = None, tested: bool = True, **more: Any) -> dict[str, Any]:
    """A round that sends 10 parameters up and 5 down, in a second and half a second of tests."""
    cost = {way: {"params": n, "bytes": 4 * n, "meta_bytes": 8} for way, n in (("up", 10), ("down", 5))}
    test = {"acc": {"clf": {"mean": clf, "std": 1.0}}, "tested_clients": 3, "eval_seconds": 0.5}
    line = {"round": round, "train_loss": 1.0 / round, "clients": 2, "failed": {}, "seconds": 1.0, **cost}
    return {**line, **(test if tested else {}), **more}


def run_of(*values: float | None) -> Outcome:
    config = resolve({"method": "fedavg", "rounds": PLANNED}).to_dict()
    return Outcome([record(round, value) for round, value in enumerate(values, 1)], config)


def write(path: Path, lines: list[dict[str, Any]], about: AboutRun | None = None, **settings: Any) -> Path:
    run = RunDir.create(path, resolve({"method": "fedproto", "rounds": PLANNED, **settings}).to_dict())
    for line in lines:
        run.append("metrics.jsonl", line)
    if about:
        write_about(path, about)
    return path


# what is missing


@pytest.mark.parametrize("gap", [NAN, None, math.inf])
def test_a_gap_in_a_middle_round_never_wins(gap: float | None) -> None:
    run = run_of(50.0, gap, 40.0)
    assert run.best("clf") == (50.0, 1)
    assert run.last("clf") == 40.0
    assert math.isnan(run.at(2, "clf"))
    assert run.smoothed("clf") == 45.0
    assert [math.isnan(value) for value in run.curve("clf")] == [False, True, False]
    assert run.summary()["best"] == {"clf": {"mean": 50.0, "round": 1}}


def test_a_gap_at_the_end_is_the_last_value() -> None:
    run = run_of(50.0, NAN)
    assert math.isnan(run.last("clf"))
    assert run.best("clf") == (50.0, 1)


def test_a_gap_does_not_hide_convergence() -> None:
    """Five tests are looked at: those of rounds 1, 2, 4, 5 and 6."""
    plain, gap = run_of(*[90.0] * 6), run_of(90.0, 90.0, NAN, *[90.0] * 4)
    assert plain.converged("clf") == 5
    assert gap.converged("clf") == 6


def test_nothing_but_gaps() -> None:
    run = run_of(NAN, None)
    value, round = run.best("clf")
    assert math.isnan(value)
    assert round is None
    assert math.isnan(run.smoothed("clf"))
    assert run.converged("clf") is None
    assert run.main == "clf"


def test_gaps_are_null_in_files(tmp_path: Path) -> None:
    write_json(tmp_path / "summary.json", run_of(NAN, NAN).summary())
    found = json.loads((tmp_path / "summary.json").read_text())
    assert found["best"] == {"clf": {"mean": None, "round": None}}
    assert found["last"]["clf"] == {"mean": None, "std": 1.0, "worst": None, "worst10": None, "pooled": None}


@pytest.mark.parametrize("how", [{"tested": False}, {"acc": {}}])
def test_a_run_without_tests(how: dict[str, Any]) -> None:
    run = Outcome([record(1, **how), record(2, **how)], resolve({"method": "fedavg"}).to_dict())
    assert (run.tests, run.modes, run.main) == ([], [], None)
    assert math.isnan(run.last("clf"))
    assert run.best("clf")[1] is None
    summary = run.summary()
    assert (summary["main_mode"], summary["last"], summary["best"]) == (None, {}, {})
    assert summary["rounds"] == 2


def test_no_round_at_all(tmp_path: Path) -> None:
    run = Outcome.read(write(tmp_path / "a", []))
    assert (run.rounds, run.bytes, run.seconds, run.finished) == (0, 0, 0.0, False)
    assert math.isnan(run.last_loss)
    with pytest.raises(RunError, match="has no metrics"):
        run.summary()


def test_a_round_in_which_nobody_made_a_step_has_no_loss() -> None:
    config = resolve({"rounds": PLANNED}).to_dict()
    run = Outcome([record(1, 1.0), record(2, 1.0, train_loss=NAN)], config)
    assert math.isnan(run.last_loss)
    assert run.smoothed_line("train_loss") == 1.0
    assert math.isnan(run.column("train_loss")[1])
    assert number_in({"up": None}, ["up", "bytes"], 0) == 0


# numbers


def test_sums_and_curves_by_hand() -> None:
    run = run_of(10.0, 30.0, 30.0)
    assert run.best("clf") == (30.0, 2)  # the first of two
    assert (run.total("up", "params"), run.per_round("down"), run.bytes) == (30, 5.0, 180)
    assert run.bytes_until == {1: 60, 2: 120, 3: 180}
    assert run.seconds == 4.5
    assert run.until(2).rounds == 2
    assert run.until(1).best("clf") == (10.0, 1)
    assert run.summary()["up_bytes"] == 120


def test_segmentation_has_its_miou_as_a_mode() -> None:
    run = Outcome([record(1, 90.0, miou={"clf": 40.0}), record(2, 95.0, miou={"clf": None})])
    assert run.modes == ["clf", "miou_clf"]
    assert run.best("miou_clf") == (40.0, 1)
    assert run.at(1, "miou_clf", "pooled") == 40.0
    assert math.isnan(run.at(1, "miou_clf", "std"))
    assert math.isnan(run.last("miou_clf"))


def test_one_record() -> None:
    two = record(1, acc={"clf": {"mean": 10.0}, "gp_local": {"mean": 20.0}})
    assert headline(two, ["gp_local", "clf"]) == "gp_local 20.00 %"
    assert headline(two, []) == "clf 10.00 %"
    assert headline(record(1, tested=False), ["clf"]) == ""
    assert scores_of({"round": 1}) == {}


def test_who_took_part_who_failed_and_what_they_weigh() -> None:
    average = {"clients": [1, 4], "weights": [0.25, 0.75]}
    lines = [record(1, participants=[1, 4], late=[2], average=average), record(2, failed={"3": "gone"})]
    run = Outcome(lines)
    assert run.participants(1) == [1, 4]
    assert run.participants(2) is None
    assert run.averages == {1: average}
    assert run.failures == {2: {"3": "gone"}}


def test_accuracy_of_clients(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [record(1, 5.0), record(2, 6.0)])
    for round in (1, 2, 3):  # the third was not finished
        acc = {"clf": [10.0 * round, None]}
        RunDir.open(path).append("clients.jsonl", {"round": round, "clients": [7, 9], "acc": acc})
    run = Outcome.read(path)
    assert run.clients("clf") == {7: 20.0}
    assert run.clients("clf", 1) == run.until(1).clients("clf") == {7: 10.0}
    assert run.clients("odd") == {}


# names


def test_modes_and_classes_come_from_about(tmp_path: Path) -> None:
    lines = [record(1, acc={"clf": {"mean": 1.0}, "lp": {"mean": 2.0}})]
    about = AboutRun(modes=("lp", "clf"), classes=("cat", "dog"), groups=("mlp",), one_class=1)
    run = Outcome.read(write(tmp_path / "a", lines, about))
    assert run.modes == ["lp", "clf"]
    assert run.class_names == ("cat", "dog")
    assert run.summary()["groups"] == ["mlp"]
    assert run.summary()["one_class"] == 1


def test_an_older_run_asks_its_method(tmp_path: Path) -> None:
    acc = {mode: {"mean": 1.0} for mode in ("clf", "gp_all", "gp_local", "lp")}
    path = write(tmp_path / "a", [record(1, acc=acc)])
    assert Outcome.read(path).main == "gp_local"
    config = json.loads((path / "config.json").read_text())
    write_whole(path, "config.json", {**config, "method": "not_installed"})
    run = Outcome.read(path)
    assert run.modes == list(acc)
    assert run.class_names == ()


def test_before_training_and_rounds_to_a_target() -> None:
    """Means 10 before, then 20, 50 and 40 in rounds 2, 4 and 6."""
    lines: list[dict[str, Any]] = [{"round": r, "seconds": 1.0} for r in range(1, 7)]
    lines[0]["start"] = {"clf": {"mean": 10.0}}
    for round, value in {2: 20.0, 4: 50.0, 6: 40.0}.items():
        lines[round - 1]["acc"] = {"clf": {"mean": value}}
    run = Outcome(lines)
    assert run.start("clf") == 10.0
    assert math.isnan(run.start("gp_all"))
    assert math.isnan(Outcome([]).start("clf"))
    assert [run.reached("clf", target) for target in (20, 20.1, 50, 51)] == [2, 4, 4, None]
    assert run.until(4).seconds == 4.0


def test_the_released_spread_needs_counts(tmp_path: Path) -> None:
    """Two clients of 10: classifier 100 and 50, prototypes 80 and 70; running 90 and 75: 7.5 around 82.5."""
    run = RunDir.create(tmp_path / "run", resolve({}).to_dict())
    run.append("metrics.jsonl", {"round": 1, "acc": {"clf": {"mean": 75.0}}})
    acc = {"clf": [100.0, 50.0], "gp_local": [80.0, 70.0]}
    run.append("clients.jsonl", {"round": 1, "clients": [0, 1], "n": [10, 10], "acc": acc})
    outcome = Outcome.read(tmp_path / "run")
    assert outcome.released_spread("gp_local") == pytest.approx(7.5)
    assert outcome.released_spread("clf") == pytest.approx(12.5)  # 100 and 75
    assert math.isnan(outcome.released_spread("lp"))
