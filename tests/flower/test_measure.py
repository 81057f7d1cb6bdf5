"""`protofed deploy measure`: bytes of the two payloads, counted without a network."""

import math
import os
import subprocess
import sys
import time

import pytest
from fake_grid import FakeGrid

from protofed.deploy.cpu import CpuWatch, used_below
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


def test_cpu_seconds_of_what_was_started():
    """A child that counts for half a second of CPU time, and a grandchild that does and is waited for."""
    burn = "import time\nwhile time.process_time() < 0.5: pass\n"
    inner = f"subprocess.run([sys.executable, '-c', {burn!r}])"
    code = f"import subprocess, sys, time\n{inner}\n{burn}time.sleep(60)"
    before = used_below(os.getpid())
    child = subprocess.Popen([sys.executable, "-c", code])
    try:
        end = time.monotonic() + 60
        while used_below(os.getpid()) - before < 0.95:
            assert time.monotonic() < end
            time.sleep(0.05)
        time.sleep(0.3)
        assert used_below(os.getpid()) - before < 2
    finally:
        child.kill()
        child.wait()


def test_cpu_between_two_moments():
    watch = CpuWatch()
    watch._seen = [(10.0, 1.0), (20.0, 3.0), (30.0, 4.5), (40.0, 9.0)]
    assert watch.between(19.9, 30.1) == 1.5
    assert math.isnan(watch.between(50.0, 60.0))
