"""FedRE: a client sends one mixture of its embeddings, and the mixture of their labels.

Yao et al., "FedRE: A Representation Entanglement Framework for Model-Heterogeneous Federated Learning",
CVPR 2026, arxiv.org/abs/2511.22265.

Each round a client draws weights w that sum to 1, mixes its embeddings to one vector r and the one-hot
labels to one soft label q, and sends both; the server trains the shared header on the pairs (r, q) of
all clients. A single class, let alone a single sample, cannot be read off r.

    client  L = CE(h(f(x)), y);   r = Σ_i w_i f(x_i),  q = Σ_i w_i onehot(y_i)
    server  θ ← θ − η · ∇ ( −Σ_c q_c log softmax(h(r; θ))_c )

Departures and readings:
- w is uniform random, divided by its sum. `over=classes` mixes the class means instead of the samples:
  with many samples w_i/Σw hardly differs from 1/n, and the mixture from the mean of all; over classes it
  does.
- As in FedGH, with which it shares its frame, clients put the newest global header on their base before
  they train, and are tested with their own last header (`own`) and with the global one (`clf`). The
  server makes 10 passes a round, of our choosing: with one pair a client there is little to learn from
  in one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..core.algorithm import Leg, Ran, methods
from ..core.answer import Replies, cat
from ..core.data import LocalData
from ..core.net import Net
from ..core.options import option
from ..core.record import Record, Tree, Weights
from ..core.task import Turn
from ..ops.header import HEAD, SharedHeader
from ..ops.prototypes import class_means, features, one_hot


class Entangled(Record):
    """One mixture: payload D + C."""

    mixed: Float[Tensor, "J D"]
    label: Float[Tensor, "J C"]


@methods.register("fedre")
@dataclass(frozen=True)
class FedRE(SharedHeader):
    """A global header, trained at the server on one mixed embedding from each client."""

    server_epochs: int = option(10, "passes over the uploads a round", low=0)
    over: str = option("classes", "what is mixed: class means, or samples", choices=("classes", "samples"))

    paper = "Yao et al., CVPR 2026, arXiv:2511.22265"
    single = "trains its header on single uploads"
    legs = (Leg(down=Weights, up=Entangled),)

    # server

    def aggregate(self, state: Weights, replies: Replies, turn: Turn) -> Weights:
        mixed, label = cat(replies.all(), "mixed", "label")
        return self.trained(state, mixed, label, turn)

    # client

    def upload(
        self, net: Net, data: LocalData, down: Weights, mem: Tree, ran: Ran, turn: Turn
    ) -> tuple[Entangled, Tree]:
        classes = turn.task.C
        if self.over == "classes":
            mean, n = class_means(net, data, classes)
            y = torch.nonzero(n > 0)[:, 0]
            z = mean[y]
        else:
            z, y = features(net, data)
        w = torch.rand(len(z), generator=turn.generator("mixture")).to(z)
        up = mixture(z, one_hot(y, classes, z.dtype), w)
        return up, net.tensors(HEAD)


def mixture(z: Tensor, labels: Tensor, w: Tensor) -> Entangled:
    """r [1, D] and q [1, C] of embeddings [N, D] and labels [N, C]; weights [N] of any positive sum."""
    share = (w / w.sum())[None]
    return Entangled(share @ z, share @ labels)
