"""The messages of a split run, beside the target's release: shares, receipts, rosters, envelopes.

Each has a length that follows from the terms and from who takes part, never from rows.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ENVELOPES_ROUND",
    "OFFER_ROUND",
    "OPENED_ROUND",
    "RECEIPTS_ROUND",
    "ROSTER_ROUND",
    "TARGET_ROUND",
    "Envelopes",
    "OfferShare",
    "PicksOpened",
    "RosterVote",
    "ShareReceipts",
    "TargetShare",
]

TARGET_ROUND, OFFER_ROUND, RECEIPTS_ROUND, ROSTER_ROUND, ENVELOPES_ROUND, OPENED_ROUND = 0, 1, 2, 3, 3, 4
"""Of which round each message is."""

_Bytes = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class TargetShare:
    """Consumer to each other compute party: its share of the target, once, and commitments to all shares.

    Attributes:
        share: the party's words of the target, as they travel.
        salt: of the commitment to them, 32 bytes; for this party only.
        commitments: to the shares of all compute parties, 32 bytes each, in their order.
    """

    kind: ClassVar[str] = "target-share"
    share: _Bytes
    salt: _Bytes
    commitments: _Bytes


@dataclass(frozen=True, eq=False)
class OfferShare:
    """Owner to each compute party: that party's part of the offer (``trust.shared_offers.OfferPart``)."""

    kind: ClassVar[str] = "offer-share"
    part: _Bytes


@dataclass(frozen=True, eq=False)
class ShareReceipts:
    """Compute party to the others: of whose offers it has its part (``trust.share_receipts.ShareReceipt``).

    Attributes:
        receipts: one after another, each after its length.
    """

    kind: ClassVar[str] = "share-receipts"
    receipts: _Bytes


@dataclass(frozen=True, eq=False)
class RosterVote:
    """Compute party to the others: the roster that follows from all receipts, signed, and where the party is reached.

    Attributes:
        roster: as ``trust.share_receipts.SignedRoster`` travels.
        reach: how the other compute parties reach this one's worker, in words of whoever carries out the computation:
            a tunnel's certificate and address; empty in one house.
    """

    kind: ClassVar[str] = "roster-vote"
    roster: _Bytes
    reach: _Bytes


@dataclass(frozen=True, eq=False)
class Envelopes:
    """Curator to consumer, before anything is computed: the envelopes of all slots, owner after owner."""

    kind: ClassVar[str] = "envelopes"
    envelopes: _Bytes


@dataclass(frozen=True, eq=False)
class PicksOpened:
    """Consumer to the other compute parties: it is over, and shares may be forgotten.

    Attributes:
        openings: how many slots were opened at most: public, and not how many opened to a record.
    """

    kind: ClassVar[str] = "picks-opened"
    openings: int
