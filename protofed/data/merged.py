"""All training samples in one place: the data of methods that are not federated."""

from __future__ import annotations

from functools import cached_property

import torch

from ..core.data import ClientData, LocalData


class Merged:
    """Wraps clients' data: the first client has the training samples of all that take part.

    Test samples stay where they are, so that results compare with federated methods client by client.
    """

    def __init__(self, data: ClientData, clients: int):
        """`clients`: the first so many are merged; the rest are newcomers, who stay out of training."""
        self.parts = data
        self._clients = clients

    def __len__(self) -> int:
        return len(self.parts)

    def size(self, client: int) -> int:
        if client == 0:
            return sum(self.parts.size(c) for c in range(self._clients))
        return self.parts.size(client)

    def train(self, client: int) -> LocalData:
        return self._union if client == 0 else self.parts.train(client)

    def test(self, client: int) -> LocalData:
        return self.parts.test(client)

    def validation(self, client: int) -> LocalData:
        return self.parts.validation(client)

    @cached_property
    def _union(self) -> LocalData:
        parts = [self.parts.train(c) for c in range(self._clients)]
        x, y = torch.cat([p.x for p in parts]), torch.cat([p.y for p in parts])
        return LocalData(x, y, parts[0].augment)
