"""Example-level differential privacy of local training: gradients of single samples, the seal, refusals."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from protofed.core.client import begin
from protofed.core.errors import ConfigError
from protofed.core.private import Private
from protofed.core.task import ClientTurn
from protofed.core.train import phase_batches
from protofed.testing import Toy, assert_close, toy_data
from protofed.trust.accounting import epsilon


def trainer(dp: str, method: str = "fedavg") -> tuple[Private, Any]:
    """A private trainer of client 3, and its first batch."""
    built = Toy(method, settings={"dp": dp}).build()
    (leg,), turn = built.task.algorithm.legs, ClientTurn(built.task, 1, "train", client=3, epochs=2)
    down = built.task.algorithm.broadcast(built.federation.state, turn)
    session = begin(turn, leg, None, toy_data("train", 3), down)
    made = Private([session], leg.phases[0], 0, built.task.private)
    return made, next(phase_batches(session, leg.phases[0], 0, False))


@pytest.mark.filterwarnings("ignore:Full backward hook")
def test_gradients_of_single_samples_are_those_of_opacus() -> None:
    from opacus import GradSampleModule

    ours, batch = trainer("example:noise=1")
    grads, losses = ours._each(batch)
    model = ours.net.modules["model"]
    wrapped = GradSampleModule(nn.Sequential(model.base, model.head))
    out = nn.functional.cross_entropy(wrapped(batch.x), batch.y, reduction="none")
    out.mean().backward()
    assert_close({"loss": losses}, {"loss": out.detach()}, 1e-12)
    theirs = [p.grad_sample for p in wrapped.parameters()]
    assert_close(dict(enumerate(grads)), dict(enumerate(theirs)), 1e-10)  # type: ignore[arg-type]


def test_gradients_are_shortened_and_noise_is_added_to_their_sum() -> None:
    """Lengths 5 and 0.5 with C = 1: (0.6, 0.8) + (0.3, 0.4) = (0.9, 1.2), over two samples."""
    quiet, _ = trainer("example:noise=1e-12,clip=1")
    (mean,) = quiet.noisy([torch.tensor([[3.0, 4.0], [0.3, 0.4]], dtype=torch.float64)])
    assert mean.tolist() == pytest.approx([0.45, 0.6])
    loud, _ = trainer("example:noise=3,clip=2")
    (noise,) = loud.noisy([torch.zeros(4, 20_000, dtype=torch.float64)])
    assert float(noise.std()) == pytest.approx(3 * 2 / 4, rel=0.03)


def test_a_loss_that_compares_samples_of_a_batch_sees_each_alone() -> None:
    """FedProto's term takes means over a batch: a huge sample may change its own gradient alone."""
    ours, batch = trainer("example:noise=1", "fedproto")
    before = ours._each(batch)[0]
    changed = batch._replace(x=torch.cat([batch.x[:-1], 1e3 + batch.x[-1:]]))
    after = ours._each(changed)[0]
    for one, two in zip(before, after):
        assert torch.equal(one[:-1], two[:-1])
    assert any(not torch.equal(b[-1], a[-1]) for b, a in zip(before, after))


@pytest.mark.parametrize(
    ("method", "releases"), [("fedavg", 2), ("fedproto", 3), ("fedrep", 3), ("ditto", 4)]
)
def test_epochs_and_prototypes_are_counted(method: str, releases: int) -> None:
    """Two local epochs; FedProto's prototypes once more, FedRep's head in a phase of one epoch before."""
    built = Toy(method, settings={"dp": "example:noise=9"}).build()
    built.federation.play()
    record = built.federation.play()
    assert record["epsilon"] == epsilon(9.0, 2 * releases, 1e-5)
    assert record["privacy"]["level"] == "example-level"


def test_prototypes_are_made_of_short_embeddings() -> None:
    built = Toy("fedproto", settings={"dp": "example:noise=1e-9,radius=0.01"}).build()
    built.federation.play()
    lengths = torch.linalg.vector_norm(built.federation.state.mean, dim=1)
    assert float(lengths.max()) <= 0.01 + 1e-6
    assert built.federation.state.known.tolist() == [18, 25, 26, 6, 0]


def test_prototypes_have_the_noise_of_radius_and_weight() -> None:
    """One sample moves sums and counts by √(R² + w²): 5 for 3 and 4."""
    built = Toy("fedproto", settings={"dp": "example:noise=1,radius=3,weight=4"}).build()
    (guard,) = built.federation.guards
    assert guard.level.embedding_bound == 5
    built.federation.play()
    error, _ = guard.budget.notes["error"]["mean"]
    counts = [n for n in built.federation.state.known.tolist() if n]
    assert any(error == pytest.approx(5 * math.sqrt(8) / n, rel=0.05) for n in counts)


@pytest.mark.parametrize(
    ("toy", "said"),
    [
        (Toy("fedtgp"), "reads its samples outside of local steps"),
        (Toy("fedproto", {"agg": "uniform"}), "reads its samples outside of local steps"),
        (Toy("fedproto", {"min_count": 2}), "reads its samples outside of local steps"),
        (Toy("fednh"), "reads its samples outside of local steps"),
        (Toy("fedavg", models="norm"), "BatchNorm"),
        (Toy("local"), "sends nothing up"),
        (Toy("centralized"), "all samples in one place"),
        (Toy("fedavg", settings={"engine": "cohort"}), "use sequential or workers"),
    ],
)
def test_where_noise_in_steps_hides_nothing_it_is_refused(toy: Toy, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        replace(toy, settings={**toy.settings, "dp": "example:noise=1"}).build()
    assert said in str(refused.value)


def test_it_still_learns_with_little_noise_and_engines_agree() -> None:
    one = Toy("fedavg", settings={"dp": "example:noise=0.05,clip=5"}).build(rounds=15)
    assert one.play(None)[-1]["acc"]["clf"]["mean"] > 60
    two = Toy("fedavg", settings={"dp": "example:noise=0.05,clip=5"}).build(
        rounds=15, engine="workers", workers=1
    )
    two.play(None)
    two.federation.engine.close()
    assert_close(one.federation.state.arrays(), two.federation.state.arrays(), 1e-10)
