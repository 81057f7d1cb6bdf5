"""What a tournament found: accuracies, paired differences, ranks with their critical difference, cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..reports import paper
from ..reports.spec import Axis, Chart, Series, look
from ..runs.modes import title
from ..runs.outcome import Outcome
from .footnotes import findings_of, level_note, levels_of, marked
from .plan import read_method
from .statistics import mean, sample_std
from .sweep import label
from .tables import Table, number
from .tournament import Chosen, Match, Tournament

CLEAR = 2.0  # standard errors beyond which a difference counts
LEVEL = 0.05  # of the critical difference between mean ranks


@dataclass(frozen=True)
class Standing:
    """An entrant in a setting: numbers over the final seeds, in the mode that its trials chose."""

    setting: str
    entrant: str
    mode: str
    trial: str  # what was changed against its defaults
    validated: float
    accuracies: tuple[float, ...]  # one a seed
    clf: float
    balanced: float
    uplink: float  # floats that a client sends in the whole run, on average
    seconds: float
    majority: float
    findings: str

    @property
    def accuracy(self) -> float:
        """Mean over the seeds."""
        return mean(self.accuracies)


def standing(match: Match, chosen: Chosen, runs: Sequence[Outcome]) -> Standing:
    """From the finals of a match."""
    mode = chosen.mode
    clients = runs[0].about.clients or math.nan
    return Standing(
        *match,
        mode,
        label(chosen.point) or "defaults",
        chosen.validated,
        tuple(run.last(mode) for run in runs),
        mean([run.last("clf") for run in runs]),
        mean([run.balanced(mode) for run in runs]),
        mean([run.total("up", "params") / clients for run in runs]),
        mean([run.seconds for run in runs]),
        levels_of(runs, mode)[0],
        findings_of(runs, mode),
    )


def difference(one: Standing, two: Standing) -> tuple[float, float]:
    """Mean of the paired differences over seeds, and its standard error."""
    gaps = [a - b for a, b in zip(one.accuracies, two.accuracies)]
    return mean(gaps), sample_std(gaps) / math.sqrt(len(gaps)) if len(gaps) > 1 else math.nan


def verdict(gap: float, error: float) -> str:
    """In a word; one seed alone has no error, and so no verdict."""
    if math.isnan(error):
        return "cannot tell"
    return "level" if abs(gap) <= CLEAR * error else ("ahead" if gap > 0 else "behind")


def mean_ranks(found: Sequence[Standing]) -> tuple[dict[str, float], int]:
    """Entrant → mean rank (1 is best, equal ones share) over the settings that all entrants finished."""
    entrants = list(dict.fromkeys(one.entrant for one in found))
    settings: dict[str, dict[str, float]] = {}
    for one in found:
        settings.setdefault(one.setting, {})[one.entrant] = one.accuracy
    whole = [scores for scores in settings.values() if len(scores) == len(entrants)]
    ranks: dict[str, list[float]] = {entrant: [] for entrant in entrants}
    for scores in whole:
        for entrant, value in scores.items():
            better = sum(other > value for other in scores.values())
            equal = sum(other == value for other in scores.values())
            ranks[entrant].append(better + (equal + 1) / 2)
    return {entrant: mean(values) for entrant, values in ranks.items()}, len(whole)


def critical_difference(entrants: int, settings: int) -> float:
    """Nemenyi's: mean ranks that differ by less are not told apart at 5 % (Demšar, JMLR 2006).

    q / √2 · √(k (k + 1) / (6 N)), with q the studentised range of k groups.
    """
    if entrants < 2 or not settings:
        return math.nan
    from scipy.stats import studentized_range

    q = float(studentized_range.ppf(1 - LEVEL, entrants, math.inf))
    return q / math.sqrt(2) * math.sqrt(entrants * (entrants + 1) / (6 * settings))


def tournament_tables(tournament: Tournament, found: Sequence[Standing]) -> list[Table]:
    """Accuracies, the first entrant and its variants against the best of the others, ranks."""
    ours = [one for one in tournament.entrants if _same(one, tournament.entrants[0])]
    against = [_against(entrant, found) for entrant in ours]
    return [_accuracies(tournament, found), *against, _ranks(found)]


def _accuracies(tournament: Tournament, found: Sequence[Standing]) -> Table:
    headings = ("setting", "method", "prediction", "trial", "validation", "test ± seeds", "clf", "balanced",
                "floats up a client", "seconds")  # fmt: skip
    rows, bold = [], set()
    for i, one in enumerate(found):
        spread = number(sample_std(one.accuracies))
        rows.append([
            one.setting, one.entrant, title(one.mode), one.trial, number(one.validated),
            marked(f"{number(one.accuracy)} ± {spread}", one.findings), number(one.clf), number(one.balanced),
            number(one.uplink, 0), number(one.seconds, 1),
        ])  # fmt: skip
        rivals = [other.accuracy for other in found if other.setting == one.setting and not other.findings]
        if not one.findings and one.accuracy == max(rivals):
            bold.add((i, 5))
    notes = [
        *level_note("majority class", ((one.majority, one.setting) for one in found)),
        f"test: last round, mean over clients, then over {tournament.seeds} seeds; ± over seeds.",
        "trial and prediction were chosen by accuracy on held-out training samples "
        f"({tournament.validation:.0%} of each client's), as many trials for every method of a setting, "
        "with a seed of their own.",
        "balanced: every client's model on the same test of all classes alike, in the same prediction.",
    ]
    return Table(f"{tournament.name}: accuracy (%)", headings, rows, 4, notes, frozenset(bold))


def _against(entrant: str, found: Sequence[Standing]) -> Table:
    rows = []
    for one in (one for one in found if one.entrant == entrant):
        others = [two for two in found if two.setting == one.setting and not _same(two.entrant, entrant)]
        if not others:
            continue
        best = max(others, key=lambda other: other.accuracy)
        gap, error = difference(one, best)
        local = next((other for other in others if other.entrant == "local"), None)
        over_local = f"{difference(one, local)[0]:+.2f}" if local else ""
        rows.append([
            one.setting, number(one.accuracy), number(one.uplink, 0), best.entrant, number(best.accuracy),
            number(best.uplink, 0), f"{gap:+.2f} ± {number(error)}", verdict(gap, error), over_local,
        ])  # fmt: skip
    headings = ("setting", entrant, "floats up", "best other", "its accuracy", "its floats up", "Δ ± SE",
                "verdict", "Δ to local")  # fmt: skip
    notes = (
        f"Δ: paired over seeds; ahead or behind: beyond {CLEAR:g} standard errors. Others: not "
        f"{read_method(entrant).method} itself with other options.",
    )
    return Table(f"{entrant} against the best of the others", headings, rows, 1, notes)


def _same(one: str, two: str) -> bool:
    """Whether two entrants are one method with different options."""
    return read_method(one).method == read_method(two).method


def _ranks(found: Sequence[Standing]) -> Table:
    ranks, settings = mean_ranks(found)
    rows = [[entrant, number(rank)] for entrant, rank in sorted(ranks.items(), key=lambda pair: pair[1])]
    distance = critical_difference(len(ranks), settings)
    note = f"over {settings} settings; critical difference {number(distance)} (Nemenyi, {LEVEL:.0%})"
    return Table("mean rank", ("method", "mean rank"), rows, 1, (note,))


def records(found: Sequence[Standing]) -> list[dict[str, object]]:
    """One for each standing, for CSV and JSON."""
    return [
        {**vars(one), "accuracies": " ".join(f"{v:.4f}" for v in one.accuracies), "accuracy": one.accuracy}
        for one in found
    ]


def draw_pareto(found: Sequence[Standing], path: Path) -> Path:
    """Accuracy against what a client sends, a panel for each setting."""
    entrants = list(dict.fromkeys(one.entrant for one in found))
    charts = []
    for setting in dict.fromkeys(one.setting for one in found):
        series = []
        for one in (one for one in found if one.setting == setting):
            place = [max(one.uplink, 1.0)]  # nothing sent stands at 1: the axis is logarithmic
            series.append(Series(one.entrant, place, [one.accuracy], **look(entrants.index(one.entrant))))
        across = Axis("floats that a client sends in all (1: none)", log=True)
        charts.append(Chart("points", path.stem, "", across, Axis("accuracy (%)"), series, panel=setting))
    return paper.write(charts, [path])[0]


def standings(plan: Mapping[Match, Sequence[Outcome]], chosen: Mapping[Match, Chosen]) -> list[Standing]:
    """Of all matches whose finals are over."""
    return [standing(match, chosen[match], runs) for match, runs in plan.items() if runs]
