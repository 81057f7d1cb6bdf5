"""A run of `federate` goes on: with the clients that it had, which only Python can give."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from .core.errors import ConfigError
from .experiment import Experiment, restore
from .runs.contents import check_contents, check_version
from .runs.directory import RunDir


def reopen_given(built: Experiment, path: Path) -> RunDir:
    """Bring a new experiment to the last checkpoint of its run. Samples and settings must be as they were;
    more rounds are allowed."""
    directory = RunDir.open(path)
    before = directory.config
    now = built.config = dataclasses.replace(
        built.config, system=dataclasses.replace(built.config.system, **_carried(before))
    )
    rounds = now.rounds.rounds
    changed = _first_change(before, now.to_dict())
    if changed and changed != "rounds.rounds":
        raise ConfigError(f"resume: {path} was begun with another {changed}; give the same settings")
    check_version(directory, None)
    check_contents(directory, built.contents)
    if directory.checkpoints.exist:
        restore(directory, built.federation)
    if rounds < built.federation.round:
        raise ConfigError(f"resume: rounds={rounds}: {path} has done {built.federation.round} already")
    if changed:
        with directory.locked():
            directory.extend(now.to_dict())
    return directory


def _carried(before: dict[str, Any]) -> dict[str, Any]:
    """The engine that the run began with, whatever `auto` would choose now."""
    return {key: before["system"][key] for key in ("engine", "workers")}


def _first_change(before: dict[str, Any], now: dict[str, Any], where: str = "") -> str:
    for key, value in now.items():
        old = before.get(key, value)
        if isinstance(value, dict) and isinstance(old, dict):
            if found := _first_change(old, value, f"{where}{key}."):
                return found
        elif (list(value) if isinstance(value, tuple) else value) != old:
            return f"{where}{key}"
    return ""
