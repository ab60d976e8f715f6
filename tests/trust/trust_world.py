"""Parties with fixed keys, and a letter from one of them to another. What is sealed differs each time all the same."""

import hashlib
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from likeset.trust.cards import CardSecret, SealingSecret
from likeset.trust.letters import Letter, write_letter

each_bit = pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow), 29])
"""A spread part of all bits in the fast tests: 29 and 8 have no divisor in common."""
RUN_ID = bytes(range(16))
TERMS = hashlib.sha256(b"the terms").digest()
MOST_BYTES = 1 << 20


def fixed_bytes(label: str, length: int) -> bytes:
    """Bytes that depend on the label alone; no secret."""
    return hashlib.shake_256(label.encode()).digest(length)


def sealing_secret(label: str) -> SealingSecret:
    return SealingSecret.from_bytes(fixed_bytes(f"sealing {label}", 96))


def party(name: str, *, edition: int = 1) -> CardSecret:
    signing = Ed25519PrivateKey.from_private_bytes(fixed_bytes(f"signing {name} {edition}", 32))
    return CardSecret(name, signing, sealing_secret(f"{name} {edition}"))


ALICE, BOB, MALLORY = party("alice"), party("bob"), party("mallory")
BOBS_RUN_KEY = sealing_secret("bob's key for the run")


def letter_to_bob(secret: CardSecret = ALICE, **changes: Any) -> Letter:
    content: dict[str, Any] = {
        "recipient": BOB.card,
        "recipient_key": BOBS_RUN_KEY.public,
        "run_id": RUN_ID,
        "terms": TERMS,
        "round": 3,
        "number": 7,
        "message": b"a message",
        "enclosures": (b"one enclosure", b""),
    }
    return write_letter(secret, **(content | changes))


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << (bit % 8)
    return bytes(changed)
