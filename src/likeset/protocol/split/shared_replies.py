"""What an owner of a split run keeps of its offer, and the messages that leave: the same ones whenever it is asked."""

import numpy as np

from likeset.errors import BadDocument, OfferRefused
from likeset.protocol.messages import Message
from likeset.protocol.party import CURATOR
from likeset.protocol.split.split_messages import OFFER_ROUND, OfferShare
from likeset.protocol.terms import WITNESS
from likeset.trust.encoding import fields, read_tagged
from likeset.trust.row_shares import COMPUTE_ROLES
from likeset.trust.shared_offers import OfferPart, SharedOffer

__all__ = ["is_kept_offer", "kept_offer", "shared_replies", "slots_in"]

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


def slots_in(body: OfferShare) -> int:
    """How many rows are offered in a part; 0 in what is none."""
    try:
        return OfferPart.from_bytes(body.part.tobytes()).offer_list.slots
    except OfferRefused:
        return 0
