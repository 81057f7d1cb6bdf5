"""DeepLabV3+: equality with the library's own forward, and honest halves."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from protofed.core.errors import ConfigError
from protofed.models import check_model, deeplab, read_family

pytestmark = pytest.mark.skipif(
    find_spec("segmentation_models_pytorch") is None, reason="needs protofed[vision]"
)


def test_logits_equal_the_librarys() -> None:
    model = read_family("deeplab").build((3, 64, 96), 5).eval()
    theirs = deeplab._library().DeepLabV3Plus("mobilenet_v2", encoder_weights=None, classes=5).eval()
    theirs.encoder.load_state_dict(model.base.encoder.state_dict())
    theirs.decoder.aspp.load_state_dict(model.base.aspp.state_dict())
    theirs.decoder.block1.load_state_dict(model.head.skip.state_dict())
    theirs.decoder.block2.load_state_dict(model.head.fuse.state_dict())
    theirs.segmentation_head.load_state_dict(model.head.classifier.state_dict())
    x = torch.randn(2, 3, 64, 96)
    with torch.no_grad():
        embedding, logits = model(x)
        torch.testing.assert_close(logits, theirs(x))
    assert embedding.shape == (2, 256, 4, 6)
    assert torch.equal(model.base(x), embedding)
    assert {name.split(".")[0] for name, _ in model.named_parameters()} == {"base", "head"}


def test_sizes_that_are_no_multiples_of_16() -> None:
    model = read_family("deeplab:dropout=0").build((1, 65, 49), 3)
    assert check_model(model, (1, 65, 49), 3, "deeplab") == 256
    assert model.eval()(torch.zeros(2, 1, 65, 49))[1].shape == (2, 3, 65, 49)


def test_the_head_alone_is_refused() -> None:
    model = read_family("deeplab").build((3, 32, 32), 3)
    with pytest.raises(ConfigError, match="head also needs early features"):
        model.head(torch.zeros(2, 256, 2, 2))


def test_encoder_weights_from_a_file(tmp_path: Path) -> None:
    state = read_family("mobilenet_v2").build((3, 32, 32), 3).base.state_dict()
    full = {k: torch.full_like(v, 0.5) for k, v in state.items()}
    save_file(full | {"classifier.1.bias": torch.zeros(1000)}, tmp_path / "m.safetensors")
    model = read_family(f"deeplab:pretrained={tmp_path}/m.safetensors").build((3, 32, 32), 3)
    assert all((p == 0.5).all() for p in model.base.encoder.parameters())
