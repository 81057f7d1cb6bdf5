"""Canaries: what they prove lies below what is claimed, and above it where noise is too small."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import norm

from protofed.analysis.canaries import audit, prove
from protofed.analysis.protections import protections
from protofed.core.errors import ConfigError
from protofed.testing import Toy

TRIALS = 1200


def audited(method: str, dp: str, options: dict | None = None, broken=None):
    experiment = Toy(method, options or {}, {"dp": dp}).build(rounds=1)
    experiment.play(None)
    if broken:
        broken(experiment)
    made = protections(experiment, [], 6)
    return audit(experiment, made[1], TRIALS)


def test_gaussian_noise_of_known_size():
    """Means one deviation apart: of ln(TPR/FPR) at the best threshold most is proved, and not more."""

    def draw(there: bool, number: int) -> float:
        return float(there) + float(torch.randn((), generator=torch.Generator().manual_seed(number)))

    found = prove(draw, 20_000, 0.0)
    best = max(float(norm.logcdf(1 - t) - norm.logcdf(-t)) for t in (0.5, 1.0, 1.5, 2.0, 2.5))
    assert 0.8 < found < best + 0.1
    assert prove(lambda there, number: draw(False, number), 2000, 0.0) < 0.3  # no canary, no proof
    assert prove(lambda there, number: float(there), 2000, 0.0) > 4.5  # told outright


@pytest.mark.parametrize(
    ("method", "dp", "options", "canaries"),
    [
        ("fedproto", "client:noise=1", {}, ["a client"]),
        ("fedavg", "client:noise=1,clip=3", {}, ["a client"]),
        ("fed3r", "example:noise=1", {"standardise": False, "size": 16}, ["a sample"]),
        ("fedncm", "client:noise=1", {"standardise": False, "size": 16}, ["a client"]),
        ("fedproto", "example:noise=1", {}, ["a sample, in a step", "a sample, in prototypes"]),
        ("fedavg", "example:noise=1", {}, ["a sample, in a step"]),
    ],
)
def test_less_is_proved_than_claimed_and_something_is(method, dp, options, canaries):
    found = audited(method, dp, options)
    assert [one.canary for one in found] == canaries
    for one in found:
        assert 0.1 < one.proved <= one.claimed
        assert one.holds


def test_noise_that_is_too_small_is_found_out():
    """A tenth of the noise that is claimed, in each of the three places where noise is added."""

    def average(experiment):
        guard = experiment.federation.guards[0]
        guard._with_noise = lambda sums, turn, honest=guard._with_noise: [
            total + (noisy - total) / 10 for total, noisy in zip(sums, honest(sums, turn))
        ]

    def noisy(experiment):
        guard = experiment.federation.guards[0]
        guard.noisy = lambda total, turn, honest=guard.noisy: total + (honest(total, turn) - total) / 10

    (client,) = audited("fedproto", "client:noise=1", broken=average)
    (sample,) = audited("fed3r", "example:noise=1", {"standardise": False, "size": 16}, noisy)
    step, rows = audited("fedproto", "example:noise=1", broken=noisy)
    assert [one.holds for one in (client, sample, step, rows)] == [False, False, True, False]
    assert min(one.proved for one in (client, sample, rows)) > client.claimed


def test_without_noise_there_is_nothing_to_audit():
    experiment = Toy("fedproto").build(rounds=1)
    experiment.play(None)
    with pytest.raises(ConfigError, match="adds no noise"):
        audit(experiment, protections(experiment, ["secure"], 6)[1], 100)
