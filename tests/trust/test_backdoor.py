"""The backdoor: where triggers lie, what they aim at, and a run with images."""

from __future__ import annotations

import pytest
import torch

from protofed.config import resolve
from protofed.core.data import LocalData
from protofed.experiment import build
from protofed.trust.attacks.backdoor import next_class, stamped_test
from protofed.trust.triggers import Seen, Triggers, first_triggers, sharpened

PATCHES = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]], [[[5.0, 6.0], [7.0, 8.0]]]])


def test_a_patch_lies_in_its_corner() -> None:
    triggers = Triggers(PATCHES, torch.tensor([[0, 1], [1, 0]]), 0.0, 8.0)
    stamped = triggers.stamp(torch.zeros(2, 1, 3, 3), torch.tensor([0, 1]))
    assert stamped[0, 0].tolist() == [[0, 1, 2], [0, 3, 4], [0, 0, 0]]
    assert stamped[1, 0].tolist() == [[0, 0, 0], [5, 6, 0], [7, 8, 0]]


def test_patches_of_classes_lie_apart_and_follow_from_the_seed() -> None:
    one, again = (first_triggers((1, 8, 8), 10, 2, -1.0, 1.0, 3) for _ in range(2))
    assert torch.equal(one.patches, again.patches)
    assert len({tuple(corner) for corner in one.corners.tolist()}) == 10
    assert set(one.patches.unique().tolist()) == {-1.0, 1.0}


def test_the_target_is_the_next_class_that_a_client_holds() -> None:
    train = LocalData(torch.zeros(4, 1, 2, 2), torch.tensor([1, 4, 4, 7]))
    assert next_class(train, 10).tolist() == [4, 7, 7, 1]
    lone = LocalData(torch.zeros(1, 1, 2, 2), torch.tensor([3]))
    triggers = first_triggers((1, 2, 2), 10, 1, 0.0, 1.0, 0)
    assert stamped_test(lone, lone, triggers, 10) is None  # it has nothing else to be taken for


def test_fitted_patches_bring_embeddings_closer_to_the_target() -> None:
    """The embedding is the image itself: the patch that comes closest to the aim has its values."""
    triggers = Triggers(torch.full((1, 1, 2, 2), 0.5), torch.tensor([[0, 0]]), 0.0, 1.0)
    x = torch.zeros(3, 1, 2, 2)
    seen = Seen(x, torch.zeros(3, dtype=torch.int64), lambda t: t.flatten(1), torch.tensor([[1.0, 0, 1, 0]]))
    found = sharpened(triggers, [seen], 20).patches.flatten()
    torch.testing.assert_close(found, torch.tensor([1.0, 0.0, 1.0, 0.0]), atol=0.06, rtol=0)


@pytest.mark.parametrize("method", ["fedproto", "fedavg"])
def test_a_run_with_a_backdoor(method: str) -> None:
    """Prototypes are poisoned, or samples where there are none; success is counted on triggered samples."""
    settings = {"method": method, "data": "digits", "clients": 6, "rounds": 1, "epochs": 1, "balanced": 0}
    experiment = build(resolve(settings, {"attack": "backdoor:share=0.3", "engine": "sequential"}))
    record = experiment.play(None)[-1]
    assert record["attack"]["wanted"].startswith("samples of honest clients with a trigger")
    assert 0 <= record["attack"]["success"]["clf"] <= 100
    attacker = min(experiment.federation.adversary.clients)
    trained, own = experiment.federation.engine.data.train(attacker), experiment.data.train(attacker)
    assert torch.equal(trained.x, own.x) == (method == "fedproto")
