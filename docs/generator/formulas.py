"""Formulas of docstrings, which are plain text there, with raised and lowered letters.

    client  L = CE + λ · Σ_c d(p_c, P_c)            (Eq. 7, 8)
            further lines belong to the same side

`x_a` and `x_{a b}` are lowered, `x^a` and `x^{a b}` raised.
"""

from __future__ import annotations

import re
from html import escape

_BLOCK = re.compile(r"(?:^ {4,}\S.*\n?)+", re.MULTILINE)
_LINE = re.compile(r"^(?: {4}(?P<side>\w+) {2,}| +)(?P<formula>.*?)(?: {2,}\((?P<number>Eq\.[^)]*)\))?$")
_SYMBOL = re.compile(
    r"(?:(?<![\w/])[^\W\d_]{1,2}[\u0300-\u036f]?|(?<=\)))(?:[_^](?:\{[^{}]*\}|[^\W_]{1,6}))+"
)
_SCRIPT = re.compile(r"([_^])(?:\{([^{}]*)\}|([^\W_]+))")


def with_formulas(text: str) -> str:
    """Indented blocks between empty lines become formulas; all else stays."""
    parts = text.split("\n\n")
    return "\n\n".join(_block(part) if _BLOCK.fullmatch(part) else part for part in parts)


def with_symbols(text: str) -> str:
    """Symbols of one or two letters in running text, such as w_k; code between backquotes stays.

    >>> with_symbols("w_k and `w_k`, proto_pass")
    'w<sub>k</sub> and `w_k`, proto_pass'
    """
    parts = re.split(r"(`[^`]*`)", text)
    parts[::2] = [_SYMBOL.sub(lambda found: scripts(found[0]), part) for part in parts[::2]]
    return "".join(parts)


def _block(text: str) -> str:
    rows = "".join(_row(line) for line in text.rstrip("\n").split("\n"))
    return f'<div class="formulas">{rows}</div>'


def _row(line: str) -> str:
    found = _LINE.match(line)
    assert found is not None
    cells = (found["side"] or "", scripts(found["formula"]), found["number"] or "")
    return "".join(f"<span>{cell}</span>" for cell in cells)


def scripts(formula: str) -> str:
    """
    >>> scripts("w_k^{t+1}")
    'w<sub>k</sub><sup>t+1</sup>'
    """
    made = escape(re.sub(r" {2,}", " \u2003", formula), quote=False)
    previous = ""
    while made != previous:  # a script may hold another: e^{s_j/τ}
        previous, made = made, _SCRIPT.sub(_script, made)
    return made


def _script(found: re.Match[str]) -> str:
    tag = "sub" if found[1] == "_" else "sup"
    return f"<{tag}>{found[2] if found[2] is not None else found[3]}</{tag}>"
