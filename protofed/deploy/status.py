"""How a deployed run is doing: written by the server app, read by `protofed status` and `server`."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import Any

from ..runs.directory import RunDir
from ..runs.loose import read_loose, write_loose
from ..runs.outcome import WAYS, Outcome
from .audit import Audit


class StatusFile:
    """status.json in the run directory; a new version after every event."""

    def __init__(self, run: Path, run_id: int = 0, audit: Audit | None = None):
        self.audit = audit
        self._round: dict[str, Any] = _nothing()
        self.path = run / "status.json"
        run.mkdir(parents=True, exist_ok=True)
        self.values: dict[str, Any] = {"state": "waiting for clients", "pid": os.getpid()}
        self.values |= {"flower_run": str(run_id), "clients": {}, "missing": [], "refused": []}
        self._write()

    def begin(self, clients: list[str], rounds: int) -> None:
        """All that are needed are there; training begins."""
        self.names = clients
        self.values["clients"] = {name: self.values["clients"].get(name, {}) for name in clients}
        self.values |= {"state": "running", "rounds": rounds}
        self._write()
        self._note("run begins", clients=clients, rounds=rounds)

    def roster(self, **news: Any) -> None:
        """Who is there, who is missing, who was refused, who was lost."""
        if "joined" in news:
            known = self.values["clients"].setdefault(news["joined"], {})
            known |= {"model": news["model"], "samples": news["samples"], "seen": time.time()}
        if "missing" in news:
            self.values["missing"] = news["missing"]
        if "refused" in news:
            self.values["refused"] = [*self.values["refused"], news["refused"]][-20:]
            self.values["refusals"] = self.values.get("refusals", 0) + 1
        self._write()
        for event in ("joined", "refused", "lost"):
            if event in news:
                self._note(event, **{"client" if event != "refused" else "reason": news.pop(event)}, **news)

    def event(self, event: dict[str, Any]) -> None:
        """A client answered, or did not."""
        name, reason = self.names[event["client"]], event["reason"]
        known = self.values["clients"].setdefault(name, {})
        outcome = event.get("outcome", "accepted" if reason is None else "untested")
        known["uploads"] = {**known.get("uploads", {}), outcome: known.get("uploads", {}).get(outcome, 0) + 1}
        if reason is None:
            known |= {"seen": time.time(), "round": event["round"], "problem": None}
            self._round["accepted"].append(name)
        else:
            known |= {"problem": reason, "failures": known.get("failures", 0) + 1}
            self._round[outcome][name] = reason
        self._write()

    def round(self, record: dict[str, Any]) -> None:
        """A round is over."""
        self.values["round"] = record["round"]
        self._write()
        self._note("round", round=record["round"], **self._round)
        self._round = _nothing()

    def end(self, state: str) -> None:
        """The run is over, in this state."""
        self.values["state"] = state
        self._write()
        self._note("run ends", state=state)

    def _note(self, event: str, **fields: Any) -> None:
        if self.audit is not None:
            self.audit.note(event, **fields)

    def _write(self) -> None:
        write_loose(self.path, {**self.values, "updated": time.time()})


def _nothing() -> dict[str, Any]:
    """What came of the questions of a round: names of those accepted, reasons of the others."""
    return {"accepted": [], "refused": {}, "late": {}, "untested": {}}


def read_status(run: Path) -> dict[str, Any] | None:
    """What the server app wrote last; None before its start."""
    path = run / "status.json"
    return read_loose(path) if path.exists() else None


def overview(run: Path) -> dict[str, Any]:
    """Everything that `protofed status` shows."""
    status = read_status(run) or {"state": "not started"}
    if status["state"] in ("running", "waiting for clients") and not alive(int(status.get("pid", 0))):
        status["state"] = f"stopped in round {status.get('round', 0) + 1}"
    known = Outcome(RunDir(run).lines("metrics.jsonl"))
    last = {mode: known.last(mode) for mode in known.modes}
    return {
        **status,
        "rounds_done": known.rounds,
        "payload_bytes": {way: known.total(way, "bytes") for way in WAYS},
        "message_bytes": {way: known.total("wire", way) for way in WAYS},
        "wire_bytes": wire_bytes(run),
        "accuracy": {mode: value for mode, value in last.items() if not math.isnan(value)},
        "privacy": known.privacy,
        "failed": {str(round): failed for round, failed in known.failures.items()},
    }


def wire_bytes(run: Path) -> dict[str, int]:
    """All that Flower counted, hello, tests and protocol included; 0 before the run ended."""
    path = run / "traffic.json"
    counted = read_loose(path).values() if path.exists() else []
    names = {"up": "inbound-bytes", "down": "outbound-bytes"}
    return {way: sum(int(one[name]) for one in counted) for way, name in names.items()}


def alive(pid: int) -> bool:
    """Whether a process of this machine runs; True where that cannot be known."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
