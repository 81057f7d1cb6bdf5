"""Averages at the server against slow NumPy loops, for random ragged uploads in any order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from torch import Tensor

from protofed.algorithms.fedproto import FedProto, Global, Protos
from protofed.core.answer import Replies, Reply, blocks
from protofed.ops.trees import Average, flat, put, under

CLASSES, EMBEDDING = 4, 3
quick = settings(max_examples=25, deadline=None)
numbers = st.floats(-100, 100, allow_nan=False)


@st.composite
def uploads(draw: st.DrawFn) -> dict[int, dict[int, tuple[np.ndarray, int]]]:
    """{client: {class: (prototype, samples)}}; clients may have no class at all."""
    clients = draw(st.lists(st.integers(0, 200), min_size=1, max_size=6, unique=True))
    row = st.tuples(arrays.arrays(np.float64, EMBEDDING, elements=numbers), st.integers(1, 50))
    return {c: draw(st.dictionaries(st.integers(0, CLASSES - 1), row)) for c in clients}


def reply(client: int, rows: dict[int, tuple[np.ndarray, int]]) -> Reply:
    mean = torch.tensor(np.array([m for m, _ in rows.values()]).reshape(len(rows), EMBEDDING))
    count = torch.tensor([n for _, n in rows.values()], dtype=torch.int64)
    return Reply(client, 1, Protos(mean, torch.tensor(list(rows), dtype=torch.int64), count, {}))


def slow(sent: Any, agg: str, c: int) -> np.ndarray | None:
    """Eq. 6 of FedProto, one class and one client at a time."""
    total, weight, owners = np.zeros(EMBEDDING), 0.0, 0
    for rows in sent.values():
        if c in rows:
            mean, n = rows[c]
            share = 1 if agg == "uniform" else n
            total, weight, owners = total + share * mean, weight + share, owners + 1
    if not owners:
        return None
    return total / weight / (owners if agg == "literal" else 1)


def state() -> Global:
    mean = torch.full((CLASSES, EMBEDDING), 7.0, dtype=torch.float64)
    return Global(mean, torch.tensor([1, 0, 1, 0]), {}, {})


def aggregate(method: FedProto, replies: list[Reply]) -> Global:
    turn: Any = SimpleNamespace()
    return method.aggregate(state(), Replies(iter(replies)), turn)


@quick
@given(uploads(), st.sampled_from(["weighted", "uniform", "literal"]))
def test_fedproto_equals_a_slow_loop(sent: Any, agg: str) -> None:
    got = aggregate(FedProto(agg=agg), [reply(c, rows) for c, rows in sent.items()])
    for c in range(CLASSES):
        expected = slow(sent, agg, c)
        if expected is None:  # stale=keep
            assert torch.equal(got.mean[c], state().mean[c])
            assert got.known[c] == state().known[c]
        else:
            assert np.allclose(got.mean[c].numpy(), expected, rtol=1e-12, atol=1e-12)
            assert int(got.known[c]) == sum(rows[c][1] for rows in sent.values() if c in rows)


@quick
@given(uploads(), st.randoms(use_true_random=False), st.sampled_from(["keep", "drop", "cache"]))
def test_fedproto_does_not_depend_on_the_order_of_replies(sent: Any, random: Any, stale: str) -> None:
    replies = [reply(c, rows) for c, rows in sent.items()]
    one = aggregate(FedProto(stale=stale), list(replies))
    random.shuffle(replies)
    two = aggregate(FedProto(stale=stale), replies)
    assert torch.allclose(one.mean, two.mean, rtol=1e-12, atol=1e-12)
    assert torch.equal(one.known, two.known)
    assert one.cache.keys() == two.cache.keys()


@quick
@given(uploads())
def test_a_constant_prototype_stays_itself(sent: Any) -> None:
    """A weighted mean of equal vectors is that vector."""
    same = {c: {k: (np.full(EMBEDDING, 2.5), n) for k, (_, n) in rows.items()} for c, rows in sent.items()}
    got = aggregate(FedProto(stale="drop"), [reply(c, rows) for c, rows in same.items()])
    owned = got.mean[got.known > 0]
    assert torch.allclose(owned, torch.full_like(owned, 2.5))


def test_more_clients_than_a_block_holds() -> None:
    """150 clients stream in blocks of 64; the mean of 1…150 is 75.5."""
    replies = [reply(c, {0: (np.full(EMBEDDING, c + 1.0), 5)}) for c in range(150)]
    assert [len(b) for b in blocks(list(replies))] == [64, 64, 22]
    assert aggregate(FedProto(), replies).mean[0].tolist() == pytest.approx([75.5] * EMBEDDING)


# trees

trees = st.lists(
    st.tuples(arrays.arrays(np.float64, (2, 3), elements=numbers), st.integers(1, 100)),
    min_size=1,
    max_size=6,
)


def tree(values: np.ndarray, client: int) -> dict[str, Tensor]:
    given = torch.from_numpy(values.copy())
    return {"w": given, "deep.b": 2 * given[0], "count": torch.tensor(client)}


@quick
@given(trees, st.randoms(use_true_random=False))
def test_average_is_the_weighted_mean_in_any_order(parts: Any, random: Any) -> None:
    order = list(enumerate(parts))
    random.shuffle(order)
    average = Average()
    for client, (values, n) in order:
        average.add(tree(values, client), n, client)
    expected = np.average([v for v, _ in parts], axis=0, weights=[n for _, n in parts])
    got = average.result()
    assert np.allclose(got["w"].numpy(), expected, rtol=1e-12, atol=1e-12)
    assert np.allclose(got["deep.b"].numpy(), 2 * expected[0], rtol=1e-12, atol=1e-12)
    assert int(got["count"]) == 0  # whole numbers are those of the lowest client


@quick
@given(trees)
def test_average_leaves_what_it_is_given_alone(parts: Any) -> None:
    given_trees = [tree(values, client) for client, (values, _) in enumerate(parts)]
    copies = [t["w"].clone() for t in given_trees]
    average = Average()
    for client, (one, (_, n)) in enumerate(zip(given_trees, parts)):
        average.add(one, n, client)
    average.result()
    assert all(torch.equal(one["w"], copy) for one, copy in zip(given_trees, copies))


def test_prefixes() -> None:
    given_tree = {"a": torch.ones(1), "b.c": torch.zeros(2)}
    there = put("prev/", given_tree)
    assert list(there) == ["prev/a", "prev/b.c"]
    assert under("prev/", {**there, "other": torch.ones(1)}).keys() == given_tree.keys()


def test_flat_joins_floats_by_name() -> None:
    got = flat({"b": torch.tensor([3.0]), "a": torch.tensor([[1.0, 2.0]]), "n": torch.tensor(9)})
    assert got.tolist() == [1.0, 2.0, 3.0]
