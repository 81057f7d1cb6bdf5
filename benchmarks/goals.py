"""What we want to reach, and whether a run of `python -m benchmarks` reached it.

Figures come from one run in which the contenders took turns. A goal is judged by the least seconds of both
sides: medians, given beside, hold what else the machine did meanwhile, and so do seconds by the clock where a
side has more processes than the other. Beside them stands the same of CPU seconds, to which a second core
adds nothing. What a run did not measure is said to be not measured, and where the machine was busy with the
work of others a goal by the clock cannot be told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .measure import AS_RELEASED, IN_A_RUN, STACKED
from .peers import PEERS
from .released import RELEASED
from .starts import FIRST_STEP, HELP

Results = Mapping[str, Any]
Reached = Callable[[Results], float | None]


@dataclass(frozen=True)
class Goal:
    """`reached` gives the figure, or None where the run has not measured it. `part` is the workload, or what
    else, that it comes from."""

    part: str
    title: str
    goal: float
    stretch: float | None
    reached: Reached
    at_most: bool = False  # the figure must not be larger than the goal
    unit: str = "×"
    by_clock: bool = True  # seconds by the clock are in it

    def judge(self, results: Results, fastest: Results, cpu: Results) -> dict[str, Any]:
        """The goal beside what was reached, and the verdict."""
        middle, best = self.reached(results), self.reached(fastest)
        return {
            "title": self.title,
            "goal": self._limit(self.goal),
            "stretch": "" if self.stretch is None else self._limit(self.stretch),
            "fastest": self._written(best),
            "reached": self._written(middle),
            "cpu": self._written(self.reached(cpu)),
            "value": best,
            "verdict": self._verdict(best, self.by_clock and is_busy(results, self.part)),
        }

    def _verdict(self, value: float | None, busy: bool) -> str:
        if value is None:
            return "not measured"
        if busy:
            return "cannot be told: busy"
        if self.stretch is not None and self._meets(value, self.stretch):
            return "met, the stretch too"
        return "met" if self._meets(value, self.goal) else "not met"

    def _meets(self, value: float, bound: float) -> bool:
        return value <= bound if self.at_most else value >= bound

    def _limit(self, bound: float) -> str:
        return ("≤ " if self.at_most else "") + self._written(bound)

    def _written(self, value: float | None) -> str:
        return "" if value is None else f"{value:.2f}{self.unit}"


def judged(results: Results) -> list[dict[str, Any]]:
    """All goals."""
    fastest = _in_place(results, lambda key: f"fastest_{key}")
    cpu = _in_place(fastest, lambda key: f"test_cpu_{key[5:]}" if key.startswith("test_") else f"cpu_{key}")
    return [goal.judge(results, fastest, cpu) for goal in GOALS]


def _in_place(results: Any, other: Callable[[str], str]) -> Any:
    """The same results with other figures in place of those whose other name has some: with the least turns
    in place of medians, with CPU seconds in place of wall seconds."""
    if isinstance(results, list):
        return [_in_place(each, other) for each in results]
    if not isinstance(results, dict):
        return results
    return {key: _in_place(results.get(other(key), value), other) for key, value in results.items()}


def is_busy(results: Results, part: str) -> bool:
    """Whether others wanted the cores while a part was measured: one process of ours may be more than there
    are cores, the one that waits for its workers."""
    found = _workload(results, part) or results.get(part, {})
    cores = results.get("machine", {}).get("cores", 1)
    return bool(max(found.get("load", ()), default=0.0) > cores + 1)


# what was reached


def _workload(results: Results, name: str) -> Mapping[str, Any]:
    found = [each for each in results.get("workloads", []) if each["workload"] == name]
    return found[0] if found else {}


def _row(results: Results, workload: str, start: str, end: str = "") -> dict[str, Any] | None:
    """The first contender of a workload whose name starts and ends so; "" is ours on its first engine."""
    rows: list[dict[str, Any]] = _workload(results, workload).get("rows", [])
    return next((row for row in rows if row["name"].startswith(start) and row["name"].endswith(end)), None)


def _faster(workload: str, than: str, end: str = "") -> Reached:
    """Samples a second of ours, whose name may end so, beside those of another."""

    def reached(results: Results) -> float | None:
        ours, other = _row(results, workload, "protofed", end), _row(results, workload, than)
        return float(ours["ratios"][other["name"]]) if ours and other else None

    return reached


def _whole_round(workload: str) -> Reached:
    def reached(results: Results) -> float | None:
        other = _row(results, workload, RELEASED["htfllib"].title)
        ours = _row(results, workload, "protofed", IN_A_RUN)
        if not ours or not other:
            return None
        whole = [row["seconds"] + row["test_seconds"] for row in (other, ours)]
        return float(whole[0] / whole[1])

    return reached


def _of_the_stacked_step(results: Results) -> float | None:
    ours, limit = _row(results, "w1", "protofed cohort"), _row(results, "w1", STACKED)
    return float(ours["cpu_ratios"][limit["name"]]) if ours and limit else None


def _extra_cpu(results: Results) -> float | None:
    """CPU seconds of several processes beside the fewest that one process needs."""
    several = _row(results, "w1", "protofed workers", "(auto)")
    alone = [_row(results, "w1", f"protofed {engine}") for engine in ("cohort", "sequential")]
    fewest = [row["cpu_seconds"] for row in alone if row]
    return float(several["cpu_seconds"] / min(fewest)) if several and fewest else None


def _test_share(results: Results) -> float | None:
    """A test's share of the CPU seconds of a round beside its share of the multiply-adds."""
    ours = _row(results, "w1", "protofed")
    if not ours:
        return None
    share = ours["test_cpu_seconds"] / (ours["test_cpu_seconds"] + ours["cpu_seconds"])
    return float(share / _workload(results, "w1")["test_share_of_multiply_adds"])


