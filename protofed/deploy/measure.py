"""`protofed deploy measure`: what a round costs on the way, with clients that only send back what they get.

Payloads: ten prototypes of 512 floats (20,480 bytes), and a model of a million weights (4,000,000 bytes).
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from ..core.record import Tree
from ..core.rng import torch_generator
from ..flower.packet import Link, Packet
from ..runs.files import read_json

TIMEOUT = 300.0


def payloads() -> dict[str, Tree]:
    generator = torch_generator("measure")
    prototypes = {"mean": torch.randn(10, 512, generator=generator), "cls": torch.arange(10)}
    prototypes["n"] = torch.full((10,), 100)
    weights = {f"weights/{i}": torch.randn(1000, 100, generator=generator) for i in range(10)}
    return {"10 x 512 prototypes": prototypes, "1 M weights": weights}


def echo_rounds(link: Link, clients: int, rounds: int) -> list[dict[str, Any]]:
    """One line per payload and precision; the first round of each is not counted."""
    found = []
    for name, arrays in payloads().items():
        floats = sum(t.numel() for t in arrays.values() if t.is_floating_point())
        for upload in ("full", "fp16", "int8"):
            packet = Packet({"kind": "echo", "upload": upload}, arrays)
            seconds, up, down = [], 0, 0
            for _ in range(rounds + 1):
                started = time.perf_counter()
                got = link.exchange(dict.fromkeys(range(clients), packet), TIMEOUT)
                seconds.append(time.perf_counter() - started)
                up = sum(reply.wire_bytes for reply in got.replies.values()) // max(1, len(got.replies))
                down = got.wire_down // clients
            line = {"payload": name, "upload": upload, "payload_bytes": 4 * floats}
            line |= {"clients": clients, "answered": len(got.replies), "message_up": up, "message_down": down}
            found.append({**line, "ms": 1000 * statistics.median(seconds[1:])})
    return found


def on_simulation(clients: int, rounds: int) -> list[dict[str, Any]]:
    """Over Flower's simulation engine, on this machine."""
    from ..flower.link import GridLink
    from ..flower.simulation import Runtime

    runtime = Runtime(clients)
    try:
        return echo_rounds(GridLink(runtime.grid(), runtime.ids), clients, rounds)
    finally:
        runtime.close()


def on_deployment(clients: int, say: Any) -> list[dict[str, Any]]:
    """Over Flower's own programs on 127.0.0.1, with TLS and keys."""
    from .init import init
    from .processes import free_port
    from .serve import run_server

    with TemporaryDirectory() as folder:
        root, names = Path(folder), [f"client{number}" for number in range(clients)]
        init(root / "federation", names, "127.0.0.1", free_port(), None, insecure=False)
        homes = [root / "federation" / "clients" / name for name in names]
        command = [sys.executable, "-m", "protofed.cli.main", "client"]
        nodes = [subprocess.Popen([*command, str(home)], stderr=subprocess.DEVNULL) for home in homes]
        try:
            run_server(root / "federation" / "server", root / "run", False, say, measure=True)
            return list(read_json(root / "run" / "measured.json"))
        finally:
            for node in nodes:
                node.terminate()
            for node in nodes:
                node.wait()
