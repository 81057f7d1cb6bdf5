"""Which runs in a study's folder are what is planned: the same settings and the same contents.

Content counts, not place: a data file or the runs themselves may have been moved. Data, split, files of the
user's, weights and the version of protofed are compared with what a run's about.json says. A run of an
earlier version, which does not say it, is not taken: nobody can tell what it rests on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config import Config, resolve
from ..core.checksums import digest
from ..core.errors import ProtofedError
from ..core.version import VERSION
from ..core.written_files import change_files
from ..data import Dataset, load
from ..experiment import public_data, split_of
from ..runs.about import AboutRun, has_about, read_about
from ..runs.contents import DATA, EARLIER, all_changes, by_content, of_data, of_public, of_split
from ..runs.directory import RunDir
from ..runs.fingerprint import of_settings, weights_in
from ..runs.kept_files import settings_with_kept
from .plan import Planned, deciding

FINISH = "summary.json"


@dataclass(frozen=True)
class Identity:
    """What makes two runs the same run."""

    settings: str  # all that decides its numbers, without data and places
    contents: tuple[tuple[str, str], ...]
    version: str

    @property
    def short(self) -> str:
        """A hash of it."""
        return digest(repr((self.settings, self.contents, self.version)).encode())


@dataclass(frozen=True)
class OnShelf:
    """Where a planned run is or will be; `note` says why one that looks like it is not taken, or is taken
    without a check."""

    path: Path
    there: bool = False
    note: str = ""
    identity: Identity | None = None


@dataclass(frozen=True)
class _Kept:
    path: Path
    written: Mapping[str, Any]
    about: AboutRun | None = None
    identity: Identity | None = None


class Shelf:
    """The runs in a folder, read once, and the contents that planned runs would rest on."""

    def __init__(self, root: Path):
        self.root = root
        self._kept = [_read(path) for path in sorted(root.glob("*/")) if (path / "config.json").exists()]
        self._data: tuple[str, Dataset] | None = None  # one at a time: it may be large
        self._known: dict[tuple[Any, ...], dict[str, str]] = {}
        self._taken: set[Path] = set()

    def find(self, planned: Planned) -> OnShelf:
        """A run that is what is planned; else a new place for it."""
        try:
            now = self.contents(planned.config)
        except ProtofedError as error:
            return self._unchecked(planned, error)
        wanted = identity(planned.config, now, VERSION)
        for one in self._kept:
            if one.identity == wanted:
                return OnShelf(one.path, there=True, identity=wanted)
        return OnShelf(self._place(planned), False, self._why_not(planned, wanted.settings, now), wanted)

    def contents(self, config: Config) -> dict[str, str]:
        """Fingerprints of what a run would rest on now; what several runs share is read once."""
        divided = (config.data, config.partition, config.clients, config.seed, config.validation)
        if divided not in self._known:
            dataset = self._load(config.data)
            split = split_of(config, dataset)
            self._known[divided] = {**self._known[config.data,], **of_split(split)}
        found = {**of_settings(config.to_dict()), **self._known[divided]}
        if (public := public_data(config, self._load(config.data).shape)) is not None:
            found |= of_public(public)
        return found

    def _load(self, spec: str) -> Dataset:
        if self._data is None or self._data[0] != spec:
            self._data = (spec, load(spec))
        if (spec,) not in self._known:
            self._known[spec,] = of_data(self._data[1])
        return self._data[1]

    def _unchecked(self, planned: Planned, error: ProtofedError) -> OnShelf:
        """The data cannot be read: a finished run with the same settings is still worth a table."""
        for one in self._kept:
            same = one.identity and one.identity.settings == identity(planned.config, {}, "").settings
            if same and one.written.get("data") == planned.config.data and (one.path / FINISH).exists():
                return OnShelf(one.path, True, f"not checked: {error}", one.identity)
        return OnShelf(self._place(planned))

    def _place(self, planned: Planned) -> Path:
        """A folder that no other run has; one in which no round was finished is begun anew."""
        path, number = self.root / planned.folder, 1
        while path in self._taken or (path / "metrics.jsonl").exists():
            number += 1
            path = self.root / f"{planned.folder}-{number}"
        self._taken.add(path)
        return path

    def _why_not(self, planned: Planned, settings: str, now: Mapping[str, str]) -> str:
        """Of the latest run that looks like the planned one: what is different."""
        for one in reversed(self._kept):
            name = one.path.name
            if not name.startswith(planned.stem) or one.written["data"] != planned.config.data:
                continue
            if one.about is None or DATA not in one.about.fingerprints:
                return f"{name} is of an earlier version, which does not tell what data it had"
            if one.identity and one.identity.settings == settings:
                return f"{name} is not the same: {_different(one.about, now, planned.config)}"
            if name == planned.folder:
                return f"{name} is not the same: it was prolonged"
        return ""


def _different(about: AboutRun, now: Mapping[str, str], config: Config) -> str:
    found = all_changes(about, now, config.to_dict())
    if EARLIER in about.fingerprints:
        found.append("it was gone on with after a change")
    return "; ".join(found)


def identity(config: Config, found: Mapping[str, str], version: str) -> Identity:
    """Of a configuration and the fingerprints of what it rests on."""
    settings = change_files(config.to_dict(), os.path.basename)
    values = {**deciding(config), **{key: settings[key] for key in ("method", "partition", "models")}}
    for path in weights_in(settings):
        values["models"] = values["models"].replace(path, os.path.basename(path))
    for name in ("data", "public", "imports"):  # by their contents
        values.pop(name, None)
    text = json.dumps(values, sort_keys=True, default=str)
    return Identity(text, tuple(by_content(found)), version)


def _read(path: Path) -> _Kept:
    written = RunDir.open(path).config
    if not has_about(path):
        return _Kept(path, written)
    about = read_about(path, written)
    try:
        config = resolve(settings_with_kept(written, path))
    except ProtofedError:  # of a method that is not here
        return _Kept(path, written, about)
    return _Kept(path, written, about, identity(config, about.fingerprints, about.version))
