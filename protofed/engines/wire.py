"""How orders and answers travel between the processes of one machine.

Local pipes between a parent and its own children, so Python's pickle is safe here; tensors go as NumPy
arrays, by value, each once. The task is not sent: every process has it. (Between machines nothing is pickled:
see protofed/flower.)
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..core.answer import Answer, ClientState, Score
from ..core.task import Task
from .base import Job

TASK = "task"


@dataclass(frozen=True)
class TrainOrder:
    """To a worker: train these clients. It has the states of those in `held`; others come with the order, or
    the client has none."""

    jobs: Sequence[Job]
    states: dict[int, ClientState] = field(default_factory=dict)
    held: frozenset[int] = frozenset()


@dataclass(frozen=True)
class TestOrder(TrainOrder):
    """To a worker: test these clients."""


@dataclass(frozen=True)
class Trained:
    """From a worker: answers in the order of the jobs, or all of them as one block."""

    answers: Sequence[Answer]


@dataclass(frozen=True)
class Tested:
    """From a worker: scores in the order of the jobs."""

    scores: Sequence[Score]


@dataclass(frozen=True)
class Raised:
    """From a worker: an exception that no client is to blame for."""

    kind: str
    message: str
    trace: str


def pack(message: Any) -> memoryview:
    """A message as bytes."""
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(message)
    return buffer.getbuffer()


def unpack(data: bytes, task: Task) -> Any:
    """Inverse of `pack`; `task` is the receiver's own."""
    return _Unpickler(io.BytesIO(data), task).load()


class _Pickler(pickle.Pickler):
    def persistent_id(self, value: Any) -> str | None:
        return TASK if isinstance(value, Task) else None

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return torch.from_numpy, (value.detach().cpu().contiguous().numpy(),)
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, task: Task):
        super().__init__(file)
        self.task = task

    def persistent_load(self, name: str) -> Task:
        return self.task
