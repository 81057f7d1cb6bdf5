"""Tables of scikit-learn, .ts files of time series, images of unequal sizes."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from protofed.core.errors import ProtofedError
from protofed.data import divide, load
from protofed.data.loader import Loader
from protofed.data.new_rows import read_new

TS = "# made up\n@problemName Two\n@timeStamps false\n@classLabel true up down\n@data\n"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# scikit-learn


def test_tables_of_scikit_learn() -> None:
    """Wine has 59, 71 and 48 rows; a quarter of each, rounded, is for testing: 15 + 18 + 12."""
    dataset = load("sklearn:wine")
    assert np.bincount(dataset.y[dataset.test]).tolist() == [15, 18, 12]
    train = dataset.x[~dataset.test]
    assert train.mean(axis=0) == pytest.approx(np.zeros(13), abs=1e-5)
    assert train.std(axis=0) == pytest.approx(np.ones(13), abs=1e-5)
    other = load("sklearn:wine,split=1")
    assert (other.test != dataset.test).any()
    assert load("sklearn:iris,standardise=false").x.max() == pytest.approx(7.9)
    assert load("sklearn:breast_cancer").classes == ("malignant", "benign")


def test_columns_of_scikit_learn_are_known_by_name() -> None:
    dataset = load("sklearn:iris")
    names = [column.name for column in dataset.rule().columns]
    Path("new.csv").write_text(",".join(names) + "\n5.1,3.5,1.4,0.2\n")
    assert read_new("csv:new.csv", dataset.rule()).x[0] == pytest.approx(dataset.x[0])


@pytest.mark.parametrize(
    ("name", "line"), [("diabetes", "predicts numbers"), ("vine", "did you mean 'wine'")]
)
def test_no_table_of_scikit_learn(name: str, line: str) -> None:
    with pytest.raises(ProtofedError, match=line):
        load(f"sklearn:{name}")


# series


def write_ts(text: str = "1,2,3:0,0,0:up\n3,2,1:0,0,0:down\n", part: str = "TRAIN") -> None:
    Path(f"Two_{part}.ts").write_text(TS + text)


def test_series_of_unequal_lengths() -> None:
    """The first channel of the training rows is 1, 2, 3, 3, 2, 1: mean 2, variance 2/3. The test series 5, 4
    goes on with its last value. The second channel never changes, and is only shifted."""
    write_ts()
    write_ts("5,4:0,0:up\n", "TEST")
    dataset = load("aeon:Two,folder=.")
    assert dataset.x.shape == (3, 2, 3)
    assert dataset.x[2, 0].tolist() == [5, 4, 4]
    assert dataset.classes == ("down", "up")
    assert dataset.notes == ("Two: 1 of 3 series are shorter than 3 and go on with their last value",)
    x, y = Loader(dataset, divide("iid", dataset, 1, 0)).test(0)
    np.testing.assert_allclose(x[0, 0], (np.array([5, 4, 4]) - 2) / np.sqrt(2 / 3), rtol=1e-6)
    assert x[0, 1].tolist() == [0, 0, 0]
    assert y.tolist() == [1]
    assert load("aeon:Two,folder=.,length=2").x[0, 0].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("1,x:0,0:up\n", "line 6: holds a value that is no number"),
        ("1,2:0:up\n", "line 6: expected channels of one length"),
        ("1,NaN:0,0:up\n", "line 6: holds missing"),
        ("1,2:up\n1,2:3,4:up\n", "different numbers of channels"),
        ("", "no samples"),
    ],
)
def test_series_that_cannot_be_read(text: str, line: str) -> None:
    write_ts()
    write_ts(text, "TEST")
    with pytest.raises(ProtofedError, match=line) as caught:
        load("aeon:Two,folder=.")
    assert "\n" not in str(caught.value)


def test_files_that_are_no_series() -> None:
    write_ts()
    Path("Two_TEST.ts").write_text("1,2:up\n")
    with pytest.raises(ProtofedError, match="no line @data"):
        load("aeon:Two,folder=.")
    Path("Two_TEST.ts").write_text(TS.replace("Stamps false", "Stamps true") + "1:up\n")
    with pytest.raises(ProtofedError, match="time stamps"):
        load("aeon:Two,folder=.")
    with pytest.raises(ProtofedError, match=r"Three_TRAIN\.ts: no such file"):
        load("aeon:Three,folder=.")


@pytest.mark.skipif(
    find_spec("aeon") is None, reason="the package aeon, which holds the files, is not installed"
)
def test_series_of_aeon() -> None:
    assert load("aeon:BasicMotions").x.shape == (80, 6, 100)
    assert load("aeon:JapaneseVowels").x.shape == (640, 12, 29)


@pytest.mark.skipif(find_spec("aeon") is not None, reason="the package aeon is installed")
def test_without_aeon() -> None:
    with pytest.raises(ProtofedError, match=r"install .protofed\[series\]"):
        load("aeon:BasicMotions")


# images


def test_images_of_unequal_sizes() -> None:
    """A wide image whose left half is white, a square grey one. Cropped, the middle of the wide one stays:
    a white and a black column. Padded, it has black rows above and below. Stretched, it is squeezed."""
    image = pytest.importorskip("PIL.Image")
    wide = np.zeros((4, 8), np.uint8)
    wide[:, :4] = 255
    for name in ("a", "b"):
        Path(f"f/{name}").mkdir(parents=True)
    image.fromarray(wide).save("f/a/wide.png")
    image.fromarray(np.full((4, 4), 9, np.uint8)).save("f/b/grey.png")
    found = {how: load(f"folder:f,size=4,resize={how}") for how in ("crop", "pad", "stretch")}
    assert found["crop"].x[0, 0].tolist() == [[255, 255, 0, 0]] * 4
    assert found["pad"].x[0, 0, [0, 3]].max() == 0
    assert found["pad"].x[0, 0, 1, 0] == found["stretch"].x[0, 0, 0, 0] == 255
    assert all(one.x[1].min() == one.x[1].max() == 9 for one in found.values())
    said = "f: 1 of 2 images (4 to 8 × 4 to 4 pixels) were cropped to their middle square: 4×4"
    assert found["crop"].notes == (said,)
    later = read_new("folder:f", found["pad"].rule())
    assert later.names == ("a/wide.png", "b/grey.png")
    np.testing.assert_allclose(later.x, found["pad"].x.astype(np.float32) / 255)
    with pytest.raises(ProtofedError, match="set the option size"):
        load("folder:f")
