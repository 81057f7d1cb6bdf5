"""Named tensors as one buffer, and back."""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from protofed.core.errors import MessageError
from protofed.flower.codec import DTYPES, pack, unpack

HEADER = 8  # bytes in front: the length of the header

SHAPES = st.lists(st.integers(0, 4), max_size=3)


@settings(max_examples=25, deadline=None)
@given(st.dictionaries(st.text(max_size=6), st.tuples(st.sampled_from(DTYPES), SHAPES), max_size=5))
def test_round_trip_is_exact(kinds):
    generator = torch.Generator().manual_seed(1)
    arrays = {
        name: (10 * torch.randn(shape, generator=generator)).to(dtype)
        for name, (dtype, shape) in kinds.items()
    }
    found = unpack(*pack(arrays))
    assert found.keys() == arrays.keys()
    for name, tensor in arrays.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


def numbers(buffer):
    """Bytes of a buffer behind its header."""
    return len(buffer) - HEADER - int.from_bytes(buffer[:HEADER], "little")


def test_one_buffer():
    """Ten prototypes of 512 floats, ten classes and ten counts of 8 bytes: 4 · 5120 + 2 · 80 bytes. In int8
    5120 bytes, and ten scales of 4 bytes."""
    arrays = {"mean": torch.randn(10, 512), "cls": torch.arange(10), "n": torch.ones(10, dtype=torch.int64)}
    sizes = {precision: numbers(pack(arrays, precision)[0]) for precision in ("full", "fp16", "int8")}
    assert sizes == {"full": 20480 + 160, "fp16": 10240 + 160, "int8": 5120 + 40 + 160}


@pytest.mark.parametrize(("columns", "size"), [(4, 80), (5, 90)])
def test_short_rows_are_no_larger_in_int8_than_in_fp16(columns, size):
    """Ten rows of 4: fp16 takes 2 · 40 bytes, int8 would take 40 + 40. Ten rows of 5: int8, 50 + 40."""
    assert numbers(pack({"x": torch.randn(10, columns)}, "int8")[0]) == size


def test_numbers_are_little_endian():
    assert pack({"x": torch.tensor([1, 2], dtype=torch.int16)})[0][-4:] == b"\x01\x00\x02\x00"


def test_int8_by_hand():
    """Row (1, −2, 0.5, 0, 0): s = 2/127, q = (63.5, −127, 31.75, 0, 0) → (64, −127, 32, 0, 0), back
    (128/127, −2, 64/127, 0, 0)."""
    found = unpack(*pack({"x": torch.tensor([[1.0, -2.0, 0.5, 0.0, 0.0], [0.0] * 5])}, "int8"))["x"]
    expected = torch.tensor([[128 / 127, -2.0, 64 / 127, 0.0, 0.0], [0.0] * 5])
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(("precision", "share"), [("full", 1.0), ("fp16", 0.5), ("int8", 0.25)])
def test_bytes_of_a_precision(precision, share):
    assert len(pack({"x": torch.randn(10, 512)}, precision)[0]) == pytest.approx(share * 4 * 5120, rel=0.04)


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


def test_tensors_that_share_memory_are_sent_each():
    tied = torch.randn(3, 2)
    found = unpack(*pack({"a": tied, "b": tied.T, "c": tied[:1]}))
    assert torch.equal(found["a"], tied)
    assert torch.equal(found["b"], tied.T)
    assert torch.equal(found["c"], tied[:1])


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        ("nonsense", "codes: damaged"),
        ("[1]", "codes: damaged"),
        ('{"x": ["zip", "float32"]}', "codes: damaged"),
        ('{"x": ["int8", "complex64"]}', "codes: damaged"),
        ('{"y": ["int8", "float32"]}', "'y' is not there as int8"),
        ('{"x": ["fp16", "float32"]}', "'x' is not there as fp16"),
        ('{"x": ["int8", "float32"], "x*": ["fp16", "float32"]}', "'x\\*' is not there as fp16"),
        ('{"one": ["int8", "float32"]}', "without a scale"),
        ('{"odd": ["int8", "float32"]}', "without a scale"),
    ],
)
def test_codes_that_do_not_fit_are_refused(codes, message):
    steps = torch.zeros(2, 5, dtype=torch.int8)
    arrays = {"x": steps, "x*": torch.ones(2), "one": steps, "odd": steps, "odd*": torch.ones(3)}
    with pytest.raises(MessageError, match=message):
        unpack(pack(arrays)[0], codes)


def file(header, size):
    text = json.dumps(header) if isinstance(header, dict) else header
    return len(text).to_bytes(HEADER, "little") + text.encode() + bytes(size)


def entry(dtype="F32", shape=(3,), offsets=(0, 12)):
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


@pytest.mark.parametrize(
    "buffer",
    [
        b"",
        b"nonsense",
        file("nonsense", 12),
        file({"x": entry()}, 8),
        file({"x": entry()}, 16),
        file({"x": entry(shape=(-3,))}, 12),
        file({"x": entry(shape=(2**62, 4))}, 12),
        file({"x": entry(shape=(2,))}, 12),
        file({"x": entry(), "y": entry()}, 12),
        file({"x": entry("F8_E4M3", (12,))}, 12),
        file({"x": entry("C64", (1,), (0, 8))}, 8),
        file(f'{{"x": {json.dumps(entry())}, "x": {json.dumps(entry(offsets=(12, 24)))}}}', 24),
    ],
)
def test_a_buffer_that_does_not_fit_is_refused(buffer):
    with pytest.raises(MessageError, match="message: "):
        unpack(buffer, "{}")


def test_a_sound_buffer_of_another_program_is_read():
    assert torch.equal(unpack(file({"x": entry()}, 12), "{}")["x"], torch.zeros(3))
