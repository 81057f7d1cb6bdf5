"""What a run began with, held against what is there now."""

from __future__ import annotations

import pytest

from protofed.runs.about import AboutRun
from protofed.runs.contents import DATA, PUBLIC, changes

BEGAN = AboutRun(fingerprints={DATA: "a", PUBLIC: "b"})
SETTINGS = {"data": "digits", "public": "pacs"}


@pytest.mark.parametrize(
    ("now", "found"),
    [
        ({DATA: "a", PUBLIC: "b"}, []),
        ({DATA: "a", PUBLIC: "c"}, ["its public data pacs changed"]),
        ({DATA: "a"}, []),  # earlier versions read public data for methods that do not use it
        ({DATA: "c", PUBLIC: "b"}, ["its data digits changed"]),
        ({PUBLIC: "b"}, ["its data digits changed"]),
    ],
)
def test_what_changed_is_named(now: dict[str, str], found: list[str]) -> None:
    assert changes(BEGAN, now, SETTINGS) == found
