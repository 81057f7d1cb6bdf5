"""Small pieces for tests of one hook at a time: a net that is the identity, batches, replies, a turn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from protofed.core.answer import Replies, Reply
from protofed.core.data import Batch
from protofed.core.record import Record

CLASSES = 3


class IdentityNet:
    """The embedding of x is x; all logits are 0, so that the cross-entropy is log C."""

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, 0 * x[:, :1].expand(-1, CLASSES, *x.shape[2:])

    def embed(self, x: Tensor) -> Tensor:
        return x

    def tensors(self, *prefixes: str) -> dict[str, Tensor]:
        return {"model.w": torch.ones(1, dtype=torch.float64)}


CROSS_ENTROPY = math.log(CLASSES)


def floats(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def batch(x: Tensor, y: Sequence[int] | Tensor, last: float = 1.0) -> Batch:
    return Batch(x, torch.as_tensor(y), torch.arange(len(x)), floats(last), {})


def turn() -> Any:
    return SimpleNamespace(task=SimpleNamespace(C=CLASSES, clients=2, newcomers=0))


def replies(*ups: Record, n: Sequence[int] = ()) -> Replies:
    """Uploads of clients 0, 1, …, with the sample counts n (1 each if not given)."""
    counts = n or [1] * len(ups)
    return Replies(iter([Reply(i, counts[i], up) for i, up in enumerate(ups)]))


def directions(*degrees: float) -> Tensor:
    """Unit vectors in the plane."""
    angle = floats(degrees).deg2rad()
    return torch.stack([angle.cos(), angle.sin()], 1)


def prototype_terms(method: Any, down: Record, x: Tensor, y: Sequence[int] | Tensor) -> Tensor:
    """What the method's loss adds to the cross-entropy."""
    net: Any = IdentityNet()
    view = method.prepare(net, None, down, {}, turn())
    out = method.loss(net, batch(x, y), view)
    return (out[0] if isinstance(out, tuple) else out) - CROSS_ENTROPY


AWKWARD = (
    (0.0, 0.0),  # a zero embedding
    (-1.0, 0.0),  # opposite to a prototype: the cosine is −1
    (0.0, -1.0),  # orthogonal to one, opposite to another
    (1.0, 0.0),  # equal to a prototype
    (1e-30, 1e-30),
    (1e6, -1e6),
)


def assert_tame(method: Any, down: Record) -> None:
    """Loss and gradient stay finite for awkward embeddings, whatever their class."""
    x = floats(AWKWARD).repeat(CLASSES, 1).requires_grad_()
    y = torch.arange(CLASSES).repeat_interleave(len(AWKWARD))
    terms = prototype_terms(method, down, x, y)
    (grad,) = torch.autograd.grad(terms, x)
    assert torch.isfinite(terms), terms
    assert torch.isfinite(grad).all(), grad
