"""Samples that come after training, from files: read and treated as the training samples of a run were."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..core.errors import DataError
from .inputs import InputRule, ready
from .specs import load, parse_source
from .table import encode_named

X_KEYS = ("x", "x_test", "x_new")  # of an archive


class NewRows(NamedTuple):
    """Inputs of new samples; `labels` are names of classes, where the file has them."""

    x: np.ndarray  # [N, …] ready for a model
    names: tuple[str, ...]  # of the samples: row numbers, or paths of images
    labels: tuple[str, ...] | None = None


def read_new(spec: str, rule: InputRule) -> NewRows:
    """Samples of "csv:PATH", "npz:PATH", "folder:PATH", or of any other data set: then its test rows.

    A table needs the columns of the training table, by name; a label column may be there. An archive needs
    `x` alone. A folder may have class folders or not.
    """
    kind, options = parse_source(spec)
    path = Path(str(options.get("path", "")))
    if kind == "csv":
        return _table(path, str(options.get("label", rule.reading.get("label", ""))), rule)
    if kind == "npz":
        return _archive(path, rule)
    if kind == "folder":
        return _images(path, rule)
    dataset = load(spec)
    rows = np.flatnonzero(dataset.test) if dataset.test.any() else np.arange(len(dataset.x))
    if dataset.shape != rule.shape:
        raise DataError(
            f"{spec}: samples have shape {list(dataset.shape)}, the model wants {list(rule.shape)}"
        )
    own = dataset.rule()
    if own.columns or (own.mean, own.std) != (rule.mean, rule.std):
        raise DataError(f"{spec}: is normalised by itself; give new samples as csv:, npz: or folder:")
    labels = tuple(dataset.classes[int(cls)] for cls in dataset.y[rows]) if not dataset.dense else None
    return NewRows(ready(np.asarray(dataset.x[rows]), rule), tuple(map(str, rows.tolist())), labels)


def _table(path: Path, label: str, rule: InputRule) -> NewRows:
    from .source.csv import read_table

    columns = read_table(path, "")
    labels = tuple(cell.strip() for cell in columns[label]) if label in columns else None
    try:
        x = encode_named({name: cells for name, cells in columns.items() if name != label}, rule)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    return NewRows(x, tuple(map(str, range(len(x)))), labels)


def _archive(path: Path, rule: InputRule) -> NewRows:
    from .source.npz import channels_first, read_arrays

    if not path.is_file():
        raise DataError(f"{path}: no such file")
    arrays = read_arrays(path, (), (*X_KEYS, *(key.replace("x", "y") for key in X_KEYS)))
    key = next((key for key in X_KEYS if key in arrays), None)
    if key is None:
        raise DataError(f"{path}: no array {' or '.join(X_KEYS)}; it has {', '.join(arrays)}")
    raw = arrays[key]
    x = ready(channels_first(raw, str(path)) if raw.dtype == np.uint8 else raw, rule)
    y = arrays.get(key.replace("x", "y"))
    named = y is not None and y.dtype.kind in "US" and len(y) == len(x)
    return NewRows(x, tuple(map(str, range(len(x)))), tuple(map(str, y.tolist())) if named else None)  # type: ignore[union-attr]


def _images(path: Path, rule: InputRule) -> NewRows:
    from .images import decode_images
    from .source.folder import SUFFIXES

    if not path.is_dir():
        raise DataError(f"{path}: is not a folder")
    if len(rule.shape) != 3:
        raise DataError(f"{path}: the model wants inputs of shape {list(rule.shape)}, not images")
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES)
    if not files:
        raise DataError(f"{path}: no images ({', '.join(sorted(SUFFIXES))})")
    how = {key: rule.reading[key] for key in ("size", "resize") if rule.reading.get(key) is not None}
    pixels = decode_images([(str(file), file) for file in files], channels=rule.shape[0], **how)
    return NewRows(ready(pixels, rule), tuple(str(file.relative_to(path)) for file in files))
