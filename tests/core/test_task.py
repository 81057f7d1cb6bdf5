"""What the task hands to methods: zeros of the right size, precision and device."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from client_toy import CLASSES, EMBEDDING, Probe, make_task, samples

from protofed.core.algorithm import Algorithm, Leg, Needs, Phase
from protofed.core.errors import ConfigError


def test_zeros_take_sizes_from_the_axis_letters() -> None:
    task = make_task(Probe(), public=samples(7))
    assert task.zeros("C D").shape == (CLASSES, EMBEDDING)
    assert task.zeros("N C").shape == (7, CLASSES)
    assert task.zeros("0 D").shape == (0, EMBEDDING)
    assert task.zeros("K C", K=task.clients).shape == (3, CLASSES)
    assert task.zeros("").shape == ()
    assert not task.zeros("C D").any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_zeros_have_the_precision_and_device_of_the_task(dtype: torch.dtype) -> None:
    task = make_task(Probe(), dtype=dtype, device=torch.device("meta"))
    found = {kind: task.zeros("C", kind) for kind in (float, int, bool)}
    assert [t.dtype for t in found.values()] == [dtype, torch.int64, torch.bool]
    assert {t.device.type for t in found.values()} == {"meta"}


def test_an_unknown_axis_is_refused_in_one_line() -> None:
    with pytest.raises(
        ConfigError, match=r"probe: task.zeros\('C E'\): unknown axis 'E'; known here: C, D; "
    ) as hit:
        make_task(Probe()).zeros("C E")
    assert "\n" not in str(hit.value)


@dataclass(frozen=True)
class Plain(Algorithm):
    """All that does not depend on options stands as class attributes."""

    steps: int = 3

    modes = ("own", "clf")
    needs = Needs(model=True)
    keep = ("model.",)
    partial = "drop"

    @property
    def legs(self) -> tuple[Leg, ...]:
        return (Leg(phases=(Phase(steps=self.steps),)),)


def test_class_attributes_and_properties_serve_alike() -> None:
    method = Plain(steps=5)
    assert (method.modes, method.needs, method.keep, method.partial) == (
        ("own", "clf"),
        Needs(model=True),
        ("model.",),
        "drop",
    )
    assert method.legs[0].phases[0].steps == 5
    assert method == Plain(5), "attributes are no options"
