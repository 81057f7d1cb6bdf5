"""What a data source gives (`Dataset`), what a partitioner makes of it (`Split`).

A dataset is one table of rows; train and test are marked per row. Partitioners keep them apart, or merge
them where that is asked for (FedTGP's settings), and read the same object.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from ..core.registry import Registry
from .inputs import InputRule

VOID = -1  # label of a pixel that counts nowhere


@dataclass(frozen=True)
class Dataset:
    """N rows of inputs and labels. Images are [N, channels, H, W], uint8 (scaled by 1/255) or float32."""

    name: str
    x: np.ndarray  # may be memory-mapped: read rows, do not copy the whole
    y: np.ndarray  # [N] class ids; [N, H, W] with VOID where dense
    test: np.ndarray  # [N] bool: the row belongs to the published test split
    classes: tuple[str, ...]
    domain: np.ndarray | None = None  # [N] index into domains
    domains: tuple[str, ...] = ()
    owner: np.ndarray | None = None  # [N] natural owner (writer), -1 if none
    kind: np.ndarray | None = (
        None  # [N] for class mixes finer than y: joined classes as they were; -1: several
    )
    mean: tuple[float, ...] | None = None  # per channel, after the scaling to [0, 1]
    std: tuple[float, ...] | None = None
    augment: str = ""  # "crop4+flip": what training batches undergo
    owners: tuple[str, ...] = ()  # names of the owners, where they have any
    per_class: int | None = None  # the cap on training rows of a class, where one was set
    rules: tuple[InputRule, ...] = ()  # how inputs were made, where there is more to it: one, or one an owner
    notes: tuple[str, ...] = ()  # what the source did with the samples, for readers of a run

    def rule(self, owner: int = 0) -> InputRule:
        """How raw samples become inputs of a model, where rows of this owner are meant."""
        if self.rules:
            return self.rules[owner if len(self.rules) > 1 else 0]
        return InputRule(self.shape, str(self.x.dtype), self.mean, self.std)

    @property
    def dense(self) -> bool:
        """Whether labels are masks."""
        return self.y.ndim > 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self.x.shape[1:])

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)


class Rows(Sequence[np.ndarray]):
    """One index array per client in two flat arrays, so that a million clients stay cheap."""

    def __init__(self, values: np.ndarray, offsets: np.ndarray):
        self.values = values
        self.offsets = offsets

    @classmethod
    def of(cls, lists: Sequence[np.ndarray]) -> Rows:
        """From one array per client."""
        sizes = [len(rows) for rows in lists]
        values = (
            np.concatenate([np.asarray(r, dtype=np.int64) for r in lists]) if lists else np.empty(0, np.int64)
        )
        return cls(values, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, client: Any) -> Any:
        if not 0 <= client < len(self):
            raise IndexError(client)
        return self.values[self.offsets[client] : self.offsets[client + 1]]

    @property
    def sizes(self) -> np.ndarray:
        """[K] rows of each client."""
        return np.diff(self.offsets)


@dataclass(frozen=True)
class Split:
    """Which rows of a dataset each client trains and tests on, and which of the former it holds out."""

    train: Rows
    test: Rows
    validation: Rows | None = None  # None: no client holds any out

    @property
    def clients(self) -> int:
        """Number of clients."""
        return len(self.train)


class Source(ABC):
    """Where a dataset comes from. Frozen dataclasses; the options are the fields."""

    name: ClassVar[str]
    positional: ClassVar[str | None] = None  # option that takes all after the colon, as in "npz:PATH"

    @abstractmethod
    def load(self) -> Dataset:
        """Read (or open from the cache) the whole dataset."""


class Partitioner(ABC):
    """How a dataset is divided among clients. Frozen dataclasses; the options are the fields."""

    name: ClassVar[str]
    counts_clients: ClassVar[bool] = False  # knows the number of clients when asked for 0
    also_called: ClassVar[Mapping[str, str]] = MappingProxyType({})  # other papers' names of options

    @abstractmethod
    def split(self, dataset: Dataset, clients: int, seed: int) -> Split:
        """Divide. Ends, or raises DataError with what cannot be and what to change."""


sources: Registry[Source] = Registry("data", Source, "protofed.sources")
partitions: Registry[Partitioner] = Registry("partition", Partitioner, "protofed.partitions", files=True)
