"""What follows from the terms of a split run: who computes, how large an offer is, in which range rows lie."""

import hashlib
import math
from collections.abc import Sequence

from likeset.errors import IllegalMessage
from likeset.protocol.party import CURATOR
from likeset.protocol.planned_terms import PlannedTerms
from likeset.protocol.split.bare_records import bare_record_bytes
from likeset.protocol.split.split_terms import SplitTerms
from likeset.protocol.terms import WITNESS, Terms
from likeset.tables.records import most_envelope_bytes
from likeset.trust.encoding import fields
from likeset.trust.envelopes import OfferContext
from likeset.trust.headers import DIGEST_BYTES
from likeset.trust.offer_lists import SALT_BYTES, SlotDigests
from likeset.trust.row_shares import COMPUTE_ROLES, FRACTION_BITS, ComputeRole, SlotLayout
from likeset.trust.shared_offers import OfferShape

__all__ = [
    "inputs_digest",
    "largest_word",
    "most_part_bytes",
    "offer_context",
    "offer_shape",
    "party_name",
    "role_of",
    "split_terms",
    "target_commitment",
]

_AROUND_PART = 1 << 10  # names, lengths, K and a signature
_TARGET_TAG, _INPUTS_TAG = b"likeset target share", b"likeset split inputs"


def split_terms(terms: Terms) -> SplitTerms:
    """What the terms say about the split curator.

    Raises:
        IllegalMessage: their curator is trusted.
    """
    if terms.split is None:
        raise IllegalMessage(f"run {terms.run} has a trusted curator, and nothing of it is shared")
    return terms.split


def party_name(terms: Terms, role: ComputeRole) -> str:
    """The name of a compute party in the terms."""
    return {"curator": CURATOR, "consumer": terms.consumer, "witness": WITNESS}[role]


def role_of(terms: Terms, name: str) -> ComputeRole | None:
    """The role of the compute party of this name; None where it is none."""
    return next((role for role in COMPUTE_ROLES if party_name(terms, role) == name), None)


def offer_context(terms: Terms, owner: str) -> OfferContext:
    """To what everything about an owner's offer is bound."""
    parties = tuple(terms.cards[party_name(terms, role)] for role in COMPUTE_ROLES)
    return OfferContext(bytes.fromhex(terms.digest), terms.cards[owner], parties)


def most_part_bytes(terms: PlannedTerms) -> tuple[int, ...]:
    """How many bytes each compute party gets of an offer, at most, in the order of their ranks."""
    shape = offer_shape(terms)
    each = DIGEST_BYTES + SlotDigests.SIZE + SALT_BYTES + shape.share_bytes
    return tuple(
        _AROUND_PART + shape.slots * (each + (shape.envelope_bytes if role == "curator" else 0))
        for role in COMPUTE_ROLES
    )


def offer_shape(terms: PlannedTerms) -> OfferShape:
    """How large every offer is: labels are in records, and no class is shared."""
    columns = terms.kernel.columns
    record_bytes = most_envelope_bytes(terms.record_bytes) if terms.schema_digest else bare_record_bytes(columns)
    return OfferShape(SlotLayout(columns, classes=0), slots=terms.rows_per_owner, record_bytes=record_bytes)


def largest_word(terms: Terms) -> int:
    """Every word of an honest row lies between this and its negative; rows far beyond do not count."""
    return math.ceil(terms.kernel.largest * 2.0**FRACTION_BITS)


def target_commitment(terms: Terms, role: ComputeRole, *, salt: bytes, share: bytes) -> bytes:
    """To a compute party's share of the target; the salt goes to that party only."""
    parts = (bytes.fromhex(terms.digest), role.encode("ascii"), salt, share)
    return hashlib.sha256(fields(_TARGET_TAG, *parts)).digest()


def inputs_digest(roster: bytes, commitments: Sequence[bytes]) -> str:
    """By which compute parties see that they put in the same: the roster's digest, and what the target is."""
    return hashlib.sha256(fields(_INPUTS_TAG, roster, *commitments)).hexdigest()
