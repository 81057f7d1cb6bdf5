"""FedOpt: the server treats the clients' average change as a gradient for an adaptive optimiser.

Reddi et al., "Adaptive Federated Optimization", ICLR 2021, arxiv.org/abs/2003.00295.

Clients train by cross-entropy. With Δ the average of their changes (Algorithm 2), elementwise, from v = τ²:

    client  L = CE
    server  m ← β1·m + (1−β1)·Δ,   w ← w + η · m / (√v + τ)
            v ← v + Δ²  for Adagrad
            v ← β2·v + (1−β2)·Δ²  for Adam
            v ← v − (1−β2)·Δ² · sign(v − Δ²)  for Yogi

Departures: the average is weighted by sample counts, as in the paper's experiments; Algorithm 2 prints the
plain one (`weighting=uniform`). η must be tuned; the default is ours. Buffers (BatchNorm statistics) are
averaged.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.algorithm import Preset, methods
from ..core.answer import Replies
from ..core.options import option
from ..core.record import Record, Tree, Weights
from ..core.task import Task, Turn
from ..ops.sharing import SharedWeights


class Moments(Record):
    """Server state: the weights, and the optimiser's moments of every parameter."""

    weights: Tree
    first: Tree  # m
    second: Tree  # v


@methods.register("fedopt")
@dataclass(frozen=True)
class FedOpt(SharedWeights):
    """FedAvg with Adam, Yogi or Adagrad at the server."""

    server: str = option("adam", "optimiser of the server", choices=("adam", "yogi", "adagrad"))
    eta: float = option(0.03, "η, learning rate of the server", above=0)
    beta1: float = option(0.9, "β1, decay of the first moment", low=0, high=1)
    beta2: float = option(0.99, "β2, decay of the second moment (Adam, Yogi)", low=0, high=1)
    tau: float = option(1e-3, "τ, degree of adaptivity", above=0)
    weighting: str = option("samples", "weight of a client in the average", choices=("samples", "uniform"))

    paper = "Reddi et al., ICLR 2021, arXiv:2003.00295"
    presets = {
        "paper": Preset(note="FedAdam"),
        "fedadam": Preset({"server": "adam"}, note="FedAdam"),
        "fedyogi": Preset({"server": "yogi"}, note="FedYogi"),
        "fedadagrad": Preset({"server": "adagrad", "beta1": 0.0}, note="FedAdagrad, no first moment"),
    }

    def init(self, task: Task, turn: Turn) -> Moments:
        weights = self.shared(task.fresh(0), task, 0)
        names = task.names(0).parameters
        first = {n: torch.zeros_like(weights[n]) for n in names}
        return Moments(weights, first, {n: torch.full_like(weights[n], self.tau**2) for n in names})

    def broadcast(self, state: Moments, turn: Turn) -> Weights:
        return Weights(state.weights)

    def aggregate(self, state: Moments, replies: Replies, turn: Turn) -> Moments:
        weights, first, second = self.average(replies), {}, {}
        for name in state.first:
            delta = weights[name] - state.weights[name]
            m = first[name] = self.beta1 * state.first[name] + (1 - self.beta1) * delta
            v = second[name] = self._second(state.second[name], delta.square())
            weights[name] = state.weights[name] + self.eta * m / (v.sqrt() + self.tau)
        return Moments(weights, first, second)

    def _second(self, v: Tensor, square: Tensor) -> Tensor:
        if self.server == "adagrad":
            return v + square
        if self.server == "adam":
            return self.beta2 * v + (1 - self.beta2) * square
        return v - (1 - self.beta2) * square * torch.sign(v - square)

    def weight(self, samples: int) -> float:
        return samples if self.weighting == "samples" else 1
