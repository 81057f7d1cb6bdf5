"""Recipes: what each reproduces, where the published numbers come from, and what it needs."""

from __future__ import annotations

from protofed.studies.recipe import Recipe, load_recipe, recipe_ids

from .markdown import code, table, with_links

TEXT = """# Recipes

A recipe is one published table or figure: the paper's settings, the data and the time it needs, and the
printed numbers. `protofed reproduce RECIPE` runs what fits, and prints ours beside the paper's. Our own
outcomes are under [results](../results/index.md).

```sh
protofed reproduce
protofed reproduce fp-t2 --columns "stdev 2" --methods FedProto FedAvg \\
    --seeds 1 --budget 20m
```

A difference within the tolerance counts as agreement. Where data, network, rounds or a setting differ from
the paper's, a cell is "not comparable", and says why. The hours are rough estimates for all runs of a recipe
on two cores. Files are in `protofed/recipes/`; their form is explained in `protofed/studies/recipe.py`.

"""


def recipes_page() -> str:
    recipes = [load_recipe(name) for name in recipe_ids()]
    rows = [[f"[{r.id}](#{r.id})", r.about.title, _data(r), _hours(r)] for r in recipes]
    index = table(["recipe", "what it shows", "data", "hours"], rows, right=[3])
    return TEXT + index + "\n" + "\n".join(_section(recipe) for recipe in recipes)


def _data(recipe: Recipe) -> str:
    return ", ".join(code(name) for name in recipe.about.data) or "none"


def _hours(recipe: Recipe) -> str:
    return "–" if recipe.about.costs else f"{recipe.about.hours:g}"


def _section(recipe: Recipe) -> str:
    about = recipe.about
    facts = [
        f"Published numbers: {with_links(about.paper)}.",
        f"Rows: {', '.join(row.name for row in recipe.rows)}.",
        f"Columns: {'; '.join(column.name for column in recipe.columns)}.",
        f"Needs no training; tolerance {about.tolerance:g}."
        if about.costs
        else f"Seeds: {about.seeds}; tolerance {about.tolerance:g} points; measured: {_measure(recipe)}.",
    ]
    facts += [f"Not comparable: {about.stand_in}."] if about.stand_in else []
    facts += list(about.notes)
    return f"## {recipe.id}\n\n{about.title}.\n\n" + "\n".join(f"- {fact}" for fact in facts) + "\n"


def _measure(recipe: Recipe) -> str:
    names = {"last": "last round", "best": "best round", "smoothed": "mean over the last tenth"}
    return names.get(recipe.about.measure, recipe.about.measure.replace("_", " "))
