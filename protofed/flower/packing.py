"""Named tensors as one buffer of bytes, and a layout that tells them apart.

Flower frames each array of a message on its own, with some hundred bytes and two identifiers, so a whole
upload travels in one buffer: the tensors one after the other, little-endian. Uploads may lose precision on
purpose:

fp16    floats as IEEE half precision, unless a value exceeds its range
int8    q = round(x / s) with s = max|row| / 127 for each row of a matrix; vectors, and matrices whose rows
        are too short to gain from it, as fp16

Nothing here can run code: a layout is JSON, the buffer is numbers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

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
CODES = ("plain", "fp16", "int8")
HALF_MAX = 65504.0
SHORT_ROW = 4  # numbers: with its scale of four bytes such a row is no smaller in int8 than in fp16
LARGEST = 2**31  # elements of one array


def pack(arrays: Mapping[str, Tensor], precision: str = "full") -> tuple[bytes, str]:
    """(buffer, layout). `layout` lists [name, dtype, shape, code]."""
    parts: list[bytes] = []
    layout = []
    for name, tensor in arrays.items():
        tensor = tensor.detach().cpu().contiguous()
        code = _code(tensor, precision)
        layout.append([name, str(tensor.dtype).removeprefix("torch."), list(tensor.shape), code])
        parts += [_little(column).tobytes() for column in _encode(tensor, code)]
    return b"".join(parts), json.dumps(layout, separators=(",", ":"))


def unpack(buffer: bytes, layout: str) -> Tree:
    """Inverse of `pack`; MessageError unless layout and buffer fit each other exactly."""
    reader = _Reader(buffer)
    arrays: Tree = {}
    for name, dtype, shape, code in _entries(layout):
        if name in arrays:
            raise MessageError(f"message: array {name!r} is listed twice")
        arrays[name] = _decode(reader, DTYPES[dtype], shape, code)
    if reader.position != len(buffer):
        raise MessageError(f"message: {len(buffer)} bytes were sent, {reader.position} are in the layout")
    return arrays


class _Reader:
    """Takes numbers from the front of the buffer."""

    def __init__(self, buffer: bytes):
        self.buffer = buffer
        self.position = 0

    def take(self, dtype: str, count: int) -> Tensor:
        kind = np.dtype(dtype).newbyteorder("<")
        end = self.position + count * kind.itemsize
        if end > len(self.buffer):
            raise MessageError(f"message: the layout asks for {end} bytes, {len(self.buffer)} were sent")
        column = np.frombuffer(self.buffer, kind, count, self.position)
        self.position = end
        return torch.from_numpy(column.astype(dtype))  # a copy of its own, in the order of this machine


def _little(column: np.ndarray) -> np.ndarray:
    return column.astype(column.dtype.newbyteorder("<"), copy=False)


def _entries(layout: str) -> list[tuple[str, str, list[int], str]]:
    try:
        entries = json.loads(layout)
        for name, dtype, shape, code in entries:
            sound = isinstance(name, str) and dtype in DTYPES and code in CODES
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
    if precision == "int8" and tensor.ndim >= 2 and tensor.numel() > SHORT_ROW * len(tensor):
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
        return reader.take("float16", count).to(dtype).reshape(shape)
    if code == "int8":
        steps, scale = reader.take("int8", count), reader.take("float32", shape[0] if shape else 1)
        if not count:
            return torch.zeros(shape, dtype=dtype)
        return (steps.reshape(len(scale), -1).to(torch.float32) * scale[:, None]).to(dtype).reshape(shape)
    if dtype == torch.bfloat16:
        return reader.take("int16", count).view(torch.bfloat16).reshape(shape)
    return reader.take(str(dtype).removeprefix("torch."), count).reshape(shape)
