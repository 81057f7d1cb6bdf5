"""`protofed predict`, and what it and `protofed export` refuse: files are whole or not there."""

import csv
import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from refusals import Call
from run_surgery import unfinish

import protofed
from protofed.cli.main import main

HEAD = "age,dose,label\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of FedProto on a standardised table, which is gone; new.csv has its form."""
    folder = tmp_path_factory.mktemp("table")
    random = np.random.default_rng(1)
    ages, doses = random.normal(size=(2, 120))
    rows = [f"{30 + age},{dose},well\n{50 + age},{1 + dose},ill" for age, dose in zip(ages, doses)]
    (folder / "train.csv").write_text(HEAD + "\n".join(rows) + "\n")
    (folder / "new.csv").write_text(HEAD + "\n".join(rows[:7]) + "\n")
    data = f"csv:{folder / 'train.csv'},standardise=true"
    settings = [
        "--partition",
        "iid",
        "--models",
        "mlp:dim=6",
        "--clients",
        "2",
        "--rounds",
        "3",
        "--epochs",
        "2",
    ]
    argv = ("run", "fedproto", "--data", data, *settings, "--engine", "sequential", "--quiet")
    assert main([*argv, "--out", str(folder / "run")]) == 0
    (folder / "train.csv").unlink()
    return folder


def test_predict_writes_names_and_scores(run: Path, call: Call) -> None:
    told = call(
        "predict", str(run / "run"), "--client", "1", "--data", f"csv:{run / 'new.csv'}", "--mode", "gp_all"
    )
    assert told.code == 0
    rows = list(csv.DictReader(io.StringIO(told.out)))
    assert list(rows[0]) == ["sample", "label", "predicted", "score ill", "score well"]
    table = np.loadtxt(run / "new.csv", delimiter=",", skiprows=1, usecols=(0, 1))
    found = protofed.load(run / "run").predict(table, client=1, mode="gp_all")
    assert [row["predicted"] for row in rows] == found.names.tolist()
    scores = [[float(row["score ill"]), float(row["score well"])] for row in rows]
    np.testing.assert_allclose(scores, found.scores, rtol=1e-6)
    right = sum(row["label"] == row["predicted"] for row in rows)
    assert f"14 samples, mode gp_all, {100 * right / 14:.2f} % of the labels are right" in told.err


def test_predict_as_json_into_a_file_from_another_folder(run: Path, call: Call) -> None:
    Path("plain.csv").write_text("dose,age\n0.1,30\n1.2,51\n")
    argv = ("--data", "csv:plain.csv", "--client", "0", "--format", "json", "--out", "found.json")
    told = call("predict", str(run / "run"), *argv)
    assert (told.code, told.out) == (0, "")
    found = json.loads(Path("found.json").read_text())
    assert found["mode"] == "gp_local"
    assert found["accuracy"] is None
    assert [one["predicted"] for one in found["predictions"]] == ["well", "ill"]
    assert list(found["predictions"][0]["scores"]) == found["classes"] == ["ill", "well"]


PREDICT = ("predict", "RUN", "--client", "0", "--data")
EXPORT = ("export", "RUN", "--client", "0")


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        ((*PREDICT, "csv:odd.csv"), "sample 1: label 'dead' is no class"),
        ((*PREDICT, "csv:new.csv", "--client", "9"), "client 9 does not exist"),
        (("predict", "RUN", "--data", "csv:new.csv"), "say which of the 2"),
        ((*PREDICT, "csv:new.csv", "--mode", "gp"), "unknown prediction mode"),
        ((*PREDICT, "csv:new.csv", "--mode", "ens"), "unknown prediction mode 'ens'"),
        ((*PREDICT, "csv:no.csv"), "no.csv: no such file"),
        ((*PREDICT, "csv:short.csv"), "no column 'dose'"),
        ((*PREDICT, "csv:new.csv", "--format", "xml"), "invalid choice"),
        (("predict", "half", *PREDICT[2:], "csv:new.csv"), "half is not finished (3 of 3 rounds)"),
        (("predict", "nothing", *PREDICT[2:], "csv:new.csv"), "not a run directory"),
        ((*EXPORT, "--format", "pickle"), "unknown format 'pickle'; there are safetensors"),
        (EXPORT, "say --format, one of"),
        ((*EXPORT, "--client", "5", "--format", "onnx"), "client 5 does not exist"),
        (("export", "RUN", "--to", "csv"), "`protofed track RUN --to csv` now"),
        (("export", "half", *EXPORT[2:], "--format", "onnx"), "is not finished"),
        ((*EXPORT, "--format", "onnx", "--out", "no/such/a.onnx"), "is not a folder"),
    ],
)
def test_refusals_leave_nothing(
    run: Path, call: Call, argv: tuple[str, ...], line: str, tmp_path: Path
) -> None:
    Path("RUN").symlink_to(run / "run")
    Path("new.csv").write_text((run / "new.csv").read_text())
    Path("odd.csv").write_text(HEAD + "30,1,ill\n40,1,dead\n")
    Path("short.csv").write_text("age\n30\n")
    shutil.copytree(run / "run", "half")
    unfinish(Path("half"))
    before = sorted(tmp_path.rglob("*"))
    out = () if "--out" in argv or argv[0] == "export" else ("--out", "found")
    told = call(*argv, *out)
    assert told.code in (1, 2)
    assert line in told.err
    assert told.err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before
