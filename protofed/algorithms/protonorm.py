"""ProtoNorm: global prototypes are spread over a sphere and made long, so that classes lie far apart.

Lee, Shin and Choi, "Heterogeneous Federated Learning with Prototype Alignment and Upscaling", 2025,
arxiv.org/abs/2507.04310.

The server averages the uploaded prototypes, brings them to length 1 and lets them push each other away
as charges do (the Thomson problem); clients pull their embeddings to these directions, s times as long.

    server  P_c = plain mean of the uploads, P ← P/‖P‖;  then T times
            v_c ← μ v_c + η Σ_{c'≠c} (P_c − P_c') / ‖P_c − P_c'‖²,  P_c ← (P_c + v_c) / ‖P_c + v_c‖
    client  L = CE + λ · mean over dimensions of (h − s · P_y)²

Departures and readings:
- η falls by a twentieth after every tenth step, as in the released code, which also stops early when the
  mean force no longer changes in its fourth digit; we take all T steps.
- s = 80 belongs to 512 dimensions and deep networks; on few images and 50 dimensions that target drowns
  the labels. The default is 5, preset `paper` has 80. λ is not printed with it; 1 is that of FedProto's
  mean square.
- Directions of classes that nobody has uploaded yet are unknown: they are neither sent nor push.
- The nearest prototype is measured to s · P, which is what is sent and kept.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ..core.algorithm import HTFLLIB_TRAIN, Leg, Preset, View, carries_clients, methods
from ..core.answer import Replies
from ..core.averages import Averaged
from ..core.data import Batch
from ..core.net import Net
from ..core.options import option
from ..core.task import Turn
from ..ops.exchange import KnownPrototypes, PrototypeExchange, plain_means, uploaded
from ..ops.losses import ce, sample_pull
from ..ops.prototypes import Protos
from ..ops.sphere import spread_out


@methods.register("protonorm")
@dataclass(frozen=True)
class ProtoNorm(PrototypeExchange):
    """Prototypes that repel each other on a sphere."""

    lam: float = option(1.0, "λ, weight of the prototype term", low=0)
    scale: float = option(5.0, "s, length of the global prototypes", above=0)
    steps: int = option(100, "T, steps of repulsion a round; 0: only normalise", low=0)
    step_size: float = option(0.1, "η of the repulsion", above=0)
    inertia: float = option(0.9, "μ, momentum of the repulsion", low=0, below=1)

    paper = "Lee et al., 2025, arXiv:2507.04310"
    legs = (Leg(down=Protos, up=Protos, averages=(Averaged("mean", by="cls"),)),)
    presets = {"paper": Preset({"scale": 80.0}, HTFLLIB_TRAIN, "as published; made for 512 dimensions")}

    # server

    def aggregate(self, state: KnownPrototypes, replies: Replies, turn: Turn) -> KnownPrototypes:
        fresh, count = plain_means(*uploaded(replies), len(state.known))
        mean = fresh.where(count[:, None] > 0, state.mean)
        known = (state.known + count).clamp(max=1)
        apart = spread_out(mean[known > 0], self.steps, self.step_size, self.inertia)
        mean[known > 0] = self.scale * apart
        return KnownPrototypes(mean, known)

    # client

    @carries_clients
    def loss(self, net: Net, batch: Batch, view: View) -> Tensor:
        z, logits = net(batch.x)
        return ce(logits, batch.y) + self.lam * sample_pull(z, batch, view["protos"], view["known"], "mse")
