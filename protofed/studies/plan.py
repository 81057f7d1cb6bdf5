"""The runs of a study: labelled configurations, and the names of their directories."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..config import Config, Train, setting_names
from ..core.algorithm import methods
from ..core.errors import ConfigError
from ..core.options import options_of, parse_spec
from ..core.written_files import change_files
from ..runs.fingerprint import of_settings
from .model_measures import Look

# The other settings of the system say how a run is carried out, and change no number beyond rounding.
SYSTEM = ("dtype", "eval_every", "eval_clients", "on_failure")
SAME_FOR_ALL = ("seed", "data", "partition", "clients", "newcomers")  # whose clients would be others


@dataclass(frozen=True)
class Planned:
    """One run: the row of the table it belongs to, and its configuration.

    `reference` and `baseline` are runs that its measures compare with; `looks` are measures to be taken
    while it goes on.
    """

    row: str
    config: Config
    reference: Planned | None = None
    baseline: Planned | None = None
    looks: tuple[Look, ...] = ()

    @property
    def seed(self) -> int:
        """The seed of the configuration."""
        return self.config.seed

    @cached_property
    def key(self) -> str:
        """What tells this run from all that give other numbers."""
        return run_key(self.config)

    @property
    def folder(self) -> str:
        """Name of the run directory: readable in front, unique behind."""
        return f"{self.stem}{self.key}"

    @property
    def stem(self) -> str:
        """The readable part of it."""
        plain = re.sub(r"[^a-z0-9]+", "-", self.row.lower()).strip("-")[:40].rstrip("-")
        return f"{plain or self.config.method}-s{self.seed}-"


def run_key(config: Config) -> str:
    """A hash of all that decides a run's numbers, with every default of the method spelled out.

    So a preset and the same options written by hand are one run, and a changed default is a new one; so is a
    changed file of the user's. Whether a run on disk is what is planned, `reuse` tells.
    """
    values = deciding(config)
    if files := of_settings(config.to_dict()):  # by name and content, wherever they lie
        values = change_files(values, os.path.basename)
        values["files"] = [(os.path.basename(name), found) for name, found in files.items()]
    text = json.dumps(values, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def deciding(config: Config) -> dict[str, Any]:
    """The settings that decide a run's numbers."""
    values = config.to_dict()
    del values["preset"]
    values["options"] = dataclasses.asdict(config.make_method())
    system = values["system"]
    values["system"] = {name: system[name] for name in SYSTEM}
    if system["eval_start"]:  # a run without that test does not have what one with it has
        values["system"]["eval_start"] = True
    if not values["imports"]:
        del values["imports"]
    return values


@dataclass(frozen=True)
class MethodChoice:
    """A method as written for a comparison: "fedproto:preset=official,lam=0.1"."""

    label: str
    method: str
    preset: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    def layers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The weakest layer of its configuration, and the strongest."""
        preset = {"preset": self.preset} if self.preset else {}
        return {"method": self.method, **preset}, {**self.settings, **preset, "options": self.options}


def read_method(text: str) -> MethodChoice:
    """Read "name", or "name:key=value,…" where a key is `preset`, an option of the method, or a setting.

    >>> read_method("fedproto:preset=official,lam=0.1").options
    {'lam': '0.1'}
    """
    name, given = parse_spec(text)
    text = text.removesuffix(":")
    own = {info.name for info in options_of(methods[name])}
    for key in SAME_FOR_ALL:
        if key in given and key not in own:
            raise ConfigError(f"{text}: {key} is the same for all methods of a comparison; give --{key}")
    preset = given.pop("preset", None)
    options: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    for key, value in given.items():
        plain = key.replace("-", "_")
        if plain not in own and plain in setting_names() and plain not in ("method", "options"):
            settings[plain] = value
        else:
            options[plain] = value  # an unknown name is refused, with its nearest match, by the method
    return MethodChoice(text, name, preset, options, settings)


def common_training(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Local training and sampling that all methods of a comparison share.

    A preset would bring its own batch size, epochs and learning rate; in a comparison these are the same
    for all, and so are batches and participants. `init` stays with the method: it says whose first
    weights a client takes, not how it trains.
    """
    idle = {"init", "momentum"} if settings.get("optimizer") == "adam" else {"init"}
    shared = {info.name: info.default for info in options_of(Train) if info.name not in idle}
    return {**shared, "sampling": "uniform", **settings}


def check_no_options(settings: Mapping[str, Any], example: str) -> None:
    """Refuse options without a method: nobody could say whose they are."""
    if settings.get("options"):
        name = next(iter(settings["options"]))
        raise ConfigError(
            f"--set {name}: several methods are compared; write options with the method, as in {example}"
        )
