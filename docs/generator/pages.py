"""All generated pages by their place in the site."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from protofed import experiment as _registers_everything  # noqa: F401
from protofed.core.algorithm import methods

from .commands import commands_page
from .example_round import play
from .methods import method_page
from .overview import overview_page
from .recipes import recipes_page
from .registries import data_page, models_page, partitions_page
from .results import results_page

DOCS = Path(__file__).parents[1]


@cache
def generated_pages() -> dict[str, str]:
    """Place to Markdown. Made once: `mkdocs serve` builds often."""
    seen = {name: play(name) for name in methods}
    pages = {
        "methods/index.md": overview_page(seen),
        "reference/commands.md": commands_page(),
        "reference/data.md": data_page(),
        "reference/partitions.md": partitions_page(),
        "reference/models.md": models_page(),
        "reference/recipes.md": recipes_page(),
    }
    pages |= {f"methods/{name}.md": method_page(name, one) for name, one in seen.items()}
    if not any((DOCS / "results" / name).exists() for name in ("index.md", "README.md")):
        pages["results/index.md"] = results_page(DOCS / "results")
    return pages
