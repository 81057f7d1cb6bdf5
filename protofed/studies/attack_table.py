"""Tables, verdicts and the figure of an attack study."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..reports import paper
from ..reports.spec import Axis, Chart, Series, look
from .attack_study import COST, LOSS, PLAIN, UP_TO, Case, Reached
from .plan import Planned
from .published import with_section
from .statistics import mean
from .tables import Table, number, with_spread


def attack_tables(found: Sequence[Reached], mode: str, refused: Mapping[str, str]) -> list[Table]:
    """Accuracy for each share, loss and success, then the verdicts."""
    shares = sorted({one.share for one in found if one.attack})
    notes = [f"not run: {row}: {message}" for row, message in refused.items()]
    tables = [_clean(found, mode, notes)]
    for share in shares:
        title = f"accuracy of the honest clients, {mode} (%), {share:.0%} of the clients attack"
        tables.append(_grid(found, [share], title, lambda one: with_spread(one.accuracy, one.accuracy_std)))
    if shares:
        lost = "points lost against the clean run, of the classes with an honest majority"
        tables.append(_grid(found, shares, lost, lambda one: number(one.loss)))
        success = f"attack success, {mode} (%)"
        tables.append(_grid(found, shares, success, lambda one: number(one.success)))
        tables.append(_grid(found, shares, f"accuracy of the victim class, {mode} (%)", _victim))
    return [*tables, _verdicts(found)]


def _victim(one: Reached) -> str:
    return number(one.victim)


def _defences(found: Sequence[Reached]) -> list[str]:
    return list(dict.fromkeys(one.defence for one in found))


def _clean(found: Sequence[Reached], mode: str, notes: Sequence[str]) -> Table:
    rows = [one for one in found if not one.attack]
    cost = clean_costs(found)
    cells = [
        [one.defence, with_spread(one.accuracy, one.accuracy_std), number(cost.get(one.defence), sign=True)]
        for one in rows
    ]
    title = f"without attackers, {mode} (%)"
    return Table(title, ["defence", "accuracy", "cost"], cells, notes=notes)


def _grid(
    found: Sequence[Reached], shares: Sequence[float], title: str, cell: Callable[[Reached], str]
) -> Table:
    rules = _defences(found)
    kept = {(one.attack, one.share, one.defence): one for one in found if one.attack}
    names = list(
        dict.fromkeys((one.attack, one.share) for one in found if one.attack and one.share in shares)
    )
    several = len(shares) > 1
    rows = []
    for attack, share in names:
        cells = [cell(kept[attack, share, r]) if (attack, share, r) in kept else "" for r in rules]
        rows.append([attack, *([f"{share:.0%}"] if several else []), *cells])
    headings = ["attack", *(["attackers"] if several else []), *rules]
    return Table(title, headings, rows, names=2 if several else 1)


def clean_costs(found: Sequence[Reached]) -> dict[str, float]:
    """Defence → points that it costs without attackers."""
    clean = {one.defence: one.accuracy for one in found if not one.attack}
    plain = clean.get(PLAIN, math.nan)
    return {defence: plain - accuracy for defence, accuracy in clean.items() if defence != PLAIN}


def best_losses(found: Sequence[Reached]) -> dict[tuple[str, float], Reached]:
    """Attack and share → the defence with the least loss, up to the share that the bar asks for."""
    best: dict[tuple[str, float], Reached] = {}
    for one in found:
        if one.attack and one.share <= UP_TO + 1e-9 and not math.isnan(one.loss):
            key = (one.attack, one.share)
            if key not in best or one.loss < best[key].loss:
                best[key] = one
    return best


def _verdicts(found: Sequence[Reached]) -> Table:
    """For each defence: its cost, and in how many cells the loss stays within the bar."""
    costs, rows = clean_costs(found), []
    for rule in _defences(found):
        cells = [one for one in found if one.defence == rule and one.attack and one.share <= UP_TO + 1e-9]
        known = [one for one in cells if not math.isnan(one.loss)]
        kept = sum(one.loss <= LOSS for one in known)
        worst = max(known, key=lambda one: one.loss, default=None)
        cost = costs.get(rule)
        rows.append(
            [
                rule,
                "" if cost is None else f"{number(cost, sign=True)} {_met(cost <= COST)}",
                f"{kept} of {len(known)}",
                number(mean([one.loss for one in known]), sign=True),
                "" if worst is None else f"{worst.attack} {worst.share:.0%}: {number(worst.loss, sign=True)}",
            ]
        )
    best = best_losses(found)
    missed = [one for one in best.values() if one.loss > LOSS]
    said = "; ".join(f"{one.attack} {one.share:.0%}: {one.loss:.1f} ({one.defence})" for one in missed)
    notes = [
        f"bars: a defence costs at most {COST:g} point without attackers; with the best defence at most "
        f"{LOSS:g} points are lost up to {UP_TO:.0%} attackers, of the classes with an honest majority",
        f"best defence for each attack and share: {len(best) - len(missed)} of {len(best)} within {LOSS:g}"
        + (f"; not: {said}" if said else ""),
    ]
    headings = ["defence", f"clean cost (≤ {COST:g})", f"cells with loss ≤ {LOSS:g}", "mean loss", "worst"]
    return Table("the bars, judged", headings, rows, notes=notes)


def _met(holds: bool) -> str:
    return "met" if holds else "not met"


def records(found: Sequence[Reached]) -> list[dict[str, Any]]:
    """All numbers, for CSV and JSON."""
    return [dataclasses.asdict(one) for one in found]


def attack_page(
    planned: Mapping[Case, Sequence[Planned]],
    tables: Sequence[Table],
    command: str,
    figure: Path,
    before: str = "",
) -> str:
    """The page `before` with this study's section: what was run, the verdicts first, then all tables."""
    config = next(iter(planned.values()))[0].config
    seeds = [one.seed for one in next(iter(planned.values()))]
    name = f"{config.method} on {config.data}"
    parts = [
        f"## {name}",
        f"{time.strftime('%Y-%m-%d')}: {config.clients} clients, {config.partition}, {config.models}, "
        f"{config.rounds.rounds} rounds, seeds {seeds[0]} to {seeds[-1]}. Cells that are empty were not run.",
        f"```sh\n{command}\n```",
        *(table.markdown().rstrip() for table in (tables[-1], *tables[:-1])),
    ]
    if figure.exists():
        parts.insert(3, f"![Accuracy against the share of attackers, a line for each defence]({figure.name})")
    return with_section(before, f"attacks, {name}", parts, "Attacks and defences")


def draw_attacks(found: Sequence[Reached], mode: str, path: Path) -> Path:
    """A panel for each attack: accuracy over the share of attackers, a line for each defence."""
    rules = _defences(found)
    clean = {one.defence: one for one in found if not one.attack}
    charts = []
    for attack in dict.fromkeys(one.attack for one in found if one.attack):
        series = []
        for i, rule in enumerate(rules):
            here = [one for one in found if one.attack == attack and one.defence == rule]
            line = sorted([*([clean[rule]] if rule in clean else []), *here], key=lambda one: one.share)
            x, y = [100 * one.share for one in line], [one.accuracy for one in line]
            series.append(Series(rule, x, y, **look(i)))
        across = Axis("attackers (%)")
        charts.append(
            Chart("lines", path.stem, "", across, Axis(f"accuracy, {mode} (%)"), series, panel=attack)
        )
    return paper.write(charts, [path])[0]
