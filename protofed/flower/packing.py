"""Named tensors as few flat arrays: one array per stored dtype, and a layout that tells them apart.

Flower pays about 4 kB for each array of a message, so the ten prototypes of a FedProto upload travel in
one array. Uploads may lose precision on purpose:

fp16    floats as IEEE half precision, unless a value exceeds its range
int8    q = round(x / s) with s = max|row| / 127 for each row of a matrix; vectors as fp16

Nothing here can run code: a layout is JSON, an array is a NumPy buffer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core.errors import MessageError
from ..core.record import Tree

DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
    )
}
HALF_MAX = 65504.0
LARGEST = 2**31  # elements of one array


def pack(arrays: Mapping[str, Tensor], precision: str = "full") -> tuple[dict[str, np.ndarray], str]:
    """(stored arrays by dtype, layout). `layout` lists [name, dtype, shape, code]."""
    columns: dict[str, list[np.ndarray]] = {}
    layout = []
    for name, tensor in arrays.items():
        tensor = tensor.detach().cpu().contiguous()
        code = _code(tensor, precision)
        layout.append([name, str(tensor.dtype).removeprefix("torch."), list(tensor.shape), code])
        for part in _encode(tensor, code):
            columns.setdefault(str(part.dtype), []).append(part.reshape(-1))
    return {dtype: np.concatenate(parts) for dtype, parts in columns.items()}, json.dumps(layout)


def unpack(stored: Mapping[str, np.ndarray], layout: str) -> Tree:
    """Inverse of `pack`; MessageError unless layout and arrays fit each other exactly."""
    reader = _Reader(stored)
    arrays: Tree = {}
    for entry in _entries(layout):
        name, dtype, shape, code = entry
        if name in arrays:
            raise MessageError(f"message: array {name!r} is listed twice")
        arrays[name] = _decode(reader, DTYPES[dtype], shape, code)
    reader.end()
    return arrays


class _Reader:
    """Takes pieces from the front of each stored array."""

    def __init__(self, stored: Mapping[str, np.ndarray]):
        self.stored = stored
        self.position = dict.fromkeys(stored, 0)

    def take(self, dtype: str, count: int) -> np.ndarray:
        start = self.position.get(dtype, 0)
        column = self.stored.get(dtype)
        if column is None or column.ndim != 1 or str(column.dtype) != dtype or len(column) < start + count:
            raise MessageError(f"message: the layout asks for more {dtype} numbers than were sent")
        self.position[dtype] = start + count
        return column[start : start + count]

    def end(self) -> None:
        for dtype, column in self.stored.items():
            if self.position[dtype] != column.size:
                raise MessageError(
                    f"message: {column.size} numbers of {dtype}, {self.position[dtype]} in the layout"
                )


def _entries(layout: str) -> list[tuple[str, str, list[int], str]]:
    try:
        entries = json.loads(layout)
        for name, dtype, shape, code in entries:
            sound = isinstance(name, str) and dtype in DTYPES and code in ("plain", "fp16", "int8")
            sound = sound and all(type(size) is int and size >= 0 for size in shape)
            if not sound or math.prod(shape) > LARGEST:
                raise ValueError(f"entry {name!r}")
    except (ValueError, TypeError) as error:
        raise MessageError(f"message: the layout is damaged ({error})") from error
    return entries  # type: ignore[no-any-return]


def _code(tensor: Tensor, precision: str) -> str:
    wide = tensor.dtype in (torch.float32, torch.float64)
    if precision == "full" or not wide or not tensor.numel() or not torch.isfinite(tensor).all():
        return "plain"
    if precision == "int8" and tensor.ndim >= 2:
        return "int8"
    return "fp16" if float(tensor.abs().max()) <= HALF_MAX else "plain"


def _encode(tensor: Tensor, code: str) -> list[np.ndarray]:
    if code == "fp16":
        return [tensor.to(torch.float16).numpy()]
    if code == "int8":
        rows = tensor.to(torch.float32).reshape(len(tensor), -1)
        scale = rows.abs().amax(1) / 127
        steps = rows / torch.where(scale > 0, scale, 1.0)[:, None]
        return [steps.round().clamp(-127, 127).to(torch.int8).numpy(), scale.numpy()]
    if tensor.dtype == torch.bfloat16:  # NumPy has none
        return [tensor.view(torch.int16).numpy()]
    return [tensor.numpy()]


def _decode(reader: _Reader, dtype: torch.dtype, shape: list[int], code: str) -> Tensor:
    count = math.prod(shape)
    if code == "fp16":
        return _tensor(reader.take("float16", count)).to(dtype).reshape(shape)
    if code == "int8":
        steps = _tensor(reader.take("int8", count))
        scale = _tensor(reader.take("float32", shape[0] if shape else 1))
        return (steps.reshape(len(scale), -1).to(torch.float32) * scale[:, None]).to(dtype).reshape(shape)
    if dtype == torch.bfloat16:
        return _tensor(reader.take("int16", count)).view(torch.bfloat16).reshape(shape)
    name: Any = str(dtype).removeprefix("torch.")
    return _tensor(reader.take(name, count)).reshape(shape)


def _tensor(column: np.ndarray) -> Tensor:
    return torch.from_numpy(column.copy())
