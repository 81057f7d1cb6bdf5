"""What methods declare about their server step: it makes the same of equal values as of single ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from protofed.core.algorithm import Leg, methods
from protofed.core.answer import Replies, Reply
from protofed.core.averages import SAMPLES, Averaged
from protofed.core.guard import Guard
from protofed.core.record import Nothing, Record
from protofed.core.task import Turn
from protofed.testing import Toy, assert_close

AVERAGING = [
    name
    for name in methods
    if not methods[name]().single and not any(a.added for leg in methods[name]().legs for a in leg.averages)
]


class EqualValues(Guard):
    """Every client's values are the average of all, by a plain loop."""

    def combine(self, replies: Replies, state: Any, leg: Leg, turn: Turn) -> Replies:
        got = replies.all()
        for averaged in leg.averages:
            got = _levelled(got, averaged)
        return Replies(got)


def _levelled(got: list[Reply], averaged: Averaged) -> list[Reply]:
    if averaged.by:
        return [reply._replace(up=_with(reply.up, averaged.field, _class_means(got, averaged, reply.up)))
                for reply in got]  # fmt: skip
    weights = [float(r.n) if averaged.weight == SAMPLES else 1.0 for r in got]
    first = getattr(got[0].up, averaged.field)
    if isinstance(first, Tensor):
        mean: Any = sum(w * getattr(r.up, averaged.field) for w, r in zip(weights, got)) / sum(weights)
    else:
        mean = {
            name: sum(w * getattr(r.up, averaged.field)[name] for w, r in zip(weights, got)) / sum(weights)
            for name, tensor in first.items()
            if tensor.is_floating_point()
        }
    merged = [mean if isinstance(first, Tensor) else {**getattr(r.up, averaged.field), **mean} for r in got]
    return [reply._replace(up=_with(reply.up, averaged.field, one)) for reply, one in zip(got, merged)]


def _class_means(got: list[Reply], averaged: Averaged, up: Record) -> Tensor:
    rows = []
    for c in getattr(up, averaged.by).tolist():
        total, weight = 0.0, 0.0
        for other in got:
            at = (getattr(other.up, averaged.by) == c).nonzero()
            if len(at):
                w = float(getattr(other.up, averaged.weight)[at[0, 0]]) if averaged.weight else 1.0
                total, weight = total + w * getattr(other.up, averaged.field)[at[0, 0]], weight + w
        rows.append(total / weight)
    return torch.stack(rows) if rows else getattr(up, averaged.field)


def _with(up: Record, field: str, value: Any) -> Record:
    return replace(up, **{field: value})  # type: ignore[type-var]


@pytest.mark.parametrize("name", AVERAGING)
def test_a_server_that_averages_does_not_see_whether_values_are_equal(name: str) -> None:
    plain, level = (Toy(name).build() for _ in range(2))
    level.federation.guards = (EqualValues(),)
    for _ in range(2):
        plain.federation.play()
        level.federation.play()
    assert_close(plain.federation.state.arrays(), level.federation.state.arrays(), 1e-9)


def test_every_method_says_what_its_server_uses() -> None:
    """Either single uploads are needed, with a reason, or every leg that sends names what is averaged."""
    for name in methods:
        made = methods[name]()
        for leg in made.legs:
            if not made.single and leg.up is not Nothing:
                assert leg.averages, name
                fields = {spec.name for spec in leg.up.specs()}
                for averaged in leg.averages:
                    named = {averaged.field, averaged.by, averaged.weight} - {"", SAMPLES}
                    assert named <= fields, (name, averaged)
    assert methods["fedtgp"]().single == "trains its prototypes on single uploads"
    assert {"fedproto", "fedavg", "scaffold", "protonorm", "fcclplus"} <= set(AVERAGING)
