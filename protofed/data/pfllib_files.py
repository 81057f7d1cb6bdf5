"""Splits in PFLlib's layout: DIR/train/0.npz, DIR/test/0.npz, … and DIR/config.json.

Zhang et al., *PFLlib*, arxiv.org/abs/2312.04992 (HtFLlib uses the same). Each file holds one pickled
dict {"x": array, "y": array} under the key `data`. A pickle may run any code, so it is read with an
unpickler that knows NumPy arrays and nothing else; other content is refused.
"""

from __future__ import annotations

import io
import json
import pickle
import pickletools
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..core.bounded_files import check_member, open_archive, opening, read_header
from ..core.errors import DataError
from .base import Dataset, Split
from .loader import Loader

_RECONSTRUCT: Any = np.empty(0).__reduce__()[0]
_SCALAR: Any = np.float64(0).__reduce__()[0]
_ARRAY = object()  # stands for the class in the pickle: nobody can call it


def _reconstruct(kind: Any, shape: Any, code: Any) -> Any:
    """As pickles of arrays begin: an empty one, whose content follows. Any other shape would be allocated."""
    if kind is not _ARRAY or shape != (0,):
        raise pickle.UnpicklingError(f"an array that begins with shape {str(shape)[:50]}")
    return _RECONSTRUCT(np.ndarray, (0,), b"b")


_SAFE: dict[tuple[str, str], Any] = {("numpy", "ndarray"): _ARRAY, ("numpy", "dtype"): np.dtype}
_SAFE |= {(f"numpy.{core}.multiarray", "_reconstruct"): _reconstruct for core in ("core", "_core")}
_SAFE |= {(f"numpy.{core}.multiarray", "scalar"): _SCALAR for core in ("core", "_core")}
_PLACES = ("PUT", "BINPUT", "LONG_BINPUT")  # opcodes that make the reader's list of places so long


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
    with opening(path, "a PFLlib file (data = {x, y})"):
        with open_archive(path) as archive:
            member = check_member(archive.getinfo("data.npy"), path)
            with archive.open(member) as stream:
                data = _read_pickled(stream, str(path))
        x, y = np.asarray(data["x"]), np.asarray(data["y"])
    for name, array in (("x", x), ("y", y)):
        if array.dtype.kind not in "biuf" or array.ndim == 0:
            raise DataError(
                f"{path}: {name} holds {array.dtype} of shape {array.shape}; expected rows of numbers"
            )
    if len(x) != len(y):
        raise DataError(f"{path}: x has {len(x)} rows, y has {len(y)}; they must be equal")
    return x, y


def _read_pickled(stream: IO[bytes], where: str) -> Any:
    read_header(stream, where, objects=True)
    data = stream.read()
    for number, (opcode, argument, _) in enumerate(pickletools.genops(data)):
        if opcode.name in _PLACES and int(argument or 0) > number:
            raise pickle.UnpicklingError("places that no writer makes")
    return _ArrayUnpickler(io.BytesIO(data)).load().item()
