"""Python as comfortable as the command line: directories, results, comparisons."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from refusals import Call
from torch import nn

import protofed
from protofed import Client, Model
from protofed.core.errors import ConfigError, ProtofedError
from protofed.runs.notebook import chart

QUICK = {"rounds": 2, "epochs": 1, "engine": "sequential", "classes": ["ant", "bee", "cat"]}


def blobs(n: int = 24, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % 3
    return torch.randn(n, 5, generator=generator) + 4 * torch.eye(3, 5)[y], y


def three_clients() -> list[Client]:
    """Two architectures."""
    torch.manual_seed(0)
    nets = [
        Model(nn.Sequential(nn.Linear(5, w), nn.ReLU(), nn.Linear(w, 4)), nn.Linear(4, 3)) for w in (6, 6, 9)
    ]
    return [Client(net, blobs(seed=i), blobs(9, seed=10 + i)) for i, net in enumerate(nets)]


def test_a_run_of_federate_is_one_that_the_commands_read(tmp_path: Path, call: Call) -> None:
    result = protofed.federate(three_clients(), out=tmp_path / "run", **QUICK)
    assert result.path == tmp_path / "run"
    assert "gp_local" in call("show", str(result.path)).out
    assert call("report", str(result.path), "--light", "--quiet").code == 0
    told = call("resume", str(result.path), "--rounds", "5")
    assert told.code == 2
    assert "given in Python: go on with the same call of protofed.federate" in told.err
    assert told.err.count("\n") == 1
    with pytest.raises(ConfigError, match="were given in Python"):
        protofed.load(result.path)
    trained = protofed.load(result.path, models=[client.model for client in three_clients()])
    x, y = blobs(9, seed=12)
    scores = result.models[2](x)[1].detach().numpy()
    np.testing.assert_allclose(trained.predict(x, client=2, mode="clf").scores, scores, rtol=1e-4, atol=1e-6)
    for mode in result.modes:
        right = trained.predict(x, client=2, mode=mode).labels == y.numpy()
        assert 100 * right.mean() == pytest.approx(result.clients(mode)[2])
    assert trained.classes == ("ant", "bee", "cat")


def test_accuracies_by_client_without_a_directory(tmp_path: Path) -> None:
    result = protofed.federate(three_clients(), **QUICK)
    assert list(result.clients()) == [0, 1, 2]
    assert np.mean(list(result.clients("clf").values())) == pytest.approx(result.accuracy("clf"))
    saved = protofed.federate(three_clients(), out=tmp_path / "run", **QUICK)
    assert saved.clients("clf") == result.clients("clf")


def test_resume_gives_the_numbers_of_an_undisturbed_run(tmp_path: Path) -> None:
    whole = protofed.federate(three_clients(), out=tmp_path / "whole", **{**QUICK, "rounds": 4})
    protofed.federate(three_clients(), out=tmp_path / "run", **QUICK)
    on = protofed.federate(three_clients(), out=tmp_path / "run", resume=True, **{**QUICK, "rounds": 4})
    assert [line["round"] for line in on.metrics] == [1, 2, 3, 4]
    assert [line["acc"] for line in on.metrics] == [line["acc"] for line in whole.metrics]
    for ours, theirs in zip(on.models, whole.models):
        torch.testing.assert_close(ours.state_dict(), theirs.state_dict(), rtol=0, atol=0)
    again = protofed.federate(three_clients(), out=tmp_path / "run", resume=True, **{**QUICK, "rounds": 4})
    assert again.clients() == whole.clients()


def test_resume_refuses_other_settings_and_samples(tmp_path: Path) -> None:
    protofed.federate(three_clients(), out=tmp_path / "run", **QUICK)
    others = three_clients()
    others[1].train = blobs(seed=77)
    for clients, changes, line in (
        (three_clients(), {"lr": 0.5}, r"begun with another train\.lr"),
        (three_clients(), {"rounds": 1}, "has done 2 already"),
        (others, {}, "its data given in Python changed"),
    ):
        with pytest.raises(ProtofedError, match=line) as caught:
            protofed.federate(clients, out=tmp_path / "run", resume=True, **{**QUICK, **changes})
        assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match="say which run"):
        protofed.federate(three_clients(), resume=True, **QUICK)


def test_results_are_short_and_show_in_notebooks(capfd: pytest.CaptureFixture[str]) -> None:
    result = protofed.federate(three_clients(), progress=True, **QUICK)
    assert "fedproto" in capfd.readouterr().err
    text = repr(result)
    assert text.startswith("fedproto after 2 rounds, 3 clients\n")
    assert f"clf (classifier): {result.accuracy('clf'):.2f} ± " in text
    assert len(text) < 500
    page = result._repr_html_()
    assert page.count("<polyline") == len(result.modes)
    assert f"<td style='text-align:right'>{result.accuracy('clf'):.2f}</td>" in page
    frame = result.to_frame()
    assert list(frame["round"]) == [1, 2]
    assert frame["clf"].iloc[-1] == result.accuracy("clf")


def test_seeds(tmp_path: Path) -> None:
    results = protofed.federate(three_clients(), out=tmp_path, seeds=2, **QUICK)
    assert results.seeds == [0, 1]
    assert [run.path for run in results] == [tmp_path / "seed-0", tmp_path / "seed-1"]
    values = [run.accuracy("clf") for run in results]
    assert results.accuracy("clf") == pytest.approx(np.mean(values))
    assert results.spread("clf") == pytest.approx(np.std(values, ddof=1))
    assert len(repr(results)) < 500
    assert sorted(set(results.to_frame()["seed"])) == [0, 1]
    assert "seed 1" in results._repr_html_()
    with pytest.raises(ConfigError, match="seeds: expected"):
        protofed.federate(three_clients(), seeds=0, **QUICK)


def test_compare_methods_and_runs(tmp_path: Path) -> None:
    settings = {"models": "mlp", "clients": 3, "rounds": 2, "epochs": 1, "engine": "sequential"}
    found = protofed.compare(["local", "fedproto"], seeds=2, out=tmp_path / "study", **settings)
    table = found.to_frame()
    assert list(dict.fromkeys(table["method"])) == ["local", "fedproto"]
    assert set(table["seeds"]) == {2}
    assert "fedproto" in repr(found)
    assert len(repr(found)) < 3000
    assert found._repr_html_().count("<polyline") == len(found.runs) == 4
    assert found.markdown().count("###") == 2
    again = protofed.compare(list(found.runs.values()))
    np.testing.assert_array_equal(again.to_frame()["last"], table["last"])


def test_compare_runs_of_federate(tmp_path: Path) -> None:
    one, two = (
        protofed.federate(three_clients(), out=tmp_path / name, options={"lam": lam}, **QUICK)
        for name, lam in (("weak", 0.0), ("strong", 1.0))
    )
    table = protofed.compare([one, two.path]).to_frame()
    assert set(table["method"]) == {"fedproto (weak)", "fedproto (strong)"}
    row = table[(table["method"] == "fedproto (strong)") & (table["mode"] == "clf")]
    assert row["last"].item() == pytest.approx(two.accuracy("clf"))
    for what, line in (
        (["local", one], "one kind, not both"),
        ("local", "expected a list"),
        ([protofed.federate(three_clients(), **QUICK)], "without a run directory"),
        ([Path("nowhere")], "not a run directory"),
    ):
        with pytest.raises(ProtofedError, match=line):
            protofed.compare(what)


def test_the_chart_is_escaped_and_places_points() -> None:
    """Rounds 1 to 3 from x = 28 to 332, 0 to 50 % from y = 92 to 28: the middle of both is (180, 60)."""
    drawn = chart({"<b>": [(1, 0.0), (2, 25.0), (3, 50.0)], "none": [(1, float("nan"))]})
    assert "points='28.0,92.0 180.0,60.0 332.0,28.0'" in drawn
    assert "&lt;b&gt;" in drawn
    assert chart({"none": []}) == ""
    assert json.dumps(drawn)
