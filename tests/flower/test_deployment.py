"""Real deployments on 127.0.0.1: Flower's own programs, TLS and keys. Minutes, hence marked slow."""

import contextlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest

from protofed.deploy.processes import free_port
from protofed.deploy.status import alive, read_status
from protofed.runs.directory import RunDir

pytestmark = pytest.mark.slow
PATH = Path(__file__).parents[2] / "examples" / "deploy_three_sites" / "run.py"
MINUTES = 12
LONG = 20  # rounds: more than are played while a command on a busy machine starts


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("deploy_three_sites", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def started(example):
    """Starts commands; whatever is left is stopped at the end."""
    processes = []

    def start(*arguments):
        process = example.start(*arguments)
        processes.append(process)
        return process

    yield start
    example.stop([process for process in processes if process.poll() is None])


def rounds(run):
    return [line["round"] for line in RunDir(run).lines("metrics.jsonl")]


def wait_for(condition, process, what):
    end = time.monotonic() + 60 * MINUTES
    while not condition():
        assert process.poll() is None, f"the server ended with {process.returncode} before {what}"
        assert time.monotonic() < end, f"no {what} after {MINUTES} minutes"
        time.sleep(0.2)


def output(*arguments):
    command = [sys.executable, "-m", "protofed.cli.main", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def watched(run):
    """What a page of `protofed watch` is told."""
    command = [sys.executable, "-m", "protofed.cli.main", "watch", str(run)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as watch:
        url = re.search(r"http://\S+", watch.stderr.readline()).group()
        found = json.loads(urlopen(url + "data.json", timeout=60).read())
        watch.send_signal(signal.SIGINT)
    return found


def wait_until_dead(run):
    """The server app looks once a second whether its owner lives."""
    end = time.monotonic() + 30
    while alive(read_status(run)["pid"]):
        assert time.monotonic() < end
        time.sleep(0.2)


def left_behind(folder):
    """Processes that were started for this folder and are still there."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = " ".join(process.info["cmdline"] or [])
        if str(folder) in words and process.pid != os.getpid():
            found.append(words)
    return found


def test_example(tmp_path):
    """The script ends with 0 only if the prototypes equal those of the same federation in one process."""
    done = subprocess.run([sys.executable, str(PATH), str(tmp_path)], timeout=60 * MINUTES, check=False)
    assert done.returncode == 0
    assert left_behind(tmp_path) == []
    assert readable_by_others(tmp_path) == []
    summary = RunDir.open(tmp_path / "run").summary
    assert summary["rounds"] == 3
    assert summary["last"]["clf"]["mean"] > 80


def readable_by_others(folder):
    """Of what server and clients wrote: database, logs, run, states. What is in a directory of 0700 is out of
    reach; still, each file is looked at by itself."""
    places = [folder / "run", folder / "federation" / "server" / "flower"]
    places += [
        home / one for home in (folder / "federation" / "clients").iterdir() for one in ("state", "flower")
    ]
    logs = list(folder.glob("federation/clients/*/supernode.log"))
    files = [path for place in places for path in (place, *place.rglob("*"))] + logs
    assert len(files) > 30
    assert any(path.name == "state.db" for path in files)
    return [str(path) for path in files if path.stat().st_mode & 0o077 and not path.is_symlink()]


def test_a_method_file_of_ones_own(example, started, tmp_path):
    """`deploy init --recipe` with FILE.py:CLASS: the file lies at all sites, is compared and run there, and
    the numbers are those of one process."""
    method = Path(__file__).parents[1] / "outside" / "own_method.py"
    federation, run = tmp_path / "federation", tmp_path / "run"
    example.write_federation(federation, rounds=2, method=f"{method}:FedMedian")
    server = started("server", str(federation / "server"), "--out", str(run))
    for name in example.SITES:
        assert (federation / "clients" / name / method.name).read_bytes() == method.read_bytes()
        started("client", str(federation / "clients" / name))
    assert server.wait(timeout=60 * MINUTES) == 0
    assert [line["clients"] for line in RunDir(run).lines("metrics.jsonl")] == [3, 3]
    example.protofed("deploy", "rehearse", str(federation), "--out", str(tmp_path / "rehearsal"))
    assert example.compare(run, tmp_path / "rehearsal") < 1e-4


def test_server_killed_and_resumed(example, started, tmp_path):
    """`protofed resume` goes on from the checkpoint; clients kept their models on their disks. Commands that
    read runs work on this one while it goes on, after the kill, and at its end."""
    federation, run = tmp_path / "federation", tmp_path / "run"
    example.write_federation(federation, rounds=LONG)
    server = started("server", str(federation / "server"), "--out", str(run))
    for name in example.SITES:
        started("client", str(federation / "clients" / name))
    wait_for(lambda: len(rounds(run)) >= 2, server, "second round")
    live = watched(run)["live"]
    assert live["on"]
    assert live["done"] >= 2
    os.kill(server.pid, signal.SIGKILL)
    server.wait()
    wait_until_dead(run)
    example.protofed("show", str(run))
    example.protofed("report", str(run), "-o", str(tmp_path / "report.html"))
    assert json.loads(output("status", str(run), "--json"))["state"].startswith("stopped in round")
    second = started("resume", str(run))
    assert second.wait(timeout=60 * MINUTES) == 0
    assert rounds(run) == list(range(1, LONG + 1))
    assert json.loads(output("status", str(run), "--json"))["state"] == "finished"
    assert json.loads((run / "session.json").read_text())["session"] == 2
    example.protofed("deploy", "rehearse", str(federation), "--out", str(tmp_path / "rehearsal"))
    assert example.compare(run, tmp_path / "rehearsal") < 1e-4


def test_client_dies_and_comes_back(example, started, tmp_path):
    """With a quorum of all, the round is repeated until the killed client is back. It goes on from its
    disk, so the numbers are those of a run without trouble."""
    federation, run = tmp_path / "federation", tmp_path / "run"
    example.write_federation(federation, rounds=3, timeout=60, quorum=3, repeats=30)
    server = started("server", str(federation / "server"), "--out", str(run))
    clients = {name: started("client", str(federation / "clients" / name)) for name in example.SITES}
    wait_for(lambda: len(rounds(run)) >= 1, server, "first round")
    os.kill(clients["south"].pid, signal.SIGKILL)
    wait_for(lambda: failures(run, "south") > 0, server, "failure of the dead client")
    assert failures(run, "north") == 0
    started("client", str(federation / "clients" / "south"))
    assert server.wait(timeout=60 * MINUTES) == 0
    assert [line["clients"] for line in RunDir(run).lines("metrics.jsonl")] == [3, 3, 3]
    example.protofed("deploy", "rehearse", str(federation), "--out", str(tmp_path / "rehearsal"))
    assert example.compare(run, tmp_path / "rehearsal") < 1e-4


def test_killed_apps_and_launchers(example, started, tmp_path):
    """The process of a message, and the one from which it was forked, are killed at work. Either way the
    server hears of it at once, the leg is repeated, and the numbers are those of a run without trouble."""
    federation, run = tmp_path / "federation", tmp_path / "run"
    example.write_federation(federation, rounds=4, timeout=300, quorum=3, repeats=30)
    server = started("server", str(federation / "server"), "--out", str(run))
    clients = {name: started("client", str(federation / "clients" / name)) for name in example.SITES}
    wait_for(lambda: len(rounds(run)) >= 1, server, "first round")
    app_of(clients["south"]).kill()
    wait_for(lambda: failures(run, "south") > 0, server, "failure of the killed app")
    wait_for(lambda: len(rounds(run)) >= 2, server, "second round")
    app_of(clients["north"]).parent().kill()
    assert server.wait(timeout=60 * MINUTES) == 0
    assert failures(run, "north") > 0
    log = (federation / "clients" / "north" / "supernode.log").read_text()
    assert "The process that starts apps ended with signal 9; it is started again" in log
    assert "ended with signal 9" in (federation / "clients" / "south" / "supernode.log").read_text()
    assert [line["clients"] for line in RunDir(run).lines("metrics.jsonl")] == [3] * 4
    assert max(line["seconds"] for line in RunDir(run).lines("metrics.jsonl")) < 100
    example.protofed("deploy", "rehearse", str(federation), "--out", str(tmp_path / "rehearsal"))
    assert example.compare(run, tmp_path / "rehearsal") < 1e-4


def app_of(client):
    """The process that works on a message of this client's, as soon as there is one."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with contextlib.suppress(psutil.Error):
            for one in psutil.Process(client.pid).children(recursive=True):
                if "protofed.deploy.launcher" in one.cmdline() and one.parent().cmdline() == one.cmdline():
                    return one
    raise AssertionError("no app")


def failures(run, client):
    status = read_status(run) or {"clients": {}}
    return status["clients"].get(client, {}).get("failures", 0)


def test_clients_come_and_go(example, started, tmp_path):
    """South leaves server.toml after the first run: Flower refuses its key. West comes, and the server's
    certificate is renewed: the clients that stay are in the third run with the files they had."""
    federation = tmp_path / "federation"
    example.write_federation(federation, rounds=1)
    homes = federation / "clients"
    for name in example.SITES:
        started("client", str(homes / name))

    def run(name):
        server = started("server", str(federation / "server"), "--out", str(tmp_path / name))
        assert server.wait(timeout=60 * MINUTES) == 0
        return sorted(read_status(tmp_path / name)["clients"])

    assert run("first") == ["east", "north", "south"]
    toml = federation / "server" / "server.toml"
    toml.write_text(toml.read_text().replace(', "south"', ""))
    log = homes / "south" / "supernode.log"
    before = len(log.read_text())
    assert run("second") == ["east", "north"]
    assert "Failed to activate SuperNode" in log.read_text()[before:]
    example.protofed("deploy", "add", str(federation), "west")
    example.protofed("deploy", "renew", str(federation))
    move_in(homes / "south", homes / "west")
    started("client", str(homes / "west"))
    assert run("third") == ["east", "north", "west"]


TEN = """\
method = "fedproto"
rounds = 2
epochs = 1
lr = 0.05
eval_every = 2

[transport]
round_timeout = 300
min_clients = 10
"""


def test_ten_clients_at_once(example, started, tmp_path, capsys):
    """All join, all take part in every round, and the run ends. What it took is printed (pytest -s)."""
    federation, run = tmp_path / "federation", tmp_path / "run"
    names = [f"site{number}" for number in range(10)]
    (tmp_path / "recipe.toml").write_text(TEN)
    made = (
        "--clients",
        ",".join(names),
        "--port",
        str(free_port()),
        "--recipe",
        str(tmp_path / "recipe.toml"),
    )
    example.protofed("deploy", "init", str(federation), *made)
    for number, name in enumerate(names):
        with open(federation / "clients" / name / "client.toml", "a") as file:
            file.write(f'partition = "iid"\nparts = 10\npart = {number}\n')
    server = started("server", str(federation / "server"), "--out", str(run))
    for name in names:
        started("client", str(federation / "clients" / name))
    assert server.wait(timeout=60 * MINUTES) == 0
    assert [line["clients"] for line in RunDir(run).lines("metrics.jsonl")] == [10, 10]
    seconds = times(federation / "server" / "audit.jsonl")
    took = f"joined after {seconds['run begins']:.0f} s, finished after {seconds['run ends']:.0f} s"
    with capsys.disabled():
        sys.stdout.write(f"\nten clients: {took}\n")


def times(audit):
    """Seconds from the start of the server to each event."""
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    moments = {line["event"]: datetime.fromisoformat(line["time"]) for line in lines}
    return {event: (moment - moments["server starts"]).total_seconds() for event, moment in moments.items()}


def test_a_client_that_died_is_waited_for_once(example, started, tmp_path):
    """Killed with all that it started, as by a power cut: its round costs no more than `round_timeout`, and
    no later one waits for it. Started again, it takes part again."""
    federation, run = tmp_path / "federation", tmp_path / "run"
    example.write_federation(federation, rounds=12, timeout=60, quorum=2)
    server = started("server", str(federation / "server"), "--out", str(run))
    clients = {name: started("client", str(federation / "clients" / name)) for name in example.SITES}
    wait_for(lambda: len(rounds(run)) >= 1, server, "first round")
    power_cut(clients["south"])
    wait_for(lambda: taking_part(run)[-2:] == [2, 2], server, "rounds without the dead client")
    started("client", str(federation / "clients" / "south"))
    wait_for(lambda: taking_part(run)[-1] == 3, server, "round with the client that is back")
    assert server.wait(timeout=60 * MINUTES) == 0
    seconds = [line["seconds"] for line in RunDir(run).lines("metrics.jsonl")]
    first = taking_part(run).index(2)
    assert seconds[first] < 75
    assert "joined lost joined" in " ".join(
        line["event"]
        for line in map(json.loads, (federation / "server" / "audit.jsonl").read_text().splitlines())
        if line.get("client") == "south"
    )


def taking_part(run):
    return [line["clients"] for line in RunDir(run).lines("metrics.jsonl")]


def power_cut(process):
    """No signal that can be caught, for anything that it started."""
    own = psutil.Process(process.pid)
    for one in [*own.children(recursive=True), own]:
        one.kill()


def move_in(old, new):
    """The data, model and classes of one client for another."""
    shutil.copy(old / "data.npz", new / "data.npz")
    own = ("model", "data", "classes")
    lines = [line for line in (new / "client.toml").read_text().splitlines() if not line.startswith(own)]
    lines += [line for line in (old / "client.toml").read_text().splitlines() if line.startswith(own)]
    (new / "client.toml").write_text("\n".join(lines) + "\n")
