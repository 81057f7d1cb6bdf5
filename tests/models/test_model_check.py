"""check_model and split_head."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from protofed.core.errors import ConfigError
from protofed.models import Model, check_model, split_head


class Returns(nn.Module):
    """Forward returns what a function makes of the input."""

    def __init__(self, make: Callable[[Tensor], object]):
        super().__init__()
        self.make = make

    def forward(self, x: Tensor) -> object:
        return self.make(x)


def test_embedding_size() -> None:
    model = Model(nn.Linear(4, 3), nn.Linear(3, 2))
    assert check_model(model, (4,), 2, "toy") == 3


def test_dense_outputs() -> None:
    model = Returns(lambda x: (torch.zeros(2, 6, 2, 2), torch.zeros(2, 3, 8, 8)))
    assert check_model(model, (1, 8, 8), 3, "toy") == 6


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: x, r"got a tensor of shape \[2, 4\]"),
        (lambda x: (x, x, x), "got a tuple of 3 items"),
        (lambda x: {"z": x}, "got a dict"),
        (lambda x: (x, None), r"got a tuple of 2 items \(Tensor, NoneType\)"),
        (lambda x: (x[:, None], x), r"expected an embedding of shape .* got \[2, 1, 4\]"),
        (lambda x: (x, x), r"expected logits of shape \[2, 3\] .* got \[2, 4\]"),
        (lambda x: (x, torch.zeros(2, 3, 1, 1)), r"got \[2, 3, 1, 1\]"),
        (lambda x: x @ torch.zeros(5, 5), r"forward fails for an input of shape \[2, 4\]"),
    ],
)
def test_wrong_outputs_are_named(make: Callable[[Tensor], object], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        check_model(Returns(make), (4,), 3, "toy")
    assert str(caught.value).startswith("model toy:")
    assert "\n" not in str(caught.value)


def test_modes_buffers_and_the_random_state_stay() -> None:
    model = Model(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Dropout(0.5)), nn.Linear(3, 2))
    model.base[1].eval()
    before, buffers = torch.get_rng_state(), [b.clone() for b in model.buffers()]
    check_model(model, (4,), 2, "toy")
    assert model.training
    assert not model.base[1].training
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(buffers, model.buffers(), strict=True))


def test_split_head_keeps_the_function() -> None:
    plain = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Sequential(nn.Linear(3, 2)))
    x = torch.randn(5, 4)
    expected = plain(x)
    model = split_head(plain, "2.0")
    z, logits = model(x)
    assert z.shape == (5, 3)
    assert torch.equal(logits, expected)
    assert [n for n, _ in model.named_parameters()] == [
        "base.0.weight",
        "base.0.bias",
        "head.weight",
        "head.bias",
    ]


def test_split_head_names_unknown_layers() -> None:
    class Net(nn.Sequential):
        pass

    net = Net()
    net.add_module("classifier", nn.Linear(2, 2))
    with pytest.raises(ConfigError, match="Net: unknown layer 'classifer'; did you mean 'classifier'"):
        split_head(net, "classifer")
