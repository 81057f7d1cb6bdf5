"""parquet:, folder:, voc2012, torchvision:, hf: on small made-up files."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from protofed.core.errors import ConfigError, DataError
from protofed.data import divide, load
from protofed.data.source.voc2012 import only_class

pa = pytest.importorskip("pyarrow")
Image = pytest.importorskip("PIL.Image")
pq = pytest.importorskip("pyarrow.parquet")


def png(value: int, size: tuple[int, int] = (4, 4), mode: str = "RGB") -> bytes:
    stream = io.BytesIO()
    Image.new(mode, size, value if mode == "L" else (value, 0, 255)).save(stream, "PNG")
    return stream.getvalue()


def write_parquet(
    path: Path, labels: list[object], names: list[str] | None = None, **columns: list[object]
) -> None:
    images = columns.pop("image", [{"bytes": png(i), "path": None} for i in range(len(labels))])
    table = pa.table({"image": images, "label": labels, **columns})
    if names:
        info = {"info": {"features": {"label": {"names": names, "_type": "ClassLabel"}}}}
        table = table.replace_schema_metadata({"huggingface": json.dumps(info)})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)


def test_parquet_folder(tmp_path: Path) -> None:
    write_parquet(tmp_path / "data/train-00000-of-00001.parquet", [1, 0, 2], ["a", "b", "c"])
    write_parquet(tmp_path / "data/test-00000-of-00001.parquet", [2], ["a", "b", "c"])
    dataset = load(f"parquet:{tmp_path}")
    assert dataset.x.shape == (4, 3, 4, 4)
    assert dataset.x[:, 0, 0, 0].tolist() == [0, 1, 2, 0]
    assert dataset.y.tolist() == [1, 0, 2, 2]
    assert dataset.test.tolist() == [False, False, False, True]
    assert dataset.classes == ("a", "b", "c")


def test_parquet_file_with_text_labels_and_domains(tmp_path: Path) -> None:
    labels, domains = ["cat", "dog"] * 8, ["photo", "photo", "sketch", "sketch"] * 4
    write_parquet(tmp_path / "all.parquet", labels, domain=domains)
    dataset = load(f"parquet:{tmp_path / 'all.parquet'},size=6")
    assert dataset.shape == (3, 6, 6)
    assert dataset.classes == ("cat", "dog")
    assert dataset.domains == ("photo", "sketch")
    assert dataset.test.sum() == 4  # one of four in each class and domain
    assert divide("domain:m=2", dataset, 0, 0).train.sizes.tolist() == [4, 4]


def test_bad_parquet(tmp_path: Path) -> None:
    bad = tmp_path / "bad.parquet"
    with pytest.raises(DataError, match="no such file"):
        load(f"parquet:{bad}")
    bad.write_bytes(b"PAR1 broken")
    with pytest.raises(DataError, match="cannot be read as parquet"):
        load(f"parquet:{bad}")
    write_parquet(bad, [0, 1], image=[{"bytes": png(1)}, {"bytes": b"no image"}])
    with pytest.raises(DataError, match="row 1: cannot be read as an image"):
        load(f"parquet:{bad}")
    write_parquet(bad, [0, 1], image=[{"bytes": png(1)}, {"bytes": None}])
    with pytest.raises(DataError, match="row 1 has no image bytes"):
        load(f"parquet:{bad}")
    write_parquet(bad, [0, 1], image=[{"bytes": png(1)}, {"bytes": png(1, (5, 4))}])
    with pytest.raises(DataError, match=r"row 1: is 5×4, but .* row 0 is 4×4; set the option size"):
        load(f"parquet:{bad}")
    write_parquet(bad, [0, 5], ["a", "b"])
    with pytest.raises(DataError, match="has label 5, expected 0 to 1"):
        load(f"parquet:{bad}")
    with pytest.raises(DataError, match="needs the columns image or img and kind; it has"):
        load(f"parquet:{bad},label=kind")


def write_images(folder: Path, names: str, mode: str = "L") -> None:
    for value, name in enumerate(names.split()):
        path = folder / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(value, mode=mode))


def test_folder_with_a_published_split(tmp_path: Path) -> None:
    write_images(tmp_path, "train/b/1 train/a/1 train/a/2 test/b/1")
    dataset = load(f"folder:{tmp_path}")
    assert dataset.x.shape == (4, 1, 4, 4)
    assert dataset.classes == ("a", "b")
    assert dataset.y.tolist() == [0, 0, 1, 1]
    assert dataset.test.tolist() == [False, False, False, True]
    assert dataset.x[:, 0, 0, 0].tolist() == [1, 2, 0, 3]


def test_a_test_folder_with_classes_of_its_own_is_refused(tmp_path: Path) -> None:
    """As unpacked, some sets have test/images/ without labels: that is no class."""
    write_images(tmp_path / "train" / "cat", "ab")
    write_images(tmp_path / "test" / "images", "cd")
    with pytest.raises(DataError, match="the test folder has the class 'images', which no training folder"):
        load(f"folder:{tmp_path}")


def test_folder_with_domains_and_chosen_classes(tmp_path: Path) -> None:
    names = " ".join(f"{d}/{c}/{i}" for d in ("art", "photo") for c in ("x", "y", "z") for i in range(4))
    write_images(tmp_path, names, "RGB")
    dataset = load(f"folder:{tmp_path},domains=true,keep=x+z")
    assert dataset.classes == ("x", "z")
    assert dataset.domains == ("art", "photo")
    assert len(dataset.x) == 16
    assert dataset.test.sum() == 4


def test_folder_of_mixed_sizes_names_the_file(tmp_path: Path) -> None:
    write_images(tmp_path, "a/1 b/1")
    (tmp_path / "b" / "2.png").write_bytes(png(1, (7, 9), "L"))
    with pytest.raises(DataError, match=r"b/2\.png: is 7×9, but .*a/1\.png is 4×4"):
        load(f"folder:{tmp_path}")
    assert load(f"folder:{tmp_path},size=5").shape == (1, 5, 5)


def test_bad_folders(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a folder"):
        load(f"folder:{tmp_path / 'none'}")
    with pytest.raises(DataError, match="has no images in class sub-folders"):
        load(f"folder:{tmp_path}")
    write_images(tmp_path, "a/1")
    (tmp_path / "a" / "2.png").write_bytes(b"broken")
    with pytest.raises(DataError, match=r"2\.png: cannot be read as an image"):
        load(f"folder:{tmp_path}")


def write_voc(root: Path, names: str, masks: str = "SegmentationClass") -> None:
    """Images whose masks hold person, cat, background and a border."""
    for folder in ("JPEGImages", masks, "ImageSets/Segmentation"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for name in names.split():
        Image.new("RGB", (8, 8)).save(root / "JPEGImages" / f"{name}.jpg")
        mask = Image.fromarray(np.repeat(np.array([[15, 8, 0, 255]], np.uint8), 2, axis=1).repeat(8, axis=0))
        mask.putpalette([0] * 768)
        mask.save(root / masks / f"{name}.png")
    (root / "ImageSets/Segmentation/train.txt").write_text("one\n")
    (root / "ImageSets/Segmentation/val.txt").write_text("two\n")


@pytest.mark.parametrize(("macro", "expected"), [(False, [15, 8, 0, -1]), (True, [1, 4, 0, -1])])
def test_voc2012(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, macro: bool, expected: list[int]) -> None:
    """Person is 15 and cat 8 of the 20 classes; person is 1 and animals are 4 of the macro classes."""
    monkeypatch.setenv("PROTOFED_DATA", str(tmp_path))
    write_voc(tmp_path / "VOC2012", "one two")
    dataset = load(f"voc2012:size=8,macro={macro}")
    assert dataset.y[0, 0, ::2].tolist() == expected
    assert dataset.test.tolist() == [False, True]
    assert dataset.num_classes == (5 if macro else 21)
    assert (None if dataset.kind is None else dataset.kind.tolist()) == ([-1, -1] if macro else None)


def test_the_only_class_of_an_image() -> None:
    """Cat with a border; cat and dog; background alone."""
    masks = np.array([[[8, 255]], [[8, 12]], [[0, 0]]], np.uint8)
    assert only_class(masks).tolist() == [8, -1, -1]


def test_voc2012_with_a_longer_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three training images instead of one, from a list of paths of the user's or of VOC's own folder."""
    monkeypatch.setenv("PROTOFED_DATA", str(tmp_path))
    root = tmp_path / "VOC2012"
    write_voc(root, "one two three four", "SegmentationClassAug")
    longer = tmp_path / "mine.txt"
    longer.write_text("".join(f"/JPEGImages/{n}.jpg /Aug/{n}.png\n" for n in ("one", "three", "four")))
    (root / "ImageSets/Segmentation/trainaug.txt").write_text("one\nthree\nfour\n")
    for given in (str(longer), "trainaug"):
        dataset = load(f"voc2012:size=8,names={given},masks=SegmentationClassAug")
        assert dataset.test.tolist() == [False, False, False, True]
    longer.write_text("one\ntwo\n")
    with pytest.raises(DataError, match=r"1 images, such as two, stand in .*for training and for tests"):
        load(f"voc2012:size=8,names={longer},masks=SegmentationClassAug")
    with pytest.raises(DataError, match=r"names=none\.txt: no such file"):
        load("voc2012:names=none.txt")


