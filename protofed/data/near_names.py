"""Names of classes that sites most likely mean as one: "malign" and "malignant", "Cat" and "cat "."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from itertools import combinations

import numpy as np

from .base import Dataset

ALIKE = 0.85  # share of letters in common
MOST = 200  # classes whose names are compared, each with each
SHORTEST = 4  # letters; in shorter names one letter is a difference ("cat", "car")


def near_pairs(classes: Mapping[str, Sequence[str]]) -> list[tuple[str, str, str, str]]:
    """Of the classes of each site: near-equal names, each with the sites that have it. A site that has both
    means two classes."""
    names = sorted({name for found in classes.values() for name in found})
    alike = [(one, two) for one, two in combinations(names, 2) if near(one, two)]
    return [
        (one, _who(one, classes), two, _who(two, classes))
        for one, two in alike
        if not any(one in found and two in found for found in classes.values())
    ]


def name_notes(dataset: Dataset) -> list[str]:
    """Warnings of classes that training and test rows, or owners, most likely mean as one, and of classes
    that are tested but never trained on."""
    if dataset.dense or not len(dataset.y):
        return []
    labels, test = np.asarray(dataset.y), np.asarray(dataset.test)
    parts = {"training rows": labels[~test], "test rows": labels[test]}
    held = {part: [dataset.classes[cls] for cls in np.unique(found)] for part, found in parts.items()}
    notes = []
    if unlearnt := [name for name in held["test rows"] if name not in held["training rows"]]:
        names = ", ".join(map(repr, unlearnt[:5])) + ("…" if len(unlearnt) > 5 else "")
        notes.append(f"warning: test rows of {names}, but no training row: what cannot be learnt is tested")
    if dataset.num_classes > MOST or all(name.isdecimal() for name in dataset.classes):
        return notes
    return notes + [
        f"warning: classes {one!r} ({of_one}) and {two!r} ({of_two}) are counted as two: if they are one, "
        "give them one name in the files"
        for one, of_one, two, of_two in [*near_pairs(held), *near_pairs(_by_owner(dataset, labels))]
    ]


def likely(name: str, names: Sequence[str]) -> str:
    """What a name that is not among others is most likely meant to be, as words behind a message."""
    found = next((other for other in names if near(name, other)), None)
    return f"; most likely {found!r} is meant" if found else ""


def _by_owner(dataset: Dataset, labels: np.ndarray) -> dict[str, list[str]]:
    """Names of the classes that each owner has."""
    if dataset.owner is None:
        return {}
    pairs = np.unique(np.stack([np.asarray(dataset.owner), labels]), axis=1)
    found: dict[str, list[str]] = {}
    for owner, cls in pairs.T.tolist():
        name = dataset.owners[owner] if dataset.owners else f"owner {owner}"
        found.setdefault(name, []).append(dataset.classes[cls])
    return found


def near(one: str, two: str) -> bool:
    """Whether two names differ by case, spaces, signs or an ending, or by a letter or two in a long name.

    >>> near("malign", "malignant"), near("Type 1", "type-1"), near("type 1", "type 2"), near("cat", "car")
    (True, True, False, False)
    """
    a, b = (re.sub(r"[\W_]+", "", name.casefold()) for name in (one, two))
    if a == b:
        return True
    if min(len(a), len(b)) < SHORTEST or re.findall(r"\d+", a) != re.findall(r"\d+", b):
        return False
    ending = a.startswith(b) or b.startswith(a)
    return (ending and abs(len(a) - len(b)) <= SHORTEST) or SequenceMatcher(None, a, b).ratio() >= ALIKE


def _who(name: str, classes: Mapping[str, Sequence[str]]) -> str:
    who = [site for site, found in classes.items() if name in found]
    return ", ".join(who[:3]) + (f" and {len(who) - 3} more" if len(who) > 3 else "")
