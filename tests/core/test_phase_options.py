"""Optimisers by prefix, and which batches of one sample are left out."""

import torch
from torch import nn

from protofed.core.algorithm import Phase
from protofed.core.net import LiveNet
from protofed.core.optim import Opt, Stepper
from protofed.core.task import Turn
from protofed.core.train import has_batchnorm, phase_opts
from protofed.testing import Toy


def test_each_prefix_is_clipped_by_its_own_norm():
    """Gradients 3 and 4 under two prefixes with equal options: each has a norm above 1 and becomes
    1, so a step with lr 1 moves both by −1. Clipped together (norm 5) they would move by −0.6, −0.8."""
    opt = Opt(lr=1.0, momentum=0.0, clip=1.0)
    params = [torch.zeros(1, dtype=torch.float64) for _ in range(2)]
    grads = [torch.tensor([3.0], dtype=torch.float64), torch.tensor([4.0], dtype=torch.float64)]
    Stepper(["model.w", "aux.w"], {"": opt, "aux.": opt}).step(params, grads)
    assert torch.allclose(torch.cat(params), torch.tensor([-1.0, -1.0], dtype=torch.float64), atol=1e-6)


def test_changes_to_the_own_optimiser():
    task = Toy("local").build(lr=0.05, momentum=0.5).task
    opts = phase_opts(task, Phase(opts={"aux.": {"clip": 10.0}, "gen.": Opt(lr=2.0)}), Turn(task, 1))
    assert opts["aux."] == Opt(lr=0.05, momentum=0.5, clip=10.0)
    assert opts["gen."].lr == 2.0
    assert opts[""].clip is None


def test_batchnorm_in_eval_mode_does_not_count():
    model, gen = nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    net = LiveNet({"model": model, "gen": gen}, {})
    assert has_batchnorm(net)
    assert not has_batchnorm(net, ("gen.",))
    assert has_batchnorm(net, ("model.",))
