"""Secure sums over Flower's own programs, TLS and keys, with a client that dies in the midst of a sum."""

import json
import sys
import time

import pytest
from test_deployment import MINUTES, example, power_cut, rounds, started, wait_for  # noqa: F401

from protofed.runs.directory import RunDir

pytestmark = pytest.mark.slow
SECURE = "secure = true\nsecure_holders = 2\n"


def test_three_sites_and_one_dies_after_it_shared_its_keys(example, started, tmp_path, capsys):  # noqa: F811
    """The first round has the numbers of the rehearsal, the next ones go on without south. What a round took
    is printed (pytest -s)."""
    federation, run = tmp_path / "federation", tmp_path / "run"
    example.write_federation(federation, rounds=3, timeout=60, more=SECURE)
    server = started("server", str(federation / "server"), "--out", str(run))
    clients = {name: started("client", str(federation / "clients" / name)) for name in example.SITES}
    wait_for(lambda: len(rounds(run)) >= 1, server, "first round")
    wait_for(lambda: shared(federation / "clients" / "south", "2.0"), server, "shares of the second round")
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


def shared(home, tag):
    """Whether the client has shared its keys in this leg, and not yet sent its values."""
    for path in home.glob("state/*/*/secure.json"):
        try:
            session = json.loads(path.read_text())["session"] or {}
        except ValueError:
            continue
        if session.get("seeds") and not session["masked"]:
            return bytes.fromhex(session["sum_id"]).decode().endswith(f"|{tag}")
    time.sleep(0.02)
    return False
