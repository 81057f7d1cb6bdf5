"""What the models of several runs say of the same test images: classes, and entropies at every pixel.

The images are test samples in all of the runs, so that no model was trained on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..core.errors import ConfigError
from ..core.net import Net
from ..data.loader import Loader
from ..experiment import Experiment
from ..metrics.entropy import entropy_features, entropy_softmax
from .run_metrics import evaluated_net


class Maps(NamedTuple):
    """All [B, H, W]."""

    classes: Tensor
    softmax: Tensor  # H_S, at most log C
    features: Tensor  # H_E, at most log D


class Images(NamedTuple):
    """Test images [B, channels, H, W] as inputs, and their masks [B, H, W]."""

    x: Tensor
    y: Tensor


def shared_images(experiments: Sequence[Experiment], count: int) -> Images:
    """The first test images that all runs have for tests; ConfigError if they have none in common."""
    names = sorted({experiment.config.data for experiment in experiments})
    if len(names) > 1:
        raise ConfigError(f"entropy: the runs have different data ({', '.join(names)}); draw those of one")
    first = experiments[0]
    if first.dataset is None or not first.dataset.dense:
        raise ConfigError(f"entropy: {names[0]} has no masks; choose runs on segmentation data, such as pets")
    tests = [experiment.split.test.values for experiment in experiments if experiment.split is not None]
    rows = reduce(np.intersect1d, tests)[:count]
    if not len(rows):
        raise ConfigError("entropy: no image is a test sample in all of these runs; draw them one by one")
    assert first.split is not None
    return Images(*Loader(first.dataset, first.split, first.task.dtype, first.task.device).rows(rows))


@torch.no_grad()
def maps_of(experiment: Experiment, x: Tensor, client: int = 0) -> Maps:
    """By the model that is tested at a client: the server's, for methods with one model."""
    return entropy_maps(evaluated_net(experiment, client), x)


def entropy_maps(net: Net, x: Tensor) -> Maps:
    """Predicted classes, H_S and H_E of images [B, channels, H, W] under a net in eval mode."""
    z, logits = net(x)
    if logits.ndim != 4:
        raise ConfigError(f"entropy maps need a segmentation model, got logits of shape {list(logits.shape)}")
    size = (logits.shape[2], logits.shape[3])
    return Maps(logits.argmax(1), entropy_softmax(logits), entropy_features(z, size))
