"""FedNCM: the class means of everybody's samples, on features that are not trained, are the classifier.

Legate et al., "Guiding The Last Layer in Federated Learning with Pre-Trained Models", NeurIPS 2023,
arxiv.org/abs/2306.03937.

A client sends the sum of the features φ of each of its classes, and their number; the server's means, at unit
length, are the rows of the head.

    server  μ_c = Σ_k B_kc / Σ_k n_kc,  w_c = μ_c / ‖μ_c‖
    score   φᵀ w_c

Departures:
- Any common map, not only a pretrained backbone: random filters without one (`phi`).
- `score=nearest` takes the nearest mean instead, w_c = μ_c with bias −½ ‖μ_c‖²: features after a ReLU have a
  large common part, on which the products of `score=product`, as published, differ little. It is the default.
- The paper goes on by federated fine-tuning from this head; that is not part of it here.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import normalize

from ..core.algorithm import Leg, Preset, methods
from ..core.options import option
from ..ops.closed_form import ClosedForm, SentHead
from ..ops.moments import Moments, class_centres
from ..ops.pooled import NO_GRAM, PLAIN, Pool, Sums, keeps_ledger


@methods.register("fedncm")
@dataclass(frozen=True)
class FedNCM(ClosedForm):
    """Class means in a common space as the classifier; nothing is trained."""

    score: str = option(
        "nearest", "the nearest mean, or the largest product with it", choices=("nearest", "product")
    )
    ledger: bool = keeps_ledger()

    paper = "Legate et al., NeurIPS 2023, arXiv:2306.03937"
    sends_gram = False
    legs = (Leg(down=SentHead, up=Sums, averages=NO_GRAM, plain=PLAIN, phases=()),)
    presets = {"paper": Preset({"score": "product"}, {}, "products with means of unit length, as published")}

    def solve(self, m: Moments, state: Pool) -> tuple[Tensor, Tensor]:
        centres = class_centres(m)
        if self.score == "nearest":
            return centres, -0.5 * centres.square().sum(1)
        return normalize(centres), centres.new_zeros(len(centres))
