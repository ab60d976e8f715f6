"""The directory of a witness: ``witness.yaml``, its card, its letters, and what it computes on while runs last."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from likeset import documents
from likeset.errors import IllegalMessage, InvalidArgument, NotCurated
from likeset.files import make_home_folder
from likeset.homes.compute_run import ComputeRun
from likeset.homes.compute_side import compute_run
from likeset.homes.identity import Identity
from likeset.homes.letter_book import LetterBook
from likeset.homes.mailbox_address import checked_addresses
from likeset.homes.party_home import PartyHome
from likeset.homes.signed_invitation import Invitation, unpinned
from likeset.homes.tunnel_address import TunnelPlace, check_tunnels
from likeset.homes.witness.settings import SETTINGS_FILE, WitnessSettings, starting_settings
from likeset.protocol.terms import WITNESS, Terms
from likeset.split.environment import split_python
from likeset.trust.cards import CardSecret

__all__ = ["WitnessHome", "make_witness_home", "witness"]


@dataclass(frozen=True, slots=True)
class WitnessHome(PartyHome):
    """The directory of a witness.

    Args:
        folder: where it is.
    """

    @property
    def usual_name(self) -> str:
        """The witness's name, as ``witness.yaml`` has it."""
        return self.settings.name

    @property
    def settings(self) -> WitnessSettings:
        """What ``witness.yaml`` says."""
        path = self.folder / SETTINGS_FILE
        if not path.is_file():
            reason = "is not the directory of a witness; make one with `likeset witness init`"
            raise InvalidArgument("--home", self.folder, reason)
        return documents.read(path, WitnessSettings)

    @property
    def tunnels(self) -> TunnelPlace:
        """Where its tunnels listen.

        Raises:
            InvalidArgument: ``witness.yaml`` does not say, or nobody could call there.
        """
        settings = self.settings
        return TunnelPlace.of(settings.listen, settings.reach_at, file=SETTINGS_FILE)

    def check_knows(self, terms: Terms) -> None:
        """Raise unless these terms are for this witness, from a consumer and with a curator whom a person here knows.

        Raises:
            NotCurated: they are not; in fixed words, which whoever asked for the run reads.
        """
        if terms.cards.get(WITNESS) != self.card().fingerprint:
            raise NotCurated("the terms name another card than the witness's; pin the card that it has now")
        if unpinned(terms, WITNESS, self.pins()):
            raise NotCurated("the witness has not pinned the cards of consumer and curator; give them to its people")

    def check(self) -> None:
        """Raise unless this is the directory of a witness."""
        _ = self.settings


def make_witness_home(
    folder: Path, *, name: str, mailboxes: Sequence[str] = (), listen: str = "", reach_at: str = ""
) -> WitnessHome:
    """A new directory of a witness: a card and settings.

    Args:
        folder: where.
        name: on its card.
        mailboxes: where letters come and go.
        listen: where its tunnels listen; may be written into ``witness.yaml`` later.
        reach_at: where others reach them, if elsewhere.

    Raises:
        InvalidArgument: the directory holds something already, or cannot be made; no party may have that name; or a
            place cannot be one.
    """
    check_tunnels(listen, reach_at, file=SETTINGS_FILE)
    card, addresses = CardSecret.generate(name), checked_addresses(mailboxes)
    make_home_folder(folder)
    card.write(folder)
    home = WitnessHome(folder)
    LetterBook(home.book_file).close()  # makes the file
    text = starting_settings(name, mailboxes=addresses, listen=listen, reach_at=reach_at)
    documents.write_text(folder / SETTINGS_FILE, text)
    return home


def witness(
    invitation: Invitation,
    name: str,
    folder: Path,
    *,
    identity: Identity | None = None,
    check_workers: Callable[[], object] = split_python,
) -> ComputeRun:
    """The witness's side of a split run.

    Args:
        invitation: the signed terms.
        name: the witness's name in all runs.
        folder: its directory.
        identity: who it is, where that is open already.
        check_workers: raises where no worker can be started.

    Raises:
        LikesetError: it does not take part.
    """
    if name != WITNESS:
        raise IllegalMessage("this is a witness's directory")
    home = WitnessHome(folder)
    home.check_knows(invitation.terms)
    return compute_run(home, invitation, "witness", identity=identity or home.identity, check_workers=check_workers)
