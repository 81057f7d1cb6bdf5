"""Losses that carry clients: called once with a leading axis, they are what vmap makes of the plain ones."""

from __future__ import annotations

import pytest
import torch
from torch.func import vmap

from protofed.core.algorithm import methods
from protofed.core.data import Batch
from protofed.engines import cohort
from protofed.ops.distances import DISTANCES
from protofed.ops.losses import ce, class_pull, cosine_pull, sample_pull
from protofed.ops.prototypes import batch_sums, of_class
from protofed.testing import Toy, assert_close

K, B, C, D = 3, 6, 4, 5
MARKED = [name for name in methods if getattr(methods[name].loss, "carries_clients", False)]


def _numbers() -> tuple[torch.Tensor, Batch, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(K, B, D, generator=generator, dtype=torch.float64)
    y = torch.randint(C, (K, B), generator=generator)
    protos = torch.randn(K, C, D, generator=generator, dtype=torch.float64)
    known = torch.tensor([[True, True, False, True], [True] * 4, [False] * 4])
    return z, Batch(z, y, y, torch.tensor([0.0, 1.0, 1.0], dtype=torch.float64), {}), protos, known


@pytest.mark.parametrize("pull", [class_pull, sample_pull])
@pytest.mark.parametrize("distance", DISTANCES)
def test_pulls_of_several_clients(pull: object, distance: str) -> None:
    z, batch, protos, known = _numbers()
    carried = pull(z, batch, protos, known, distance)  # type: ignore[operator]
    each = [
        pull(z[k], Batch(z[k], batch.y[k], batch.y[k], batch.last[k], {}), protos[k], known[k], distance)  # type: ignore[operator]
        for k in range(K)
    ]
    torch.testing.assert_close(carried, torch.stack(each), rtol=0, atol=1e-12)


def test_cross_entropy_sums_and_tables_of_several_clients() -> None:
    z, batch, protos, known = _numbers()
    logits = z[..., :C]
    apart = torch.stack([ce(logits[k], batch.y[k]) for k in range(K)])
    torch.testing.assert_close(ce(logits, batch.y), apart, rtol=0, atol=1e-12)
    assert ce(torch.zeros(2, 3, 4), torch.zeros(2, 3, dtype=torch.int64)).tolist() == pytest.approx(
        [1.3862943611] * 2  # log 4
    )
    cosines = torch.stack([cosine_pull(z[k], batch.y[k], protos[k], known[k]) for k in range(K)])
    torch.testing.assert_close(cosine_pull(z, batch.y, protos, known), cosines, rtol=0, atol=1e-12)
    sums = batch_sums(z, batch.y, C, batch.last)
    assert sums["z"][0].eq(0).all(), "the first client's batch is not of the last epoch"
    plain = vmap(lambda z, y, last: batch_sums(z, y, C, last))(z, batch.y, batch.last)
    assert_close(sums, plain, 1e-12)
    assert of_class(known, batch.y)[0].tolist() == [bool(known[0, c]) for c in batch.y[0]]
    assert torch.equal(of_class(protos, batch.y)[1, 2], protos[1, batch.y[1, 2]])


@pytest.mark.parametrize("models", ["mlp", "norm"])
@pytest.mark.parametrize("name", MARKED)
def test_a_marked_loss_gives_the_numbers_of_vmap(
    name: str, models: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[bool] = []
    states: list[list[dict[str, torch.Tensor]]] = []
    init = cohort.Stacked.__init__

    def look(self: cohort.Stacked, *args: object) -> None:
        init(self, *args)  # type: ignore[arg-type]
        used.append(self.carried)
        self.carried = self.carried and len(states) == 0  # the second run goes by vmap

    monkeypatch.setattr(cohort.Stacked, "__init__", look)
    for _ in range(2):
        experiment = Toy(name, models=models).build(engine="cohort", rounds=2)
        experiment.play(None)
        store = experiment.federation.engine.store
        kept = [store.get(client) for client in range(experiment.task.clients)]
        states.append([experiment.federation.state.arrays()] + [one.kept for one in kept if one is not None])
    assert used
    assert all(used)
    for one, two in zip(*states, strict=True):
        assert_close(one, two, 1e-9)


def test_a_loss_of_ones_own_in_place_of_a_marked_one_is_not_marked() -> None:
    """FedProx overrides FedAvg's loss by one that is not written for several clients."""
    assert getattr(methods["fedavg"].loss, "carries_clients", False)
    assert not getattr(methods["fedprox"].loss, "carries_clients", False)
    assert {"local", "fedproto", "fedtgp", "fedavg", "fedgh"} <= set(MARKED)
