"""The papers' architectures: printed parameter counts, and equality with torchvision's definitions."""

from __future__ import annotations

from importlib.util import find_spec
from itertools import pairwise

import pytest
import torch
from torch import nn

from protofed.core.errors import ConfigError
from protofed.core.torchvision_shim import import_torchvision
from protofed.models import check_model, count_parameters, read_family

needs_torchvision = pytest.mark.skipif(find_spec("torchvision") is None, reason="needs protofed[vision]")


def build(spec: str, shape: tuple[int, ...] = (3, 32, 32), classes: int = 100) -> nn.Module:
    return read_family(spec).build(shape, classes)


def test_four_layer_cnn() -> None:
    """3·25·32+32 + 32·25·64+64 + 1600·512+512 + 512·100+100 = 924,708; head 51,300."""
    model = build("cnn4")
    assert count_parameters(model) == 924_708
    assert count_parameters(model, "head.") == 51_300
    assert check_model(build("cnn4", (3, 64, 64), 200), (3, 64, 64), 200, "cnn4") == 512
    assert build("cnn4", (3, 64, 64)).base.fc[1].in_features == 10_816


@pytest.mark.parametrize(
    ("number", "base"),
    [
        (1, 2_360_640),
        (2, 576_896),
        (3, 2_623_296),
        (4, 839_552),
        (5, 5_245_248),
        (6, 1_626_496),
        (7, 5_507_904),
        (8, 1_889_152),
    ],
)
def test_htcnn_counts(number: int, base: int) -> None:
    with torch.device("meta"):
        model = build(f"htcnn:{number}", (1, 28, 28), 10)
        assert check_model(model, (1, 28, 28), 10, "htcnn") == 512
    assert count_parameters(model, "base.") == base
    assert count_parameters(model, "head.") == 5_130


def test_htcnn_numbers_outside_the_table() -> None:
    with pytest.raises(ConfigError, match="number: must be at most 8, got 9"):
        read_family("htcnn:9")


@pytest.mark.parametrize(
    ("spec", "shape", "classes", "total", "dim"),
    [
        ("margin_cnn", (1, 28, 28), 10, 857_738, 256),
        ("margin_celeba", (3, 84, 84), 2, 30_242, 800),
        ("margin_mlp", (60,), 10, 43_402, 256),
    ],
)
def test_protomargin_nets(spec: str, shape: tuple[int, ...], classes: int, total: int, dim: int) -> None:
    """CelebA: 896 + 3·9,248 + 1,602; synthetic: 60·128+128 + 128·256+256 + 2,570."""
    model = build(spec, shape, classes)
    assert count_parameters(model) == total
    assert check_model(model, shape, classes, spec) == dim


@pytest.mark.parametrize("head", [(), (512,), (256,), (128,)])
def test_heads_of_htc4(head: tuple[int, ...]) -> None:
    model = read_family("cnn4", {"head": head}).build((3, 32, 32), 100)
    sizes = [512, *head, 100]
    assert count_parameters(model, "head.") == sum((a + 1) * b for a, b in pairwise(sizes))
    logits = model(torch.randn(4, 3, 32, 32))[1]
    assert logits.shape == (4, 100)
    assert (logits < 0).any()


def test_relu_after_the_logits_is_an_option() -> None:
    logits = build("cnn4:head=128,relu_logits=true")(torch.randn(4, 3, 32, 32))[1]
    assert (logits >= 0).all()


def test_features_are_averaged_or_repeated_to_k() -> None:
    """512 features to K=256: means of neighbours; ResNet4's 64 to K=128: each one twice."""
    wide, narrow = build("cnn4:dim=256"), build("resnet:4,dim=128")
    assert torch.equal(wide.base.pool(torch.tensor([[1.0, 3.0] * 256])), torch.full((1, 256), 2.0))
    once = torch.arange(64.0)
    assert torch.equal(narrow.base.pool(once[None])[0], once.repeat_interleave(2))
    assert check_model(narrow.eval(), (3, 32, 32), 100, "resnet:4") == 128


