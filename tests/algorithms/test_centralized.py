"""Centralized: pooled training, tested at every client."""

import numpy as np
import pytest
import torch
from vmap_check import check_vmap

from protofed.config import resolve
from protofed.core.data import LocalData
from protofed.core.errors import ConfigError
from protofed.core.task import Turn
from protofed.data.federated import OwnData
from protofed.experiment import Experiment, make_task
from protofed.federating import make_federation
from protofed.testing import CLASSES, COUNTS, INPUTS, Toy, assert_equal, toy_data, toy_groups

SAMPLES = sum(map(sum, COUNTS))


def test_loss_runs_under_vmap():
    check_vmap(Toy("centralized", models="norm"))


def alone(models: str, rounds: int) -> Experiment:
    """The method `local` at a single client that holds the union of the toy clients' samples."""
    settings = {
        "method": "local",
        "rounds": rounds,
        "epochs": 2,
        "batch_size": 4,
        "lr": 0.05,
        "momentum": 0.5,
    }
    config = resolve({**settings, "dtype": "float64", "clients": 1, "init": "common"})
    groups, _ = toy_groups(models)
    names = tuple(map(str, range(CLASSES)))
    task = make_task(config, config.make_method(), groups, np.zeros(1, dtype=np.int64), (INPUTS,), names)
    parts = [toy_data("train", client) for client in range(len(COUNTS))]
    union = LocalData(torch.cat([p.x for p in parts]), torch.cat([p.y for p in parts]))
    data = OwnData([union], [toy_data("test", 0)])
    return Experiment(config, task, data, make_federation(config, task, data))


@pytest.mark.parametrize("models", ["mlp", "norm"])
def test_it_equals_training_alone_on_the_union(models):
    """Bit for bit: the same start, batches, masks and steps."""
    ours, reference = Toy("centralized", models=models).build(rounds=3), alone(models, 3)
    ours.play(None)
    reference.play(None)
    assert_equal(ours.federation.state.weights, reference.federation.engine.store.get(0).kept)


def test_every_client_is_tested():
    records = Toy("centralized").build(rounds=1).play(None)
    assert records[-1]["tested_clients"] == len(COUNTS)


def test_all_samples_are_seen_and_nothing_is_sent():
    """75 training samples, 2 epochs."""
    record = Toy("centralized").build().federation.play()
    assert SAMPLES == 75
    assert record["samples"] == 2 * SAMPLES
    assert record["clients"] == 1
    for way in ("up", "down"):
        assert record[way] == {"params": 0, "bytes": 0, "meta_bytes": 0}


def test_participation_and_stragglers_do_not_apply():
    record = Toy("centralized").build(sample=3, stragglers=1.0).federation.play()
    assert (record["clients"], record["samples"]) == (1, 2 * SAMPLES)


def test_newcomers_are_neither_pooled_nor_tested():
    """The last client's 12 samples stay out."""
    experiment = Toy("centralized").build(newcomers=1, rounds=1)
    (record,) = experiment.play(None)
    assert record["samples"] == 2 * (SAMPLES - 12)
    assert record["tested_clients"] == len(COUNTS) - 1


def test_clients_share_the_model():
    """What client 5 is tested with is what client 0 trained."""
    experiment = Toy("centralized").build(rounds=1)
    experiment.play(None)
    task, state = experiment.task, experiment.federation.state
    down = task.algorithm.broadcast(state, Turn(task, 1, "eval", 5))
    assert down is state
    assert len(experiment.federation.engine.store) == 0


def test_different_models_are_refused():
    with pytest.raises(ConfigError, match="centralized needs one architecture for all clients"):
        Toy("centralized", models="mixed").build()
