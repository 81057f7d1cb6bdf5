"""Recipes: what each reproduces, where the published numbers come from, and what it needs. See recipe.md."""

from __future__ import annotations

from protofed.studies.recipe import MEASURES, About, Column, Order, Recipe, Row, load_recipe, recipe_ids

from .markdown import code, options_table, render, table


def recipes() -> str:
    """A table of all, then a section for each."""
    found = [load_recipe(name) for name in recipe_ids()]
    index = table(["recipe", "what it shows", "data", "hours"], map(_row, found), right=[3])
    return "\n".join([index, *(render("recipe.md", recipe=recipe, about=recipe.about) for recipe in found)])


def recipe_form() -> str:
    """The tables of a recipe's file, field by field, and what can be measured."""
    parts = [
        ("[about]", About),
        ("[[about.rows]]", Row),
        ("[[about.columns]]", Column),
        ("[[about.orders]]", Order),
    ]
    tables = [f"### {code(name)}\n\n{options_table(part)}" for name, part in parts]
    measures = table(["measure", "what it is"], [[code(name), text] for name, text in MEASURES.items()])
    return "\n".join([*tables, f"### Measures\n\n{measures}"])


def _row(recipe: Recipe) -> list[str]:
    about = recipe.about
    data = ", ".join(map(code, about.data)) or "none"
    return [f"[{recipe.id}](#{recipe.id})", about.title, data, "–" if about.costs else f"{about.hours:g}"]
