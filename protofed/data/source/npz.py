"""A NumPy archive: keys x_train, y_train, x_test, y_test.

uint8 images [N, H, W] or [N, H, W, channels] become channels-first; float arrays are kept as they
are. Labels are class ids or names, or masks [N, H, W] where -1 (255 in uint8) is void. Optional keys:
`classes` (names), `domain_train`/`domain_test`, `owner_train`/`owner_test` (ids or names). Names are
numbered in alphabetical order, labels in that of `classes` where it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from ...core.bounded_files import check_size, open_archive, opening, read_array
from ...core.errors import DataError
from ...core.options import option
from ..base import VOID, Dataset, sources
from ..cache import cached
from ..labels import numbered_classes
from ..near_names import likely
from .common import ImageSource, as_dataset

Read = Callable[[np.ndarray, str], np.ndarray]  # inputs as they are kept
TEXT = "US"  # kinds of arrays that hold names
KEYS = ("x_train", "y_train", "x_test", "y_test")
OPTIONAL = ("classes", "domains", "domain_train", "domain_test", "owner_train", "owner_test")


@sources.register("npz")
@dataclass(frozen=True)
class Npz(ImageSource):
    """npz:PATH, an archive with x_train, y_train, x_test, y_test."""

    positional: ClassVar[str] = "path"
    path: str = option("", "the archive")
    classes: int | None = option(None, "number of classes; default: those named or seen in training", low=1)
    tokens: bool = option(False, "inputs are tokens: whole numbers from 0 (padding) on, which stay whole")

    def load(self) -> Dataset:
        if not self.path:
            raise DataError("npz: no path given; write npz:PATH")
        arrays = cached_npz(Path(self.path), self.classes, self.tokens)
        return self.finish(as_dataset(Path(self.path).stem, arrays))


def cached_npz(path: Path, classes: int | None = None, tokens: bool = False) -> dict[str, np.ndarray]:
    """The table of an archive, decoded once."""
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    options = {"classes": classes, **({"tokens": True} if tokens else {})}
    read = tokens_of if tokens else channels_first
    return cached(
        path.stem,
        [path],
        options,
        lambda: table(read_arrays(path, KEYS, OPTIONAL), str(path), classes, read),
    )


def read_arrays(path: Path, needed: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, np.ndarray]:
    """These arrays of an archive, and no others; DataError where the file or a needed key is missing or
    damaged, or holds less or more than it says."""
    with opening(path, "an .npz archive"):
        with path.open("rb") as stream:
            start = stream.read(2)
        if start == b"\x93N":
            raise DataError(f"{path}: is a single array; an .npz archive is needed")
        if start != b"PK":
            raise DataError(
                f"{path}: is no .npz archive; write one with np.savez, or read a table by csv:PATH"
            )
        with open_archive(path) as archive:
            members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
            missing = [key for key in needed if key not in members]
            if missing:
                there = ", ".join(list(members)[:20])
                raise DataError(f"{path}: key {missing[0]!r} is missing; it has {there}")
            wanted = [key for key in (*needed, *optional) if key in members]
            check_size(sum(members[key].file_size for key in wanted), path)
            return {key: read_array(archive, members[key], path) for key in wanted}


def table(
    arrays: Mapping[str, np.ndarray],
    where: str,
    classes: int | None = None,
    read: Read | None = None,
) -> dict[str, np.ndarray]:
    """One table of train rows followed by test rows."""
    with opening(where, "arrays of samples and labels"):
        return _table(arrays, where, classes, read or channels_first)


def _table(
    arrays: Mapping[str, np.ndarray], where: str, classes: int | None, read: Read
) -> dict[str, np.ndarray]:
    for name, array in arrays.items():
        if array.ndim != 1 and name == "classes":
            raise DataError(
                f"{where}: classes has shape {array.shape}; expected a list of names (their number is an "
                "option of the source, classes=N)"
            )
        if array.ndim == 0:
            raise DataError(f"{where}: {name} is a single value; expected one for each row")
        if array.ndim != 1 and name not in KEYS:
            raise DataError(f"{where}: {name} has shape {array.shape}; expected one value for each row")
    for part in ("train", "test"):
        x, y = arrays[f"x_{part}"], arrays[f"y_{part}"]
        if len(x) != len(y):
            raise DataError(f"{where}: x_{part} has {len(x)} rows, y_{part} has {len(y)}; they must be equal")
    train, test = arrays["x_train"], arrays["x_test"]
    if train.shape[1:] != test.shape[1:]:
        raise DataError(f"{where}: x_train has rows of {train.shape[1:]}, x_test of {test.shape[1:]}")
    arrays = {**arrays, **_numbered_labels(arrays, where)}
    y_train, y_test = labels(arrays["y_train"], where), labels(arrays["y_test"], where)
    made = {
        "x": read(np.concatenate([train, test]), where),
        "y": np.concatenate([y_train, y_test]),
        "test": np.arange(len(train) + len(test)) >= len(train),
        "classes": _class_names(arrays, y_train, classes, where),
    }
    for name in ("domain", "owner"):
        if f"{name}_train" in arrays and f"{name}_test" in arrays:
            column = np.concatenate([arrays[f"{name}_train"], arrays[f"{name}_test"]])
            if column.dtype.kind in TEXT:
                made[f"{name}s"], column = np.unique(column.astype(str), return_inverse=True)
            made[name] = column.astype(np.int64)
    if "domain" in made and "domains" not in made:
        made["domains"] = arrays.get("domains", np.arange(made["domain"].max() + 1).astype(str))
    return made


def _numbered_labels(arrays: Mapping[str, np.ndarray], where: str) -> dict[str, np.ndarray]:
    """Labels that are names, as numbers, and the names; nothing where they are numbers."""
    parts = {key: arrays[key].reshape(-1) for key in ("y_train", "y_test") if arrays[key].dtype.kind in TEXT}
    if not parts:
        return {}
    if len(parts) < 2:
        raise DataError(
            f"{where}: {next(iter(parts))} holds names, the other labels are numbers; use one kind"
        )
    found = np.unique(np.concatenate([part.astype(str) for part in parts.values()]))
    names = arrays["classes"].astype(str) if "classes" in arrays else found
    if foreign := sorted(set(found.tolist()) - set(names.tolist())):
        meant = likely(foreign[0], names.tolist())
        raise DataError(f"{where}: label {foreign[0]!r} is not in classes ({', '.join(names)}){meant}")
    number = {name: index for index, name in enumerate(names.tolist())}
    numbered = {key: np.array([number[str(one)] for one in part.astype(str)]) for key, part in parts.items()}
    return {**numbered, "classes": names}


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
        raise DataError(
            f"{where}: inputs have type {x.dtype}; expected uint8 or float; for tokens set tokens=true"
        )
    if x.ndim == 3:
        return x[:, None]
    if x.ndim == 4 and x.shape[-1] in (1, 3, 4):
        return np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    if x.ndim == 4 and x.shape[1] in (1, 3, 4):
        return x
    raise DataError(f"{where}: images have shape {x.shape}; expected [N, H, W] or [N, H, W, channels]")


def tokens_of(x: np.ndarray, where: str) -> np.ndarray:
    """[N, length] whole numbers, 0 for padding."""
    if x.dtype.kind not in "iu" or x.ndim != 2:
        raise DataError(
            f"{where}: inputs are {x.dtype} of shape {x.shape}; tokens are whole numbers of shape [N, length]"
        )
    if x.size and int(x.min()) < 0:
        raise DataError(f"{where}: a token is {int(x.min())}; tokens are whole numbers from 0 (padding) on")
    return x.astype(np.int64)


def _class_names(
    arrays: Mapping[str, np.ndarray], y_train: np.ndarray, classes: int | None, where: str
) -> np.ndarray:
    if "classes" in arrays:
        return arrays["classes"].astype(str)
    return numbered_classes(y_train, where) if classes is None else np.arange(classes).astype(str)
