"""Parties of terms between organisations, by their cards."""

from typing import Any


def card_text(letter: str) -> str:
    """A fingerprint as people read it."""
    return "-".join([letter * 5] * 8)


CARDS = {name: card_text(letter) for name, letter in zip(("hospital", "a", "b", "c", "curator"), "ABCDE", strict=True)}
NAMED: dict[str, Any] = {"run_id": "0a" * 16, "cards": CARDS}
