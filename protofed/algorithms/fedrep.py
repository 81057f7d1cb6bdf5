"""FedRep: as FedPer, but each client first fits its head to the received base, then trains the base.

Collins et al., "Exploiting Shared Representations for Personalized Federated Learning", ICML 2021,
arxiv.org/abs/2102.07078.

Two phases a round, each with a fresh optimiser: E_h epochs of cross-entropy on the private head with the
base frozen, then E_b epochs on the base with the head frozen. Only the base is sent and averaged.

    client  L = CE over head_k, then L = CE over base_k
    server  base ← Σ_k (n_k / n) · base_k

`split` names the head as for FedPer: "head", "fc", or module names joined by "+".

Departures: E_h = 1 by default, the budget of FedProto's papers; the authors' code runs 10 head epochs
(preset `official`). E_b follows the run's `epochs`, so that a straggler does less. As in the authors'
code frozen parts stay in training mode: dropout is active and BatchNorm statistics of the base move
in the head phase too.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..core.algorithm import Leg, Phase, Preset, methods
from ..core.options import option
from ..core.record import Weights
from ..ops.sharing import SharedBase


@methods.register("fedrep")
@dataclass(frozen=True)
class FedRep(SharedBase):
    """Shared base, private heads, trained one after the other."""

    e_head: int = option(1, "E_h, epochs of the head phase", low=0)
    e_body: int | None = option(None, "E_b, epochs of the body phase; default: the run's epochs", low=0)

    paper = "Collins et al., ICML 2021, arXiv:2102.07078"
    presets = {
        "paper": Preset(note="with the budget of FedProto's papers: one epoch a phase"),
        "official": Preset({"e_head": 10, "e_body": 1}, note="the authors' released code"),
    }

    @property
    def legs(self) -> tuple[Leg, ...]:
        body = ("", *(f"!{prefix}" for prefix in self.private))
        phases = (Phase(self.private, epochs=self.e_head), Phase(body, epochs=self.e_body))
        return (Leg(down=Weights, up=Weights, phases=phases, averages=self.averages),)
