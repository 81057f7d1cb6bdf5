"""`protofed reproduce RECIPE`: a published table, ours beside the paper's."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..reports import paper
from ..studies.cells import cells
from ..studies.claims import as_claims, claims
from ..studies.kept_cells import plan_page
from ..studies.published import check_page, publish
from ..studies.recipe import Recipe, load_recipe, recipe_ids
from ..studies.reproduce import Selection, in_data_folder, plan_reproduction
from ..studies.reproduction_table import as_records, claims_table, compact, markdown, rounds_table
from ..studies.study_charts import draw_recipe
from ..studies.study_files import own_name, runs_of, study_mark, write_study
from ..studies.tables import Table
from .parser import add_settings, settings_of
from .study import add_study_flags, carry_out_plan, given_command, print_tables, say_written


def add(commands: Any, argv: Sequence[str]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "reproduce",
        description="Carry out a recipe (without a name: list them) and print ours next to the paper's, with "
        "the difference and a verdict. Settings given here win over the recipe's; cells that they change are "
        "marked as not comparable.",
        allow_abbrev=False,
    )
    parser.add_argument("recipe", nargs="?", help="such as fp-t2, or the path of a .toml file")
    parser.add_argument("--methods", nargs="+", default=[], metavar="ROW", help="rows of the table only")
    parser.add_argument(
        "--columns", nargs="+", default=[], metavar="COLUMN", help="columns only, by name or a piece of it"
    )
    parser.add_argument(
        "--publish",
        type=Path,
        metavar="FILE.md",
        help="also write the page here, and its outcome as FILE.json beside it, as docs/results keeps them; "
        "rows, columns and seeds that it has from earlier calls stay, what rests on the same runs as another "
        "page there is taken from that; with --budget 0s its claims are judged anew, without a run",
    )
    add_study_flags(parser, None, "runs/RECIPE")
    add_settings(parser, None)
    parser.set_defaults(function=command)


def command(args: argparse.Namespace) -> int:
    """Carry out what is missing of a recipe and print it beside the paper; without a recipe, list them."""
    if args.recipe is None:
        overview = _overview()
        print_tables([overview], [dict(zip(overview.headings, row)) for row in overview.rows], args.format)
        return 0
    recipe = load_recipe(args.recipe)
    check_page(args.publish)
    choice = Selection(args.methods, args.columns, args.seeds, settings_of(args))
    plans = plan_reproduction(recipe, choice)
    page = plan_page(recipe, choice, args.publish.with_suffix(".json")) if args.publish else None
    out = args.out or Path("runs") / recipe.id
    done = carry_out_plan([planned for plan in plans for planned in plan.runs], out, args)
    found = cells(recipe, plans, done)
    checked = claims(recipe, found)
    records = as_records(found)
    text = markdown(recipe, found, checked, given_command(), time.strftime("%Y-%m-%d"))
    about = {"recipe": recipe.id, "title": recipe.about.title, "paper": recipe.about.paper}
    mark = study_mark(done.values(), recipe.id, *(f"{cell.row}, {cell.column}" for cell in found))
    name = own_name(out, recipe.id, mark)
    more = {"study": mark, **about, "command": given_command(), "claims": as_claims(checked)}
    paths = write_study(out, name, text, records, {**more, "runs": runs_of(done)})
    if recipe.about.x and paper.can_draw():
        paths.append(draw_recipe(recipe, found, out / f"{name}.png"))
    if page:
        paths += publish(page, done, given_command())
    tables = [
        compact(recipe, found),
        *rounds_table(recipe, found),
        *([claims_table(checked)] if checked else []),
    ]
    print_tables(tables, records, args.format)
    say_written(paths, done, args)
    return 0


def _overview() -> Table:
    recipes = [load_recipe(name) for name in recipe_ids()]
    rows = [[r.id, r.about.title, _time(r), _data(r)] for r in recipes]
    return Table("recipes", ["recipe", "what it shows", "hours, all runs", "data"], rows, names=4)


def _time(recipe: Recipe) -> str:
    return "none" if recipe.about.costs else f"{recipe.about.hours:g}"


def _data(recipe: Recipe) -> str:
    missing = [name for name in recipe.about.data if not in_data_folder(name)]
    if not recipe.about.data:
        return "needs none"
    return f"missing: {', '.join(missing)}" if missing else "there"
