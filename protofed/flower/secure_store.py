"""What a client keeps of a secure sum between two messages, in a file beside its states.

Each message may be answered by a process of its own, so keys and seeds of the sum that is under way lie on
the client's disk; they are gone when it was opened, or when the next one begins. Two things stay: the latest
sum in which this client took part, so that no earlier message is answered, and for whom it opened the latest
leg. If that leg is asked for again, it is opened for the same clients or not at all: the difference of two
sums would be what one client sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..core.checksums import seal, unseal
from ..core.errors import MessageError, RunError
from ..runs.files import read_json, write_json
from ..trust.secure_client import Keys, Session
from .secure_messages import Moment

NAME = "secure.json"


@dataclass
class SecureStore:
    """The file of one client in one run."""

    path: Path
    latest: tuple[int, int] = (0, 0)  # session and attempt
    session: Session | None = None
    opened: dict[str, Any] = field(default_factory=dict)  # tag and survivors

    @classmethod
    def read(cls, folder: Path) -> SecureStore:
        """What was kept; nothing, where there is no file."""
        path = folder / NAME
        if not path.exists():
            return cls(path)
        try:
            values = unseal(read_json(path), path, _owner(folder))
            session = None if values["session"] is None else _session(values["session"])
            return cls(path, tuple(values["latest"]), session, dict(values["opened"]))
        except (RunError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise MessageError(f"{path} is damaged: remove it, and start a new run") from error

    def begin(self, moment: Moment, session: Session) -> None:
        """A new sum, later than all before."""
        if (moment.session, moment.attempt) <= tuple(self.latest):
            raise MessageError("secure sum: an old message: a later sum has begun since")
        self.latest = (moment.session, moment.attempt)
        self.keep(session)

    def current(self, sum_id: bytes) -> Session:
        """The sum that is under way, if it is this one."""
        if self.session is None or self.session.sum_id != sum_id:
            raise MessageError("secure sum: this client is not in the midst of that sum")
        return self.session

    def keep(self, session: Session | None) -> None:
        """Write what is known by now; None: the sum has ended, its secrets go."""
        self.session = session
        self.path.parent.mkdir(parents=True, exist_ok=True)
        known = None if session is None else _written(session)
        values = {"latest": list(self.latest), "session": known, "opened": self.opened}
        write_json(self.path, seal(values, _owner(self.path.parent)))

    def check_opening(self, tag: str, survivors: tuple[int, ...]) -> None:
        """A leg is opened for one set of clients, however often it is asked for."""
        if self.opened.get("tag") == tag and tuple(self.opened["survivors"]) != survivors:
            raise MessageError(
                f"secure sum: leg {tag} was opened for other clients already; the difference would be what "
                "one of them sent"
            )
        self.opened = {"tag": tag, "survivors": list(survivors)}


def _owner(folder: Path) -> str:
    """The run and the client: what another kept does not match."""
    return "/".join((NAME, *folder.parts[-2:]))


def _written(session: Session) -> dict[str, Any]:
    return {
        "sum_id": session.sum_id.hex(),
        "client": session.client,
        "cipher": session.cipher.hex(),
        "mask": session.mask.hex(),
        "keys": [part.hex() for part in session.keys],
        "peers": {str(peer): [part.hex() for part in keys] for peer, keys in session.peers.items()},
        "threshold": session.threshold,
        "least": session.least,
        "seeds": [seed.hex() for seed in session.seeds],
        "held": {str(peer): share.hex() for peer, share in session.held.items()},
        "masked": session.masked,
        "survivors": list(session.survivors),
    }


def _session(values: dict[str, Any]) -> Session:
    return Session(
        bytes.fromhex(values["sum_id"]),
        int(values["client"]),
        bytes.fromhex(values["cipher"]),
        bytes.fromhex(values["mask"]),
        Keys(*map(bytes.fromhex, values["keys"])),
        {int(peer): Keys(*map(bytes.fromhex, keys)) for peer, keys in values["peers"].items()},
        int(values["threshold"]),
        int(values["least"]),
        tuple(map(bytes.fromhex, values["seeds"])),
        {int(peer): bytes.fromhex(share) for peer, share in values["held"].items()},
        bool(values["masked"]),
        tuple(values["survivors"]),
    )
