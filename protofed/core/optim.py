"""SGD and Adam as steps over lists of tensors, made anew in every phase.

Written here rather than taken from torch.optim because the cohort engine steps the tensors of many
clients at once, stacked along a leading axis, with gradient norms per client: one definition serves
both, and the engines agree to rounding. Checked against torch.optim in the tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .options import option

LARGE = 1 << 17  # parameters from which on a fused step pays (python -m benchmarks.step_pieces)


@dataclass(frozen=True)
class Opt:
    """An optimiser and its options."""

    lr: float = option(0.05, "learning rate", above=0)
    momentum: float = option(0.5, "momentum of SGD", low=0, below=1)
    weight_decay: float = option(0.0, "L2 penalty, added to the gradient", low=0)
    clip: float | None = option(None, "largest norm of a client's gradient", above=0)
    optimizer: str = option("sgd", "optimiser", choices=("sgd", "adam"))

    def scaled(self, factor: float) -> Opt:
        """The same with another learning rate."""
        return replace(self, lr=self.lr * factor)


def prefix_of(name: str, opts: Mapping[str, Opt]) -> str:
    """The longest prefix that has an optimiser for this parameter."""
    return max((prefix for prefix in opts if name.startswith(prefix)), key=len)


class Stepper:
    """Steps the named parameters of one client."""

    def __init__(self, names: Sequence[str], opts: Mapping[str, Opt]):
        """`opts` maps prefixes to optimisers; the longest prefix of a name wins. Each prefix is an
        optimiser of its own: gradients are clipped by the norm of the parameters under it."""
        parts: dict[str, list[int]] = {}
        for i, name in enumerate(names):
            parts.setdefault(prefix_of(name, opts), []).append(i)
        self._parts = [(opts[prefix], index) for prefix, index in parts.items()]
        self._memory: dict[tuple[str, int], Tensor] = {}
        self._large: dict[int, bool] = {}  # by the first parameter of a part

    @torch.no_grad()
    def step(self, params: Sequence[Tensor], grads: Sequence[Tensor | None]) -> None:
        """Change the parameters in place. A parameter without gradient stays as it is."""
        for opt, index in self._parts:
            used = [i for i in index if grads[i] is not None]
            if not used:
                continue
            p = [params[i] for i in used]
            g = [grad for i in used if (grad := grads[i]) is not None]
            if opt.clip is not None:
                g = self._clip(g, opt.clip)
            step = self._adam if opt.optimizer == "adam" else self._sgd
            step(p, g, used, opt)

    def _sgd(self, p: list[Tensor], g: list[Tensor], keys: list[int], opt: Opt) -> None:
        """Where there is more to do than to add, and memory bounds it, torch's fused step: it passes over
        memory once, not two to four times. Numbers are equal to rounding."""
        if (opt.momentum or opt.weight_decay) and self._is_large(p, keys) and self._fused(p, g, keys, opt):
            return
        g = _with_decay(p, g, opt)
        if opt.momentum:
            velocity = self._get("velocity", keys, g)
            torch._foreach_mul_(velocity, opt.momentum)
            torch._foreach_add_(velocity, g)
            self._put("velocity", keys, velocity)
            g = velocity
        torch._foreach_add_(p, g, alpha=-opt.lr)

    def _is_large(self, p: list[Tensor], keys: list[int]) -> bool:
        if keys[0] not in self._large:
            self._large[keys[0]] = sum(tensor.numel() for tensor in p) >= LARGE
        return self._large[keys[0]]

    def _fused(self, p: list[Tensor], g: list[Tensor], keys: list[int], opt: Opt) -> bool:
        if not _laid_out_alike(p, g):
            return False
        velocity = self._get("velocity", keys, g) if opt.momentum else []
        if not _laid_out_alike(g, velocity):
            return False
        torch._fused_sgd_(
            p,
            g,
            velocity,
            weight_decay=opt.weight_decay,
            momentum=opt.momentum,
            lr=opt.lr,
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=False,  # velocities begin with zeros
        )
        return True

    def _adam(self, p: list[Tensor], g: list[Tensor], keys: list[int], opt: Opt) -> None:
        """Adam with torch's defaults: betas 0.9 and 0.999, epsilon 1e-8."""
        g = _with_decay(p, g, opt)
        mean, square = self._get("mean", keys, g), self._get("square", keys, g)
        torch._foreach_lerp_(mean, g, 0.1)
        torch._foreach_mul_(square, 0.999)
        torch._foreach_addcmul_(square, g, g, 0.001)
        for i, param, m, s in zip(keys, p, mean, square):
            count = self._count(i, param)
            root = (s / (1 - 0.999**count)).sqrt_().add_(1e-8)
            param.sub_(opt.lr * m / (1 - 0.9**count) / root)
        self._put("mean", keys, mean)
        self._put("square", keys, square)

    def _get(self, kind: str, keys: list[int], like: list[Tensor]) -> list[Tensor]:
        for i, tensor in zip(keys, like):
            if (kind, i) not in self._memory:
                self._memory[kind, i] = torch.zeros_like(tensor)
        return [self._memory[kind, i] for i in keys]

    def _put(self, kind: str, keys: list[int], values: list[Tensor]) -> None:
        """What `_get` gave was changed in place: nothing to do."""

    def _count(self, key: int, param: Tensor) -> Tensor:
        """How many steps this parameter has made, this one included."""
        first = torch.zeros((), dtype=torch.float64, device=param.device)
        return self._memory.setdefault(("count", key), first).add_(1)

    def _clip(self, grads: list[Tensor], largest: float) -> list[Tensor]:
        norm = torch.stack([g.square().sum() for g in grads]).sum().sqrt()
        factor = (largest / (norm + 1e-6)).clamp(max=1)
        return [g * factor for g in grads]


