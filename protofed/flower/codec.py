"""Packets as Flower records: one ArrayRecord with one packed array, one ConfigRecord of meta data.

Flower frames each array of a message on its own, with some hundred bytes and two identifiers, so all tensors
travel in one array, a buffer in the safetensors format; it says what it is (`stype`), so nobody reads it as a
NumPy file. Uploads may lose precision on purpose:

fp16    floats as IEEE half precision, unless a value exceeds its range
int8    q = round(x / s) with s = max|row| / 127 for each row of a matrix, the scales in an array of their
        own; vectors, and matrices whose rows are too short to gain from it, as fp16

The buffer says itself what is in it; beside it travel the codes, {name: [code, dtype before]}, of what lost
precision. The header costs some 35 bytes an array more than a layout of our own did: on the wire, ten
prototypes of 512 numbers are 98 of 21,600 bytes more, and 186 of 6,400 in int8. For that, the format is
public, and its reader checks offsets and sizes, after ours (core/outside.py) has looked at the header.
Nothing here can run code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from torch import Tensor

from ..core.errors import MessageError
from ..core.outside import HEADER, TEXT, Fields, read_json, read_tensors, shown
from ..core.record import Tree
from ..core.tensor_file import plain, to_bytes
from .packet import SCHEMA, Meta, Packet

META, ARRAYS, CODES = "meta", "arrays", "codes"
BUFFER, SERIAL = "buffer", "safetensors"
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
MOST_META = 50  # named values of a message
SHORT_ROW = 4  # numbers: with its scale of four bytes such a row is no smaller in int8 than in fp16
SCALE = "*"  # behind the name of an int8 array: the scales of its rows


def arrays_of(packet: Packet) -> tuple[ArrayRecord, str]:
    """The packed array and its codes, to be shared by packets with the same tensors."""
    if not packet.arrays:
        return ArrayRecord({}), ""
    buffer, codes = pack(packet.arrays, packet.precision)
    return ArrayRecord({BUFFER: Array("uint8", (len(buffer),), SERIAL, buffer)}), codes


def encode(packet: Packet, packed: tuple[ArrayRecord, str] | None = None) -> RecordDict:
    """The content of a Flower message; `packed` is what `arrays_of` gave, if it was made before."""
    record, codes = packed or arrays_of(packet)
    meta = ConfigRecord({**packet.meta, "schema": SCHEMA, CODES: codes})
    return RecordDict({ARRAYS: record, META: meta})


def decode(content: RecordDict) -> Packet:
    """Inverse of `encode`; a message that is not ours raises MessageError."""
    records, arrays = content.config_records, content.array_records
    if META not in records or ARRAYS not in arrays:
        got = ", ".join(shown(name) for name in sorted(content)[:4])
        raise MessageError(f"message: expected the records {META!r} and {ARRAYS!r}, got {got}")
    if len(records[META]) > MOST_META or any(len(key) > TEXT for key in records[META]):
        raise MessageError(f"message: {len(records[META]):,} named values; expected at most {MOST_META}")
    meta = cast(Meta, dict(records[META]))
    if meta.get("schema") != SCHEMA:
        other = shown(meta.get("schema"))
        raise MessageError(
            f"message: it has schema {other}, this side has {SCHEMA}; install the same version of protofed "
            "at the server and at all clients"
        )
    buffer, codes = _buffer(arrays[ARRAYS]), str(meta.pop(CODES, ""))
    tensors = unpack(buffer, codes) if buffer or codes else {}
    return Packet(meta, tensors, wire_bytes=size(content))


def _buffer(record: ArrayRecord) -> bytes:
    others = sorted(record.keys() - {BUFFER})
    if others:
        raise MessageError(f"message: unexpected array {shown(others[0])}; expected {BUFFER!r} alone")
    array = record.get(BUFFER)
    if array is not None and array.stype != SERIAL:
        raise MessageError(f"message: the array is of kind {shown(array.stype)}; expected {SERIAL!r}")
    return b"" if array is None else array.data


def size(content: RecordDict) -> int:
    """Serialised bytes of a message's content, without HTTP and TLS around it."""
    return sum(len(part.deflate()) for part in get_all_nested_objects(content).values())


# tensors


def pack(arrays: Mapping[str, Tensor], precision: str = "full") -> tuple[bytes, str]:
    """(buffer, codes)."""
    sent: Tree = {}
    codes: dict[str, list[str]] = {}
    for name, tensor in plain(arrays).items():
        code = _code(tensor, precision)
        if code is not None:
            codes[name] = [code, str(tensor.dtype).removeprefix("torch.")]
        if code == "int8":
            sent[name], sent[name + SCALE] = _steps(tensor)
        else:
            sent[name] = tensor.to(torch.float16) if code == "fp16" else tensor
    return to_bytes(sent), json.dumps(codes, separators=(",", ":"))


def unpack(buffer: bytes, codes: str) -> Tree:
    """Inverse of `pack`; MessageError unless buffer and codes fit each other exactly."""
    arrays = read_tensors(buffer, "message")
    for name, tensor in arrays.items():
        if tensor.dtype not in DTYPES:
            raise MessageError(f"message: array {shown(name)} has the type {tensor.dtype}; expected numbers")
    for name, (code, dtype) in _entries(codes).items():
        sent, scale = _coded(arrays, name, code)
        arrays[name] = (sent if scale is None else _values(sent, scale)).to(WIDE[dtype])
    return arrays


def _entries(codes: str) -> dict[str, tuple[str, str]]:
    where = "message: the codes"
    entries = Fields(read_json(codes, where, HEADER, depth=2), where)
    found = {}
    for name in entries.values:
        pair = entries.texts(name, 2)
        if len(pair) != 2 or pair[0] not in ("fp16", "int8") or pair[1] not in WIDE:
            raise MessageError(f"{where}: damaged (entry {shown(name)})")
        found[name] = (pair[0], pair[1])
    return found


def _coded(arrays: Tree, name: str, code: str) -> tuple[Tensor, Tensor | None]:
    """What was sent for an array, and its scales, which are taken out."""
    sent = arrays.get(name)
    scale = arrays.pop(name + SCALE, None) if code == "int8" else None
    wanted = torch.float16 if code == "fp16" else torch.int8
    if sent is None or sent.dtype != wanted:
        raise MessageError(f"message: array {shown(name)} is not there as {code}")
    if code == "int8" and (scale is None or scale.dtype != torch.float32 or scale.shape != sent.shape[:1]):
        raise MessageError(f"message: array {shown(name)} came without a scale for each of its rows")
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
