"""FedAtt: the server moves towards the clients' weights, tensor by tensor, most towards the farthest.

Ji et al., "Learning Private Neural Language Modeling with Attentive Aggregation", IJCNN 2019,
arxiv.org/abs/1812.07108.

Clients train by cross-entropy. The server treats every parameter tensor l by itself, and adds Gaussian
noise if `noise` is set:

    client  L = CE
    server  w^l ← w^l − ε · Σ_k α_k · (w^l − w_k^l),   α = softmax over k of ‖w^l − w_k^l‖

Departures: s is the norm of the flattened tensor; the authors' code takes the spectral norm of matrices
(preset `official`). It knows no convolutions: their kernels count as matrices [outputs, rest] there.
Buffers (BatchNorm statistics) are averaged by sample counts. Stragglers are dropped, as in ProtoMargin's
comparison; `tolerate` takes their partial work.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.algorithm import Preset, methods
from ..core.answer import Replies
from ..core.options import option
from ..core.record import Weights
from ..core.task import Turn
from ..ops.sharing import SharedWeights
from ..ops.trees import Average


@methods.register("fedatt")
@dataclass(frozen=True)
class FedAtt(SharedWeights):
    """Weights are averaged by attention on their distance from the server's."""

    epsilon: float = option(1.2, "ε, step size of the server", above=0)
    norm: str = option("l2", "norm of the differences of a tensor", choices=("l2", "spectral"))
    noise: float = option(0.0, "standard deviation of the noise added to the new weights", low=0)
    tolerate: bool = option(False, "use the partial work of stragglers instead of dropping them")

    paper = "Ji et al., IJCNN 2019, arXiv:1812.07108"
    single = "weighs each client by the distance of its weights"
    presets = {
        "paper": Preset(),
        "official": Preset({"norm": "spectral"}, note="the norm of the authors' released code"),
    }

    @property
    def partial(self) -> str:
        return "use" if self.tolerate else "drop"

    def aggregate(self, state: Weights, replies: Replies, turn: Turn) -> Weights:
        received = replies.all()
        average = Average()
        for reply in received:
            average.add(reply.up.weights, self.weight(reply.n), reply.client)
        weights, draws = average.result(), turn.generator("noise")
        for name in turn.task.names(0).parameters:
            gaps = torch.stack([state.weights[name] - reply.up.weights[name] for reply in received])
            weights[name] = state.weights[name] - self.epsilon * self.attend(gaps)
            if self.noise:
                drawn = torch.randn(gaps.shape[1:], generator=draws, dtype=gaps.dtype)
                weights[name] += self.noise * drawn.to(gaps.device)
        return Weights(weights)

    def attend(self, gaps: Tensor) -> Tensor:
        """Σ_k α_k gap_k of differences [K, …], α = softmax of their norms."""
        if self.norm == "spectral" and gaps.ndim > 2:
            lengths = torch.linalg.matrix_norm(gaps.flatten(2), ord=2)
        else:
            lengths = gaps.reshape(len(gaps), -1).norm(dim=1)
        summed: Tensor = torch.tensordot(lengths.softmax(0), gaps, 1)
        return summed
