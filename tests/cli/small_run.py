"""A run that takes a fraction of a second, the comparison of two runs, and a call in another process."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch
import torch

from protofed.cli.main import main

SMALL = ("--models", "mlp", "--clients", "4", "--epochs", "1", "--engine", "sequential")
TIMES = ("seconds", "eval_seconds", "check")  # the checksum covers the seconds


class Called(NamedTuple):
    """What a command left."""

    code: int
    out: str
    err: str


Call = Callable[..., Called]


def lines(path: Path | str, name: str = "metrics.jsonl") -> list[dict[str, Any]]:
    """The lines of a run without the seconds."""
    found = [json.loads(text) for text in Path(path, name).read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in TIMES} for line in found]


def saved(path: Path | str) -> dict[str, torch.Tensor]:
    """All tensors of the last checkpoint, by file and name; read without protofed."""
    folder = Path(path, "checkpoint")
    names = json.loads((folder / "manifest.json").read_text())["files"]
    return {
        f"{name}/{key}": tensor
        for name in names
        for key, tensor in safetensors.torch.load_file(folder / name).items()
    }


def assert_same_run(one: Path | str, two: Path | str) -> None:
    """Bit for bit: metrics, per-client accuracies, server state and clients' states."""
    for name in ("metrics.jsonl", "clients.jsonl"):
        assert lines(one, name) == lines(two, name)
    ours, theirs = saved(one), saved(two)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())


def call_and_exit(argv: list[str], err: str) -> None:
    """The command line in a process of its own, with stderr in a file."""
    with open(err, "w") as file, contextlib.redirect_stderr(file):
        code = main(argv)
    sys.exit(code)
