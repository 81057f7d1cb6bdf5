"""Secure sums without a network: what comes out, what the server sees, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

pytest.importorskip("flwr", reason="needs Flower's Shamir shares: pip install 'protofed[deploy]'")

from protofed.core.errors import MessageError
from protofed.trust.secure_client import begin, mask, open_sum, share
from protofed.trust.secure_crypto import WORDS, is_signed, secret_of, shares_of, sign, stream
from protofed.trust.secure_server import MaskedSum, threshold_for

SIZES = (4, 3, 3)  # the open block, and two classes
OWN = {client: ec.generate_private_key(ec.SECP384R1()) for client in range(5)}


def known(client: int, signature: bytes, text: bytes) -> bool:
    return is_signed(OWN[client].public_key(), signature, text)


def values(client: int, bits: int = 32) -> list[np.ndarray]:
    drawn = np.random.default_rng(client)
    return [drawn.integers(-1000, 1000, size).astype(np.int64).astype(WORDS[bits]) for size in SIZES]


class Round:
    """A sum of clients in this process, step by step."""

    def __init__(self, clients=5, threshold=3, bits=32, sum_id=b"run|3.0|1"):
        self.sum_id, self.threshold, self.bits = sum_id, threshold, bits
        self.sessions, self.keys, self.sealed, self.received = {}, {}, {}, {}
        for client in range(clients):
            signer = OWN[client]
            self.sessions[client], self.keys[client] = begin(
                sum_id, client, lambda text, k=signer: sign(k, text)
            )

    def share(self, clients=None):
        for client in clients or self.sessions:
            self.sessions[client], self.sealed[client] = share(
                self.sessions[client], self.keys, known, self.threshold, len(SIZES)
            )
        return self

    def mask(self, clients=None):
        self.server = MaskedSum(self.sum_id, self.keys, list(self.sealed), self.threshold, SIZES, self.bits)
        for client in clients or self.sealed:
            others = {peer: texts[client] for peer, texts in self.sealed.items() if peer != client}
            words = values(client, self.bits)
            self.sessions[client], masked = mask(self.sessions[client], others, words, self.bits)
            self.received[client] = masked
            self.server.add(client, masked)
        return self

    def open(self, helpers=None, blocks=(0, 1, 2)):
        for client in helpers or self.server.survivors:
            self.sessions[client], opened = open_sum(self.sessions[client], self.server.survivors, blocks)
            self.server.take(opened)
        return self

    def sums(self):
        return [self.server.first(), *(self.server.block(number) for number in (1, 2))]


def clear(clients) -> list[np.ndarray]:
    total = sum(np.concatenate(values(client)).view("<i4").astype(np.int64) for client in clients)
    return np.split(total, np.cumsum(SIZES)[:-1])


@pytest.mark.parametrize("bits", [32, 64])
def test_the_sum_is_the_clear_sum(bits):
    played = Round(bits=bits).share().mask().open()
    for got, wanted in zip(played.sums(), clear(range(5))):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("gone", [{4}, {0}, {1, 3}])
def test_one_and_two_of_five_are_lost_after_sharing_keys(gone):
    left = [c for c in range(5) if c not in gone]
    played = Round().share().mask(left).open()
    assert played.server.lost == sorted(gone)
    for got, wanted in zip(played.sums(), clear(left)):
        np.testing.assert_array_equal(got, wanted)


def test_survivors_are_lost_before_they_open():
    """Three of the five that are in the sum are enough to open it."""
    played = Round().share().mask().open(helpers=[0, 2, 4])
    np.testing.assert_array_equal(played.sums()[0], clear(range(5))[0])


def test_below_the_threshold_nothing_is_opened():
    played = Round().share().mask([0, 1])
    with pytest.raises(MessageError, match="2 clients are left; 3 are needed: nothing is opened"):
        played.open()
    assert not played.server._shares
    played = Round().share().mask().open(helpers=[0, 1])
    with pytest.raises(MessageError, match="2 of 3 needed shares of client 0: nothing is opened"):
        played.server.first()


def test_a_class_that_is_not_opened_stays_masked():
    played = Round().share().mask().open(blocks=(0, 1))
    np.testing.assert_array_equal(played.server.first(), clear(range(5))[0])
    np.testing.assert_array_equal(played.server.block(1), clear(range(5))[1])
    with pytest.raises(MessageError, match="nothing is opened"):
        played.server.block(2)


def test_never_both_kinds_of_shares_of_a_client():
    """Of who is in the sum seeds alone, of who was lost the key alone, and one answer for ever."""
    played = Round().share().mask([0, 1, 2, 3])
    session, opened = open_sum(played.sessions[0], [0, 1, 2, 3], [0])
    assert {client for client, _ in opened.seeds} == {0, 1, 2, 3}
    assert set(opened.keys) == {4}
    with pytest.raises(MessageError, match="opened for other survivors already"):
        open_sum(session, [0, 1, 2], [0])
    with pytest.raises(MessageError, match="the first block is opened first"):
        open_sum(played.sessions[0], [0, 1, 2, 3], [1])
    with pytest.raises(MessageError, match="not among the survivors"):
        open_sum(played.sessions[0], [1, 2, 3], [0])
    with pytest.raises(MessageError, match="sent its values already"):
        mask(played.sessions[0], {}, values(0), 32)


def test_what_the_server_receives_looks_uniform_and_differs_between_runs(monkeypatch):
    """χ² over the bytes of 40,000 equal words, 255 degrees of freedom: beyond 380 once in a million times."""
    monkeypatch.setitem(globals(), "SIZES", (40_000, 1, 1))
    monkeypatch.setitem(
        globals(), "values", lambda client, bits=32: [np.full(s, 7, WORDS[bits]) for s in SIZES]
    )
    received = [Round(clients=3, threshold=2).share().mask().received[0] for _ in range(2)]
    counts = np.bincount(received[0].view(np.uint8), minlength=256)
    expected = counts.sum() / 256
    assert ((counts - expected) ** 2 / expected).sum() < 380
    assert (received[0] == received[1]).mean() < 1e-3
    correlation = np.corrcoef(received[0].astype(float), received[1].astype(float))[0, 1]
    assert abs(correlation) < 0.03


def test_keys_must_be_signed_by_their_owner_for_this_sum():
    played = Round()
    forged = played.keys[1]._replace(mask=played.keys[2].mask)
    with pytest.raises(MessageError, match="the keys of client 1 are not signed by it"):
        share(played.sessions[0], {**played.keys, 1: forged}, known, 3, 3)
    old = Round(sum_id=b"run|2.0|1").keys[1]
    with pytest.raises(MessageError, match="the keys of client 1 are not signed by it"):
        share(played.sessions[0], {**played.keys, 1: old}, known, 3, 3)
    with pytest.raises(MessageError, match="does not hold this client's own"):
        share(played.sessions[0], {**played.keys, 0: played.keys[1]}, known, 3, 3)


def test_a_threshold_of_half_is_refused():
    played = Round(clients=4)
    with pytest.raises(MessageError, match="a threshold of more than half"):
        share(played.sessions[0], played.keys, known, 2, 3)
    with pytest.raises(MessageError, match="expected at least 5 clients"):
        share(played.sessions[0], played.keys, known, 3, 3, least=5)
    assert [threshold_for(n, None) for n in (2, 3, 5, 10)] == [2, 2, 4, 7]
    assert threshold_for(5, 3) == 3
    assert threshold_for(7, 3) == 4


def test_shares_that_were_changed_or_exchanged_are_refused():
    played = Round().share()
    others = {peer: texts[0] for peer, texts in played.sealed.items() if peer != 0}
    spoilt = {**others, 2: others[2][:-1] + bytes([others[2][-1] ^ 1])}
    with pytest.raises(MessageError, match="changed on the way"):
        mask(played.sessions[0], spoilt, values(0), 32)
    with pytest.raises(MessageError, match="changed on the way"):
        mask(played.sessions[0], {**others, 2: others[3]}, values(0), 32)


def test_false_shares_of_a_key_are_noticed():
    played = Round().share().mask([0, 1, 2, 3])
    held = played.sessions[1].held
    wrong = {**held, 4: held[4][:4] + bytes(48) + held[4][52:]}
    played.sessions[1] = replace(played.sessions[1], held=wrong)
    played.open()
    with pytest.raises(MessageError, match="shares"):
        played.server.first()


def test_a_vector_of_another_length_is_refused():
    played = Round().share()
    server = MaskedSum(b"", played.keys, [0, 1], 2, SIZES, 32)
    with pytest.raises(MessageError, match="client 0 sent 3 words of 32 bits; expected 10 of 32"):
        server.add(0, np.zeros(3, WORDS[32]))


def test_masks_are_chacha20():
    """RFC 8439, appendix A.1, first test vector: key, nonce and counter 0."""
    assert stream(bytes(32), 4, 32).tobytes().hex() == "76b8e0ada0f13d90405d6ae55386bd28"


def test_one_share_too_few_does_not_give_the_secret():
    secret = bytes(range(15))
    shares = shares_of(secret, 3, 5)
    assert secret_of(shares[1:4], 15) == secret
    try:
        found = secret_of(shares[:2], 15)
    except MessageError:  # mostly the padding is wrong as well
        found = b""
    assert found != secret
