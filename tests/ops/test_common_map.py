"""The map that all clients share: the same from the same seed, as declared, and nobody's tensor."""

import copy
from dataclasses import replace

import pytest
import torch

from protofed.core.errors import ConfigError
from protofed.ops.common_map import CommonMap, Edges, Filters, common_map
from protofed.testing import INPUTS, Toy

NONE = torch.zeros(0, 0)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def of(shape, phi="auto", seed=0, size=64, standardise=True, radius=10.0) -> CommonMap:
    task = replace(
        Toy("fedcommons", {"size": 16}).build().task, seed=seed, shapes=(shape,), dtype=torch.float32
    )
    return common_map(task, phi, size, standardise, radius)


@pytest.mark.parametrize(
    ("shape", "kernel", "inputs"),
    [
        ((1, 8, 8), (1, 1, 3, 3), 0),
        ((3, 32, 32), (1, 3, 5, 5), 0),
        ((6, 100), (8, 6, 9), 6),
        ((6, 20), (8, 6, 5), 6),
    ],
)
def test_filters_have_zero_mean_and_unit_norm(shape, kernel, inputs):
    """M = 64: of 4 filters over a 4×4 grid of an image one sees colours; 8 over 8 stretches of a sequence."""
    phi = of(shape)
    weights = phi.parts[0].kernel
    assert tuple(weights.shape) == kernel
    assert (phi.width, phi.inputs) == (64, inputs)
    assert weights.flatten(1).mean(1).abs().max() < 1e-6
    torch.testing.assert_close(weights.flatten(1).norm(dim=1), torch.ones(kernel[0]))
    x = torch.randn(5, *shape, generator=generator())
    assert phi(x, NONE).shape == (5, 64)
    assert phi(x, NONE).min() >= 0


def test_filters_average_over_the_grid_by_hand():
    """One filter that copies the pixel in its middle: values of a 4×4 image stay, negative ones are 0."""
    filters = Filters((1, 4, 4), 1, generator())
    filters.kernel = torch.zeros(1, 1, 3, 3)
    filters.kernel[0, 0, 1, 1] = 1
    image = torch.arange(-8.0, 8.0).reshape(1, 1, 4, 4)
    assert filters(image)[0].tolist() == [max(0.0, float(v)) for v in range(-8, 8)]


def test_edges_by_hand():
    """A 4×4 image, 0 above and 2 below, in three colours. Every window of 9×9 holds all of it: its mean is 1,
    d = ∓1, v = 1 and e = ∓1. A filter that copies the pixel in its middle gives |e| = 1. One that takes the
    pixel above from it gives 1 in the first row (above is nothing), 0 between equals, 2 in the third.
    """
    edges = Edges((3, 4, 4), 2, generator())
    edges.kernel = torch.zeros(2, 1, 3, 3)
    edges.kernel[:, 0, 1, 1] = 1
    edges.kernel[1, 0, 0, 1] = -1
    image = torch.tensor([0.0, 0.0, 2.0, 2.0])[:, None].expand(1, 3, 4, 4)
    found = edges(image)[0].reshape(2, 4, 4)
    torch.testing.assert_close(found[0], torch.ones(4, 4))
    torch.testing.assert_close(found[1], torch.tensor([1.0, 0, 2, 0])[:, None].expand(4, 4))
    assert edges(torch.full((1, 3, 4, 4), 7.0)).abs().max() == 0  # no contrasts, and no division by 0


@pytest.mark.parametrize("side", [8, 32])
def test_edges_see_neither_colours_nor_which_is_light(side):
    """Exchanged channels, another brightness and contrast, light for dark: edges stay, filters do not."""
    x = torch.rand(5, 3, side, side, generator=generator())
    edges, filters = (of((3, side, side), phi) for phi in ("edges", "filters"))
    assert edges.width == filters.width == 64
    for changed in (x[:, [2, 0, 1]], 3 * x + 1, 1 - x):
        torch.testing.assert_close(edges(changed, NONE), edges(x, NONE), rtol=1e-3, atol=1e-3)
        assert (filters(changed, NONE) - filters(x, NONE)).abs().max() > 0.05


@pytest.mark.parametrize(
    ("size", "colours", "edges"), [(16, 16, 0), (32, 16, 16), (64, 16, 48), (256, 64, 192)]
)
def test_a_quarter_of_an_images_filters_see_colours(size, colours, edges):
    phi = of((3, 32, 32), size=size)
    found = {type(part): part.width for part in phi.parts}
    assert (found[Filters], found.get(Edges, 0), phi.width) == (colours, edges, size)


def test_vectors_are_standardised_first():
    """max(0, w·(x − m)/s + b): the same as for inputs that were standardised before."""
    phi = of((5,))
    x, mean, spread = torch.randn(7, 5, generator=generator()), torch.arange(5.0), torch.arange(1.0, 6.0)
    scale = torch.stack([mean, 1 / spread])
    torch.testing.assert_close(phi(x * spread + mean, scale), phi(x, NONE), rtol=1e-4, atol=1e-4)


def test_one_seed_one_map():
    x = torch.randn(3, 1, 8, 8, generator=generator())
    assert torch.equal(of((1, 8, 8), seed=3)(x, NONE), of((1, 8, 8), seed=3)(x, NONE))
    assert not torch.equal(of((1, 8, 8), seed=3)(x, NONE), of((1, 8, 8), seed=4)(x, NONE))


def test_long_features_are_shortened():
    """‖φ‖ ≤ radius·√M = 0.1·8."""
    phi = of((1, 8, 8), radius=0.1)
    x = 100 * torch.randn(3, 1, 8, 8, generator=generator())
    torch.testing.assert_close(phi(x, NONE).norm(dim=1), torch.full((3,), 0.8))


def test_maps_side_by_side_with_a_frozen_model():
    phi = of((INPUTS,), phi="auto+relu+model:mlp:dim=20")
    x = torch.randn(3, INPUTS, generator=generator())
    assert phi.width == 64 + 64 + 20
    assert phi(x, NONE).shape == (3, 148)
    assert not torch.equal(phi(x, NONE)[:, :64], phi(x, NONE)[:, 64:128])
    assert list(phi.parameters()) == []
    assert phi.state_dict() == {}
    assert copy.deepcopy(phi) is phi


def test_no_client_has_tensors_of_the_map():
    task = Toy("fedcommons", {"size": 16, "phi": "model:mlp"}).build().task
    assert all(name.startswith("model.") for name in task.names(0).all)
    assert common_map(task, "auto", 16, True, 10.0) is task.live(0).modules["phi"]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (
            {"phi": "fourier"},
            "unknown phi 'fourier'; known: auto, filters, edges, relu, model:SPEC",
        ),
        ({"phi": "filters"}, "phi=filters is for images and sequences, not for vectors"),
        ({"phi": "+"}, "phi is empty"),
    ],
)
def test_maps_that_do_not_exist(options, line):
    with pytest.raises(ConfigError, match=line.replace("+", r"\+")):
        Toy("fedcommons", options).build()


def test_inputs_of_two_shapes_are_refused():
    task = replace(Toy("fedcommons").build().task, shapes=((INPUTS,), (INPUTS + 1,)))
    with pytest.raises(ConfigError, match="fedcommons needs inputs of one shape at all clients, got"):
        common_map(task, "auto", 16, True, 10.0)
