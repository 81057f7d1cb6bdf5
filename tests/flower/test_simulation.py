"""`--engine flower`: real Ray actors, one simulation for all cases."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from test_every_method import GENTLE, assert_same

from protofed.core.algorithm import methods
from protofed.core.errors import EngineError
from protofed.core.user_files import short_name
from protofed.engines.store import Store
from protofed.engines.transport import Transport
from protofed.flower import simulation
from protofed.flower.simulation import Runtime, SimulationLink, on_runtime
from protofed.testing import COUNTS, Toy

if importlib.util.find_spec("ray") is None:  # not imported here: it would read its settings too early
    pytest.skip("Ray is not installed: pip install 'protofed[flower]'", allow_module_level=True)
pytestmark = pytest.mark.filterwarnings("ignore")  # of Ray's and Flower's own code
OWN = f"{Path(__file__).parents[1] / 'outside' / 'own_method.py'}:FedMedian"  # actors run the file too
SOME = ("fedproto", "fcclplus")  # kept models; three legs and public data


@pytest.fixture(scope="module")
def runtime():
    runtime = Runtime(len(COUNTS), workers=2)
    yield runtime
    runtime.close()


def simulate(runtime, case, name):
    flower = case.build()
    federation = flower.federation
    link = SimulationLink(runtime, flower.task, federation.data, name)
    federation.engine = on_runtime(runtime, flower.task, federation.data, Store(), Transport(), link)
    return flower


def check(runtime, method):
    case = Toy(method, GENTLE.get(method, {}), models="norm")
    plain, flower = case.build(), simulate(runtime, case, f"equal-{short_name(method)}")
    expected, got = plain.play(None), flower.play(None)
    assert_same(plain, flower)
    assert [r["acc"] for r in got] == [r["acc"] for r in expected]
    assert all(r["wire"]["up"] > r["up"]["bytes"] for r in got if r["up"]["bytes"])
    assert sorted(flower.federation.engine.store) == sorted(plain.federation.engine.store)


def check_restored(runtime):
    """Two rounds elsewhere, the states carried over, then one round here: as three rounds at once."""
    case = Toy("fedproto", models="mixed")
    plain, flower = case.build(), simulate(runtime, case, "restored")
    plain.play(None)
    before = case.build(rounds=2)
    before.play(None)
    federation = flower.federation
    for client in before.federation.engine.store:
        federation.engine.store.put(client, before.federation.engine.store.get(client))
    federation.round, federation.state = 2, before.federation.state
    flower.play(None)
    assert_same(plain, flower)


def test_simulation_equals_sequential(runtime):
    """In one test, so that Ray is started once however the suite is divided among processes."""
    for method in (*SOME, OWN):
        check(runtime, method)
    check_restored(runtime)


class _Registering:
    """A grid whose nodes join one by one, as Flower's do while the server app runs already."""

    def __init__(self, nodes):
        self.nodes, self.looks = nodes, 0

    def get_node_ids(self):
        self.looks += 1
        return [70, 50, 60][: min(self.looks, self.nodes)]


def starting(monkeypatch, grid):
    runtime = Runtime(3, workers=1)
    monkeypatch.setattr(runtime, "grid", lambda: grid)
    return runtime


def test_nodes_that_register_late_are_waited_for(monkeypatch):
    runtime = starting(monkeypatch, _Registering(nodes=3))
    assert runtime.ids() == {0: 50, 1: 60, 2: 70}
    assert runtime.grid().looks == 3
    runtime.close()


def test_nodes_that_never_register_are_told(monkeypatch):
    monkeypatch.setattr(simulation, "START_SECONDS", 0.05)
    runtime = starting(monkeypatch, _Registering(nodes=2))
    with pytest.raises(EngineError, match=r"has 2 of 3 nodes after 0\.05 s"):
        runtime.ids()
    runtime.close()


@pytest.mark.slow
@pytest.mark.parametrize("method", list(methods))
def test_every_method_over_ray(method, runtime):
    check(runtime, method)


@pytest.mark.slow
def test_command_line(tmp_path):
    """`protofed run --engine flower` gives the summary of `--engine sequential`, and ends by itself."""
    found = {}
    for engine in ("sequential", "flower"):
        command = [sys.executable, "-m", "protofed.cli.main", "run", "fedproto", "--json", "--rounds", "2"]
        command += ["--clients", "4", "--engine", engine, "--out", str(tmp_path / engine)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
        found[engine] = json.loads(done.stdout)
    assert found["flower"]["last"] == found["sequential"]["last"]
