"""Names of classes that sites most likely mean as one: "malign" and "malignant", "Cat" and "cat "."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import combinations

from .agreement import Member

ALIKE = 0.85  # share of letters in common
SHORTEST = 4  # letters; in shorter names one letter is a difference ("cat", "car")


def near_names(members: Sequence[Member]) -> list[str]:
    """A remark for each pair of near-equal names. A site that has both means two classes."""
    names = sorted({name for member in members for name in member.classes})
    together = {pair for member in members for pair in combinations(sorted(member.classes), 2)}
    return [
        f"classes {one!r} ({_who(one, members)}) and {two!r} ({_who(two, members)}) are counted as two: "
        "if they are one, give them one name in `classes` of client.toml"
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


def _who(name: str, members: Sequence[Member]) -> str:
    return ", ".join(member.name for member in members if name in member.classes)
