"""Splits in PFLlib's layout: DIR/train/0.npz, DIR/test/0.npz, … and DIR/config.json.

Zhang et al., *PFLlib*, arxiv.org/abs/2312.04992 (HtFLlib uses the same). Each file holds one pickled
dict {"x": array, "y": array} under the key `data`. A pickle may run any code, so it is read with an
unpickler that knows NumPy arrays and nothing else; other content is refused.
"""

from __future__ import annotations

import json
import pickle
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..core.errors import DataError
from .base import Dataset, Split
from .loader import Loader

_RECONSTRUCT = np.empty(0).__reduce__()[0]
_SCALAR = np.float64(0).__reduce__()[0]
_SAFE: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy.core.multiarray", "scalar"): _SCALAR,
    ("numpy._core.multiarray", "scalar"): _SCALAR,
}


class _ArrayUnpickler(pickle.Unpickler):
    """Knows NumPy arrays only."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _SAFE:
            raise pickle.UnpicklingError(f"it holds {module}.{name}, and only NumPy arrays are read")
        return _SAFE[module, name]


def read_clients(folder: Path, part: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """(x, y) of each client in DIR/train or DIR/test, in the order of their numbers."""
    files = sorted((folder / part).glob("*.npz"), key=lambda f: (len(f.stem), f.stem))
    if not files:
        raise DataError(f"pfllib: {folder / part} has no .npz files; expected {part}/0.npz and so on")
    wanted = [f"{number}.npz" for number in range(len(files))]
    if (names := [f.name for f in files]) != wanted:
        odd = next(n for n, w in zip(names, wanted) if n != w)
        raise DataError(f"pfllib: {folder / part} holds {odd}; expected 0.npz to {len(files) - 1}.npz")
    return [_read(f) for f in files]


def write_split(dataset: Dataset, split: Split, folder: Path) -> None:
    """Write every client's normalised arrays, and the counts that PFLlib's tools print."""
    loader = Loader(dataset, split)
    parts: dict[str, Callable[[int], Any]] = {"train": loader.train, "test": loader.test}
    for part, tensors in parts.items():
        (folder / part).mkdir(parents=True, exist_ok=True)
        for old in (folder / part).glob("*.npz"):  # of an earlier split with more clients
            old.unlink()
        for client in range(split.clients):
            x, y = tensors(client)
            data = np.array({"x": x.numpy(), "y": y.numpy()}, dtype=object)
            np.savez_compressed(folder / part / f"{client}.npz", data=data)
    config = {"num_clients": split.clients, "num_classes": dataset.num_classes}
    (folder / "config.json").write_text(json.dumps(config))


def _read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    try:
        with zipfile.ZipFile(path) as archive, archive.open("data.npy") as stream:
            data = _read_pickled(stream)
        x, y = np.asarray(data["x"]), np.asarray(data["y"])
    except (OSError, KeyError, ValueError, TypeError, IndexError, EOFError, AttributeError) as error:
        raise DataError(f"{path}: is not a PFLlib file ({error}); expected data = {{x, y}}") from error
    except (zipfile.BadZipFile, zlib.error, pickle.UnpicklingError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error
    if len(x) != len(y):
        raise DataError(f"{path}: x has {len(x)} rows, y has {len(y)}; they must be equal")
    return x, y


def _read_pickled(stream: IO[bytes]) -> Any:
    version = np.lib.format.read_magic(stream)
    header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    header[version](stream)
    return _ArrayUnpickler(stream).load().item()
