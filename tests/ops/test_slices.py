"""Nested models: slices of a wide model, and their average."""

import pytest
import torch
from torch.nn.functional import pad

from protofed.models import assign
from protofed.ops.slices import SliceAverage, cut, misfit


def floats(values):
    return torch.tensor(values, dtype=torch.float64)


def test_average_by_hand():
    """Old [[1, 2], [3, 4]]. A narrow client sends [[10]], a wide one [[20, 40], [60, 80]]: the first
    entry is the mean 15, the others come from the wide client alone."""
    average = SliceAverage({"w": floats([[1, 2], [3, 4]])})
    average.add({"w": floats([[10]])}, 1, 0, {})
    average.add({"w": floats([[20, 40], [60, 80]])}, 1, 1, {})
    assert average.result()["w"].tolist() == [[15, 40], [60, 80]]


def test_entries_that_nobody_holds_keep_their_value():
    average = SliceAverage({"w": floats([[1, 2], [3, 4]])})
    average.add({"w": floats([[10]])}, 3, 0, {})
    assert average.result()["w"].tolist() == [[10, 2], [3, 4]]


def test_weights_and_rows():
    """Weights 1 and 3, but the second client's row 1 does not count: row 0 is (8 + 3·4)/4 = 5, row 1
    is the first client's 6 alone."""
    average = SliceAverage({"w": floats([0, 0])})
    average.add({"w": floats([8, 6])}, 1, 0, {"w": floats([1, 1])})
    average.add({"w": floats([4, 100])}, 3, 1, {"w": floats([1, 0])})
    assert average.result()["w"].tolist() == [5, 6]


def test_integers_come_from_the_lowest_client():
    average = SliceAverage({"n": torch.tensor(0)})
    average.add({"n": torch.tensor(7)}, 1, 4, {})
    average.add({"n": torch.tensor(5)}, 1, 2, {})
    assert int(average.result()["n"]) == 5


def test_misfits_are_named():
    wide = {"w": torch.zeros(4, 4), "b": torch.zeros(4)}
    assert misfit({"w": torch.zeros(2, 4), "b": torch.zeros(2)}, wide) is None
    assert "only one of them has a tensor 'b'" in str(misfit({"w": torch.zeros(2, 2)}, wide))
    assert "[5, 1]" in str(misfit({"w": torch.zeros(5, 1), "b": torch.zeros(1)}, wide))
    assert "[2]" in str(misfit({"w": torch.zeros(2), "b": torch.zeros(1)}, wide))


@pytest.mark.parametrize(
    "models", ["small_cnn:width=4|small_cnn:width=8", "mlp:hidden=8|mlp:hidden=32", "mlp:dim=8|mlp:dim=20"]
)
def test_a_slice_computes_what_the_wide_model_computes_without_the_other_channels(models):
    """With zeros in the place of all that is cut off, the wide model gives the narrow one's logits:
    the leading entries of every tensor belong to the same channels, also behind a flattening."""
    torch.manual_seed(0)
    narrow, wide = (build().double().eval() for build in assign(models, 2, (1, 8, 8), 3).builders)
    assert misfit(narrow.state_dict(), wide.state_dict()) is None
    part = cut(wide.state_dict(), narrow.state_dict())
    narrow.load_state_dict(part)
    for name, target in wide.state_dict().items():
        gaps = [size for a, b in zip(part[name].shape[::-1], target.shape[::-1]) for size in (0, b - a)]
        target.copy_(pad(part[name], gaps))
    x = torch.randn(5, 1, 8, 8, dtype=torch.float64)
    assert torch.allclose(narrow(x)[1], wide(x)[1], atol=1e-12)
