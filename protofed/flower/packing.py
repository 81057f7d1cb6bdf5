"""Named tensors as one buffer of bytes in the safetensors format.

Flower frames each array of a message on its own, with some hundred bytes and two identifiers, so a whole
upload travels in one buffer. Uploads may lose precision on purpose:

fp16    floats as IEEE half precision, unless a value exceeds its range
int8    q = round(x / s) with s = max|row| / 127 for each row of a matrix, the scales in an array of their
        own; vectors, and matrices whose rows are too short to gain from it, as fp16

The buffer says itself what is in it; beside it travel the codes, {name: [code, dtype before]}, of what lost
precision. The header costs some 35 bytes an array more than a layout of our own did: on the wire, ten
prototypes of 512 numbers are 98 of 21,600 bytes more, and 186 of 6,400 in int8. For that, the format is
public, and its reader checks offsets and sizes. Nothing here can run code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from ..core.errors import MessageError
from ..core.record import Tree
from ..engines.store import for_file

WIDE = {"float32": torch.float32, "float64": torch.float64}  # what may be sent in fewer bits
DTYPES = (
    *WIDE.values(),
    torch.float16,
    torch.bfloat16,
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
)
HALF_MAX = 65504.0
SHORT_ROW = 4  # numbers: with its scale of four bytes such a row is no smaller in int8 than in fp16
SCALE = "*"  # behind the name of an int8 array: the scales of its rows


def pack(arrays: Mapping[str, Tensor], precision: str = "full") -> tuple[bytes, str]:
    """(buffer, codes)."""
    sent: Tree = {}
    codes: dict[str, list[str]] = {}
    for name, tensor in for_file(arrays).items():
        code = _code(tensor, precision)
        if code is not None:
            codes[name] = [code, str(tensor.dtype).removeprefix("torch.")]
        if code == "int8":
            sent[name], sent[name + SCALE] = _steps(tensor)
        else:
            sent[name] = tensor.to(torch.float16) if code == "fp16" else tensor
    return safetensors.torch.save(sent), json.dumps(codes, separators=(",", ":"))


def unpack(buffer: bytes, codes: str) -> Tree:
    """Inverse of `pack`; MessageError unless buffer and codes fit each other exactly."""
    try:
        arrays: Tree = dict(safetensors.torch.load(buffer))
    except (SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise MessageError(f"message: the buffer is damaged ({error})") from error
    for name, tensor in arrays.items():
        if tensor.dtype not in DTYPES:
            raise MessageError(f"message: array {name!r} has the type {tensor.dtype}; expected numbers")
    for name, (code, dtype) in _entries(codes).items():
        sent, scale = _coded(arrays, name, code)
        arrays[name] = (sent if scale is None else _values(sent, scale)).to(WIDE[dtype])
    return arrays


def _entries(codes: str) -> dict[str, tuple[str, str]]:
    try:
        entries = json.loads(codes)
        for name, (code, dtype) in entries.items():
            if code not in ("fp16", "int8") or dtype not in WIDE:
                raise ValueError(f"entry {name!r}")
    except (ValueError, TypeError, AttributeError) as error:
        raise MessageError(f"message: the codes are damaged ({error})") from error
    return entries  # type: ignore[no-any-return]


def _coded(arrays: Tree, name: str, code: str) -> tuple[Tensor, Tensor | None]:
    """What was sent for an array, and its scales, which are taken out."""
    sent = arrays.get(name)
    scale = arrays.pop(name + SCALE, None) if code == "int8" else None
    wanted = torch.float16 if code == "fp16" else torch.int8
    if sent is None or sent.dtype != wanted:
        raise MessageError(f"message: array {name!r} is not there as {code}")
    if code == "int8" and (scale is None or scale.dtype != torch.float32 or scale.shape != sent.shape[:1]):
        raise MessageError(f"message: array {name!r} came without a scale for each of its rows")
    return sent, scale


def _code(tensor: Tensor, precision: str) -> str | None:
    wide = tensor.dtype in WIDE.values()
    if precision == "full" or not wide or not tensor.numel() or not torch.isfinite(tensor).all():
        return None
    if precision == "int8" and tensor.ndim >= 2 and tensor.numel() > SHORT_ROW * len(tensor):
        return "int8"
    return "fp16" if float(tensor.abs().max()) <= HALF_MAX else None


def _steps(tensor: Tensor) -> tuple[Tensor, Tensor]:
    rows = tensor.to(torch.float32).flatten(1)
    scale = rows.abs().amax(1) / 127
    steps = rows / torch.where(scale > 0, scale, 1.0)[:, None]
    return steps.round().clamp(-127, 127).to(torch.int8).reshape(tensor.shape), scale


def _values(steps: Tensor, scale: Tensor) -> Tensor:
    return (steps.flatten(1).to(torch.float32) * scale[:, None]).reshape(steps.shape)
