"""FedRep: two phases, each moving its own part."""

import pytest
import torch
from vmap_check import check_vmap

from protofed.algorithms.fedrep import FedRep
from protofed.config import resolve
from protofed.core.errors import ConfigError
from protofed.core.net import selects
from protofed.testing import CHECKS, Toy

VARIANTS = [
    Toy("fedrep", {"split": "base.2+head", "e_head": 2}),
    Toy("fedrep", {"e_head": 3, "e_body": 1, "params_only": True}, models="norm"),
]


@pytest.mark.thorough
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("case", VARIANTS, ids=lambda c: c.models)
def test_conformance_of_variants(case, check):
    check(case)


@pytest.mark.parametrize("models", ["mlp", "norm"])
def test_loss_runs_under_vmap(models):
    check_vmap(Toy("fedrep", models=models))


def one_round(**options):
    """Initial and later bases (the server's) and heads (client 0's)."""
    experiment = Toy("fedrep", options).build(rounds=1)
    base = experiment.federation.state.weights
    head = experiment.task.fresh(0, 0)
    experiment.play(None)
    kept = experiment.federation.engine.store.get(0).kept
    return base, experiment.federation.state.weights, head, kept


def moved(before, after):
    return {name for name in after if not torch.equal(before[name], after[name])}


def test_the_head_phase_moves_the_head_alone():
    base, base_after, head, kept = one_round(e_head=1, e_body=0)
    assert moved(head, kept) == {"model.head.weight", "model.head.bias"}
    assert max(float((base[n] - base_after[n]).abs().max()) for n in base) < 1e-15  # averages of equals


def test_the_body_phase_moves_the_base_alone():
    base, base_after, head, kept = one_round(e_head=0, e_body=1)
    assert moved(head, kept) == set()
    assert moved(base, base_after) == set(base)


def test_phases_follow_the_split():
    """With split base.2+head the private part is base.2 and head, the body is the rest: base.0."""
    head, body = FedRep(split="base.2+head").legs[0].phases
    names = ["model.base.0.weight", "model.base.2.weight", "model.head.weight"]
    assert [selects(head.train, n) for n in names] == [False, True, True]
    assert [selects(body.train, n) for n in names] == [True, False, False]
    _, base_after, _, kept = one_round(split="base.2+head")
    assert base_after.keys() == {"model.base.0.weight", "model.base.0.bias"}
    assert "model.base.2.weight" in kept


def test_epochs():
    """By default one head epoch, and the run's epochs for the body; official: 10 and 1."""
    assert [p.epochs for p in FedRep().legs[0].phases] == [1, None]
    official = resolve({"method": "fedrep", "preset": "official"}).make_method()
    assert [p.epochs for p in official.legs[0].phases] == [10, 1]


def test_samples_seen_count_both_phases():
    """The toy clients have 16, 14, 1, 15, 17 and 12 samples, 75 in all: with E_h = 3 and 2 epochs for the
    body a round sees 75 · 5 = 375."""
    record = Toy("fedrep", {"e_head": 3}).build().federation.play()
    assert record["samples"] == 375


def test_batch_norm_statistics_move_in_the_head_phase():
    """As in the authors' code: the frozen base stays in training mode."""
    experiment = Toy("fedrep", {"e_body": 0}, models="norm").build(rounds=1)
    before = experiment.federation.state.weights["model.base.1.running_mean"].clone()
    experiment.play(None)
    assert not torch.equal(before, experiment.federation.state.weights["model.base.1.running_mean"])


def test_option_errors():
    with pytest.raises(ConfigError, match="e_head: must be at least 0"):
        resolve({"method": "fedrep", "options": {"e_head": -1}})
    with pytest.raises(ConfigError, match="has no part 'tail'"):
        Toy("fedrep", {"split": "tail"}).build()
