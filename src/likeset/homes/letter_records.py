"""What stands in a home's letter book: keys of runs, who takes part in them, and letters that came or were sealed."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from likeset.protocol.messages import Delivery, Message, Offer
from likeset.protocol.split.shared_replies import slots_in
from likeset.protocol.split.split_messages import OfferShare
from likeset.trust.encoding import fields
from likeset.trust.letters import Letter, Stub
from likeset.trust.sealing import SealingSecret

__all__ = [
    "IN",
    "OUT",
    "RECEIPT",
    "Arrival",
    "Contents",
    "KeptLetter",
    "Outgoing",
    "Peer",
    "RunKeys",
    "Seal",
    "Way",
    "WrittenLetter",
    "contents_of",
]

Way = Literal["in", "out"]
IN: Final = "in"
OUT: Final = "out"
RECEIPT: Final = "receipt"
"""In place of the kind of a message: of a letter that holds nothing but a receipt."""


@dataclass(frozen=True, slots=True)
class RunKeys:
    """A home's own side of a run.

    Attributes:
        terms: of the run, by their digest.
        secret: opens letters; None when the run is settled.
        invitation: the terms as the consumer signed them.
        acceptance: what this home signed to take part; empty at the consumer, who signed the terms.
        settled: when (UTC); empty if it is not.
    """

    terms: bytes
    secret: SealingSecret | None = field(repr=False)
    invitation: bytes = field(repr=False)
    acceptance: bytes = field(repr=False)
    settled: str = ""


@dataclass(frozen=True, slots=True)
class Peer:
    """Somebody to write to in a run.

    Attributes:
        party: its name in the terms.
        card: its card, as bytes.
        run_key: its sealing key for the run.
        acceptance: what it signed to take part; empty for the consumer, who signed the terms.
    """

    party: str
    card: bytes = field(repr=False)
    run_key: bytes = field(repr=False)
    acceptance: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Contents:
    """What a letter says, as far as its keeper writes it down.

    Attributes:
        kind: of the message in it.
        rows: how many rows of an owner are in it.
        digest: of all that it says, by which it is found again; not kept when the run is settled.
    """

    kind: str
    rows: int
    digest: bytes = field(repr=False)


def contents_of(message: Message | None, data: bytes, enclosures: Sequence[bytes]) -> Contents:
    """What is written down of a letter that says this."""
    digest = hashlib.sha256(fields(data, *enclosures)).digest()
    if message is None:
        return Contents(RECEIPT, 0, digest)
    if isinstance(message.body, OfferShare):
        return Contents(message.body.kind, slots_in(message.body), digest)
    # Rows of no width take no room: anybody could write of any number of them.
    rows = len(message.body.rows) if isinstance(message.body, Offer | Delivery) and message.body.rows.size else 0
    return Contents(message.body.kind, rows, digest)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A letter that came, and was opened.

    Attributes:
        peer: from whom.
        letter: itself.
        contents: what it says.
        opening: the random bytes in it, which open the commitment in its header.
        kept_whole: whether its bytes are kept beside the key that opens them, until the run is settled.
    """

    peer: str
    letter: Letter
    contents: Contents
    opening: bytes = field(repr=False)
    kept_whole: bool = True


Seal = Callable[[int, bytes], Letter]
"""Given a letter's number and the digest of the last one received from its reader: the letter."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """What is to be sent.

    Attributes:
        peer: to whom.
        contents: what it says.
        seal: writes the letter, if it was not written before.
    """

    peer: str
    contents: Contents
    seal: Seal = field(repr=False)


@dataclass(frozen=True, slots=True)
class KeptLetter:
    """A letter that came or was sealed.

    Attributes:
        peer: from whom, or for whom.
        way: whether it came in or went out.
        number: in the series of its writer and reader.
        digest: by which others name it: SHA-256 of its stub.
        stub: its signed header.
        size: how many bytes it has.
        kind: of the message in it.
        rows: of an owner in it.
        at: when it was kept (UTC).
        opening: opens the commitment in its header; None when the run is settled.
    """

    peer: str
    way: Way
    number: int
    digest: bytes = field(repr=False)
    stub: bytes = field(repr=False)
    size: int
    kind: str
    rows: int
    at: str
    opening: bytes | None = field(default=None, repr=False)

    @property
    def signed_header(self) -> Stub:
        """The stub."""
        return Stub.from_bytes(self.stub)


@dataclass(frozen=True, slots=True)
class WrittenLetter:
    """A letter that was sealed here, as whoever carries it needs to know it.

    Attributes:
        place: among all letters of the home.
        peer: for whom it is.
        number: in the series of its writer and reader.
        digest: by which others name it.
        kind: of the message in it.
    """

    place: int
    peer: str
    number: int
    digest: bytes = field(repr=False)
    kind: str
