"""Forms of the common map, one beside the other."""

import pytest
import torch

from benchmarks.common_maps import forms, main
from protofed.core.rng import torch_generator
from protofed.ops.common_map import Edges


def test_the_last_form_is_edges_and_the_first_sees_colours() -> None:
    x = torch.rand(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    made = forms((3, 16, 16), 64, seed=5)
    edges = Edges((3, 16, 16), 4, torch_generator(5, "common maps")).float()
    torch.testing.assert_close(made["grey, contrasts, magnitudes"](x), edges(x))
    assert (made["colours, pixels, ReLU"](x) - made["colours, pixels, ReLU"](x.flip(1))).abs().max() > 0.05
    assert {form(x).shape for form in made.values()} == {(4, 64)}
    assert len(made) == 9


def test_the_command_prints_a_row_for_each_form(capsys: pytest.CaptureFixture) -> None:
    assert main(["digits", "--size", "32", "--seeds", "7", "8"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| φ | digits |"
    values = [float(line.split("|")[2].split("±")[0]) for line in lines[2:]]
    assert len(values) == 9
    assert min(values) > 80  # four images of each class suffice, in every form
