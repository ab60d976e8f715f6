"""Whom a home may write to in a run: whoever signed that it takes part, with a card that still counts."""

from likeset.errors import BadDocument
from likeset.homes.letter_records import Peer
from likeset.homes.signed_invitation import role_in
from likeset.protocol.terms import Terms
from likeset.trust.pins import Pins
from likeset.trust.signed_terms import Acceptance

__all__ = ["is_acceptance_of", "is_given_up", "peer_in"]


def peer_in(data: bytes, terms: Terms, pins: Pins) -> Peer | None:
    """Somebody who accepted terms; None if the acceptance does not hold.

    Args:
        data: the acceptance, as it came.
        terms: of the run.
        pins: cards that are, or were, pinned at the home that reads it.
    """
    try:
        accepted = Acceptance.from_bytes(data)
    except BadDocument:
        return None
    if not is_acceptance_of(terms, accepted) or is_given_up(accepted.card.fingerprint, pins):
        return None
    return Peer(accepted.party, accepted.card.to_bytes(), accepted.run_key, data)


def is_acceptance_of(terms: Terms, accepted: Acceptance) -> bool:
    """Whether somebody whom the terms name by card signed that it takes part under them, as what it is in the run."""
    party = accepted.party
    return (
        accepted.run_id == bytes.fromhex(terms.run_id)
        and accepted.terms == bytes.fromhex(terms.digest)
        and terms.cards.get(party) == accepted.card.fingerprint
        and party != terms.consumer
        and accepted.role == role_in(terms, party)
    )


def is_given_up(fingerprint: str, pins: Pins) -> bool:
    """Whether a card was pinned here, and is no longer: whatever the terms say, it is not heard any more."""
    pin = pins.by_fingerprint(fingerprint)
    return pin is not None and pin.state != "pinned"
