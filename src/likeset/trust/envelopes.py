"""Envelopes: each record of an offer sealed under a key of its own, all of one length.

The key needs two secrets. K is random for the offer, and only the consumer has it; r is random for the slot, and exists
only as shares until the slot is picked. So whoever carries or keeps envelopes reads none, the consumer reads those
that it bought, and the compute parties without the consumer read none even together (docs/proofs/envelopes.md).
"""

import functools
import hashlib
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from likeset.errors import BadDocument, InvalidArgument
from likeset.trust.encoding import fields
from likeset.trust.fingerprints import fingerprint_bytes
from likeset.trust.headers import DIGEST_BYTES
from likeset.trust.row_shares import COMPUTE_ROLES, RANDOM_BYTES, ComputeRole

__all__ = ["KEY_BYTES", "OfferContext", "envelope_bytes", "index_bytes", "open_envelope", "seal_record"]

KEY_BYTES = 32
_TAG_BYTES = 16
_LENGTH_BYTES = 4
_NONCE = bytes(12)  # a key seals one record and never another: its r is drawn for it
_ROW_TAG, _OFFER_TAG = b"likeset row", b"likeset offer"


@dataclass(frozen=True)
class OfferContext:
    """Whose offer it is, under which terms, and who computes on it: bound into every key, commitment and signature.

    Attributes:
        terms: their digest, 32 bytes; it names the run, too.
        owner: the fingerprint of the owner's card.
        parties: those of the compute parties' cards: curator, consumer and witness.

    Raises:
        BadDocument: a part of it is none.
    """

    terms: bytes
    owner: str
    parties: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.terms) != DIGEST_BYTES or len(self.parties) != len(COMPUTE_ROLES):
            raise BadDocument("offer", "names no terms, or not three compute parties")
        everybody = (self.owner, *self.parties)
        for fingerprint in everybody:
            fingerprint_bytes(fingerprint)
        if len(set(everybody)) != len(everybody):
            raise BadDocument("offer", "has a party in two roles: an owner never computes, and nobody computes twice")

    @property
    def consumer(self) -> str:
        """The fingerprint of the consumer's card."""
        return self.fingerprint_of("consumer")

    def fingerprint_of(self, role: ComputeRole) -> str:
        """Of the card of a compute party."""
        return self.parties[COMPUTE_ROLES.index(role)]

    def parts(self) -> tuple[bytes, bytes, bytes]:
        """Terms, owner and parties, as they stand in documents."""
        parties = b"".join(map(fingerprint_bytes, self.parties))
        return self.terms, fingerprint_bytes(self.owner), parties

    @functools.cached_property
    def row_names(self) -> tuple[bytes, bytes]:
        """How keys of slots and sealed records begin: tag, terms, owner; and for records also the consumer."""
        key = fields(_ROW_TAG, self.terms, fingerprint_bytes(self.owner))
        return key, key + fields(fingerprint_bytes(self.consumer))

    @functools.cached_property
    def digest(self) -> bytes:
        """By which commitments and leaves name it: nobody's commitment is another's, nor of another run."""
        return hashlib.sha256(fields(_OFFER_TAG, *self.parts())).digest()


def index_bytes(slot: int) -> bytes:
    """The number of a slot as it stands in documents."""
    return slot.to_bytes(8, "big")


def envelope_bytes(record_bytes: int) -> int:
    """How long every envelope is whose record has at most so many bytes."""
    return _LENGTH_BYTES + record_bytes + _TAG_BYTES


def seal_record(
    record: bytes, *, context: OfferContext, slot: int, key: bytes, random: bytes, record_bytes: int
) -> bytes:
    """A record in its envelope; an empty one stands for a slot without a row, and looks like any other.

    Args:
        record: at most ``record_bytes`` long.
        context: of the offer.
        slot: its number.
        key: K of the offer, 32 bytes.
        random: r of the slot, 32 bytes, drawn for this record and never used for another.
        record_bytes: how long a record may be, by the terms.

    Raises:
        InvalidArgument: the record is longer.
    """
    if len(record) > record_bytes:
        raise InvalidArgument("record", f"{len(record)} bytes", f"must have at most {record_bytes}, as the terms say")
    plaintext = len(record).to_bytes(_LENGTH_BYTES, "big") + record + bytes(record_bytes - len(record))
    cipher = ChaCha20Poly1305(_slot_key(context, slot, key, random))
    return cipher.encrypt(_NONCE, plaintext, _associated(context, slot))


def open_envelope(envelope: bytes, *, context: OfferContext, slot: int, key: bytes, random: bytes) -> bytes:
    """The record in an envelope; empty where the slot has no row.

    Raises:
        BadDocument: it was not sealed with this key and this random for this slot, or not in the form of a record.
    """
    cipher = ChaCha20Poly1305(_slot_key(context, slot, key, random))
    try:
        plaintext = cipher.decrypt(_NONCE, envelope, _associated(context, slot))
    except InvalidTag:
        raise BadDocument("envelope", "does not open with the key of its slot") from None
    end = _LENGTH_BYTES + int.from_bytes(plaintext[:_LENGTH_BYTES], "big")
    if not _LENGTH_BYTES <= end <= len(plaintext) or plaintext.count(0, end) != len(plaintext) - end:
        raise BadDocument("envelope", "holds no padded record")
    return plaintext[_LENGTH_BYTES:end]


def _slot_key(context: OfferContext, slot: int, key: bytes, random: bytes) -> bytes:
    if len(key) != KEY_BYTES or len(random) != RANDOM_BYTES:
        raise InvalidArgument("key", f"{len(key)} and {len(random)} bytes", "K and r must have 32 bytes each")
    info = context.row_names[0] + fields(index_bytes(slot))
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info).derive(key + random)


def _associated(context: OfferContext, slot: int) -> bytes:
    return context.row_names[1] + fields(index_bytes(slot))
