"""Sites in this process, and a mailbox between them: each looks when its turn comes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path

from engine_scenarios import SERVER
from site_factory import seat

from likeset.homes.mail import Identity, Invitation
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Terms
from likeset.transports.desks import ConsumerDesk, CuratorDesk, MailDesk, OwnerDesk, TravellingRun
from likeset.transports.posts import KnownRun, Look
from likeset.transports.stores import Store

FAR = timedelta(days=300)


@dataclass
class MailWire:
    """A run by mailbox among sites of ``site_factory``.

    Attributes:
        folder: of the sites' folders.
        invitation: to the run.
        store: the mailbox.
        clock: of all sites.
    """

    folder: Path
    invitation: Invitation
    store: Store
    clock: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))

    @property
    def terms(self) -> Terms:
        """Of the run."""
        return self.invitation.terms

    @cached_property
    def desks(self) -> dict[str, MailDesk]:
        """Of all parties, by name."""
        return {name: self.desk(name) for name in (self.terms.consumer, CURATOR, *self.terms.owners)}

    def desk(self, name: str) -> MailDesk:
        """A party's desk, made anew."""
        place = self.folder / (SERVER if name == CURATOR else name)
        parts = (place, self.store, seat, Identity.of(place, clock=self.clock), self.clock)
        if name == CURATOR:
            return CuratorDesk(*parts, after_auction=timedelta(0))
        if name == self.terms.consumer:
            travelling = TravellingRun(self.invitation, self.clock() + FAR)
            return ConsumerDesk(*parts, travelling=lambda: [travelling])
        return OwnerDesk(*parts)

    def run(self, order: Sequence[str] | None = None, *, most: int = 60) -> str:
        """Rounds of looks until nothing happens any more; returns how the run ended at the consumer."""
        names = order or list(self.desks)
        for _ in range(most):
            if not Look.all_of([self.desks[name].look() for name in names]).something_happened:
                return self.known(self.terms.consumer).ended
        raise AssertionError(f"something still happens after {most} rounds")

    def known(self, name: str) -> KnownRun:
        """What a party remembers of the run."""
        digest = bytes.fromhex(self.terms.digest)
        return next(run for run in self.desks[name].memory.runs() if run.terms == digest)

    def close(self) -> None:
        """Let go of all files."""
        for desk in self.desks.values():
            desk.close()
