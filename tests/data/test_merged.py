"""Merged data: one client with the union of the training samples."""

import torch

from protofed.core.data import LocalData
from protofed.data.federated import OwnData
from protofed.data.merged import Merged


def _client(*values):
    return LocalData(torch.tensor(values, dtype=torch.float32)[:, None], torch.tensor(values))


def test_the_first_client_has_the_samples_of_all_that_take_part():
    """Clients 0 to 2 have the samples 1 2, 3, 4 5; client 2 is a newcomer: the union is 1 2 3."""
    own = OwnData([_client(1, 2), _client(3), _client(4, 5)], [_client(7), _client(8), _client(9)])
    merged = Merged(own, 2)
    assert merged.train(0).y.tolist() == [1, 2, 3]
    assert merged.train(0).x[:, 0].tolist() == [1.0, 2.0, 3.0]
    assert [merged.size(c) for c in range(len(merged))] == [3, 1, 2]
    assert merged.train(1) is own.train(1)


def test_test_samples_and_augmentation_stay():
    def flip(x, generator):
        return -x

    train = [LocalData(torch.ones(1, 1), torch.tensor([0]), flip) for _ in range(2)]
    own = OwnData(train, [_client(7), _client(8)])
    merged = Merged(own, 2)
    assert merged.test(1) is own.test(1)
    assert merged.train(0).augment is flip
    assert merged.train(0) is merged.train(0)
