"""Recipes: what each reproduces, where the published numbers come from, and what it needs. See recipe.md."""

from __future__ import annotations

from protofed.studies.recipe import Recipe, load_recipe, recipe_ids

from .markdown import code, render, table


def recipes() -> str:
    """A table of all, then a section for each."""
    found = [load_recipe(name) for name in recipe_ids()]
    index = table(["recipe", "what it shows", "data", "hours"], map(_row, found), right=[3])
    return "\n".join([index, *(render("recipe.md", recipe=recipe, about=recipe.about) for recipe in found)])


def _row(recipe: Recipe) -> list[str]:
    about = recipe.about
    data = ", ".join(map(code, about.data)) or "none"
    return [f"[{recipe.id}](#{recipe.id})", about.title, data, "–" if about.costs else f"{about.hours:g}"]
