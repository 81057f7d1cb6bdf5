"""CelebA from `celeba/` in the folder PROTOFED_DATA, as published; the owner of a row is the person on it.

Liu, Luo, Wang and Tang, *Deep Learning Face Attributes in the Wild*, ICCV 2015. Needs the folder
img_align_celeba/ and the lists list_attr_celeba.txt (attributes, 1 or −1) and identity_CelebA.txt. The
classes are those of one attribute, smiling by default, as in LEAF and ProtoMargin, whose 9,343 clients are
persons with at least five images: `--partition natural:minimum=5`. No row is marked as test: 80 % of a
client's are for training. Images are stretched to squares of 84 pixels, as in LEAF.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...core.errors import DataError, unknown
from ...core.options import option
from ..base import Dataset, sources
from ..cache import cached
from ..images import decode_images
from .common import ImageSource, as_dataset, data_file, imported

ATTRIBUTES, IDENTITIES, IMAGES = "list_attr_celeba.txt", "identity_CelebA.txt", "img_align_celeba"


@sources.register("celeba")
@dataclass(frozen=True)
class CelebA(ImageSource):
    """CelebA by person: an attribute of faces, 84×84."""

    label: str = option("Smiling", "the attribute, as list_attr_celeba.txt spells it")
    size: int = option(84, "pixels of an image's side", low=8)
    persons: int | None = option(
        None, "only the images of so many persons, those of the lowest numbers", low=1
    )

    def load(self) -> Dataset:
        imported("PIL", "data", "celeba")
        files = [data_file("celeba", f"celeba/{name}") for name in (ATTRIBUTES, IDENTITIES)]
        options = {"label": self.label, "size": self.size, "persons": self.persons}
        arrays = cached("celeba", files, options, lambda: self._decode(files))
        return self.finish(as_dataset("celeba", arrays))

    def _decode(self, files: list[Path]) -> dict[str, np.ndarray]:
        names, y = read_attribute(files[0], self.label)
        person = read_identities(files[1], names)
        known, owner = np.unique(person, return_inverse=True)
        rows = np.flatnonzero(owner < (self.persons or len(known)))
        folder = files[0].parent / IMAGES
        images = [(names[row], folder / names[row]) for row in rows]
        plain = self.label.lower().replace("_", " ")
        return {
            "x": decode_images(images, self.size, channels=3),
            "y": y[rows],
            "test": np.zeros(len(rows), dtype=bool),
            "owner": owner[rows].astype(np.int64),
            "classes": np.array([f"not {plain}", plain]),
        }


def read_attribute(path: Path, attribute: str) -> tuple[list[str], np.ndarray]:
    """Names of the images, and 1 where they have the attribute, else 0."""
    lines = _lines(path)
    if len(lines) < 3:
        raise DataError(f"celeba: {path} lists no images; expected a count, names of attributes, and rows")
    known = lines[1]
    if attribute not in known:
        raise DataError(f"celeba: {unknown('attribute', attribute, known)}")
    place = known.index(attribute) + 1
    for number, words in enumerate(lines[2:], start=3):
        if len(words) != len(known) + 1 or words[place] not in ("1", "-1"):
            raise DataError(
                f"celeba: {path}, line {number}: expected a name and {len(known)} values, 1 or -1, got "
                f"{' '.join(words)[:60]!r}"
            )
    return [words[0] for words in lines[2:]], np.array([words[place] == "1" for words in lines[2:]], np.int64)


def read_identities(path: Path, names: list[str]) -> np.ndarray:
    """The number of the person on each of these images."""
    found = {}
    for number, words in enumerate(_lines(path), start=1):
        if len(words) != 2 or not words[1].isdecimal():
            raise DataError(
                f"celeba: {path}, line {number}: expected a name and a number, got {' '.join(words)[:60]!r}"
            )
        found[words[0]] = int(words[1])
    if missing := [name for name in names if name not in found]:
        raise DataError(
            f"celeba: {path} does not name the person on {missing[0]} ({len(missing)} are missing)"
        )
    return np.array([found[name] for name in names])


def _lines(path: Path) -> list[list[str]]:
    """The words of every line that has any."""
    try:
        return [words for line in path.read_text().splitlines() if (words := line.split())]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"celeba: {path} cannot be read: {error}") from error
