"""`protofed show`, `list`, `resume`, `onboard`, `--help`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from run_surgery import forget_checksums, unfinish
from small_run import SMALL, Call, assert_same_run, lines

from protofed.config import resolve
from protofed.runs.directory import RunDir
from protofed.runs.seals import write_whole

Copy = Callable[..., None]


def test_show_prints_what_run_printed(call: Call) -> None:
    ran = call("run", "fedproto", *SMALL, "--rounds", "2", "--out", "a")
    shown = call("show", "a")
    assert shown.code == 0
    assert shown.out == ran.out


def test_show_rounds_to_a_target_by_both_means(call: Call) -> None:
    """Two clients of 10 and 30 test samples, accuracies 100 and 60: their mean 80, pooled 70."""
    run = RunDir.create(Path("a"), resolve({"method": "local", "rounds": 2}).to_dict())
    for round, (mean, pooled) in enumerate([(40.0, 30.0), (80.0, 70.0)], 1):
        cost = {"up": {"params": 1, "bytes": 4}, "down": {"params": 1, "bytes": 4}, "seconds": 1.5}
        run.append(
            "metrics.jsonl", {"round": round, "acc": {"clf": {"mean": mean, "pooled": pooled}}, **cost}
        )
    said = call("show", "a", "--target", "75").out
    assert "75 % reached by clf (mean over clients) in round 2, after 3.0 s and 16 bytes" in said
    assert "75 % not reached by clf (pooled) in 2 rounds" in said
    for text in ("nan", "500", "much"):
        got = call("show", "a", "--target", text)
        assert got.code == 2
        assert f"expected a percentage, 0 to 100, got {text}" in got.err


def test_show_json(call: Call, finished: Copy) -> None:
    finished("a", "local")
    shown = json.loads(call("show", "a", "--json").out)
    assert shown["last"]["round"] == 3
    assert shown["config"]["method"] == "local"


def test_clients_with_a_single_class_are_told(call: Call) -> None:
    """gp_local among one class is always right."""
    settings = (*SMALL, "--partition", "pathological:p=1", "--rounds", "1")
    got = call("run", "fedproto", *settings, "--out", "a")
    assert "of these clients train on a single class: there gp_local cannot be wrong" in got.out
    clients = json.loads(Path("a/config.json").read_text())["clients"]
    assert json.loads(Path("a/summary.json").read_text())["one_class"] == clients
    got = call("run", "local", *settings, "--out", "b")
    assert "single class" not in got.out


def interrupt(run: str) -> None:
    """Leave the run as a crash after round 2 of 3 would: the last lines are there, the checkpoint not."""
    unfinish(Path(run))
    Path(run, "checkpoint/manifest.previous.json").rename(Path(run, "checkpoint/manifest.json"))


def test_show_of_an_unfinished_run_says_how_to_go_on(call: Call, finished: Copy) -> None:
    finished("a")
    interrupt("a")
    for metrics in (Path("a/metrics.jsonl"), Path("a/checkpoint/copies/metrics.jsonl")):
        metrics.write_text("".join(metrics.read_text().splitlines(keepends=True)[:2]))
    assert "2 of 3 rounds done; continue with: protofed resume a" in call("show", "a").out


def test_show_of_a_run_without_a_round(call: Call, finished: Copy) -> None:
    """Of an earlier version; one with checksums: tests/runs/test_damage.py."""
    finished("a", "local")
    forget_checksums(Path("a"))
    Path("a/metrics.jsonl").unlink()
    for command in ("show", "resume"):
        got = call(command, "a")
        assert (got.code, got.out) == (1, "")
        assert "a is damaged: it had 3 rounds" in got.err
    unfinish(Path("a"))
    got = call("show", "a")
    assert got.code == 0
    assert "0 of 3 rounds done" in got.out
    assert json.loads(call("show", "a", "--json").out)["last"] is None


def test_resume_finishes_a_run_as_if_nothing_had_happened(call: Call, finished: Copy) -> None:
    finished("a")
    finished("b")
    interrupt("a")
    assert call("resume", "a", "--quiet") == (0, "", "")
    assert_same_run("a", "b")


def test_resume_of_a_finished_run_says_so(call: Call, finished: Copy) -> None:
    finished("a", "local")
    before = lines("a")
    got = call("resume", "a")
    assert (got.code, got.err) == (0, "a is finished already\n")
    assert "accuracy over 3 clients" in got.out
    assert lines("a") == before
    assert call("resume", "a", "--quiet") == (0, "", "")
    assert json.loads(call("resume", "a", "--json").out)["rounds"] == 3


def test_resume_with_more_rounds_equals_a_longer_run(call: Call, finished: Copy) -> None:
    finished("a")  # without a balanced test, which the last round alone has
    assert call("run", "a/config.json", "--rounds", "5", "--out", "b", "--quiet").code == 0
    assert call("resume", "a", "--rounds", "5", "--quiet") == (0, "", "")
    assert_same_run("a", "b")
    got = call("resume", "a", "--rounds", "5")
    assert (got.code, got.err) == (
        1, "protofed: error: --rounds 5: a has done 5 rounds already; give more\n"
    )  # fmt: skip
    assert_same_run("a", "b")


def test_more_rounds_that_cannot_start_leave_the_run_alone(call: Call, finished: Copy) -> None:
    """Its data is gone: an error, and the summary and the plan are as before."""
    finished("a")
    config = Path("a/config.json")
    write_whole(Path("a"), "config.json", {**json.loads(config.read_text()), "data": "npz:gone.npz"})
    before = config.read_text()
    got = call("resume", "a", "--rounds", "5")
    assert got.code != 0
    assert got.err.count("\n") == 1
    assert Path("a/summary.json").exists()
    assert config.read_text() == before


def test_a_run_without_tests_is_shown(call: Call) -> None:
    settings = (*SMALL, "--partition", "pathological:p=1,train=1,pool=true", "--rounds", "1", "--out", "a")
    assert call("run", "fedproto", *settings).code == 0


def test_more_rounds_are_not_for_a_deployed_run(call: Call, finished: Copy) -> None:
    finished("a")
    Path("a/deployment.json").write_text("{}")
    got = call("resume", "a", "--rounds", "9")
    assert (got.code, got.err.count("\n")) == (2, 1)
    assert "not for a deployed run" in got.err


def test_resume_warns_of_a_damaged_checkpoint_and_goes_on(call: Call, finished: Copy) -> None:
    finished("a")
    finished("b")
    unfinish(Path("a"))
    Path("a/checkpoint/state-3.safetensors").write_bytes(b"cut")
    got = call("resume", "a", "--quiet")
    assert got.code == 0
    assert got.err.startswith("protofed: warning: a/checkpoint/state-3.safetensors is damaged")
    assert got.err.endswith("going back to the checkpoint of round 2\n")
    assert_same_run("a", "b")


def test_resume_before_the_first_checkpoint_starts_over(call: Call, finished: Copy) -> None:
    finished("a", "local")
    finished("b", "local")
    unfinish(Path("a"))
    for name in ("manifest.json", "manifest.previous.json"):
        Path("a/checkpoint", name).unlink()
    got = call("resume", "a", "--quiet")
    assert got.code == 0
    assert got.err.startswith("protofed: warning: a has no checkpoint yet: starting from the first round\n")
    assert_same_run("a", "b")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("methods", ["fedproto", "Tan et al., AAAI 2022", "official"]),
        ("data", ["digits", "npz"]),
        ("partitions", ["nway", "dirichlet"]),
        ("models", ["small_cnn", "mlp"]),
    ],
)
def test_list(call: Call, kind: str, words: list[str]) -> None:
    got = call("list", kind)
    assert got.code == 0
    assert all(word in got.out for word in words)
    listed = json.loads(call("list", kind, "--json").out)
    assert words[0] in [one["name"] for one in listed]
    assert all(one["summary"] for one in listed)


def test_list_models_names_a_wrong_input(call: Call) -> None:
    got = call("list", "models", "--input", "3xx")
    assert got.code == 2
    assert "--input: expected sizes such as 3x32x32 or 60, got '3xx'" in got.err


def test_list_explains_the_options_of_one(call: Call) -> None:
    got = call("list", "methods", "fedproto")
    assert got.code == 0
    assert "λ, weight of the prototype term" in got.out
    assert "weighted, uniform, literal" in got.out


def test_onboard_compares_with_training_alone(call: Call, finished: Copy) -> None:
    finished("a")
    got = call("onboard", "a", "--models", "small_cnn:dim=32", "--epochs", "2", "--json")
    assert (got.code, got.err) == (0, "")
    (newcomer,) = json.loads(got.out)
    assert newcomer["client"] == 3
    assert newcomer["model"].startswith("small_cnn")
    assert set(newcomer["joined"]) == {"clf", "gp_all", "gp_local", "lp"}
    assert set(newcomer["alone"]) == {"clf"}


def test_a_schedule_that_has_ended_does_not_hold_for_a_newcomer(call: Call) -> None:
    """poly: the learning rate is 0 after the last round."""
    settings = ("--newcomers", "1", "--rounds", "2", "--schedule", "poly", "--out", "a", "--quiet")
    assert call("run", "fedproto", *SMALL, *settings).code == 0
    (found,) = json.loads(call("onboard", "a", "--epochs", "5", "--json").out)
    assert found["joined"]["clf"] > found["before"]["clf"]
    assert found["alone"]["clf"] > found["before"]["clf"]


def test_onboard_prints_a_table(call: Call, finished: Copy) -> None:
    finished("a")
    got = call("onboard", "a", "--epochs", "1")
    assert got.code == 0
    assert "newcomers after 1 epochs" in got.out
    assert got.out.count("gp_local") == 1


def own_data(test_rows: int) -> str:
    x = np.random.default_rng(0).random((40, 1, 8, 8)).astype(np.float32)
    y = np.arange(40) % 10
    np.savez("own.npz", x_train=x, y_train=y, x_test=x[:test_rows], y_test=y[:test_rows])
    return "npz:own.npz"


def test_onboard_takes_data_of_ones_own(call: Call, finished: Copy) -> None:
    finished("a")
    got = call("onboard", "a", "--data", own_data(10), "--samples", "20", "--epochs", "1", "--json")
    assert (got.code, got.err) == (0, "")
    assert json.loads(got.out)[0]["train_samples"] == 20


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (("--client", "99"), "onboard: client 99 does not exist; the run has clients 0 to 3"),
        (("--epochs", "0"), "--epochs: must be at least 1, got 0"),
        (("--data", "digits", "--samples", "0"), "--samples: must be at least 1, got 0"),
        (("--models", "mlp:dim=7"), "mlp:dim=7 makes embeddings of size 7"),
        (("--data", "OWN"), "onboard: the newcomer (client 4) has no test samples"),
    ],
)
def test_onboard_errors(call: Call, finished: Copy, argv: tuple[str, ...], line: str) -> None:
    finished("a")
    got = call("onboard", "a", *(own_data(0) if a == "OWN" else a for a in argv))
    assert got.code == 2
    assert got.err.count("\n") == 1
    assert line in got.err


@pytest.mark.parametrize("models", ["mlp", "small_cnn:dim=32"])
def test_onboard_tests_the_trained_newcomer_where_weights_are_shared(call: Call, models: str) -> None:
    """FedProc sends its model: a newcomer of that architecture starts from it, another from its own."""
    call("run", "fedproc", *SMALL, "--newcomers", "1", "--rounds", "1", "--out", "a", "--quiet")
    untrained, joined = [], []
    for epochs in ("1", "8"):
        got = call("onboard", "a", "--models", models, "--epochs", epochs, "--json")
        assert (got.code, got.err) == (0, "")
        one = json.loads(got.out)[0]
        untrained.append(one["before"])
        joined.append(one["joined"])
    assert untrained[0] == untrained[1]
    assert joined[0] != joined[1]


def test_onboard_needs_somebody_held_out(call: Call) -> None:
    call("run", "fedproto", *SMALL, "--rounds", "1", "--out", "a", "--quiet")
    assert "onboard: the run held no client out; run it with --newcomers 1" in call("onboard", "a").err


def test_onboard_needs_a_finished_run(call: Call, finished: Copy) -> None:
    finished("a")
    interrupt("a")
    expected = "protofed: error: a is not finished; finish it with `protofed resume a`\n"
    assert call("onboard", "a") == (1, "", expected)


def test_onboard_needs_prototypes(call: Call, finished: Copy) -> None:
    finished("a", "local")
    got = call("onboard", "a")
    assert got.code == 2
    assert "local keeps no global prototypes that a newcomer could use" in got.err


def test_help_explains_lambda(call: Call) -> None:
    got = call("run", "fedproto", "--help")
    assert got.code == 0
    assert "options of fedproto" in got.out
    assert "λ, weight of the prototype term" in got.out
    assert "local epochs a round" in got.out


def test_help_of_another_method_has_its_own_options(call: Call) -> None:
    out = call("run", "fedavg", "--help").out
    assert "options of fedavg" in out
    assert "λ" not in out


@pytest.mark.parametrize("argv", [(), ("--help",)])
def test_help_lists_the_commands(call: Call, argv: tuple[str, ...]) -> None:
    got = call(*argv)
    assert got.code == 0
    for command in ("run", "resume", "show", "list", "onboard"):
        assert command in got.out


def test_version(call: Call) -> None:
    import protofed

    assert call("--version").out == f"protofed {protofed.__version__}\n"


def test_more_rounds_are_refused_while_a_run_is_written(call: Call, finished: Copy) -> None:
    finished("a")
    before = Path("a/config.json").read_text()
    with RunDir(Path("a")).locked():
        got = call("resume", "a", "--rounds", "5")
    assert (got.code, got.err) == (
        1, "protofed: error: a is being written by another process; wait for it, or stop it\n"
    )  # fmt: skip
    assert Path("a/config.json").read_text() == before
    assert Path("a/summary.json").exists()
