"""Messages of secure sums: what the protocol's functions take and give, as the text of a packet.

A packet of kind "secure" names its step (keys, shares, open) and the sum; "content" is JSON, bytes in base64.
A training packet of a secure run has the others' shares and the layout as its content; its reply is the
masked vector. Both sides read with bounds.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..core.errors import MessageError
from ..core.outside import Fields, read_json
from ..trust.secure_client import Keys, Opened
from ..trust.secure_crypto import KEY, KEY_SHARE, SEED_SHARE, WORDS
from ..trust.secure_layout import Shapes
from .packet import Meta

SECURE, CONTENT, MASKED = "secure", "content", "masked"
STEPS = ("keys", "shares", "open")
LONGEST = 50_000_000  # characters
MOST_CLIENTS, MOST_BLOCKS, MOST_PARTS, MOST_AXES = 10_000, 100_001, 100_000, 16
SIGNATURE = 200  # bytes at most
ATTEMPTS = 10**9


class Moment(NamedTuple):
    """Which sum a message belongs to; later ones are larger, whatever run of the server asks."""

    session: int
    attempt: int
    tag: str

    def sum_id(self, experiment: str) -> bytes:
        """As keys, masks and signatures are bound to it."""
        return f"{experiment}|{self.session}|{self.attempt}|{self.tag}".encode()


def moment_of(meta: Meta) -> Moment:
    """The sum that a packet names."""
    values = Fields(meta, "secure sum")
    return Moment(values.whole("session"), values.whole("attempt", 1, ATTEMPTS), values.text("tag"))


def content(value: Any) -> str:
    """JSON without spaces."""
    return json.dumps(value, separators=(",", ":"))


def read_content(meta: Meta, where: str) -> Fields:
    """The named values of a packet's content."""
    return Fields(read_json(Fields(meta, where).any(CONTENT), where, LONGEST), where)


def write_keys(keys: Mapping[int, Keys]) -> dict[str, list[str]]:
    """Keys and signatures by client."""
    return {str(client): [_text(part) for part in one] for client, one in keys.items()}


def read_keys(values: Fields) -> dict[int, Keys]:
    """Inverse of `write_keys`."""
    found = {}
    for name in _clients(values):
        parts = [_bytes(text, values.where, SIGNATURE) for text in values.texts(name, 3)]
        if len(parts) != 3 or len(parts[0]) != KEY or len(parts[1]) != KEY:
            raise MessageError(f"{values.where}: damaged (keys of client {name})")
        found[int(name)] = Keys(*parts)
    return found


def write_texts(texts: Mapping[int, bytes]) -> dict[str, str]:
    """Bytes by client."""
    return {str(client): _text(one) for client, one in texts.items()}


def read_texts(values: Fields, most: int) -> dict[int, bytes]:
    """Inverse of `write_texts`; at most so many bytes each."""
    return {int(n): _bytes(values.text(n, 2 * most + 8), values.where, most) for n in _clients(values)}


def sealed_size(blocks: int) -> int:
    """Bytes of what one client has for another: nonce, shares, and the mark that nothing was changed."""
    return 12 + KEY_SHARE + SEED_SHARE * blocks + 16


def write_opened(opened: Opened, blocks: Sequence[int]) -> dict[str, Any]:
    """Shares by client, those of its blocks one after the other."""
    clients = sorted({client for client, _ in opened.seeds})
    seeds = {client: b"".join(opened.seeds[client, block] for block in blocks) for client in clients}
    return {"seeds": write_texts(seeds), "keys": write_texts(opened.keys)}


def read_opened(
    values: Fields, survivors: Sequence[int], lost: Sequence[int], blocks: Sequence[int]
) -> Opened:
    """Inverse of `write_opened`: the shares of exactly these clients."""
    seeds = read_texts(values.named("seeds", MOST_CLIENTS), SEED_SHARE * len(blocks))
    keys = read_texts(values.named("keys", MOST_CLIENTS), KEY_SHARE)
    sizes = {len(text) for text in seeds.values()} | {SEED_SHARE * len(blocks)}
    if seeds.keys() != set(survivors) or keys.keys() != set(lost) or len(sizes) > 1:
        raise MessageError(f"{values.where}: shares of other clients or blocks than were asked for")
    if any(len(text) != KEY_SHARE for text in keys.values()):
        raise MessageError(f"{values.where}: damaged (shares of keys)")
    cut = {
        (client, block): text[SEED_SHARE * i : SEED_SHARE * (i + 1)]
        for client, text in seeds.items()
        for i, block in enumerate(blocks)
    }
    return Opened(cut, keys)


def write_shapes(shapes: Shapes) -> dict[str, Any]:
    """Kind and shape by name."""
    return {name: [int(whole), *shape] for name, (whole, shape) in shapes.items()}


def read_shapes(values: Fields) -> Shapes:
    """Inverse of `write_shapes`."""
    found: Shapes = {}
    for name in values.values:
        whole, *shape = values.wholes(name, MOST_AXES) or (0,)
        found[name] = (bool(whole), tuple(shape))
    return found


def read_bits(values: Fields) -> int:
    """Of a word."""
    bits = values.whole("bits")
    if bits not in WORDS:
        raise MessageError(f"{values.where}: words of {bits} bits; expected {' or '.join(map(str, WORDS))}")
    return bits


def _clients(values: Fields) -> list[str]:
    if len(values.values) > MOST_CLIENTS or not all(
        n.isascii() and n.isdecimal() and len(n) < 8 for n in values.values
    ):
        raise MessageError(f"{values.where}: damaged (numbers of clients)")
    return list(values.values)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str, where: str, most: int) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise MessageError(f"{where}: damaged (no base64)") from error
    if len(data) > most:
        raise MessageError(f"{where}: {len(data):,} bytes; expected at most {most:,}")
    return data
