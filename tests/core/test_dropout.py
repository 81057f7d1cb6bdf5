"""Dropout from seeds: masks are functions of seed and layer, on every engine."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from protofed.core.dropout import (
    SeededDropout,
    dropout_layers,
    keep_masks,
    make_reproducible,
    random_words,
)


def layer(p: float = 0.5, channels: bool = False, seed: int = 1, number: int = 0) -> SeededDropout:
    made = SeededDropout(p, channels)
    made.number = number
    made.seed.fill_(seed)
    return made


def test_numbers_are_those_of_splitmix64() -> None:
    """From the start 1234567 its published implementation gives these five; ours leave the last xor out."""
    words = [word % 2**64 for word in random_words(torch.tensor([1234567]), 5)[0].tolist()]
    assert [word ^ (word >> 31) for word in words] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_masks_of_neighbouring_seeds_and_layers_have_nothing_in_common() -> None:
    """Two independent masks with p = 0.3 agree with probability 0.7² + 0.3² = 0.58; over 10,000 places the
    standard error is 0.005."""
    masks = [keep_masks(torch.tensor([40, 41]), number, (100, 100), 0.7, torch.float64) for number in (0, 1)]
    first, *others = [mask for two in masks for mask in two]
    for other in others:
        assert float((first == other).double().mean()) == pytest.approx(0.58, abs=0.02)
    lagged = [float((first.flatten()[lag:] == first.flatten()[:-lag]).double().mean()) for lag in (1, 2, 100)]
    assert lagged == pytest.approx([0.58] * 3, abs=0.02)


def test_the_mask_depends_on_seed_and_layer_alone() -> None:
    x = torch.ones(20, 10)
    first = layer()(x)
    torch.manual_seed(99)
    assert torch.equal(layer()(x), first)
    assert not torch.equal(layer(seed=2)(x), first)
    assert not torch.equal(layer(number=1)(x), first)


def test_float32_and_float64_see_the_same_mask() -> None:
    x = torch.ones(20, 10)
    assert torch.equal(layer()(x).double(), layer()(x.double()))


def test_kept_values_are_scaled_so_that_the_mean_stays() -> None:
    """p = 0.2: values are 0 or 1/0.8 = 1.25; over 40,000 the mean is 1 within 4 standard errors (0.01)."""
    out = layer(0.2)(torch.ones(200, 200))
    assert sorted(out.unique().tolist()) == [0.0, 1.25]
    assert float(out.mean()) == pytest.approx(1.0, abs=0.01)


def test_eval_mode_and_p_zero_change_nothing() -> None:
    x = torch.randn(5, 5)
    assert torch.equal(layer().eval()(x), x)
    assert torch.equal(layer(0.0)(x), x)


def test_p_one_gives_zeros_with_zero_gradient() -> None:
    x = torch.randn(5, 5, requires_grad=True)
    out = layer(1.0)(x)
    out.sum().backward()
    assert torch.equal(out.detach(), torch.zeros(5, 5))
    assert x.grad is not None
    assert torch.equal(x.grad, torch.zeros(5, 5))


def test_channels_are_dropped_as_a_whole() -> None:
    out = layer(channels=True)(torch.ones(8, 16, 3, 3))
    sums = out.flatten(2).sum(-1)
    assert sorted(sums.unique().tolist()) == [0.0, 18.0]


def test_gradients_pass_where_values_were_kept() -> None:
    x = torch.ones(6, 6, requires_grad=True)
    out = layer()(x)
    out.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, out.detach())


@pytest.mark.parametrize("channels", [False, True])
def test_under_vmap_every_client_has_the_mask_of_its_own_seed(channels: bool) -> None:
    module, x = layer(channels=channels), torch.ones(3, 4, 5, 2, 2)
    seeds = torch.tensor([7, 8, 9])

    def run(seed: Tensor, x: Tensor) -> Tensor:
        out: Tensor = torch.func.functional_call(module, {"seed": seed}, (x,))
        return out

    together = torch.func.vmap(run)(seeds, x)
    alone = torch.stack([layer(channels=channels, seed=int(s))(one) for s, one in zip(seeds, x)])
    assert torch.equal(together, alone)


def test_under_vmap_one_seed_for_all_gives_one_mask() -> None:
    module = layer(seed=7)
    out = torch.func.vmap(module)(torch.ones(3, 4, 5))
    assert torch.equal(out, module(torch.ones(4, 5)).expand(3, 4, 5))


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.3), nn.Sequential(nn.Dropout2d(0.1)))
        self.last = nn.ModuleDict({"drop": nn.Dropout(0.7)})
        self.again = self.last["drop"]


def test_layers_inside_any_module_are_swapped_and_numbered() -> None:
    module = make_reproducible(Nested())
    layers = dropout_layers(module)
    assert [(m.p, m.channels) for m in layers[:3]] == [(0.3, False), (0.1, True), (0.7, False)]
    assert [m.number for m in layers] == list(range(len(layers)))
    assert not any(isinstance(m, nn.Dropout | nn.Dropout2d) for m in module.modules())


def test_one_layer_under_two_names_of_one_parent_is_swapped_under_both() -> None:
    parent = nn.Module()
    parent.one = nn.Dropout(0.5)
    parent.two = parent.one
    make_reproducible(parent)
    assert isinstance(parent.one, SeededDropout)
    assert isinstance(parent.two, SeededDropout)


def test_a_module_that_is_itself_dropout_is_swapped() -> None:
    assert isinstance(make_reproducible(nn.Dropout(0.4)), SeededDropout)


def test_the_seed_is_neither_saved_nor_sent() -> None:
    assert make_reproducible(nn.Sequential(nn.Dropout(0.5))).state_dict() == {}


def test_swapping_twice_changes_nothing() -> None:
    module = make_reproducible(Nested())
    before = dropout_layers(module)
    assert dropout_layers(make_reproducible(module)) == before
