"""What everybody can read on a letter, and the fixed set of reasons for which a letter is refused."""

import struct
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from likeset.errors import BadDocument, LetterRefused
from likeset.trust.fingerprints import fingerprint_bytes, fingerprint_text

__all__ = ["DIGEST_BYTES", "HEADER_BYTES", "NOTHING_RECEIVED", "RUN_ID_BYTES", "Header", "Refusal"]

RUN_ID_BYTES = 16
DIGEST_BYTES = 32
NOTHING_RECEIVED = bytes(DIGEST_BYTES)
"""In a header: no letter has come from the other side in this run."""

_VERSION, _SUITE_NUMBER = 1, 1
_LAYOUT = struct.Struct(">HH16s32s25s25sQQ32s32s")
HEADER_BYTES = _LAYOUT.size
_MOST_COUNTED = 2**63 - 1  # the largest that every data base takes


class Refusal(StrEnum):
    """Why a letter was refused: one of a fixed set, whatever it says."""

    SIZE = "it is larger than a letter may be here"
    FORM = "it does not have the form of a letter"
    VERSION = "it is of a version or suite that is not known here"
    SIGNATURE = "the sender's card did not sign it as it is"
    SENDER = "it names another sender than the card that signed it"
    RECIPIENT = "it is for another recipient"
    SEAL = "it was not sealed to the key for this run, under this header"
    COMMITMENT = "it does not say what its header commits to"
    BODY = "what was sealed in it does not have the form of a body"


@dataclass(frozen=True, slots=True)
class Header:
    """What everybody can read on a letter.

    Attributes:
        run_id: 16 random bytes of the run.
        terms: the digest of its terms, 32 bytes.
        sender: the fingerprint of the writer's card.
        recipient: that of the reader's.
        round: of the protocol.
        number: of this letter among those from this sender to this recipient in the run, from 0.
        last_received: the digest of the last letter that the sender got from the recipient in the run; zeros if none.
        commitment: SHA-256 over 32 random bytes and the body, both of which are sealed.

    Raises:
        BadDocument: a part of it cannot be written.
    """

    run_id: bytes
    terms: bytes
    sender: str
    recipient: str
    round: int
    number: int
    last_received: bytes
    commitment: bytes

    def __post_init__(self) -> None:
        lengths = {"run_id": RUN_ID_BYTES} | dict.fromkeys(("terms", "last_received", "commitment"), DIGEST_BYTES)
        for name, length in lengths.items():
            if len(getattr(self, name)) != length:
                raise BadDocument("header", f"must have {length} bytes", field=name)
        for name in ("round", "number"):
            if not 0 <= getattr(self, name) <= _MOST_COUNTED:
                raise BadDocument("header", "must be a whole number below 2^63", field=name)
        fingerprint_bytes(self.sender)
        fingerprint_bytes(self.recipient)

    def to_bytes(self) -> bytes:
        """The one way to write it: 182 bytes."""
        return _LAYOUT.pack(
            _VERSION,
            _SUITE_NUMBER,
            self.run_id,
            self.terms,
            fingerprint_bytes(self.sender),
            fingerprint_bytes(self.recipient),
            self.round,
            self.number,
            self.last_received,
            self.commitment,
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The header that ``to_bytes`` wrote.

        Raises:
            LetterRefused: it has another length, version or suite, or counts beyond all letters.
        """
        if len(data) != HEADER_BYTES:
            raise LetterRefused(Refusal.FORM)
        version, suite, run_id, terms, sender, recipient, round_, number, last, commitment = _LAYOUT.unpack(data)
        if (version, suite) != (_VERSION, _SUITE_NUMBER):
            raise LetterRefused(Refusal.VERSION)
        if max(round_, number) > _MOST_COUNTED:
            raise LetterRefused(Refusal.FORM)
        named = fingerprint_text(sender), fingerprint_text(recipient)
        return cls(run_id, terms, *named, round_, number, last, commitment)
