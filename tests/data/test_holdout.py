"""What clients hold out of training, and the balanced test."""

import numpy as np
import pytest
import torch

from protofed.config import resolve
from protofed.core.data import LocalData
from protofed.data.base import Rows, Split
from protofed.data.holdout import balanced_rows, balanced_samples, hold_out, hold_out_samples
from protofed.experiment import build


def _split(*clients: list[int]) -> Split:
    return Split(Rows.of([np.array(rows) for rows in clients]), Rows.of([np.array([], int)] * len(clients)))


def test_a_share_of_each_class_and_never_its_only_row() -> None:
    """Client 0 has 5 rows of class 0, 4 of class 1 and one of class 2: a share of 0.4 is ⌊0.4 · 10⌋ = 4 rows.
    Places r / n_c are 0, .2, .4, .6, .8; 0, .25, .5, .75; 0: the four highest are .8, .75, .6, .5, so two of
    either large class. Client 1 has 2 rows of one class: ⌊0.8⌋ = 0 are held out."""
    labels = np.array([0] * 5 + [1] * 4 + [2] + [3, 3])
    split = hold_out(_split(list(range(10)), [10, 11]), labels, 0.4, seed=3)
    assert split.validation is not None
    held = split.validation[0]
    assert np.bincount(labels[held]).tolist() == [2, 2]
    assert sorted([*held, *split.train[0]]) == list(range(10))
    assert split.train.sizes.tolist() == [6, 2]
    assert split.validation.sizes.tolist() == [4, 0]


def test_the_seed_alone_decides() -> None:
    labels = np.arange(40) % 2
    found = [hold_out(_split(list(range(40))), labels, 0.25, seed).validation for seed in (1, 1, 2)]
    rows = [sorted(one[0]) for one in found if one is not None]
    assert rows[0] == rows[1]
    assert rows[0] != rows[2]


def test_samples_in_tensors_are_divided_alike() -> None:
    parts = [LocalData(torch.arange(10.0)[:, None], torch.tensor([0, 1] * 5)) for _ in range(2)]
    train, held = hold_out_samples(parts, 0.2, seed=0)
    for own, out in zip(train, held):
        assert sorted([*own.x[:, 0].tolist(), *out.x[:, 0].tolist()]) == list(range(10))
        assert out.y.tolist() == [0, 1] or out.y.tolist() == [1, 0]


def test_balanced_rows_are_as_many_of_each_class() -> None:
    labels = np.array([0] * 9 + [1] * 3 + [2] * 5)
    rows = balanced_rows(labels, np.arange(17), most=4, seed=0)
    assert np.bincount(labels[rows]).tolist() == [3, 3, 3]  # as many as the rarest has
    assert len(balanced_rows(labels, np.array([], int), 4, 0)) == 0


def test_unequal_inputs_have_no_balanced_test() -> None:
    one, two = (LocalData(torch.zeros(2, n), torch.tensor([0, 1])) for n in (3, 4))
    assert balanced_samples([one, two], 5, 0) is None


@pytest.mark.parametrize("engine", ["sequential", "cohort", "workers"])
def test_a_run_tests_on_all_three(engine: str) -> None:
    """Training rows are fewer by the share; `ens` is there, on the held-out samples too."""
    settings = {"rounds": 2, "epochs": 1, "clients": 4, "engine": engine, "workers": 2}
    plain = build(resolve({"method": "fedproto", **settings}))
    built = build(resolve({"method": "fedproto", "validation": 0.2, "balanced": 3, **settings}))
    assert built.data.size(0) == plain.data.size(0) - int(0.2 * plain.data.size(0))
    try:
        first, last = built.play(None)
    finally:
        built.federation.engine.close()
        plain.federation.engine.close()
    assert "balanced" not in first
    assert set(last["balanced"]) == {"gp_local", "clf", "gp_all", "lp", "ens"} == set(last["acc"])
    assert set(last["validation"]) == set(last["acc"])
    assert built.task.balanced is not None
    assert set(built.task.balanced.counts(10).tolist()) <= {0, 3}  # four clients lack some classes
