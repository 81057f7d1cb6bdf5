"""Names of classes, owners and sites stay with the samples, from the file to the tables."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from refusals import Call, assert_refused

from protofed.core.errors import DataError
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


NEAR = "classes 'malign' (test rows) and 'malignant' (training rows) are counted as two"


def write_table(path: str, second: str, rows: int) -> None:
    lines = [f"{i % 7},{i % 3},{second if i % 2 else 'benign'}" for i in range(rows)]
    Path(path).write_text("a,b,label\n" + "\n".join(lines) + "\n")


def test_misspelt_names_of_a_test_file_are_spoken_of(call: Call) -> None:
    """In the run, in its folder and before it (partition); also that nobody can learn them."""
    write_table("train.csv", "malignant", 40)
    write_table("test.csv", "malign", 20)
    data = ("--data", "csv:train.csv,test_file=test.csv", "--partition", "iid", "--clients", "2")
    done = call("run", "local", *data, *SMALL[:-1], "--out", "r")
    assert NEAR in done.err
    assert "test rows of 'malign', but no training row" in done.err
    assert NEAR in call("show", "r").out
    assert NEAR in call("partition", "iid", *data[:2], *data[4:]).out


def test_misspelt_labels_of_an_archive_are_spoken_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROTOFED_CACHE", str(tmp_path / "cache"))
    rows = {"y_train": np.array(["benign", "malignant", "malignant"] * 15)}
    rows |= {"y_test": np.array(["benign", "malign", "malign"] * 5)}
    write_archive(tmp_path / "d.npz", **rows)
    assert any(NEAR in note for note in load(f"npz:{tmp_path / 'd.npz'}").notes)
    write_archive(tmp_path / "e.npz", **rows, classes=np.array(["benign", "malignant"]))
    with pytest.raises(DataError, match=r"'malign' is not in classes .*most likely 'malignant' is meant"):
        load(f"npz:{tmp_path / 'e.npz'}")


def test_near_equal_names_of_natural_owners_are_spoken_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROTOFED_CACHE", str(tmp_path / "cache"))
    owner = np.tile(["Ulm", "Bern"], 30)
    y = np.where(np.arange(60) // 2 % 2, "benign", np.where(owner == "Ulm", "malign", "malignant"))
    parts = {f"{name}_{part}": found[rows] for name, found in (("y", y), ("owner", owner))
             for part, rows in (("train", slice(45)), ("test", slice(45, 60)))}  # fmt: skip
    write_archive(tmp_path / "d.npz", **parts)
    (said,) = load(f"npz:{tmp_path / 'd.npz'}").notes
    assert "classes 'malign' (Ulm) and 'malignant' (Bern) are counted as two" in said


def test_a_misspelt_test_folder_is_named(call: Call) -> None:
    image = pytest.importorskip("PIL.Image")
    for folder in ("train/benign", "train/malignant", "test/benign", "test/malign"):
        Path("img", folder).mkdir(parents=True)
        for number in range(2):
            image.new("L", (4, 4)).save(Path("img", folder, f"{number}.png"))
    refused = call("run", "local", "--data", "folder:img", *SMALL)
    assert_refused(refused, "the class 'malign'", "most likely 'malignant' is meant")


def test_a_number_in_place_of_the_names(call: Call) -> None:
    write_archive(Path("d.npz"), classes=np.array(3))
    assert_refused(
        call("run", "local", "--data", "npz:d.npz", *SMALL), "classes has shape ()", "list of names"
    )


def test_a_table_of_numbers_as_parquet(call: Call) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = arrow.table({"image": [[1.0, 2.0], [3.0, 4.0]], "label": ["a", "b"]})
    parquet.write_table(table, "d.parquet")
    assert_refused(call("run", "local", "--data", "parquet:d.parquet", *SMALL), "holds a list", "npz:PATH")
