"""`secure = true` in a deployment, by the real server and client apps over a grid in this process."""

import json

import numpy as np
import pytest
import safetensors.torch
import test_deployed_run as deployed

from protofed.cli.main import main
from protofed.core.errors import ConfigError, EngineError
from protofed.deploy.certificates import write_key_pair
from protofed.deploy.client_app import answer
from protofed.deploy.init import init
from protofed.deploy.keys import public_key
from protofed.deploy.rehearse import rehearse
from protofed.deploy.server_app import deployed_config
from protofed.deploy.settings import read_client, read_server
from protofed.flower.packet import Packet
from protofed.runs.directory import RunDir

SITES = {"north": ["ant", "bee", "cat"], "south": ["bee", "cat", "dog"], "east": ["bee", "ant"]}
RECIPE = 'method = "fedproto"\nrounds = 3\neval_every = 3\nlr = 0.05\nsecure = true\nsecure_holders = 2\n'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(deployed, "SITES", SITES)
    monkeypatch.setattr(deployed, "RECIPE", RECIPE + "[transport]\nround_timeout = 20\nrepeats = 0\n")
    deployed.write_federation(tmp_path)
    return tmp_path


def records(run):
    return RunDir.open(run).lines("metrics.jsonl")


def add_lines(path, *lines):
    path.write_text("\n".join(lines) + "\n" + path.read_text())


def test_a_secure_run_ends_like_its_rehearsal_also_after_a_kill(folder):
    """The class of one holder (dog) is withheld, before and after the restart."""
    with pytest.raises(deployed.Killed):
        deployed.start(folder, folder / "run", until=2)
    deployed.start(folder, folder / "run")
    assert [r["secure"] for r in records(folder / "run")] == 3 * [
        {"clients": 3, "lost": 0, "withheld": [3], "clipped": 0}
    ]
    plain = rehearse(folder / "f")
    plain.play(None)
    found = safetensors.torch.load_file(folder / "run" / "checkpoint" / "state-3.safetensors")
    for name, tensor in plain.federation.state.arrays().items():
        np.testing.assert_allclose(found[name], tensor, rtol=1e-5, atol=1e-6, err_msg=name)
    assert found["known"].tolist() == [8 + 12, 8 + 8 + 12, 8 + 8, 0]


def test_a_missing_key_of_a_peer_is_told_before_the_run_begins(folder, monkeypatch):
    (folder / "f" / "clients" / "north" / "peers" / "east.pub").unlink()
    settings = folder / "f" / "server" / "server.toml"
    settings.write_text(settings.read_text().replace("join_timeout = 600", "join_timeout = 1"))
    assert "join_timeout = 1" in settings.read_text()
    with pytest.raises(EngineError, match=r"north did not join .* client north lacks peers/east.pub"):
        deployed.start(folder, folder / "run")
    assert not (folder / "run" / "config.json").exists()


def test_another_key_of_a_peer_ends_the_round_with_nothing_opened(folder):
    """As if the server had put another client in the place of east."""
    write_key_pair(folder / "other")
    (folder / "f" / "clients" / "north" / "peers" / "east.pub").write_bytes(
        (folder / "other.pub").read_bytes()
    )
    deployed.start(folder, folder / "run")
    first = records(folder / "run")[0]
    assert "the keys of client 2 are not signed by it" in first["failed"]["0"]
    assert first["clients"] == 2  # south and east go on: two thirds
    assert "secure" in first


def test_a_client_may_ask_for_secure_sums(folder):
    home = folder / "f" / "clients" / "north"
    add_lines(home / "client.toml", "secure = true")
    hello = {"kind": "hello", "protofed": __import__("protofed").__version__}
    reply = answer(read_client(home), Packet(hello, {}))
    assert reply.meta["error"] == "client north takes part only in runs with secure sums"
    reply = answer(read_client(home), Packet({**hello, "peers": json.dumps(list(SITES))}, {}))
    assert "error" not in reply.meta


def test_names_of_peers_stay_in_their_folder(folder):
    hello = {"kind": "hello", "protofed": __import__("protofed").__version__, "peers": '["../../north/key"]'}
    reply = answer(read_client(folder / "f" / "clients" / "north"), Packet(hello, {}))
    assert "expected letters, digits" in reply.meta["error"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('upload = "int8"', "upload int8 has no effect with secure sums"),
        ("secure_holders = 4", "3 clients take part in a round; secure_holders 4"),
        ('method = "fedtgp"', "fedtgp trains its prototypes on single uploads"),
        ('robust = "median"', "secure and robust exclude each other"),
    ],
)
def test_a_recipe_that_cannot_be_is_refused_at_once(folder, line, reason):
    recipe = folder / "f" / "server" / "recipe.toml"
    name = line.split(" ")[0]
    kept = [one for one in recipe.read_text().splitlines() if not one.startswith(name + " ")]
    recipe.write_text("\n".join([line, *kept] if name != "upload" else [*kept, line]))
    with pytest.raises(ConfigError, match=reason):
        deployed_config(read_server(folder / "f" / "server"))


def test_without_keys_there_are_no_secure_sums(tmp_path):
    (tmp_path / "r.toml").write_text(RECIPE)
    init(tmp_path / "f", list(SITES), "127.0.0.1", 9443, tmp_path / "r.toml", insecure=True)
    with pytest.raises(ConfigError, match="secure sums need the clients' keys"):
        deployed_config(read_server(tmp_path / "f" / "server"))


def test_accepted_keys_lie_with_all_clients(tmp_path):
    init(tmp_path / "f", ["a", "b"], "127.0.0.1", 9443, None, insecure=False, own_keys=True)
    home = tmp_path / "f" / "clients" / "a"
    assert main(["deploy", "join", str(home)]) == 0
    assert main(["deploy", "accept", str(tmp_path / "f"), "a", str(home / "key.pub")]) == 0
    there = tmp_path / "f" / "clients" / "b" / "peers" / "a.pub"
    assert public_key(there) == public_key(home / "key.pub")
    assert main(["deploy", "add", str(tmp_path / "f"), "c"]) == 0
    assert (home / "peers" / "c.pub").exists()
    assert (tmp_path / "f" / "clients" / "c" / "peers" / "a.pub").exists()
