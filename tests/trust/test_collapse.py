"""A collapsed run is never read as a result: it is said in the run, in its files and under every table."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from refusals import Call

import protofed
from protofed.algorithms.fedtgp import FedTGP, Server
from protofed.core.answer import Score, Signs
from protofed.core.data import LocalData
from protofed.core.scoring import relative_spread
from protofed.metrics.collapse import baseline, collapse, still_as_high
from protofed.ops.prototypes import supported
from protofed.runs.findings import Aloud, baseline_text
from protofed.runs.outcome import Outcome

DIGITS = {"data": "digits", "models": "mlp", "partition": "nway:n=3,stdev=1,k=10", "clients": 20, "seed": 7}
TOO_LITTLE = {"batch_size": 8, "lr": 0.01, "momentum": 0.5, "epochs": 1, "rounds": 20, "eval_every": 20}
ENOUGH = {"batch_size": 8, "lr": 0.05, "momentum": 0.5, "epochs": 5, "rounds": 12, "eval_every": 12}


def score(n: int, guesses: int, majority: int, own: int = 3, few: int = 0, spread: float = 0.5) -> Score:
    return Score(0, n, {"clf": 0}, 0.0, {}, Signs({"clf": guesses}, majority, own, few, spread))


def kinds(record: dict[str, Any]) -> list[str]:
    return [one["kind"] for one in record["findings"]]


# numbers by hand


def test_majority_and_chance_are_means_over_the_clients() -> None:
    """4 of 10 and 3 of 4 test samples of one class: (40 + 75)/2. Two and four own classes: (50 + 25)/2."""
    found = baseline([score(10, 9, 4, own=2), score(4, 4, 3, own=4), score(0, 0, 0)], classes=5)
    assert found is not None
    assert (found.majority, found.chance, found.chance_own) == pytest.approx((57.5, 20, 37.5))
    assert baseline_text(found, ["clf", "lp"]) == "majority class 57.5 %, chance 20.0 % (lp: 37.5 %)"
    assert baseline([score(0, 0, 0)], 5) is None


@pytest.mark.parametrize(
    ("guesses", "constant"),
    [(10, True), (9, False), (4, False)],  # 10 samples, 6 of them of other classes: 0.1 · 6 < 1
)
def test_constant_is_held_against_how_mixed_the_samples_are(guesses: int, constant: bool) -> None:
    assert bool(collapse([score(10, guesses, 4)]).constant) is constant


def test_a_client_with_one_test_class_says_nothing_of_constancy() -> None:
    assert not collapse([score(10, 10, 10)]).constant
    assert not collapse([score(100, 100, 100), score(10, 4, 4)]).constant


def test_a_mode_that_not_all_clients_have_is_left_out() -> None:
    other = Score(1, 10, {"lp": 4}, 0.0, {}, Signs({"lp": 10}, 4, 3, 0, 0.5))
    assert not collapse([score(10, 10, 4), other]).constant


def test_spread_of_embeddings() -> None:
    assert relative_spread(torch.ones(4, 3)) == 0
    assert relative_spread(torch.eye(3)) == pytest.approx((2 / 3) ** 0.5)
    mostly_dead = torch.zeros(8, 3).index_fill(0, torch.tensor([2]), 1.0)
    assert relative_spread(mostly_dead) == 0
    assert relative_spread(torch.ones(1, 3)) != relative_spread(torch.ones(1, 3))  # NaN: one sample
    signs = collapse([score(9, 3, 3, spread=0.0), score(9, 3, 3), score(9, 3, 3, spread=float("nan"))])
    assert (signs.equal, signs.embedded) == (1, 2)


def test_a_loss_counts_as_fallen_against_the_first_rounds() -> None:
    assert not still_as_high([2.3, 2.3, 2.3, 2.3])  # too early
    assert still_as_high([2.3] * 5)
    assert still_as_high([1.0, 5.0, 5.0, 5.0, 5.0, 4.99])  # terms came in round 2, nothing fell since
    assert not still_as_high([1.0, 5.0, 4.0, 3.0, 3.0, 3.0])


def test_few_samples_warn_only_where_all_weigh_alike() -> None:
    assert collapse([score(9, 3, 3, own=4, few=2), score(9, 3, 3, own=6, few=0)]).few == 0.2
    assert FedTGP().weighs_alike
    assert not FedTGP(min_count=3).weighs_alike


def test_min_count_leaves_classes_out() -> None:
    data = LocalData(torch.zeros(6, 1), torch.tensor([0, 0, 0, 1, 1, 2]))
    seen = torch.tensor([15.0, 10.0, 5.0])  # over five epochs: what counts is samples
    assert supported(seen, data, 1).tolist() == [15, 10, 5]
    assert supported(seen, data, 3).tolist() == [15, 0, 0]


@pytest.mark.parametrize(
    ("margin", "tau", "delta", "said"),
    [("adaptive", 100, 100, 1), ("adaptive", 100, 99, 0), ("fixed", 100, 100, 0), ("adaptive", 10, 10, 0)],
)
def test_fedtgp_tells_of_a_margin_at_its_clip(margin: str, tau: float, delta: float, said: int) -> None:
    """The default clip, 10, is where the margin is meant to stop."""
    state = Server(torch.zeros(2, 2), torch.ones(2, dtype=torch.int64), {}, torch.tensor([float(delta)]))
    assert len(FedTGP(margin=margin, tau=tau).remarks(state)) == said


def test_said_once_and_not_while_a_run_starts(caplog: pytest.LogCaptureFixture) -> None:
    finding = {"kind": "loss", "text": "it has not fallen", "modes": []}
    aloud = Aloud("fedproto", planned=100)
    with caplog.at_level(logging.WARNING, "protofed"):
        for round in (5, 24, 25, 26, 100):
            aloud.say({"round": round, "findings": [finding]})
    assert caplog.messages == ["fedproto, round 25: it has not fallen"]


# runs


def test_settings_that_collapse_are_noticed(tmp_path: Path) -> None:
    """FedProto's prototypes are all exactly zero here, and 37 % is the share of the majority class."""
    protofed.run("fedproto", preset="paper", out=tmp_path / "run", **DIGITS, **TOO_LITTLE)
    run = Outcome.read(tmp_path / "run")
    assert {"prototypes", "constant"} <= {finding.kind for finding in run.findings}
    assert run.baseline is not None
    assert run.last("gp_local") == pytest.approx(run.baseline.majority, abs=1)
    assert "exactly zero" in run.findings[0].text or "exactly zero" in run.findings[1].text
    assert run.directory is not None
    assert run.directory.summary is not None
    assert run.directory.summary["findings"] == [finding.text for finding in run.findings]


