"""LG-FedAvg: each client keeps a base of its own, the head is shared.

Liang et al., "Think Locally, Act Globally: Federated Learning with Local and Global Representations",
2020, arxiv.org/abs/2001.01523.

Clients train base and head together by cross-entropy; only the head is sent and averaged. Bases may
differ, heads must be alike.

    client  L = CE over base_k and head_k
    server  head ← Σ_k (n_k / n) · head_k

Departures: heads are averaged by sample counts and start from one common head, bases from scratch. The
authors' code averages without weights (preset `official`) and starts from a model trained by FedAvg;
the latter presumes one architecture and is not offered.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..core.algorithm import Needs, Preset, methods
from ..core.options import option
from ..ops.sharing import SharedWeights


@methods.register("lg_fedavg")
@dataclass(frozen=True)
class LgFedAvg(SharedWeights):
    """Private bases, shared head."""

    weighting: str = option("samples", "weight of a client in the average", choices=("samples", "uniform"))

    paper = "Liang et al., 2020, arXiv:2001.01523"
    private = ("model.base.",)
    needs = Needs(head=True)
    presets = {
        "paper": Preset(),
        "official": Preset({"weighting": "uniform"}, note="the average of the authors' released code"),
    }

    def weight(self, samples: int) -> float:
        return samples if self.weighting == "samples" else 1
