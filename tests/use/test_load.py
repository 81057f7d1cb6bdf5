"""`protofed.load`: what a run trained, without its data and without engines."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from run_surgery import unfinish

import protofed
from protofed.core.algorithm import methods
from protofed.core.errors import ConfigError, DataError, RunError
from protofed.data import divide, load
from protofed.data.loader import Loader
from protofed.runs.seals import COPIES

DATA = "digits"
PARTITION = "nway:n=2,stdev=0,k=8"
SETTINGS = {"data": DATA, "partition": PARTITION, "clients": 3, "rounds": 2, "epochs": 1, "batch_size": 20}


def tiny_run(method: str, out: Path, **settings) -> protofed.Result:
    needs = methods[method]().needs
    if needs.public:
        settings |= {"public": DATA, "public_samples": 20}
    if needs.sgd:
        settings |= {"momentum": 0.0}
    return protofed.run(
        method, out=out, **{**SETTINGS, "models": "mlp:dim=12", "engine": "sequential", **settings}
    )


def reported(out: Path) -> dict[str, list[float | None]]:
    return json.loads((out / "clients.jsonl").read_text().splitlines()[-1])["acc"]


@pytest.mark.parametrize("method", [name for name in methods if name != "_template"])
def test_predictions_are_those_that_the_run_was_tested_with(method: str, tmp_path: Path) -> None:
    """Every method: accuracy of load(run).predict at each client in each mode is the one in clients.jsonl."""
    tiny_run(method, tmp_path / "run")
    trained = protofed.load(tmp_path / "run")
    dataset = load(DATA)
    split = divide(PARTITION, dataset, 3, 0)
    accuracies = reported(tmp_path / "run")
    assert set(accuracies) == set(trained.modes)
    for mode, expected in accuracies.items():
        for client, accuracy in enumerate(expected):
            rows = split.test[client]
            if accuracy is None:
                assert not len(rows)
                continue
            names = trained.predict(dataset.x[rows], client=client, mode=mode).names
            right = names == np.array(dataset.classes)[dataset.y[rows]]
            assert 100 * right.mean() == pytest.approx(accuracy)
    model = trained.model(1)
    assert not model.training
    if "clf" in trained.modes:
        x, _ = Loader(dataset, split).test(1)
        scores = trained.predict(dataset.x[split.test[1]], client=1, mode="clf").scores
        np.testing.assert_allclose(model(x)[1].detach().numpy(), scores, rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def fedproto(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of FedProto whose data is a file that is gone."""
    folder = tmp_path_factory.mktemp("fedproto")
    random = np.random.default_rng(0)
    y = np.repeat(["ant", "bee", "cat"], 20)
    x = random.normal(size=(60, 5)).astype(np.float32) + np.repeat(np.arange(3), 20)[:, None]
    np.savez(folder / "new.npz", x=x, y=y)
    np.savez(folder / "data.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    data = {"data": f"npz:{folder / 'data.npz'}", "partition": "nway:n=2,stdev=0,k=8"}
    tiny_run("fedproto", folder / "run", **data)
    (folder / "data.npz").unlink()
    return folder


def test_a_run_is_used_without_its_data(fedproto: Path) -> None:
    trained = protofed.load(fedproto / "run")
    new = np.load(fedproto / "new.npz")
    assert trained.classes == ("ant", "bee", "cat")
    assert trained.clients == ("0", "1", "2")
    predicted = trained.predict(new["x"], client=2, mode="gp_all")
    assert predicted.scores.shape == (60, 3)
    assert (predicted.names == np.array(trained.classes)[predicted.scores.argmax(1)]).all()
    own = trained.predict(new["x"], client="2", mode="gp_local")
    assert np.isneginf(own.scores).any(0).sum() == 1  # two of three classes are this client's
    protos = trained.prototypes()
    assert np.asarray(protos).shape == (len(protos), 12)
    assert set(protos.names) <= set(trained.classes)
    table = trained.metrics
    assert list(table["round"]) == [1, 2]
    assert table["gp_local"].iloc[-1] == pytest.approx(trained.accuracy("gp_local"))
    assert "<html" in trained.report(fedproto / "page.html").read_text()[:200]
    assert len(repr(trained)) < 300


def test_the_mode_that_held_out_samples_weigh(tmp_path: Path) -> None:
    """`ens`: accuracies as the run reported them, with the shares that it fitted."""
    tiny_run("fedproto", tmp_path / "run", validation=0.3, rounds=3)
    trained, dataset = protofed.load(tmp_path / "run"), load(DATA)
    split = divide(PARTITION, dataset, 3, 0)
    assert trained.modes[-1] == "ens"
    for client, accuracy in enumerate(reported(tmp_path / "run")["ens"]):
        rows = split.test[client]
        names = trained.predict(dataset.x[rows], client=client, mode="ens").names
        right = names == np.array(dataset.classes)[dataset.y[rows]]
        assert 100 * right.mean() == pytest.approx(accuracy)


def test_prototypes_are_those_of_the_state_and_unknown_classes_are_left_out(tmp_path: Path) -> None:
    result = tiny_run("fedproto", tmp_path / "run", clients=1)
    protos = protofed.load(tmp_path / "run").prototypes()
    known = result.state.known > 0
    np.testing.assert_array_equal(protos.rows, result.state.mean[known].numpy())
    assert protos.names == tuple(str(int(c)) for c in torch.nonzero(known)[:, 0])
    assert len(protos) < 10


def test_a_later_change_of_the_folder_changes_nothing(
    fedproto: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(fedproto)
    trained = protofed.load("run")
    monkeypatch.chdir(tmp_path)
    assert trained.report() == fedproto / "run" / "report.html"


def test_the_model_of_a_client_that_never_took_part_is_the_one_that_predicts(tmp_path: Path) -> None:
    """It is tested with the server's weights, which are not those that it would assemble itself."""
    tiny_run("fedavg", tmp_path / "run", options={"eval_model": "after_local"}, newcomers=1)
    trained = protofed.load(tmp_path / "run")
    x = load(DATA).x[:5]
    scores = trained.model(2)(torch.from_numpy(x))[1].numpy()
    np.testing.assert_allclose(scores, trained.predict(x, client=2).scores, rtol=1e-5)


def test_a_run_of_an_earlier_version_is_read_with_its_data(tmp_path: Path) -> None:
    tiny_run("fedproto", tmp_path / "run")
    x = load(DATA).x[:9]
    new = protofed.load(tmp_path / "run").predict(x, client=0, mode="gp_local").scores
    about = tmp_path / "run" / "about.json"
    found = {key: value for key, value in json.loads(about.read_text()).items() if key != "shapes"}
    about.write_text(json.dumps(found))
    np.testing.assert_array_equal(protofed.load(tmp_path / "run").predict(x, 0, "gp_local").scores, new)


def test_refusals(fedproto: Path, tmp_path: Path) -> None:
    trained = protofed.load(fedproto / "run")
    x = np.zeros((2, 5), np.float32)
    for call, error, text in (
        (lambda: trained.predict(x, client=7), ConfigError, "client 7 does not exist; the run has 0 to 2"),
        (lambda: trained.predict(x), ConfigError, "say which of the 3"),
        (lambda: trained.predict(x, 0, "gp_al"), ConfigError, "did you mean 'gp_all'"),
        (lambda: trained.predict(x[:, :4], 0), DataError, r"shape \[N, 5\], got \[2, 4\]"),
        (lambda: trained.predict(x + np.nan, 0), DataError, "NaN"),
        (lambda: trained.predict(x[:0], 0), DataError, "expected samples"),
        (lambda: trained.predict("abc", 0), DataError, "expected samples"),
        (lambda: protofed.load(tmp_path), RunError, "not a run directory"),
        (lambda: protofed.load(fedproto / "run", models=[trained.model(0)]), ConfigError, "builds its own"),
    ):
        with pytest.raises(error, match=text) as caught:
            call()
        assert "\n" not in str(caught.value)
    shutil.copytree(fedproto / "run", tmp_path / "half")
    unfinish(tmp_path / "half")
    with pytest.raises(RunError, match=r"is not finished .2 of 2 rounds."):
        protofed.load(tmp_path / "half")
    assert len(protofed.load(tmp_path / "half", unfinished=True).predict(x, 0)) == 2
    for folder in (tmp_path / "half", tmp_path / "half" / COPIES):
        data = (folder / "class_counts.dat").read_bytes()
        (folder / "class_counts.dat").write_bytes(data[:99] + bytes([data[99] ^ 1]) + data[100:])
    with pytest.raises(RunError, match=r"class_counts.dat is not what the run wrote"):
        protofed.load(tmp_path / "half", unfinished=True)


def test_images_are_given_as_bytes(tmp_path: Path) -> None:
    """Bytes are scaled to [0, 1], then (x − 0.5) / 0.5."""
    x = np.random.default_rng(0).integers(0, 256, (80, 6, 6), dtype=np.uint8)
    y = np.arange(80) % 4
    np.savez(tmp_path / "data.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    tiny_run("local", tmp_path / "run", rounds=1, data=f"npz:{tmp_path / 'data.npz'},normalise=signed")
    trained, x = protofed.load(tmp_path / "run"), x[:, None]
    by_hand = trained.model(0)((torch.from_numpy(x) / 255 - 0.5) / 0.5)[1].detach().numpy()
    np.testing.assert_allclose(trained.predict(x, client=0).scores, by_hand, rtol=1e-4, atol=1e-5)
    with pytest.raises(DataError, match="give bytes"):
        trained.predict(x.astype(np.float32), client=0)


def test_without_pandas_the_error_names_it(fedproto: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ConfigError, match="pip install pandas"):
        _ = protofed.load(fedproto / "run").metrics
