"""Files that are a client each: classes and columns by name, what does not fit, and the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from protofed.cli.main import main
from protofed.config import resolve
from protofed.core.errors import ProtofedError
from protofed.data import divide, load
from protofed.runs.input_rules import read_rule


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str, classes: str, head: str = "age,dose,label", shift: float = 0.0, rows: int = 24) -> None:
    """Ages are 10 times the number of the class's letter, doses 1 to 4."""
    places = head.split(",")
    lines = []
    for row in range(rows):
        letter = classes[row % len(classes)]
        cells = {"age": str(10 * ord(letter) - 970 + shift), "dose": str(1 + row // 6), "label": letter}
        lines.append(",".join(cells.get(place, "0") for place in places))
    Path(name).write_text("\n".join([head, *lines]) + "\n")


def test_classes_and_columns_are_matched_by_name() -> None:
    """a.csv has a and b, b.csv b and c with its columns in another order: b is one class, ages stay ages."""
    write("a.csv", "ab")
    write("b.csv", "bc", "label,dose,age")
    dataset = load("sites:a.csv|b.csv")
    assert dataset.classes == ("a", "b", "c")
    assert dataset.owners == ("a", "b")
    assert dataset.x[:, 0].tolist() == [0.0, 10.0] * 12 + [10.0, 20.0] * 12
    assert dataset.y.tolist() == [0, 1] * 12 + [1, 2] * 12
    assert divide("natural", dataset, 0, 0).clients == 2


def test_each_site_has_its_own_constants(capsys: pytest.CaptureFixture[str]) -> None:
    """Ages of the second site lie 100 higher; standardised by its own rows they are the same numbers. The run
    keeps both rules, and who has which."""
    write("a.csv", "ab")
    write("b.csv", "ab", shift=100)
    words = ["--sites", "a.csv", "b.csv", "--each", "standardise=true,drop=dose", "--models", "mlp"]
    assert main(["run", "fedproto", *words, "--rounds", "1", "--epochs", "1", "--out", "r", "--quiet"]) == 0
    config = json.loads(Path("r/config.json").read_text())
    assert config["data"] == "sites:a.csv|b.csv,each=standardise=true;drop=dose"
    assert (config["partition"], config["clients"]) == ("natural", 0)
    dataset = load(config["data"])
    np.testing.assert_allclose(dataset.x[:24], dataset.x[24:], atol=1e-6)
    means = [rule.columns[0].mean for c in (0, 1) if (rule := read_rule(Path("r"), c)) is not None]
    assert means[1] - means[0] == pytest.approx(100)
    assert main(["partition", *words[:5]]) == 0
    assert "client 1 (b): 18 + 6 rows; a:9 b:9" in capsys.readouterr().out


def test_categories_of_all_sites() -> None:
    write("a.csv", "ab", "age,ward,label")
    write("b.csv", "ab", "age,ward,label")
    Path("b.csv").write_text(Path("b.csv").read_text().replace(",0,", ",east,"))
    Path("a.csv").write_text(Path("a.csv").read_text().replace(",0,", ",west,"))
    dataset = load("sites:a.csv|b.csv,each=onehot=ward")
    assert dataset.x[0].tolist() == [0, 0, 1]
    assert dataset.x[24].tolist() == [0, 1, 0]


def test_other_kinds_of_files() -> None:
    """An archive beside a table: classes by name, and numbers where there are no names."""
    write("a.csv", "12")
    x, y = np.ones((6, 2), np.float32), np.array([0, 1, 2] * 2)
    np.savez("b.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    dataset = load("sites:a.csv|b.npz")
    assert dataset.classes == ("0", "1", "2")
    assert dataset.test[24:].tolist() == [False] * 6 + [True] * 6


def test_names_that_are_nearly_equal() -> None:
    Path("a.csv").write_text("v,label\n1,benign\n2,malignant\n" * 1 + "3,benign\n4,malignant\n")
    Path("b.csv").write_text("v,label\n1,benign\n2,malign\n3,benign\n4,malign\n")
    notes = load("sites:a.csv|b.csv").notes
    assert notes == (
        "warning: classes 'malign' (b) and 'malignant' (a) are counted as two: if they are one, give "
        "them one name "
        "in the files",
    )


def test_notes_that_sites_share_stand_once() -> None:
    write("a.csv", "ab")
    write("b.csv", "ab")
    notes = load("sites:a.csv|b.csv,each=standardise=true").notes
    assert notes == ("a.csv, b.csv: features are standardised by mean and deviation of the training rows",)


def test_names_of_sites_with_equal_files() -> None:
    for folder in ("north", "south"):
        Path(folder).mkdir()
        write(f"{folder}/data.csv", "ab")
    assert load("sites:north/data.csv|south/data.csv").owners == ("north/data", "south/data")


def test_other_content_is_other_data() -> None:
    from protofed.data.fingerprints import content_of_dataset

    write("a.csv", "ab")
    write("b.csv", "ab")
    before = content_of_dataset(load("sites:a.csv|b.csv"))
    write("b.csv", "ab", shift=1)
    assert content_of_dataset(load("sites:a.csv|b.csv")) != before


@pytest.mark.parametrize(
    ("sites", "line"),
    [
        ({"sites": ["a.csv"]}, "at least two files"),
        ({"sites": "a.csv"}, "expected a list of files"),
        ({"sites": ["a.csv", "c.csv"]}, "a has a column 'dose', which c has not; .* drop=dose"),
        ({"sites": ["a.csv", "wide.npz"]}, r"inputs of a have shape \[2\], of wide \[3\]"),
        ({"sites": ["a.csv", "gone.csv"]}, r"gone\.csv: no such file"),
        ({"sites": ["a.csv", "a.txt"]}, r"'a\.txt' is of no known kind"),
        ({"sites": ["a.csv", "nowhere"]}, "'nowhere' is neither a file nor a folder"),
        ({"sites": ["a.csv", "b|c.csv"]}, "stands between sites"),
        ({"sites": ["a.csv", "b.csv"], "each": "labell=x"}, "no site has an option 'labell'"),
        ({"sites": ["a.csv", "b.csv"], "each": "label"}, "expected KEY=VALUE"),
        ({"sites": ["a.csv", "b.csv"], "data": "digits"}, "leave `data` out"),
        ({"each": "label=x"}, "belong to `sites`"),
    ],
)
def test_sites_that_do_not_fit(sites: dict[str, object], line: str) -> None:
    write("a.csv", "ab")
    write("b.csv", "bc")
    write("c.csv", "ab", "age,label")
    Path("a.txt").write_text("x")
    x, y = np.ones((4, 3)), np.array([0, 1, 0, 1])
    np.savez("wide.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    with pytest.raises(ProtofedError, match=line) as caught:
        load(resolve(sites).data)
    assert "\n" not in str(caught.value)
