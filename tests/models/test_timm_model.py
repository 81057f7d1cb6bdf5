"""Architectures of timm as client models."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from protofed.core.errors import ConfigError
from protofed.core.torchvision_shim import import_torchvision
from protofed.models import assign, check_model, read_family, timm_model, write_family

pytestmark = pytest.mark.skipif(find_spec("timm") is None, reason="needs protofed[vision]")


@pytest.mark.parametrize(
    ("spec", "shape", "dim"),
    [
        ("timm:resnet18.a1_in1k", (3, 32, 32), 512),
        ("timm:mobilenetv3_small_050", (1, 28, 28), 1024),
        ("timm:vit_tiny_patch16_224", (3, 32, 48), 192),
    ],
)
def test_any_architecture_and_size(spec: str, shape: tuple[int, int, int], dim: int) -> None:
    model = read_family(spec).build(shape, 7)
    assert check_model(model, shape, 7, spec) == dim
    assert {name.split(".")[0] for name, _ in model.named_parameters()} == {"base", "head"}
    assert model.training


def test_written_form_keeps_dots_and_options() -> None:
    spec = "timm:resnet18.a1_in1k,pretrained=w.safetensors"
    assert write_family(read_family(spec)) == spec
    assert assign(f"{spec}|mlp", 2, (3, 32, 32), 3).specs == (spec, "mlp")


def test_unknown_architecture() -> None:
    with pytest.raises(ConfigError, match="unknown timm architecture 'resnet81'; did you mean 'resnet18'"):
        read_family("timm:resnet81").build((3, 32, 32), 3)


def test_weights_from_a_file_without_the_classifier(tmp_path: Path) -> None:
    state = read_family("timm:resnet10t").build((3, 32, 32), 3).base.state_dict()
    full = {k: torch.full_like(v, 0.5) for k, v in state.items()}
    save_file(
        full | {"fc.weight": torch.zeros(1000, 512), "fc.bias": torch.zeros(1000)}, tmp_path / "w.safetensors"
    )
    model = read_family("timm:resnet10t", {"pretrained": str(tmp_path / "w.safetensors")}).build(
        (3, 32, 32), 3
    )
    assert all((p == 0.5).all() for p in model.base.parameters())
    assert model.head.weight.shape == (3, 512)


def test_unreachable_weights_say_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    import_torchvision()
    library = timm_model._library()

    def no_network(*args: object, **kwargs: object) -> None:
        assert kwargs["pretrained"] is True
        raise ConnectionError("Name or service not known\nand more")

    monkeypatch.setattr(library, "create_model", no_network)
    with pytest.raises(ConfigError, match=r"could not be fetched.*give pretrained=FILE") as caught:
        read_family("timm:resnet18,pretrained=true").build((3, 32, 32), 3)
    assert "\n" not in str(caught.value)


def test_vectors_are_refused() -> None:
    with pytest.raises(ConfigError, match="model timm: expected images"):
        read_family("timm:resnet18").build((60,), 3)
