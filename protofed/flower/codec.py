"""Packets as Flower records: one ArrayRecord with one packed array, one ConfigRecord of meta data.

The array says what it is (`stype`), so nobody reads it as a NumPy file; its bytes are the buffer."""

from __future__ import annotations

from typing import cast

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

from ..core.errors import MessageError
from .packet import SCHEMA, Meta, Packet
from .packing import pack, unpack

META, ARRAYS, CODES = "meta", "arrays", "codes"
BUFFER, SERIAL = "buffer", "safetensors"


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
        raise MessageError(f"message: expected the records {META!r} and {ARRAYS!r}, got {sorted(content)}")
    meta = cast(Meta, dict(records[META]))
    if meta.get("schema") != SCHEMA:
        raise MessageError(
            f"message: it has schema {meta.get('schema')}, this side has {SCHEMA}; install the same version "
            "of protofed at the server and at all clients"
        )
    buffer, codes = _buffer(arrays[ARRAYS]), str(meta.pop(CODES, ""))
    tensors = unpack(buffer, codes) if buffer or codes else {}
    return Packet(meta, tensors, wire_bytes=size(content))


def _buffer(record: ArrayRecord) -> bytes:
    others = sorted(record.keys() - {BUFFER})
    if others:
        raise MessageError(f"message: unexpected array {others[0]!r}; expected {BUFFER!r} alone")
    array = record.get(BUFFER)
    if array is not None and array.stype != SERIAL:
        raise MessageError(f"message: the array is of kind {array.stype!r}; expected {SERIAL!r}")
    return b"" if array is None else array.data


def size(content: RecordDict) -> int:
    """Serialised bytes of a message's content, without HTTP and TLS around it."""
    return sum(len(part.deflate()) for part in get_all_nested_objects(content).values())
