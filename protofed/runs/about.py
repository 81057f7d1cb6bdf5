"""What is known of a run before its first round, in about.json: written once, kept when a run is resumed.

Readers take names of classes and prediction modes from here, so that a run can be shown where its method
or its data is not at hand. A run of an earlier version has no such file: its modes are then asked of the
method, if that can be made.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import ConfigError, RunError
from ..core.version import VERSION
from .seals import mark_of, missing_seals, read_whole, there, write_whole

if TYPE_CHECKING:
    from ..core.task import Task

FORMAT = 2  # 1: without checksums.json beside it
FILE = "about.json"


@dataclass(frozen=True)
class AboutRun:
    """Names and numbers that stay the same during a run."""

    modes: tuple[str, ...] = ()  # prediction modes of the method, the one that its paper reports first
    classes: tuple[str, ...] = ()  # names of the classes
    groups: tuple[str, ...] = ()  # names of the models, one for each group of clients
    clients: int | None = None
    one_class: int | None = None  # tested clients whose training samples are of a single class
    version: str = ""  # of protofed
    fingerprints: Mapping[str, str] = field(default_factory=dict)  # of files that the run depends on
    shapes: tuple[tuple[int, ...], ...] = ()  # of one input, for each group; empty: the samples lie elsewhere
    dense: bool = False  # labels are masks
    public: int | None = None  # samples of the public data
    group_index: tuple[int, ...] = ()  # group of each client, where the models were given in Python
    notes: tuple[str, ...] = ()  # on the data: its test set was pooled, or is used in part
    folder: str = ""  # where it began: relative paths in its settings are meant from there
    changes: tuple[str, ...] = ()  # with what changed the run was gone on with, and after which round

    @classmethod
    def of_task(cls, task: Task, one_class: int | None = None) -> AboutRun:
        """Of a run that starts now."""
        return cls(
            modes=tuple(task.tested_modes),
            classes=tuple(task.class_names),
            groups=tuple(group.name for group in task.groups),
            clients=task.clients,
            one_class=one_class,
            public=None if task.public is None else len(task.public),
            version=VERSION,
            folder=os.getcwd(),
        )


def has_about(directory: Path) -> bool:
    """Whether about.json is there."""
    return there(directory, FILE)


def write_about(directory: Path, about: AboutRun) -> None:
    """Write about.json into a run directory."""
    format = 1 if mark_of(directory) is None else FORMAT
    write_whole(directory, FILE, {"format": format, **dataclasses.asdict(about)})


def read_about(directory: Path, config: Mapping[str, Any]) -> AboutRun:
    """Of a run directory; of one without about.json only the modes, if the method can be made."""
    path = directory / FILE
    if not has_about(directory):
        return AboutRun(modes=_modes(config))
    found = read_whole(directory, FILE)
    if isinstance(found, dict) and found.get("format") != 1 and mark_of(directory) is None:
        raise missing_seals(directory, FILE)
    try:
        return AboutRun(
            modes=tuple(map(str, found["modes"])),
            classes=tuple(map(str, found["classes"])),
            groups=tuple(map(str, found["groups"])),
            clients=found["clients"],
            one_class=found["one_class"],
            notes=tuple(map(str, found.get("notes", ()))),
            group_index=tuple(map(int, found.get("group_index", ()))),
            shapes=tuple(tuple(map(int, shape)) for shape in found.get("shapes", ())),
            public=found.get("public"),
            dense=bool(found.get("dense")),
            changes=tuple(map(str, found.get("changes", ()))),
            folder=str(found.get("folder", "")),
            version=str(found["version"]),
            fingerprints=dict(found["fingerprints"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{path} is damaged; remove it, and the run can be read without") from error


def _modes(config: Mapping[str, Any]) -> tuple[str, ...]:
    from ..config import resolve  # with torch, which other runs are read without

    try:
        return tuple(resolve(config).make_method().modes)
    except ConfigError:  # a method that is not installed here
        return ()
