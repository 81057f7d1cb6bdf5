"""Every cell of every recipe can be planned and, with made-up samples in place of data, be built."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from protofed import experiment
from protofed.config import Config
from protofed.core.options import build
from protofed.data import Dataset, divide, load, partitions, public, sources
from protofed.data.specs import parse_source
from protofed.models.groups import read_members
from protofed.models.written import write_family
from protofed.runs.modes import plain
from protofed.studies.plan import Planned
from protofed.studies.recipe import load_recipe, recipe_ids
from protofed.studies.reproduce import Selection, plan_reproduction

TRAINED = [name for name in recipe_ids() if not load_recipe(name).about.costs]


@cache
def planned(name: str) -> list[Planned]:
    plans = plan_reproduction(load_recipe(name), Selection(seeds=1))
    return list({one.key: one for plan in plans for one in plan.runs}.values())


@pytest.mark.parametrize("name", TRAINED)
def test_written_forms_are_known(name: str) -> None:
    """Data, public data, partition and models parse, with all their options."""
    runs = planned(name)
    assert runs
    for spec in {s for one in runs for s in (one.config.data, one.config.public) if s}:
        kind, options = parse_source(spec)
        assert build(sources[kind], options, spec) is not None
    for spec in {one.config.partition for one in runs}:
        assert partitions.make(spec) is not None
    for spec in {one.config.models for one in runs}:
        assert read_members(spec)[0]


@pytest.mark.parametrize("name", TRAINED)
def test_methods_get_what_they_need(name: str) -> None:
    """One architecture where a method asks for it, public data, and not more participants than clients."""
    for one in planned(name):
        needs = one.config.make_method().needs
        kinds = {write_family(member) for member in read_members(one.config.models)[0]}
        assert not (needs.model and len(kinds) > 1), one.row
        assert not needs.public or one.config.public, one.row
        assert one.config.rounds.participants(one.config.clients) >= 1


@pytest.mark.parametrize("name", TRAINED)
def test_prediction_modes_exist(name: str) -> None:
    for plan in plan_reproduction(load_recipe(name), Selection(seeds=1)):
        if plan.runs and plan.row.mode:
            modes = plan.runs[-1].config.make_method().modes
            assert plain(plan.row.mode) in modes


@pytest.mark.parametrize("name", TRAINED)
def test_rounds_of_columns_are_tested_and_within_the_run(name: str) -> None:
    for plan in plan_reproduction(load_recipe(name), Selection(seeds=1)):
        for one in plan.runs:
            if plan.column.round is not None:
                assert plan.column.round <= one.config.rounds.rounds
                assert plan.column.round % one.config.system.eval_every == 0


# with made-up samples

SHAPES = {  # of the data that small networks are trained on: shape, classes
    "mnist": ((1, 28, 28), 10), "femnist": ((1, 28, 28), 62), "digit5": ((3, 32, 32), 10),
    "pacs": ((3, 64, 64), 7), "flowers102": ((3, 64, 64), 102),
}  # fmt: skip
CLIENTS = 4


def made_up(spec: str) -> Dataset:
    kind, options = parse_source(spec)
    if kind == "synthetic":
        return load(spec)
    shape, classes = SHAPES[kind]
    if "size" in options:
        shape = (shape[0], int(options["size"]), int(options["size"]))
    y = np.tile(np.arange(classes), 8)
    return Dataset(
        x=np.zeros((len(y), *shape), np.uint8),
        y=y,
        test=np.arange(len(y)) >= 4 * classes,
        classes=tuple(str(c) for c in range(classes)),
        name=kind,
    )


def representatives() -> list[Planned]:
    """One run for each method, network and kind of data, of recipes whose networks are small."""
    found: dict[str, Planned] = {}
    for name in TRAINED:
        for one in planned(name):
            kind = parse_source(one.config.data)[0]
            if not name.startswith("tgp") and (kind in SHAPES or kind == "synthetic"):
                found.setdefault(f"{one.config.method} {one.config.models} {kind}", one)
    return list(found.values())


def small(config: Config) -> Config:
    rounds = replace(config.rounds, sample=None, participation=1.0)
    system = replace(config.system, engine="sequential")
    return replace(config, clients=CLIENTS, rounds=rounds, system=system)


def test_runs_can_be_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """Methods, options, networks and classes fit together; the real split needs the real data."""
    monkeypatch.setattr(experiment, "load", made_up)
    monkeypatch.setattr(public, "load", made_up)
    monkeypatch.setattr(
        experiment, "divide", lambda spec, data, clients, seed: divide("iid", data, clients, seed)
    )
    runs = representatives()
    assert {"fedplcc", "fpl", "fedproto_margin", "fedatt", "fcclplus", "fesem"} <= {
        r.config.method for r in runs
    }
    for one in runs:
        built = experiment.build(small(one.config))
        assert built.task.clients == CLIENTS, one.row
        built.federation.engine.close()