@pytest.mark.parametrize(("depth", "width"), [(4, 64), (6, 128), (8, 256), (10, 512), (18, 512), (50, 2048)])
def test_resnet_widths(depth: int, width: int) -> None:
    with torch.device("meta"):
        model = build(f"resnet:{depth},dim={width}")
        assert not hasattr(model.base, "pool")
        assert check_model(model, (3, 32, 32), 100, "resnet") == width


@needs_torchvision
@pytest.mark.parametrize("depth", [18, 34, 50, 101, 152])
def test_resnets_have_torchvisions_tensors(depth: int) -> None:
    with torch.device("meta"):
        theirs = getattr(import_torchvision().models, f"resnet{depth}")(num_classes=100)
        ours = build(f"resnet:{depth}")
    expected = {k: v.shape for k, v in theirs.state_dict().items() if not k.startswith("fc.")}
    assert {k: v.shape for k, v in ours.base.state_dict().items()} == expected


@needs_torchvision
@pytest.mark.parametrize("depth", [18, 50])
def test_resnets_compute_what_torchvision_computes(depth: int) -> None:
    theirs = getattr(import_torchvision().models, f"resnet{depth}")(num_classes=5)
    ours = build(f"resnet:{depth},dim={theirs.fc.in_features}", classes=5)
    state = theirs.state_dict()
    ours.base.load_state_dict({k: v for k, v in state.items() if not k.startswith("fc.")})
    ours.head.load_state_dict({"weight": state["fc.weight"], "bias": state["fc.bias"]})
    x = torch.randn(2, 3, 40, 40)
    torch.testing.assert_close(ours(x)[1], theirs(x))


@needs_torchvision
@pytest.mark.parametrize("spec", ["googlenet", "mobilenet_v2"])
def test_trunks_compute_what_torchvision_computes(spec: str) -> None:
    family = read_family(spec)
    x = torch.randn(2, 3, 32, 32)
    model = family.build((3, 32, 32), 5).eval()
    options = {"aux_logits": False, "init_weights": False} if spec == "googlenet" else {}
    theirs = getattr(import_torchvision().models, spec)(weights=None, **options).eval()
    theirs.load_state_dict(model.base.state_dict(), strict=False)
    setattr(theirs, "fc" if spec == "googlenet" else "classifier", nn.AdaptiveAvgPool1d(512))
    torch.testing.assert_close(model(x)[0], theirs(x))


@needs_torchvision
@pytest.mark.parametrize("spec", ["googlenet", "mobilenet_v2", "resnet:10"])
def test_grey_images(spec: str) -> None:
    with torch.device("meta"):
        assert check_model(build(spec, (1, 28, 28), 10), (1, 28, 28), 10, spec) == 512


def test_resnet_depths_are_checked() -> None:
    with pytest.raises(ConfigError, match="depth must be one of 4, 6, 8, 10, 18, 34, 50, 101, 152, got 20"):
        read_family("resnet:20")


@pytest.mark.parametrize(("stem", "kernel", "positions"), [("plvm", 5, 64), ("fpl", 3, 1024)])
def test_resnet10_stems(stem: str, kernel: int, positions: int) -> None:
    """32×32: 5×5 stride 2 pad 1 gives 15, pooling 8×8 = 64 positions; 3×3 stride 1 keeps 32×32."""
    model = build(f"resnet10_plcc:stem={stem}", classes=10).eval()
    assert model.base.conv1.weight.shape == (64, 3, kernel, kernel)
    x = torch.randn(2, 3, 32, 32)
    before_stages = nn.Sequential(*list(model.base.children())[: 4 if stem == "plvm" else 3])
    assert before_stages(x)[0, 0].numel() == positions
    embedding = model(x)[0]
    assert embedding.shape == (2, 512)
    assert (embedding >= 0).all()


@pytest.mark.parametrize(("conv", "pool"), [(2, 2), (1, 4)])
def test_fedproto_resnet18_ends_in_one_position(conv: int, pool: int) -> None:
    model = build(f"fp_resnet18:conv_stride={conv},pool_stride={pool}", classes=10).eval()
    to_layer4 = nn.Sequential(*list(model.base.children())[:-2])
    last = to_layer4(torch.randn(2, 3, 32, 32))
    assert last.shape == (2, 512, 1, 1)
    assert count_parameters(model) == 11_181_642
