"""SGD and Adam as steps over lists of tensors, made anew in every phase.

Written here rather than taken from torch.optim because the cohort engine steps the tensors of many
clients at once, stacked along a leading axis, with gradient norms per client: one definition serves
both, and the engines agree to the last bits. Checked against torch.optim in the tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .options import option


@dataclass(frozen=True)
class Opt:
    """An optimiser and its options."""

    lr: float = option(0.01, "learning rate", above=0)
    momentum: float = option(0.5, "momentum of SGD", low=0, high=1)
    weight_decay: float = option(0.0, "L2 penalty, added to the gradient", low=0)
    clip: float | None = option(None, "largest norm of a client's gradient", above=0)
    kind: str = option("sgd", "optimiser", choices=("sgd", "adam"))

    def scaled(self, factor: float) -> Opt:
        return replace(self, lr=self.lr * factor)


class Stepper:
    """Steps the named parameters. `stacked` says that a leading client axis is present."""

    def __init__(self, names: Sequence[str], opts: Mapping[str, Opt], stacked: bool = False):
        """`opts` maps prefixes to optimisers; the longest prefix of a name wins. Each prefix is an
        optimiser of its own: gradients are clipped by the norm of the parameters under it."""
        self.stacked = stacked
        parts: dict[str, list[int]] = {}
        for i, name in enumerate(names):
            prefix = max((p for p in opts if name.startswith(p)), key=len)
            parts.setdefault(prefix, []).append(i)
        self._parts = [(opts[p], index, _STATES[opts[p].kind]()) for p, index in parts.items()]

    @torch.no_grad()
    def step(self, params: Sequence[Tensor], grads: Sequence[Tensor | None]) -> None:
        """Change the parameters in place. A parameter without gradient stays as it is."""
        for opt, index, state in self._parts:
            used = [i for i in index if grads[i] is not None]
            if not used:
                continue
            p = [params[i] for i in used]
            g = [grad for i in used if (grad := grads[i]) is not None]
            if opt.clip is not None:
                g = self._clip(g, opt.clip)
            if opt.weight_decay:
                g = list(torch._foreach_add(g, p, alpha=opt.weight_decay))
            state.step(p, g, used, opt)

    def _clip(self, grads: list[Tensor], largest: float) -> list[Tensor]:
        first = 1 if self.stacked else 0
        squares = [g.square().flatten(first).sum(-1) if g.ndim > first else g.square() for g in grads]
        norm = torch.stack(squares).sum(0).sqrt()
        factor = (largest / (norm + 1e-6)).clamp(max=1)
        return [g * factor.reshape(factor.shape + (1,) * (g.ndim - factor.ndim)) for g in grads]


class _Sgd:
    def __init__(self) -> None:
        self.velocity: dict[int, Tensor] = {}

    def step(self, p: list[Tensor], g: list[Tensor], keys: list[int], opt: Opt) -> None:
        if opt.momentum:
            new = [k for k in keys if k not in self.velocity]
            if new:
                fresh = set(new)
                known = [(k, grad) for k, grad in zip(keys, g) if k not in fresh]
                self.velocity.update({k: grad.clone() for k, grad in zip(keys, g) if k in fresh})
            else:
                known = list(zip(keys, g))
            if known:
                old = [self.velocity[k] for k, _ in known]
                torch._foreach_mul_(old, opt.momentum)
                torch._foreach_add_(old, [grad for _, grad in known])
            g = [self.velocity[k] for k in keys]
        torch._foreach_add_(p, g, alpha=-opt.lr)


class _Adam:
    """Adam with torch's defaults: betas 0.9 and 0.999, epsilon 1e-8."""

    def __init__(self) -> None:
        self.mean: dict[int, Tensor] = {}
        self.square: dict[int, Tensor] = {}
        self.count: dict[int, int] = {}

    def step(self, p: list[Tensor], g: list[Tensor], keys: list[int], opt: Opt) -> None:
        for k, param, grad in zip(keys, p, g):
            mean = self.mean.setdefault(k, torch.zeros_like(grad))
            square = self.square.setdefault(k, torch.zeros_like(grad))
            count = self.count[k] = self.count.get(k, 0) + 1
            mean.lerp_(grad, 0.1)
            square.mul_(0.999).addcmul_(grad, grad, value=0.001)
            root = (square / (1 - 0.999**count)).sqrt_().add_(1e-8)
            param.addcdiv_(mean, root, value=-opt.lr / (1 - 0.9**count))


_STATES: dict[str, type[_Sgd] | type[_Adam]] = {"sgd": _Sgd, "adam": _Adam}
