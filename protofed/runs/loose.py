"""Files beside a run that other processes write than the one that holds its lock: each has its own checksum.

checksums.json has one writer. What the server of a deployment, its app and trackers note while a run goes on
(who is connected, how many bytes Flower counted, …) is therefore sealed file by file. Nothing that a run
computes depends on them: a damaged one is refused in one line, which says what to do. They are bound to their
owner, so that one of another run does not match: notes of a deployment to the mark in deployment.json, which
its first start made, those of trackers to the mark of the run.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..core.checksums import CHECK, seal, unseal
from ..core.errors import DamageError, RunError
from .files import as_json, finite, read_json, write_atomic
from .seals import mark_of

REMEDIES = {
    "status.json": "a running server writes it anew with the next event; of a run that has ended, remove it",
    "traffic.json": "remove it: Flower's count of bytes on the wire begins anew, nothing else is lost",
    "deployment.json": "the server writes it anew: protofed server DIR --out RUN",
    "reading.json": "remove it: it only says whose reply was read when the server ended",
    "measured.json": "measure again",
    "mlflow.json": "remove it: rounds that MLflow has already go into a new run there",
}
DEPLOYMENT, TRACKERS = "deployment.json", ("mlflow.json",)
log = logging.getLogger("protofed")


def write_loose(path: Path, value: Mapping[str, Any], flush: bool = True) -> None:
    """Write a JSON object with its checksum, whole or not at all; what is not finite as null."""
    write_atomic(path, as_json(seal(finite(dict(value)), _key(path))), flush)


def read_loose(path: Path) -> dict[str, Any]:
    """What `write_loose` wrote; DamageError if it is anything else. One without a checksum, as earlier
    versions wrote them, is read with a warning."""
    try:
        found = read_json(path)
        if isinstance(found, dict) and CHECK not in found and _older(path, found):
            log.warning("%s has no checksum: an earlier version wrote it, or it is damaged", path)
            return found
        return unseal(found, path, _key(path))
    except RunError as error:
        if not path.exists():
            raise
        raise DamageError(f"{path} is damaged, or of another run; {REMEDIES[path.name]}") from error


def _key(path: Path) -> str:
    """What binds a file to its owner: see above. A damaged owner binds nothing, and is told of by itself."""
    owner = path.with_name(DEPLOYMENT)
    if path.name in TRACKERS:
        return f"{path.name} {mark_of(path.parent) or ''}"
    with suppress(RunError):
        if path != owner:
            return f"{path.name} {unseal(read_json(owner), owner, owner.name).get('mark', '')}"
    return path.name


def _older(path: Path, found: Mapping[str, Any]) -> bool:
    """Whether an earlier version may have written it: its deployments had no mark, and said only where."""
    if path.name in TRACKERS:
        return True
    owner = path.with_name(DEPLOYMENT)
    if path == owner or not owner.exists():
        return path != owner or found.keys() == {"server"}
    try:
        return bool(read_json(owner).keys() == {"server"})
    except (RunError, AttributeError):
        return False


def problem(path: Path) -> str:
    """What is wrong with a file, if anything; "" for a whole one."""
    try:
        unseal(read_json(path), path, _key(path))
    except RunError as error:
        return f"{error}; {REMEDIES[path.name]}"
    return ""
