"""CelebA on a tiny made-up copy with the files and lists of the real one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from protofed.core.errors import DataError
from protofed.data import divide, load

Image = pytest.importorskip("PIL.Image")
ROWS = {  # image → grey of its upper half, Male, Smiling, person
    "000001.jpg": (10, -1, 1, 2880),
    "000002.jpg": (60, -1, -1, 17),
    "000003.jpg": (110, 1, 1, 2880),
    "000004.jpg": (160, 1, -1, 17),
    "000005.jpg": (210, 1, 1, 5),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "celeba"
    (root / "img_align_celeba").mkdir(parents=True)
    for name, (grey, *_) in ROWS.items():
        image = Image.new("RGB", (178, 218), (grey,) * 3)  # as large as the real ones
        image.paste((0, 0, 0), (0, 109, 178, 218))  # black below
        image.save(root / "img_align_celeba" / name, quality=95)
    lines = [f"{name}  {male} {smiling:>2}" for name, (_, male, smiling, _) in ROWS.items()]
    (root / "list_attr_celeba.txt").write_text("\n".join([str(len(ROWS)), "Male Smiling ", *lines]) + "\n")
    people = "".join(f"{name} {person}\n" for name, (*_, person) in ROWS.items())
    (root / "identity_CelebA.txt").write_text(people)
    monkeypatch.setenv("PROTOFED_DATA", str(tmp_path))
    return root


def test_attributes_persons_and_squares(folder: Path) -> None:
    """Persons 5, 17 and 2880 are owners 0, 1 and 2; the upper half stays the upper half."""
    data = load("celeba")
    assert data.shape == (3, 84, 84)
    assert data.classes == ("not smiling", "smiling")
    assert data.y.tolist() == [1, 0, 1, 0, 1]
    assert data.owner is not None
    assert data.owner.tolist() == [2, 1, 2, 1, 0]
    grey = np.array([10, 60, 110, 160, 210])[:, None, None]
    assert np.abs(data.x[:, 0, :40].astype(int) - grey).max() <= 3
    assert data.x[:, :, 44:].max() <= 3
    assert not data.test.any()
    split = divide("natural:minimum=2", data, 0, 0)
    assert [len(split.train[k]) + len(split.test[k]) for k in range(split.clients)] == [2, 2]


def test_other_attributes_and_fewer_persons(folder: Path) -> None:
    data = load("celeba:label=Male,size=16,persons=2")
    assert data.classes == ("not male", "male")
    assert data.y.tolist() == [0, 1, 1]  # images 2, 4 and 5, of persons 17 and 5
    assert data.shape == (3, 16, 16)


def test_what_is_wrong_is_told(folder: Path) -> None:
    with pytest.raises(DataError, match="unknown attribute 'smiling'; did you mean 'Smiling'"):
        load("celeba:label=smiling")
    (folder / "identity_CelebA.txt").write_text("000001.jpg 2880\n")
    with pytest.raises(DataError, match=r"does not name the person on 000002\.jpg \(4 are missing\)"):
        load("celeba")
    (folder / "identity_CelebA.txt").write_text("000001.jpg\n")
    with pytest.raises(DataError, match=r"line 1: expected a name and a number, got '000001\.jpg'"):
        load("celeba")
    (folder / "list_attr_celeba.txt").write_text("1\nMale Smiling\n000001.jpg 1\n")
    with pytest.raises(DataError, match="line 3: expected a name and 2 values, 1 or -1"):
        load("celeba")
    (folder / "list_attr_celeba.txt").unlink()
    with pytest.raises(DataError, match="does not exist; put it there"):
        load("celeba")
