"""From the plain data of `collect` to one HTML page that opens offline.

Style, scripts and data are inside the file; nothing is loaded from anywhere, which the page's own
security policy makes certain. The page draws its charts itself: see page/.
"""

from __future__ import annotations

import html
import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

from ..core.errors import RunError

DRAWING = ("svg.js", "frame.js", "lines.js", "bars.js", "points.js")
SECTIONS = ("runs.js", "results.js", "accuracy.js", "clients.js", "models.js", "weights.js", "cost.js")
SCRIPTS = (*DRAWING, *SECTIONS, "main.js")


def render(report: dict[str, Any], live: bool = False) -> str:
    """The page. A live one asks its server for data once a second."""
    parts = {
        "title": html.escape(_title(report)),
        "connect": "'self'" if live else "'none'",
        "style": _part("style.css"),
        "script": "\n".join(_part(name) for name in SCRIPTS),
        "live": "true" if live else "false",
        "data": embedded(report),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _part("page.html"))


def write_page(report: dict[str, Any], path: Path) -> Path:
    try:
        path.write_text(render(report), encoding="utf-8")
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def embedded(report: dict[str, Any]) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(report, separators=(",", ":")).replace("<", "\\u003c")


def _title(report: dict[str, Any]) -> str:
    names = ", ".join(dict.fromkeys(run["name"] for run in report["runs"]))
    return f"{names} – protofed"


def _part(name: str) -> str:
    return (resources.files("protofed.reports") / "page" / name).read_text(encoding="utf-8")
