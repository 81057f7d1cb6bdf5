"""The cohort engine's own decisions: who trains together, who alone."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from protofed.config import resolve
from protofed.core.data import LocalData
from protofed.core.errors import EngineError
from protofed.core.task import Group
from protofed.core.train import Session
from protofed.data.federated import OwnData
from protofed.engines import cohort
from protofed.experiment import Experiment, make_task
from protofed.federating import make_federation
from protofed.models.base import Model
from protofed.testing import assert_close, snapshot, toy_groups

SIZES = (90, 10, 12, 8, 9, 60, 7)


def data(sizes: tuple[int, ...]) -> OwnData:
    """Clients with so many samples of two classes."""
    parts = []
    for client, size in enumerate(sizes):
        generator = torch.Generator().manual_seed(client)
        x = torch.randn(size, 6, dtype=torch.float64, generator=generator)
        parts.append(LocalData(x, torch.arange(size) % 2))
    return OwnData(parts, parts)


def trained(engine: str, sizes: tuple[int, ...]) -> Experiment:
    config = resolve(
        {"method": "fedproto", "clients": len(sizes), "rounds": 2, "batch_size": 4, "dtype": "float64"},
        {"engine": engine},
    )
    clients, (groups, _) = data(sizes), toy_groups("mlp")
    index = np.zeros(len(sizes), dtype=np.int64)
    task = make_task(config, config.make_method(), groups, index, (6,), tuple("abcde"))
    experiment = Experiment(config, task, clients, make_federation(config, task, clients))
    experiment.play(None)
    return experiment


@pytest.mark.parametrize(
    ("sizes", "stacked"),
    [
        (SIZES, {1, 2, 3, 4, 6}),  # the fourth longest has 10: 90 and 60 are more than twice that
        ((21, 10, 10, 10, 10), {1, 2, 3, 4}),
        ((20, 10, 10, 10, 10), {0, 1, 2, 3, 4}),
        ((50, 10, 10), {0, 1, 2}),  # too few for the rule
    ],
)
def test_clients_with_far_more_work_train_alone(sizes, stacked, monkeypatch) -> None:
    seen: set[int | None] = set()
    inner = cohort.run_cohort

    def watched(sessions: list[Session]):
        seen.update(session.turn.client for session in sessions)
        return inner(sessions)

    monkeypatch.setattr(cohort, "run_cohort", watched)
    trained("cohort", sizes)
    assert seen == stacked


def test_alone_or_together_the_numbers_are_the_same() -> None:
    assert_close(snapshot(trained("sequential", SIZES)), snapshot(trained("cohort", SIZES)), 1e-10)


def played(engine: str, module, sizes: tuple[int, ...] = (10, 12, 8, 9), rounds: int = 2) -> Experiment:
    """FedAvg with a model of one's own, clients of unequal sizes."""
    config = resolve(
        {"method": "fedavg", "clients": len(sizes), "rounds": rounds, "batch_size": 4, "dtype": "float64"},
        {"engine": engine, "options": {"params_only": True}},
    )
    clients, index = data(sizes), np.zeros(len(sizes), dtype=np.int64)
    task = make_task(config, config.make_method(), [Group("own", module)], index, (6,), tuple("abcde"))
    experiment = Experiment(config, task, clients, make_federation(config, task, clients))
    experiment.play(None)
    return experiment


def tied() -> nn.Module:
    layer = nn.Linear(6, 6)
    return Model(nn.Sequential(layer, nn.ReLU(), layer), nn.Linear(6, 5))


def test_layers_that_share_tensors_are_refused_by_name() -> None:
    with pytest.raises(EngineError, match=r"base\.0\.weight and .*base\.2\.weight are one tensor"):
        played("cohort", tied)
    assert played("sequential", tied).federation.round == 2


def with_layer(layer: nn.Module) -> Callable[[], nn.Module]:
    return lambda: Model(nn.Sequential(nn.Linear(6, 6), copy.deepcopy(layer), nn.ReLU()), nn.Linear(6, 5))


def test_all_dropped_is_zero() -> None:
    module = with_layer(nn.Dropout(1.0))
    assert_close(snapshot(played("cohort", module)), snapshot(played("sequential", module)), 1e-10)


def test_a_cumulative_batchnorm_is_refused_by_name() -> None:
    """It counts each client's own batches, which differ after a round of unequal clients."""
    module = with_layer(nn.BatchNorm1d(6, momentum=None))
    with pytest.raises(EngineError, match="cannot run on the cohort engine"):
        played("cohort", module)
    assert played("sequential", module).federation.round == 2
