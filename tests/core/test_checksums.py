"""Checksums: nothing that was changed, left out, added or moved matches."""

from __future__ import annotations

import json

import pytest

from protofed.core.checksums import LastLine, add_checksum, chain, follow, seal, strip_checksum, unseal
from protofed.core.errors import DamageError


def test_bytes_with_a_checksum() -> None:
    """Every flipped bit and every truncation is noticed, and so is another owner."""
    data = b"weights\n\x00\xff"
    whole = add_checksum(data, "client 3")
    assert strip_checksum(whole, "state", "client 3") == data
    with pytest.raises(DamageError, match="state is damaged: its checksum does not match"):
        strip_checksum(whole, "state", "client 4")
    for place in range(len(whole)):
        flipped = bytes(b ^ (1 << place % 8) if i == place else b for i, b in enumerate(whole))
        for broken in (flipped, whole[:place]):
            with pytest.raises(DamageError, match="state is damaged"):
                strip_checksum(broken, "state", "client 3")


def test_an_object_with_a_checksum() -> None:
    """It survives the way through a file; a changed number, a new field and another owner do not."""
    value = {"round": 5, "files": {"1": 0.1}, "none": None}
    sealed = json.loads(json.dumps(seal(value, "run"), indent=2))
    assert unseal(sealed, "m", "run") == value
    assert seal({1: "a"})["check"] == seal({"1": "a"})["check"]  # type: ignore[dict-item]
    for changed in ({**sealed, "round": 2}, {**sealed, "more": 1}, value, [sealed]):
        with pytest.raises(DamageError, match="m is damaged"):
            unseal(changed, "m", "run")
    with pytest.raises(DamageError):
        unseal(sealed, "m", "another run")


def _written(key: str, count: int = 4) -> list[str]:
    lines, head = [], LastLine()
    for number in range(count):
        line, head = chain(json.dumps({"round": number + 1, "loss": 0.5}), head, key)
        lines.append(line)
    return lines


def test_lines_in_a_chain() -> None:
    """Lines are followed up to the first that is not what was written there."""
    a, b, c, d = _written("run")
    assert [head.lines for head in follow([a, b, c, d], "run")] == [1, 2, 3, 4]
    edited = b.replace("0.5", "0.6")
    for lines, good in (([a, edited, c], 1), ([a, c, d], 1), ([a, c, b], 1), ([b], 0), ([a, b, b], 2)):
        assert len(list(follow(lines, "run"))) == good
    assert not list(follow([a], "another run"))
    assert json.loads(a)["round"] == 1  # still a line of JSON
