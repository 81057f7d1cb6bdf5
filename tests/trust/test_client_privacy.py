"""Client-level differential privacy: accounting, clipping, noise, refusals, and what runs show of it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from jaxtyping import Float, Int
from scipy.optimize import brentq
from scipy.stats import norm
from torch import Tensor

from protofed.core.algorithm import Leg
from protofed.core.answer import Replies, Reply
from protofed.core.averages import Averaged
from protofed.core.errors import ConfigError
from protofed.core.record import Record, Weights
from protofed.core.task import Turn
from protofed.testing import Toy, assert_close
from protofed.trust.accounting import epsilon
from protofed.trust.noise import _from_system
from protofed.trust.summands import contribution, shorten

QUIET = "client:noise=1e-12,clip=1e4"  # shortens nothing, adds next to nothing


class Rows(Record):
    mean: Float[Tensor, "J D"]
    cls: Int[Tensor, "J"]
    n: Int[Tensor, "J"]


ROWS = Leg(up=Rows, averages=(Averaged("mean", by="cls", weight="n"),))
CHECK_VALUES = {1: (3.73, 16.7, 37.3), 4: (1.08, 4.84, 10.8), 8: (0.60, 2.68, 6.00)}


@pytest.mark.parametrize("wanted", CHECK_VALUES)
def test_known_noise_multipliers_cost_what_they_should(wanted: int) -> None:
    for noise, rounds in zip(CHECK_VALUES[wanted], (1, 20, 100)):
        assert epsilon(noise, rounds, 1e-5) == pytest.approx(wanted, rel=0.005)


def test_the_cost_is_that_of_the_analytic_gaussian_and_never_below() -> None:
    """δ(ε) = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2) with μ = √T/z; beyond μ = 2.5 a bound above it."""
    for noise, rounds in ((4.84, 20), (2.0, 3), (1.0, 9)):
        mu = math.sqrt(rounds) / noise
        exact = brentq(
            lambda e, m=mu: norm.cdf(-e / m + m / 2) - math.exp(e) * norm.cdf(-e / m - m / 2) - 1e-5, 0, 100
        )
        found = epsilon(noise, rounds, 1e-5)
        assert exact - 1e-6 <= found <= exact * (1.001 if mu <= 2.5 else 1.1)
    assert epsilon(1.0, 0, 1e-5) == 0


def test_what_a_client_adds_is_shortened_as_a_whole() -> None:
    """Counts 3 and 4 of means (1, 0) and (0, 2), w = 2: (3, 0, 6; 0, 8, 8), of length √173."""
    up = Rows(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([0, 2]), torch.tensor([3, 4]))
    (whole,) = contribution(up, ROWS, None, 3, 2.0, 100.0)
    assert whole.tolist() == [3, 0, 6, 0, 0, 0, 0, 8, 8]
    (short,) = contribution(up, ROWS, None, 3, 2.0, 1.0)
    assert short.tolist() == pytest.approx([v / math.sqrt(173) for v in (3, 0, 6, 0, 0, 0, 0, 8, 8)])
    assert shorten(torch.zeros(2), 1.0).tolist() == [0, 0]


def test_several_parts_share_the_bound_and_weights_count_by_their_change() -> None:
    class Both(Record):
        weights: dict[str, Tensor]
        mean: Float[Tensor, "J D"]
        cls: Int[Tensor, "J"]

    leg = Leg(up=Both, averages=(Averaged("weights", weight="samples"), Averaged("mean", by="cls")))
    up = Both({"a": torch.tensor([4.0, 5.0]), "k": torch.tensor(7)}, torch.tensor([[0.0]]), torch.tensor([1]))
    change, rows = contribution(up, leg, Weights({"a": torch.tensor([1.0, 1.0])}), 2, 3.0, math.sqrt(2))
    assert change.tolist() == pytest.approx([0.6, 0.8])  # (3, 4), shortened to 1
    assert rows.tolist() == pytest.approx([0, 0, 0, 1])  # (0, 3), shortened to 1


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("fedproto", {}),
        ("fedproto", {"agg": "uniform"}),
        ("protonorm", {}),
        ("feddistill", {}),
        ("fedavg", {"weighting": "uniform"}),
        ("scaffold", {}),
        ("fml", {}),
    ],
)
def test_without_noise_and_shortening_the_method_is_itself(method: str, options: dict[str, Any]) -> None:
    plain, quiet = (Toy(method, options, more).build() for more in ({"seed": 1}, {"seed": 1, "dp": QUIET}))
    for _ in range(2):
        plain.federation.play()
        quiet.federation.play()
    both = [one.federation.state.arrays() for one in (plain, quiet)]
    assert_close(*({n: t for n, t in arrays.items() if n != "known"} for arrays in both), 1e-5)


def test_noise_has_the_deviation_z_times_b() -> None:
    built = Toy("fedavg", settings={"dp": "client:noise=3,clip=2"}).build()
    (guard,), state = built.federation.guards, built.federation.state
    zero = Replies(Reply(k, 5, Weights(dict(state.weights))) for k in range(6))
    (leg,) = built.task.algorithm.legs
    out = guard.combine(zero, state, leg, Turn(built.task, 1)).all()
    moved = torch.cat([(out[0].up.weights[n] - w).flatten() for n, w in state.weights.items()])
    assert float(moved.std()) * 6 == pytest.approx(6.0, rel=0.1)  # over six clients, whatever they sent
    assert [reply.n for reply in out] == [1] * 6
    again = guard.combine(
        Replies(Reply(k, 5, Weights(dict(state.weights))) for k in range(6)), state, leg, Turn(built.task, 1)
    )
    assert_close(out[0].up.weights, again.all()[0].up.weights, 0)  # the same seed, the same noise
    assert abs(float(_from_system(100_001).std()) - 1) < 0.02
    assert not torch.equal(_from_system(8), _from_system(8))


def test_one_client_moves_the_sum_by_no_more_than_the_bound_whatever_it_sends() -> None:
    built = Toy("fedproto", settings={"dp": "client:noise=1e-9,clip=1,weight=0.5"}).build()
    (guard,), (leg,) = built.federation.guards, built.task.algorithm.legs
    state, kind = built.federation.state, leg.up
    huge = kind(
        torch.full((2, 8), 1e9, dtype=torch.float64), torch.tensor([0, 3]), torch.tensor([10**6, 1]), {}
    )
    small = kind(torch.ones(1, 8, dtype=torch.float64) / 8, torch.tensor([0]), torch.tensor([1]), {})
    out = guard.combine(
        Replies([Reply(4, 9, huge), Reply(2, 9, small)]), state, leg, Turn(built.task, 1)
    ).all()
    assert [reply.client for reply in out] == [2, 4]
    assert len(out[1].up.cls) == 0  # what is counted once stands in one reply
    assert out[0].up.cls.tolist() == [0]  # class 3 had 1 of 10⁶ of a contribution of length 1
    total = 1 / math.sqrt(8) + 1  # lengths of both sums, in one direction
    count = 1 + 1 / (1e9 * math.sqrt(8))
    assert float(out[0].up.mean.norm()) == pytest.approx(total / count, rel=1e-3)


@pytest.mark.parametrize(
    ("method", "settings", "said"),
    [
        ("fedtgp", {"dp": "client:noise=1"}, "fedtgp trains its prototypes on single uploads"),
        ("fedproto", {"dp": "client:noise=1,delta=0.2"}, "delta=0.2 is not below 1/6 (6 clients)"),
        ("fedproto", {"dp": "client"}, "option 'noise' must be given"),
        ("fedproto", {"dp": "sample:noise=1"}, "unknown privacy level 'sample'"),
        ("fedproto", {"dp": "client:noise=1", "max_epsilon": 0.5}, "no round can be played"),
        ("fedproto", {"max_epsilon": 0.5}, "nothing is counted without dp"),
        ("local", {"dp": "client:noise=1"}, "local sends nothing up"),
    ],
)
def test_what_would_promise_nothing_is_refused(method: str, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Toy(method, settings=settings).build()
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_statistics_of_batchnorm_are_refused_unless_they_stay_at_the_clients() -> None:
    toy = Toy("fedavg", settings={"dp": "client:noise=1"}, models="norm")
    with pytest.raises(ConfigError, match="params_only=true"):
        toy.build()
    kept = Toy("fedavg", {"params_only": True}, {"dp": "client:noise=1"}, models="norm").build()
    assert kept.federation.play()["epsilon"] == epsilon(1.0, 1, 1e-5)


def test_a_missing_library_is_told_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "dp_accounting", None)
    with pytest.raises(ConfigError, match=r"pip install 'protofed\[privacy\]'"):
        Toy("fedproto", settings={"dp": "client:noise=1"}).build()


def test_every_leg_that_releases_is_counted() -> None:
    built = Toy("fcclplus", settings={"dp": "client:noise=9"}).build()
    assert built.federation.play()["epsilon"] == epsilon(9.0, 2, 1e-5)
    record = built.federation.play()
    assert record["epsilon"] == epsilon(9.0, 4, 1e-5)
    assert record["privacy"]["level"] == "client-level"


def run(*argv: str) -> int:
    from protofed.cli.main import main

    return main(list(argv))


SMALL = ("--clients", "4", "--epochs", "1", "--engine", "sequential", "--balanced", "0")


def test_a_run_ends_before_its_budget_is_exceeded_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    budget = ("--dp", "client:noise=5,clip=1", "--max-epsilon", "1.5", "--rounds", "9")
    assert run("run", "fedproto", *budget, *SMALL, "--eval-every", "5", "--out", str(out)) == 0
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [line["epsilon"] for line in lines] == [epsilon(5.0, r, 1e-5) for r in range(1, len(lines) + 1)]
    assert lines[-1]["epsilon"] <= 1.5 < epsilon(5.0, len(lines) + 1, 1e-5)
    assert lines[-1]["acc"]  # tested, though no one knew beforehand that it is the last
    said = capsys.readouterr()
    reason = f"client-level ε would be {epsilon(5.0, len(lines) + 1, 1e-5):.4g} after round {len(lines) + 1}"
    assert f"ended after {len(lines)} of 9 rounds: {reason}" in said.out
    assert f"client-level differential privacy: ε = {lines[-1]['epsilon']:.4g} at δ = 1e-05" in said.out
    summary = json.loads((out / "summary.json").read_text())
    assert summary["epsilon"] == lines[-1]["epsilon"]
    assert run("resume", str(out)) == 0
    assert "is finished already" in capsys.readouterr().err
    assert run("resume", str(out), "--rounds", "20") != 0
    assert "has no budget left" in capsys.readouterr().err


def test_a_resumed_run_has_spent_what_an_uninterrupted_one_has(tmp_path: Path) -> None:
    dp = ("--dp", "client:noise=2,clip=1", *SMALL, "--quiet")
    assert run("run", "fedproto", *dp, "--rounds", "3", "--out", str(tmp_path / "whole")) == 0
    assert run("run", "fedproto", *dp, "--rounds", "2", "--out", str(tmp_path / "part")) == 0
    assert run("resume", str(tmp_path / "part"), "--rounds", "3", "--quiet") == 0
    whole, part = (
        [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("whole", "part")
    )
    assert [line["epsilon"] for line in whole] == [line["epsilon"] for line in part]
    assert whole[-1]["acc"] == part[-1]["acc"]
    assert whole[-1]["privacy"] == part[-1]["privacy"]
