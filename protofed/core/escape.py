"""Text from outside (names, errors, class names, file names), made harmless for where it is shown.

visible     terminal and log: control characters, and those that turn the direction of text, as escapes
markdown    also no table cells, tags or links of its own
latex       characters that mean something there
csv_cell    no formula of a spreadsheet
HTML is escaped by `html.escape` and by the page's scripts, which write text alone (reports/); markup of the
terminal is turned off where it is printed (cli/output.py).
"""

from __future__ import annotations

import logging
import re
from typing import Any

# C0 and C1 controls, zero-width and direction marks, line separators, halves of surrogate pairs.
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "±": r"$\pm$", "−": "$-$", "×": r"$\times$", "≥": r"$\geq$", "→": r"$\to$", "–": "--", "—": "---",
    "Δ": r"$\Delta$", "α": r"$\alpha$", "β": r"$\beta$", "δ": r"$\delta$", "λ": r"$\lambda$",
    "μ": r"$\mu$", "τ": r"$\tau$", "φ": r"$\varphi$", ">": "$>$", "<": "$<$", "|": r"\textbar{}",
}  # fmt: skip
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def visible(text: str, lines: bool = False) -> str:
    """Text without anything that acts on a terminal; `lines` keeps the ends of lines.

    >>> visible("a\\x1b[31mb")
    'a\\\\x1b[31mb'
    """
    return _HIDDEN.sub(lambda found: found[0] if lines and found[0] == "\n" else _escaped(found[0]), text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def markdown(text: str) -> str:
    """Text for a cell or a line of Markdown.

    >>> markdown("a|b <script> x < 3")
    'a\\\\|b \\\\<script> x < 3'
    """
    plain = visible(text).replace("\\|", "\\\\|").replace("|", "\\|")
    return _TAG.sub(r"\\<", plain).replace("](", "]\\(")


def latex(text: str) -> str:
    """Text for LaTeX.

    >>> latex("50 % of a_b")
    '50 \\\\% of a\\\\_b'
    """
    return "".join(_LATEX.get(character, character) for character in visible(text))


def csv_cell(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula: text that begins like one gets an apostrophe in front.
    Numbers stay, also as text.

    >>> csv_cell("=1+1"), csv_cell("-3.5"), csv_cell(-3.5)
    ("'=1+1", '-3.5', -3.5)
    """
    if not isinstance(value, str):
        return value
    return "'" + visible(value) if value.startswith(_FORMULA) and not _is_number(value) else visible(value)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class VisibleLines(logging.Filter):
    """Log lines without anything that acts on a terminal; errors that are logged keep their lines."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite the record; none is dropped."""
        record.msg, record.args = visible(" ".join(record.getMessage().split())), ()
        if record.exc_info and not record.exc_text:
            text = logging.Formatter().formatException(record.exc_info)
            record.exc_text = visible(text, lines=True)
        return True


def guard_log() -> None:
    """Every line of protofed's log, whoever shows it, goes through `visible`."""
    logger = logging.getLogger("protofed")
    if not any(isinstance(one, VisibleLines) for one in logger.filters):
        logger.addFilter(VisibleLines())
