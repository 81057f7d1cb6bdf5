"""`--engine flower` on a Ray cluster of two nodes, which this test starts and ends: sequential's numbers."""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from protofed.core.errors import EngineError
from protofed.deploy.processes import free_port
from protofed.flower import ray_place, reaper

METHOD = '''
from dataclasses import dataclass
from pathlib import Path
from protofed.algorithms.fedproto import FedProto

@dataclass(frozen=True)
class Watched(FedProto):
    """FedProto that notes on which node a client made its upload."""

    def upload(self, net, data, down, mem, ran, turn):
        import ray
        node = ray.get_runtime_context().get_node_id() if ray.is_initialized() else "none"
        seen = Path(__file__).parent / "seen" / node
        seen.mkdir(parents=True, exist_ok=True)
        (seen / str(turn.client)).touch()
        return super().upload(net, data, down, mem, ran, turn)
'''
HEAD, SECOND = "127.0.0.2", "127.0.0.3"  # hosts of their own to Ray, which takes 127.0.0.1 for this machine
SECONDS = 150


class Cluster:
    """Two nodes with one CPU each, so that two actors must be on both."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.address = f"{HEAD}:{free_port()}"
        kept = {name: value for name, value in os.environ.items() if name not in ray_place.ALONE}
        self.environment = {
            **kept,  # without what a simulation that ran in this process before has set for itself
            **ray_place.QUIET,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "OMP_NUM_THREADS": "1",
        }
        self.nodes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        port = self.address.rpartition(":")[2]
        self._node(HEAD, "--head", f"--port={port}", "--include-dashboard=false")
        self._node(SECOND, f"--address={self.address}")

    def _node(self, host: str, *options: str) -> None:
        command = [
            sys.executable,
            "-m",
            "ray.scripts.scripts",
            "start",
            f"--node-ip-address={host}",
            "--block",
        ]
        command += ["--num-cpus=1", "--object-store-memory=100000000", f"--temp-dir={self.folder}", *options]
        file = self.folder / f"{host}.log"
        with file.open("wb") as log:
            node = subprocess.Popen(command, env=self.environment, stdout=log, stderr=subprocess.STDOUT)
        self.nodes.append(node)
        end = time.monotonic() + SECONDS
        while "Ray runtime started" not in file.read_text():
            assert node.poll() is None, file.read_text()
            assert time.monotonic() < end, file.read_text()
            time.sleep(0.2)

    def stop(self) -> None:
        """End the nodes, and what they left, by their numbers."""
        below = [child for node in self.nodes for child in _children(node.pid)]
        for node in reversed(self.nodes):
            node.terminate()
        for node in self.nodes:
            try:
                node.wait(30)
            except subprocess.TimeoutExpired:
                node.kill()
        for child in psutil.wait_procs(below, timeout=5)[1]:
            child.kill()


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed: pip install 'protofed[flower]'")
    if sys.platform != "linux":
        pytest.skip("needs the addresses 127.0.0.2 and 127.0.0.3, which Linux has")
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # paths of sockets must be short
    made = Cluster(folder)
    try:
        made.start()
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder, ignore_errors=True)


def run(folder: Path, engine: str, environment: dict[str, str]) -> list[dict[str, object]]:
    """Three rounds of six clients; the lines of metrics.jsonl."""
    command = [sys.executable, "-m", "protofed.cli.main", "run", f"{folder / 'watched.py'}:Watched", "--json"]
    command += ["--rounds", "3", "--clients", "6", "--epochs", "2", "--dtype", "float64", "--balanced", "0"]
    command += ["--engine", engine, "--out", str(folder / engine)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=2 * SECONDS)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in (folder / engine / "metrics.jsonl").read_text().splitlines()]


def test_two_nodes_give_the_numbers_of_one_process(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "watched.py").write_text(METHOD)
    shared = tmp_path / "shared"
    shared.mkdir()
    there = {**cluster.environment, "RAY_ADDRESS": cluster.address, "TMPDIR": str(shared)}
    found = run(tmp_path, "flower", there)
    nodes = {
        folder.name: {file.name for file in folder.iterdir()} for folder in (tmp_path / "seen").iterdir()
    }
    assert len(nodes) == 2, nodes
    assert "none" not in nodes
    assert set.union(*nodes.values()) == set("012345")
    assert list(shared.iterdir()) == [], "the simulation's folder goes with it"
    assert all(node.poll() is None for node in cluster.nodes), "the cluster stays"
    expected = run(tmp_path, "sequential", cluster.environment)
    for one, other in zip(found, expected, strict=True):
        assert one["acc"] == other["acc"]
        assert one["up"] == other["up"]
        assert one["train_loss"] == pytest.approx(other["train_loss"], rel=1e-10)


@pytest.mark.parametrize(
    ("address", "mode", "said"),
    [
        ("ray://head:10001", "token", "client mode is not supported"),
        ("head:6379", "", "runs code for whoever reaches it"),
    ],
)
def test_clusters_that_are_refused(
    address: str, mode: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    monkeypatch.setenv("RAY_AUTH_MODE", mode)
    with pytest.raises(EngineError, match=f"RAY_ADDRESS {address}: .*{said}"):
        ray_place.cluster()


def test_a_cluster_that_is_not_there_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"{HEAD}:{free_port()}"
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(
        EngineError, match=f"RAY_ADDRESS {address}: no Ray cluster is reached there: .*refused"
    ):
        ray_place.check_reached()
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    ray_place.check_reached()


def test_without_an_address_ray_is_started_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    here = ray_place.init_args(tmp_path, 2)
    assert (here["num_cpus"], here["_temp_dir"]) == (2, str(tmp_path / "ray"))
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    there = ray_place.init_args(tmp_path, 2)
    assert there["address"] == "head:6379"
    assert not {"num_cpus", "_temp_dir"} & set(there)


def test_a_node_without_the_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="is not on this node of the Ray cluster; set TMPDIR"):
        ray_place.check_shared(tmp_path)
    reaper.claim(tmp_path)
    ray_place.check_shared(tmp_path)
