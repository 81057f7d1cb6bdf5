"""Fingerprints: short texts that differ when what a run depends on differs. Files by their content, installed
packages by their version."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..core.algorithm import methods
from ..core.checksums import digest
from ..core.errors import RunError
from ..core.plugins import plugins
from ..core.user_files import UserFile, load_file
from ..core.written_files import change_models, files_in

WEIGHTS = re.compile(r"(?<=pretrained=)[^,|]+")  # within the written form of models


def of_file(path: Path) -> str:
    """Of a file's content, as it is now."""
    try:
        return digest(path.read_bytes())
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror or error}") from error


def of_package(name: str) -> str:
    """The version of an installed package; "" if there is none."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def of_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """Of all that settings name beyond protofed itself: Python files of the user's, as they were run, files
    of weights, and the package that brings the method."""
    found = {
        name: digest(text)
        for written, file in user_files(settings).items()
        for name, text in texts(written, file).items()
    }
    found |= {f"weights {path}": of_file(Path(path).expanduser()) for path in weights_in(settings)}
    point = plugins(methods.group).get(str(settings.get("method")))
    if point is not None and point.dist is not None:
        found[f"package {point.dist.name}"] = of_package(point.dist.name)
    return found


def weights_in(settings: Mapping[str, Any]) -> list[str]:
    """The files of weights that models name, as written."""
    written: list[str] = []

    def note(form: str) -> str:
        written.extend(WEIGHTS.findall(form))
        return form

    change_models(settings, note)
    return [path for path in dict.fromkeys(written) if Path(path).expanduser().is_file()]


def user_files(settings: Mapping[str, Any]) -> dict[str, UserFile]:
    """The files that settings name, by the way they are written there."""
    return {written: load_file(written, written) for written in files_in(settings)}


def texts(written: str, file: UserFile) -> dict[str, bytes]:
    """A file and those beside it that it imports, by names that are written like its own."""
    folder = os.path.dirname(written)
    return {
        os.path.join(folder, os.path.relpath(path, file.path.parent)): text
        for path, text in file.texts.items()
    }
