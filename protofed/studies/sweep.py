"""One method over the values of options or settings: a full grid, or a search with Optuna.

An axis is written NAME=VALUES:

    lam=0,0.1,1              an option of the method, or a setting (lr, epochs, stragglers, …)
    partition.k=10,50,100    one option inside a written form: shots of "nway:n=3,k=100"
    partition=iid;nway:n=3   whole written forms, separated by semicolons
    lam=0.01..10:log         a range, for the search only (without :log even; whole ends: whole numbers)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..config import Config, resolve, setting_names
from ..core.algorithm import methods
from ..core.errors import ConfigError, unknown
from ..core.options import options_of
from .compare import seed_range
from .plan import Planned

Point = dict[str, str]  # one value per axis


@dataclass(frozen=True)
class SweepAxis:
    """The values of one name, or a range."""

    name: str
    values: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    whole: bool = False

    @property
    def extremes(self) -> tuple[str, ...]:
        """All values, or the ends of the range."""
        return self.values or tuple(f"{end:.6g}" for end in (self.low, self.high))


def read_axis(text: str) -> SweepAxis:
    """Read "lam=0,0.1,1" or "lam=0.01..10:log".

    >>> read_axis("partition.k=10,50").values
    ('10', '50')
    """
    name, equals, given = text.partition("=")
    name, given = name.strip().replace("-", "_"), given.strip()
    if not (equals and name and given):
        raise ConfigError(f"--over {text!r}: expected NAME=VALUE,VALUE,… or, for a search, NAME=LOW..HIGH")
    if ".." in given and "/" not in given:  # not the ../ of a path
        return _read_range(name, given, text)
    parts = given.split(";" if ";" in given else ",")
    values = tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))
    if not values:
        raise ConfigError(f"--over {text!r}: no value")
    return SweepAxis(name, values)


def _read_range(name: str, given: str, text: str) -> SweepAxis:
    ends, _, kind = given.partition(":")
    low_text, _, high_text = ends.partition("..")
    try:
        low, high = float(low_text), float(high_text)
    except ValueError as error:
        raise ConfigError(f"--over {text!r}: expected two numbers, as in lam=0.01..10:log") from error
    if kind not in ("", "log") or not -math.inf < low < high < math.inf or (kind == "log" and low <= 0):
        raise ConfigError(f"--over {text!r}: expected LOW..HIGH with LOW < HIGH; for :log LOW above 0")
    whole = "." not in low_text + high_text and "e" not in (low_text + high_text).lower()
    return SweepAxis(name, (), low, high, kind == "log", whole)


def grid(axes: Sequence[SweepAxis]) -> list[Point]:
    """All combinations."""
    for axis in axes:
        if not axis.values:
            raise ConfigError(
                f"--over {axis.name}: a range needs a search: add --optuna TRIALS, or list values"
            )
    names = [axis.name for axis in axes]
    return [dict(zip(names, values)) for values in itertools.product(*(axis.values for axis in axes))]


def corners(axes: Sequence[SweepAxis]) -> list[Point]:
    """Each listed value and each end of a range once: what can be checked before a search."""
    first = {axis.name: axis.extremes[0] for axis in axes}
    return [first | {axis.name: value} for axis in axes for value in axis.extremes]


def label(point: Mapping[str, str]) -> str:
    """A combination as its row is called."""
    return ", ".join(f"{name}={value}" for name, value in point.items())


def plan_point(
    method: str, settings: Mapping[str, Any], point: Mapping[str, str], seeds: int
) -> list[Planned]:
    """The runs of one combination."""
    base = resolve({"method": method}, settings)
    config = resolve({"method": method}, settings, point_layer(base, point))
    return [Planned(label(point), replace(config, seed=seed)) for seed in seed_range(settings, seeds)]


def point_layer(base: Config, point: Mapping[str, str]) -> dict[str, Any]:
    """The settings and options that a combination stands for."""
    own = [info.name for info in options_of(methods[base.method])]
    layer: dict[str, Any] = {"options": {}}
    for name, value in point.items():
        outer, dot, inner = name.partition(".")
        if dot and outer in ("data", "partition", "models"):
            layer[outer] = set_in_form(layer.get(outer, getattr(base, outer)), inner, value)
        elif name in own:
            layer["options"][name] = value
        elif name in setting_names() and name not in ("method", "options", "seed"):
            layer[name] = value
        else:
            raise ConfigError(f"--over: {unknown('option or setting', name, [*own, *setting_names()])}")
    return layer


def set_in_form(form: str, name: str, value: str) -> str:
    """Put an option into a written form, or change it there.

    >>> set_in_form("nway:n=3,k=100", "k", "10")
    'nway:n=3,k=10'
    """
    if "|" in form:
        raise ConfigError(f"--over {name}: {form!r} names several models; sweep whole forms instead")
    head, _, rest = form.partition(":")
    parts = [part for part in rest.split(",") if part]
    changed = [f"{name}={value}" if part.split("=")[0].strip() == name else part for part in parts]
    if changed == parts and f"{name}={value}" not in parts:
        changed.append(f"{name}={value}")
    return f"{head}:{','.join(changed)}"
