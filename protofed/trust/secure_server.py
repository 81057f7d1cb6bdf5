"""The server's side of a secure sum: it carries messages between the clients, adds what looks random, and
takes the masks off the sum with the shares that enough clients gave out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..core.errors import MessageError
from .secure_client import Keys, Opened, add_pair_mask, self_mask
from .secure_crypto import KEY, SEED, WORDS, public_of, secret_of


def threshold_for(clients: int, wanted: int | None) -> int:
    """How many must take part to the end: as wanted, or two thirds. More than half in any case: else a server
    that lies could have both kinds of shares of one client.

    >>> [threshold_for(n, None) for n in (3, 4, 5, 9)]
    [2, 3, 4, 6]
    """
    return max(2, wanted or 0, clients // 2 + 1 if wanted else -(-2 * clients // 3))


@dataclass
class MaskedSum:
    """One sum at the server. `keys` are those of all clients that advertised some; `sizes` the words of each
    block."""

    sum_id: bytes
    keys: Mapping[int, Keys]
    shared: Sequence[int]  # clients whose encrypted shares the others got
    threshold: int
    sizes: Sequence[int]
    bits: int
    survivors: list[int] = field(default_factory=list)
    _total: np.ndarray = field(init=False)
    _shares: dict[tuple[int, int], list[bytes]] = field(default_factory=dict)
    _key_shares: dict[int, list[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._total = np.zeros(sum(self.sizes), WORDS[self.bits])

    def add(self, client: int, masked: np.ndarray) -> None:
        """What a client sent."""
        if client not in self.shared or client in self.survivors:
            raise MessageError(f"client {client} shared no keys, or sent its values twice")
        if masked.shape != self._total.shape or masked.dtype != self._total.dtype:
            raise MessageError(
                f"client {client} sent {masked.size} words of {8 * masked.itemsize} bits; expected "
                f"{self._total.size} of {self.bits}"
            )
        self._total += masked
        self.survivors.append(client)

    @property
    def lost(self) -> list[int]:
        """Who shared its keys, and is not in the sum."""
        return sorted(set(self.shared) - set(self.survivors))

    def take(self, opened: Opened) -> None:
        """Shares that a client gave out."""
        for (client, block), share in opened.seeds.items():
            self._shares.setdefault((client, block), []).append(share)
        for client, share in opened.keys.items():
            self._key_shares.setdefault(client, []).append(share)

    def first(self) -> np.ndarray:
        """The first block of the sum, as signed numbers."""
        for client in self.lost:
            self._take_off_pairs(client)
        return self.block(0)

    def block(self, number: int) -> np.ndarray:
        """One block of the sum, as signed numbers; `first` comes before the others."""
        start = sum(self.sizes[:number])
        part = self._total[start : start + self.sizes[number]].copy()
        for client in self.survivors:
            seed = secret_of(self._enough(self._shares.get((client, number), ()), client), SEED)
            part -= self_mask(seed, len(part), self.bits)
        return part.view(f"<i{self.bits // 8}").astype(np.int64)

    def _take_off_pairs(self, client: int) -> None:
        private = secret_of(self._enough(self._key_shares.get(client, ()), client), KEY)
        if public_of(private) != self.keys[client].mask:
            raise MessageError(f"secure sum: the shares of client {client} do not give its key")
        for other in self.survivors:  # what it would have added takes off what the others did
            args = (self.sum_id, private, client, other, self.keys[other].mask, self.bits)
            add_pair_mask(self._total, *args)

    def _enough(self, shares: Iterable[bytes], client: int) -> list[bytes]:
        got = list(shares)
        if len(got) < self.threshold:
            raise MessageError(
                f"secure sum: {len(got)} of {self.threshold} needed shares of client {client}: nothing is "
                "opened"
            )
        return got[: self.threshold]
