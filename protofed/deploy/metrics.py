"""Metrics of a deployed run for Prometheus: text, made of the run directory whenever it is asked for.

`metrics_port` in server.toml turns it on; it is served on 127.0.0.1 only (reports/loopback.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..core.version import VERSION
from ..reports.loopback import Loopback
from ..runs.directory import RunDir
from .status import overview

KIND = "text/plain; version=0.0.4"


def metrics_page(run: Path, port: int) -> Loopback:
    """The server of /metrics; use it in a `with` statement."""
    return Loopback({"/metrics": (KIND, lambda: render(run))}, port, "metrics_port")


def render(run: Path) -> str:
    """All metrics as of now."""
    found = overview(run)
    seconds = [line["seconds"] for line in RunDir(run).lines("metrics.jsonl")]
    clients, missing = found.get("clients", {}), found.get("missing", [])
    lines = [
        *_metric("info", "gauge", "Version of protofed.", [({"version": VERSION}, 1)]),
        *_metric("running", "gauge", "1 while the server app works.", [({}, _running(found["state"]))]),
        *_metric("rounds", "gauge", "Rounds of the whole run.", [({}, found.get("rounds", 0))]),
        *_metric("rounds_done_total", "counter", "Rounds played.", [({}, found["rounds_done"])]),
        *_metric("round_seconds_total", "counter", "Seconds of all rounds.", [({}, sum(seconds))]),
        *_metric("last_round_seconds", "gauge", "Seconds of the last one.", [({}, (seconds or [0])[-1])]),
        *_metric("clients_missing", "gauge", "Clients not connected.", [({}, len(missing))]),
        *_metric(
            "client_connected",
            "gauge",
            "1 if connected.",
            [({"client": c}, c not in missing) for c in clients],
        ),
        *_metric(
            "client_seen_seconds",
            "gauge",
            "Seconds since a client's last answer.",
            [({"client": c}, time.time() - one["seen"]) for c, one in clients.items() if "seen" in one],
        ),
        *_metric(
            "uploads_total",
            "counter",
            "Answers of clients: accepted, refused, late (none in time), untested.",
            [
                ({"client": client, "outcome": outcome}, count)
                for client, one in clients.items()
                for outcome, count in one.get("uploads", {}).items()
            ],
        ),
        *_metric("refusals_total", "counter", "Hellos refused.", [({}, found.get("refusals", 0))]),
        *(
            line
            for kind in ("payload", "message", "wire")
            for line in _metric(
                f"{kind}_bytes_total",
                "counter",
                f"Bytes: {kind}.",
                [({"way": way}, count) for way, count in found[f"{kind}_bytes"].items()],
            )
        ),
    ]
    return "\n".join(lines) + "\n"


def _running(state: str) -> bool:
    return state in ("running", "waiting for clients")


def _metric(name: str, kind: str, help: str, samples: list[tuple[dict[str, str], Any]]) -> Iterator[str]:
    yield f"# HELP protofed_{name} {help}"
    yield f"# TYPE protofed_{name} {kind}"
    for labels, value in samples:
        inner = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        yield f"protofed_{name}{{{inner}}} {float(value)!r}" if inner else f"protofed_{name} {float(value)!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
