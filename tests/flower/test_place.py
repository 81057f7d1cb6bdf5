"""What a client is told of a run: its own part, and nothing of the others that the method does not need."""

import dataclasses
import json

import pytest
import test_deployed_run as deployed
from safetensors.torch import load_file

from protofed.config import resolve
from protofed.core.algorithm import methods
from protofed.core.errors import ConfigError, MessageError
from protofed.deploy.agreement import Member, agree, make_task
from protofed.deploy.client_app import answer
from protofed.deploy.place import Place, make_place_task, place_of
from protofed.deploy.rehearse import rehearse
from protofed.deploy.settings import read_client
from protofed.experiment import carry_out
from protofed.flower.packet import Packet
from protofed.runs.directory import RunDir

NORTH = Member("north", "mlp:dim=8,hidden=23", (1, 2, 2), 8, ("ant", "bee"), 271, 31)
SOUTH = Member("south", "mlp:dim=8,hidden=29", (1, 2, 2), 8, ("bee", "cat"), 313, 37)
EAST = dataclasses.replace(NORTH, name="east", classes=("dog",), train=5, test=3)


def made(*members, **settings):
    return agree("run", resolve(settings), members, [])


def test_a_client_is_told_nothing_of_the_others():
    """Not their names, models, samples or who has which classes: only the common list, and how many."""
    text = place_of(made(NORTH, SOUTH, EAST), 0, peers=False).to_json()
    for secret in ("south", "east", "hidden=29", "313", "37"):
        assert secret not in text, secret
    found = Place.of_json(text)
    assert found.member == NORTH
    assert found.classes == ("ant", "bee", "cat", "dog")
    assert (found.client, found.clients, found.group, found.others) == (0, 3, 0, True)
    assert found.names == ("north", "client 1", "client 2")


def test_architectures_are_told_where_the_method_builds_them():
    text = place_of(made(NORTH, SOUTH, EAST, method="fml"), 1, peers=True).to_json()
    found = Place.of_json(text)
    assert [kind[0] for kind in found.kinds] == [NORTH.model, SOUTH.model]
    for secret in ("north", "east", "271", "31,"):
        assert secret not in text, secret


@pytest.mark.parametrize(("client", "group"), [(0, 0), (1, 1), (2, 0)])
def test_the_task_of_a_client_draws_the_same_weights(client, group):
    """The number of an architecture is part of the seed: it stays what it is in the whole federation."""
    agreement = made(NORTH, SOUTH, EAST)
    whole = make_task(agreement, agreement.config_at())
    found = place_of(agreement, client, peers=False)
    own = make_place_task(found, found.config_at(None, []))
    assert own.group_of(client) == whole.group_of(client) == group
    for name, tensor in whole.fresh(group, client).items():
        assert tensor.equal(own.fresh(group, client)[name])


def test_a_method_that_looks_at_others_without_saying_so_is_told():
    found = place_of(made(NORTH, SOUTH), 0, peers=False)
    task = make_place_task(found, found.config_at(None, []))
    with pytest.raises(ConfigError, match=r"Needs\(peers=True\)"):
        task.smallest_group()
    alone = place_of(made(NORTH, EAST), 0, peers=False)
    assert make_place_task(alone, alone.config_at(None, [])).smallest_group() == 0


@pytest.mark.parametrize(
    "change",
    [
        {"client": 3},
        {"client": -1},
        {"clients": 10**9},
        {"group": 10**9},
        {"others": 1},
        {"kinds": [["mlp", [1], -1]]},
        {"kinds": [["mlp"]]},
        {"kinds": "mlp"},
        {"config": []},
        {"member": None},
        {"classes": "ab"},
    ],
)
def test_a_damaged_part_is_refused(change):
    values = json.loads(place_of(made(NORTH, SOUTH, EAST), 0, peers=False).to_json())
    with pytest.raises(MessageError):
        Place.of_json(json.dumps({**values, **change}))


def test_the_part_of_another_is_refused(tmp_path):
    deployed.write_federation(tmp_path)
    settings = read_client(tmp_path / "f" / "clients" / "north")
    foreign = place_of(made(NORTH, SOUTH), 1, peers=False).to_json()
    packet = Packet({"kind": "agreement", "agreement": foreign}, {})
    assert "is for 'south', this is north" in answer(settings, packet).meta["error"]


def test_settings_without_use_are_told_by_server_and_rehearsal(tmp_path, monkeypatch, caplog):
    recipe = deployed.RECIPE.replace("fedproto", "fml").replace("rounds = 3", "rounds = 1")
    monkeypatch.setattr(deployed, "RECIPE", recipe + '[options]\naux_start = "model"\n')
    deployed.write_federation(tmp_path)
    told = "aux_start: model is of no use to fml with init own"
    assert [remark.split(":")[0] for remark in rehearse(tmp_path / "f").remarks] == ["aux_start"]
    assert told not in caplog.text
    deployed.start(tmp_path, tmp_path / "run")
    assert caplog.text.count(told) == 1


def takes_different_models(method):
    needs = methods[method]().needs
    return not (needs.model or needs.base or needs.public or needs.merged)


@pytest.mark.parametrize("method", [name for name in methods if takes_different_models(name)])
def test_deployed_as_rehearsed_with_two_architectures(tmp_path, method, monkeypatch):
    """Clients that do not know each other's models compute what one process computes that knows all; and
    nothing of the other client is on a client's disk."""
    text = deployed.RECIPE.replace("fedproto", method).replace("rounds = 3", "rounds = 2")
    monkeypatch.setattr(deployed, "RECIPE", text)
    deployed.write_federation(tmp_path)
    toml = tmp_path / "f" / "clients" / "south" / "client.toml"
    toml.write_text(toml.read_text().replace("mlp:dim=8", "mlp:dim=8,hidden=29"))
    deployed.start(tmp_path, tmp_path / "run")
    experiment = rehearse(tmp_path / "f")
    carry_out(experiment, RunDir.create(tmp_path / "same", experiment.config.to_dict()))
    one, two = (load_file(tmp_path / run / "checkpoint" / "state-2.safetensors") for run in ("run", "same"))
    assert one.keys() == two.keys()
    for name in one:
        assert one[name].double().allclose(two[name].double(), atol=1e-6), name
    state = tmp_path / "f" / "clients" / "north" / "state"
    north = b"".join(path.read_bytes() for path in state.rglob("*") if path.is_file())
    assert b"north" in north
    assert b"south" not in north
    assert (b"hidden=29" in north) is methods[method]().needs.peers
