"""DeepLabV3+ with a MobileNetV2 encoder, as ProtoMargin uses it for segmentation.

Chen et al., ECCV 2018, in the definition of segmentation-models-pytorch: output stride 16, ASPP of
256 channels, standard decoder. The embedding is the ASPP output [B, 256, h, w], one prototype vector
per position. Without a file of encoder weights the start is random; nothing is ever downloaded.

The decoder also reads an early feature map of the encoder, so the logits are no function of the
embedding alone: the model is not head ∘ base, and `head` must be called with the skipped features.
Parameters of encoder and ASPP are named "base.", those of the decoder and classifier "head.".
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from ..core.errors import ConfigError
from ..core.options import option
from ..core.torchvision_shim import import_torchvision
from .base import Family, families
from .conv import image_shape
from .weights import load_weights


class DeepLabBase(nn.Module):
    """Encoder and ASPP. `forward` gives the embedding; `with_skip` also what the decoder needs."""

    def __init__(self, encoder: nn.Module, aspp: nn.Module):
        super().__init__()
        self.encoder = encoder
        self.aspp = aspp

    def with_skip(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The embedding, and the early features that the decoder adds to it."""
        features = self.encoder(x)
        return self.aspp(features[-1]), features[2]

    def forward(self, x: Tensor) -> Tensor:
        return self.with_skip(x)[0]


class DeepLabHead(nn.Module):
    """Decoder: embedding and skipped features to logits."""

    def __init__(self, skip: nn.Module, fuse: nn.Module, classifier: nn.Module):
        super().__init__()
        self.skip = skip
        self.fuse = fuse
        self.classifier = classifier

    def forward(self, embedding: Tensor, skipped: Tensor | None = None) -> Tensor:
        if skipped is None:
            raise ConfigError(
                "model deeplab: its head also needs early features of the image, not the embedding alone; "
                "choose a method that does not call the head on prototypes"
            )
        detail = self.skip(skipped)
        wide = interpolate(embedding, detail.shape[-2:], mode="bilinear", align_corners=True)
        logits: Tensor = self.classifier(self.fuse(torch.cat([wide, detail], dim=1)))
        return logits


class DeepLab(nn.Module):
    """`forward` returns (embedding [B, 256, h, w], logits [B, C, H, W])."""

    def __init__(self, base: DeepLabBase, head: DeepLabHead):
        super().__init__()
        self.base = base
        self.head = head

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        embedding, skipped = self.base.with_skip(x)
        logits = self.head(embedding, skipped)
        return embedding, interpolate(logits, x.shape[-2:], mode="bilinear", align_corners=True)


@families.register("deeplab")
@dataclass(frozen=True)
class DeepLabV3Plus(Family):
    """DeepLabV3+ with a MobileNetV2 encoder, for dense labels; embedding 256 per position."""

    pretrained: str = option("", "file of MobileNetV2 weights for the encoder")
    dropout: float = option(0.5, "in the ASPP module", low=0, high=1)

    def build(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        channels = image_shape(shape, self.name)[0]
        net = _library().DeepLabV3Plus(
            encoder_name="mobilenet_v2",
            encoder_weights=None,
            encoder_output_stride=16,
            decoder_channels=256,
            decoder_atrous_rates=(6, 12, 18),  # DeepLab's for stride 16; the library's default is for 8
            decoder_aspp_dropout=self.dropout,
            in_channels=channels,
            classes=num_classes,
            upsampling=1,
        )
        if self.pretrained:
            load_weights(net.encoder, self.pretrained, self.name, skip=("classifier.",))
        decoder = net.decoder
        head = DeepLabHead(decoder.block1, decoder.block2, net.segmentation_head)
        return DeepLab(DeepLabBase(net.encoder, decoder.aspp), head)


def _library() -> Any:
    import_torchvision()
    try:
        return import_module("segmentation_models_pytorch")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"model deeplab needs {error.name}, which is not installed: pip install 'protofed[vision]'"
        ) from error
