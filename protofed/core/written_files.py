"""Where settings name Python files of the user, and the same settings with these files somewhere else."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .user_files import is_form, split_form

MODULE = re.compile(r"(?<=module:)[^:|,]+\.py(?=:)")  # within the written forms of models and data


def files_in(settings: Mapping[str, Any]) -> list[str]:
    """The files that settings name, as written there: of the method, imports, data, partition and models."""
    found: list[str] = []

    def note(file: str) -> str:
        found.append(file)
        return file

    change_files(settings, note)
    return list(dict.fromkeys(found))


def change_files(settings: Mapping[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    """The settings with `change` applied to each file that they name."""
    made = dict(settings)
    for key in ("method", "data", "partition", "public"):
        text = made.get(key)
        if isinstance(text, str) and is_form(text):
            file = split_form(text)[0]
            made[key] = change(file) + text[len(file) :]
    if isinstance(made.get("imports"), list | tuple):
        made["imports"] = [change(str(file)) for file in made["imports"]]
    if isinstance(made.get("data"), str):  # encoders of text
        made["data"] = MODULE.sub(lambda found: change(found[0]), made["data"])
    return change_models(made, lambda form: MODULE.sub(lambda found: change(found[0]), form))


def change_models(settings: Mapping[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    """The settings with `change` applied to each written form of models: of the clients' networks, and of
    frozen ones that an option of the method names (`phi=model:FORM`, several joined by +)."""
    made = dict(settings)
    if isinstance(made.get("models"), str):
        made["models"] = change(made["models"])
    if isinstance(made.get("options"), Mapping):
        made["options"] = {name: _frozen(value, change) for name, value in made["options"].items()}
    return made


def _frozen(value: Any, change: Callable[[str], str]) -> Any:
    if not isinstance(value, str) or "model:" not in value:
        return value
    return "+".join(change(part) if part.strip().startswith("model:") else part for part in value.split("+"))


def with_files_beside(settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The settings of a recipe: files that lie beside it are found from any folder."""
    return change_files(settings, lambda file: _beside(file, folder))


def _beside(file: str, folder: Path) -> str:
    there = folder / os.path.expanduser(file)
    return str(there) if there.is_file() else file
