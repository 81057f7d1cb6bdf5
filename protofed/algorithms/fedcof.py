"""FedCOF: covariances for free, from the spread of the clients' class means; then a linear discriminant.

Goswami et al., "Covariances for Free: Exploiting Mean Distributions for Training-free Federated Learning",
NeurIPS 2025, arxiv.org/abs/2412.14326.

A client sends the mean of the features φ of each of its classes, and their number, as for FedNCM. Means of n
samples vary around the class mean with covariance Σ_c / n, so their spread over the K_c clients that have the
class tells Σ_c without bias; with shrinkage γ the head follows.

    server  Σ̂_c = 1/(K_c − 1) · Σ_k n_kc (μ_kc − μ_c)(μ_kc − μ_c)ᵀ + γ I
            G = Σ_c (N_c − 1) Σ̂_c + N μ μᵀ,  w_c = G⁻¹ N_c μ_c, then rows of unit length

Departures:
- Sums are sent instead of means: the same with the counts.
- N μ μᵀ, with μ the mean of all samples, stands in the released code; without it the paper's G has
  within-class scatter alone: `total_mean=false`.
- A class of one client has no spread: Σ̂_c = γ I.
- The paper samples several means of subsets at clients with many samples, so that there are more of them;
  here each client sends one a class.
- The server needs single clients' means, so it keeps them.
- The paper goes on by federated fine-tuning from this head; that is not part of it here.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ..core.algorithm import methods
from ..core.options import option
from ..ops.closed_form import ClosedForm
from ..ops.moments import Moments, class_centres
from ..ops.pooled import Pool


@methods.register("fedcof")
@dataclass(frozen=True)
class FedCOF(ClosedForm):
    """A linear discriminant whose covariance comes from the spread of the clients' means."""

    gamma: float = option(1.0, "γ, shrinkage added to each class's covariance", above=0)
    total_mean: bool = option(True, "add N μμᵀ to G, as the released code does")

    paper = "Goswami et al., NeurIPS 2025, arXiv:2412.14326"
    single = "estimates covariances from the spread of single clients' means"
    sends_gram = False
    ledger = True

    def solve(self, m: Moments, state: Pool) -> tuple[Tensor, Tensor]:
        centres = class_centres(m)
        sums, cls, n = (_rows(state, field) for field in ("sums", "cls", "n"))
        counts = n.double()
        holders = torch.zeros_like(m.n).index_add(0, cls, torch.ones_like(counts))
        # (N_c − 1)/(K_c − 1) · n_kc weighs a client's squared gap within G.
        weight = ((m.n - 1) / (holders - 1).clamp(min=1))[cls] * counts
        gaps = sums.double() / counts[:, None] - centres[cls]
        gram = (gaps * weight[:, None]).T @ gaps
        shrunk = self.gamma * (m.n - 1).clamp(min=0).sum()
        if self.total_mean:
            total = m.sums.sum(0)
            gram = gram + torch.outer(total, total) / m.n.sum()
        gram = gram + shrunk.clamp(min=self.gamma) * torch.eye(
            len(gram), dtype=gram.dtype, device=gram.device
        )
        solution = torch.linalg.solve(gram, m.sums.T).T
        return normalize(solution), centres.new_zeros(len(centres))


def _rows(state: Pool, field: str) -> Tensor:
    """A field of all clients' sums, rows joined, in the order of the clients."""
    return torch.cat([state.ledger[f"{client}/{field}"] for client in state.members.tolist()])
