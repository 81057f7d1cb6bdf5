"""The plain data of a report: what the files say, and what the checkpoint holds."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from protofed.analysis.prototype_margins import class_margins, margin_ratio
from protofed.core.errors import RunError
from protofed.experiment import reopen
from protofed.reports.collect import collect
from protofed.reports.inside import project
from protofed.runs.directory import RunDir
from protofed.runs.seals import write_whole


def test_curves_are_those_of_the_metrics(runs: list[Path], report: dict[str, Any]) -> None:
    lines = RunDir.open(runs[0]).lines("metrics.jsonl")
    run = report["runs"][0]
    assert run["tests"]["acc"]["gp_local"]["mean"] == [line["acc"]["gp_local"]["mean"] for line in lines]
    sent = np.cumsum([line["up"]["bytes"] + line["down"]["bytes"] for line in lines])
    assert run["tests"]["bytes"] == sent.tolist()
    assert run["modes"] == ["gp_local", "clf", "gp_all", "lp"]  # the paper's own first
    assert run["results"]["clf"]["best"] == max(line["acc"]["clf"]["mean"] for line in lines)
    assert [one["state"] for one in report["runs"]] == ["finished"] * 3


def test_a_report_is_plain_and_repeatable(runs: list[Path], report: dict[str, Any]) -> None:
    assert json.loads(json.dumps(report)) == report
    again = collect(runs[:1], points=40)
    assert again["runs"][0]["space"] == report["runs"][0]["space"]


def test_embeddings_have_samples_and_both_kinds_of_prototypes(
    runs: list[Path], report: dict[str, Any]
) -> None:
    """40 points over 4 clients: 10 each. Local prototypes: one for each class that a client holds."""
    run = report["runs"][0]
    space, held = run["space"], sum(run["split"]["held"])
    assert len(space["samples"]["xy"]) == 40
    assert len(space["local"]["xy"]) == len(space["local"]["cls"]) == held
    state = reopen(RunDir.open(runs[0])).federation.state
    assert space["global"]["cls"] == torch.nonzero(state.known)[:, 0].tolist()  # type: ignore[attr-defined]
    assert report["runs"][1]["space"]["global"]["xy"] == []  # local training has no global prototypes


def test_margins_of_a_run_are_those_of_its_prototypes(runs: list[Path], report: dict[str, Any]) -> None:
    """FedProto keeps at each client the prototypes that it uploaded: the largest margin is taken of them."""
    experiment = reopen(RunDir.open(runs[0]))
    largest: dict[int, float] = {}
    for client in experiment.active:
        private = experiment.federation.engine.store.get(client)
        assert private is not None
        cls = torch.nonzero(private.mem["n"])[:, 0]
        rows = private.mem["mean"][cls]
        nearest = torch.cdist(rows, rows).fill_diagonal_(torch.inf).amin(1)
        for c, margin in zip(cls.tolist(), nearest.tolist()):
            largest[c] = max(margin, largest.get(c, 0.0))
    ours = {c: v for c, v in enumerate(report["runs"][0]["margins"]["client"]) if v is not None}
    assert ours == pytest.approx(largest, rel=1e-4)
    assert report["runs"][1]["margins"]["global"] is None


def test_class_margins_by_hand() -> None:
    """Points 0 and 1 of class 0, 4 of class 2: the nearest other class is 3 away, class 1 has none."""
    rows, cls = torch.tensor([[0.0], [1.0], [4.0]]), torch.tensor([0, 0, 2])
    assert class_margins(rows, cls, 3).tolist() == [3.0, torch.inf, 3.0]


def test_the_ratio_of_margins_is_that_of_the_chart(runs: list[Path], report: dict[str, Any]) -> None:
    margins = report["runs"][0]["margins"]
    pairs = [(g, c) for g, c in zip(margins["global"], margins["client"]) if g is not None and c]
    expected = sum(g / c for g, c in pairs) / len(pairs)
    assert margin_ratio(reopen(RunDir.open(runs[0]))) == pytest.approx(expected, rel=1e-4)
    assert np.isnan(margin_ratio(reopen(RunDir.open(runs[1]))))


def test_attention_sums_to_one_and_names_its_clients(report: dict[str, Any]) -> None:
    attention = report["runs"][2]["attention"]
    assert sum(attention["weights"]) == pytest.approx(1.0, abs=1e-5)
    assert sum(attention["shares"]) == pytest.approx(1.0)
    assert len(attention["clients"]) == len(attention["weights"]) == 4
    assert "attention" not in report["runs"][0]


def test_weights_of_all_rounds_are_those_of_the_metrics(runs: list[Path], report: dict[str, Any]) -> None:
    """Of the last round the same as the server's state holds; methods without an average have none."""
    average, attention = report["runs"][2]["average"], report["runs"][2]["attention"]
    lines = RunDir.open(runs[2]).lines("metrics.jsonl")
    assert average["round"] == [1, 2, 3]
    assert average["weights"] == [line["average"]["weights"] for line in lines]
    assert average["weights"][-1] == pytest.approx(attention["weights"], abs=1e-6)
    assert "average" not in report["runs"][0]


def test_of_many_weights_some_rounds_are_shown(runs: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Three rounds of 4 weights are 12: with room for 8, every second round."""
    monkeypatch.setattr("protofed.reports.collect.MOST_WEIGHTS", 8)
    assert collect(runs[2:], inside=False)["runs"][0]["average"]["round"] == [1, 3]


def test_runs_of_one_method_are_told_apart_by_their_folders(runs: list[Path], tmp_path: Path) -> None:
    shutil.copytree(runs[0], tmp_path / "other")
    assert [run["name"] for run in collect([runs[0], tmp_path / "other"], inside=False)["runs"]] == [
        "fedproto",
        "other",
    ]
    twice = [run["name"] for run in collect([runs[0], runs[0]], inside=False)["runs"]]
    assert len(set(twice)) == 2


def test_a_run_without_its_data_is_reported_without_embeddings(runs: list[Path], tmp_path: Path) -> None:
    shutil.copytree(runs[1], tmp_path / "moved")
    config = json.loads((tmp_path / "moved" / "config.json").read_text())
    write_whole(tmp_path / "moved", "config.json", {**config, "data": "npz:/gone.npz"})
    run = collect([tmp_path / "moved"])["runs"][0]
    assert "space" not in run
    about_data, left_out = run["notes"]
    assert about_data.startswith("data: ")
    assert left_out.startswith("charts of data and embeddings are left out: ")
    assert len(run["tests"]["round"]) == 3


def test_a_folder_that_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not a run directory"):
        collect([tmp_path])


@pytest.mark.parametrize("shape", [(4, 3), (30, 1), (9, 50)])
def test_the_projection_takes_few_rows(shape: tuple[int, int]) -> None:
    rows = np.random.default_rng(0).normal(size=shape)
    placed = project(rows)
    assert placed.shape == (shape[0], 2)
    assert np.isfinite(placed).all()


def test_collapsed_embeddings_are_one_point() -> None:
    assert (project(np.ones((8, 5))) == 0).all()
