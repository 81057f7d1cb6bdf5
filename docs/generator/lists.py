"""Numbered lists as GitHub reads them: what belongs to an item stands three spaces in.

MkDocs wants four, and an empty line after such a paragraph. Both are put in, so that pages look right in
both places.
"""

from __future__ import annotations

import re

_ITEM = re.compile(r"\d+\. ")


def with_four_spaces(text: str) -> str:
    """Lines of numbered lists that are indented by three spaces or more move by one.

    >>> with_four_spaces("1. one\\n\\n   more\\n\\nend")
    '1. one\\n\\n    more\\n\\nend'
    """
    lines, inside = [""], False
    for line in text.split("\n"):
        indented, item = line.startswith("   "), bool(_ITEM.match(line))
        if item and inside and lines[-1].startswith("    "):
            lines.append("")
        inside = item or (inside and (indented or not line))
        lines.append(f" {line}" if inside and indented else line)
    return "\n".join(lines[1:])
