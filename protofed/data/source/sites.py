"""Several files, each the data of one site: sites:a.csv|b.npz|c/. For commands: --sites a.csv b.npz c/.

Classes are matched by their names, columns of tables too; sites need not have the same classes, but inputs of
one form. Constants (`standardise`, `missing`) are each site's own, as they would be if the files lay apart;
values of categories are those of all sites.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ...core.errors import ConfigError, DataError
from ...core.options import build, option, options_of
from ...core.user_files import is_form
from ..base import VOID, Dataset, Source, sources
from ..inputs import InputRule
from ..site_specs import SPLIT, as_spec
from ..specs import load, parse_source
from .csv import Csv, CsvTable


@sources.register("sites")
@dataclass(frozen=True)
class Sites(Source):
    """sites:FILE|FILE|…, one file or folder for each site; use with the partition natural."""

    positional: ClassVar[str] = "files"
    files: str = option("", "files, folders or data sets with options, joined by |")
    each: str = option("", "options for all sites that have them, joined by ;, as label=diagnosis;drop=id")

    def load(self) -> Dataset:
        specs = [as_spec(one) for one in self.files.split(SPLIT) if one.strip()]
        if len(specs) < 2:
            raise DataError(
                f"sites: expected at least two files joined by |, got {self.files!r}; a single file is "
                "read by "
                "its own name, as csv:PATH"
            )
        names = site_names(specs)
        given = with_common(specs, self.each)
        parts = _tables(given, names) if all(isinstance(one, Csv) for one in given) else _parts(given)
        return join(parts, names)


def with_common(specs: Sequence[str], each: str) -> list[Source | str]:
    """A source for each site, or the written form of a user's function; options of `each` go to those that
    know them."""
    wanted = _read_options(each)
    used: set[str] = set()
    made: list[Source | str] = []
    for spec in specs:
        name, options = parse_source(spec)
        if is_form(name):
            made.append(spec)
            continue
        known = {info.name for info in options_of(sources[name])}
        fitting = {key: value for key, value in wanted.items() if key in known}
        used |= fitting.keys()
        made.append(build(sources[name], {**fitting, **options}, f"site {spec}"))
    if lost := [key for key in wanted if key not in used]:
        raise ConfigError(f"sites: each: no site has an option {lost[0]!r}; see `protofed list data csv`")
    return made


def _read_options(each: str) -> dict[str, str]:
    found = {}
    for part in filter(None, (part.strip() for part in each.split(";"))):
        key, equals, value = part.partition("=")
        if not equals:
            raise ConfigError(f"sites: each: expected KEY=VALUE, got {part!r}")
        found[key.strip().replace("-", "_")] = value.strip()
    return found


def site_names(specs: Sequence[str]) -> tuple[str, ...]:
    """A short name for each site: that of its file, with as many folders as tell them apart."""
    paths = [Path(parse_source(spec)[1].get("path", spec)) for spec in specs]
    for depth in range(1, 6):
        tops = [[*path.parent.parts[len(path.parent.parts) - depth + 1 :], path.stem] for path in paths]
        names = ["/".join(part for part in top if part != "/") for top in tops]
        if len(set(names)) == len(names):
            return tuple(names)
    return tuple(f"{number}: {path}" for number, path in enumerate(paths))


def _parts(given: Sequence[Source | str]) -> list[Dataset]:
    return [load(one) if isinstance(one, str) else one.load() for one in given]


def _tables(given: Sequence[Any], names: Sequence[str]) -> list[Dataset]:
    """Tables with their columns in one order, and categories that have the values of all sites."""
    tables: list[CsvTable] = [source.read() for source in given]
    first = tables[0].features
    for table, name in zip(tables[1:], names[1:]):
        if odd := sorted(first.keys() ^ table.features.keys()):
            has, lacks = (names[0], name) if odd[0] in first else (name, names[0])
            raise DataError(
                f"sites: {has} has a column {odd[0]!r}, which {lacks} has not; give all sites the same "
                "columns, or "
                f"leave it out with drop={odd[0]}"
            )
    tables = [table._replace(features={name: table.features[name] for name in first}) for table in tables]
    known = _values_of_all(given, tables)
    return [source.dataset(table, known) for source, table in zip(given, tables)]


def _values_of_all(given: Sequence[Csv], tables: Sequence[CsvTable]) -> Mapping[str, set[str]]:
    from ..table import fit_columns

    known: dict[str, set[str]] = {}
    for source, table in zip(given, tables):
        if source.onehot:
            for column in fit_columns(table.features, ~table.test, source.wanted, source.path):
                if column.values:
                    known.setdefault(column.name, set()).update(column.values)
    return known


def join(parts: Sequence[Dataset], names: Sequence[str]) -> Dataset:
    """One data set whose rows are owned by the sites; DataError where inputs have different forms."""
    first = parts[0]
    for part, name in zip(parts[1:], names[1:]):
        _check_alike(first, part, names[0], name)
    classes = _all_classes(parts)
    sizes = [len(part.x) for part in parts]
    rules = tuple(part.rule() for part in parts)
    return Dataset(
        name="+".join(names) if len(names) <= 3 else f"{len(names)} sites",
        x=np.concatenate([np.asarray(part.x) for part in parts]),
        y=np.concatenate([_renumbered(part, classes) for part in parts]),
        test=np.concatenate([part.test for part in parts]),
        classes=classes,
        owner=np.repeat(np.arange(len(parts)), sizes),
        owners=tuple(names),
        mean=first.mean,
        std=first.std,
        augment=first.augment,
        rules=_common(rules),
        notes=_notes(parts),
    )


def _notes(parts: Sequence[Dataset]) -> tuple[str, ...]:
    """Notes that several sites share stand once, with the names of all."""
    found: dict[str, list[str]] = {}
    for part in parts:
        for note in part.notes:
            who, _, what = note.partition(": ")
            found.setdefault(what, []).append(who)
    return tuple(f"{', '.join(who)}: {what}" for what, who in found.items())


def _check_alike(first: Dataset, part: Dataset, one: str, other: str) -> None:
    if first.shape != part.shape:
        raise DataError(
            f"sites: inputs of {one} have shape {list(first.shape)}, of {other} {list(part.shape)}; all "
            "sites need "
            "the same features (images of one size: each=size=64)"
        )
    if first.x.dtype != part.x.dtype or first.dense != part.dense:
        raise DataError(
            f"sites: inputs of {one} are {first.x.dtype}, of {other} {part.x.dtype}; give all sites data "
            "of one kind"
        )
    mine, theirs = ([column.name for column in found.rule().columns] for found in (first, part))
    if mine and theirs and mine != theirs:  # one of the two is no csv file, or both would have been aligned
        raise DataError(f"sites: {one} has the columns {', '.join(mine)}, {other} {', '.join(theirs)}")
    if (first.mean, first.std, first.augment) != (part.mean, part.std, part.augment):
        raise DataError(
            f"sites: {one} and {other} are normalised or augmented differently; give both the same options"
        )


def _all_classes(parts: Sequence[Dataset]) -> tuple[str, ...]:
    """Names of all sites in order: as numbers if all are, else by the alphabet."""
    found = {name.strip() for part in parts for name in part.classes}
    if all(name.isdecimal() for name in found):
        return tuple(sorted(found, key=int))
    return tuple(sorted(found))


def _renumbered(part: Dataset, classes: tuple[str, ...]) -> np.ndarray:
    number = {name: index for index, name in enumerate(classes)}
    table = np.array([*(number[name.strip()] for name in part.classes), VOID])  # index −1 stays void
    return np.asarray(table[np.asarray(part.y)])


def _common(rules: tuple[InputRule, ...]) -> tuple[InputRule, ...]:
    return rules[:1] if all(rule == rules[0] for rule in rules) else rules
