"""Written forms of data whose relative paths are meant from another folder, the one where a run began."""

from __future__ import annotations

import os
from pathlib import Path

from ..core.user_files import is_form
from .base import sources
from .site_specs import SPLIT
from .specs import parse_source


def path_from(path: str, folder: Path) -> str:
    """A path as it was meant in `folder`; as it is written where nothing lies there."""
    there = folder / os.path.expanduser(path.strip())
    return str(there) if there.exists() else path


def spec_from(spec: str, folder: Path) -> str:
    """A data set as it was meant in `folder`: its path, or those of its sites, from anywhere."""
    kind, colon, rest = spec.partition(":")
    if is_form(spec) or not colon or kind.strip() not in sources:
        return spec
    wanted = sources[kind.strip()].positional
    if wanted not in ("path", "files"):
        return spec
    given = parse_source(spec)[1].get(wanted, "")
    if wanted == "path":
        meant = path_from(given, folder)
    else:
        meant = SPLIT.join(_site_from(one, folder) for one in given.split(SPLIT))
    return f"{kind}:{rest.replace(given, meant, 1)}"


def _site_from(one: str, folder: Path) -> str:
    kind, colon, _ = one.strip().partition(":")
    return spec_from(one.strip(), folder) if colon and kind in sources else path_from(one, folder)
