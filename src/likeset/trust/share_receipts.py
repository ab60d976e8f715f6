"""Receipts of compute parties for their parts of an offer, and the roster of all offers that a run computes on.

Whoever signs a receipt says that it can open its part; whoever cannot do so later is at fault. A roster names every
owner and the digest of its list: all compute parties sign the same, so that no owner is dropped, and no list
replaced, in silence.
"""

import functools
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from likeset.errors import BadDocument, InvalidArgument
from likeset.trust.cards import Card, CardSecret
from likeset.trust.encoding import ROSTER_CONTEXT, SHARE_RECEIPT_CONTEXT, fields, read_tagged, signed
from likeset.trust.envelopes import OfferContext
from likeset.trust.fingerprints import FINGERPRINT_BYTES, fingerprint_bytes, fingerprint_text
from likeset.trust.headers import DIGEST_BYTES
from likeset.trust.offer_lists import context_in
from likeset.trust.row_shares import COMPUTE_ROLES, ComputeRole
from likeset.trust.shared_offers import OfferPart, OfferShape, check_part
from likeset.trust.signing import SIGNATURE_BYTES

__all__ = [
    "Roster",
    "ShareReceipt",
    "SignedRoster",
    "agreed_roster",
    "dropped_owners",
    "roster_of",
    "sign_receipt",
    "sign_roster",
]

_RECEIPT_TAG, _ROSTER_TAG = b"likeset share receipt", b"likeset roster"
_ENTRY_BYTES = FINGERPRINT_BYTES + DIGEST_BYTES


@dataclass(frozen=True, slots=True)
class ShareReceipt:
    """A compute party has its part of an offer, checked it against the owner's list, and can open it.

    Attributes:
        context: of the offer.
        role: of the party.
        list_digest: of the owner's list.
        signature: over all of that, by the party's card.
    """

    context: OfferContext
    role: ComputeRole
    list_digest: bytes
    signature: bytes = field(repr=False)

    def is_signed_by(self, card: Card) -> bool:
        """Whether the context names this card for the role, and the card signed the receipt."""
        named = self.context.fingerprint_of(self.role) == card.fingerprint
        return named and card.verify(SHARE_RECEIPT_CONTEXT, self._parts(), self.signature)

    def to_bytes(self) -> bytes:
        """As it travels."""
        return fields(_RECEIPT_TAG, *self._parts(), self.signature)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The receipt that ``to_bytes`` wrote; whether it is signed is asked of it.

        Raises:
            BadDocument: it is none.
        """
        *named, word, digest, signature = read_tagged(_RECEIPT_TAG, data, 6)
        context = context_in(*named)
        role = _role_in(word)
        if len(digest) != DIGEST_BYTES or len(signature) != SIGNATURE_BYTES:
            raise BadDocument("share receipt", "has a digest or a signature of another length")
        return cls(context, role, digest, signature)

    def _parts(self) -> tuple[bytes, ...]:
        return *self.context.parts(), self.role.encode("ascii"), self.list_digest


def sign_receipt(
    secret: CardSecret, part: OfferPart, *, context: OfferContext, role: ComputeRole, owner: Card, shape: OfferShape
) -> ShareReceipt:
    """A compute party's receipt for its part of an offer, once everything in it was checked.

    Args:
        secret: of the party.
        part: from the owner.
        context: that the terms give this owner's offer.
        role: of the party.
        owner: the card that the terms name for the owner.
        shape: of an offer, by the terms.

    Raises:
        OfferRefused: the part does not belong to what the owner signed; the offer then counts as absent.
        InvalidArgument: the card is another than the context names for the role.
    """
    if secret.card.fingerprint != context.fingerprint_of(role):
        raise InvalidArgument("secret", secret.card.name, f"is not the card of the {role}")
    check_part(part, context=context, role=role, owner=owner, shape=shape)
    unsigned = ShareReceipt(context, role, part.offer_list.digest, b"")
    signature = secret.sign(SHARE_RECEIPT_CONTEXT, *unsigned._parts())
    return ShareReceipt(context, role, unsigned.list_digest, signature)


@dataclass(frozen=True)
class Roster:
    """Whose offers a run computes on.

    Attributes:
        terms: the digest of the terms.
        parties: fingerprints of the compute parties, in their order.
        lists: of each owner, by the fingerprint of its card, the digest of its list.

    Raises:
        BadDocument: a part of it is none.
    """

    terms: bytes
    parties: tuple[str, ...]
    lists: Mapping[str, bytes]

    def __post_init__(self) -> None:
        if len(self.terms) != DIGEST_BYTES or len(self.parties) != len(COMPUTE_ROLES):
            raise BadDocument("roster", "names no terms, or not three compute parties")
        if not all(len(digest) == DIGEST_BYTES for digest in self.lists.values()):
            raise BadDocument("roster", "has a digest of another length")
        for fingerprint in (*self.parties, *self.lists):
            fingerprint_bytes(fingerprint)

    @functools.cached_property
    def digest(self) -> bytes:
        """By which others name it."""
        return hashlib.sha256(signed(ROSTER_CONTEXT, *self.parts())).digest()

    def parts(self) -> tuple[bytes, ...]:
        """Terms, parties and the owners' lists, in the order of the owners' fingerprints."""
        entries = sorted((fingerprint_bytes(owner), digest) for owner, digest in self.lists.items())
        return self.terms, b"".join(map(fingerprint_bytes, self.parties)), b"".join(map(b"".join, entries))


@dataclass(frozen=True, slots=True)
class SignedRoster:
    """A roster, as one compute party signed it.

    Attributes:
        roster: what it says.
        role: of the party.
        signature: by its card.
    """

    roster: Roster
    role: ComputeRole
    signature: bytes = field(repr=False)

    def is_signed_by(self, card: Card) -> bool:
        """Whether the roster names this card for the role, and the card signed it."""
        named = self.roster.parties[COMPUTE_ROLES.index(self.role)] == card.fingerprint
        return named and card.verify(ROSTER_CONTEXT, self._parts(), self.signature)

    def to_bytes(self) -> bytes:
        """As it travels."""
        return fields(_ROSTER_TAG, *self._parts(), self.signature)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The roster that ``to_bytes`` wrote; whether it is signed is asked of it.

        Raises:
            BadDocument: it is none.
        """
        terms, parties, entries, word, signature = read_tagged(_ROSTER_TAG, data, 5)
        if len(parties) % FINGERPRINT_BYTES or len(entries) % _ENTRY_BYTES or len(signature) != SIGNATURE_BYTES:
            raise BadDocument("roster", "has names, entries or a signature of another length")
        named = [parties[start : start + FINGERPRINT_BYTES] for start in range(0, len(parties), FINGERPRINT_BYTES)]
        lines = [entries[start : start + _ENTRY_BYTES] for start in range(0, len(entries), _ENTRY_BYTES)]
        lists = {fingerprint_text(line[:FINGERPRINT_BYTES]): line[FINGERPRINT_BYTES:] for line in lines}
        roster = Roster(terms, tuple(map(fingerprint_text, named)), lists)
        if roster.parts()[2] != entries:
            raise BadDocument("roster", "names an owner twice, or owners out of order")
        return cls(roster, _role_in(word), signature)

    def _parts(self) -> tuple[bytes, ...]:
        return *self.roster.parts(), self.role.encode("ascii")


