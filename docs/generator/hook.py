"""What MkDocs calls: fills in what pages leave to the code, adds those of methods, draws figures."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

DOCS = Path(__file__).parents[1]
sys.path.insert(0, str(DOCS))  # MkDocs loads this file alone, without its package

from generator.pages import filled, method_pages  # noqa: E402

_FIGURE = re.compile(r'<img alt="[^"]*" src="(?:\.\./)*(figures/[\w-]+\.svg)"[^>]*/?>')


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for place, text in method_pages().items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    return filled(markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """SVG figures become part of the page, so that they follow its light or dark colours."""
    return _FIGURE.sub(lambda found: (DOCS / found[1]).read_text(), html)
