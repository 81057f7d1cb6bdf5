"""Secure sums over Flower's own programs, TLS and keys, with a client that dies in the midst of a sum."""

import fcntl
import json
import sys
import time
from contextlib import suppress

import pytest
from test_deployment import MINUTES, example, power_cut, rounds, started, wait_for  # noqa: F401

from protofed.runs.directory import RunDir

pytestmark = pytest.mark.slow


def test_three_sites_and_one_dies_after_it_shared_its_keys(example, started, tmp_path, capsys):  # noqa: F811
    """The first round has the numbers of the rehearsal, the next ones go on without south. What a round took
    is printed (pytest -s)."""
    federation, run = tmp_path / "federation", tmp_path / "run"
    example.write_federation(federation, rounds=3, timeout=60, more=example.SECURE)
    server = started("server", str(federation / "server"), "--out", str(run))
    clients = {name: started("client", str(federation / "clients" / name)) for name in example.SITES}
    wait_for(lambda: len(rounds(run)) >= 1, server, "first round")
    homes = federation / "clients"
    wait_for(lambda: "seeds" in known(homes / "south", "2.0"), server, "shares of the second round")
    with open(homes / "south" / ".lock", "w") as lock:  # its next message waits for this one
        fcntl.flock(lock, fcntl.LOCK_EX)
        wait_for(lambda: "2" in known(homes / "north", "2.0").get("held", {}), server, "shares of south")
        assert not known(homes / "south", "2.0")["masked"]
        power_cut(clients["south"])
    assert server.wait(timeout=60 * MINUTES) == 0
    lines = list(RunDir(run).lines("metrics.jsonl"))
    assert [line["clients"] for line in lines] == [3, 2, 2]
    assert [line["secure"]["lost"] for line in lines] == [0, 1, 0]
    assert lines[0]["secure"]["withheld"]  # classes of one site
    example.protofed("deploy", "rehearse", str(federation), "--out", str(tmp_path / "rehearsal"))
    rehearsed = list(RunDir(tmp_path / "rehearsal").lines("metrics.jsonl"))
    assert lines[0]["train_loss"] == pytest.approx(rehearsed[0]["train_loss"], abs=1e-3)
    assert lines[0]["secure"] == rehearsed[0]["secure"]
    with capsys.disabled():
        told = [f"{line['seconds']:.0f} s, {line['wire']}" for line in lines]
        sys.stdout.write("\nsecure rounds: " + "; ".join(told) + "\n")


def known(home, tag):
    """What the client keeps of the sum that is under way, if it is of this leg and past the keys."""
    time.sleep(0.02)
    for path in home.glob("state/*/*/secure.json"):
        with suppress(ValueError):
            session = json.loads(path.read_text())["session"] or {}
            if session.get("seeds") and bytes.fromhex(session["sum_id"]).decode().endswith(f"|{tag}"):
                return session
    return {}