def roster_of(receipts: Iterable[ShareReceipt], *, terms: bytes, parties: tuple[str, ...]) -> Roster:
    """The roster that follows from receipts: every owner of whose one list all compute parties have their part.

    Args:
        receipts: whose signatures were checked.
        terms: the digest of the terms.
        parties: fingerprints of the compute parties, in their order.
    """
    signers: dict[tuple[str, bytes], set[ComputeRole]] = {}
    for receipt in receipts:
        if (receipt.context.terms, receipt.context.parties) == (terms, parties):
            signers.setdefault((receipt.context.owner, receipt.list_digest), set()).add(receipt.role)
    whole = [named for named, roles in signers.items() if roles == set(COMPUTE_ROLES)]
    contradicting = {owner for owner, _ in signers if sum(owner == other for other, _ in signers) > 1}
    return Roster(terms, parties, {owner: digest for owner, digest in whole if owner not in contradicting})


def sign_roster(secret: CardSecret, roster: Roster, role: ComputeRole) -> SignedRoster:
    """A compute party's signature under a roster that it found to be the one of the receipts it has.

    Raises:
        InvalidArgument: the card is another than the roster names for the role.
    """
    if roster.parties[COMPUTE_ROLES.index(role)] != secret.card.fingerprint:
        raise InvalidArgument("secret", secret.card.name, f"is not the card of the roster's {role}")
    unsigned = SignedRoster(roster, role, b"")
    return SignedRoster(roster, role, secret.sign(ROSTER_CONTEXT, *unsigned._parts()))


def agreed_roster(rosters: Iterable[SignedRoster], cards: Mapping[ComputeRole, Card]) -> Roster:
    """The one roster that all compute parties signed: before that nobody computes.

    Raises:
        BadDocument: a party did not sign, or signed another one.
    """
    by_role = {signed_roster.role: signed_roster for signed_roster in rosters}
    for role, card in cards.items():
        if role not in by_role or not by_role[role].is_signed_by(card):
            raise BadDocument("roster", f"the {role} did not sign it")
    digests = {by_role[role].roster.digest for role in cards}
    if len(digests) != 1:
        raise BadDocument("roster", "the compute parties signed different ones")
    roster = next(iter(by_role.values())).roster
    if roster.parties != tuple(cards[role].fingerprint for role in COMPUTE_ROLES if role in cards):
        raise BadDocument("roster", "is of other compute parties")
    return roster


def dropped_owners(
    signed_roster: SignedRoster, receipts: Iterable[ShareReceipt], cards: Mapping[ComputeRole, Card]
) -> tuple[str, ...]:
    """Owners, by fingerprint, whose one list all compute parties acknowledged and whom the roster does not name so.

    Somebody who computes told another less than it signed, then. It need not be the signer of the roster: that one
    follows from the receipts that others showed *it*, and a receipt can be shown later.
    """
    roster = signed_roster.roster
    held = [receipt for receipt in receipts if receipt.role in cards and receipt.is_signed_by(cards[receipt.role])]
    due = roster_of(held, terms=roster.terms, parties=roster.parties)
    return tuple(sorted(owner for owner, digest in due.lists.items() if roster.lists.get(owner) != digest))


def _role_in(word: bytes) -> ComputeRole:
    for role in COMPUTE_ROLES:
        if word == role.encode("ascii"):
            return role
    raise BadDocument("compute party", "has a role that nobody has")
