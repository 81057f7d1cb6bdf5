"""How jobs and answers travel between the processes of one machine.

Local pipes between a parent and its own children, so Python's pickle is safe here; tensors go as NumPy
arrays, by value. (Between machines nothing is pickled: see the Flower engine.)
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..core.algorithm import Leg
from ..core.record import Record
from ..core.task import Task, Turn
from .base import Job


class Wire:
    """Packing and unpacking."""

    @staticmethod
    def pack(value: Any) -> memoryview:
        buffer = io.BytesIO()
        _Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
        return buffer.getbuffer()

    @staticmethod
    def unpack(data: bytes) -> Any:
        return pickle.loads(data)

    @staticmethod
    def jobs(jobs: Sequence[Job]) -> tuple[Any, ...]:
        """Jobs with every different download written once."""
        downs: dict[int, tuple[int, dict[str, Tensor]]] = {}
        written = []
        for turn, leg, down in jobs:
            number, _ = downs.setdefault(id(down), (len(downs), down.arrays()))
            written.append((turn.round, turn.leg, turn.client, turn.epochs, turn.late, leg.name, number))
        return [arrays for _, arrays in downs.values()], written

    @staticmethod
    def read_jobs(written: tuple[Any, ...], task: Task) -> list[Job]:
        arrays, rows = written
        legs = {leg.name: leg for leg in task.algorithm.legs}
        legs["eval"] = Leg("eval", task.algorithm.legs[0].down)
        downs = [legs[row[5]].down for row in rows]
        records: dict[int, Record] = {}
        jobs = []
        for (round, name, client, epochs, late, leg, number), cls in zip(rows, downs):
            if number not in records:
                records[number] = cls.of(arrays[number])
            jobs.append(Job(Turn(task, round, name, client, epochs, late), legs[leg], records[number]))
        return jobs

    @staticmethod
    def record(cls: type[Record], arrays: dict[str, Tensor]) -> Record:
        return cls.of(arrays)


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return torch.from_numpy, (value.detach().cpu().contiguous().numpy(),)
        return NotImplemented
