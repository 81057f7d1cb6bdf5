"""Arithmetic on trees (named tensors): averages of weights, prefixes."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ..core.record import Tree


class Average:
    """A weighted mean of trees that streams: memory for one sum, whatever the number of trees.

    Floating tensors are averaged; integer tensors (BatchNorm's counter) are copied from the lowest
    client id, so that the order of the replies does not matter.
    """

    def __init__(self) -> None:
        self.weight = 0.0
        self._sum: Tree = {}
        self._first: tuple[int, Tree] | None = None

    def add(self, tree: Mapping[str, Tensor], weight: float, client: int) -> None:
        """One more tree. The tree itself stays as it is."""
        self.weight += weight
        for name, tensor in tree.items():
            if not tensor.is_floating_point():
                continue
            if name in self._sum:
                self._sum[name].add_(tensor, alpha=weight)
            else:
                self._sum[name] = tensor * weight
        if self._first is None or client < self._first[0]:
            self._first = (client, {n: t for n, t in tree.items() if not t.is_floating_point()})

    def result(self) -> Tree:
        """The mean of at least one tree."""
        assert self._first is not None, "an average of nothing"
        return {**{name: total / self.weight for name, total in self._sum.items()}, **self._first[1]}


def put(prefix: str, tree: Mapping[str, Tensor]) -> Tree:
    """All names with a prefix: how trees lie inside a client's memory or a state's tree."""
    return {f"{prefix}{name}": tensor for name, tensor in tree.items()}


def under(prefix: str, tree: Mapping[str, Tensor]) -> Tree:
    """The entries under a prefix, without it."""
    return {name[len(prefix) :]: tensor for name, tensor in tree.items() if name.startswith(prefix)}


def flat(tree: Mapping[str, Tensor]) -> Tensor:
    """All floating tensors as one vector, in the order of their names."""
    return torch.cat([tree[name].reshape(-1) for name in sorted(tree) if tree[name].is_floating_point()])


def squared_distance(one: Mapping[str, Tensor], two: Mapping[str, Tensor]) -> Tensor:
    """Σ‖a − b‖² over the tensors that `one` names. Runs under vmap, and has gradients.

    As one vector each: for small networks few large operations are twice as fast as many small ones.
    """
    gaps = flat(one) - flat({name: two[name] for name in one})
    return gaps.square().sum()
