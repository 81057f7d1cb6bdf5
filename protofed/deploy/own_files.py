"""Python files of the user's in a deployment: a method that is not protofed's, and what it imports.

They lie beside server.toml and beside each client.toml, with the same content. A client runs only files that
its own client.toml lists under `imports`; what the server names must be among them, and is compared by its
fingerprint before it is run.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from ..core.checksums import digest
from ..core.errors import ConfigError
from ..core.user_files import UserFile, load_file
from ..core.written_files import MODULE, change_files, files_in
from ..runs.fingerprint import of_file

OF_CLIENTS = ("data", "partition", "models")  # which each client chooses for itself


def fingerprints(files: Iterable[UserFile]) -> dict[str, str]:
    """Of the files and of those that they import from beside them, by their paths from the common folder."""
    return {
        os.path.relpath(path, file.path.parent): digest(text)
        for file in files
        for path, text in file.texts.items()
    }


def common_files(settings: Mapping[str, Any]) -> list[str]:
    """The files that server and clients both need, as the settings name them."""
    return files_in({key: value for key, value in settings.items() if key not in OF_CLIENTS})


def load_common(settings: Mapping[str, Any]) -> list[UserFile]:
    """These files, run."""
    return [load_file(file, f"recipe: {file}") for file in common_files(settings)]


def by_name(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as they are agreed: files by their names alone, because folders differ."""
    return change_files(settings, os.path.basename)


def check_member(name: str, has: Mapping[str, str], needed: Mapping[str, str]) -> None:
    """Whether a client has the server's files."""
    for file, fingerprint in needed.items():
        if file not in has:
            raise ConfigError(
                f"client {name} lacks {file}, which the run needs: put it beside its client.toml and write "
                f'there: imports = ["{file}"]'
            )
        if has[file] != fingerprint:
            raise ConfigError(
                f"client {name} has another {file} than the server (fingerprint {has[file][:8]}, here "
                f"{fingerprint[:8]}); copy the server's there"
            )


def found_at(
    settings: Mapping[str, Any], needed: Mapping[str, str], home: Path, allowed: Collection[str] | None
) -> dict[str, Any]:
    """Agreed settings with the files of this machine, after a look that they are the agreed ones. A client
    gives the names that it allows."""
    named = common_files(settings) + _in_options(settings)
    for file in named:
        if file not in needed or os.path.basename(file) != file:
            raise ConfigError(f"the agreement names the file {file!r} without a fingerprint: it is not run")
        if allowed is not None and file not in allowed:
            raise ConfigError(f'the run needs {file}; allow it in client.toml: imports = ["{file}"]')
    for file, fingerprint in needed.items():
        if not (home / file).is_file() or of_file(home / file) != fingerprint:
            raise ConfigError(f"{home / file} is not the file with which the run began; put that one back")
    own = {key: value for key, value in settings.items() if key in OF_CLIENTS}
    return {**change_files(settings, lambda file: str(home / file)), **own}


def _in_options(settings: Mapping[str, Any]) -> list[str]:
    """Files of auxiliary models, which are options of the method."""
    values = (value for value in settings.get("options", {}).values() if isinstance(value, str))
    return [file for value in values for file in MODULE.findall(value)]
