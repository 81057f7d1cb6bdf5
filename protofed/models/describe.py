"""Rows about all families and groups, for listings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from ..core.errors import ConfigError
from ..core.options import OptionInfo, options_of
from .base import families
from .flops import Cost, cost_of
from .named_groups import NamedGroup, named_groups
from .written import read_family, write_family


@dataclass(frozen=True)
class FamilyRow:
    """One architecture. `cost` is None, and `note` says why, if it cannot be built for this input."""

    spec: str
    family: str
    summary: str
    options: tuple[OptionInfo, ...]
    cost: Cost | None
    note: str


def describe_families(shape: tuple[int, ...] | None = None, num_classes: int = 10) -> list[FamilyRow]:
    """A row for each family with its defaults and for each other member of a named group.

    Costs are measured for inputs of `shape`; without it nothing is built, which is quick.
    """
    return [describe_model(spec, shape, num_classes) for spec in _known_specs()]


def describe_model(spec: str, shape: tuple[int, ...] | None, num_classes: int) -> FamilyRow:
    """The row of one written form."""
    family = read_family(spec)
    cost, note = None, ""
    if shape is not None:
        try:
            module = build_for_counting(lambda: family.build(shape, num_classes))
            cost = cost_of(module, shape, num_classes, spec)
        except ConfigError as error:
            note = str(error)
    options = tuple(options_of(type(family)))
    return FamilyRow(spec, family.name, families.summary(family.name), options, cost, note)


def describe_groups() -> list[tuple[str, NamedGroup]]:
    """Named groups in alphabetical order."""
    return sorted(named_groups.items())


def build_for_counting(build: Callable[[], nn.Module]) -> nn.Module:
    """Build without memory for the weights where the architecture allows it."""
    try:
        with torch.device("meta"):
            module = build()
    except (RuntimeError, NotImplementedError):  # reads values while it is built
        return build()
    if all(tensor.is_meta for tensor in module.state_dict().values()):
        return module
    return build()


def _known_specs() -> list[str]:
    """Heads apart: a group that differs from another in its heads alone adds no row."""
    members = [m for group in named_groups.values() for m in group.members if "head=" not in m]
    specs = {write_family(read_family(text)) for text in [*families, *members]}
    order = list(families)
    return sorted(specs, key=lambda spec: (order.index(spec.partition(":")[0]), len(spec), spec))
