"""Names of classes that sites most likely mean as one: "malign" and "malignant", "Cat" and "cat "."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from itertools import combinations

ALIKE = 0.85  # share of letters in common
SHORTEST = 4  # letters; in shorter names one letter is a difference ("cat", "car")


def near_pairs(classes: Mapping[str, Sequence[str]]) -> list[tuple[str, str, str, str]]:
    """Of the classes of each site: near-equal names, each with the sites that have it. A site that has both
    means two classes."""
    names = sorted({name for found in classes.values() for name in found})
    together = {pair for found in classes.values() for pair in combinations(sorted(found), 2)}
    return [
        (one, _who(one, classes), two, _who(two, classes))
        for one, two in combinations(names, 2)
        if (one, two) not in together and near(one, two)
    ]


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
    return ", ".join(site for site, found in classes.items() if name in found)
