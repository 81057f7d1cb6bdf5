"""Steps of k-means over rows: seeding, and distances to centres."""

from __future__ import annotations

import torch
from torch import Tensor


def squared_distances(rows: Tensor, centres: Tensor) -> Tensor:
    """‖row − centre‖² of rows [N, P] and centres [K, P]: [N, K]. Subtracts first: exact for near rows."""
    return torch.stack([(rows - centre).square().sum(1) for centre in centres], dim=1)


def plus_plus(rows: Tensor, k: int, generator: torch.Generator) -> list[int]:
    """k-means++: indices of k rows [N, P], each drawn with probability ∝ its squared distance to the
    nearest one drawn before. Where all distances are 0 (fewer different rows than k) the first row."""
    chosen = [int(torch.randint(len(rows), (), generator=generator))]
    nearest = squared_distances(rows, rows[chosen[0]][None])[:, 0]
    while len(chosen) < k:
        odds = nearest.cpu().double()
        drawn = int(torch.multinomial(odds, 1, generator=generator)) if odds.sum() > 0 else 0
        chosen.append(drawn)
        nearest = torch.minimum(nearest, squared_distances(rows, rows[drawn][None])[:, 0])
    return chosen
