"""What we want to reach, and whether a run of `python -m benchmarks` reached it.

All are ratios of two things measured in that run: of medians, by which a goal counts as reached, and of the
fastest turns, on which other programs and neighbours on the same processor weigh less. The released code of
FedProto and HtFLlib cannot be installed with pip; the naive loop, written like them, stands in for both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .measure import BY_HAND
from .peers import PEERS

Results = Mapping[str, Any]


@dataclass(frozen=True)
class Goal:
    """`reached` gives the figure, or None where the run has not measured it."""

    title: str
    goal: float
    stretch: float | None
    reached: Callable[[Results], float | None]
    at_most: bool = False  # the figure must not be larger than the goal
    percent: bool = False

    def judge(self, results: Results, fastest: Results) -> dict[str, Any] | None:
        value, best = self.reached(results), self.reached(fastest)
        if value is None or best is None:
            return None
        met = value <= self.goal if self.at_most else value >= self.goal
        return {
            "title": self.title,
            "goal": self.written(self.goal, limit=True),
            "stretch": "" if self.stretch is None else self.written(self.stretch, limit=True),
            "reached": self.written(value),
            "fastest": self.written(best),
            "value": value,
            "met": met,
        }

    def written(self, value: float, limit: bool = False) -> str:
        sign = "≤ " if limit and self.at_most else ""
        return f"{sign}{100 * value:.1f} %" if self.percent else f"{sign}{value:.2f}×"


def judged(results: Results) -> list[dict[str, Any]]:
    """The goals that these results say something about."""
    fastest = _fastest(results)
    return [found for goal in GOALS if (found := goal.judge(results, fastest)) is not None]


def _fastest(results: Any) -> Any:
    """The same results with fastest turns in place of medians."""
    if isinstance(results, list):
        return [_fastest(each) for each in results]
    if not isinstance(results, dict):
        return results
    best = {
        key.removeprefix("fastest_"): value for key, value in results.items() if key.startswith("fastest_")
    }
    found = {key: _fastest(best.get(key, value)) for key, value in results.items()}
    if found.get("test_share") is not None:
        found["test_share"] = found["test_seconds"] / (found["test_seconds"] + found["seconds"])
    return found


def _row(results: Results, workload: str, start: str) -> dict[str, Any] | None:
    """The first contender of a workload whose name starts so; "" is ours on its first engine."""
    for result in results.get("workloads", []):
        if result["workload"] == workload:
            return next((row for row in result["rows"] if row["name"].startswith(start)), None)
    return None


def _faster(workload: str, other: str) -> Callable[[Results], float | None]:
    def reached(results: Results) -> float | None:
        ours, theirs = _row(results, workload, ""), _row(results, workload, other)
        return ours["ratios"][theirs["name"]] if ours and theirs else None

    return reached


def _faster_than_two_threads(results: Results) -> float | None:
    rows = [
        r for result in results.get("workloads", []) if result["workload"] == "w1" for r in result["rows"]
    ]
    several = [r["name"] for r in rows if r["name"].startswith("bare loop") and "threads" in r["name"]]
    return rows[0]["ratios"][several[0]] if several else None


def _whole_round(results: Results) -> float | None:
    ours, naive = _row(results, "w2", ""), _row(results, "w2", "naive loop")
    if not ours or not naive:
        return None
    return float((naive["seconds"] + naive["test_seconds"]) / (ours["seconds"] + ours["test_seconds"]))


def _test_share(results: Results) -> float | None:
    ours = _row(results, "w1", "")
    return ours["test_share"] if ours else None


def _engine_overhead(results: Results) -> float | None:
    ours, tensors = _row(results, "w1", "protofed sequential"), _row(results, "w1", BY_HAND)
    return tensors["ratios"][ours["name"]] - 1 if ours and tensors else None


def _population(key: str) -> Callable[[Results], float | None]:
    def reached(results: Results) -> float | None:
        points = results.get("scale", {}).get("registered", [])
        return points[-1][key] / points[0][key] if len(points) > 1 else None

    return reached


def _aggregation(results: Results) -> float | None:
    found = results.get("aggregation")
    return found["ratios"]["in bundles"] if found else None


def _server_step(results: Results) -> float | None:
    found = results.get("server_step")
    return found["ratios"]["DataLoader"] if found else None


GOALS = (
    Goal("W1: against the naive loop", 5, 8, _faster("w1", "naive loop")),
    Goal("W1: against the bare loop on all cores", 2.5, 4, _faster_than_two_threads),
    Goal("W2: against the naive loop, whole round with test", 3, 5, _whole_round),
    Goal("W3: against the naive loop", 2, 3, _faster("w3", "naive loop")),
    Goal("W4: against the naive loop", 3.5, 6, _faster("w4", "naive loop")),
    Goal("W1: against Flower's simulation", 2.5, 5, _faster("w1", PEERS["flower"][0])),
    Goal("W1: against pfl", 3, 6, _faster("w1", PEERS["pfl"][0])),
    Goal("W1: test, share of a round", 0.05, 0.02, _test_share, at_most=True, percent=True),
    Goal("W1: engine over the tensor work", 0.05, 0.02, _engine_overhead, at_most=True, percent=True),
    Goal("most registered clients: time against fewest", 1.25, None, _population("seconds"), at_most=True),
    Goal("most registered clients: memory against fewest", 1.25, None, _population("peak_mb"), at_most=True),
    Goal("aggregation: time against a plain sum", 2, None, _aggregation, at_most=True),
    Goal("FedTGP's server step: against the DataLoader", 2.5, None, _server_step),
)
