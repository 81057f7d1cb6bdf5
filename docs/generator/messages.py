"""What a method sends, in symbols and counted: rows of tables, made from the messages of an example round.

C classes, D embedding size, N public samples, J rows of a message; P(x) parameters of the part x.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from protofed.core.record import Record

from .example_round import CLIENTS, Seen, Sent
from .formulas import with_symbols
from .markdown import code, table

ARROWS = {"down": "↓ server to client", "up": "↑ client to server"}


def messages_section(seen: Seen) -> str:
    """A table of all fields, and what the message types say of themselves."""
    rows = [row for sent in seen.sent for row in _rows(sent, len(seen.sent) > 2)]
    if not rows:
        return "Nothing is sent.\n"
    parts = [table(["direction", "field", "payload", "in the example"], rows, right=[3])]
    parts += [f"{code(kind.__name__)}: {with_symbols(text)}" for kind, text in _kinds(seen).items() if text]
    return "\n\n".join(parts) + "\n"


def _rows(sent: Sent, named: bool) -> list[list[str]]:
    """One row a field that counts. `named`: several exchanges a round, so each is called by its name."""
    specs = sent.kind.specs()
    found = [[code(spec.name), *_field(spec, sent.records)] for spec in specs]
    rows = [row for row in found if row[1]]
    if integers := [code(spec.name) for spec in specs if spec.dims is not None and not spec.floating]:
        rows.append([", ".join(integers), "integers, not counted", ""])
    direction = ARROWS[sent.way] + (f", {sent.leg}" if named else "")
    return [["" if number else direction, *row] for number, row in enumerate(rows)]


def _field(spec: Any, records: list[Record]) -> tuple[str, str]:
    """Symbol and mean count of a declared field; both empty for integers and for a tree without tensors."""
    if spec.dims is None:
        return _tree(spec.name, records)
    if not spec.floating:
        return "", ""
    values = [getattr(record, spec.name) for record in records if hasattr(record, spec.name)]
    return "·".join(spec.dims) or "1", _mean(value.numel() for value in values)


def _tree(name: str, records: list[Record]) -> tuple[str, str]:
    trees = [getattr(record, name, {}) for record in records]
    names = {key for tree in trees for key in tree}
    symbol = " + ".join(f"P({part})" for part in parts_of(names))
    if any(key.endswith("/u") for key in names):  # u, s, v of a decomposition
        symbol += ", less by compression"
    numbers = (sum(t.numel() for t in tree.values() if t.is_floating_point()) for tree in trees)
    return symbol, _mean(numbers) if names else ""


def parts_of(names: Iterable[str]) -> list[str]:
    """The parts that tensors belong to: base, head, both as model, or a part that the method adds."""
    halves, others = set(), set()
    for name in names:
        part, half = name.split(".")[:2]
        if part == "model" and half in ("base", "head"):
            halves.add(half)
        else:
            others.add(part)
    return (["model"] if len(halves) == 2 else sorted(halves)) + sorted(others)


def sent_parts(seen: Seen) -> list[str]:
    """All parts whose parameters travel, in either direction."""
    trees = [s.name for sent in seen.sent for s in sent.kind.specs() if s.dims is None]
    records = [record for sent in seen.sent for record in sent.records]
    return parts_of(key for name in trees for record in records for key in getattr(record, name, {}))


def sends_prototypes(seen: Seen) -> bool:
    """Whether a message has rows of embeddings."""
    specs = [spec for sent in seen.sent for spec in sent.kind.specs()]
    return any(spec.dims is not None and spec.floating and "D" in spec.dims for spec in specs)


def _kinds(seen: Seen) -> dict[type[Record], str]:
    """Message types with the text of their docstrings; dataclasses invent one where it is missing."""
    kinds = {sent.kind for sent in seen.sent if sent.kind.specs()}
    texts = {kind: " ".join((inspect.getdoc(kind) or "").split()) for kind in kinds}
    ordered = sorted(texts, key=lambda kind: kind.__name__)
    return {kind: "" if texts[kind].startswith(f"{kind.__name__}(") else texts[kind] for kind in ordered}


def _mean(counts: Iterable[int]) -> str:
    return count(sum(counts) / CLIENTS)


def count(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")
