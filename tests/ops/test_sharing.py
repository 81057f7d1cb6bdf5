"""Names of private parts, the frame of weight-sharing methods, and arithmetic on trees for them."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from protofed.algorithms.fedprox import FedProx
from protofed.core.answer import Replies, Reply
from protofed.core.record import Weights
from protofed.ops.distances import cosine, row_cosine
from protofed.ops.sharing import private_prefixes, split_needs
from protofed.ops.trees import squared_distance
from protofed.testing import Toy


@pytest.mark.parametrize(
    ("split", "prefixes"),
    [
        ("head", ("model.head.",)),
        ("fc", ("model.base.fc.", "model.head.")),
        ("base.fc+head", ("model.base.fc.", "model.head.")),
        ("base.layer4, head", ("model.base.layer4.", "model.head.")),
        ("model.head", ("model.head.",)),
    ],
)
def test_private_prefixes(split, prefixes):
    assert private_prefixes(split) == prefixes


def test_a_shared_head_must_be_alike():
    assert not split_needs(("model.head.",)).head
    assert split_needs(("model.base.conv.",)).head
    assert split_needs(("model.head.",)).base


def test_the_average_is_by_sample_counts():
    """1 with 10 samples and 5 with 30: 4."""
    up = [Weights({"w": torch.tensor([value])}) for value in (1.0, 5.0)]
    replies = Replies(iter([Reply(0, 10, up[0]), Reply(1, 30, up[1])]))
    assert FedProx().average(replies)["w"].tolist() == [4.0]


@pytest.mark.parametrize("params_only", [False, True])
def test_statistics_are_sent_or_kept(params_only):
    """BatchNorm has 3 buffers; they are either in the message or at the client."""
    experiment = Toy("fedprox", {"params_only": params_only}, models="norm").build(rounds=1)
    experiment.play(None)
    names = experiment.task.names(0)
    weights, store = experiment.federation.state.weights, experiment.federation.engine.store
    assert len(names.buffers) == 3
    assert (set(weights) & names.buffers == set()) is params_only
    if params_only:
        assert set(store.get(0).kept) == names.buffers
    else:
        assert len(store) == 0


def test_squared_distance_by_hand():
    """(3 − 1)² + (1 − 1)² + (2 − 0)² = 8; tensors that only the second tree has do not count."""
    one = {"a": torch.tensor([3.0]), "b": torch.tensor([[1.0], [2.0]])}
    two = {"a": torch.tensor([1.0]), "b": torch.tensor([[1.0], [0.0]]), "c": torch.tensor([9.0])}
    assert squared_distance(one, two).item() == 8.0


def test_squared_distance_of_equals_has_no_gradient():
    point = torch.tensor([2.0], requires_grad=True)
    distance = squared_distance({"a": point}, {"a": torch.tensor([2.0])})
    assert torch.autograd.grad(distance, point)[0].item() == 0.0


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 1000))
def test_row_cosine_is_the_diagonal_of_the_pairwise_one(n, dim, seed):
    generator = torch.Generator().manual_seed(seed)
    a, b = torch.randn(2, n, dim, generator=generator, dtype=torch.float64)
    assert torch.allclose(row_cosine(a, b), cosine(a, b).diag())


def test_row_cosine_of_zero_rows():
    """0, and a gradient that is finite."""
    a = torch.zeros(1, 3, requires_grad=True)
    value = row_cosine(a, torch.ones(1, 3))
    assert value.item() == 0.0
    assert torch.isfinite(torch.autograd.grad(value.sum(), a)[0]).all()
