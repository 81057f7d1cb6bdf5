"""Changes to what is sound: values inside nested structures, and bytes. All from one `random.Random`."""

from __future__ import annotations

import copy
import json
import math
import random
from typing import Any

DEEP: Any = []
for _ in range(60):
    DEEP = [DEEP]
ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 255, 256, 2**31, 2**63 - 1, 2**63, 10**14, 10**18, -(10**18), 10**400,
    0.0, -0.0, 0.5, 1e30, -1e30, 1e308, 3e38, math.inf, -math.inf, math.nan,
    "", "0", "-1", "x", "nan", "1e999", "x" * 3000, "\x1b[31m", "[bold]", "\u202e", "\ud800", "\0", "=1+1",
    "..", "../../etc/passwd", "3.0", "999999999.0", "1.99", [], {}, [0], [[]], {"": 0}, {"a": {"b": {}}},
    DEEP, [1] * 2000, {str(number): number for number in range(200)},
)  # fmt: skip
WORDS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 2**43, 2**63 - 1, 2**64 - 1)
JSON_BITS = (
    b"[" * 5000,
    b'{"a":' * 2000,
    b"1e999",
    b"Infinity",
    b"NaN",
    b"null",
    b"-",
    b'"',
    b"\\",
    b"}",
    b"]",
)


def changed(value: Any, rng: random.Random) -> Any:
    """A copy with one to three values replaced, removed, doubled or moved."""
    found = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        found = _once(found, rng)
    return found


def _once(value: Any, rng: random.Random) -> Any:
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        what = rng.random()
        if what < 0.1:
            del value[key]
        elif what < 0.2:
            value[rng.choice(("", "x", key + "x", "x" * 2000, "__class__", "\x1b[2J"))] = odd(rng)
        else:
            value[key] = _once(value[key], rng)
        return value
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = rng.randrange(len(value))
        what = rng.random()
        if what < 0.15:
            del value[at]
        elif what < 0.3:
            value.insert(at, odd(rng))
        elif what < 0.4:
            value.extend(value[:200])
        else:
            value[at] = _once(value[at], rng)
        return value
    if isinstance(value, int) and not isinstance(value, bool) and rng.random() < 0.3:
        return value + rng.choice((-1, 1, -value, value, 2**31, 2**63, 10**12))
    if isinstance(value, str) and value and rng.random() < 0.4:
        if value[:2] in ('{"', "[{") and rng.random() < 0.7:
            return changed_text(value, rng)
        at = rng.randrange(len(value))
        return value[:at] + rng.choice(("", "\0", "=", ":", ",", "|", "é", "9" * 30, value)) + value[at + 1 :]
    return odd(rng)


def odd(rng: random.Random) -> Any:
    """A value that somebody may not have thought of."""
    return copy.deepcopy(rng.choice(ODD))


def changed_text(text: str, rng: random.Random) -> str:
    """JSON whose values are changed, or its characters, or both."""
    if rng.random() < 0.7:
        try:
            text = json.dumps(changed(json.loads(text), rng))
        except (ValueError, RecursionError):  # changed before, and no JSON any more
            text += "}"
    if rng.random() < 0.4:
        text = changed_bytes(text.encode("utf-8", "surrogatepass"), rng, JSON_BITS).decode("utf-8", "replace")
    return text


def changed_bytes(data: bytes, rng: random.Random, bits: tuple[bytes, ...] = ()) -> bytes:
    """Bytes flipped, inserted, removed, doubled, overwritten with extreme numbers, or cut off."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        at = rng.randrange(len(made) + 1) if rng.random() < 0.7 else rng.randrange(min(len(made), 200) + 1)
        what = rng.randrange(8)
        if what == 0 and at < len(made):
            made[at] ^= 1 << rng.randrange(8)
        elif what == 1 and at < len(made):
            made[at] = rng.randrange(256)
        elif what == 2:
            made[at:at] = rng.randbytes(rng.choice((1, 2, 8, 64)))
        elif what == 3:
            del made[at : at + rng.choice((1, 2, 8, 64, len(made)))]
        elif what == 4:
            made[at:at] = made[at : at + rng.choice((1, 8, 64))]
        elif what == 5:
            size = rng.choice((1, 2, 4, 8))
            made[at : at + size] = (rng.choice(WORDS) % 256**size).to_bytes(
                size, rng.choice(("little", "big"))
            )
        elif what == 6 and bits:
            made[at:at] = rng.choice(bits)
        elif what == 7 and rng.random() < 0.2:
            del made[at:]
    return bytes(made)
