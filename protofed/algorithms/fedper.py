"""FedPer: the base of the model is shared, each client keeps a head of its own.

Arivazhagan et al., "Federated Learning with Personalization Layers", 2019, arxiv.org/abs/1912.00818.

Clients train base and head together by cross-entropy; only the base is sent and averaged.

    client  L = CE over base_k and head_k
    server  base ← Σ_k (n_k / n) · base_k

`split` names what stays private: "head", the last linear layer (default); "fc", both linear layers, so
that only convolutions are shared, as FedProto's papers count FedPer; or module names of the model,
such as "base.fc+head".

Departures: none. A client that never took part has its initial head.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..core.algorithm import methods
from ..ops.sharing import SharedBase


@methods.register("fedper")
@dataclass(frozen=True)
class FedPer(SharedBase):
    """Shared base, private heads."""

    paper = "Arivazhagan et al., 2019, arXiv:1912.00818"
