"""The page docs/results/index.md: every table and figure of the papers, and what came of it here.

    python docs/generator/published.py        # writes the page anew

Its numbers come from the outcomes that `protofed reproduce RECIPE --publish docs/results/NAME.md` leaves
beside its pages; the list of tables and figures is papers.toml. A recipe may have several outcomes: a cell
counts once, and of a claim the one with most seeds and rounds.
"""

from __future__ import annotations

import json
import math
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

DOCS = Path(__file__).parents[1]
if __package__ in (None, ""):
    sys.path.insert(0, str(DOCS))
    __package__ = "generator"

from protofed.studies.cells import AGREES, BETTER, DIFFERS, WORSE  # noqa: E402
from protofed.studies.claims import CANNOT_TELL, DOES_NOT, HOLDS  # noqa: E402
from protofed.studies.recipe import load_recipe  # noqa: E402

from .markdown import code, table  # noqa: E402

RESULTS = DOCS / "results"
JUDGED = (AGREES, BETTER, WORSE, DIFFERS)  # against the printed number
HEAD = """# Results

What commands of this repository printed, with the command and the date on each page. `protofed reproduce`
compares with published tables ([recipes](../reference/recipes.md)), `protofed compare` compares methods with
each other.

## Every table and figure of the papers

Made from the outcomes beside the pages (`python docs/generator/published.py`). Cells: how many of those that
the paper prints have a number (of curves without numbers, of the recipe's points), and behind + what we ran
beside it: rows of our own, columns with other data or fewer rounds. Agree: of those that were run as the
paper did it, on its data and at its length, how many lie within the recipe's tolerance; the others tell the
order of methods at most. Claims: orders of rows that the paper's table shows, each in one column; a claim
holds, or does not, if clients (or runs) differ that way in a Wilcoxon test, p < 0.05 after Holm's
correction; all others cannot be told. Clients of one seed share their training, so that many pairs of
clients of few seeds prove less than their number suggests: a claim with one seed is about that seed.
"""
COLUMNS = ("", "what", "page", "cells", "seeds", "agree", "holds", "does not", "cannot tell")


class Count(NamedTuple):
    """What came of one or several recipes."""

    cells: int  # that the paper prints; of curves all
    run: int  # of these
    beside: int  # run by us alone: rows and columns that the paper does not print
    seeds: tuple[int, ...]  # of all cells that were run
    as_printed: int
    agree: int
    claims: Mapping[str, int]


def outcomes(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Recipe → its outcomes, by the files in a folder that are one."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(folder.glob("*.json")):
        outcome = json.loads(path.read_text())
        if isinstance(outcome, dict) and "recipe" in outcome:
            found.setdefault(outcome["recipe"], []).append({**outcome, "page": f"{path.stem}.md"})
    return found


def counted(
    recipe: str, found: Sequence[Mapping[str, Any]], columns: int | None = None, without: Sequence[str] = ()
) -> Count:
    """Of a recipe, or of its first columns, or without some rows."""
    whole = load_recipe(recipe)
    names = [column.name for column in whole.columns[:columns]]
    asked = {(row.name, name) for row in whole.rows if row.name not in without for name in names}
    printed = {name for name in asked if not math.isnan(whole.printed("mean", *name))} or asked
    cells = [cell for one in found for cell in one["cells"] if (cell["row"], cell["column"]) in asked]
    run: dict[tuple[str, str], int] = {}
    for cell in cells:
        name = (cell["row"], cell["column"])
        run[name] = max(run.get(name, 0), cell["seeds"])
    fit = {(cell["row"], cell["column"]): cell["verdict"] for cell in cells if cell["verdict"] in JUDGED}
    claims: dict[tuple[str, str], tuple[tuple[int, int], str]] = {}
    for one in found:
        weight = _weight(one["cells"])
        for claim in one["claims"]:
            key = (claim["text"], claim["column"])
            mine = {(row, claim["column"]) for row in _rows(claim)} <= asked
            if mine and weight >= claims.get(key, (weight, ""))[0]:
                claims[key] = (weight, claim["verdict"])
    agree = list(fit.values()).count(AGREES)
    told = Counter(verdict for _, verdict in claims.values())
    inside = printed & run.keys()
    beside = len(run) - len(inside)
    return Count(len(printed), len(inside), beside, tuple(run.values()), len(fit), agree, told)


def _rows(claim: Mapping[str, Any]) -> list[str]:
    return re.split(" [<>] ", claim["text"].removeprefix("spread of "))


def _weight(cells: Iterable[Mapping[str, Any]]) -> tuple[int, int]:
    pairs = [(cell["seeds"], cell["rounds"]) for cell in cells]
    return max(pairs, default=(0, 0))


def index(folder: Path = RESULTS) -> str:
    """The whole page."""
    found = outcomes(folder)
    papers = tomllib.loads((Path(__file__).parent / "papers.toml").read_text())["papers"]
    parts = [HEAD]
    for paper in papers:
        rows = [_row(item, found, folder) for item in paper["items"]]
        parts.append(f"### {paper['name']}\n\n{paper['about']}.\n\n{table(COLUMNS, rows, right=range(3, 9))}")
    return "\n".join([*parts, "## All pages\n\n<!-- made: results -->\n"])


def _row(
    item: Mapping[str, Any], found: Mapping[str, Sequence[Mapping[str, Any]]], folder: Path
) -> list[str]:
    head = [item["item"], item["what"]]
    if "recipes" not in item:
        return [*head, code(item["shown"]) if "shown" in item else item["nothing"], *["–"] * 6]
    mine = [one for recipe in item["recipes"] for one in found.get(recipe, ())]
    some = (item.get("columns"), item.get("without", ()))
    counts = [counted(recipe, found.get(recipe, ()), *some) for recipe in item["recipes"]]
    cells = sum(count.cells for count in counts)
    claims = [sum(count.claims.get(word, 0) for count in counts) for word in (HOLDS, DOES_NOT, CANNOT_TELL)]
    if not mine:
        return [*head, _earlier(item, folder), f"not run (0 of {cells})", *["–"] * 5]
    pages = ", ".join(f"[{Path(one['page']).stem}]({one['page']})" for one in mine)
    run, beside, fit = (sum(c) for c in zip(*((c.run, c.beside, c.as_printed) for c in counts)))
    share = f"{run} of {cells}" + (f" + {beside}" if beside else "")
    judged = f"{sum(count.agree for count in counts)} of {fit}" if fit else "–"
    told = map(str, claims) if any(claims) else ["–"] * 3
    return [*head, pages, share, _seeds(counts), judged, *told]


def _seeds(counts: Sequence[Count]) -> str:
    """Least and most seeds of a cell; those that are computed without runs have none."""
    found = [seeds for count in counts for seeds in count.seeds]
    return "–".join(dict.fromkeys(str(end(found)) for end in (min, max))) if any(found) else "–"


def _earlier(item: Mapping[str, Any], folder: Path) -> str:
    """A page that was written before there were outcomes, or the recipe."""
    page = item.get("page", "")
    if page and (folder / page).exists():
        return f"[{page.removesuffix('.md')}]({page}), without an outcome"
    return ", ".join(f"[{name}](../reference/recipes.md#{name})" for name in item["recipes"])


if __name__ == "__main__":
    (RESULTS / "index.md").write_text(index())
