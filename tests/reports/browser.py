"""A page in a real browser: its DOM after the scripts ran, and what it wrote to the console."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--v=0",
)
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FOUND = next((path for path in map(shutil.which, NAMES) if path), None)
needs_browser = pytest.mark.skipif(FOUND is None, reason="no Chromium in PATH (Debian: apt install chromium)")


class Seen(NamedTuple):
    dom: str
    console: list[str]

    @property
    def errors(self) -> str:
        """What window.onerror caught."""
        found = re.search(r'<html[^>]*data-errors="([^"]*)"', self.dom)
        return found.group(1) if found else "no page"

    @property
    def charts(self) -> list[tuple[str, int]]:
        """(name, marks) of every chart."""
        figures = re.findall(r"<figure[^>]*>", self.dom)
        return [(_attribute(f, "data-chart"), int(_attribute(f, "data-marks") or -1)) for f in figures]


def _attribute(tag: str, name: str) -> str:
    found = re.search(f'{name}="([^"]*)"', tag)
    return found.group(1) if found else ""


def look(address: str | Path, *flags: str, milliseconds: int = 0) -> Seen:
    """Open a file or an address. With `milliseconds` of the page's own clock before it is read."""
    assert FOUND is not None
    url = address.resolve().as_uri() if isinstance(address, Path) else address
    if milliseconds:
        flags = (*flags, f"--virtual-time-budget={milliseconds}")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        argv = [FOUND, *FLAGS, f"--user-data-dir={profile}", *flags, "--dump-dom", url]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return Seen(done.stdout, console)
