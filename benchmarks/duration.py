"""How long a run of the benchmarks will take, before it starts."""

from __future__ import annotations

from collections.abc import Sequence

A_TURN = {"w1": 8.0, "w2": 30.0, "w2p": 25.0, "w3": 60.0, "w4": 60.0}  # seconds of all contenders
A_TURN |= {"aggregation": 8.0, "server_step": 10.0, "starts": 6.0}
ONCE = {"scale": 150.0, "deployed": 240.0}
OTHERS_CODE = {("w1", "flower"): 3.0, ("w1", "pfl"): 3.0, ("w1", "fedproto"): 5.0}
OTHERS_CODE |= {("w2", "htfllib"): 25.0, ("w2p", "htfllib"): 20.0}


def minutes(what: Sequence[str], repeats: int, others: Sequence[str]) -> float:
    """On two cores that nothing else uses: turns, and one more that warms up."""
    a_turn = sum(A_TURN.get(name, 0.0) for name in what)
    a_turn += sum(seconds for (name, who), seconds in OTHERS_CODE.items() if name in what and who in others)
    return ((repeats + 1) * a_turn + sum(ONCE.get(name, 0.0) for name in what)) / 60