def _population(key: str) -> Reached:
    def reached(results: Results) -> float | None:
        points = results.get("scale", {}).get("registered", [])
        return points[-1][key] / points[0][key] if len(points) > 1 else None

    return reached


def _aggregation(results: Results) -> float | None:
    found = results.get("aggregation")
    return found["ratios"]["in bundles"] if found else None


def _deployed(results: Results) -> float | None:
    """Prototypes in full precision."""
    found = results.get("deployed")
    return float(found["lines"][0]["ms"]) / 1000 if found else None


def _start(of: str) -> Reached:
    def reached(results: Results) -> float | None:
        found = results.get("starts")
        return float(found["seconds"][of]) if found else None

    return reached


_TGP = "W2, few shots: whole round against HtFLlib's"
_MILLION = "1,000,000 registered clients against 1,000"
GOALS = (
    Goal(
        "w1",
        "W1: training against FedProto's released code",
        6.5,
        8,
        _faster("w1", RELEASED["fedproto"].title, AS_RELEASED),
    ),
    Goal(
        "w1",
        "W1: cohort's CPU against a stacked step by hand",
        0.92,
        0.97,
        _of_the_stacked_step,
        unit="",
        by_clock=False,
    ),
    Goal("w2", f"{_TGP} FedTGP", 4, 5, _whole_round("w2")),
    Goal("w2p", f"{_TGP} FedProto", 5, 6, _whole_round("w2p")),
    Goal("w3", "W3: against the naive loop", 1.8, 1.95, _faster("w3", "naive loop")),
    Goal("w4", "W4: against the naive loop", 2.2, 3, _faster("w4", "naive loop")),
    Goal("w1", "W1: against Flower's simulation", 2.6, 3, _faster("w1", PEERS["flower"][0])),
    Goal("w1", "W1: against pfl", 4, 5, _faster("w1", PEERS["pfl"][0])),
    Goal(
        "w1",
        "W1: CPU of auto against the best single process",
        1.1,
        1.05,
        _extra_cpu,
        at_most=True,
        by_clock=False,
    ),
    Goal(
        "w1",
        "W1: test, share of CPU against share of multiply-adds",
        0.6,
        0.5,
        _test_share,
        at_most=True,
        unit="",
        by_clock=False,
    ),
    Goal("scale", f"{_MILLION}: time", 1.1, 1.02, _population("seconds"), at_most=True),
    Goal("scale", f"{_MILLION}: memory", 1.1, 1.02, _population("peak_mb"), at_most=True, by_clock=False),
    Goal(
        "aggregation",
        "aggregation: 100,000 uploads against a plain sum",
        1.4,
        1.2,
        _aggregation,
        at_most=True,
    ),
    Goal("deployed", "a deployed round over TLS, 3 clients", 4, 2, _deployed, at_most=True, unit=" s"),
    Goal("starts", "`protofed --help`", 0.3, 0.15, _start(HELP), at_most=True, unit=" s"),
    Goal("starts", "`protofed run` to its first step", 3, None, _start(FIRST_STEP), at_most=True, unit=" s"),
)
