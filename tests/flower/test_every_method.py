"""Every method of the registry gives the same numbers over Flower's messages as in one process."""

import pytest
import torch
from local_link import put_on_link

from protofed.core.algorithm import methods
from protofed.testing import Toy

GENTLE = {"fedplvm": {"lam": 1.0}}  # with the paper's weight the toy's features explode
CASES = [Toy(name, GENTLE.get(name, {}), models=models) for name in methods for models in ("mlp", "norm")]
CASES += [Toy("fedproto", models="mixed"), Toy("fedproto", {"stale": "cache"})]


def assert_same(one, two):
    """States of server and clients, accuracies and losses."""
    first, second = one.federation.state.arrays(), two.federation.state.arrays()
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        torch.testing.assert_close(second[name], tensor, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.method}-{c.models}")
def test_same_numbers_as_sequential(case, tmp_path):
    """States on a shared disk, as in a simulation, and on the clients' own disks, as in a deployment."""
    shared = case.models == "norm"
    plain, flower = case.build(), case.build()
    put_on_link(flower, tmp_path, shared)
    expected, got = plain.play(None), flower.play(None)
    assert_same(plain, flower)
    for one, two in zip(expected, got, strict=True):
        assert two["acc"] == one["acc"]
        assert two["train_loss"] == pytest.approx(one["train_loss"], rel=1e-9, nan_ok=True)
        assert (two["up"], two["down"], two["failed"]) == (one["up"], one["down"], {})
