"""Networks from the user's own file."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from protofed.core.errors import ConfigError
from protofed.models import Model, assign, check_model, read_family, write_family

SOURCE = """
from torch import nn

class Pair(nn.Module):
    def __init__(self, shape, num_classes):
        super().__init__()
        self.features = nn.Linear(shape[0], 5)
        self.out = nn.Linear(5, num_classes)

    def forward(self, x):
        z = self.features(x)
        return z, self.out(z)

class Parts(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.base = nn.Linear(4, 6)
        self.head = nn.Linear(6, num_classes)

    def forward(self, x):
        return self.head(self.base(x))

class Everything(Pair):
    def __init__(self, **options):
        super().__init__(**options)

class LogitsOnly(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 3)

    def forward(self, x):
        return self.out(x)

class Broken(nn.Module):
    def __init__(self, shape):
        raise ValueError("no luck")

def not_a_network():
    return 3

number = 7
"""


@pytest.fixture
def nets(tmp_path: Path) -> Path:
    path = tmp_path / "my.nets.py"
    path.write_text(SOURCE)
    return path


@pytest.mark.parametrize(("name", "dim"), [("Pair", 5), ("Parts", 6), ("Everything", 5)])
def test_the_class_is_built_and_fits(nets: Path, name: str, dim: int) -> None:
    model = read_family(f"module:{nets}:{name}").build((4,), 3)
    assert check_model(model, (4,), 3, name) == dim


def test_base_and_head_are_joined(nets: Path) -> None:
    model = read_family(f"module:{nets}:Parts").build((4,), 3)
    assert isinstance(model, Model)
    z, logits = model(torch.randn(2, 4))
    assert torch.equal(model.head(z), logits)


def test_written_form(nets: Path) -> None:
    spec = f"module:{nets}:Pair"
    assert write_family(read_family(spec)) == spec
    assert assign(f"{spec}|mlp", 3, (4,), 3).specs == (spec, "mlp")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (":Pear", "unknown class 'Pear'; did you mean 'Pair'"),
        (":Broken", "failed: ValueError: no luck"),
        (":number", "expected a class, got a int"),
        (":not_a_network", "expected an nn.Module, got a int"),
        ("", "expected module:FILE.py:CLASS"),
    ],
)
def test_mistakes_in_the_name(nets: Path, name: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_family(f"module:{nets}{name}").build((4,), 3)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_forward_without_embedding_is_named(nets: Path) -> None:
    model = read_family(f"module:{nets}:LogitsOnly").build((4,), 3)
    with pytest.raises(ConfigError, match=r"must return \(embedding, logits\)"):
        check_model(model, (4,), 3, "LogitsOnly")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no file .*nowhere\.py"):
        read_family(f"module:{tmp_path}/nowhere.py:Net").build((4,), 3)


def test_nothing_given() -> None:
    with pytest.raises(ConfigError, match=r"expected module:FILE\.py:CLASS"):
        read_family("module").build((4,), 3)


def test_a_file_that_fails_to_run(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("import nothing_of_that_name\n")
    with pytest.raises(ConfigError, match=r"running .*bad\.py failed: ModuleNotFoundError"):
        read_family(f"module:{tmp_path}/bad.py:Net").build((4,), 3)
