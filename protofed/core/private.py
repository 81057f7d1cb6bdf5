"""Local training that hides single samples: DP-SGD, as a trainer of the one training loop.

    step  g = (Σ_i g_i · min(1, C / ‖g_i‖) + N(0, (z C)²)) / batch size,  g_i the gradient of sample i alone

Abadi et al., "Deep Learning with Differential Privacy", CCS 2016. What the optimiser makes of g costs nothing
more. The loss hook is called with each sample as a batch of its own (under vmap), so terms that compare
samples of a batch see one; a gradient can then not carry more than its sample, whatever the loss. Batches are
as ever: no privacy is claimed for their random order.

What else a method does with samples cannot be told from here. So its hooks get `Sealed` data, of which they
know the number alone; only rows that are declared as means of embeddings (`Averaged.embedded`) may be made,
of embeddings no longer than `radius`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.func import grad_and_value, vmap

from .algorithm import Algorithm, Leg, Phase
from .data import Batch, LocalData
from .errors import ConfigError
from .net import BoundNet, LiveNet
from .stages import stage
from .task import Task
from .train import Alone, Loss, Session


@dataclass(frozen=True)
class PrivateSteps:
    """Noise in every local step, and the bounds of what one sample adds."""

    noise: float  # z
    clip: float  # C, of a gradient
    radius: float  # of an embedding


class Private(Alone):
    """One client whose every step has noise."""

    def __init__(self, sessions: Sequence[Session], phase: Phase, number: int, steps: PrivateSteps):
        super().__init__(sessions, phase, number)
        self.fused.remove()
        self.steps = steps
        self.noise = self.turn.generator(f"private {number}")
        if type(self.task.algorithm).draw is not Algorithm.draw:
            raise ConfigError(
                f"dp example: {self.task.algorithm.name} draws random inputs for whole batches; with noise, "
                "samples are taken one by one"
            )

    def step(self, rows: list[int], batches: list[Batch], seeds: Sequence[Tensor]) -> Loss:
        for layer in self.layers:
            layer.seed.copy_(seeds[0])
        with stage("backward"):
            grads, losses = self._each(batches[0])
        with stage("optimiser"):
            self.stepper.step(self.params, self.noisy(grads))
        return losses.mean()[None], {}

    def _each(self, batch: Batch) -> tuple[list[Tensor], Tensor]:
        """Gradients of each sample, and losses [B]."""
        others = {name: t for name, t in self.net.named().items() if name not in set(self.trained)}
        view = self.sessions[0].view

        def one(params: Sequence[Tensor], x: Tensor, y: Tensor, idx: Tensor) -> Tensor:
            net = BoundNet(self.net.modules, {**others, **dict(zip(self.trained, params))})
            alone = Batch(x[None], y[None], idx[None], batch.last, {})
            loss, sums = self.loss(net, alone, view)
            if sums:
                raise ConfigError(
                    f"dp example: {self.task.algorithm.name} collects sums over samples while it trains "
                    f"({', '.join(sums)}), which no noise hides; see its options (proto_pass=post)"
                )
            return loss

        each = vmap(grad_and_value(one), in_dims=(None, 0, 0, 0))
        grads, losses = each([p.detach() for p in self.params], batch.x, batch.y, batch.idx)
        return list(grads), losses

    def noisy(self, grads: list[Tensor]) -> list[Tensor]:
        """The shortened gradients [B, …] added up, with noise, over their number."""
        squares = [g.flatten(1).square().sum(1) for g in grads]
        factor = (self.steps.clip / torch.stack(squares).sum(0).sqrt().clamp(min=self.steps.clip)).detach()
        deviation = self.steps.noise * self.steps.clip
        noisy = []
        for grad in grads:
            drawn = torch.randn(grad.shape[1:], generator=self.noise, dtype=torch.float64)
            total = torch.einsum("b,b...->...", factor, grad)
            noisy.append((total + deviation * drawn.to(grad)) / len(grad))
        return noisy


class Sealed:
    """A client's samples as hooks see them where single samples are hidden: their number."""

    def __init__(self, n: int, method: str):
        self._n = n
        self._method = method

    def __len__(self) -> int:
        return self._n

    def __getattr__(self, name: str) -> Any:
        raise ConfigError(
            f"dp example: {self._method} reads its samples outside of local steps (data.{name}), where no "
            "noise hides them; use a method that sends weights alone (fedavg), fedproto, or sums of fixed "
            "features (fedcommons, fed3r, fedncm), or hide whole clients: dp client:…"
        )


def sealed(task: Task, data: LocalData) -> LocalData:
    """What hooks may see of a client's samples."""
    return data if task.private is None else Sealed(len(data), task.algorithm.name)  # type: ignore[return-value]


def for_upload(task: Task, leg: Leg, data: LocalData, net: LiveNet) -> tuple[LocalData, LiveNet]:
    """The same for `upload`, with the net that it runs them through."""
    if task.private is None:
        return data, net
    if any(one.embedded for one in leg.averages):
        return data, ShortNet(net, task.private.radius)
    return sealed(task, data), net


class ShortNet(LiveNet):
    """A live net whose embeddings are no longer than a radius."""

    def __init__(self, net: LiveNet, radius: float):
        super().__init__(net.modules, net.frozen, net.part)
        self.radius = radius

    def __call__(self, *args: Tensor) -> Any:
        out = super().__call__(*args)
        return (self._short(out[0]), *out[1:]) if isinstance(out, tuple) else out  # (embedding, logits)

    def embed(self, x: Tensor) -> Tensor:
        return self._short(super().embed(x))

    def _short(self, z: Tensor) -> Tensor:
        if z.ndim != 2:
            raise ConfigError("dp example: feature maps have many embeddings of a sample: no bound is known")
        length = torch.linalg.vector_norm(z, dim=1, keepdim=True)
        short: Tensor = z * (self.radius / length.clamp(min=self.radius))
        return short


def local_epochs(algorithm: Algorithm, epochs: int) -> int:
    """Epochs over its samples that a client makes in a round, at most: a sample is in one step of each."""
    phases = [phase for leg in algorithm.legs for phase in leg.phases if phase.data == "local"]
    return sum(epochs if phase.epochs is None else phase.epochs for phase in phases)
