"""A method that lies in a file of the user's, deployed: the same file at the server and at every client."""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
import test_deployed_run as deployed

from protofed.cli.main import main
from protofed.core.errors import ConfigError, EngineError
from protofed.deploy.agreement import agree
from protofed.deploy.init import init
from protofed.deploy.place import Place, place_of
from protofed.deploy.rehearse import rehearse
from protofed.deploy.server_app import deployed_config
from protofed.deploy.settings import read_client, read_server
from protofed.deploy.site import Site
from protofed.runs.directory import RunDir
from protofed.runs.fingerprint import of_file

METHOD = Path(__file__).parents[1] / "outside" / "own_method.py"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A recipe in a folder of its own names a file beside it; `deploy init` puts it to all."""
    (tmp_path / "lab").mkdir()
    shutil.copy(METHOD, tmp_path / "lab" / "fedmedian.py")
    recipe = deployed.RECIPE.replace('"fedproto"', '"lab/fedmedian.py:FedMedian"')
    monkeypatch.setattr(deployed, "RECIPE", recipe)
    deployed.write_federation(tmp_path)
    return tmp_path


def test_deployed_as_rehearsed(folder):
    """Server and clients over a grid give the numbers of the rehearsal; the run is read as any other."""
    assert read_client(folder / "f" / "clients" / "south").imports == ["fedmedian.py"]
    deployed.start(folder, folder / "run")
    lines = RunDir.open(folder / "run").lines("metrics.jsonl")
    experiment = rehearse(folder / "f")
    expected = experiment.play(None)
    assert [line["acc"] for line in lines] == [record["acc"] for record in expected]
    about = json.loads((folder / "run" / "about.json").read_text())
    assert list(about["fingerprints"].values()) == [of_file(METHOD)]
    assert main(["show", str(folder / "run")]) == 0


def test_a_further_client_gets_the_file(folder):
    assert main(["deploy", "add", str(folder / "f"), "west"]) == 0
    home = folder / "f" / "clients" / "west"
    assert of_file(home / "fedmedian.py") == of_file(METHOD)
    assert read_client(home).imports == ["fedmedian.py"]


def put_another(home):
    (home / "fedmedian.py").write_text("x = 1\n")


def allow_nothing(home):
    path = home / "client.toml"
    path.write_text(path.read_text().replace('imports = ["fedmedian.py"]', ""))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put_another, r"client south has another fedmedian\.py"),
        (allow_nothing, r"client south lacks fedmedian\.py, .*imports = \[\"fedmedian\.py\"\]"),
    ],
)
def test_a_client_with_another_file_is_refused(folder, change, message):
    """In one line at the server, before the run begins. It waits for south to be corrected: here a second."""
    change(folder / "f" / "clients" / "south")
    toml = folder / "f" / "server" / "server.toml"
    toml.write_text(toml.read_text().replace("join_timeout = 600", "join_timeout = 1"))
    with pytest.raises(EngineError, match=f"south did not join within 1 s; refused: {message}") as caught:
        deployed.start(folder, folder / "run")
    assert "\n" not in str(caught.value)
    assert not (folder / "run" / "config.json").exists()


def test_a_run_goes_on_only_with_its_file(folder):
    with pytest.raises(deployed.Killed):
        deployed.start(folder, folder / "run", until=1)
    path = folder / "f" / "server" / "fedmedian.py"
    path.write_text(path.read_text() + "# changed\n")
    with pytest.raises(ConfigError, match="not the file with which the run began"):
        deployed.start(folder, folder / "run")


def agreement(folder):
    settings = read_server(folder / "f" / "server")
    members = [Site(read_client(folder / "f" / "clients" / name)).member() for name in settings.clients]
    return agree("run", deployed_config(settings), members, [])


def test_a_client_runs_nothing_that_it_did_not_list(folder):
    """A server that is not to be trusted names other files of the client, or changes the fingerprint."""
    made = Place.of_json(place_of(agreement(folder), 0, peers=False).to_json())
    home, trace = folder / "f" / "clients" / "north", folder / "trace"
    (home / "other.py").write_text(f"open({str(trace)!r}, 'w').close()\n")
    assert made.config_at(home, ["fedmedian.py"]).make_method().name == "FedMedian"
    with pytest.raises(ConfigError, match=r"allow it in client\.toml"):
        made.config_at(home, [])
    files = {"other.py": of_file(home / "other.py")}
    settings = [
        {"method": "other.py:Mine"},
        {"imports": ["other.py"]},
        {"public": "other.py:load"},
        {"method": "fml", "options": {"model": "module:other.py:Net"}},
    ]
    for one in settings:
        foreign = dataclasses.replace(made, config={**made.config, "method": "fedproto", **one}, files=files)
        with pytest.raises(ConfigError, match=r"the run needs other\.py"):
            foreign.config_at(home, ["fedmedian.py"])
        nameless = dataclasses.replace(foreign, files={})
        with pytest.raises(ConfigError, match="without a fingerprint"):
            nameless.config_at(home, ["fedmedian.py"])
    other = dataclasses.replace(made, files={"fedmedian.py": "0" * 32})
    with pytest.raises(ConfigError, match="not the file with which the run began"):
        other.config_at(home, ["fedmedian.py"])
    assert not trace.exists()


def test_files_lie_beside_server_toml(folder, tmp_path):
    init(tmp_path / "g", ["a"], "127.0.0.1", 9443, None, insecure=True)
    (tmp_path / "g" / "server" / "recipe.toml").write_text(f'method = "{METHOD}:FedMedian"\n')
    with pytest.raises(ConfigError, match=r"must lie beside server\.toml"):
        deployed_config(read_server(tmp_path / "g" / "server"))


def test_a_round_of_a_deployment_waits_two_minutes_unless_told_otherwise(tmp_path):
    init(tmp_path / "g", ["a"], "127.0.0.1", 9443, None, insecure=True)
    settings = read_server(tmp_path / "g" / "server")
    recipe = settings.home / "recipe.toml"
    recipe.write_text('method = "fedproto"\n')
    assert deployed_config(settings).transport.round_timeout == 120
    recipe.write_text('method = "fedproto"\n[transport]\nround_timeout = 7\n')
    assert deployed_config(settings).transport.round_timeout == 7
