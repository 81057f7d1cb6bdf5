"""Tables and lines of `protofed privacy`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from ..analysis.inversion import NOTHING, OTHERS
from ..analysis.leakage import PSNR, Inverted, Leakage
from ..analysis.membership import OWN, OWN_LAYERS
from ..analysis.reconstructions import NO_UPLOAD

if TYPE_CHECKING:
    from ..analysis.canaries import Audited

UNKNOWN = "–"


def revealed_table(found: Leakage) -> Table:
    """A row for each client."""
    table = Table(title="what the server saw of each client")
    table.add_column("client")
    for column in ("rounds", "samples", "classes", "counts", "rows of an upload", "weights", "numbers sent"):
        table.add_column(column, justify="right")
    table.add_column("seen")
    for one in found.revealed:
        if not one.sent:
            seen = "nothing"
        else:
            seen = "alone" if one.seen else "in sums: that it took part"
        table.add_row(
            str(one.client),
            _text(one.rounds),
            _text(one.samples),
            UNKNOWN if one.classes is None else " ".join(one.classes),
            "yes" if one.counts else UNKNOWN,
            UNKNOWN if one.rows is None else f"{one.rows[0]} × {one.rows[1]}",
            UNKNOWN if one.weights is None else f"{one.weights:,}",
            UNKNOWN if one.sent is None else f"{one.sent:,}",
            seen,
        )
    return table


def inversion_table(found: Leakage) -> Table:
    """A row for each protection and network: from nothing, and from what is known of others."""
    image = found.measure == PSNR
    what = (
        "PSNR in dB to the nearest training image of the class: higher reveals more"
        if image
        else "squared error over variance to the nearest training sample of the class: lower reveals more"
    )
    table = Table(title=f"inversion: {what}")
    for column in ("protection", "through", "from nothing", "best"):
        table.add_column(column, justify="left" if column in ("protection", "through") else "right")
    for column in (f"from {OTHERS}", "best", "more than guessed"):
        table.add_column(column, justify="right")
    pairs: dict[tuple[str, str], dict[str, Inverted]] = {}
    for one in found.inversion:
        pairs.setdefault((one.protection, one.network), {})[one.start] = one
    guessed = pairs[NO_UPLOAD, ""][OTHERS].mean
    for (protection, network), starts in pairs.items():
        plain, informed = starts[NOTHING], starts[OTHERS]
        gain = informed.mean - guessed if image else guessed - informed.mean
        values = [plain.mean, plain.best, informed.mean, informed.best]
        said = "" if protection == NO_UPLOAD else f"{gain:+.2f}"
        table.add_row(protection, network or "the guesses themselves", *(f"{v:.2f}" for v in values), said)
    there = {protection for protection, _ in pairs}
    for tried in found.protections:
        if not tried.refused and tried.name not in there:
            table.add_row(tried.name, "nothing of these classes is released", *[UNKNOWN] * 5)
    return table


def membership_table(found: Leakage) -> Table:
    """A row for each protection and attack."""
    table = Table(title="membership inference: training rows (members) against test rows")
    for column in ("protection", "attack"):
        table.add_column(column)
    for column in ("AUC", "found at 1 % false", "members", "others"):
        table.add_column(column, justify="right")
    for one in found.membership:
        numbers = (f"{one.auc:.3f}", f"{100 * one.tpr:.1f} %", str(one.members), str(one.others))
        table.add_row(one.protection, one.attack, *numbers)
    return table


def audit_table(audits: Sequence[Audited]) -> Table:
    """A row for each protection with noise."""
    table = Table(title="audit of one release: ε proved by canaries (95 %), ε claimed")
    table.add_column("protection")
    table.add_column("canary")
    for column in ("ε proved", "ε claimed", "δ", "draws"):
        table.add_column(column, justify="right")
    table.add_column("")
    for one in audits:
        proved, claimed = f"{one.proved:.3f}", f"{one.claimed:.3f}"
        numbers = (proved, claimed, f"{one.delta:g}", f"{one.trials:,}")
        verdict = "holds" if one.holds else "BROKEN: more is revealed than claimed"
        table.add_row(one.protection, one.canary, *numbers, verdict)
    return table


def protection_lines(found: Leakage) -> list[str]:
    """What noise costs, and what cannot be had."""
    spent = [
        f"{one.name}: {one.name.split(':')[0]}-level ε = {one.epsilon:.4g} over the {found.round} rounds"
        for one in found.protections
        if one.epsilon is not None
    ]
    refused: dict[str, list[str]] = {}
    for one in found.protections:
        if one.refused:
            refused.setdefault(one.refused, []).append(one.name)
    return [*spent, *(f"not tried: {', '.join(names)}: {why}" for why, names in refused.items())]


def caveats(found: Leakage) -> list[str]:
    """What the figures do not show."""
    if not found.membership:
        return []
    lines = [
        f"clients attacked: {len(found.attacked)}, in sums: {found.in_sum}. What these attacks find is a "
        "lower bound: that they find little is no proof of privacy. A proof needs noise with a small ε.",
        "An AUC of 0.5 is a coin; few rows make it uncertain.",
    ]
    uploads = [one.attack for one in found.membership if one.protection != NO_UPLOAD]
    if any(OWN in attack or attack.endswith(OWN_LAYERS) for attack in uploads):
        lines.append(
            "The client's own network, or layers, are the worst case: as if somebody had got hold of them."
        )
    if found.membership[0].others < 100:
        lines.append("fewer than 100 others: 1 % false means none at all, a coarse measure")
    return lines


def _text(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"