@pytest.mark.parametrize("method", ["fedavg", "fedtgp"])
def test_methods_that_learn_nothing_are_noticed(method: str) -> None:
    last = protofed.run(method, preset="paper", **DIGITS, **TOO_LITTLE).metrics[-1]
    assert {"constant", "majority", "loss"} & set(kinds(last))


@pytest.mark.parametrize("method", ["fedproto", "local", "fedproto_margin"])
def test_no_false_alarm_where_methods_learn(method: str) -> None:
    last = protofed.run(method, preset="paper", **DIGITS, **ENOUGH).metrics[-1]
    assert kinds(last) == []


@pytest.mark.parametrize("engine", ["cohort", "workers"])
def test_engines_find_the_same(engine: str) -> None:
    settings = {**DIGITS, **TOO_LITTLE, "clients": 6, "rounds": 6, "eval_every": 1, "dtype": "float64"}
    one, two = (
        protofed.run("fedproto", engine=name, workers=2, **settings).metrics
        for name in ("sequential", engine)
    )
    assert [line["findings"] for line in one] == [line["findings"] for line in two]
    assert [line["baseline"] for line in one] == [line["baseline"] for line in two]
    assert any(line["findings"] for line in one)


def test_the_command_warns_and_show_repeats_it(tmp_path: Path) -> None:
    out = str(tmp_path / "run")
    small = ["--models", "mlp", "--clients", "4", "--rounds", "3", "--lr", "1e-9", "--engine", "sequential"]
    start = [sys.executable, "-m", "protofed"]
    ran = subprocess.run([*start, "run", "fedavg", *small, "--out", out], capture_output=True, text=True)
    assert ran.returncode == 0
    warnings = [
        line for line in ran.stderr.splitlines() if line.startswith("protofed: warning: fedavg, round 3")
    ]
    assert len(warnings) == len(json.loads((tmp_path / "run" / "summary.json").read_text())["findings"]) > 0
    shown = subprocess.run([*start, "show", out], capture_output=True, text=True).stdout
    assert "majority class" in shown
    assert "chance 10.0 %" in shown
    assert "warning: " in shown


def test_a_margin_at_its_clip_is_seen_in_run_show_and_report(call: Call) -> None:
    """A high learning rate drives the prototypes apart until δ reaches τ."""
    setting = ("--preset", "paper", "--tau", "10.1", "--lr", "0.5", "--epochs", "5", "--rounds", "10")
    small = ("--clients", "4", "--models", "mlp", "--engine", "sequential", "--eval-every", "10")
    done = call("run", "fedtgp", *setting, *small, "--out", "r")
    said = "stands at its largest value, tau=10.1"
    assert done.code == 0
    assert f"protofed: warning: fedtgp, round 10: the margin δ {said}" in done.err
    assert f"warning: the margin δ {said}" in call("show", "r").out
    assert call("report", "r", "--out", "r.html", "--points", "8", "--quiet").code == 0
    assert said in Path("r.html").read_text()
