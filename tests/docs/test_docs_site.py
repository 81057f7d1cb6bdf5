"""The site is built once: no broken link or anchor, nothing from the network, a page for everything."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from snippets import REPO

from protofed.core.algorithm import methods
from protofed.studies.recipe import recipe_ids

pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")


class Fetched(HTMLParser):
    """Addresses that a browser fetches by itself when it opens a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "img", "iframe", "source", "video", "audio"):
            self.found.append(given.get("src") or "")
        if tag == "link" and given.get("rel") not in ("canonical", "next", "prev", "alternate"):
            self.found.append(given.get("href") or "")


def test_site(tmp_path: Path) -> None:
    """`mkdocs build --strict` as `make docs` runs it."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    built = subprocess.run(command, cwd=REPO, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    _is_complete(tmp_path)
    for page in tmp_path.rglob("*.html"):
        fetched = Fetched()
        fetched.feed(page.read_text())
        outside = [address for address in fetched.found if re.match(r"(https?:)?//", address)]
        assert not outside, f"{page.name} fetches {outside}"
    for style in tmp_path.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//", style.read_text()), style


def _is_complete(site: Path) -> None:
    overview = (site / "methods" / "index.html").read_text()
    for name in methods:
        page = (site / "methods" / f"{name}.html").read_text()
        assert f'href="{name}.html"' in overview
        for heading in ("how-it-works", "what-is-sent", "needs", "options", "presets"):
            assert f'id="{heading}"' in page, f"{name}: {heading}"
    recipes = (site / "reference" / "recipes.html").read_text()
    assert all(f'id="{name}"' in recipes for name in recipe_ids())
    results = (site / "results" / "index.html").read_text()
    for path in (REPO / "docs" / "results").glob("*.md"):
        assert path.name in ("index.md", "README.md") or f'href="{path.stem}.html"' in results
    assert '<svg class="figure"' in (site / "concepts.html").read_text()
