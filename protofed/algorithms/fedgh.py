"""FedGH: the server trains one header for all clients on their class means.

Yi et al., "FedGH: Heterogeneous Federated Learning with Generalized Global Header", ACM Multimedia 2023,
arxiv.org/abs/2303.13137.

Clients may have different bases, but headers of one shape. A client puts the global header on its own
base, trains both with cross-entropy, and uploads the mean embedding of each of its classes. The server
takes gradient steps with the uploaded (mean, class) pairs on the global header, and sends it to all.

    client  L = CE(h(f(x)), y)
    server  θ ← θ − η · ∇ CE(h(p_kc; θ), c)  for every uploaded mean p_kc

Departures and readings:
- The first global header is sent before round 1 too, so that all clients start from one header; the
  released code lets them start from their own.
- A server step takes one pair, in the order of clients and classes, one pass a round, as the released
  loop is written. That loop steps an optimiser which holds the parameters of a client's model, so in the
  released code the header never moves; we do not imitate this. Benchmarks shuffle the pairs into
  batches: `server_batch`, `server_epochs`, `server_shuffle`.
- The released code tests a client's model as it left local training: mode `own`, the client's last
  header on its base. Mode `clf` has the newest global header instead.
- The header is trained in eval mode (dropout off); its buffers, if any, stay as they were made.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..core.algorithm import Leg, Ran, methods
from ..core.answer import Replies, cat
from ..core.data import LocalData
from ..core.net import Net
from ..core.options import option
from ..core.record import Tree, Weights
from ..core.scoring import FEW
from ..core.task import Turn
from ..ops.header import HEAD, SharedHeader
from ..ops.prototypes import Protos, class_means, owned, supported


@methods.register("fedgh")
@dataclass(frozen=True)
class FedGH(SharedHeader):
    """A global header, trained at the server on the clients' class means."""

    min_count: int = option(1, "fewest samples of a class for a client to send its mean", low=1)

    paper = "Yi et al., ACM MM 2023, arXiv:2303.13137"
    single = "trains its header on single uploads"
    legs = (Leg(down=Weights, up=Protos),)

    @property
    def weighs_alike(self) -> bool:
        return self.min_count <= FEW

    # server

    def aggregate(self, state: Weights, replies: Replies, turn: Turn) -> Weights:
        """θ ← θ − η ∇ CE(h(mean; θ), class), pair by pair."""
        mean, cls = cat(replies.all(), "mean", "cls")
        return self.trained(state, mean, cls, turn)

    # client

    def upload(
        self, net: Net, data: LocalData, down: Weights, mem: Tree, ran: Ran, turn: Turn
    ) -> tuple[Protos, Tree]:
        mean, n = class_means(net, data, turn.task.C)
        mean, cls, _ = owned(mean, supported(n, data, self.min_count))
        return Protos(mean, cls), net.tensors(HEAD)
