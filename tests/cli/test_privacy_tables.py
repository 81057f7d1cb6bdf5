"""Lines below the tables of `protofed privacy`: they say what the figures do not show."""

from __future__ import annotations

import pytest

from protofed.analysis.leakage import Leakage, Member
from protofed.analysis.membership import ANOTHER, OWN, OWN_LAYERS
from protofed.analysis.reconstructions import NO_UPLOAD
from protofed.cli.privacy_tables import caveats


@pytest.mark.parametrize(
    ("protection", "attack", "said"),
    [
        ("none", f"distance, {OWN}", True),
        ("none", f"loss{OWN_LAYERS}", True),
        ("none", "loss", False),
        ("none", f"distance, {ANOTHER}", False),
        ("none", "distance, a known map", False),  # "own" is in "known"
        (NO_UPLOAD, f"loss of {OWN}", False),  # a control
    ],
)
def test_the_worst_case_is_told_where_an_attack_has_something_of_the_clients_own(
    protection: str, attack: str, said: bool
) -> None:
    member = Member(protection, attack, auc=0.5, tpr=0.0, members=200, others=200)
    found = Leakage("fedproto", 1, (0,), 1, [], [], membership=[member])
    assert any("worst case" in line for line in caveats(found)) == said
