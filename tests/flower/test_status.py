"""`protofed status`: what the server app wrote, and what it means."""

import json
import os

from protofed.cli.main import main
from protofed.deploy.status import StatusFile, overview
from protofed.runs.directory import RunDir
from protofed.runs.loose import write_loose

LINE = {"round": 1, "clients": 1, "failed": {"1": "client 1: no reply"}, "seconds": 1.0}
LINE |= {
    "up": {"params": 10, "bytes": 40, "meta_bytes": 8},
    "down": {"params": 5, "bytes": 20, "meta_bytes": 0},
}
LINE |= {"wire": {"up": 900, "down": 700}, "acc": {"clf": {"mean": 87.5}}}


def write(run):
    status = StatusFile(run, 42)
    status.roster(joined="a", model="mlp", samples=10)
    status.begin(["a", "b"], 3)
    status.event({"event": "train", "client": 0, "round": 1, "reason": None})
    status.event({"event": "train", "client": 1, "round": 1, "reason": "client 1: no reply"})
    status.roster(missing=["b"])
    status.roster(refused="node 7: unknown")
    status.round({"round": 1})
    RunDir(run).append("metrics.jsonl", LINE)
    write_loose(run / "traffic.json", {"42": {"inbound-bytes": 5000, "outbound-bytes": 6000}})
    return status


def test_overview_counts(tmp_path):
    write(tmp_path)
    found = overview(tmp_path)
    assert (found["state"], found["rounds_done"], found["rounds"]) == ("running", 1, 3)
    assert found["payload_bytes"] == {"up": 40, "down": 20}
    assert found["message_bytes"] == {"up": 900, "down": 700}
    assert found["wire_bytes"] == {"up": 5000, "down": 6000}
    assert found["accuracy"] == {"clf": 87.5}
    assert found["clients"]["a"]["round"] == 1
    assert found["clients"]["b"]["failures"] == 1
    assert found["failed"] == {"1": {"1": "client 1: no reply"}}


def test_a_dead_server_app_is_seen(tmp_path):
    status = write(tmp_path)
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    status.values["pid"] = child
    status.round({"round": 1})
    assert overview(tmp_path)["state"] == "stopped in round 2"


def test_command_prints_clients_and_bytes(tmp_path, capsys):
    write(tmp_path)
    assert main(["status", str(tmp_path)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for text in (
        "running: 1 of 3 rounds",
        "clf 87.50 %",
        "900 bytes up",
        "5,000 bytes up",
        "missing",
        "refused",
    ):
        assert text in shown, text
    assert main(["status", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["flower_run"] == "42"


def test_not_a_deployed_run(tmp_path, capsys):
    assert main(["status", str(tmp_path)]) == 1
    assert "no status.json" in capsys.readouterr().err
