"""Splits in PFLlib's layout: DIR/train/0.npz, DIR/test/0.npz, … and DIR/config.json.

Zhang et al., *PFLlib*, arxiv.org/abs/2312.04992 (HtFLlib uses the same). Each file holds one pickled
dict {"x": array, "y": array} under the key `data`. A pickle may run any code, so it is read with an
unpickler that knows descriptions of NumPy arrays and nothing else; other content is refused.
"""

from __future__ import annotations

import io
import json
import pickle
import pickletools
import re
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..core.bounded_files import check_member, open_archive, opening, read_header
from ..core.errors import DataError
from .base import Dataset, Split
from .loader import Loader

_NUMBERS = re.compile(r"[biuf](1|2|4|8)|O8?")  # types of arrays as pickles name them
_PLACES = ("PUT", "BINPUT", "LONG_BINPUT")  # opcodes that make the reader's list of places so long


class _Dtype:
    """Stands for numpy.dtype: holds what the pickle says, and lets NumPy see it when it is checked. (NumPy's
    own way trusts a pickle: a damaged one ends the process.)"""

    def __init__(self, code: Any, *_: Any):
        if not isinstance(code, str) or not _NUMBERS.fullmatch(code):
            raise pickle.UnpicklingError(f"an array of type {str(code)[:20]!r}")
        self.code, self.order = code, "|"

    def __setstate__(self, state: Any) -> None:
        if state[1] not in ("<", ">", "|", "="):
            raise pickle.UnpicklingError("a type of unknown byte order")
        self.order = state[1]

    @property
    def made(self) -> np.dtype:
        return np.dtype(self.order + self.code)


class _Array:
    """Stands for an array, which is made of checked parts when it is asked for."""

    def __init__(self, *_: Any):
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    @property
    def made(self) -> Any:
        _, shape, dtype, fortran, raw = self.state
        if not isinstance(dtype, _Dtype) or not all(type(size) is int and size >= 0 for size in shape):
            raise pickle.UnpicklingError("an array without type or shape")
        if dtype.code.startswith("O"):  # the outermost: one object
            if shape != () or not isinstance(raw, list) or len(raw) != 1:
                raise pickle.UnpicklingError("an array of objects")
            return raw[0]
        return np.frombuffer(raw, dtype.made).reshape(shape, order="F" if fortran else "C")


_SAFE: dict[tuple[str, str], Any] = {("numpy", "ndarray"): _Array, ("numpy", "dtype"): _Dtype}
_SAFE |= {(f"numpy.{core}.multiarray", "_reconstruct"): _Array for core in ("core", "_core")}


class _ArrayUnpickler(pickle.Unpickler):
    """Knows arrays of numbers only, as descriptions."""

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
        x, y = (np.asarray(one.made if isinstance(one, _Array) else one) for one in (data["x"], data["y"]))
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
    return _ArrayUnpickler(io.BytesIO(data)).load().made
