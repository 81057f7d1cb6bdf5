"""Random crops, flips and rotations."""

from __future__ import annotations

import math
import pickle

import pytest
import torch
from torch import Tensor

from protofed.core.errors import ConfigError
from protofed.core.rng import torch_generator
from protofed.data.augment import Draws, read_augmentation


def crop_and_flip_slowly(x: Tensor, pad: int, draws: Draws, fill: Tensor) -> Tensor:
    """One image at a time, with plain slices: the meaning of crop and flip."""
    made = []
    for image, dy, dx, flip in zip(x, draws.dy, draws.dx, draws.flip):
        height, width = image.shape[1:]
        big = fill[:, None, None].repeat(1, height + 2 * pad, width + 2 * pad)
        big[:, pad : pad + height, pad : pad + width] = image
        cut = big[:, dy : dy + height, dx : dx + width]
        made.append(cut.flip(2) if flip else cut)
    return torch.stack(made)


def test_batch_crop_equals_one_by_one() -> None:
    x = torch.rand(16, 3, 6, 8, generator=torch_generator(1))
    fill = torch.tensor([-1.0, 0.5, 2.0])
    augment = read_augmentation("crop4+flip", fill)
    draws = augment.draw(16, torch_generator(2))
    assert draws.flip.any()
    assert len(draws.dy.unique()) > 2
    assert torch.equal(augment.apply(x, draws), crop_and_flip_slowly(x, 4, draws, fill))


def test_only_the_given_generator_is_used() -> None:
    x = torch.rand(8, 1, 5, 5, generator=torch_generator(1))
    before = torch.random.get_rng_state()
    augment = read_augmentation("crop2+flip+rotate30")
    first = augment(x, torch_generator("a"))
    assert torch.equal(first, augment(x, torch_generator("a")))
    assert not torch.equal(first, augment(x, torch_generator("b")))
    assert torch.equal(before, torch.random.get_rng_state())


def test_rotation_by_a_right_angle() -> None:
    """A quarter turn moves every pixel exactly: it equals rot90 one way or the other."""
    x = torch.arange(18.0).reshape(2, 1, 3, 3)
    zero = torch.zeros(2, dtype=torch.long)
    draws = Draws(zero, zero, zero.bool(), torch.tensor([math.pi / 2, -math.pi / 2]))
    turned = read_augmentation("rotate90").apply(x, draws)
    assert torch.equal(turned[0], torch.rot90(x[0], 1, (1, 2)))
    assert torch.equal(turned[1], torch.rot90(x[1], -1, (1, 2)))


def test_rotation_fills_the_corners() -> None:
    zero = torch.zeros(1, dtype=torch.long)
    draws = Draws(zero, zero, zero.bool(), torch.tensor([math.pi / 4]))
    turned = read_augmentation("rotate45", fill=-7.0).apply(torch.ones(1, 1, 9, 9), draws)
    assert turned[0, 0, 0, 0] == -7
    assert turned[0, 0, 4, 4] == 1


def test_nothing_asked_nothing_done() -> None:
    x = torch.rand(2, 1, 4, 4, generator=torch_generator(1))
    assert read_augmentation("")(x, torch_generator(0)) is x


def test_unknown_part_is_named() -> None:
    with pytest.raises(ConfigError, match="unknown part 'blur'"):
        read_augmentation("crop4+blur")


def test_an_augmentation_travels_with_the_data() -> None:
    """Flower's simulation pickles what clients are given."""
    x = torch.rand(4, 1, 5, 5, generator=torch_generator(1))
    augment = read_augmentation("crop2+flip", torch.tensor([-2.0]))
    again = pickle.loads(pickle.dumps(augment))
    assert torch.equal(again(x, torch_generator("a")), augment(x, torch_generator("a")))
