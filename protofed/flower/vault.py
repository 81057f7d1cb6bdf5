"""A client's private state on its own disk: two steps, so that a lost reply loses nothing.

    <root>/<experiment>/<client>/journal.json             which state is committed, which pending; checksums
    <root>/<experiment>/<client>/state-3.0.safetensors    after round 3, leg 0
    <root>/<experiment>/<client>/reply-3.0.safetensors    the upload of that leg, to be sent again

A client that trained keeps its new state *pending*. The next packet names the last tag that the server
accepted: then the pending state is committed, or thrown away. So a client whose reply was lost, refused
or late goes on from where the server thinks it is. A packet of an older round, or of a server that has
been restarted since, is refused; after a restart the server may go back by one committed state.

Nothing is used that is not as it was written: the journal has a checksum and a copy, and holds those of the
other files. A damaged reply is computed again; a damaged state is refused.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError
from torch import Tensor

from ..core.answer import ClientState
from ..core.checksums import digest as checksum
from ..core.errors import DamageError, MessageError, RunError
from ..core.record import Tree
from ..core.tensor_file import of_bytes, to_bytes
from ..ops.trees import put, under
from ..runs.files import write_atomic
from .journal import read_journal
from .packet import Meta

REMEMBERED = 2  # committed states kept, for a server that falls back to its previous checkpoint
log = logging.getLogger("protofed")


class Tag(NamedTuple):
    """A moment in training: the round, and the number of the leg in it."""

    round: int
    leg: int

    def __str__(self) -> str:
        return f"{self.round}.{self.leg}"

    @classmethod
    def read(cls, text: str) -> Tag | None:
        """Inverse of `str`; "" means before the first round."""
        if not text:
            return None
        if not re.fullmatch(r"\d{1,9}\.\d{1,9}", text):
            raise MessageError(f"message: {text!r} is not a tag such as 3.0")
        round, leg = text.split(".")
        return cls(int(round), int(leg))


class Request(NamedTuple):
    """What a packet says about time: which server, what it accepted last, what it asks for."""

    session: int  # grows with every start of the server
    accepted: Tag | None
    tag: Tag | None = None  # None for a test
    digest: str = ""  # of the download: a stored reply answers the same question only


class Vault:
    """The states of one client in one experiment."""

    def __init__(self, root: Path, experiment: str, client: str):
        for part in (experiment, client):
            if not re.fullmatch(r"[\w-]{1,80}", part):
                raise MessageError(f"message: {part!r} is no name for a directory (letters, digits, - and _)")
        self.path = root / experiment / client
        self._journal = read_journal(self.path)

    @property
    def committed(self) -> Tag | None:
        """The last tag that the server is known to have accepted."""
        tags = self._journal.committed
        return Tag.read(tags[-1]) if tags else None

    @property
    def pending(self) -> Tag | None:
        """What was trained, but not yet known to be accepted."""
        pending = self._journal.pending
        return Tag.read(pending["tag"]) if pending else None

    def open(self, request: Request) -> ClientState | None:
        """The state that the server believes this client has. Commits or forgets the pending one."""
        self._refuse_old(request)
        journal = self._journal
        restarted = request.session > journal.session
        journal.session = request.session
        if request.accepted is not None and request.accepted == self.pending:
            journal.committed = [*journal.committed, str(self.pending)][-REMEMBERED:]
            journal.pending = None
        elif request.accepted != self.committed:
            self._go_back(request.accepted, restarted)
        self._save()
        return None if request.accepted is None else self.read(request.accepted)

    def reply(self, request: Request) -> tuple[Meta, Tree] | None:
        """The stored reply, if this very request was answered already."""
        pending = self._journal.pending
        if not pending or request.tag != self.pending or pending["digest"] != request.digest:
            return None
        if not pending["reply"]:
            return None
        try:
            return dict(json.loads(pending["reply"])), self._load(f"reply-{request.tag}.safetensors")
        except RunError as error:
            log.warning("%s; this leg is trained again", error)
            return None

    def keep(
        self, request: Request, state: ClientState, reply: Meta | None = None, up: Tree | None = None
    ) -> None:
        """Hold a new state as pending, with the reply unless None."""
        assert request.tag is not None
        self._write(f"state-{request.tag}.safetensors", _flat(state))
        if up is not None:
            self._write(f"reply-{request.tag}.safetensors", up)
        text = (
            None if reply is None else json.dumps(reply)
        )  # a loss may be NaN, which the journal cannot hold
        self._journal.pending = {"tag": str(request.tag), "digest": request.digest, "reply": text}
        self._save()

    def install(self, tag: Tag, state: ClientState) -> None:
        """Put a state here as committed, from a checkpoint: only where server and client share a disk."""
        self._write(f"state-{tag}.safetensors", _flat(state))
        self._journal.committed, self._journal.pending = [str(tag)], None
        self._save()

    def read(self, tag: Tag) -> ClientState:
        """The state after a leg."""
        arrays = self._load(f"state-{tag}.safetensors")
        return ClientState(under("kept/", arrays), under("mem/", arrays))

    def _refuse_old(self, request: Request) -> None:
        if request.session < self._journal.session:
            raise MessageError("old message: it is from before the server's last start")
        committed = self.committed
        late = request.tag is not None and committed is not None and request.tag <= committed
        if late and request.session == self._journal.session:
            raise MessageError(f"old message: round {request.tag} is done, this client stands at {committed}")

    def _go_back(self, accepted: Tag | None, restarted: bool) -> None:
        known = [Tag.read(text) for text in self._journal.committed]
        if not restarted or (accepted is not None and accepted not in known):
            raise MessageError(
                f"the server last accepted {accepted or 'nothing'} of this client, but its disk holds "
                f"{self.committed or 'no round'} ({self.path}); start a new run, or restore that directory"
            )
        kept = known[: known.index(accepted) + 1] if accepted is not None else []
        self._journal.committed, self._journal.pending = [str(tag) for tag in kept], None

    def _save(self) -> None:
        journal = self._journal
        used = {*journal.committed, *([journal.pending["tag"]] if journal.pending else [])}
        journal.files = {name: known for name, known in journal.files.items() if _tag_in(name) in used}
        journal.write(self.path)
        for path in self.path.glob("*-*.safetensors"):
            if _tag_in(path.name) not in used:
                path.unlink(missing_ok=True)

    def _write(self, name: str, arrays: Mapping[str, Tensor]) -> None:
        data = to_bytes(arrays)
        self.path.mkdir(parents=True, exist_ok=True)
        write_atomic(self.path / name, data)
        self._journal.files[name] = checksum(data)

    def _load(self, name: str) -> Tree:
        path = self.path / name
        try:
            data = path.read_bytes()
            if checksum(data) != self._journal.files.get(name):
                raise DamageError(
                    f"{path} is damaged: its checksum does not match; restore it, or start a new run"
                )
            return of_bytes(data)
        except (OSError, SafetensorError) as error:
            raise RunError(f"{path} cannot be read: {error}") from error


def _tag_in(name: str) -> str:
    """Of the name of a file: state-3.0.safetensors → 3.0."""
    return name.removesuffix(".safetensors").split("-", 1)[1]


def _flat(state: ClientState) -> Tree:
    return {**put("kept/", state.kept), **put("mem/", state.mem)}


def digest(arrays: Mapping[str, Tensor]) -> str:
    """Of names and values."""
    total = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        tensor = arrays[name].detach().cpu().contiguous()
        total.update(f"{name} {tensor.dtype} {list(tensor.shape)} ".encode())
        total.update(to_bytes({"x": tensor}))
    return total.hexdigest()
