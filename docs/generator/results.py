"""The first page of the results: a list of whatever lies in docs/results."""

from __future__ import annotations

import re
from pathlib import Path

TEXT = """# Results

What commands of this repository printed, with the command and the date on each page.
`protofed reproduce` compares with published tables ([recipes](../reference/recipes.md)),
`protofed compare` compares methods with each other.

"""


def results_page(folder: Path) -> str:
    pages = sorted(path for path in folder.glob("*.md") if path.name not in ("index.md", "README.md"))
    lines = [f"- [{_title(path)}]({path.name})" for path in pages]
    return TEXT + ("\n".join(lines) or "There are none yet.") + "\n"


def _title(page: Path) -> str:
    found = re.search(r"^# (.+)$", page.read_text(), re.MULTILINE)
    return found[1].strip() if found else page.stem