def _with_decay(p: list[Tensor], g: list[Tensor], opt: Opt) -> list[Tensor]:
    return list(torch._foreach_add(g, p, alpha=opt.weight_decay)) if opt.weight_decay else g


def _laid_out_alike(first: list[Tensor], second: list[Tensor]) -> bool:
    """Whether the fused step may be used: it walks through memory, and asks nobody where an element lies."""
    return all(_is_whole(one) and _order(one) == _order(two) for one, two in zip(first, second))


def _is_whole(tensor: Tensor) -> bool:
    """Whether nothing else lies between its elements."""
    return sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride())) + 1 == tensor.numel()


def _order(tensor: Tensor) -> tuple[object, ...]:
    """Where its elements lie; axes of one position have no say."""
    steps = (step for step, size in zip(tensor.stride(), tensor.shape) if size > 1)
    return (tensor.dtype, tensor.device, *steps)


class StackedStepper(Stepper):
    """Steps the parameters of many clients, stacked along a leading axis; norms are per client. Never by the
    fused step: vmap lays out the gradients of most layers in another order than the parameters."""

    def __init__(self, names: Sequence[str], opts: Mapping[str, Opt], params: Sequence[Tensor]):
        """`params` are those of all clients; each step works on some rows of them."""
        super().__init__(names, opts)
        self._params = params
        self._rows: slice | Tensor = slice(None)

    def step_rows(
        self, params: Sequence[Tensor], grads: Sequence[Tensor | None], rows: slice | Tensor
    ) -> None:
        """Step the given clients: `params` and `grads` hold these rows only."""
        self._rows = rows
        self.step(params, grads)

    def _is_large(self, p: list[Tensor], keys: list[int]) -> bool:
        return False

    def _get(self, kind: str, keys: list[int], like: list[Tensor]) -> list[Tensor]:
        for i in keys:
            if (kind, i) not in self._memory:
                self._memory[kind, i] = torch.zeros_like(self._params[i])
        return [self._memory[kind, i][self._rows] for i in keys]

    def _put(self, kind: str, keys: list[int], values: list[Tensor]) -> None:
        if isinstance(self._rows, Tensor):  # indexing by a tensor made copies
            for i, value in zip(keys, values):
                self._memory[kind, i][self._rows] = value

    def _count(self, key: int, param: Tensor) -> Tensor:
        first = torch.zeros(len(self._params[key]), dtype=torch.float64, device=param.device)
        count = self._memory.setdefault(("count", key), first)
        count[self._rows] += 1
        return count[self._rows].reshape(-1, *(1,) * (param.ndim - 1))

    def _clip(self, grads: list[Tensor], largest: float) -> list[Tensor]:
        squares = [g.square().flatten(1).sum(1) if g.ndim > 1 else g.square() for g in grads]
        norm = torch.stack(squares).sum(0).sqrt()
        factor = (largest / (norm + 1e-6)).clamp(max=1)
        return [g * factor.reshape(-1, *(1,) * (g.ndim - 1)) for g in grads]
