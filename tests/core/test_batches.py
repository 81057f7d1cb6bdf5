"""Batches of a client's rows, and its data in chunks."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from protofed.core.data import LocalData, batch_rows
from protofed.core.rng import torch_generator

quick = settings(max_examples=25, deadline=None)
counts, sizes, epochs = st.integers(1, 40), st.integers(1, 12), st.integers(0, 3)


@quick
@given(counts, sizes, epochs)
def test_every_row_comes_once_per_epoch(n: int, size: int, epochs: int) -> None:
    batches = [rows for rows, _ in batch_rows(n, size, epochs, torch_generator(n, size))]
    per_epoch = -(-n // size)
    assert len(batches) == epochs * per_epoch
    for epoch in range(epochs):
        rows = torch.cat(batches[epoch * per_epoch : (epoch + 1) * per_epoch])
        assert sorted(rows.tolist()) == list(range(n))


@quick
@given(counts, sizes)
def test_drop_last_leaves_out_an_incomplete_batch_unless_it_is_the_only_one(n: int, size: int) -> None:
    lengths = [len(rows) for rows, _ in batch_rows(n, size, 1, torch_generator(n), drop_last=True)]
    assert lengths == ([size] * (n // size) if n >= size else [n])


@quick
@given(counts, sizes, st.integers(1, 3))
def test_the_last_epoch_is_marked(n: int, size: int, epochs: int) -> None:
    marks = [last for _, last in batch_rows(n, size, epochs, torch_generator(n))]
    per_epoch = len(marks) // epochs
    assert marks == [False] * (len(marks) - per_epoch) + [True] * per_epoch


def test_epochs_are_shuffled_differently_and_the_generator_decides() -> None:
    order = lambda key: [r.tolist() for r, _ in batch_rows(30, 30, 2, torch_generator(key))]  # noqa: E731
    first, second = order("a")
    assert first != second
    assert order("a") == [first, second]
    assert order("b") != [first, second]


@quick
@given(st.integers(0, 20), st.integers(1, 7))
def test_chunks_hold_all_samples_in_order(n: int, size: int) -> None:
    data = LocalData(torch.arange(n), torch.arange(n) + 100)
    pairs = list(data.chunks(size))
    assert [v for x, _ in pairs for v in x.tolist()] == list(range(n))
    assert [v for _, y in pairs for v in y.tolist()] == list(range(100, 100 + n))


def test_present_classes_ignore_void() -> None:
    data = LocalData(torch.zeros(1, 1, 2, 2), torch.tensor([[[0, 2], [-1, 2]]]))
    assert data.present(4).tolist() == [True, False, True, False]
