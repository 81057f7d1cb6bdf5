"""Fed3R: ridge regression on features that are not trained, from sums: the centralised solution.

Fanì et al., "Accelerating Heterogeneous Federated Learning with Closed-form Classifiers", ICML 2024,
arxiv.org/abs/2406.01116.

A client sends A_k = Σ φφᵀ and B_k = Σ φ yᵀ (y one-hot); the server solves for the head.

    server  W = (Σ_k A_k + λ I)⁻¹ Σ_k B_k, then columns of unit length

Departures:
- A constant feature 1 gives the head a bias, as in the released code; its row of A is Σ φ and N, which are
  known from B and the counts, so nothing more is sent. Like the released code, λ acts on it too.
- Of A, which is symmetric, the upper triangle is sent.
- Columns are scaled to unit length (weights without the bias; the bias by the same factor), as in the
  released code, against unequal classes; `normalise=false` leaves the plain solution.
- The random-feature variant is `phi=relu`, or `phi=model:…+relu`; the paper takes cosines.
- The paper goes on by federated fine-tuning from this head; that is not part of it here.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.algorithm import methods
from ..core.options import option
from ..ops.closed_form import ClosedForm
from ..ops.moments import Moments
from ..ops.pooled import Pool, keeps_ledger


@methods.register("fed3r")
@dataclass(frozen=True)
class Fed3R(ClosedForm):
    """Ridge regression from added moments; equal to the centralised solution."""

    lam: float = option(0.01, "λ of ridge regression", above=0)
    normalise: bool = option(True, "scale the weights of each class to unit length")
    ledger: bool = keeps_ledger()

    paper = "Fanì et al., ICML 2024, arXiv:2406.01116"

    def solve(self, m: Moments, state: Pool) -> tuple[Tensor, Tensor]:
        side = m.sums.sum(0)[:, None]
        gram = torch.cat([torch.cat([m.gram, side], 1), torch.cat([side.T, m.n.sum().view(1, 1)], 1)])
        gram = gram + self.lam * torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
        targets = torch.cat([m.sums, m.n[:, None]], 1)
        solution = torch.linalg.solve(gram, targets.T).T
        weight, bias = solution[:, :-1], solution[:, -1]
        if not self.normalise:
            return weight, bias
        length = torch.linalg.vector_norm(weight, dim=1).clamp(min=1e-12)
        return weight / length[:, None], bias / length
