"""What a client's hooks see of its data: whole tensors, and batches while training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from .errors import ConfigError

Augment = Callable[[Tensor, torch.Generator], Tensor]
TOGETHER = 192  # of 512, feature maps are so large that the allocator takes each anew from the system
ORDERED_BYTES = 16_000_000  # of samples and labels that an epoch puts into its order at once


@dataclass(frozen=True)
class ClassCounts:
    """What `predict` knows of a client's training samples: how many there are of each class. It is kept with
    a run, so that predictions can be made where the samples are not."""

    n: Tensor  # [C]; of dense labels, pixels

    def counts(self, num_classes: int) -> Tensor:
        """Samples [C] of each class."""
        if len(self.n) != num_classes:
            raise ConfigError(f"counts of {len(self.n)} classes are known, asked for {num_classes}")
        return self.n

    def present(self, num_classes: int) -> Tensor:
        """Bool [C]: the classes of which this client has training samples."""
        return self.counts(num_classes) > 0

    def __getattr__(self, name: str) -> Any:
        if name in ("x", "y", "chunks"):
            raise ConfigError(
                f"predict: data.{name}: the training samples are not there when predictions are made, only "
                "data.counts(C) and data.present(C); keep what else is needed in the client's memory (upload)"
            )
        raise AttributeError(name)


@dataclass(frozen=True)
class LocalData:
    """One client's samples, normalised. `y` is [N], or [N, H, W] with −1 for void pixels."""

    x: Tensor
    y: Tensor
    augment: Augment | None = field(default=None, repr=False)
    passed: Tensor | None = field(default=None, repr=False)  # rows that passes see; None: all
    _counts: dict[int, Tensor] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.x)

    def chunks(self, size: int | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """All samples in order, in large pieces: for passes without training. With `drop_last` those of one
        epoch's whole batches.

        192 at a time, or 32 with dense labels, whose feature maps and logits need more memory.
        """
        size = size or (TOGETHER if self.y.ndim == 1 else 32)
        x, y = (self.x, self.y) if self.passed is None else (self.x[self.passed], self.y[self.passed])
        for start in range(0, len(x), size):
            yield x[start : start + size], y[start : start + size]

    def counts(self, num_classes: int) -> Tensor:
        """Samples [C] of each class; of dense labels, pixels."""
        if num_classes not in self._counts:
            labels = self.y[self.y >= 0]
            self._counts[num_classes] = torch.bincount(labels.flatten(), minlength=num_classes)
        return self._counts[num_classes]

    def present(self, num_classes: int) -> Tensor:
        """Bool [C]: the classes of which this client has training samples."""
        return self.counts(num_classes) > 0

    def class_counts(self, num_classes: int) -> ClassCounts:
        """What is known of these samples when predictions are made."""
        return ClassCounts(self.counts(num_classes))


class Batch(NamedTuple):
    """What `loss` sees in one step. Always whole, never padded."""

    x: Tensor
    y: Tensor
    idx: Tensor  # row numbers in the local (or public) data
    last: Tensor  # 1.0 in the last epoch of the phase, else 0.0
    rand: dict[str, Tensor]  # what the method's `draw` returned


class ClientData(Protocol):
    """Where an engine gets clients' samples. Sizes are known without loading anything."""

    def __len__(self) -> int: ...

    def size(self, client: int) -> int:
        """Number of training samples."""
        ...

    def train(self, client: int) -> LocalData:
        """Training samples."""
        ...

    def test(self, client: int) -> LocalData:
        """Test samples; may be none."""
        ...

    def validation(self, client: int) -> LocalData:
        """Samples held out of the training samples; mostly none."""
        ...


def without_samples(like: LocalData) -> LocalData:
    """No samples, of the shapes of these."""
    return LocalData(like.x[:0], like.y[:0])


def whole_batches(n: int, size: int) -> int:
    """Rows without those of an incomplete last batch, unless it is the only one."""
    return n - n % size if n >= size else n


def epoch_orders(
    n: int,
    size: int,
    epochs: int,
    generator: torch.Generator,
    drop_last: bool = False,
    fixed: Tensor | None = None,
) -> Iterator[tuple[Tensor, bool]]:
    """Row numbers of each epoch in their order, and whether it is the last.

    Rows are shuffled per epoch, or in the `fixed` order. With `drop_last` an incomplete batch is left out,
    unless it is the only one.
    """
    stop = whole_batches(n, size) if drop_last else n
    for epoch in range(epochs):
        order = torch.randperm(n, generator=generator) if fixed is None else fixed
        yield order[:stop], epoch == epochs - 1


def batch_rows(
    n: int,
    size: int,
    epochs: int,
    generator: torch.Generator,
    drop_last: bool = False,
    fixed: Tensor | None = None,
) -> Iterator[tuple[Tensor, bool]]:
    """The same, batch by batch."""
    for order, last in epoch_orders(n, size, epochs, generator, drop_last, fixed):
        for start in range(0, len(order), size):
            yield order[start : start + size], last


def in_batches(
    data: LocalData, orders: Iterator[tuple[Tensor, bool]], size: int
) -> Iterator[tuple[Tensor, Tensor, Tensor, bool]]:
    """Samples, labels and row numbers of each batch, and whether it belongs to the last epoch.

    Few samples are put into the epoch's order at once, which takes a fifth of the time of one batch after
    the other; many would need their memory twice.
    """
    few = data.x.nbytes + data.y.nbytes <= ORDERED_BYTES
    for order, last in orders:
        order = order.to(data.x.device)
        rows = torch.split(order, size)
        if few:  # all pieces in one call: a slice for each batch takes several times as long
            pieces = zip(torch.split(data.x[order], size), torch.split(data.y[order], size), rows)
            yield from ((x, y, idx, last) for x, y, idx in pieces)
        else:
            yield from ((data.x[idx], data.y[idx], idx, last) for idx in rows)
