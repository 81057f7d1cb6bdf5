"""What MkDocs calls: adds the generated pages, fills in the navigation, draws figures into the page."""

from __future__ import annotations

import re
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

DOCS = Path(__file__).parents[1]
sys.path.insert(0, str(DOCS))  # MkDocs loads this file alone, without its package

from generator.lists import with_four_spaces  # noqa: E402
from generator.pages import generated_pages  # noqa: E402

_FIGURE = re.compile(r'<img alt="[^"]*" src="(?:\.\./)*(figures/[\w-]+\.svg)"[^>]*/?>')


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    written = [path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")]
    pages = sorted({*written, *generated_pages()})
    config.nav = _filled(config.nav, pages, _named(config.nav))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for place, text in generated_pages().items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    return with_four_spaces(markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """SVG figures become part of the page, so that they follow its light or dark colours."""
    return _FIGURE.sub(lambda found: (DOCS / found[1]).read_text(), html)


def _named(nav: Any) -> set[str]:
    """All pages that the navigation names without a pattern."""
    if isinstance(nav, str):
        return set() if "*" in nav else {nav}
    parts = nav.values() if isinstance(nav, dict) else nav
    return set().union(*(_named(part) for part in parts))


def _filled(nav: Any, pages: list[str], named: set[str]) -> Any:
    """The navigation with every pattern replaced by the pages that match it."""
    if isinstance(nav, dict):
        return {title: _filled(part, pages, named) for title, part in nav.items()}
    if isinstance(nav, str):
        return nav
    found: list[Any] = []
    for part in nav:
        if isinstance(part, str) and "*" in part:
            found += [page for page in pages if fnmatch(page, part) and page not in named]
        else:
            found.append(_filled(part, pages, named))
    return found
