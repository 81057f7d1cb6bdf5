"""Inputs from a change of weights: found where it is a gradient, and nothing where it is mixed or noisy."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("flwr", reason="secure sums need Flower: pip install 'protofed[deploy]'")

from protofed.analysis.gradient_inversion import CHANGE, Attempt, angle_to, invert_changes, sent_down
from protofed.analysis.inversion import NOTHING, OTHERS, Descent, scale_of
from protofed.analysis.leakage import Leakage, measure_leakage
from protofed.analysis.protections import NONE
from protofed.analysis.reconstructions import NO_UPLOAD
from protofed.config import resolve
from protofed.experiment import Experiment, build
from protofed.reports.reconstruction_grid import SHORT

ONE_STEP = {"data": "digits", "partition": "nway:n=2,stdev=0,k=1", "clients": 4, "models": "mlp", "rounds": 1}
ONE_STEP |= {"epochs": 1, "momentum": 0.0, "engine": "sequential", "balanced": 0}


def played(method: str, **settings: object) -> Experiment:
    experiment = build(resolve({"method": method}, {**ONE_STEP, **settings}))
    experiment.play(None)
    return experiment


def means(found: Leakage) -> dict[tuple[str, str, str], float]:
    return {(one.protection, one.network, one.start): one.mean for one in found.inversion}


def test_one_step_on_one_image_a_class_gives_the_images_away() -> None:
    asked = ["secure", "dp:client:noise=1"]
    found = means(measure_leakage(played("fedavg"), [0, 1], asked=asked, steps=100))
    for start in (NOTHING, OTHERS):
        guess = found[NO_UPLOAD, "", start]
        assert found[NONE, CHANGE, start] > guess + 3
        assert found["secure", CHANGE, start] < found[NONE, CHANGE, start] - 3
        assert found["client:noise=1", CHANGE, start] < guess + 1


def test_a_change_that_is_the_gradient_of_known_inputs_is_met_by_them() -> None:
    """w − w′ = η ∇CE(x*): at x* the angle is 0, so that the inputs stay where they start."""
    experiment = played("fedavg", epochs=1)
    data, before = experiment.data.train(0), sent_down(experiment, 0)
    model = {name: t.clone().requires_grad_() for name, t in before.items()}
    logits = experiment.task.net(0, model)(data.x)[1]
    loss = torch.nn.functional.cross_entropy(logits, data.y)
    names = list(experiment.task.names(0).parameters)
    steps = torch.autograd.grad(loss, [model[name] for name in names])
    came_up = {name: before[name] - 0.1 * step for name, step in zip(names, steps, strict=True)}
    turned = {name: before[name] + 0.1 * step for name, step in zip(names, steps, strict=True)}
    how = Descent(scale_of([data.x]), 50)
    attempts = [Attempt(one, data.x, False) for one in (came_up, turned)]
    stayed, went = invert_changes(experiment, 0, data.y, attempts, how)
    assert float((stayed - data.x).abs().max()) < 0.02 * (how.scale.high - how.scale.low)
    assert float((went - data.x).abs().max()) > 0.1 * (how.scale.high - how.scale.low)


def test_the_angle_and_its_gradient_are_torchs() -> None:
    draw = torch.Generator().manual_seed(0)
    gradient, change = torch.randn(2, 1000, generator=draw, dtype=torch.float64)
    gradient.requires_grad_()
    plain = 1 - torch.nn.functional.cosine_similarity(gradient, change, dim=0)
    ours = angle_to(change)(gradient)
    torch.testing.assert_close(ours, plain)
    (one,), (other,) = (torch.autograd.grad(3 * value, [gradient]) for value in (ours, plain))
    torch.testing.assert_close(one, other)
    nowhere = torch.zeros(1000, dtype=torch.float64, requires_grad=True)
    (pull,) = torch.autograd.grad(angle_to(change)(nowhere), [nowhere])
    assert bool(torch.isfinite(pull).all())


def test_layers_that_are_not_sent_are_named() -> None:
    found = means(measure_leakage(played("lg_fedavg"), [0], asked=[], steps=5))
    (network,) = {network for _, network, _ in found if CHANGE in network}
    assert network == f"{CHANGE}, with the client's own other layers"
    assert SHORT[network] == "change of weights, own other layers"  # in figures


def test_prototypes_alone_are_no_change_of_weights() -> None:
    found = means(measure_leakage(played("fedproto"), [0], asked=[], steps=5))
    assert not any(CHANGE in network for _, network, _ in found)
