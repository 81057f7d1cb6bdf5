"""Robust rules: numbers by hand, and the same as byzfl on random rows; all classes at once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from protofed.core.torchvision_shim import import_torchvision
from protofed.trust.defences._base import defences
from protofed.trust.rows import Rows


def rows_of(*groups: Any, weights: Any = None, centre: Any = None) -> Rows:
    """Groups of rows, padded."""
    tensors = [torch.as_tensor(group, dtype=torch.float64) for group in groups]
    most, d = max(len(t) for t in tensors), tensors[0].shape[1]
    x = torch.stack([torch.cat([t, t.new_zeros(most - len(t), d)]) for t in tensors])
    there = torch.stack([torch.arange(most) < len(t) for t in tensors])
    w = there.double()
    if weights is not None:
        w[0, : len(weights)] = torch.tensor(weights, dtype=torch.float64)
    known = torch.full((len(tensors),), centre is not None)
    middle = torch.zeros(len(tensors), d, dtype=torch.float64)
    return Rows(x, w, there, middle if centre is None else middle + torch.tensor(centre), known)


def value(written: str, rows: Rows) -> list[float]:
    return [round(v, 6) for v in defences.make(written).values(rows)[0].tolist()]


LINE = [[1.0], [2.0], [3.0], [10.0], [100.0]]


def test_rules_by_hand() -> None:
    assert value("mean", rows_of(LINE)) == [23.2]
    assert value("median", rows_of(LINE)) == [3.0]
    assert value("median", rows_of(LINE[:4])) == [2.5]
    assert value("trimmed:f=1", rows_of(LINE)) == [5.0]  # (2 + 3 + 10) / 3
    assert value("trimmed:f=2", rows_of(LINE)) == [3.0]
    # squared distances to the nearest three: of 2 they are 1, 1, 64, of 3 they are 1, 4, 49
    assert value("krum:f=1", rows_of(LINE)) == [3.0]
    assert value("multikrum:f=1", rows_of(LINE)) == [4.0]  # all but 100
    assert value("bound", rows_of(LINE)) == [2.4]  # median length 3: (1 + 2 + 3 + 3 + 3) / 5
    assert value("bound:radius=5", rows_of(LINE)) == [3.2]
    assert value("clipping:tau=1", rows_of(LINE, centre=[2.0])) == [2.4]  # 2 + (−1 + 0 + 1 + 1 + 1) / 5
    assert value("clipping", rows_of(LINE, centre=[2.0])) == [2.4]  # distances 1, 0, 1, 8, 98
    # the geometric median is 3; distances 2, 1, 0, 7, 97, so that 10 (7 > 3 · 2) and 100 are left out
    assert value("filter", rows_of(LINE)) == pytest.approx([2.0], abs=1e-3)


def test_weights_count_and_are_capped() -> None:
    assert value("mean", rows_of([[0.0], [1.0], [2.0]], weights=[1, 1, 2])) == [1.25]
    assert value("median:cap=1", rows_of([[0.0], [1.0], [2.0]], weights=[1, 1, 5])) == [2.0]
    capped = rows_of([[0.0], [1.0], [2.0]], weights=[4, 6, 10_000_000])
    assert value("mean:cap=0.5", capped) == [1.125]  # weights 4, 6, 6
    assert value("mean:cap=1", capped) == pytest.approx([2.0], abs=1e-5)


def test_two_holders_are_held_against_what_was_broadcast() -> None:
    many = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]  # typical distance 1
    lone = rows_of([[0.5, 0.0], [9.0, 0.0]], many, centre=[0.0, 0.0])
    assert value("filter", lone) == [0.5, 0.0]
    gone = rows_of([[8.0, 0.0], [9.0, 0.0]], many, centre=[0.1, 0.0])
    assert value("filter", gone) == [0.1, 0.0]  # nobody is left: as before
    first = rows_of([[8.0, 0.0]], many)
    assert value("filter", first) == [1.0, 0.0]  # nothing was broadcast yet: the median length


def test_mixing_by_hand() -> None:
    """Of 0, 1, 2, 10 with f = 1, each row is the mean of its three nearest: 1, 1, 1, 13/3."""
    near = rows_of([[0.0], [1.0], [2.0], [10.0]])
    assert value("mean:nnm=true,f=1", near) == [pytest.approx((3 + 13 / 3) / 4, abs=1e-6)]


ORACLES = {
    "median": ("Median", {}),
    "trimmed:f=2": ("TrMean", {"f": 2}),
    "geometric:nu=0.1,steps=3": ("GeometricMedian", {"nu": 0.1, "T": 3}),
    "krum:f=2": ("Krum", {"f": 2}),
    "multikrum:f=2": ("MultiKrum", {"f": 2}),
    "clipping:tau=1.5": ("CenteredClipping", {"L": 1, "tau": 1.5}),
}


@pytest.fixture(scope="module")
def byzfl() -> Any:
    import_torchvision()
    return pytest.importorskip("byzfl")


@pytest.mark.parametrize("nnm", [False, True])
@pytest.mark.parametrize("written", ORACLES)
def test_the_same_as_byzfl(byzfl: Any, written: str, nnm: bool) -> None:
    """Three classes with 7, 9 and 5 holders, padded together."""
    generator = torch.Generator().manual_seed(3)
    groups = [torch.randn(m, 4, generator=generator, dtype=torch.float64) for m in (7, 9, 5)]
    name, options = ORACLES[written]
    form = (written + ("," if ":" in written else ":") + "nnm=true,f=2") if nnm else written
    got = defences.make(form).values(rows_of(*groups))
    for group, found in zip(groups, got):
        vectors = byzfl.NNM(f=2)(group.numpy()) if nnm else group.numpy()
        wanted = Tensor(getattr(byzfl, name)(**options)(vectors)).double()
        torch.testing.assert_close(found, wanted, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("name", sorted({*defences} - {"mean"}))
def test_a_minority_cannot_carry_the_average_away(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    honest = torch.randn(7, 5, generator=generator, dtype=torch.float64) + 3
    bad = torch.full((3, 5), -1e6, dtype=torch.float64)
    rows = rows_of(torch.cat([honest, bad]), centre=[3.0] * 5)
    moved = (defences.make(name).values(rows)[0] - honest.mean(0)).norm()
    assert moved < 6, moved  # the plain mean moves by 670,000
