"""Signed receipts: the curator acknowledges to an owner which letters and rows it received, and which terms hold.

In a split run the consumer does. A receipt is a transcript that its card signed. It is for its owner alone. Receipts of
one run can be made again at any time: they say what was received.
"""

import base64
import binascii
import hashlib
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from likeset import documents
from likeset.errors import BadDocument, InvalidArgument
from likeset.homes.transcripts import Transcript, transcript_in
from likeset.trust.cards import Card, CardSecret
from likeset.trust.encoding import RECEIPT_CONTEXT
from likeset.trust.signing import SIGNATURE_BYTES

__all__ = [
    "MOST_RECEIPT_BYTES",
    "Receipt",
    "file_name",
    "read_receipt",
    "receipt_in",
    "sign",
    "signed_once",
    "write_receipt",
]

MOST_RECEIPT_BYTES = 1 << 24
"""No receipt is longer: an interactive run of ten thousand rounds has forty thousand letters with an owner."""

_KIND, _VERSION = "receipt", 2  # version 1 was signed with a key of the curator's that was no card
_LONGEST_NAME = 150


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a curator acknowledges.

    Attributes:
        transcript: the letters that it received and wrote.
        at: when it signed (UTC).
        card: its card.
        signature: over the others, by the card.
    """

    transcript: Transcript
    at: str
    card: Card
    signature: bytes = field(repr=False)

    def document(self) -> dict[str, Any]:
        """As it stands in a file."""
        card = base64.b64encode(self.card.to_bytes()).decode("ascii")
        return {**_content(self.transcript, self.at), "card": card, "signature": self.signature.hex()}

    def to_bytes(self) -> bytes:
        """As it stands in a file and travels."""
        return (json.dumps(self.document(), indent=1, sort_keys=True) + "\n").encode("ascii")

    @property
    def digest(self) -> str:
        """Of all that it says, with the signature."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def fault(self, card: Card | None = None) -> str | None:
        """What is wrong with the signature; None if nothing is.

        Args:
            card: that the curator is known to have; the one in the receipt if not given, and then anybody could have
                signed.
        """
        signer = self.card.fingerprint
        if card is not None and card.fingerprint != signer:
            return f"it is signed by the card {signer}, and the curator's is {card.fingerprint}"
        if self.transcript.curator_card != signer:
            return f"it is signed by the card {signer}, and names {self.transcript.curator_card} as the curator's"
        if not self.card.verify(RECEIPT_CONTEXT, (_signed(self.transcript, self.at),), self.signature):
            return "its signature does not hold: it was changed after it was signed"
        return None


def sign(transcript: Transcript, secret: CardSecret, *, now: datetime | None = None) -> Receipt:
    """The receipt for an owner.

    Args:
        transcript: the curator's copy.
        secret: the curator's card.
        now: when; now if not given.

    Raises:
        InvalidArgument: the terms name another card as the curator's.
    """
    if transcript.curator_card != secret.card.fingerprint:
        raise InvalidArgument(
            "card", secret.card.fingerprint, "is not the card that signs receipts in this run; it signs nothing"
        )
    at = (now or datetime.now(UTC)).isoformat(timespec="seconds")
    return Receipt(transcript, at, secret.card, secret.sign(RECEIPT_CONTEXT, _signed(transcript, at)))


def signed_once(path: Path, transcript: Transcript, secret: CardSecret) -> Receipt:
    """The receipt in a file, if it says the same; else it is signed and written there.

    So that what is sent again is what was sent, and the first time stands in it.

    Raises:
        InvalidArgument: the terms name another card as the curator's.
        BadDocument: it cannot be written.
    """
    try:
        kept = read_receipt(path)
    except BadDocument:
        kept = None
    if kept is not None and kept.transcript == transcript and kept.fault(secret.card) is None:
        return kept
    receipt = sign(transcript, secret)
    write_receipt(path, receipt)
    return receipt


def write_receipt(path: Path, receipt: Receipt) -> None:
    """Into a file, whole or not at all, for nobody else to read."""
    documents.write_text(path, receipt.to_bytes().decode("ascii"))


def file_name(name: str) -> str:
    """A run's or an owner's name as it may stand in the name of a file: those may have slashes in them."""
    plain = quote(name, safe="@")
    return plain if len(plain) <= _LONGEST_NAME else hashlib.sha256(name.encode()).hexdigest()


def read_receipt(path: Path) -> Receipt:
    """The receipt in a file; whether its signature holds is asked of it.

    Raises:
        BadDocument: it is none.
    """
    return receipt_in(str(path), documents.bytes_in(path, most=MOST_RECEIPT_BYTES))


def receipt_in(name: str, data: bytes) -> Receipt:
    """The receipt in some bytes; ``name`` stands for them in errors.

    Raises:
        BadDocument: it is none.
    """
    if len(data) > MOST_RECEIPT_BYTES:
        raise BadDocument(name, "is larger than a receipt can be")
    try:
        document = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise BadDocument(name, "cannot be read as a receipt") from error
    if not isinstance(document, dict) or (document.get("likeset"), document.get("version")) != (_KIND, _VERSION):
        raise BadDocument(name, "is no receipt of this version")
    transcript = transcript_in(name, document)
    if not _is_time(document.get("at")):
        raise BadDocument(name, "must be a time with its zone", field="at")
    receipt = Receipt(transcript, document["at"], _card_in(name, document.get("card")), _signature_in(name, document))
    if document != receipt.document():
        raise BadDocument(name, "its parts do not fit together")
    return receipt


def _content(transcript: Transcript, at: str) -> dict[str, Any]:
    return {"likeset": _KIND, "version": _VERSION, **transcript.document(), "rows": transcript.rows, "at": at}


def _signed(transcript: Transcript, at: str) -> bytes:
    """What is signed: equal receipts give equal bytes."""
    return json.dumps(_content(transcript, at), sort_keys=True, separators=(",", ":")).encode("ascii")


def _card_in(name: str, value: object) -> Card:
    try:
        return Card.from_bytes(base64.b64decode(value, validate=True) if isinstance(value, str) else b"")
    except (BadDocument, binascii.Error, ValueError):
        raise BadDocument(name, "must be the curator's card", field="card") from None


def _signature_in(name: str, document: dict[str, Any]) -> bytes:
    value = document.get("signature")
    digits = 2 * SIGNATURE_BYTES
    if not isinstance(value, str) or len(value) != digits or not set(value) <= set("0123456789abcdef"):
        raise BadDocument(name, f"must be {digits} hexadecimal digits", field="signature")
    return bytes.fromhex(value)


def _is_time(value: object) -> bool:
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False
