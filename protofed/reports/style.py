"""Colours and numbers, the same on the page and on paper.

Runs: Okabe and Ito's colours; classes: Petroff's ten. Both stay apart for colour-blind readers.
"""

from __future__ import annotations

LIGHT = {
    "paper": "#f6f7f9", "card": "#ffffff", "line": "#d9dee4", "grid": "#e9ecf0", "accent": "#0072b2",
    "warn": "#9a5b00", "halo": "#ffffff", "ink": "#1b1f24", "soft": "#5a6470",
    "r0": "#0072b2", "r1": "#d55e00", "r2": "#009e73", "r3": "#c0609a", "r4": "#d99400", "r5": "#3fa3df",
    "r6": "#5a6470",
    "k0": "#3f90da", "k1": "#ffa90e", "k2": "#bd1f01", "k3": "#94a4a2", "k4": "#832db6", "k5": "#a96b59",
    "k6": "#e76300", "k7": "#b9ac70", "k8": "#717581", "k9": "#5fc4c9",
}  # fmt: skip
DARK = {
    "paper": "#12151a", "card": "#1b2027", "line": "#39424d", "grid": "#2a313a", "accent": "#5bb4ea",
    "warn": "#f0b45a", "halo": "#1b2027", "ink": "#e7eaee", "soft": "#9aa5b1",
    "r0": "#4ba9e3", "r1": "#f4853f", "r2": "#30c79c", "r3": "#e29ac6", "r4": "#f2b53a", "r5": "#97d6fa",
    "r6": "#aab4bf",
    "k0": "#5aa6ea", "k1": "#ffb733", "k2": "#ee5a3e", "k3": "#a9b8b6", "k4": "#b678e0", "k5": "#c48a78",
    "k6": "#ff8a33", "k7": "#cdc184", "k8": "#8f94a3", "k9": "#92dadd",
}  # fmt: skip


def css() -> str:
    """The colours as variables of a style sheet: dark where the system is, or the reader chose it."""

    def block(which: str, colours: dict[str, str]) -> str:
        return which + " { " + " ".join(f"--{name}: {colour};" for name, colour in colours.items()) + " }"

    dark = block(':root:not([data-theme="light"])', DARK)
    chosen = block(':root[data-theme="dark"]', DARK)
    return f"{block(':root', LIGHT)}\n@media (prefers-color-scheme: dark) {{ {dark} }}\n{chosen}"


def number(value: float | None, unit: str = "plain") -> str:
    """A number with its unit: plain, bytes or seconds."""
    if value is None:
        return "–"
    if unit == "bytes":
        return _bytes(value)
    if unit == "seconds":
        return _seconds(value)
    return f"{float(f'{value:.6g}'):,.12g}"


def fixed(value: float | None, digits: int) -> str:
    """A number with so many digits after the point."""
    return "–" if value is None else f"{value:.{digits}f}"


def _bytes(value: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if abs(value) < 999.5:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} TB"


def _seconds(value: float) -> str:
    if value == 0:
        return "0 s"
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 90:
        return f"{value:.1f} s"
    return f"{value / 60:.1f} min" if value < 5400 else f"{value / 3600:.1f} h"
