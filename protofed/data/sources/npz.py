"""A NumPy archive: keys x_train, y_train, x_test, y_test.

uint8 images [N, H, W] or [N, H, W, channels] become channels-first; float arrays are kept as they
are. Labels are class ids, or masks [N, H, W] where -1 (255 in uint8) is void. Optional keys:
`classes` (names), `domain_train`/`domain_test`, `owner_train`/`owner_test` (ids).
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from ...core.errors import DataError
from ...core.options import option
from ..base import VOID, Dataset, sources
from .common import ImageSource

KEYS = ("x_train", "y_train", "x_test", "y_test")


@sources.register("npz")
@dataclass(frozen=True)
class Npz(ImageSource):
    """npz:PATH, an archive with x_train, y_train, x_test, y_test."""

    positional: ClassVar[str] = "path"
    path: str = option("", "the archive")
    classes: int | None = option(None, "number of classes; default: those named or seen in training", low=1)

    def load(self) -> Dataset:
        if not self.path:
            raise DataError("npz: no path given; write npz:PATH")
        arrays = read_arrays(Path(self.path), KEYS)
        return self.finish(dataset_of(Path(self.path).stem, arrays, self.path, self.classes))


def read_arrays(path: Path, needed: tuple[str, ...]) -> dict[str, np.ndarray]:
    """All arrays of an archive; DataError where the file or a needed key is missing or damaged."""
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise DataError(f"{path}: is a single array; an .npz archive is needed")
            missing = [key for key in needed if key not in archive.files]
            if missing:
                raise DataError(f"{path}: key {missing[0]!r} is missing; it has {', '.join(archive.files)}")
            return {key: archive[key] for key in archive.files}
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path}: cannot be read as an .npz archive ({error}); is it damaged?") from error


def dataset_of(
    name: str, arrays: Mapping[str, np.ndarray], where: str, classes: int | None = None
) -> Dataset:
    """One table of train rows followed by test rows."""
    for part in ("train", "test"):
        x, y = arrays[f"x_{part}"], arrays[f"y_{part}"]
        if len(x) != len(y):
            raise DataError(f"{where}: x_{part} has {len(x)} rows, y_{part} has {len(y)}; they must be equal")
    train, test = arrays["x_train"], arrays["x_test"]
    if train.shape[1:] != test.shape[1:]:
        raise DataError(f"{where}: x_train has rows of {train.shape[1:]}, x_test of {test.shape[1:]}")
    y_train, y_test = labels(arrays["y_train"], where), labels(arrays["y_test"], where)
    return Dataset(
        name=name,
        x=channels_first(np.concatenate([train, test]), where),
        y=np.concatenate([y_train, y_test]),
        test=np.arange(len(train) + len(test)) >= len(train),
        classes=_class_names(arrays, y_train, classes),
        domain=_column(arrays, "domain"),
        domains=_domain_names(arrays),
        owner=_column(arrays, "owner"),
    )


def labels(y: np.ndarray, where: str) -> np.ndarray:
    """Integer labels; 255 in uint8 masks becomes void."""
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim not in (1, 3):
        raise DataError(f"{where}: labels have shape {y.shape}; expected [N], or [N, H, W] for masks")
    if y.dtype.kind == "f":
        if not (np.isfinite(y).all() and (y == np.round(y)).all()):
            raise DataError(f"{where}: labels hold NaN or fractions; expected whole class ids")
    elif y.dtype.kind not in "iu":
        raise DataError(f"{where}: labels have type {y.dtype}; expected whole class ids")
    if y.ndim == 3:
        return np.where((y == 255) & (y.dtype == np.uint8), VOID, y.astype(np.int16)).astype(np.int16)
    return y.astype(np.int64)


def channels_first(x: np.ndarray, where: str) -> np.ndarray:
    """[N, channels, H, W] for uint8 images; floats become float32 and keep their shape."""
    if x.dtype.kind == "f":
        return x.astype(np.float32, copy=False)
    if x.dtype != np.uint8:
        raise DataError(f"{where}: inputs have type {x.dtype}; expected uint8 or float")
    if x.ndim == 3:
        return x[:, None]
    if x.ndim == 4 and x.shape[-1] in (1, 3, 4):
        return np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    if x.ndim == 4 and x.shape[1] in (1, 3, 4):
        return x
    raise DataError(f"{where}: images have shape {x.shape}; expected [N, H, W] or [N, H, W, channels]")


def _class_names(
    arrays: Mapping[str, np.ndarray], y_train: np.ndarray, classes: int | None
) -> tuple[str, ...]:
    if "classes" in arrays:
        return tuple(str(name) for name in arrays["classes"])
    count = classes if classes is not None else int(y_train.max(initial=0)) + 1
    return tuple(str(number) for number in range(count))


def _column(arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray | None:
    if f"{name}_train" not in arrays or f"{name}_test" not in arrays:
        return None
    return np.concatenate([arrays[f"{name}_train"], arrays[f"{name}_test"]]).astype(np.int64)


def _domain_names(arrays: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    domain = _column(arrays, "domain")
    if domain is None:
        return ()
    if "domains" in arrays:
        return tuple(str(name) for name in arrays["domains"])
    return tuple(str(number) for number in range(int(domain.max()) + 1))
