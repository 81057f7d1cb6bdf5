"""What a method sends, in symbols and counted: rows of tables, made from the messages of an example.

C classes, D embedding size, N public samples, J rows of a message; P(x) parameters of the part x.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from protofed.core.fields import Spec

from .examples import CLIENTS, Seen, Sent
from .formulas import with_symbols
from .markdown import code, count, table

ARROWS = {"down": "↓ server to client", "up": "↑ client to server"}


def messages_section(seen: Seen) -> str:
    """A table of all fields, and what the message types say of themselves."""
    rows = [row for sent in seen.sent for row in _rows(sent, named=len(seen.sent) > 2)]
    if not rows:
        return "Nothing is sent.\n"
    kinds = [sent.kind for sent in seen.sent if sent.kind.specs()]
    texts = sorted({(kind.__name__, " ".join((kind.__doc__ or "").split())) for kind in kinds})
    written = [(kind, text) for kind, text in texts if not text.startswith(f"{kind}(")]  # not by dataclasses
    parts = [table(["direction", "field", "payload", "in the example"], rows, right=[3])]
    return "\n\n".join(parts + [f"{code(kind)}: {with_symbols(text)}" for kind, text in written]) + "\n"


def _rows(sent: Sent, named: bool) -> list[list[str]]:
    """One row a field. `named`: several exchanges a round, so each is called by its name."""
    rows = [row for spec in sent.kind.specs() if (row := _field(spec, sent))]
    direction = ARROWS[sent.way] + (f", {sent.leg}" if named else "")
    return [["" if number else direction, *row] for number, row in enumerate(rows)]


def _field(spec: Spec, sent: Sent) -> list[str]:
    """Name, symbol and mean count of a field; empty for a tree without tensors."""
    arrays = _arrays(spec, sent)
    if spec.dims is None:
        symbol = " + ".join(f"P({part})" for part in parts_of(name for name, _ in arrays))
        if any(name.endswith("/u") for name, _ in arrays):  # u, s, v of a decomposition
            symbol += ", less by compression"
    else:
        symbol = "·".join(spec.dims) or "1"
        if not spec.floating:
            return [code(spec.name), f"{symbol}, integers", "not counted"]
    floats = sum(tensor.numel() for _, tensor in arrays if tensor.is_floating_point())
    return [code(spec.name), symbol, count(floats / CLIENTS)] if symbol else []


def _arrays(spec: Spec, sent: Sent) -> list[tuple[str, Any]]:
    """All tensors of a field with their names in the tree."""
    found = [item for record in sent.records for item in record.arrays().items()]
    split = [(*name.partition("/")[::2], tensor) for name, tensor in found]
    return [(name, tensor) for field, name, tensor in split if field == spec.name]


def parts_of(names: Iterable[str]) -> list[str]:
    """The parts that tensors belong to: base, head, both as model, or a part that the method adds."""
    found = {re.sub(r"^(?:model\.(base|head)|(\w+))\..*", r"\1\2", name) for name in names}
    return sorted(found - {"base", "head"} | {"model"} if {"base", "head"} <= found else found)


def sent_parts(seen: Seen) -> list[str]:
    """All parts whose parameters travel, in either direction."""
    trees = [(spec, sent) for sent in seen.sent for spec in sent.kind.specs() if spec.dims is None]
    return parts_of(name for spec, sent in trees for name, _ in _arrays(spec, sent))


def sends_prototypes(seen: Seen) -> bool:
    """Whether a message has rows of embeddings."""
    specs = [spec for sent in seen.sent for spec in sent.kind.specs()]
    return any(spec.floating and "D" in (spec.dims or ()) for spec in specs)
