"""`protofed deploy measure`: bytes of the two payloads, counted without a network."""

import pytest
from fake_grid import FakeGrid

from protofed.deploy.measure import echo_round, payloads
from protofed.flower.link import GridLink
from protofed.flower.respond import echo


@pytest.mark.parametrize(("payload", "floats"), [("10 x 512 prototypes", 5120), ("1 M weights", 1_000_000)])
def test_messages_cost_little_more_than_their_payload(payload, floats):
    """One packed array and the meta data: less than 1.6 kB on top, for a few arrays."""
    link = GridLink(FakeGrid({7: echo, 8: echo}), lambda: {0: 7, 1: 8}, poll=0.0)
    found = echo_round(link, clients=2, rounds=1, payload=payload, upload="full")
    assert (found["payload_bytes"], found["answered"]) == (4 * floats, 2)
    assert 0 < found["message_up"] - found["payload_bytes"] < 1600
    coarse = echo_round(link, clients=2, rounds=1, payload=payload, upload="int8")
    assert coarse["message_up"] < 0.3 * found["message_up"]
    assert abs(coarse["message_down"] - found["message_down"]) < 10


def test_payloads_are_those_of_the_guide():
    sizes = {
        name: sum(t.numel() for t in tree.values() if t.is_floating_point())
        for name, tree in payloads().items()
    }
    assert sizes == {"10 x 512 prototypes": 5120, "1 M weights": 1_000_000}
