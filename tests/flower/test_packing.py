"""Named tensors as one buffer, and back."""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from protofed.core.errors import MessageError
from protofed.flower.packing import DTYPES, pack, unpack

SHAPES = st.lists(st.integers(0, 4), max_size=3)


@settings(max_examples=25, deadline=None)
@given(st.dictionaries(st.text(max_size=6), st.tuples(st.sampled_from(sorted(DTYPES)), SHAPES), max_size=5))
def test_round_trip_is_exact(kinds):
    generator = torch.Generator().manual_seed(1)
    arrays = {
        name: (10 * torch.randn(shape, generator=generator)).to(DTYPES[dtype])
        for name, (dtype, shape) in kinds.items()
    }
    found = unpack(*pack(arrays))
    assert list(found) == list(arrays)
    for name, tensor in arrays.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


def test_one_buffer():
    """Ten prototypes of 512 floats, ten classes and ten counts of 8 bytes: 4 · 5120 + 2 · 80 bytes. In int8
    5120 bytes, and ten scales of 4 bytes."""
    arrays = {"mean": torch.randn(10, 512), "cls": torch.arange(10), "n": torch.ones(10, dtype=torch.int64)}
    sizes = {precision: len(pack(arrays, precision)[0]) for precision in ("full", "fp16", "int8")}
    assert sizes == {"full": 20480 + 160, "fp16": 10240 + 160, "int8": 5120 + 40 + 160}


@pytest.mark.parametrize(("columns", "size"), [(4, 80), (5, 90)])
def test_short_rows_are_no_larger_in_int8_than_in_fp16(columns, size):
    """Ten rows of 4: fp16 takes 2 · 40 bytes, int8 would take 40 + 40. Ten rows of 5: int8, 50 + 40."""
    assert len(pack({"x": torch.randn(10, columns)}, "int8")[0]) == size


def test_numbers_are_little_endian():
    assert pack({"x": torch.tensor([1, 2], dtype=torch.int16)})[0] == b"\x01\x00\x02\x00"


def test_int8_by_hand():
    """Row (1, −2, 0.5, 0, 0): s = 2/127, q = (63.5, −127, 31.75, 0, 0) → (64, −127, 32, 0, 0), back
    (128/127, −2, 64/127, 0, 0)."""
    found = unpack(*pack({"x": torch.tensor([[1.0, -2.0, 0.5, 0.0, 0.0], [0.0] * 5])}, "int8"))["x"]
    expected = torch.tensor([[128 / 127, -2.0, 64 / 127, 0.0, 0.0], [0.0] * 5])
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(("precision", "share"), [("full", 1.0), ("fp16", 0.5), ("int8", 0.25)])
def test_bytes_of_a_precision(precision, share):
    assert len(pack({"x": torch.randn(10, 512)}, precision)[0]) == pytest.approx(share * 4 * 5120, rel=0.01)


def test_lossy_codes_leave_whole_numbers_and_huge_values():
    arrays = {"n": torch.tensor([1, 2**40]), "big": torch.tensor([1e6])}
    for precision in ("fp16", "int8"):
        found = unpack(*pack(arrays, precision))
        assert torch.equal(found["n"], arrays["n"])
        assert torch.equal(found["big"], arrays["big"])


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5), st.integers(1, 20), st.integers(0, 2**31))
def test_int8_errs_by_half_a_step_at_most(rows, columns, seed):
    x = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))
    step = x.abs().amax(1, keepdim=True) / 127
    assert ((unpack(*pack({"x": x}, "int8"))["x"] - x).abs() <= step / 2 + 1e-6).all()


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ("nonsense", "damaged"),
        (json.dumps([["x", "float32", [-1], "plain"]]), "damaged"),
        (json.dumps([["x", "complex64", [1], "plain"]]), "damaged"),
        (json.dumps([["x", "float32", [4], "plain"]]), "asks for 16 bytes, 12 were sent"),
        (json.dumps([["x", "float32", [2], "plain"]]), "12 bytes were sent, 8"),
        (json.dumps([["x", "float32", [1], "plain"], ["x", "float32", [2], "plain"]]), "twice"),
        (json.dumps([["x", "float32", [2**40], "plain"]]), "damaged"),
    ],
)
def test_a_layout_that_does_not_fit_is_refused(layout, message):
    with pytest.raises(MessageError, match=message):
        unpack(bytes(12), layout)
