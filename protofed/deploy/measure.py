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
from ..flower.packet import Link, Meta, Packet
from ..runs.loose import read_loose
from .cpu import CpuWatch

TIMEOUT = 300.0
ROUNDS, DEPLOYED_ROUNDS = 5, 3
SEPARATOR = " upload "  # between payload and precision, in the configuration of Flower's run


def payloads() -> dict[str, Tree]:
    """What is sent back and forth, by name."""
    generator = torch_generator("measure")
    prototypes = {"mean": torch.randn(10, 512, generator=generator), "cls": torch.arange(10)}
    prototypes["n"] = torch.full((10,), 100)
    weights = {f"weights/{i}": torch.randn(1000, 100, generator=generator) for i in range(10)}
    return {"10 x 512 prototypes": prototypes, "1 M weights": weights}


def kinds() -> list[tuple[str, str]]:
    """(payload, precision of the upload) of all lines."""
    return [(payload, upload) for payload in payloads() for upload in ("full", "fp16", "int8")]


def echo_round(link: Link, clients: int, rounds: int, payload: str, upload: str) -> dict[str, Any]:
    """Median and least time, and bytes per client; a first round is not timed."""
    arrays = payloads()[payload]
    floats = sum(t.numel() for t in arrays.values() if t.is_floating_point())
    seconds, up, down, answered, began = [], 0, 0, 0, 0.0
    for round in range(rounds + 1):
        began = time.time() if round == 1 else began
        sent = {name: t + round if t.is_floating_point() else t for name, t in arrays.items()}
        meta: Meta = {"kind": "echo", "upload": upload}
        packets = {c: Packet({**meta, "salt": 0.01 * (c + 1)}, sent) for c in range(clients)}
        started = time.perf_counter()
        got = link.exchange(packets, TIMEOUT)
        seconds.append(time.perf_counter() - started)
        answered = len(got.replies)
        up = sum(reply.wire_bytes for reply in got.replies.values()) // max(1, answered)
        down = got.wire_down // clients
    line = {"payload": payload, "upload": upload, "payload_bytes": 4 * floats, "answered": answered}
    timed = [1000 * one for one in seconds[1:]]
    times = {"ms": statistics.median(timed), "least_ms": min(timed), "began": began, "ended": time.time()}
    return {**line, "message_up": up, "message_down": down, **times}


def on_simulation(clients: int, rounds: int) -> list[dict[str, Any]]:
    """Over Flower's simulation engine, on this machine."""
    from ..flower.link import GridLink
    from ..flower.simulation import Runtime

    runtime = Runtime(clients)
    try:
        link = GridLink(runtime.grid(), runtime.ids)
        return [echo_round(link, clients, rounds, *kind) for kind in kinds()]
    finally:
        runtime.close()


def on_deployment(clients: int, say: Any) -> list[dict[str, Any]]:
    """Over Flower's own programs on 127.0.0.1, with TLS and keys: one run per line, so that Flower's
    count of the traffic tells them apart."""
    from .init import init
    from .processes import free_port

    with TemporaryDirectory() as folder:
        root, names = Path(folder), [f"client{number}" for number in range(clients)]
        init(root / "federation", names, "127.0.0.1", free_port(), None, insecure=False)
        homes = [root / "federation" / "clients" / name for name in names]
        command = [sys.executable, "-m", "protofed.cli.main", "client"]
        nodes = [subprocess.Popen([*command, str(home)], stderr=subprocess.DEVNULL) for home in homes]
        try:
            with CpuWatch() as watch:
                return [
                    _deployed(root, f"run{n}", kind, clients, say, watch) for n, kind in enumerate(kinds())
                ]
        finally:
            for node in nodes:
                node.terminate()
            for node in nodes:
                node.wait()


def _deployed(
    root: Path, run: str, kind: tuple[str, str], clients: int, say: Any, watch: CpuWatch
) -> dict[str, Any]:
    from .serve import run_server
    from .status import wire_bytes

    say(f"{kind[0]}, upload {kind[1]}")
    run_server(root / "federation" / "server", root / run, False, say, SEPARATOR.join(kind))
    counted, messages = wire_bytes(root / run), clients * (DEPLOYED_ROUNDS + 1)
    wire = {f"wire_{way}": counted[way] // messages for way in ("up", "down")}
    line = dict(read_loose(root / run / "measured.json"))
    cpu = watch.between(line["began"], line["ended"]) / DEPLOYED_ROUNDS
    return {**line, **wire, "cpu_seconds": round(cpu, 2)}
