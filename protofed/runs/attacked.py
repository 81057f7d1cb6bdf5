"""What a run with attackers says of them, in lines for `show` and the page."""

from __future__ import annotations

from typing import Any

from ..core.escape import visible
from .outcome import Outcome
from .records import RoundRecord

MOST_NAMED = 12  # attackers and classes in a line


def attack_lines(run: Outcome) -> list[str]:
    """Who attacks and how, the success, the victim; and the defence with the classes of few holders. Empty
    for a run without."""
    trust: dict[str, Any] = run.config.get("trust") or {}
    line: RoundRecord = next((one for one in reversed(run.lines) if one.get("acc")), {})
    found = []
    if trust.get("attack"):
        who = run.lines[-1].get("attackers", []) if run.lines else []
        named = ", ".join(map(str, who[:MOST_NAMED])) + (" …" if len(who) > MOST_NAMED else "")
        found.append(
            f"attack: {trust['attack']} by {len(who)} clients ({named}); accuracies are of the others"
        )
    if line.get("attack"):
        found += _reached(line["attack"], run)
    if trust.get("robust"):
        found.append(f"defence: {trust['robust']}{_held(line)}")
    return found


def _reached(attack: dict[str, Any], run: Outcome) -> list[str]:
    modes = [mode for mode in run.modes if mode in attack["success"]]
    success = ", ".join(f"{mode} {attack['success'][mode]:.1f} %" for mode in modes)
    lines = [f"attack success ({attack['wanted']}): {success}"] if success else []
    if "victim" in attack:
        number = attack["victim"]
        names = run.class_names
        name = f" ({visible(names[number])})" if number < len(names) and names[number] != str(number) else ""
        accuracy = ", ".join(f"{mode} {attack['victim_acc'][mode]:.1f} %" for mode in modes)
        lines.append(f"victim: class {number}{name}, accuracy {accuracy}")
    return lines


def _held(line: RoundRecord) -> str:
    holders = [n for n in line.get("holders") or () if n]
    return f"; uploads of a class: {min(holders)} to {max(holders)}" if holders else ""
