"""Formulas of docstrings, which are plain text there, with raised and lowered letters.

    client  L = CE + λ · Σ_c d(p_c, P_c)            (Eq. 7, 8)
            further lines belong to the same side

`x_a` and `x_{a b}` are lowered, `x^a` and `x^{a b}` raised.
"""

from __future__ import annotations

import re
from html import escape

_LINE = re.compile(r"^(?: {4}(?P<side>\w+) {2,}| {4,})(?P<formula>\S.*?)(?: {2,}\((?P<number>Eq\.[^)]*)\))?$")
_SYMBOL = re.compile(
    r"(?:(?<![\w/])[^\W\d_]{1,2}[\u0300-\u036f]?|(?<=\)))(?:[_^](?:\{[^{}]*\}|[^\W_]{1,6}))+"
)
_SCRIPT = re.compile(r"([_^])(?:\{([^{}]*)\}|([^\W_]+))")
_TAGS = {"_": "sub", "^": "sup"}


def with_formulas(text: str) -> str:
    """Indented blocks between empty lines become formulas; all else stays."""
    return "\n\n".join(_block(part) for part in text.split("\n\n"))


def _block(text: str) -> str:
    rows = [_LINE.match(line) for line in text.rstrip("\n").split("\n")]
    cells = [(row["side"] or "", scripts(row["formula"]), row["number"] or "") for row in rows if row]
    spans = "".join(f"<span>{cell}</span>" for row in cells for cell in row)
    return f'<div class="formulas">{spans}</div>' if all(rows) else text


def with_symbols(text: str) -> str:
    """Symbols of one or two letters in running text, such as w_k; code between backquotes stays."""
    parts = re.split(r"(`[^`]*`)", text)
    parts[::2] = [_SYMBOL.sub(lambda found: scripts(found[0]), part) for part in parts[::2]]
    return "".join(parts)


def scripts(formula: str) -> str:
    """Tags for raised and lowered letters: w<sub>k</sub><sup>t+1</sup> for w_k^{t+1}."""
    made, previous = escape(re.sub(r" {2,}", " \u2003", formula), quote=False), ""
    while made != previous:  # a script may hold another: e^{s_j/τ}
        previous, made = made, _SCRIPT.sub(_script, made)
    return made


def _script(found: re.Match[str]) -> str:
    return f"<{_TAGS[found[1]]}>{found[2] or found[3] or ''}</{_TAGS[found[1]]}>"
