"""What a home hands to whatever carries its messages: a party at its place, and the words in which it stands by it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from likeset.homes.shell import Resident

__all__ = ["ABSTAINS", "NOTED", "READY", "WAITING", "Abstains", "Noted", "SiteParty", "Standing"]

ABSTAINS: Final = "abstains"
WAITING: Final = "waiting"
READY: Final = "ready"
NOTED: Final = "noted"
Abstains = Literal["abstains"]
Noted = Literal["noted"]
Standing = Literal["abstains", "waiting", "ready"]


@dataclass(frozen=True)
class SiteParty:
    """A party at its place.

    Attributes:
        party: who answers for an owner, a consumer, a curator.
        keep: at the consumer, takes the bytes of the message that holds the summary before it is acknowledged.
        receipts: at the curator, when a run has ended, however: a signed receipt for each owner who sent something.
        keep_receipt: at an owner, takes such a receipt; looks at it and keeps it or refuses it.
        absent: the party does not take part (any more) and is not heard; receipts are taken all the same, since they
            are about what left before.
    """

    party: Resident
    keep: Callable[[bytes], None] | None = None
    receipts: Callable[[], Mapping[str, bytes]] | None = None
    keep_receipt: Callable[[bytes], None] | None = None
    absent: bool = False
