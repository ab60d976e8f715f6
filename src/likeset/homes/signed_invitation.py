"""Terms that a consumer signed, and whom a party must know to take part under them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Self

from likeset.errors import IllegalMessage, InvalidArgument
from likeset.homes.identity import Identity
from likeset.protocol.foreign_terms import check_between, read_foreign_canonical
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Terms
from likeset.trust.pins import Pins, Role
from likeset.trust.sealing import SealingSecret
from likeset.trust.signed_terms import SignedTerms, sign_terms

__all__ = ["Invitation", "card_fault", "end_of", "must_know", "role_in", "unpinned"]


@dataclass(frozen=True, eq=False)
class Invitation:
    """Terms that a consumer signed.

    Attributes:
        signed: the document.
        terms: what it says.
    """

    signed: SignedTerms
    terms: Terms

    @classmethod
    def read(cls, data: bytes) -> Self:
        """From bytes.

        Raises:
            LikesetError: it is none, or its signature, its terms and its card do not belong together.
        """
        signed = SignedTerms.from_bytes(data)
        terms = read_foreign_canonical(signed.text)
        check_between(terms)
        card = signed.card
        if terms.cards[terms.consumer] != card.fingerprint or card.name != terms.consumer:
            raise IllegalMessage(f"run {terms.run}: the terms are signed by another card than the consumer's")
        return cls(signed, terms)

    @classmethod
    def sign(cls, terms: Terms, identity: Identity) -> Self:
        """The consumer's: its key for the run is kept first; asked again, with the same key.

        Raises:
            InvalidArgument: the terms name another card than this home's.
        """
        check_between(terms)
        if terms.cards[terms.consumer] != identity.fingerprint:
            raise InvalidArgument("terms", terms.run, "name another card than this home's as the consumer's")
        secret = SealingSecret.generate()
        signed = sign_terms(terms.to_json(), identity.secret, secret.public)
        digest = bytes.fromhex(terms.digest)
        kept = identity.book.open_run(digest, secret, invitation=signed.to_bytes(), ends=end_of(terms))
        if kept.secret is None:
            raise InvalidArgument("run", terms.run, "is settled")
        return cls(SignedTerms.from_bytes(kept.invitation), terms)

    def to_bytes(self) -> bytes:
        """As it travels."""
        return self.signed.to_bytes()


_MUST_BE_PINNED: dict[Role, tuple[Role, ...]] = {
    "owner": ("consumer", "curator", "witness"),
    "curator": ("consumer",),
    "witness": ("consumer", "curator"),
    "consumer": (),  # it wrote the terms from its own pins
}
"""Whose cards a party must know to take part in a run, by what it is in it."""


def must_know(terms: Terms, party: str) -> dict[Role, str]:
    """Whose cards this party must know to take part in a run: their names in the terms, by what they are in it."""
    names = {role: terms.consumer if role == "consumer" else role for role in _MUST_BE_PINNED[role_in(terms, party)]}
    return {role: name for role, name in names.items() if name in terms.cards}


def unpinned(terms: Terms, party: str, pins: Pins) -> list[str]:
    """Whom this party would have to know, and does not: in words, with what to do.

    Args:
        terms: of the run.
        party: its name in them.
        pins: what is pinned at its home.
    """
    faults = (card_fault(role, terms.cards[name], pins) for role, name in must_know(terms, party).items())
    return [fault for fault in faults if fault]


def card_fault(role: Role, fingerprint: str, pins: Pins) -> str:
    """Why the card of this fingerprint does not count here as one of this role, and what to do; empty if it does."""
    pin = pins.by_fingerprint(fingerprint)
    if pin is None:
        return (
            f"the card of the {role} is not pinned here ({fingerprint}): compare the fingerprint with them by "
            "telephone, then pin it with `likeset card pin`"
        )
    if pin.state != "pinned":
        return f"the card of the {role} was {pin.state} here ({fingerprint})"
    if pin.role != role:
        return f"the card of the {role} is pinned here as that of {_a(pin.role)} ({fingerprint})"
    return ""


def _a(role: Role) -> str:
    return f"an {role}" if role == "owner" else f"a {role}"


def role_in(terms: Terms, party: str) -> Role:
    """What a party of this name is in a run."""
    if party == terms.consumer:
        return "consumer"
    if party in terms.owners:
        return "owner"
    return "curator" if party == CURATOR else "witness"


def end_of(terms: Terms) -> datetime:
    """When a run between organisations ends.

    Raises:
        InvalidArgument: the terms have no end.
    """
    end = terms.end
    if end is None:
        raise InvalidArgument("expires", "none", "terms between organisations must end: their keys go then")
    return end
