"""The cryptography of secure sums: parts of `cryptography` and Flower's Shamir shares, put together.

agreed X25519, then HKDF-SHA256 bound to what the secret is for seal ChaCha20-Poly1305; who sends what to
whom in which round is authenticated with it stream ChaCha20 as a source of masks signed ECDSA with a
client's own key, the one by which Flower knows it shares_of Shamir's, as flwr.common.secure_aggregation
has them

Of Flower's parts only Shamir's shares are used. Its masks come from a generator that is not made for
secrets (Mersenne Twister) and whose seed it folds to 32 bits, so that anybody can try them all; its
quantisation rounds at random and ends at 32 bits.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from ..core.errors import MessageError

KEY = 32  # bytes
SEED = 15  # bytes of a self mask's seed: with its padding one block of Shamir's field
SEED_SHARE, KEY_SHARE = 4 + 16, 4 + 48  # bytes: number of the share, and the padded secret
NONCE = 12
WORDS: dict[int, np.dtype[Any]] = {
    32: np.dtype("<u4"),
    64: np.dtype("<u8"),
}  # what is added, by its bits: sums wrap around


def new_key() -> bytes:
    """A private key for one round, from the system's randomness."""
    return X25519PrivateKey.generate().private_bytes_raw()


def public_of(private: bytes) -> bytes:
    """The public half."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agreed(private: bytes, public: bytes, purpose: bytes) -> bytes:
    """The secret of two clients for one purpose; either computes it from its private and the other's public
    key."""
    try:
        shared = X25519PrivateKey.from_private_bytes(private).exchange(
            X25519PublicKey.from_public_bytes(public)
        )
    except ValueError as error:
        raise MessageError(f"a public key is none: {error}") from error
    return derived(shared, purpose)


def derived(secret: bytes, purpose: bytes) -> bytes:
    """A key of 32 bytes for one purpose."""
    return HKDF(hashes.SHA256(), KEY, salt=None, info=purpose).derive(secret)


def seal(key: bytes, text: bytes, bound_to: bytes) -> bytes:
    """Encrypted, and bound to what both sides know."""
    nonce = os.urandom(NONCE)
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, text, bound_to)


def unseal(key: bytes, sealed: bytes, bound_to: bytes) -> bytes:
    """Inverse of `seal`; MessageError if anything of it was changed."""
    try:
        return ChaCha20Poly1305(key).decrypt(sealed[:NONCE], sealed[NONCE:], bound_to)
    except (InvalidTag, ValueError) as error:
        raise MessageError("the encrypted shares were changed on the way") from error


def stream(key: bytes, words: int, bits: int) -> np.ndarray:
    """So many words that look random to whoever lacks the key. Each key is used once."""
    width = WORDS[bits].itemsize
    encryptor = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    return np.frombuffer(encryptor.update(bytes(width * words)), WORDS[bits])


def sign(key: ec.EllipticCurvePrivateKey, text: bytes) -> bytes:
    """The signature of a client under a text."""
    return key.sign(text, ec.ECDSA(hashes.SHA256()))


def is_signed(key: ec.EllipticCurvePublicKey, signature: bytes, text: bytes) -> bool:
    """Whether the owner of the key signed this text."""
    try:
        key.verify(signature, text, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True


def shares_of(secret: bytes, threshold: int, number: int) -> list[bytes]:
    """Shamir's shares: so many of them give the secret back, one fewer tell nothing."""
    from flwr.common.secure_aggregation.crypto.shamir import create_shares

    return create_shares(secret, threshold, number)


def secret_of(shares: Sequence[bytes], size: int) -> bytes:
    """The secret behind shares; MessageError where they do not fit each other."""
    from flwr.common.secure_aggregation.crypto.shamir import combine_shares

    try:
        secret = combine_shares(list(shares))
    except ValueError as error:
        raise MessageError(f"shares do not fit each other: {error}") from error
    if len(secret) != size:
        raise MessageError("shares do not fit each other")
    return secret
