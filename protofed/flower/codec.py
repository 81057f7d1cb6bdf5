"""Packets as Flower records: one ArrayRecord of packed arrays, one ConfigRecord of meta data."""

from __future__ import annotations

from typing import cast

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

from ..core.errors import MessageError
from .packet import SCHEMA, Meta, Packet
from .packing import pack, unpack

META, ARRAYS, LAYOUT = "meta", "arrays", "layout"


def arrays_of(packet: Packet) -> tuple[ArrayRecord, str]:
    """The packed arrays and their layout, to be shared by packets with the same tensors."""
    stored, layout = pack(packet.arrays, packet.precision)
    return ArrayRecord({dtype: Array(column) for dtype, column in stored.items()}), layout


def encode(packet: Packet, packed: tuple[ArrayRecord, str] | None = None) -> RecordDict:
    record, layout = packed or arrays_of(packet)
    meta = ConfigRecord({**packet.meta, "schema": SCHEMA, LAYOUT: layout})
    return RecordDict({ARRAYS: record, META: meta})


def decode(content: RecordDict) -> Packet:
    """Inverse of `encode`; a message that is not ours raises MessageError."""
    records, arrays = content.config_records, content.array_records
    if META not in records or ARRAYS not in arrays:
        raise MessageError(f"message: expected the records {META!r} and {ARRAYS!r}, got {sorted(content)}")
    meta = cast(Meta, dict(records[META]))
    if meta.get("schema") != SCHEMA:
        raise MessageError(f"message: schema {meta.get('schema')}, expected {SCHEMA}; install one version")
    try:
        stored = {name: array.numpy() for name, array in arrays[ARRAYS].items()}
    except (ValueError, TypeError, EOFError, OSError) as error:
        raise MessageError(f"message: an array cannot be read ({error})") from error
    tensors = unpack(stored, str(meta.pop(LAYOUT, "[]")))
    return Packet(meta, tensors, wire_bytes=size(content))


def size(content: RecordDict) -> int:
    """Serialised bytes of a message's content, without HTTP and TLS around it."""
    return sum(len(part.deflate()) for part in get_all_nested_objects(content).values())
