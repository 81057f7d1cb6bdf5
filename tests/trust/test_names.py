"""Names of classes, owners and sites stay with the samples, from the file to the tables."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from refusals import Call

from protofed.data import load

SMALL = ("--models", "mlp:dim=4", "--rounds", "1", "--engine", "sequential", "--quiet")
CLASSES = np.array(["benign", "malignant", "no finding"])


def write_archive(path: Path, **changes: np.ndarray) -> None:
    """Sixty rows of three named classes at three named hospitals."""
    y = np.tile(CLASSES, 20)
    x = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
    owner = np.repeat(["Ulm", "Bern", "Graz"], 20)
    order = np.random.default_rng(1).permutation(60)
    parts = {"train": order[:45], "test": order[45:]}
    arrays = {f"x_{part}": x[rows] for part, rows in parts.items()}
    arrays |= {f"y_{part}": y[rows] for part, rows in parts.items()}
    arrays |= {f"owner_{part}": owner[rows] for part, rows in parts.items()}
    np.savez(path, **{**arrays, **changes})


def test_labels_and_owners_may_be_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROTOFED_CACHE", str(tmp_path / "cache"))
    write_archive(tmp_path / "d.npz")
    dataset = load(f"npz:{tmp_path / 'd.npz'}")
    assert dataset.classes == tuple(CLASSES)
    with np.load(tmp_path / "d.npz") as archive:
        names = np.concatenate([archive["y_train"], archive["y_test"]])
        owners = np.concatenate([archive["owner_train"], archive["owner_test"]])
    assert np.array(dataset.classes)[dataset.y].tolist() == names.tolist()
    assert dataset.owner is not None
    assert np.array(dataset.owners)[dataset.owner].tolist() == owners.tolist()


def test_names_have_the_order_that_classes_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROTOFED_CACHE", str(tmp_path / "cache"))
    write_archive(tmp_path / "d.npz", classes=CLASSES[::-1])
    dataset = load(f"npz:{tmp_path / 'd.npz'}")
    assert dataset.classes == ("no finding", "malignant", "benign")
    with np.load(tmp_path / "d.npz") as archive:
        assert dataset.classes[dataset.y[0]] == archive["y_train"][0]


def test_a_split_is_told_by_names(call: Call) -> None:
    write_archive(Path("d.npz"))
    shown = call("partition", "natural", "--data", "npz:d.npz", "--clients", "0")
    assert shown.code == 0, shown.err
    assert "client 0 (Bern): " in shown.out
    assert "benign:" in shown.out
    assert "no finding:" in shown.out


def test_a_run_keeps_and_shows_the_names(call: Call) -> None:
    """Also where the data is gone."""
    write_archive(Path("d.npz"))
    argv = ("run", "fedproto", "--data", "npz:d.npz", "--partition", "natural", "--clients", "0", *SMALL)
    assert call(*argv, "--out", "r").code == 0
    Path("d.npz").unlink()
    assert json.loads(Path("r/about.json").read_text())["classes"] == list(CLASSES)
    assert "classes: 0 benign, 1 malignant, 2 no finding" in call("show", "r").out
    assert call("report", "r", "--out", "r.html", "--quiet").code == 0
    assert "benign, malignant, no finding" in Path("r.html").read_text()


def test_owners_of_a_dataset_of_ones_own(call: Call) -> None:
    Path("mine.py").write_text(
        "import numpy as np\n"
        "from protofed.data import Dataset\n"
        "def read():\n"
        "    x = np.random.default_rng(0).normal(size=(40, 5)).astype('float32')\n"
        "    owner = np.array(['a', 'b'] * 20)\n"
        "    test = np.arange(40) % 5 == 0\n"
        "    return Dataset('mine', x, np.arange(40) // 20, test, ('cat', 'dog'), owner=owner)\n"
    )
    shown = call("partition", "natural", "--data", "mine.py:read", "--clients", "0")
    assert (shown.code, "client 1 (b): " in shown.out) == (0, True), shown.err


def rehearsed(call: Call, *classes: str) -> str:
    """What is said of a federation whose two sites have these names beside "benign"."""
    assert call("deploy", "init", "f", "--clients", "ulm,bern", "--insecure").code == 0
    Path("f/server/recipe.toml").write_text('method = "fedproto"\nrounds = 1\nmodels = "mlp:dim=4"\n')
    for site, name in zip(("ulm", "bern"), classes):
        home = (Path("f/clients") / site).resolve()
        labels = np.where(np.arange(60) % 2, "benign", name)
        write_archive(home / "d.npz", y_train=labels[:45], y_test=labels[45:])
        text = f'name = "{site}"\nserver = "localhost:9092"\nmodel = "mlp:dim=4"\ninsecure = true\n'
        (home / "client.toml").write_text(f'{text}data = "npz:{home / "d.npz"}"\n')
    done = call("deploy", "rehearse", "f", "--out", "r")
    assert done.code == 0, done.err
    shown = call("show", "r").out
    assert ("are counted as two" in shown) == ("are counted as two" in done.err + done.out)
    return shown


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what Flower imports
@pytest.mark.parametrize(
    ("one", "two", "warned"),
    [
        ("malign", "malignant", True),
        ("Malignant", "malignant_", True),
        ("stage 1", "stage 2", False),
        ("malignant", "malignant", False),
    ],
)
def test_near_equal_names_of_sites_are_spoken_of(call: Call, one: str, two: str, warned: bool) -> None:
    pytest.importorskip("flwr", exc_type=ImportError)
    assert (
        f"classes {one!r} (ulm) and {two!r} (bern) are counted as two" in rehearsed(call, one, two)
    ) == warned
