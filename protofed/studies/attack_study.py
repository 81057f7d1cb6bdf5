"""Attack × defence × share on one setting: which defence holds, and what it costs without attackers.

clean cost    accuracy of the plain average minus that of a defence, without attackers
loss          accuracy without attackers and defence minus that under attack, of the classes that a majority
              of honest clients holds: m_c ≥ 2 f_c + 1, of which f_c are attackers. Of other classes no rule
              can tell who is right. Class by class over the test samples of clients that do not attack.

All is read from the last test, in one prediction mode, and averaged over seeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..config import resolve
from ..core.errors import ConfigError
from ..core.options import parse_spec
from ..runs.modes import AMONG_OWN
from ..runs.outcome import Outcome
from ..runs.records import RoundRecord, number_in
from ..trust.attacks._base import attacks
from ..trust.defences._base import defences
from .plan import Planned
from .runner import FINISHED, REFUSED, Done
from .statistics import mean, sample_std

PLAIN = "mean"
COST, LOSS, UP_TO = 1.0, 2.0, 0.3  # the bars: points, points, and the share up to which the second is asked
EXPOSED = "gp_all"  # where prototypes of all classes compete


@dataclass(frozen=True)
class Case:
    """A cell: an attack ("": none) by a share of the clients, and the defence."""

    attack: str
    share: float
    defence: str

    @property
    def row(self) -> str:
        """How its runs are called."""
        return f"{self.attack} {self.share:.0%}, {self.defence}" if self.attack else f"clean, {self.defence}"

    @property
    def written(self) -> str | None:
        """The setting `attack`."""
        if not self.attack:
            return None
        return f"{self.attack}{',' if ':' in self.attack else ':'}share={self.share:g}"


@dataclass(frozen=True)
class Reached:
    """What a case reached, over its seeds."""

    attack: str
    share: float
    defence: str
    seeds: int
    accuracy: float  # mean over the honest clients
    accuracy_std: float  # over seeds
    loss: float  # of classes with an honest majority; NaN if there are none
    guarded: float  # such classes, as a share of those that are tested
    success: float  # of the attack
    victim: float  # accuracy of its victim


def cases(attacked: Sequence[str], defended: Sequence[str], shares: Sequence[float]) -> list[Case]:
    """Every defence without attackers, then every attack × share × defence; the plain average is always
    among the defences."""
    rules = list(dict.fromkeys([PLAIN, *defended]))
    clean = [Case("", 0.0, rule) for rule in rules]
    return clean + [Case(a, s, rule) for a in attacked for s in shares for rule in rules]


def plan_attacks(
    chosen: Sequence[Case], settings: Mapping[str, Any], method: str, seeds: int
) -> dict[Case, list[Planned]]:
    """The runs of each case. Only the last round is tested, unless the settings say otherwise."""
    for name in ("attack", "robust"):
        if settings.get(name) is not None:
            raise ConfigError(
                f"--{name}: this command tries several; give --{name.replace('robust', 'defence')}s"
            )
    if seeds < 1:
        raise ConfigError(f"--seeds: must be at least 1, got {seeds}")
    _check(chosen)
    base = resolve({"method": method}, settings)
    last = {"eval_every": base.rounds.rounds, "balanced": 0}
    config = resolve({"method": method}, {**last, **settings})
    planned = {}
    for case in chosen:
        trust = replace(config.trust, attack=case.written, robust=case.defence)
        runs = [replace(config, trust=trust, seed=config.seed + number) for number in range(seeds)]
        planned[case] = [Planned(case.row, one) for one in runs]
    return planned


def _check(chosen: Sequence[Case]) -> None:
    """Names, options and shares, before anything is run."""
    for case in chosen:
        defences.make(case.defence)
        if case.attack and "share" in parse_spec(case.attack)[1]:
            raise ConfigError(f"--attacks {case.attack}: leave the share out, and give --shares")
        if case.written is not None:
            attacks.make(case.written)


def mode_of(runs: Sequence[Outcome], asked: str | None) -> str:
    """The prediction mode that is read: as asked, else the nearest prototype of all classes, else the first
    that chooses among all classes."""
    known = runs[0].modes if runs else []
    if asked is not None:
        if asked not in known:
            raise ConfigError(f"--mode {asked}: the runs have {', '.join(known)}")
        return asked
    free = [mode for mode in known if mode not in AMONG_OWN]
    return EXPOSED if EXPOSED in known else (free or known)[0]


def judge(
    planned: Mapping[Case, Sequence[Planned]], done: Mapping[str, Done], asked: str | None = None
) -> tuple[list[Reached], str]:
    """All cases whose runs are over, and the mode in which they were read."""
    found = {
        case: [Outcome.read(done[one.key].path) for one in runs]
        for case, runs in planned.items()
        if all(done[one.key].state == FINISHED for one in runs)
    }
    everyone = [run for runs in found.values() for run in runs]
    if not everyone:
        return [], asked or ""
    mode = mode_of(everyone, asked)
    clean = {run.seed: _last(run) for case, runs in found.items() for run in runs if _is_plain(case)}
    return [_reached(case, runs, clean, mode) for case, runs in found.items()], mode


def _is_plain(case: Case) -> bool:
    return not case.attack and case.defence == PLAIN


def _reached(case: Case, runs: Sequence[Outcome], clean: Mapping[int, RoundRecord], mode: str) -> Reached:
    lines = [_last(run) for run in runs]
    accuracy = [number_in(line, ["acc", mode, "mean"]) for line in lines]
    losses = [lost(clean.get(run.seed, {}), line, mode) for run, line in zip(runs, lines)]
    shares = [share for _, share in losses]
    return Reached(
        case.attack,
        case.share,
        case.defence,
        len(runs),
        mean(accuracy),
        sample_std(accuracy),
        mean([loss for loss, _ in losses if not math.isnan(loss)]),
        mean(shares),
        mean([number_in(line, ["attack", "success", mode]) for line in lines]),
        mean([number_in(line, ["attack", "victim_acc", mode]) for line in lines]),
    )


def lost(clean: RoundRecord, line: RoundRecord, mode: str) -> tuple[float, float]:
    """Points lost against the clean run over the classes with an honest majority, and the share of these
    among the classes that both tested."""
    before = (clean.get("class_acc") or {}).get(mode) or []
    after = (line.get("class_acc") or {}).get(mode) or []
    both = [c for c, (b, a) in enumerate(zip(before, after)) if b is not None and a is not None]
    held = line.get("held")
    safe = [c for c in both if held is None or held["all"][c] >= 2 * held["attackers"][c] + 1]
    gaps = [before[c] - after[c] for c in safe]
    return (math.fsum(gaps) / len(gaps) if gaps else math.nan), (len(safe) / len(both) if both else math.nan)


def _last(run: Outcome) -> RoundRecord:
    return next((line for line in reversed(run.lines) if line.get("acc")), {})


def refused_cases(planned: Mapping[Case, Sequence[Planned]], done: Mapping[str, Done]) -> dict[str, str]:
    """Attack or defence → why it was refused."""
    found: dict[str, str] = {}
    for runs in planned.values():
        for one in (done[planned.key] for planned in runs):
            if one.state == REFUSED:
                found.setdefault(one.message, one.planned.row)
    return {row: message for message, row in found.items()}
