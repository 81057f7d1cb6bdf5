"""What each prediction mode means, in one line."""

from __future__ import annotations

from collections.abc import Iterable

MODES = {
    "clf": "the client's classifier decides among all classes",
    "gp_all": "the class of the nearest global prototype, among all classes",
    "gp_local": "the class of the nearest global prototype, among the classes of the client's training data",
    "lp": "the class of the nearest prototype of the client's own training data",
    "global": "the classifier of the shared model, not of the client's personal one",
    "own": "the classifier with the head that the client trained itself",
    "clf_local": "the classifier decides among the classes of the client's training data",
}


def explain(modes: Iterable[str]) -> dict[str, str]:
    """Name → one line, for these modes; `miou_…` stands for the segmentation measure of a mode."""
    return {mode: _line(mode) for mode in modes}


def _line(mode: str) -> str:
    if mode.startswith("miou_"):
        base = mode.removeprefix("miou_")
        return f"mean intersection over union on the pixels of all clients; {MODES.get(base, base)}"
    return MODES.get(mode, f"scores that the method names {mode}")
