"""Like with like: differences and ranks within one prediction mode, claims among rows trained alike."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from refusals import Call

SMALL = ("--models", "mlp", "--clients", "6", "--rounds", "2", "--engine", "sequential", "--seeds", "1")

RECIPE = """
data = "digits"
partition = "iid"
clients = 2
models = "mlp"
rounds = 1
engine = "sequential"
[about]
title = "A toy"
seeds = 1
tolerance = 50
[[about.rows]]
name = "A"
method = "local"
[[about.rows]]
name = "B"
method = "fedavg"
settings = { %s }
[[about.columns]]
name = "x"
[[about.orders]]
above = "A"
below = "B"
[published]
mean = { A = [50.0], B = [49.0] }
"""


def records(call: Call, *argv: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The lines of a comparison by method and mode."""
    assert call("compare", *argv, *SMALL, "--out", "c", "--quiet").code == 0
    rows = json.loads(Path("c/comparison.json").read_text())["rows"]
    return {(row["method"], row["mode"]): row for row in rows}


def test_differences_are_within_a_mode(call: Call) -> None:
    """Local has a classifier alone: only FedProto's classifier is compared with it, not its prototypes among
    own classes, an easier question."""
    found = records(call, "local", "fedproto")
    clf, prototypes, local = found["fedproto", "clf"], found["fedproto", "gp_local"], found["local", "clf"]
    assert clf["gap"] == clf["last"] - local["last"]
    assert clf["p_holm"] is not None
    assert prototypes["gap"] is prototypes["p"] is prototypes["p_holm"] is None


def test_the_best_number_is_marked_within_a_mode(call: Call) -> None:
    records(call, "local", "fedproto")
    table = Path("c/comparison.md").read_text().split("### ")[1]
    assert all("**" not in line for line in table.splitlines() if "gp_" in line or "| lp |" in line)
    marked = [line for line in table.splitlines() if "**" in line]
    assert marked
    assert all("| clf |" in line for line in marked)
    assert "no Δ for gp_local, gp_all, lp: local has no such prediction" in table


def test_unequal_training_is_listed(call: Call) -> None:
    records(call, "local", "fedavg:batch_size=2,epochs=3")
    table = Path("c/comparison.md").read_text()
    assert "unequal batch size: 10 (local); 2 (fedavg:batch_size=2,epochs=3)" in table
    assert "unequal epochs: 5 (local); 3 (fedavg:batch_size=2,epochs=3)" in table
    assert "unequal local steps: " in table


def test_equal_training_is_not_spoken_of(call: Call) -> None:
    records(call, "local", "fedavg")
    text = Path("c/comparison.md").read_text()
    assert "unequal" not in text
    assert "local steps" in text


def claim(call: Call, settings: str) -> tuple[dict[str, Any], str]:
    Path("toy.toml").write_text(RECIPE % settings)
    assert call("reproduce", "toy.toml", "--out", "t", "--quiet").code == 0
    (found,) = json.loads(Path("t/toy.json").read_text())["claims"]
    return found, Path("t/toy.md").read_text()


def test_no_claim_across_unequal_training(call: Call) -> None:
    found, text = claim(call, "epochs = 4")
    assert found["holds"] is None
    assert found["why"] == "unequal epochs, local steps"
    assert "unequal between rows: epochs, local steps" in text


def test_no_claim_across_other_data(call: Call) -> None:
    found, _ = claim(call, 'partition = "dirichlet:beta=1"')
    assert found["holds"] is None
    assert "data" in found["why"]


def test_a_claim_among_equals_is_judged_and_steps_are_shown(call: Call) -> None:
    found, text = claim(call, "epochs = 5")
    assert found["why"] == "2 pairs of clients of 1 seed too few for a test"
    assert re.search(rf"\| A > B \| \S+ \| {found['gap']:+.2f} \| cannot tell: ", text)
    assert "local steps of a client in a round: A (clf, " in text


def test_the_first_view_of_a_report_is_one_mode(call: Call) -> None:
    records(call, "local", "fedproto")
    runs = sorted(map(str, Path("c/runs").iterdir()))
    assert call("report", *runs, "--out", "r.html", "--points", "8", "--quiet").code == 0
    embedded = re.search(r'<script id="data"[^>]*>(.*?)</script>', Path("r.html").read_text(), re.S)
    assert embedded
    sections = {one["title"]: one for one in json.loads(embedded[1])["sections"]}
    series = sections["Accuracy"]["cards"][0]["charts"][0]["series"]
    assert [one["label"] for one in series if "" in one.get("when", ())] == ["fedproto · clf", "local · clf"]


def test_other_models_and_rates_are_listed_and_not_judged(call: Call) -> None:
    found = records(call, "local", "fedavg:lr=0.01,models=mlp:dim=9,eval_clients=3")
    row = "fedavg:lr=0.01,models=mlp:dim=9,eval_clients=3"
    assert found[row, "clf"]["gap"] is found[row, "clf"]["p"] is None
    table = Path("c/comparison.md").read_text()
    assert table.startswith("### digits, nway:n=3,stdev=1,k=10, 2 kinds of models: accuracy")
    for line in (f"lr: 0.05 (local); 0.01 ({row})", "models: mlp (local); mlp:dim=9", "eval_clients: all"):
        assert f"unequal {line}" in table


def test_no_claim_across_other_rates(call: Call) -> None:
    found, _ = claim(call, "lr = 0.01")
    assert found["holds"] is None
    assert found["why"] == "unequal lr"
