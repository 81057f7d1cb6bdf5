"""`protofed forget`: the state of a run without the client, on disk too; refusals in one line."""

import json
import shutil
from pathlib import Path

import pytest
import torch

import protofed
from protofed.cli.main import main
from protofed.engines.store import Store
from protofed.ops.pooled import Pool
from protofed.runs.directory import RunDir

SETTINGS = {"clients": 5, "models": "mlp", "dtype": "float64", "epochs": 1, "options": {"size": 32}}


def state_of(path: Path) -> tuple[Pool, Store]:
    store = Store()
    return RunDir.open(path).checkpoints.load(Pool, store).state, store


def as_deployed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run directory that says it was deployed."""
    config = {**RunDir.open(path).config, "data": "deployment"}
    monkeypatch.setattr(RunDir, "config", property(lambda self: config))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("forget") / "run"
    protofed.run("fedcommons", rounds=3, out=path, **SETTINGS)
    return path


@pytest.fixture
def run(finished, tmp_path):
    return Path(shutil.copytree(finished, tmp_path / "run"))


def test_state_is_that_of_a_run_without_the_client(run, capsys):
    """The sums of the other four, added up anew from their samples."""
    before, _ = state_of(run)
    experiment = protofed.experiment.reopen(RunDir.open(run))
    method, task, data = experiment.task.algorithm, experiment.task, experiment.data
    assert main(["forget", str(run), "--client", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["client"], found["round"], found["remaining"]) == (3, 3, 4)
    assert found["before"].keys() == found["after"].keys() == {"clf", "prior", "gp_all", "gp_local"}
    after, store = state_of(run)
    own = [method.own(task.live(0)["phi"], data.train(k), after.scale, task.C) for k in (0, 1, 2, 4)]
    torch.testing.assert_close(after.sums, sum(m.sums for m in own), rtol=1e-9, atol=1e-9)
    assert after.n.tolist() == sum(m.n for m in own).long().tolist() != before.n.tolist()
    assert list(store) == [0, 1, 2, 4]
    assert not list((run / "checkpoint").glob("client-3-*"))
    assert not (run / "checkpoint" / "manifest.previous.json").exists()


def test_the_run_goes_on_without_it(run, capsys):
    assert main(["forget", str(run), "--client", "0", "--networks", "anew"]) == 0
    assert "4 clients remain" in capsys.readouterr().out
    assert len(state_of(run)[1]) == 0  # every network starts anew
    sums = state_of(run)[0].sums
    assert main(["resume", str(run), "--rounds", "5", "--quiet"]) == 0
    later, _ = state_of(run)
    torch.testing.assert_close(later.sums, sums)
    assert later.gone.tolist() == [0]


def test_refusals(run, tmp_path, capsys):
    assert main(["forget", str(run), "--client", "9"]) == 2
    assert "client 9 does not exist; the run has clients 0 to 4" in capsys.readouterr().err
    other = tmp_path / "other"
    protofed.run("local", rounds=1, out=other, clients=2, models="mlp")
    assert main(["forget", str(other), "--client", "1"]) == 2
    assert "local cannot take a client out" in capsys.readouterr().err


def test_a_deployed_run_needs_the_ledger(run, capsys, monkeypatch):
    """Its samples are elsewhere: the server has what it keeps."""
    as_deployed(run, monkeypatch)
    assert main(["forget", str(run), "--client", "1"]) == 2
    assert "run with ledger=true" in capsys.readouterr().err


def test_a_deployed_run_with_a_ledger(tmp_path, capsys, monkeypatch):
    path = tmp_path / "kept"
    options = {**SETTINGS["options"], "ledger": True}
    protofed.run("fed3r", rounds=2, out=path, **{**SETTINGS, "options": options})
    as_deployed(path, monkeypatch)
    assert main(["forget", str(path), "--client", "1"]) == 0
    assert "client 1 is out of the server's sums; 4 clients remain" in capsys.readouterr().out
    state, _ = state_of(path)
    assert {int(name.split("/")[0]) for name in state.ledger} == {0, 2, 3, 4}
