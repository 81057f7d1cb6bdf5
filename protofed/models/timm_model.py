"""Any architecture of the timm library as a client model: "timm:resnet18", "timm:vit_tiny_patch16_224".

The base is timm's model without its classifier, the head one linear layer. Weights are random,
from a local file, or timm's own (`pretrained=true`), which timm downloads if they are not in its cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import torch
from torch import nn

from ..core.errors import ConfigError, unknown
from ..core.options import option
from ..core.torchvision_shim import import_torchvision
from .base import Family, Model, families
from .conv import image_shape
from .weights import load_weights


@families.register("timm")
@dataclass(frozen=True)
class TimmModel(Family):
    """Any timm architecture with a linear head: timm:NAME."""

    positional: ClassVar[str] = "arch"

    arch: str = option("resnet18", "name of the architecture in timm, with or without a tag")
    pretrained: str = option("", "true for timm's own weights, or a local file of weights")

    def build(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        image_shape(shape, self.name)
        timm = _library()
        if not timm.is_model(self.arch):
            raise ConfigError(unknown("timm architecture", self.arch, timm.list_models()))
        own_weights = self.pretrained.lower() in ("true", "yes", "1")
        base = _create(timm, self.arch, shape, own_weights)
        if self.pretrained and not own_weights and self.pretrained.lower() not in ("false", "no", "0"):
            load_weights(base, self.pretrained, f"timm:{self.arch}", skip=_classifier(base))
        return Model(base, nn.Linear(_width(base, shape), num_classes))


def _library() -> Any:
    import_torchvision()
    try:
        return import_module("timm")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"models 'timm:…' need {error.name}, which is not installed: pip install 'protofed[vision]'"
        ) from error


def _create(timm: Any, arch: str, shape: tuple[int, ...], own_weights: bool) -> nn.Module:
    """Architectures with a fixed image size are told ours; the others do not know the argument."""
    wanted = {"pretrained": own_weights, "num_classes": 0, "in_chans": shape[0]}
    try:
        try:
            made: nn.Module = timm.create_model(arch, img_size=shape[1:], **wanted)
        except TypeError:
            made = timm.create_model(arch, **wanted)
        return made
    except Exception as error:  # downloads fail in many ways, each library with errors of its own
        if not own_weights:
            reason = str(error).strip().split("\n")[0]
            raise ConfigError(f"model timm:{arch} cannot be built for inputs {shape}: {reason}") from error
        raise ConfigError(
            f"model timm:{arch}: timm's weights could not be fetched ({type(error).__name__}); "
            "download them elsewhere and give pretrained=FILE, or leave pretrained out"
        ) from error


def _classifier(base: nn.Module) -> tuple[str, ...]:
    """Names of the classifier in a file of weights, which the base does not have."""
    config: Any = getattr(base, "pretrained_cfg", None) or {}
    names = config.get("classifier") or ()
    return tuple(f"{name}." for name in ((names,) if isinstance(names, str) else names))


def _width(base: nn.Module, shape: tuple[int, ...]) -> int:
    """Features per sample. Attributes differ between architectures, so one pass asks the model itself."""
    parameter = next(base.parameters())
    training = base.training
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        features = base.eval()(torch.zeros(1, *shape, dtype=parameter.dtype, device=parameter.device))
    base.train(training)
    return int(features.shape[1])
