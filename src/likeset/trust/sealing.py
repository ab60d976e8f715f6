"""Sealed to one reader: HPKE (RFC 9180, base mode) with ML-KEM-768 and X25519, HKDF-SHA256 and ChaCha20-Poly1305.

Both exchanges must be broken to open what was sealed: records must stay secret for decades. A public key is that of
ML-KEM-768 and after it that of X25519; a secret is the seed of the one and the private key of the other. HPKE does not
say who sealed: that is what signatures are for.
"""

from typing import Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from likeset.errors import BadDocument

__all__ = ["PUBLIC_BYTES", "SEAL_BYTES", "SECRET_BYTES", "SealingSecret", "check_sealing_key", "seal"]

PUBLIC_BYTES = 1216
SECRET_BYTES = 96
SEAL_BYTES = 1136
"""How much longer what is sealed is than what it says."""

_KEM_PUBLIC_BYTES = 1184
_KEM_SEED_BYTES = 64
_FIELD_PRIME = 2**255 - 19
_PROBE = X25519PrivateKey.from_private_bytes(bytes(range(32)))  # no secret: it only tells points of small order
_SUITE = hpke.Suite(hpke.KEM.MLKEM768_X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.CHACHA20_POLY1305)


class SealingSecret:
    """The private half of a sealing key: of a card, or of one run, and deleted with it."""

    def __init__(self, kem: MLKEM768PrivateKey, exchange: X25519PrivateKey) -> None:
        self._kem = kem
        self._exchange = exchange
        self._both = hpke.MLKEM768X25519PrivateKey(kem, exchange)
        self._public = kem.public_key().public_bytes_raw() + exchange.public_key().public_bytes_raw()

    @classmethod
    def generate(cls) -> Self:
        """A new one, from the system's generator."""
        return cls(MLKEM768PrivateKey.generate(), X25519PrivateKey.generate())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The one that ``to_bytes`` wrote.

        Raises:
            BadDocument: it has another length.
        """
        if len(data) != SECRET_BYTES:
            raise BadDocument("sealing secret", f"has {len(data)} bytes; {SECRET_BYTES} are needed")
        return cls(
            MLKEM768PrivateKey.from_seed_bytes(data[:_KEM_SEED_BYTES]),
            X25519PrivateKey.from_private_bytes(data[_KEM_SEED_BYTES:]),
        )

    def to_bytes(self) -> bytes:
        """The seed of ML-KEM-768 and the private key of X25519, 96 bytes: secret."""
        return self._kem.private_bytes_raw() + self._exchange.private_bytes_raw()

    @property
    def public(self) -> bytes:
        """The public half, 1216 bytes."""
        return self._public

    def exchange_with(self, public: bytes) -> bytes:
        """What the X25519 halves of this key and of another one's public half have in common: 32 secret bytes.

        Both holders get the same. It is no key: whatever is derived from it must say what for.

        Raises:
            BadDocument: ``public`` is no sealing key.
        """
        check_sealing_key(public, what="sealing key")
        return self._exchange.exchange(X25519PublicKey.from_public_bytes(public[_KEM_PUBLIC_BYTES:]))

    def open(self, ciphertext: bytes | memoryview, *, info: bytes) -> bytes:
        """What was sealed to the public half with the same ``info``.

        Raises:
            BadDocument: it was sealed to another key, with another ``info``, or was changed; which of these, nobody
                can tell.
        """
        try:
            return _SUITE.decrypt(ciphertext, self._both, info)
        except (InvalidTag, ValueError):
            raise BadDocument("sealed bytes", "cannot be opened with this key") from None

    def __repr__(self) -> str:
        return "SealingSecret(...)"


def seal(public: bytes, plaintext: bytes, *, info: bytes) -> bytes:
    """Sealed to whoever has the private half; ``info`` is not in it, and opening needs the same.

    Raises:
        BadDocument: ``public`` is no sealing key.
    """
    try:
        kem = MLKEM768PublicKey.from_public_bytes(public[:_KEM_PUBLIC_BYTES])
        exchange = X25519PublicKey.from_public_bytes(public[_KEM_PUBLIC_BYTES:])
        return _SUITE.encrypt(plaintext, hpke.MLKEM768X25519PublicKey(kem, exchange), info)
    except ValueError:
        raise BadDocument("sealing key", "is none that anything can be sealed to") from None


def check_sealing_key(public: bytes, *, what: str) -> bytes:
    """A public sealing key in the one form that it has; neither half is one that anybody could open.

    Raises:
        BadDocument: it is none.
    """
    kem, exchange = public[:_KEM_PUBLIC_BYTES], public[_KEM_PUBLIC_BYTES:]
    try:
        MLKEM768PublicKey.from_public_bytes(kem)  # checks its numbers
        _PROBE.exchange(X25519PublicKey.from_public_bytes(exchange))  # refuses points of small order
    except ValueError:
        raise BadDocument(what, "holds no usable sealing key") from None
    if int.from_bytes(exchange, "little") >= _FIELD_PRIME:
        raise BadDocument(what, "holds a sealing key that is not in its one form")
    return public
