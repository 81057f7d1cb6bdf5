"""From the plain data of `content` to one HTML page that opens offline.

Style, scripts and data are inside the file; nothing is loaded from anywhere, which the page's own
security policy makes certain. Its scripts draw any chart of `spec` and know nothing of runs: see page/.
"""

from __future__ import annotations

import html
import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

from ..core.errors import RunError
from . import style
from .content import page

SCRIPTS = ("svg.js", "frame.js", "lines.js", "bars.js", "points.js", "tables.js", "cards.js", "main.js")


def render(report: dict[str, Any]) -> str:
    """The page. A live one asks its server for data once a second."""
    names = ", ".join(dict.fromkeys(run["name"] for run in report["runs"]))
    parts = {
        "title": html.escape(f"{names} – protofed"),
        "connect": "'self'" if "live" in report else "'none'",
        "style": f"{style.css()}\n{_part('style.css')}",
        "script": "\n".join(_part(name) for name in SCRIPTS),
        "data": embedded(report),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _part("page.html"))


def write_page(report: dict[str, Any], path: Path) -> Path:
    """Write the page of a report."""
    try:
        path.write_text(render(report), encoding="utf-8")
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def embedded(report: dict[str, Any]) -> str:
    """What the page shows, as JSON that cannot end the script element it stands in."""
    return json.dumps(page(report), separators=(",", ":")).replace("<", "\\u003c")


def _part(name: str) -> str:
    return (resources.files("protofed.reports") / "page" / name).read_text(encoding="utf-8")
