"""Whole rounds of every method with all tensors on another device: a tensor left on the CPU fails.

No accelerator is needed (other_device.py): what is proved is that devices are not mixed and that numbers do
not depend on where they are, not that an accelerator is fast, nor that its kernels agree with the CPU's.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from protofed import testing
from protofed.config import System
from protofed.core.algorithm import methods
from protofed.testing import Toy
from tests.engines.other_device import THERE, MixedDevices, OtherDevice


def test_what_the_stand_in_catches() -> None:
    with OtherDevice():
        there, here = torch.ones(3, device=THERE), torch.arange(3.0)
        assert there.device == THERE
        assert torch.tensor([1.0, 2.0], device=THERE).tolist() == [1.0, 2.0]
        assert (there + here.to(THERE)).tolist() == [1.0, 2.0, 3.0]
        assert (there * torch.tensor(2.0)).tolist() == [2.0] * 3, "numbers without axes may be mixed"
        assert (there + here.to(THERE)).to("cpu").device.type == "cpu"
        with pytest.raises(MixedDevices):
            there + here
        with pytest.raises(MixedDevices):
            there[torch.tensor([0, 1])]


def _played(name: str, engine: str) -> dict[str, Any]:
    return Toy(name).build(engine=engine, rounds=2, epochs=1).play(None)[-1]


@pytest.mark.parametrize("engine", ["sequential", "cohort"])
@pytest.mark.parametrize("name", list(methods))
def test_rounds_on_another_device(name: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    here = _played(name, engine)
    samples = testing._samples
    monkeypatch.setattr(System, "torch_device", property(lambda self: THERE))
    monkeypatch.setattr(testing, "_samples", lambda *args: tuple(t.to(THERE) for t in samples(*args)))
    with OtherDevice():
        there = _played(name, engine)
    assert there["acc"] == here["acc"]
    assert there["train_loss"] == pytest.approx(here["train_loss"], rel=1e-9, nan_ok=True)
    assert there["up"] == here["up"]
