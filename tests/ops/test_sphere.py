"""Points far apart on a sphere, against angles known by geometry."""

import math

import pytest
import torch

from protofed.ops.sphere import orthogonal, simplex, spread_out, uniform


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_a_simplex_has_equal_angles() -> None:
    """Four points in six dimensions: all cosines −1/3, the angle of a tetrahedron."""
    rows = simplex(4, 6, _generator())
    expected = torch.full((4, 4), -1 / 3, dtype=torch.float64).fill_diagonal_(1)
    assert torch.allclose(rows @ rows.T, expected)


def test_orthogonal_rows() -> None:
    rows = orthogonal(3, 5, _generator())
    assert torch.allclose(rows @ rows.T, torch.eye(3, dtype=torch.float64))


def test_one_step_of_repulsion() -> None:
    """Rows (1, 0) and (0, 1): difference (1, −1), squared distance 2, so the force on the first is (½, −½).
    With step 0.2 it moves to (1.1, −0.1), then to length 1."""
    rows = spread_out(torch.eye(2, dtype=torch.float64), steps=1, lr=0.2, momentum=0.9)
    length = math.hypot(1.1, 0.1)
    assert rows[0].tolist() == pytest.approx([1.1 / length, -0.1 / length], abs=1e-9)


def test_three_points_in_a_plane_end_at_120_degrees() -> None:
    start = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.8, -0.3]], dtype=torch.float64)
    rows = spread_out(start, steps=300, lr=0.1, momentum=0.9)
    off = (rows @ rows.T)[~torch.eye(3, dtype=torch.bool)]
    assert torch.allclose(off, torch.full_like(off, -0.5), atol=1e-3)


def test_more_points_than_dimensions_are_spread_out() -> None:
    rows = uniform(4, 2, _generator())
    off = (rows @ rows.T)[~torch.eye(4, dtype=torch.bool)]
    assert off.max() < 0.1  # a square: neighbours at a right angle
