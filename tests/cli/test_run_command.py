"""`protofed run`: files, output, recipes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from small_run import SMALL, Call, assert_same_run, lines

from protofed.runs.directory import RunDir


def test_a_run_writes_its_files_and_shows_a_table(call: Call) -> None:
    got = call("run", "fedproto", *SMALL, "--rounds", "2", "--out", "a")
    assert got.code == 0
    assert "accuracy over 4 clients, round 2" in got.out
    assert "nearest global prototype among own classes" in got.out
    assert "run: a" in got.out
    assert "2/2" in got.err
    run = RunDir.open(Path("a"))
    assert run.config["models"] == "mlp"
    assert [line["round"] for line in lines("a")] == [1, 2]
    assert run.summary is not None
    assert run.summary["main_mode"] == "gp_local"
    assert run.checkpoints.manifest.exists()


def test_quiet_says_nothing(call: Call) -> None:
    assert call("run", "fedproto", *SMALL, "--rounds", "1", "--out", "a", "--quiet") == (0, "", "")


def test_json_is_the_summary_and_nothing_else(call: Call) -> None:
    got = call("run", "fedproto", *SMALL, "--rounds", "2", "--out", "a", "--json")
    assert (got.code, got.err) == (0, "")
    summary = json.loads(got.out)
    assert summary["run"] == "a"
    assert summary["rounds"] == 2
    last = lines("a")[-1]
    assert summary["last"] == last["acc"]
    assert summary["up_params"] == sum(line["up"]["params"] for line in lines("a"))


def test_without_out_the_run_gets_a_folder_of_its_own(call: Call) -> None:
    for _ in range(2):
        assert call("run", "local", *SMALL, "--rounds", "1", "--quiet").code == 0
    names = [p.name for p in Path("runs").iterdir()]
    assert len(names) == 2
    assert all(name.startswith("local-digits-") for name in names)


def test_the_default_method_is_fedproto(call: Call) -> None:
    assert call("run", *SMALL, "--rounds", "1", "--out", "a", "--quiet").code == 0
    assert RunDir.open(Path("a")).config["method"] == "fedproto"


def test_options_of_the_method_come_as_flags_or_by_set(call: Call) -> None:
    call("run", "fedproto", *SMALL, "--rounds", "1", "--out", "a", "--quiet", "--lam", "0.5")
    call("run", "fedproto", *SMALL, "--rounds", "1", "--out", "b", "--quiet", "--set", "lam=0.5")
    assert float(RunDir.open(Path("a")).config["options"]["lam"]) == 0.5
    assert_same_run("a", "b")


def test_the_method_may_stand_after_the_options(call: Call) -> None:
    got = call("run", "--rounds", "1", "--lam", "0.5", *SMALL, "fedproto", "--out", "a", "--quiet")
    assert got == (0, "", "")


def test_switches_have_a_negative(call: Call) -> None:
    call("run", "fedproto", *SMALL, "--rounds", "1", "--out", "a", "--quiet", "--preset", "official")
    call("run", *SMALL, "--rounds", "1", "--out", "b", "--quiet", "--preset", "official", "--no-drop-last")
    drops = [RunDir.open(Path(name)).config["train"]["drop_last"] for name in ("a", "b")]
    assert drops == [True, False]


RECIPE = """
about = "a note of the recipe"
method = "fedproto"
models = "mlp"
clients = 4
rounds = 2
engine = "sequential"

[options]
lam = 0.5

[train]
lr = 0.05
batch-size = 4
"""


def test_a_recipe_sets_and_the_command_line_wins(call: Call) -> None:
    Path("mine.toml").write_text(RECIPE)
    assert call("run", "mine.toml", "--out", "a", "--lr", "0.02", "--quiet").code == 0
    config = RunDir.open(Path("a")).config
    assert config["train"]["lr"] == 0.02
    assert config["train"]["batch_size"] == 4
    assert config["options"] == {"lam": 0.5}
    assert len(lines("a")) == 2


def test_flags_of_the_recipes_method_are_known(call: Call) -> None:
    Path("mine.toml").write_text(RECIPE.replace("fedproto", "fedavg").replace("lam = 0.5", ""))
    got = call("run", "mine.toml", "--weighting", "uniform", "--out", "a", "--quiet")
    assert (got.code, got.out) == (0, "")
    assert RunDir.open(Path("a")).config["options"] == {"weighting": "uniform"}


@pytest.mark.parametrize("more", [(), ("--preset", "official", "--sample", "2", "--stragglers", "0.5")])
def test_the_config_of_a_run_repeats_it_exactly(call: Call, more: tuple[str, ...]) -> None:
    call(
        "run",
        "fedproto",
        *SMALL,
        "--rounds",
        "3",
        "--seed",
        "5",
        "--lam",
        "2",
        *more,
        "--out",
        "a",
        "--quiet",
    )
    assert call("run", "a/config.json", "--out", "b", "--quiet").code == 0
    assert_same_run("a", "b")


def test_the_seed_matters(call: Call) -> None:
    for seed in ("1", "2"):
        call("run", "local", *SMALL, "--rounds", "1", "--seed", seed, "--out", seed, "--quiet")
    assert lines("1") != lines("2")


def test_force_overwrites(call: Call) -> None:
    call("run", "local", *SMALL, "--rounds", "3", "--out", "a", "--quiet")
    call("run", "local", *SMALL, "--rounds", "1", "--out", "b", "--quiet")
    assert call("run", "local", *SMALL, "--rounds", "1", "--out", "a", "--quiet", "--force").code == 0
    assert_same_run("a", "b")


def test_eval_every_and_checkpoint_every(call: Call) -> None:
    more = ("--eval-every", "2", "--checkpoint-every", "2", "--eval-clients", "2")
    call("run", "local", *SMALL, "--rounds", "3", *more, "--out", "a", "--quiet")
    assert ["acc" in line for line in lines("a")] == [False, True, True]
    assert [len(line["clients"]) for line in lines("a", "clients.jsonl")] == [2, 2]
    assert {p.name for p in Path("a/checkpoint").glob("state*")} == {
        "state-2.safetensors",
        "state-3.safetensors",
    }


def test_a_real_process_behaves_the_same(call: Call) -> None:
    """Once through the interpreter: exit code, streams and files."""
    argv = ["run", "fedproto", *SMALL, "--rounds", "2", "--out", "a", "--json"]
    done = subprocess.run([sys.executable, "-m", "protofed.cli.main", *argv], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert json.loads(done.stdout)["rounds"] == 2
    call("run", "fedproto", *SMALL, "--rounds", "2", "--out", "b", "--quiet")
    assert_same_run("a", "b")
