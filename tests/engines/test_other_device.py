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
from protofed.core import mixed
from protofed.core.algorithm import methods
from protofed.testing import Toy
from tests.engines.other_device import THERE, MixedDevices, OtherAutocast, OtherDevice


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


def _played(name: str, engine: str, dtype: str) -> dict[str, Any]:
    return Toy(name).build(engine=engine, rounds=2, epochs=1, dtype=dtype).play(None)[-1]


@pytest.mark.parametrize("dtype", ["float64", "bf16-mixed"])
@pytest.mark.parametrize("engine", ["sequential", "cohort"])
@pytest.mark.parametrize("name", list(methods))
def test_rounds_on_another_device(
    name: str, engine: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples, kind = testing._samples, System(dtype=dtype).torch_dtype
    monkeypatch.setattr(mixed, "autocast", lambda device, kind: OtherAutocast())
    monkeypatch.setattr(mixed, "check_mixed", lambda device: None)
    monkeypatch.setattr(testing, "_samples", lambda *args: (samples(*args)[0].to(kind), samples(*args)[1]))
    here = _played(name, engine, dtype)
    monkeypatch.setattr(System, "torch_device", property(lambda self: THERE))
    monkeypatch.setattr(
        testing, "_samples", lambda *args: (samples(*args)[0].to(THERE, kind), samples(*args)[1].to(THERE))
    )
    with OtherDevice():
        there = _played(name, engine, dtype)
    assert there["acc"] == here["acc"]
    assert there["train_loss"] == pytest.approx(here["train_loss"], rel=1e-9, nan_ok=True)
    assert there["up"] == here["up"]


@pytest.mark.parametrize("engine", ["sequential", "cohort"])
def test_the_stand_in_for_autocast_computes_as_torch_does(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = testing._samples
    monkeypatch.setattr(testing, "_samples", lambda *args: (samples(*args)[0].float(), samples(*args)[1]))
    full, torchs = _played("local", engine, "float32"), _played("local", engine, "bf16-mixed")
    monkeypatch.setattr(mixed, "autocast", lambda device, kind: OtherAutocast())
    ours = _played("local", engine, "bf16-mixed")
    assert ours["train_loss"] == pytest.approx(torchs["train_loss"], rel=1e-9)
    assert ours["train_loss"] != pytest.approx(full["train_loss"], rel=1e-9)
