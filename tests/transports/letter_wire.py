"""Sites in this process, and letters between them: what NVFlare does between organisations, without processes."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from site_factory import seat

from likeset.errors import ProtocolError, QuorumMissed
from likeset.homes.mail import CuratorRun, Invitation, check_not_expired, utc_now
from likeset.protocol.party import CURATOR, RELEASE_ROUND
from likeset.protocol.terms import Terms
from likeset.protocol.wire import MOST_BYTES, Message, Summary, TargetRelease, decode
from likeset.transports.letter_parcels import LetterCurator, parcel_reader
from likeset.transports.pump import EachAlone, Pump
from likeset.transports.sites import SiteParties, SiteSettings
from likeset.trust.cards import CardSecret
from likeset.trust.letters import Acceptance, write_letter

SERVER = "server"


@dataclass
class LetterWire(EachAlone):
    """Carries letters honestly, until a test says otherwise.

    Attributes:
        folder: of the sites' folders.
        invitation: to the run.
        told: every letter that was handed to a site, with the site.
    """

    folder: Path
    invitation: Invitation
    done: bool = False
    told: list[tuple[str, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        made = seat(self.invitation, CURATOR, self.folder / SERVER)
        assert isinstance(made, CuratorRun)
        self.curator = made
        self.parcel = parcel_reader(self.terms, most_bytes=MOST_BYTES)
        self.sites = {name: self._site(name) for name in (*self.terms.owners, self.terms.consumer)}

    def _site(self, name: str) -> SiteParties:
        return SiteParties(name, {self.terms.digest: self.invitation}, SiteSettings(seat, self.folder / name))

    @property
    def terms(self) -> Terms:
        """Of the run."""
        return self.invitation.terms

    @property
    def summary(self) -> Summary | None:
        """What the consumer kept."""
        path = self.folder / self.terms.consumer / f"{self.terms.run}.summary"
        body = decode(path.read_bytes()).body if path.exists() else None
        assert body is None or isinstance(body, Summary)
        return body

    def run(self) -> Pump:
        """The whole run, and receipts."""
        pump = Pump(LetterCurator(self.curator, self.parcel), self, self.parcel, workers=1)
        try:
            check_not_expired(self.terms, utc_now())
            pump.run()
        finally:
            for data in self.curator.end():
                self.told.append((self.parcel(data).recipient, data))
                self.sites[self.parcel(data).recipient].hear(data)
        return pump

    @property
    def owners(self) -> Collection[str]:
        """All can be reached."""
        return self.terms.owners

    def acceptances(self) -> list[bytes]:
        """Of the owners who take part, and of the curator."""
        standings = [self.sites[name].standing(self.terms.digest) for name in self.owners]
        signed = [said for said in standings if isinstance(said, bytes)]
        if len(signed) < self.terms.quorum:
            raise QuorumMissed(f"{len(signed)} owners take part")
        return [*signed, self.curator.acceptance()]

    def first_letters(self) -> dict[str, bytes]:
        """What the consumer writes first, by whom it is for."""
        return {self.parcel(data).recipient: data for data in self.start()}

    def start(self) -> Sequence[bytes]:
        """What the consumer writes first."""
        return _replies(self.sites[self.terms.consumer].start(self.terms.digest, self.acceptances()))

    def ask(self, owner: str, data: bytes) -> Sequence[bytes]:
        """What an owner answers."""
        self.told.append((owner, data))
        return _replies(self.sites[owner].hear(data))

    def hand_over(self, data: bytes) -> Sequence[bytes]:
        """The summary goes to the consumer."""
        replies = self.ask(self.terms.consumer, data)
        self.done = not replies
        return replies

    def give_back(self, writer: str, data: bytes) -> None:
        """Somebody is shown what it wrote."""
        self.told.append((writer, data))
        self.sites[writer].hear(data)


def letter_from(writer: Path, acceptance: bytes, message: Message | None, **changes: Any) -> bytes:
    """A letter that the holder of a home writes by hand to somebody who accepted, whatever its home would say.

    Args:
        writer: the home, for its card.
        acceptance: of the reader.
        message: what to say.
        changes: of the header, or enclosures.
    """
    accepted = Acceptance.from_bytes(acceptance)
    options: dict[str, Any] = {
        "recipient": accepted.card,
        "recipient_key": accepted.run_key,
        "run_id": accepted.run_id,
        "terms": accepted.terms,
        "round": 0 if message is None else message.round,
        "number": 0,
        "message": b"" if message is None else message.data,
        **changes,
    }
    return write_letter(CardSecret.load(writer), **options).data


def release_for(terms: Terms, owner: str, *, value: float = 0.0, length: int = 16) -> Message:
    """A release of somebody's own."""
    body = TargetRelease(release=np.full(length, value))
    return Message(terms.run, terms.digest, terms.consumer, owner, RELEASE_ROUND[terms.protocol], body)


def _replies(answer: list[bytes] | str) -> list[bytes]:
    if isinstance(answer, str):
        raise ProtocolError(answer)
    return answer
