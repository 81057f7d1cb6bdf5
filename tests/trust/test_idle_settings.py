"""Settings that would do nothing, or no good, are refused rather than accepted without a word."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from refusals import SMALL, Call, assert_refused
from torch import nn

import protofed
from protofed.config import resolve
from protofed.core.errors import ConfigError
from protofed.experiment import build
from protofed.studies.plan import common_training

PACKAGE = Path(__file__).parents[2] / "protofed"


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"momentum": 1}, "momentum: must be less than 1, got 1.0"),
        ({"optimizer": "adam", "momentum": 0.9}, "momentum: 0.9 has no effect with the optimizer adam"),
        ({"method": "fcclplus", "preset": "original", "momentum": 0.9}, "no effect with the optimizer adam"),
    ],
)
def test_settings_are_refused(settings: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(line)):
        resolve(settings)


def test_adam_without_momentum_says_so_in_the_configuration() -> None:
    assert resolve({"optimizer": "adam"}).train.momentum == 0
    assert resolve({"optimizer": "adam", "momentum": 0}).train.momentum == 0
    assert resolve({"momentum": 0.9}, {"optimizer": "adam"}).train.momentum == 0  # a recipe's, set aside
    assert resolve(common_training({"optimizer": "adam"})).train.momentum == 0


def test_what_a_run_wrote_is_read_back_also_of_earlier_versions() -> None:
    written = resolve({"optimizer": "adam"}).to_dict()
    assert resolve(written).to_dict() == written
    earlier = {**written, "train": {**written["train"], "momentum": 0.5}}
    assert resolve(earlier).to_dict() == written


def test_commands_refuse_them_too(call: Call) -> None:
    assert_refused(call("run", *SMALL, "--momentum", "1"), "momentum: must be less than 1")
    assert_refused(call("run", *SMALL, "--optimizer", "adam", "--momentum", "0.9"), "no effect", "adam")
    assert_refused(call("run", *SMALL, "--epochs", "0"), "epochs: with 0, fedproto trains nothing")


@pytest.mark.parametrize("engine", ["auto", "sequential", "cohort", "workers", "workers+cohort"])
@pytest.mark.parametrize(
    ("flag", "value"), [("--upload", "int8"), ("--max-norm", "3"), ("--min-clients", "2")]
)
def test_settings_of_messages_are_refused_where_there_are_none(
    call: Call, engine: str, flag: str, value: str
) -> None:
    refused = call("run", "local", *SMALL[:-2], "--engine", engine, flag, value, "--out", "r")
    name = flag.strip("-").replace("-", "_")
    assert_refused(refused, f"{name}: {value}", f"has no effect on the engine {engine}", "flower")
    assert not Path("r").exists()


def test_python_refuses_them_too() -> None:
    x, y = torch.randn(8, 3), torch.arange(8) % 2
    model = protofed.Model(nn.Linear(3, 4), nn.Linear(4, 2))
    with pytest.raises(ConfigError, match="upload: int8 has no effect on the engine auto"):
        protofed.federate([protofed.Client(model, (x, y))], "local", rounds=1, upload="int8")


def test_a_run_of_an_earlier_version_goes_on_all_the_same(call: Call) -> None:
    assert call("run", "local", *SMALL, "--out", "r", "--quiet").code == 0
    config = json.loads(Path("r/config.json").read_text())
    config["transport"]["upload"] = "int8"
    Path("r/config.json").write_text(json.dumps(config))
    assert call("resume", "r", "--rounds", "3", "--quiet").code == 0


def test_the_package_runs_as_a_module(tmp_path: Path) -> None:
    asked = [sys.executable, "-m", "protofed", "run", "local", *SMALL, "--json"]
    done = subprocess.run(asked, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rounds"] == 2


@pytest.mark.parametrize("room", ["core", "models", "data", "engines", "algorithms", "ops", "metrics"])
def test_errors_that_python_callers_see_name_no_flags(room: str) -> None:
    """Messages of what `protofed.run` and `protofed.federate` call speak of settings, not of `--settings`."""
    flag = re.compile(r'"[^"\n]*(?<![\w-])--[a-z][^"\n]*"')
    texts = {path: path.read_text() for path in (PACKAGE / room).rglob("*.py")}
    code = {path: re.sub(r'"""[\s\S]*?"""', "", text) for path, text in texts.items()}
    assert {path.name: flag.findall(text) for path, text in code.items() if flag.search(text)} == {}


def test_help_on_a_method_that_does_not_exist(call: Call) -> None:
    assert_refused(call("run", "fedtpg", "--help"), "unknown method 'fedtpg'", "fedtgp")


def test_public_data_that_a_method_does_not_use_is_told(caplog: pytest.LogCaptureFixture) -> None:
    build(resolve({"method": "local", "public": "digits", "clients": 2}))
    assert "public: local uses no public data; digits is not read" in caplog.text


STARTS = {"options": {"aux_start": "model"}, "models": "mlp", "clients": 2, "engine": "sequential"}


def test_an_auxiliary_start_that_is_no_clients_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Once by each way into a run, and not where `init` gives all clients of a model one start."""
    told = "aux_start: model is of no use to fml with init own"
    build(resolve({"method": "fml", "init": "common", **STARTS}))
    assert told not in caplog.text
    build(resolve({"method": "fml", **STARTS}))
    assert caplog.text.count(told) == 1
    x, y = torch.randn(8, 3), torch.arange(8) % 2
    clients = [protofed.Client(protofed.Model(nn.Linear(3, 4), nn.Linear(4, 2)), (x, y)) for _ in range(2)]
    protofed.federate(clients, "fml", options=STARTS["options"], rounds=1, engine="sequential")
    assert caplog.text.count(told) == 2


def test_a_method_named_twice_in_a_comparison(call: Call) -> None:
    assert_refused(call("compare", "local", "local"), "compare: local is named twice")


def test_a_recipe_with_a_mistake_leaves_no_federation(call: Call) -> None:
    Path("bad.toml").write_text('method = "fedprot"\n')
    refused = call("deploy", "init", "f", "--clients", "a,b", "--recipe", "bad.toml")
    assert_refused(refused, "did you mean 'fedproto'")
    assert not Path("f").exists()
