"""FedProto's two-convolution networks for MNIST and FEMNIST.

Tan et al., AAAI 2022, arxiv.org/abs/2105.00243, and its released code: the embedding (the
prototype) is the 50-vector after the first linear layer's ReLU. `channels` is the width of the
second convolution, which differs between clients in the model-heterogeneous setting. FEMNIST uses
a 3×3 first convolution on 128×128 images (`kernel=3`); 28×28 images work too.

`base.conv` and `base.fc` are separate because FedPer, as FedProto counts it, shares the
convolutions alone: 5,280 parameters of 21,840.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from torch import nn

from ..core.max_pool import MaxPool2
from ..core.options import option
from .base import Family, Model, families
from .conv import pooled_area

EMBEDDING = 50


@families.register("fp_cnn")
@dataclass(frozen=True)
class FpCnn(Family):
    """FedProto's CNN: two convolutions and a linear layer, embedding 50."""

    channels: int = option(20, "width of the second convolution", low=1)
    kernel: int = option(5, "size of the first convolution: 5 for MNIST, 3 for FEMNIST", low=1)
    dropout: float = option(0.5, "after the second convolution and before the head", low=0, high=1)

    def build(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        area = pooled_area(shape, (self.kernel, 5), self.name)
        conv = nn.Sequential(
            nn.Conv2d(shape[0], 10, self.kernel),
            MaxPool2(),
            nn.ReLU(),
            nn.Conv2d(10, self.channels, 5),
            nn.Dropout2d(self.dropout),
            MaxPool2(),
            nn.ReLU(),
        )
        fc = nn.Sequential(nn.Flatten(), nn.Linear(area * self.channels, EMBEDDING), nn.ReLU())
        head = OrderedDict(dropout=nn.Dropout(self.dropout), fc=nn.Linear(EMBEDDING, num_classes))
        return Model(nn.Sequential(OrderedDict(conv=conv, fc=fc)), nn.Sequential(head))
