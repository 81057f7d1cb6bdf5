"""Nested models: a narrow model whose tensors are the leading parts of a wide model's tensors.

Source: *HeteroFL* (Diao et al. 2021). Flattened feature maps fit too: their order is channels first,
so the leading channels are the leading columns of the next linear layer.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ..core.record import Tree


def misfit(narrow: Mapping[str, Tensor], wide: Mapping[str, Tensor]) -> str | None:
    """Why `narrow` is no slice of `wide`, in words; None if it is one."""
    for name in sorted(narrow.keys() ^ wide.keys()):
        return f"only one of them has a tensor {name!r}"
    for name, tensor in narrow.items():
        mine, other = tuple(tensor.shape), tuple(wide[name].shape)
        if len(mine) != len(other) or any(a > b for a, b in zip(mine, other)):
            return f"its {name!r} has shape {list(mine)}, which does not fit into {list(other)}"
    return None


def leading(wide: Tensor, shape: torch.Size) -> Tensor:
    """The first entries along every axis; a view.

    >>> leading(torch.arange(6).reshape(2, 3), torch.Size([1, 2])).tolist()
    [[0, 1]]
    """
    return wide[tuple(slice(size) for size in shape)]


def cut(wide: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> Tree:
    """The slice of a wide model in the shapes of `like`."""
    return {name: leading(wide[name], tensor.shape).contiguous() for name, tensor in like.items()}


class SliceAverage:
    """Every entry of the wide model becomes the weighted mean over the slices that contain it.

    Entries that no slice contains keep their old value. Integers are copied from the lowest client.
    """

    def __init__(self, old: Mapping[str, Tensor]):
        self._old = old
        self._sum = {n: torch.zeros_like(t) for n, t in old.items() if t.is_floating_point()}
        self._weight = {n: torch.zeros_like(t) for n, t in self._sum.items()}
        self._first: tuple[int, Tree] | None = None

    def add(self, tree: Mapping[str, Tensor], weight: float, client: int, rows: Mapping[str, Tensor]) -> None:
        """`rows` holds, for some tensors, 0 or 1 per row: whether the row counts."""
        for name in self._sum:
            part = tree[name]
            counted = torch.full_like(part, weight)
            if name in rows:
                counted = counted * rows[name].reshape(-1, *[1] * (part.ndim - 1))
            leading(self._sum[name], part.shape).add_(part * counted)
            leading(self._weight[name], part.shape).add_(counted)
        if self._first is None or client < self._first[0]:
            self._first = (client, {n: t for n, t in tree.items() if not t.is_floating_point()})

    def result(self) -> Tree:
        """The wide model after at least one slice."""
        assert self._first is not None, "an average of nothing"
        found = {
            name: torch.where(weight > 0, self._sum[name] / weight.clamp(min=1e-12), self._old[name])
            for name, weight in self._weight.items()
        }
        return {**found, **self._first[1]}
