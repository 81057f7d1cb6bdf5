"""Folders of images, one sub-folder per class.

PATH/{train,test}/CLASS/… gives the published split; PATH/CLASS/… gets a fixed stratified quarter as
test. With `domains=true` one level more is expected: PATH/DOMAIN/CLASS/… or
PATH/DOMAIN/{train,test}/CLASS/…. Images may lie deeper within a class folder.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np

from ...core.errors import DataError
from ...core.options import option
from ..base import Dataset, sources
from ..cache import cached
from ..images import RESIZE, decode_images, extents
from ..near_names import likely
from .common import ImageSource, as_dataset, imported
from .stratify import stratified_test

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"}
TEST_FOLDERS = ("test", "val", "validation")


class Found(NamedTuple):
    """One image file."""

    path: Path
    cls: str
    test: bool
    domain: str


@sources.register("folder")
@dataclass(frozen=True)
class Folder(ImageSource):
    """folder:PATH, class sub-folders of images, with train/ and test/ above them or not."""

    positional: ClassVar[str] = "path"
    path: str = option("", "the folder")
    size: int | None = option(None, "resize images to this many pixels square", low=1)
    resize: str = option(
        "stretch",
        "with size: stretch images to squares; crop: keep the middle square; pad: add black borders",
        choices=RESIZE,
    )
    channels: int | None = option(None, "1 grey or 3 colour; default: as the first image", low=1, high=3)
    domains: bool = option(False, "the first level of folders are domains")
    keep: tuple[str, ...] = option((), "only these classes, joined by +")

    def load(self) -> Dataset:
        if not self.path:
            raise DataError("folder: no path given; write folder:PATH")
        if self.channels == 2:
            raise DataError(f"folder:{self.path}: channels must be 1 (grey) or 3 (colour), got 2")
        imported("PIL", "data", "folder")
        found = self._find(Path(self.path))
        options: dict[str, object] = {
            "size": self.size,
            "channels": self.channels,
            "domains": self.domains,
            "keep": self.keep,
        }
        options |= {"resize": self.resize}
        name = Path(self.path).name
        arrays = cached(name, [f.path for f in found], options, lambda: self._decode(found, name))
        made = self.finish(as_dataset(name, arrays))
        reading = {"kind": self.name, "size": self.size, "resize": self.resize}
        rule = replace(made.rule(), reading=reading)
        return replace(made, rules=(rule,), notes=self._notes(name, np.asarray(arrays["extents"])))

    def _notes(self, name: str, extents: np.ndarray) -> tuple[str, ...]:
        """What was done to images of other sizes."""
        changed = int((extents != self.size).any(axis=1).sum()) if self.size else 0
        if not changed:
            return ()
        (w, h), (wider, higher) = extents.min(axis=0), extents.max(axis=0)
        sizes = f"{w}×{h}" if (w, h) == (wider, higher) else f"{w} to {wider} × {h} to {higher}"
        how = {"stretch": "stretched", "crop": "cropped to their middle square", "pad": "padded with black"}
        done = how[self.resize] if (extents[:, 0] != extents[:, 1]).any() else "scaled"
        return (
            f"{name}: {changed} of {len(extents)} images ({sizes} pixels) were {done}: "
            f"{self.size}×{self.size}",
        )

    def _find(self, root: Path) -> list[Found]:
        if not root.is_dir():
            raise DataError(f"folder: {root} is not a folder")
        tops = _folders(root) if self.domains else [root]
        found = [f for top in tops for f in _images(top, top.name if self.domains else "")]
        if self.keep:
            found = [f for f in found if f.cls in self.keep]
        if not found:
            raise DataError(f"folder: {root} has no images in class sub-folders")
        return found

    def _decode(self, found: list[Found], name: str) -> dict[str, np.ndarray]:
        images = [(str(f.path), f.path) for f in found]
        classes, y = np.unique([f.cls for f in found], return_inverse=True)
        domains, domain = np.unique([f.domain for f in found], return_inverse=True)
        test = np.array([f.test for f in found])
        only_test = sorted({f.cls for f in found if f.test} - {f.cls for f in found if not f.test})
        if only_test:
            meant = likely(only_test[0], sorted({f.cls for f in found if not f.test}))
            raise DataError(
                f"{name}: the test folder has the class {only_test[0]!r}, which no training folder has"
                f"{meant}; give each class its folder in both, or remove the test folder"
            )
        if not test.any():
            test = stratified_test(domain * len(classes) + y, 0.25, name)
        made = {
            "x": decode_images(images, self.size, self.channels, self.resize),
            "extents": extents(images),
            "y": y,
            "test": test,
            "classes": classes,
        }
        return {**made, "domain": domain, "domains": domains} if self.domains else made


def _images(top: Path, domain: str) -> list[Found]:
    parts = [(top / "train", False)]
    parts += [(top / name, True) for name in TEST_FOLDERS if (top / name).is_dir()][:1]
    if not (top / "train").is_dir():
        parts = [(top, False)]
    return [
        Found(path, cls.name, test, domain)
        for part, test in parts
        for cls in _folders(part)
        for path in sorted(cls.rglob("*"))
        if path.suffix.lower() in SUFFIXES
    ]


def _folders(path: Path) -> list[Path]:
    return sorted(child for child in path.iterdir() if child.is_dir() and not child.name.startswith("."))
