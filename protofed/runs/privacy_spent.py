"""What a round's record says of differential privacy, in words. The level is always named."""

from __future__ import annotations

from typing import Any

from .records import RoundRecord

DROWNED = 0.7  # of the length of a noisy mean: from here on most of it is noise


def spent_text(record: RoundRecord) -> str:
    """The privacy loss so far, in a few words; empty without.

    >>> spent_text({"epsilon": 3.9953, "privacy": {"level": "client-level", "delta": 1e-5}})
    'client-level ε 3.995'
    """
    return f"{record['privacy']['level']} ε {record['epsilon']:.4g}" if "epsilon" in record else ""


def privacy_text(record: RoundRecord) -> str:
    """The same in a line, with what the noise does to what is released; empty without."""
    if "epsilon" not in record:
        return ""
    found = record["privacy"]
    text = f"{found['level']} differential privacy: ε = {record['epsilon']:.4g} at δ = {found['delta']:g}"
    text += f" (noise multiplier {found['noise']:g})"
    for field, pair in (found.get("error") or {}).items():
        if pair:
            text += f"; {field}: noise of about {pair[0]:.3g} in a length of {pair[1]:.3g}"
    return text + (f"; {found['withheld']} classes withheld" if found.get("withheld") else "")


def noise_findings(record: RoundRecord) -> list[dict[str, Any]]:
    """Findings (see findings.py) about noise that leaves nothing of what was averaged."""
    found = record.get("privacy") or {}
    drowned = {f: pair for f, pair in (found.get("error") or {}).items() if not pair or _drowned(*pair)}
    if not drowned:
        return []
    said = [
        f"{field} is withheld for every class"
        if not pair
        else f"{field} has a length of {pair[1]:.3g}, of which about {pair[0]:.3g} are noise"
        for field, pair in drowned.items()
    ]
    text = (
        f"{found['level']} noise drowns what is released: {', '.join(said)}; take more clients or samples, "
        "fewer rounds, or less noise at a larger ε"
    )
    return [{"kind": "noise", "text": text, "modes": ()}]


def _drowned(error: float, length: float) -> bool:
    return error > DROWNED * length
