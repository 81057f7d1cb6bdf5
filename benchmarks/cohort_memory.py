"""`python -m benchmarks.cohort_memory`: memory that a client adds to a cohort, by a formula and measured.

16 · parameters + 2 · activations, in bytes: float32 weights, gradients, momenta and the client's own state;
activations are what a step keeps for its backward pass, which needs about as much again. Measured is the peak
of a process with many clients less that of one with few, so what all share drops out. For SGD; Adam has
moments of its own, and takes more.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from protofed.algorithms.fedproto import FedProto
from protofed.core.data import LocalData, without_samples
from protofed.core.optim import Opt
from protofed.core.task import Group, Task
from protofed.engines.cohort import Cohort, Stacked
from protofed.engines.federation import Federation
from protofed.engines.sampling import Rounds
from protofed.engines.store import Store
from protofed.models.groups import assign
from protofed.models.probe import check_model

from .machine import load, memory_mb
from .scale import in_a_process
from .sizing import MB, page
from .tables import Grid, write_markdown

SHAPE, CLASSES = (1, 28, 28), 10
CASES = (("fp_cnn", 8, 10, 50), ("small_cnn", 10, 10, 50), ("cnn4", 10, 4, 16), ("htcnn:1", 10, 4, 16))
WEIGHTS, STEPS = 16, 2  # bytes a parameter, times the activations


class OneForAll:
    """Any number of clients with the same samples, four batches each."""

    def __init__(self, clients: int, batch: int):
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(4 * batch, *SHAPE, generator=generator)
        self._clients = clients
        self._data = LocalData(x, torch.randint(CLASSES, (4 * batch,), generator=generator))

    def __len__(self) -> int:
        return self._clients

    def size(self, client: int) -> int:
        return len(self._data)

    def train(self, client: int) -> LocalData:
        return self._data

    def test(self, client: int) -> LocalData:
        return self._data

    def validation(self, client: int) -> LocalData:
        return without_samples(self._data)


def formula(parameters: int, activations: float) -> float:
    """Bytes that a client adds to a cohort."""
    return WEIGHTS * parameters + STEPS * activations


def peak(case: int, clients: int) -> dict[str, Any]:
    """A round of one cohort in this process: its peak, and the activations of a client in a step."""
    torch.set_num_threads(1)
    spec, batch = CASES[case][:2]
    build = assign(spec, clients, SHAPE, CLASSES).builders[0]
    dim = check_model(build(), SHAPE, CLASSES, spec)
    groups, index = [Group(spec, build)], np.zeros(clients, dtype=np.int64)
    task = Task(FedProto(), groups, index, CLASSES, (dim,), opt=Opt(), batch_size=batch)
    data = OneForAll(clients, batch)
    federation = Federation(task, data, Cohort(task, data, Store()), Rounds())
    before = memory_mb("VmRSS")
    federation.play()
    found = (memory_mb("VmHWM") - before) * MB
    return {"peak": found, "parameters": task.parameter_count(0), "activations": activations(federation)}


def activations(federation: Federation) -> float:
    """Bytes of a client that a step keeps for its backward pass, beside parameters."""
    kept: list[int] = []
    inner = Stacked._losses

    def counted(self: Stacked, tensors: dict[str, Tensor], batch: Any, view: Any) -> Any:
        known = {tensor.untyped_storage().data_ptr() for tensor in tensors.values()}
        seen: dict[int, int] = {}

        def look(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in known:
                seen[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(look, lambda tensor: tensor):
            out = inner(self, tensors, batch, view)
        kept.append(sum(seen.values()))
        return out

    Stacked._losses = counted  # type: ignore[method-assign]
    try:
        federation.play()
    finally:
        Stacked._losses = inner  # type: ignore[method-assign]
    return max(kept) / federation.task.clients


def table(cases: Sequence[int]) -> Grid:
    """A row for each case."""
    rows = []
    for case in cases:
        spec, batch, few, many = CASES[case]
        one, other = (in_a_process("cohort_memory", "peak", case, clients) for clients in (few, many))
        measured = (other["peak"] - one["peak"]) / (many - few)
        said = formula(other["parameters"], other["activations"])
        figures = [f"{value / MB:.2f}" for value in (other["activations"], said, measured)]
        rows.append([spec, str(batch), f"{other['parameters']:,}", *figures])
    columns = ["model, 28×28 images", "batch", "parameters", "activations, MB", "formula, MB", "measured, MB"]
    return Grid("a client of a cohort", columns, rows)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and print a part of a page, or write it into one."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cohort_memory", allow_abbrev=False)
    parser.add_argument("--markdown", type=Path, help="write the table into this page")
    parser.add_argument("--first", type=int, default=len(CASES), help="only the first so many models")
    args = parser.parse_args(argv)
    grid = table(range(args.first))._replace(note=f"On a CPU; load of the machine {load()}.")
    text = page([grid], "python -m benchmarks.cohort_memory --markdown docs/gpu.md")
    if args.markdown:
        write_markdown(args.markdown, text)
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    main()
