"""Tensors of a client."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch

from protofed.data import Dataset, Rows, Split
from protofed.data.labels import class_counts, row_labels
from protofed.data.loader import Loader


def images() -> Dataset:
    x = np.array([[[[0, 255]]], [[[51, 102]]], [[[255, 255]]]], dtype=np.uint8)
    return Dataset("i", x, np.array([0, 1, 1], dtype=np.uint8), np.zeros(3, bool), ("a", "b"))


def split() -> Split:
    return Split(
        Rows.of([np.array([1, 0]), np.array([2])]), Rows.of([np.array([2]), np.array([], dtype=int)])
    )


def test_scaled_and_normalised() -> None:
    """51/255 = 0.2, 102/255 = 0.4; with mean 0.2 and std 0.4: 0, 0.5; and 0 → −0.5, 1 → 2."""
    dataset = dataclasses.replace(images(), mean=(0.2,), std=(0.4,))
    x, y = Loader(dataset, split(), torch.float64).train(0)
    expected = torch.tensor([[[[0.0, 0.5]]], [[[-0.5, 2.0]]]], dtype=torch.float64)
    assert torch.allclose(x, expected, atol=1e-12)
    assert y.tolist() == [1, 0]
    assert y.dtype == torch.int64


def test_floats_are_not_scaled_and_the_data_stays_as_it_was() -> None:
    dataset = dataclasses.replace(images(), x=np.full((3, 1, 1, 2), 2.0, np.float32), mean=(1.0,), std=(2.0,))
    x, _ = Loader(dataset, split()).train(0)
    assert torch.equal(x, torch.full((2, 1, 1, 2), 0.5))
    assert (dataset.x == 2).all()


def test_empty_test_part() -> None:
    x, y = Loader(images(), split()).test(1)
    assert x.shape == (0, 1, 1, 2)
    assert y.shape == (0,)


def test_black_is_the_value_of_a_zero_pixel() -> None:
    dataset = dataclasses.replace(images(), mean=(0.5,), std=(0.25,))
    assert Loader(dataset, split()).black.tolist() == [-2.0]


def test_class_counts() -> None:
    assert class_counts(images(), split().train).tolist() == [[1, 1], [0, 1]]


def test_dense_rows_belong_to_their_largest_object() -> None:
    """Background counts only where there is nothing else; void never counts."""
    masks = np.array([[[0, 0, 0, 2]], [[1, 1, 2, -1]], [[0, 0, -1, -1]]], dtype=np.int16)
    dataset = Dataset("m", np.zeros((3, 3, 1, 4), np.uint8), masks, np.zeros(3, bool), ("bg", "a", "b"))
    assert row_labels(dataset).tolist() == [2, 1, 0]
