"""Truncated singular value decompositions as messages."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from protofed.ops.lowrank import pack, reference_rank, smallest_rank, unpack


def diagonal(*values, size=12):
    """A matrix with these singular values."""
    matrix = torch.zeros(size, size, dtype=torch.float64)
    matrix[range(len(values)), range(len(values))] = torch.tensor(values, dtype=torch.float64)
    return matrix


def test_ranks_of_the_specification():
    """diag(3, 2, 1): energies 9, 13, 14; 0.95·14 = 13.3 needs all three, 0.9·14 = 12.6 needs two. The
    released loop never tries full rank and ends with 0."""
    sigma = torch.tensor([3.0, 2.0, 1.0])
    assert [smallest_rank(sigma, e) for e in (0.5, 0.9, 0.95, 1.0)] == [1, 2, 3, 3]
    assert [reference_rank(sigma, e) for e in (0.5, 0.9, 0.95)] == [1, 2, 0]


def test_a_threshold_that_is_met_exactly_is_enough():
    """Energies 4 and 4: the first is half of all, so r = 1 by ≥; the released loop asks for more."""
    assert smallest_rank(torch.tensor([2.0, 2.0]), 0.5) == 1
    assert reference_rank(torch.tensor([2.0, 2.0]), 0.5) == 0


def test_pack_sends_r_times_m_plus_n_plus_1_floats():
    """12×12 with singular values 3, 2, 1 at e = 0.9: r = 2, so 2·(12+12+1) = 50 floats, not 144, and
    what comes back lacks the third value."""
    packed = pack({"w": diagonal(3, 2, 1)}, 0.9)
    assert {n: tuple(t.shape) for n, t in packed.items()} == {"w/u": (12, 2), "w/s": (2,), "w/v": (2, 12)}
    assert sum(t.numel() for t in packed.values()) == 50
    back = unpack(packed, {"w": diagonal()})["w"]
    assert torch.allclose(back, diagonal(3, 2), atol=1e-12)


def test_full_rank_is_kept_where_the_released_loop_wipes_out():
    """e = 0.95: r = 3, 75 floats; by the released loop r = 11 is the last it tries, and the first that
    holds enough is 3. With all twelve values equal it needs full rank and finds none: zeros."""
    assert torch.allclose(
        unpack(pack({"w": diagonal(3, 2, 1)}, 0.95), {"w": diagonal()})["w"], diagonal(3, 2, 1)
    )
    even = diagonal(*[1.0] * 12)
    lost = pack({"w": even}, 0.95, "reference")
    assert sum(t.numel() for t in lost.values()) == 0
    assert unpack(lost, {"w": even})["w"].abs().sum() == 0
    assert torch.equal(pack({"w": even}, 0.95)["w"], even)


def test_the_released_loop_cuts_whatever_that_costs():
    """3×3 at e = 0.9 has r = 2, 14 floats instead of 9; a matrix of one row is passed over."""
    cut = pack({"w": diagonal(3, 2, 1, size=3), "row": torch.ones(1, 5)}, 0.9, "reference")
    assert torch.equal(cut["row"], torch.ones(1, 5))
    assert sum(t.numel() for name, t in cut.items() if name != "row") == 14
    like = {"w": diagonal(size=3), "row": torch.ones(1, 5)}
    assert torch.allclose(unpack(cut, like)["w"], diagonal(3, 2, 0, size=3), atol=1e-6)


def test_a_matrix_travels_raw_where_factors_are_not_smaller():
    """3×3 at r = 2 would need 2·7 = 14 > 9 floats; 4×4 at r = 1 needs 9 < 16."""
    small = diagonal(3, 2, 1, size=3)
    assert list(pack({"w": small}, 0.9)) == ["w"]
    assert sorted(pack({"w": diagonal(3, size=4)}, 0.9)) == ["w/s", "w/u", "w/v"]


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(9, 9),
        torch.ones(50),
        torch.tensor(3),
        torch.ones(9, 9, dtype=torch.int64),
        torch.ones(0, 4),
        torch.full((9, 9), float("nan")),
        torch.full((9, 9), float("inf")),
    ],
    ids=["zero", "vector", "counter", "integers", "empty", "nan", "inf"],
)
def test_what_has_no_factors_travels_raw(tensor):
    packed = pack({"w": tensor}, 0.9)
    assert list(packed) == ["w"]
    assert packed["w"] is tensor


def test_convolutions_are_flattened():
    """[6, 5, 3, 3] of rank 1 as 6×45: 6 + 45 + 1 = 52 floats instead of 270."""
    kernel = torch.ones(6, 5, 3, 3, dtype=torch.float64)
    packed = pack({"conv": kernel, "bias": torch.ones(6)}, 0.95)
    assert sum(t.numel() for n, t in packed.items() if n.startswith("conv")) == 52
    assert torch.allclose(unpack(packed, {"conv": kernel, "bias": torch.ones(6)})["conv"], kernel)


def test_the_released_loop_decomposes_every_pair_of_channels():
    """Kernels diag(3, 1, 0) and diag(4, 2, 0) of two pairs: energies 9 + 16, 1 + 4 and 0, of 30 in all. At
    e = 0.8 the first values hold 25 > 24: r = 1 for both, 2·7 floats; diag(3) and diag(4) remain."""
    kernel = torch.stack([diagonal(3, 1, size=3), diagonal(4, 2, size=3)])[:, None]
    packed = pack({"w": kernel}, 0.8, "reference")
    assert {n: tuple(t.shape) for n, t in packed.items()} == {
        "w/u": (2, 1, 3, 1), "w/s": (2, 1, 1), "w/v": (2, 1, 1, 3),
    }  # fmt: skip
    back = unpack(packed, {"w": kernel})["w"]
    assert torch.allclose(back, torch.stack([diagonal(3, size=3), diagonal(4, size=3)])[:, None])
    assert pack({"w": kernel}, 0.84, "reference")["w/s"].shape == (2, 1, 2)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 20), st.integers(2, 20), st.floats(0.05, 1.0))
def test_the_lost_energy_is_bounded(seed, m, n, energy):
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(m, n, generator=generator, dtype=torch.float64)
    packed = pack({"w": matrix}, energy)
    lost = (unpack(packed, {"w": matrix})["w"] - matrix).square().sum()
    assert lost <= (1 - energy) * matrix.square().sum() + 1e-9
    assert sum(t.numel() for t in packed.values()) <= matrix.numel()
