"""What is wrong or odd about data is one line: an error that says what to do, or a warning."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import Call, assert_refused

from protofed.analysis.advise import advise
from protofed.cli.main import main
from protofed.config import resolve
from protofed.core.errors import ConfigError, DataError, ProtofedError, RunError, unknown
from protofed.data import check, divide, load
from protofed.deploy.init import init
from protofed.experiment import build
from protofed.runs.directory import RunDir

Y = np.arange(60) % 3


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROTOFED_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(check, "_said", set())


def table(rows: int = 60) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(rows, 4))


def archive(**given: Any) -> str:
    arrays: dict[str, Any] = {"x_train": table(), "y_train": Y, "x_test": table(30), "y_test": Y[:30]}
    np.savez("mine.npz", **{**arrays, **given})
    return "npz:mine.npz"


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"y_train": np.where(np.arange(60) == 5, 10**9, Y)}, "", "labels go up to 1000000000, but only 4"),
    ({"y_train": Y * 1000, "y_test": Y[:30] * 1000}, "", "number the classes from 0 to 2, or name them"),
    ({"y_train": np.arange(60) % 5}, ",classes=3", "has label 4, expected 0 to 2"),
    ({"x_train": np.zeros(60), "x_test": np.zeros(30)}, "", r"give a table \[N, features\]"),
    ({"classes": np.array(["a", "b", "a"])}, "", "classes 0 and 2 are both called 'a'"),
]


@pytest.mark.parametrize(("arrays", "options", "line"), BAD)
def test_archives_that_cannot_be_meant(arrays: dict[str, Any], options: str, line: str) -> None:
    with pytest.raises(DataError, match=line) as caught:
        load(archive(**arrays) + options)
    assert "\n" not in str(caught.value)


def test_a_text_file_is_no_archive() -> None:
    Path("mine.npz").write_text("a,b,label\n1,2,0\n")
    with pytest.raises(DataError, match=r"is no \.npz archive; .* csv:PATH"):
        load("npz:mine.npz")


def test_two_channels() -> None:
    with pytest.raises(DataError, match="channels must be 1"):
        load("folder:images,channels=2")


def test_gaps_in_few_labels_are_fine() -> None:
    """Classes of which the training file has no rows: ten names, two of them in use."""
    y = np.where(Y > 0, 9, 0)
    assert load(archive(y_train=y, y_test=y[:30])).num_classes == 10


@pytest.mark.parametrize(
    ("factor", "line"),
    [
        (np.array([1, 1, 1, 0]), "feature 3: all values are equal, nothing can be learnt"),
        (np.array([1, 1000, 1, 1]), "feature 1 has mean .* scale inputs to about 0 and 1"),
    ],
)
def test_odd_features_are_warned_of_once(
    factor: np.ndarray, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    spec = archive(x_train=table() * factor, x_test=table(30) * factor)
    with caplog.at_level(logging.WARNING, "protofed"):
        load(spec)
        load(spec)
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("mine: ")
    assert re.search(line, caplog.messages[0])


def test_scaled_features_are_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    load(archive())
    load("digits")
    assert not caplog.messages


@pytest.mark.parametrize(
    ("spec", "meant"),
    [("dirichlet:alpha=1", "beta"), ("quantity:alpha=1", "beta"), ("extended_dirichlet:beta=1", "alpha")],
)
def test_other_papers_names_of_options(spec: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"did you mean '{meant}'"):
        divide(spec, load("digits"), 4, 0)


@pytest.mark.parametrize("eps", [float("nan"), float("inf"), 0.0])
def test_a_target_that_is_no_number(eps: float) -> None:
    experiment = build(resolve({"clients": 2, "models": "mlp", "rounds": 1}))
    with pytest.raises(ConfigError, match="eps must be a number greater than 0"):
        advise(experiment, [0], 2, eps)


def test_one_name_for_two_clients() -> None:
    with pytest.raises(ConfigError, match="'a' is named twice"):
        init(Path("federation"), ["a", "b", "a"], "localhost", 9092, None, True)
    assert not Path("federation").exists()


def test_more_rounds_on_a_disk_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    directory = RunDir.create(Path("a"), {"method": "local", "rounds": {"rounds": 1}})
    directory.finish({"rounds": 1})

    def refuse(*given: Any, **named: Any) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(RunError, match=r"cannot delete a/summary\.json: Read-only file system"):
        directory.extend({"method": "local", "rounds": {"rounds": 2}})


INTERRUPTED = """
import os, signal, sys
class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Stop())
from protofed.cli.main import main
sys.exit(main(["run", "local"]))
"""


def test_ctrl_c_while_importing() -> None:
    """Ctrl-C as torch is about to be imported, which takes the longest."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, env=environment, check=False
    )
    assert ended.returncode == 130
    assert ended.stderr.strip() == "protofed: interrupted"


