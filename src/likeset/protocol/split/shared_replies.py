"""What an owner of a split run keeps of its offer, and the messages that leave: the same ones whenever it is asked."""

from collections.abc import Sequence

import numpy as np

from likeset.errors import BadDocument, OfferRefused
from likeset.protocol.messages import Message
from likeset.protocol.party import CURATOR
from likeset.protocol.split.split_messages import OFFER_ROUND, OfferShare
from likeset.protocol.terms import WITNESS
from likeset.trust.encoding import fields, read_tagged
from likeset.trust.envelopes import open_envelope
from likeset.trust.row_shares import COMPUTE_ROLES, RANDOM_WORDS, WORD_BYTES, joined_shares, word_bytes, words_in
from likeset.trust.shared_offers import OfferPart, SharedOffer

__all__ = ["is_kept_offer", "kept_offer", "records_in", "shared_replies", "slots_in"]

_TAG = b"likeset shared offer"


def kept_offer(shared: SharedOffer) -> bytes:
    """Everything that was drawn: what each compute party gets, in their order."""
    return fields(_TAG, *(part.to_bytes() for part in shared.parts.values()))


def is_kept_offer(kept: bytes) -> bool:
    """Whether ``kept_offer`` wrote this; no message begins so."""
    return kept.startswith(fields(_TAG))


def shared_replies(heard: Message, kept: bytes) -> tuple[Message, ...]:
    """One part to each compute party.

    Args:
        heard: what the owner answers: the release, which comes from the consumer.
        kept: as ``kept_offer`` wrote it.

    Raises:
        BadDocument: it did not.
    """
    names = {"curator": CURATOR, "consumer": heard.sender, "witness": WITNESS}
    for count in (3, 2):
        try:
            parts = read_tagged(_TAG, kept, count)
        except BadDocument:
            continue
        return tuple(
            Message(
                run=heard.run,
                terms=heard.terms,
                sender=heard.receiver,
                receiver=names[role],
                round=OFFER_ROUND,
                body=OfferShare(part=np.frombuffer(part, dtype=np.uint8)),
            )
            for role, part in zip(COMPUTE_ROLES, parts, strict=False)
        )
    raise BadDocument("shared offer", "is none")


def records_in(bodies: Sequence[OfferShare]) -> list[bytes]:
    """The records in an offer, for its owner, who has all parts of it: without empty slots, in the order of slots.

    Raises:
        BadDocument: the parts are not all there, or not of one offer.
    """
    parts = {part.role: part for part in (OfferPart.from_bytes(body.part.tobytes()) for body in bodies)}
    listed = next((part.offer_list for part in parts.values()), None)
    if listed is None or set(parts) != set(COMPUTE_ROLES) or len(parts) != len(bodies):
        raise BadDocument("shared offer", "is not whole")
    width = len(parts["curator"].share) // (WORD_BYTES * listed.slots)
    words = joined_shares([words_in(part.share, width=width) for part in parts.values()])
    opened = (
        open_envelope(
            parts["curator"].envelope_of(slot),
            context=listed.context,
            slot=slot,
            key=parts["consumer"].key,
            random=word_bytes(words[slot : slot + 1, -RANDOM_WORDS:]),
        )
        for slot in range(listed.slots)
    )
    return [record for record in opened if record]


def slots_in(body: OfferShare) -> int:
    """How many rows are offered in a part; 0 in what is none."""
    try:
        return OfferPart.from_bytes(body.part.tobytes()).offer_list.slots
    except OfferRefused:
        return 0
