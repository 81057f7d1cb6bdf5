"""What a run rests on, by content: data, split, public samples, weights, files of the user's.

Fingerprints of all of them stand in about.json, so that a run is gone on with, or taken for another, only
where they are the same. Paths do not count.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ..core.checksums import digest
from ..core.data import ClientData, LocalData
from ..core.errors import RunError
from ..core.version import VERSION
from ..data import Dataset, Split
from ..data.fingerprints import content_of_arrays, content_of_dataset, content_of_split
from .about import AboutRun, has_about, read_about, write_about
from .directory import RunDir
from .fingerprint import of_settings

DATA, SPLIT, PUBLIC = "data", "split", "public"
EARLIER = "earlier rounds"  # of a run that was gone on with after a change; no other run has such a mark


def contents(
    settings: Mapping[str, Any], dataset: Dataset | None, split: Split | None, public: LocalData | None = None
) -> dict[str, str]:
    """Fingerprints of all that a run with these settings rests on. Samples that lie elsewhere have none."""
    found = {**of_settings(settings), **of_public(public)}
    if dataset is not None:
        found |= of_data(dataset)
    if split is not None:
        found |= of_split(split)
    return found


def of_data(dataset: Dataset) -> dict[str, str]:
    """Of the samples, as they reach the split."""
    return {DATA: content_of_dataset(dataset)}


def of_split(split: Split) -> dict[str, str]:
    """Of the rows of each client."""
    return {SPLIT: content_of_split(split)}


def of_given(data: ClientData) -> dict[str, str]:
    """Of samples that the user brings."""
    parts = [part(client) for client in range(len(data)) for part in (data.train, data.test)]
    return {DATA: content_of_arrays([array.cpu().numpy() for one in parts for array in (one.x, one.y)])}


def of_public(public: LocalData | None) -> dict[str, str]:
    """Of the public samples, if there are any."""
    return {} if public is None else {PUBLIC: content_of_arrays([public.x.cpu().numpy()])}


def changes(began: AboutRun, now: Mapping[str, str], settings: Mapping[str, Any]) -> list[str]:
    """What is no longer as it was when a run began, as words; nothing of files that it keeps copies of, nor
    of public data that its method does not use, which earlier versions read."""
    before = began.fingerprints
    found = [
        f"{words} changed"
        for name, words in (
            (DATA, f"its data {settings.get('data')}"),
            (PUBLIC, f"its public data {settings.get('public')}"),
        )
        if name in before and before[name] != now.get(name) and (name in now or name == DATA)
    ]
    after = dict(by_content(now))  # weights may be named by another path from another folder
    if not found and SPLIT in before and before[SPLIT] != now.get(SPLIT):
        found.append("its split changed (the same data is divided otherwise)")
    found += [
        f"{name} changed"
        for name in before
        if name.startswith(("package ", "weights ")) and before[name] != after.get(os.path.basename(name))
    ]
    return found


def all_changes(began: AboutRun, now: Mapping[str, str], settings: Mapping[str, Any]) -> list[str]:
    """The same with files of the user's and protofed itself."""
    before, after = (dict(by_content(found)) for found in (began.fingerprints, now))
    found = changes(began, now, settings)
    found += [f"{name} changed" for name in after if name.endswith(".py") and before.get(name) != after[name]]
    if began.version != VERSION:
        found.append(f"protofed was {began.version or 'another'} and is {VERSION}")
    return found


def check_contents(
    directory: RunDir,
    now: Mapping[str, str],
    warn: Callable[[str], None] | None = None,
    told: Callable[[str], None] | None = None,
) -> None:
    """Whether a run still rests on what it began with: `told` hears what changed; without it, that is an
    error. Of a run of an earlier version nothing is known, which `warn` hears."""
    if not has_about(directory.path):
        if warn and directory.checkpoints.exist:
            warn(f"{directory.path}: an earlier version made it; whether its data changed cannot be told")
        return
    found = changes(read_about(directory.path, {}), now, directory.config)
    if found:
        _refuse_or_tell(directory, "; ".join(found), told)


def check_version(directory: RunDir, told: Callable[[str], None] | None) -> None:
    """Whether this protofed is the one that a run began with: another may train otherwise."""
    began = read_about(directory.path, {}).version if has_about(directory.path) else VERSION
    if began != VERSION:
        _refuse_or_tell(directory, f"protofed was {began or 'another'} and is {VERSION}", told)


def _refuse_or_tell(directory: RunDir, what: str, told: Callable[[str], None] | None) -> None:
    text = f"{directory.path} is not as it began: {what}"
    if told is None:
        raise RunError(
            f"{text}; bring back what it was, or go on all the same with "
            f"`protofed resume {directory.path} --changed current`"
        )
    told(text)


def renew_contents(directory: RunDir, now: Mapping[str, str], round: int) -> None:
    """A run goes on after a round with what there is now. That its first rounds rest on something else stays
    marked: it is never taken for a run that had the same throughout, and its readers are told."""
    began = read_about(directory.path, {})
    before = {name: found for name, found in began.fingerprints.items() if name != EARLIER}
    if by_content(before) != by_content(now) or began.version != VERSION:
        marks = {**now, EARLIER: digest(repr((began.version, sorted(began.fingerprints.items()))).encode())}
        what = "; ".join(all_changes(began, now, directory.config)) or "what it rests on changed"
        said = (*began.changes, f"after round {round}, {what}")
        write_about(directory.path, replace(began, version=VERSION, fingerprints=marks, changes=said))


def by_content(fingerprints: Mapping[str, str]) -> list[tuple[str, str]]:
    """The same for equal contents, wherever the files lie."""
    return sorted((os.path.basename(name), found) for name, found in fingerprints.items())
