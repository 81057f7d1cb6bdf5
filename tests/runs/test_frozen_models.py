"""Frozen models that an option of a method names: their files are part of what a run rests on."""

from pathlib import Path

import pytest

from protofed.config import resolve
from protofed.core.errors import RunError
from protofed.core.written_files import change_files, files_in
from protofed.experiment import build, carry_out, reopen
from protofed.runs.directory import RunDir
from protofed.runs.fingerprint import of_settings, weights_in
from protofed.runs.kept_files import REFUSE

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.base = nn.Sequential(nn.Flatten(), nn.Linear(64, {width}))
        self.head = nn.Linear({width}, num_classes)

    def forward(self, x):
        z = self.base(x)
        return z, self.head(z)
"""


def test_files_of_an_option_are_found_and_moved() -> None:
    settings = {"models": "small_cnn", "options": {"phi": "filters+model:module:nets/a.py:Net", "size": 32}}
    assert files_in(settings) == ["nets/a.py"]
    moved = change_files(settings, lambda file: f"/kept/{file}")
    assert moved["options"] == {"phi": "filters+model:module:/kept/nets/a.py:Net", "size": 32}


def test_weights_of_an_option_are_fingerprinted(tmp_path: Path) -> None:
    weights = tmp_path / "w.safetensors"
    settings = {"method": "fedcommons", "options": {"phi": f"model:cnn4:pretrained={weights}+filters"}}
    weights.write_bytes(b"one")
    assert weights_in(settings) == [str(weights)]
    before = of_settings(settings)
    weights.write_bytes(b"two")
    assert of_settings(settings) != before


def test_a_run_whose_map_has_changed_is_not_gone_on_with(tmp_path: Path) -> None:
    net = tmp_path / "net.py"
    net.write_text(NET.format(width=16))
    config = resolve({
        "method": "fedcommons", "data": "digits", "clients": 3, "rounds": 1,
        "options": {"phi": f"model:module:{net}:Net"},
    })  # fmt: skip
    built = build(config)
    directory = RunDir.create(tmp_path / "run", built.config.to_dict())
    carry_out(built, directory)
    assert any(name.endswith("net.py") for name in built.contents)
    net.write_text(NET.format(width=24))
    with pytest.raises(RunError, match="has changed since"):
        reopen(RunDir.open(tmp_path / "run"), changed=REFUSE)
