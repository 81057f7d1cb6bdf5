"""Checkpoints: the server state and every client's private state, in safetensors; no pickle.

    checkpoint/manifest.json            round, and the files that belong to it with size and checksum
    checkpoint/manifest.previous.json   the same for the checkpoint before, in case the newest is damaged
    checkpoint/state-12.safetensors
    checkpoint/client-7-12.safetensors  written only when client 7 changed: cost follows participants
    checkpoint/copies/                  of other files of the run: see seals.py

Files never change once written; the rename of the manifest commits a checkpoint as a whole. Whatever
no manifest names is deleted afterwards. A manifest has a checksum itself, and says how far metrics.jsonl and
clients.jsonl went.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from safetensors import SafetensorError

from ..core.checksums import CHECK, LastLine, digest, seal, unseal
from ..core.errors import MessageError, RunError
from .files import finite, read_json, write_atomic, write_json
from .seals import mark_of, missing_seals

if TYPE_CHECKING:  # torch is imported where tensors are read or written: a run is shown without
    from ..core.record import Record, Tree
    from ..engines.store import Store


class Loaded(NamedTuple):
    """What a checkpoint held besides the clients' states."""

    round: int
    state: Record
    engine: dict[str, Any]
    warning: str = ""


class Checkpoints:
    """The checkpoints of one run directory."""

    def __init__(self, directory: Path):
        self.run = directory
        self.directory = directory / "checkpoint"
        self._files: dict[str, dict[str, Any]] = {}
        self._clients: dict[str, str] = {}
        self._last: dict[str, Any] | None = None  # the newest manifest known to be whole

    @property
    def manifest(self) -> Path:
        """Of the newest checkpoint."""
        return self.directory / "manifest.json"

    @property
    def previous(self) -> Path:
        """Of the checkpoint before."""
        return self.directory / "manifest.previous.json"

    @cached_property
    def mark(self) -> str | None:
        """Of the run; None for one of an earlier version."""
        return mark_of(self.run)

    def save(
        self,
        round: int,
        state: Record,
        store: Store,
        engine: dict[str, Any] | None = None,
        lines: Mapping[str, LastLine] | None = None,
        edition: str = "",
    ) -> None:
        """Write what changed since the last call, then commit. `engine`: what the engine must remember;
        `lines`: how far the run's files of lines go; `edition` tells files from those of the same round that
        were written before."""
        from ..ops.trees import put

        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot write {self.directory}: {error.strerror or error}") from error
        name = f"state-{round}{edition}.safetensors"
        self._write(name, state.arrays())
        for client in sorted(store.changed):
            private = store.get(client)
            assert private is not None
            file = f"client-{client}-{round}{edition}.safetensors"
            self._write(file, {**put("kept/", private.kept), **put("mem/", private.mem)})
            self._clients[str(client)] = file
        used = {name, *self._clients.values()}
        manifest: dict[str, Any] = {
            "format": 1,
            "round": round,
            "state": name,
            "clients": dict(self._clients),
            "files": {file: self._files[file] for file in sorted(used)},
            "engine": engine or {},
            "previous": self._last is not None,
            "lines": {name: list(head) for name, head in (lines or {}).items()},
        }
        if self._last is not None:  # not a copy of the file, which may be damaged
            self._write_manifest(self.previous, self._last)
            used |= set(self._last["files"])
        self._write_manifest(self.manifest, manifest)
        self._last = manifest
        store.changed.clear()
        self._sweep(used)

    def rewrite(
        self, round: int, state: Record, store: Store, engine: dict[str, Any], without: Iterable[int]
    ) -> None:
        """The checkpoint that was loaded anew, without the states of some clients. It is the only one then:
        what was taken out is in none of its files."""
        for client in without:
            store.drop(client)
            store.changed.discard(client)
            self._clients.pop(str(client), None)
        numbers = (f"-{number}" for number in itertools.count(1))
        edition = next(e for e in numbers if not (self.directory / f"state-{round}{e}.safetensors").exists())
        lines, self._last = self.loaded_heads, None
        self.save(round, state, store, engine, lines, edition)
        self.previous.unlink(missing_ok=True)

    @property
    def exist(self) -> bool:
        """Whether there is any."""
        return self.manifest.exists() or self.previous.exists()

    def load(self, record: type[Record], store: Store) -> Loaded:
        """The newest whole checkpoint; fills the store.

        A damaged newest checkpoint is named in the warning and the one before is taken.
        """
        if not self.exist:
            raise RunError(f"cannot resume: no checkpoint in {self.directory}")
        problems = []
        for path in (self.manifest, self.previous):
            try:
                found = self._load(path, record, store)
            except RunError as error:
                problems.append(str(error))
                continue
            back = f"going back to the checkpoint of round {found.round}"
            return found._replace(warning=f"{problems[0]}; {back}" if problems else "")
        raise RunError(f"cannot resume: {'; '.join(problems)}")

    def heads(self) -> dict[str, LastLine]:
        """How far the files of lines went at the newest checkpoint whose manifest is whole."""
        for path in (self.manifest, self.previous):
            with suppress(RunError):
                return _heads(self.read_manifest(path))
        return {}

    @property
    def loaded_heads(self) -> dict[str, LastLine]:
        """The same at the checkpoint that was loaded; none before the first."""
        return _heads(self._last or {})

    def settle(self) -> None:
        """The checkpoint that was loaded is the newest now, even if it was the one before."""
        if self._last is not None:
            with suppress(RunError):
                if self.read_manifest(self.manifest) == self._last:
                    return
            self._write_manifest(self.manifest, self._last)

    def read_manifest(self, path: Path) -> dict[str, Any]:
        """What a manifest says, if it is what the run wrote."""
        found = read_json(path)
        if self.mark is not None:
            return unseal(found, path, self.mark)
        if not isinstance(found, dict):
            raise RunError(f"{path} is damaged: it is not a manifest")
        if CHECK in found:
            raise missing_seals(self.run, path.name)
        return found

    def _write_manifest(self, path: Path, manifest: dict[str, Any]) -> None:
        value = finite(manifest)
        write_json(path, value if self.mark is None else seal(value, self.mark))

    def _load(self, path: Path, record: type[Record], store: Store) -> Loaded:
        from ..core.answer import ClientState
        from ..ops.trees import under

        manifest = self.read_manifest(path)
        try:
            files, clients = manifest["files"], manifest["clients"]
            state = record.of(self._read(manifest["state"], files))
            states = {int(client): self._read(file, files) for client, file in clients.items()}
            round = int(manifest["round"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RunError(f"{path} is damaged: it lacks the names of its files or the round") from error
        except MessageError as error:
            raise RunError(f"{path} belongs to another method: {error}") from error
        for client, arrays in states.items():
            store.put(client, ClientState(under("kept/", arrays), under("mem/", arrays)))
        store.changed.clear()
        self._files, self._clients, self._last = dict(files), dict(clients), manifest
        return Loaded(round, state, dict(manifest.get("engine", {})))

    def _write(self, name: str, arrays: Tree) -> None:
        from ..core.tensor_file import to_bytes

        data = to_bytes(arrays)
        write_atomic(self.directory / name, data)
        self._files[name] = {"bytes": len(data), "blake2b": digest(data)}

    @property
    def has_previous(self) -> bool:
        """Whether there was a checkpoint before the newest, by its manifest."""
        with suppress(RunError):
            return bool(self.read_manifest(self.manifest).get("previous"))
        return False

    def check(self, path: Path) -> int:
        """The round of a checkpoint, if its manifest and all its files are what the run wrote; else
        RunError."""
        manifest = self.read_manifest(path)
        try:
            for file in manifest["files"]:
                self._bytes(file, manifest["files"])
            return int(manifest["round"])
        except (KeyError, TypeError, ValueError) as error:
            raise RunError(f"{path} is damaged: it lacks the names of its files or the round") from error

    def _read(self, name: str, files: dict[str, dict[str, Any]]) -> Tree:
        from ..core.tensor_file import of_bytes

        try:
            return of_bytes(self._bytes(name, files))
        except SafetensorError as error:
            raise RunError(f"{self.directory / name} is damaged: {error}") from error

    def _bytes(self, name: str, files: dict[str, dict[str, Any]]) -> bytes:
        path = self.directory / name
        try:
            data = path.read_bytes()
        except OSError as error:
            raise RunError(f"{path} cannot be read: {error.strerror or error}") from error
        if len(data) != files[name]["bytes"] or digest(data) != files[name]["blake2b"]:
            raise RunError(f"{path} is damaged ({len(data)} bytes, {files[name]['bytes']} expected)")
        return data

    def _sweep(self, used: set[str]) -> None:
        """Delete files of neither this checkpoint nor the one before."""
        for path in self.directory.glob("*.safetensors"):
            if path.name not in used:
                path.unlink()
                self._files.pop(path.name, None)


def _heads(manifest: Mapping[str, Any]) -> dict[str, LastLine]:
    return {name: LastLine(*head) for name, head in manifest.get("lines", {}).items()}
