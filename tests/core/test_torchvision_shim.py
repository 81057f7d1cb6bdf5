"""Importing torchvision whole, without its operators, and not at all."""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec
from types import ModuleType

import pytest
import torch

from protofed.core import torchvision_shim
from protofed.core.errors import ConfigError
from protofed.core.torchvision_shim import import_torchvision


@pytest.mark.skipif(find_spec("torchvision") is None, reason="needs protofed[vision]")
def test_architectures_are_reachable() -> None:
    torchvision = import_torchvision()
    assert callable(torchvision.models.mobilenet_v2)
    assert import_torchvision() is torchvision


def test_a_whole_torchvision_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ModuleType("torchvision")
    monkeypatch.setattr(importlib, "import_module", lambda name: whole)
    monkeypatch.setattr(torchvision_shim, "_declare_operators", lambda: pytest.fail("must not declare"))
    assert import_torchvision() is whole


def test_missing_operators_are_declared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, calls = ModuleType("torchvision"), []

    def fake_import(name: str) -> ModuleType:
        if not calls:
            raise RuntimeError("operator torchvision::nms does not exist")
        return whole

    monkeypatch.setattr(importlib, "import_module", fake_import)
    monkeypatch.setattr(torchvision_shim, "_declare_operators", lambda: calls.append("declared"))
    assert import_torchvision() is whole
    assert calls == ["declared"]


def test_declaring_makes_the_names_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice in one process is harmless, also after another package declared them."""
    monkeypatch.setattr(torchvision_shim.sys, "modules", {"torchvision.half": ModuleType("half")})
    torchvision_shim._declare_operators()
    torchvision_shim._declare_operators()
    assert torchvision_shim.sys.modules == {}
    assert hasattr(torch.ops.torchvision, "nms")
    assert hasattr(torch.ops.torchvision, "qnms")


def test_absent_torchvision_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(ConfigError, match=r"pip install 'protofed\[vision\]'"):
        import_torchvision()


def test_other_failures_pass_through(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> ModuleType:
        raise RuntimeError("no space left")

    monkeypatch.setattr(importlib, "import_module", broken)
    with pytest.raises(RuntimeError, match="no space left"):
        import_torchvision()
