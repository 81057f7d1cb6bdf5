"""Entropy at every pixel of a segmentation (*ProtoMargin*, §5.3): how sure the prediction is, and how many
features answer.

Michieli and Ozay, *Prototype Guided Federated Learning of Visual Feature Representations*. Departure: the
paper divides features by their sum; ours are cut off at 0 before that, since a distribution has no negative
part.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import interpolate


def entropy_softmax(logits: Tensor) -> Tensor:
    """H_S: entropy (in nats) of the softmax at every pixel of logits [B,C,H,W]: [B,H,W]."""
    log_p = logits.log_softmax(1)
    return -(log_p.exp() * log_p).sum(1)


def entropy_features(features: Tensor, size: tuple[int, int]) -> Tensor:
    """H_E: entropy over the channels of encoder features [B,D,h,w], enlarged to `size`: [B,H,W].

    A pixel without any positive channel has entropy 0.
    """
    mass = features.relu()
    total = mass.sum(1, keepdim=True)
    p = mass / total.where(total > 0, 1.0)
    entropy = -torch.xlogy(p, p).sum(1, keepdim=True)
    return interpolate(entropy, size=size, mode="bilinear", align_corners=False)[:, 0]
