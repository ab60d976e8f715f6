"""Homes whose people have pinned one another's cards, as if they had telephoned."""

from collections.abc import Iterable
from pathlib import Path

from likeset.homes.pinning import home_in, pins_to_change
from likeset.trust.cards import Role


def pin(home: Path, other: Path, role: Role) -> None:
    """In one home the card of another."""
    with pins_to_change(home_in(home), by="Ada") as pins:
        pins.pin(home_in(other).card(), role, fingerprint=None)


def introduce(owners: Iterable[Path], *, curator: Path, consumer: Path, witness: Path | None = None) -> None:
    """All parties of a network to those whom they must know."""
    owners = list(owners)
    pin(consumer, curator, "curator")
    pin(curator, consumer, "consumer")
    for owner in owners:
        pin(owner, consumer, "consumer")
        pin(owner, curator, "curator")
        pin(consumer, owner, "owner")
    if witness is not None:
        pin(witness, consumer, "consumer")
        pin(witness, curator, "curator")
        for home in (consumer, *owners):
            pin(home, witness, "witness")
