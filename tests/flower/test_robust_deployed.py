"""`robust` in a deployment's recipe, by the real server and client apps over a grid in this process."""

import numpy as np
import pytest
import safetensors.torch
import test_deployed_run as deployed

from protofed.core.errors import ConfigError
from protofed.deploy.rehearse import rehearse
from protofed.deploy.server_app import deployed_config
from protofed.deploy.settings import read_server
from protofed.runs.directory import RunDir

SITES = {"north": ["ant", "bee"], "south": ["bee", "ant", "dog"], "east": ["bee", "ant"]}
RECIPE = 'method = "fedproto"\nrounds = 2\neval_every = 2\nlr = 0.05\n'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(deployed, "SITES", SITES)
    monkeypatch.setattr(deployed, "RECIPE", f'{RECIPE}robust = "filter"\n[transport]\nround_timeout = 20\n')
    deployed.write_federation(tmp_path)
    return tmp_path


def test_a_deployed_run_behind_a_defence_ends_like_its_rehearsal(folder):
    deployed.start(folder, folder / "run")
    lines = RunDir.open(folder / "run").lines("metrics.jsonl")
    assert [line["holders"] for line in lines] == [[3, 3, 1]] * 2
    plain = rehearse(folder / "f")
    plain.play(None)
    found = safetensors.torch.load_file(folder / "run" / "checkpoint" / "state-2.safetensors")
    for name, tensor in plain.federation.state.arrays().items():
        np.testing.assert_allclose(found[name], tensor, rtol=1e-5, atol=1e-6, err_msg=name)


def test_attackers_are_for_simulations(folder):
    recipe = folder / "f" / "server" / "recipe.toml"
    recipe.write_text('attack = "scale"\n' + recipe.read_text())
    with pytest.raises(ConfigError, match="attack: scale: clients attack in simulations only"):
        deployed_config(read_server(folder / "f" / "server"))
