"""Files of sites as settings: what --sites of commands, and `sites` in recipes and Python, stand for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..core.errors import ConfigError
from ..core.user_files import is_form
from .base import sources

SPLIT = "|"
KINDS = {".csv": "csv", ".npz": "npz", ".parquet": "parquet"}


def settings_of_sites(files: Any, each: str = "") -> dict[str, Any]:
    """Data, partition and number of clients: one client for each file."""
    if (
        isinstance(files, str)
        or not isinstance(files, Sequence)
        or not all(isinstance(f, str) for f in files)
    ):
        raise ConfigError(f"sites: expected a list of files, got {files!r}")
    if odd := [file for file in files if SPLIT in file]:
        raise ConfigError(f"sites: {odd[0]!r} holds {SPLIT!r}, which stands between sites; rename the file")
    common = f",each={each.replace(',', ';')}" if each else ""
    return {"data": f"sites:{SPLIT.join(files)}{common}", "partition": "natural", "clients": 0}


def as_spec(file: str) -> str:
    """The data set of a site: "a.csv" is csv:a.csv, a folder is folder:…; what names its kind stays."""
    file = file.strip()
    kind = file.partition(":")[0]
    if is_form(file) or (":" in file and kind in sources):
        return file
    path = Path(os.path.expanduser(file))
    if path.is_dir():
        kind = "parquet" if any(path.glob("*.parquet")) else "folder"
        return f"{kind}:{path}"
    if path.suffix.lower() in KINDS:
        return f"{KINDS[path.suffix.lower()]}:{path}"
    if file in sources:
        return file
    what = "is of no known kind" if path.exists() else "is neither a file nor a folder"
    raise ConfigError(
        f"sites: {file!r} {what}; give .csv, .npz or .parquet files, folders of images, or a data set "
        "with its "
        "kind in front, as csv:table.txt,label=diagnosis"
    )