# csv


def write_csv(name: str = "mine.csv", rows: int = 80) -> str:
    numbers = np.random.default_rng(0).normal(size=(rows, 2))
    lines = [
        f"p{i},{a},{500 + 100 * b},h{i % 3},{'ill' if i % 2 else 'well'},{'test' if i % 4 == 0 else 'train'}"
        for i, (a, b) in enumerate(numbers)
    ]
    Path(name).write_text("\n".join(["id,a,b,site,label,part", *lines]) + "\n")
    return f"csv:{name},drop=id"


def test_a_table_of_text() -> None:
    dataset = load(write_csv() + ",test=part,owner=site,scale=true")
    assert dataset.classes == ("ill", "well")
    assert dataset.y[:3].tolist() == [1, 0, 1]
    assert dataset.test.tolist() == [i % 4 == 0 for i in range(80)]
    assert dataset.owner is not None
    assert dataset.owner[:4].tolist() == [0, 1, 2, 0]
    assert dataset.x[~dataset.test].mean(axis=0) == pytest.approx([0, 0], abs=1e-6)
    assert dataset.x[~dataset.test].std(axis=0) == pytest.approx([1, 1], abs=1e-6)
    assert divide("natural", dataset, 0, 0).clients == 3


def test_a_second_file_holds_the_test_rows() -> None:
    write_csv("other.csv", rows=20)
    dataset = load(write_csv() + "+site+part,test_file=other.csv")
    assert dataset.test.tolist() == [False] * 80 + [True] * 20


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (",drop=none", "no column 'none'"),
        (",drop=part+site", "column 'id', row 0: 'p0' is no number; .* drop="),
        (",drop=id,label=ill", "no column 'ill' for labels; it has id, a, b"),
        (",drop=id+site,test=b", "row 0 of 'b' is"),
        (",drop=id+site+part,test_file=none.csv", "none.csv: no such file"),
    ],
)
def test_tables_that_cannot_be_read(options: str, line: str) -> None:
    spec = write_csv().partition(",")[0] + options
    with pytest.raises(ProtofedError, match=line) as caught:
        load(spec)
    assert "\n" not in str(caught.value)


def test_csv_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["partition", "iid", "--data", "csv:absent.csv", "--clients", "2"]) == 2
    assert capsys.readouterr().err == "protofed: error: absent.csv: no such file\n"


def test_a_table_with_other_separators_is_told_so(call: Call) -> None:
    """Not that a column is missing, which `label=` could not mend."""
    Path("bars.csv").write_text("a|b|label\n1|2|0\n3|4|1\n")
    refused = call("run", "local", "--data", "csv:bars.csv")
    assert_refused(refused, "its columns are separated by '|'", "commas")


def test_advice_names_what_may_be_meant() -> None:
    assert unknown("model", "mlpp", ["mlp", "resmlp"]) == "unknown model 'mlpp'; did you mean 'mlp'?"
    assert "known: auto, cohort" in unknown("engine", "fast", ["auto", "cohort"])
    assert "'digits' or 'digit5'" in unknown("data", "digit", ["digits", "digit5", "femnist"])