class FakeSet:
    """Stands for torchvision.datasets.CIFAR10."""

    classes = ("a", "b")

    def __init__(self, root: str, download: bool, train: bool):
        self.data = np.full((4 if train else 2, 5, 5, 3), 9, np.uint8)
        self.targets = [0, 1, 0, 1][: len(self.data)]


def test_torchvision(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(datasets=SimpleNamespace(CIFAR10=FakeSet))
    monkeypatch.setattr("protofed.core.torchvision_shim.import_torchvision", lambda: module)
    dataset = load("torchvision:CIFAR10")
    assert dataset.x.shape == (6, 3, 5, 5)
    assert dataset.y.tolist() == [0, 1, 0, 1, 0, 1]
    assert dataset.test.sum() == 2
    assert dataset.mean == (0.5, 0.5, 0.5)


def test_torchvision_without_a_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuses(root: str, download: bool, train: bool) -> None:
        raise OSError("no route to host")

    module = SimpleNamespace(datasets=SimpleNamespace(CIFAR10=refuses))
    monkeypatch.setattr("protofed.core.torchvision_shim.import_torchvision", lambda: module)
    monkeypatch.setenv("PROTOFED_DATA", str(tmp_path))
    with pytest.raises(
        DataError, match=r"could not be fetched \(no route to host\); on a machine with a network"
    ):
        load("torchvision:CIFAR10")
    assert list(tmp_path.iterdir()) == []  # the folder of data is never written to
    with pytest.raises(ConfigError, match="did you mean 'CIFAR10'"):
        load("torchvision:CIFAR")


def test_hf_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match="the package datasets is not installed; pip install it, or download"):
        load("hf:uoft-cs/cifar10")


class FakePart:
    """Stands for datasets.Dataset."""

    column_names = ("img", "label")
    features = {"label": SimpleNamespace(names=["a", "b"])}  # noqa: RUF012

    def __init__(self, labels: list[int]):
        self.columns = {"label": labels, "img": [{"bytes": png(i)} for i in range(len(labels))]}

    def __len__(self) -> int:
        return len(self.columns["label"])

    def __getitem__(self, column: str) -> list[object]:
        return self.columns[column]

    def cast_column(self, column: str, feature: object) -> FakePart:
        return self


def test_hf(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {"train": FakePart([0, 1, 1]), "test": FakePart([1])}
    module = SimpleNamespace(load_dataset=lambda name: parts, Image=lambda decode: None)
    monkeypatch.setitem(sys.modules, "datasets", module)  # type: ignore[arg-type]
    dataset = load("hf:someone/cifar")
    assert dataset.name == "cifar"
    assert dataset.y.tolist() == [0, 1, 1, 1]
    assert dataset.test.tolist() == [False, False, False, True]


def test_hf_that_cannot_be_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(name: str) -> None:
        raise ConnectionError("offline")

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=fails))  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"cannot be fetched \(offline\); download its parquet files"):
        load("hf:someone/cifar")
