"""A client's side of a secure sum, as functions from messages to messages: no network, no files.

    begin    two fresh key pairs, signed with the client's own key
    share    everybody's keys → shares of this client's secrets for each other, encrypted
    mask     the others' shares, and the values → values that look random
    open     who is in the sum → shares of what the server needs to take the masks off the sum, and no more

After Bonawitz et al., "Practical Secure Aggregation for Privacy-Preserving Machine Learning", CCS 2017:
what client u sends is x_u + Σ_blocks PRG(seed_u,b) + Σ_{v>u} PRG(s_uv) − Σ_{v<u} PRG(s_uv). The masks of
pairs cancel in the sum. For a client that is in the sum the others give out shares of its seeds, for one
that shared its keys and then was lost shares of its private mask key, never both. A vector has blocks with
seeds of their own: the first is opened for every sum, the others, one for each class, only if enough
clients hold the class.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from ..core.errors import MessageError
from .secure_crypto import (
    KEY_SHARE,
    SEED,
    SEED_SHARE,
    WORDS,
    agreed,
    derived,
    new_key,
    public_of,
    seal,
    shares_of,
    stream,
    unseal,
)

LEAST = 2  # clients in a sum: one alone is no sum
Sign = Callable[[bytes], bytes]
IsSigned = Callable[[int, bytes, bytes], bool]  # client, signature, text


class Keys(NamedTuple):
    """What a client advertises for one sum."""

    cipher: bytes  # for what it is sent by others
    mask: bytes  # for the masks that it has in common with each of them
    signature: bytes = b""


class Opened(NamedTuple):
    """Shares that a client gives out: of seeds by (client, block), and of private mask keys by client."""

    seeds: dict[tuple[int, int], bytes]
    keys: dict[int, bytes]


@dataclass(frozen=True)
class Session:
    """What a client knows of one sum. `sum_id` names it: run, round, leg, attempt."""

    sum_id: bytes
    client: int
    cipher: bytes
    mask: bytes
    keys: Keys
    peers: dict[int, Keys] = field(default_factory=dict)
    threshold: int = 0
    least: int = LEAST
    seeds: tuple[bytes, ...] = ()
    held: dict[int, bytes] = field(default_factory=dict)  # by client: the shares that it gave this one
    masked: bool = False
    survivors: tuple[int, ...] = ()  # for whom the first block was opened


def begin(sum_id: bytes, client: int, sign: Sign) -> tuple[Session, Keys]:
    """Fresh keys, and what is told of them."""
    cipher, mask = new_key(), new_key()
    public = Keys(public_of(cipher), public_of(mask))
    keys = public._replace(signature=sign(statement(sum_id, client, public)))
    return Session(sum_id, client, cipher, mask, keys), keys


def statement(sum_id: bytes, client: int, keys: Keys) -> bytes:
    """What a client signs: these keys are mine, in this sum alone."""
    return b"|".join(
        [
            b"protofed secure sum 1",
            sum_id,
            b"%d" % client,
            keys.cipher.hex().encode(),
            keys.mask.hex().encode(),
        ]
    )


def share(
    session: Session,
    peers: Mapping[int, Keys],
    is_signed: IsSigned,
    threshold: int,
    blocks: int,
    least: int = LEAST,
) -> tuple[Session, dict[int, bytes]]:
    """Shares of this client's seeds (one for each block) and of its private mask key, for each other client.
    `least`: clients that must be in a sum."""
    _check_peers(session, peers, is_signed, threshold, least)
    seeds = tuple(os.urandom(SEED) for _ in range(blocks))
    secrets = [shares_of(secret, threshold, len(peers)) for secret in (session.mask, *seeds)]
    parts = {peer: b"".join(one[i] for one in secrets) for i, peer in enumerate(sorted(peers))}
    held = {session.client: parts.pop(session.client)}
    made = replace(session, peers=dict(peers), threshold=threshold, least=least, seeds=seeds, held=held)
    sealed = {
        peer: seal(_cipher_key(made, peer), text, _route(made, session.client, peer))
        for peer, text in parts.items()
    }
    return made, sealed


def _check_peers(
    session: Session, peers: Mapping[int, Keys], is_signed: IsSigned, threshold: int, least: int
) -> None:
    if peers.get(session.client) != session.keys:
        raise MessageError("secure sum: the list of keys does not hold this client's own")
    if not LEAST <= threshold <= len(peers) or 2 * threshold <= len(peers) or len(peers) < least:
        raise MessageError(
            f"secure sum: {len(peers)} clients with a threshold of {threshold}; expected at least "
            f"{max(least, LEAST)} clients, and a threshold of more than half of them"
        )
    for peer, keys in peers.items():
        if not is_signed(peer, keys.signature, statement(session.sum_id, peer, keys)):
            raise MessageError(f"secure sum: the keys of client {peer} are not signed by it")
    if len({key for keys in peers.values() for key in keys[:2]}) < 2 * len(peers):
        raise MessageError("secure sum: two clients have the same key")


def mask(
    session: Session, sealed: Mapping[int, bytes], words: Sequence[np.ndarray], bits: int
) -> tuple[Session, np.ndarray]:
    """The words of all blocks, masked. `sealed`: what the others, as many as shared, have for this client."""
    if session.masked:
        raise MessageError("secure sum: this client has sent its values already")
    if len(words) != len(session.seeds) or not sealed.keys() <= session.peers.keys() - {session.client}:
        raise MessageError("secure sum: shares of unknown clients, or another number of blocks")
    size = KEY_SHARE + SEED_SHARE * len(session.seeds)
    held = dict(session.held)
    for peer, text in sealed.items():
        held[peer] = unseal(_cipher_key(session, peer), text, _route(session, peer, session.client))
        if len(held[peer]) != size:
            raise MessageError(
                f"secure sum: the shares of client {peer} have {len(held[peer])} bytes; not {size}"
            )
    needed = max(session.threshold, session.least)
    if len(held) < needed:
        raise MessageError(f"secure sum: {len(held)} clients shared their keys; {needed} are needed")
    total = np.concatenate([block.astype(WORDS[bits]) for block in words])
    total += np.concatenate([self_mask(s, len(block), bits) for s, block in zip(session.seeds, words)])
    for peer in sorted(held.keys() - {session.client}):
        add_pair_mask(
            total, session.sum_id, session.mask, session.client, peer, session.peers[peer].mask, bits
        )
    return replace(session, held=held, masked=True), total


def self_mask(seed: bytes, words: int, bits: int) -> np.ndarray:
    """The mask of one block that a client has of its own."""
    return stream(derived(seed, b"protofed self mask"), words, bits)


def add_pair_mask(
    total: np.ndarray, sum_id: bytes, private: bytes, owner: int, other: int, public: bytes, bits: int
) -> None:
    """Put on `total`, in place, the mask that `owner` (whose private key this is) has in common with
    `other`."""
    pair = b"%d %d" % (min(owner, other), max(owner, other))
    drawn = stream(agreed(private, public, b"protofed pair mask|" + sum_id + b"|" + pair), len(total), bits)
    if owner < other:
        total += drawn
    else:
        total -= drawn


def open_sum(session: Session, survivors: Sequence[int], blocks: Sequence[int]) -> tuple[Session, Opened]:
    """Shares of the survivors' seeds for these blocks; with the first block, also of the mask keys of those
    who shared and are not in the sum. One set of survivors, once and for all."""
    chosen = tuple(sorted(set(survivors)))
    least = max(session.threshold, session.least)
    if not set(chosen) <= session.held.keys():
        raise MessageError("secure sum: the list of survivors names clients that shared no keys")
    if len(chosen) < least:
        raise MessageError(
            f"secure sum: {len(chosen)} clients are left; {least} are needed: nothing is opened"
        )
    if session.masked and session.client not in chosen:
        raise MessageError("secure sum: this client has sent its values, but is not among the survivors")
    if session.survivors not in ((), chosen):
        raise MessageError("secure sum: it was opened for other survivors already")
    if 0 not in blocks and not session.survivors:
        raise MessageError("secure sum: the first block is opened first")
    if not all(0 <= block < len(session.seeds) for block in blocks):
        raise MessageError(f"secure sum: blocks {list(blocks)[:9]}; expected 0 to {len(session.seeds) - 1}")
    seeds = {(peer, block): _seed_share(session.held[peer], block) for peer in chosen for block in blocks}
    lost = session.held.keys() - set(chosen) if 0 in blocks else set()
    keys = {peer: session.held[peer][:KEY_SHARE] for peer in sorted(lost)}
    return replace(session, survivors=chosen), Opened(seeds, keys)


def _seed_share(held: bytes, block: int) -> bytes:
    start = KEY_SHARE + SEED_SHARE * block
    return held[start : start + SEED_SHARE]


def _cipher_key(session: Session, peer: int) -> bytes:
    pair = b"%d %d" % (min(peer, session.client), max(peer, session.client))
    purpose = b"protofed shares|" + session.sum_id + b"|" + pair
    return agreed(session.cipher, session.peers[peer].cipher, purpose)


def _route(session: Session, sender: int, receiver: int) -> bytes:
    return session.sum_id + b"|%d to %d" % (sender, receiver)
