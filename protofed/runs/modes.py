"""Prediction modes: their names, titles, and what each means.

A mode is a key such as "clf" or "gp_local", as a method's `predict` names it. The mIoU of segmentation is a
further mode beside each: "miou_clf", shown as "mIoU clf"; and "miou_objects_clf", without the background.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from ..core.errors import ConfigError, unknown

DENSE = "miou_"
OBJECTS = "miou_objects_"  # the mean over all classes but the background
AMONG_OWN = ("gp_local", "lp", "clf_local")  # that choose among the classes which the client trains on


class Meaning(NamedTuple):
    """A few words for a table, a line for a page."""

    short: str
    line: str


MODES = {
    "clf": Meaning("classifier", "the client's classifier decides among all classes"),
    "gp_all": Meaning(
        "nearest global prototype", "the class of the nearest global prototype, among all classes"
    ),
    "gp_local": Meaning(
        "nearest global prototype among own classes",
        "the class of the nearest global prototype, among the classes of the client's training data",
    ),
    "lp": Meaning(
        "nearest own prototype", "the class of the nearest prototype of the client's own training data"
    ),
    "global": Meaning(
        "shared classifier", "the classifier of the shared model, not of the client's personal one"
    ),
    "own": Meaning("own head", "the classifier with the head that the client trained itself"),
    "ens": Meaning(
        "classifier and prototypes",
        "a mixture of classifier and nearest global prototype with the client's own class shares, weighed on "
        "samples that it holds out of training",
    ),
    "prior": Meaning(
        "common classifier with own class shares",
        "the classifier of everybody's samples in the common space, sharpened by the client's own class "
        "shares; without the client's network",
    ),
    "clf_local": Meaning(
        "classifier among own classes",
        "the classifier decides among the classes of the client's training data",
    ),
}


def miou_of(mode: str, objects: bool = False) -> str:
    """The key of a mode's mIoU: clf → miou_clf; of objects alone, miou_objects_clf."""
    return (OBJECTS if objects else DENSE) + mode


def plain(mode: str) -> str:
    """The mode itself, of its mIoU too: clf → clf, miou_clf → clf."""
    return mode.removeprefix(OBJECTS).removeprefix(DENSE)


def title(mode: str) -> str:
    """A mode as tables show it: clf → clf, miou_clf → mIoU clf."""
    if not mode.startswith(DENSE):
        return mode
    return f"mIoU {'objects ' * mode.startswith(OBJECTS)}{plain(mode)}"


def titled(mode: str) -> str:
    """With its meaning in a few words, where it is known: clf → clf (classifier)."""
    return f"{mode} ({MODES[mode].short})" if mode in MODES else title(mode)


def check_mode(mode: str, modes: Collection[str], where: str) -> None:
    """Whether a mode is one of these, or the mIoU of one. An error names mIoU only where that was meant."""
    if plain(mode) not in modes:
        dense = [miou_of(m, o) for m in modes for o in (False, True)] if "miou" in mode.lower() else ()
        raise ConfigError(f"{where}: {unknown('prediction mode', mode, [*modes, *dense])}")


def explain(modes: Iterable[str]) -> dict[str, str]:
    """Mode → one line, for these modes."""
    return {mode: _line(mode) for mode in modes}


def _line(mode: str) -> str:
    if mode.startswith(DENSE):
        base = plain(mode)
        meaning = MODES[base].line if base in MODES else base
        classes = ", without the background" if mode.startswith(OBJECTS) else ""
        return f"mean intersection over union on the pixels of all clients{classes}; {meaning}"
    return MODES[mode].line if mode in MODES else f"scores that the method names {mode}"
