"""The curator's own side: a directory with its ledgers, the schemas that it knows, its card and its letters.

What the settings of the curator's NVFlare site name: ``"factory": "likeset.homes.curator.home:curator"``, with the
directory. Over a mailbox nothing names it but its people: ``curator.yaml`` says where letters come and go. When a run
ends, each owner's receipt lies in ``receipts``, and goes to the owner in a letter.
"""

import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from likeset import documents
from likeset.errors import BadDocument, IllegalMessage, InvalidArgument, NotCurated
from likeset.files import PRIVATE_FOLDER, keep_private_bytes, make_home_folder, make_private_folder
from likeset.homes.compute_run import ComputeRun
from likeset.homes.compute_side import compute_run
from likeset.homes.correspondence import Correspondence
from likeset.homes.curator.public_rows import PublicRows
from likeset.homes.curator.settings import SETTINGS_FILE, CuratorSettings, starting_settings
from likeset.homes.identity import Identity
from likeset.homes.letter_book import LetterBook
from likeset.homes.mailbox_address import checked_addresses
from likeset.homes.party_home import PartyHome
from likeset.homes.receipts import Receipt, file_name, signed_once
from likeset.homes.run_accounts import open_accounts, owner_limits
from likeset.homes.shell import Charges, CuratorShell
from likeset.homes.signed_invitation import Invitation, unpinned
from likeset.homes.site_run import CuratorRun
from likeset.homes.transcripts import transcript_of
from likeset.homes.tunnel_address import TunnelPlace, check_tunnels
from likeset.ledger import Ledger
from likeset.privacy.noise import SecretNoise
from likeset.protocol.messages import MOST_BYTES
from likeset.protocol.parties import make_curator
from likeset.protocol.party import CURATOR
from likeset.protocol.term_parts import is_digest
from likeset.protocol.terms import Terms
from likeset.split.environment import split_python
from likeset.tables.records import DeclaredRecords
from likeset.tables.schema import Schema
from likeset.trust.cards import CardSecret

__all__ = ["CuratorHome", "curator", "curator_by_mail", "make_curator_home"]


@dataclass(frozen=True, slots=True)
class CuratorHome(PartyHome):
    """The directory of a curator.

    Args:
        folder: where it is.
    """

    @property
    def usual_name(self) -> str:
        """A curator's name where nobody gave it another."""
        return CURATOR

    def check_knows(self, terms: Terms) -> None:
        """Raise unless these terms are for this curator, from a consumer whom a person here knows.

        Before anything is opened or kept: anybody may write terms.

        Raises:
            NotCurated: they are not; in fixed words, which whoever submitted the run reads.
        """
        if terms.cards[CURATOR] != self.card().fingerprint:
            raise NotCurated("the terms name another card than the curator's; pin the card that it has now")
        if unpinned(terms, CURATOR, self.pins()):
            raise NotCurated("the curator has not pinned the card of this consumer; give it to the curator's people")

    @property
    def ledgers(self) -> Path:
        """The folder of the ledgers."""
        return self.folder / "ledgers"

    def ledger(self, terms: Terms) -> Ledger:
        """A run's ledger, with what its terms allow; over all runs owners keep their own."""
        ledger = Ledger(self.ledgers / f"{terms.digest}.sqlite")
        open_accounts(ledger, owner_limits(terms, simulated=False))
        return ledger

    @property
    def schemas(self) -> Path:
        """The folder of the schemas, each under its digest."""
        return self.folder / "schemas"

    def charges(self, terms: Terms) -> Charges:
        """A run's ledger, opened for its first charge: terms that nobody agreed to leave nothing here."""
        return _ChargesOpenedLate(lambda: self.ledger(terms))

    @property
    def settings(self) -> CuratorSettings:
        """What ``curator.yaml`` says; a home that an older likeset made has none."""
        path = self.folder / SETTINGS_FILE
        return documents.read(path, CuratorSettings) if path.exists() else CuratorSettings()

    @property
    def tunnels(self) -> TunnelPlace:
        """Where its tunnels listen in split runs.

        Raises:
            InvalidArgument: ``curator.yaml`` does not say, or nobody could call there.
        """
        settings = self.settings
        return TunnelPlace.of(settings.listen, settings.reach_at, file=SETTINGS_FILE)

    def schemas_known(self) -> list[Schema]:
        """The schemas that runs may use."""
        return [Schema.load(path) for path in sorted(self.schemas.glob("*.yaml"))]

    @property
    def is_made(self) -> bool:
        """Whether this is the directory of a curator; its card may be missing while a new one is made."""
        return self.schemas.is_dir() and self.ledgers.is_dir()

    def check(self) -> None:
        """Raise unless this is the directory of a curator."""
        if not self.is_made:
            raise InvalidArgument("DIR", self.folder, "is not the directory of a curator; make one with `curator init`")

    def add_schema(self, path: Path) -> Schema:
        """Know a schema; runs of which it is not known end before anything is asked."""
        schema = Schema.load(path)
        keep_private_bytes(self.schemas / f"{schema.digest}.yaml", path.read_bytes())
        return schema

    def schema(self, digest: str) -> Schema:
        """The schema of this digest; nothing else is ever part of a file's name."""
        if not is_digest(digest):
            raise NotCurated("the terms name no schema by its digest, and a curator needs one")
        path = self.schemas / f"{digest}.yaml"
        if not path.exists():
            raise NotCurated(f"the curator does not know the schema {digest[:12]} that the terms name")
        schema = Schema.load(path)
        if schema.digest != digest:
            raise BadDocument(str(path), "is not the schema that it is called after")
        return schema

    @property
    def public_rows(self) -> PublicRows:
        """The public rows that runs may start from."""
        return PublicRows(self.folder / "seed-rows")

    def add_seed_rows(self, place: str) -> tuple[str, ...]:
        """Know public rows, as the schemas that are known here map them; returns their digests."""
        return self.public_rows.add(place, self.schemas_known())

    def receipts_under(self, terms: Terms, identity: Identity) -> dict[str, bytes]:
        """Sign what is known of a run, and return what is to be sent to its owners; asked again, the same."""
        return {receipt.transcript.owner: receipt.to_bytes() for receipt in self._signed(terms, identity).values()}

    def _signed(self, terms: Terms, identity: Identity) -> dict[Path, Receipt]:
        """Receipts for the owners who took part in a run, by their files; apart, if there are versions of its terms."""
        present = identity.book.introduced(bytes.fromhex(terms.digest))
        place = self.folder / "receipts" / file_name(terms.run)
        version = f"-{terms.digest[:12]}" if len(_versions(identity, terms.run)) > 1 else ""
        receipts = {}
        for owner in terms.owners:
            if owner in present:
                make_private_folder(place)
                path = place / f"{file_name(owner)}{version}.json"
                copy = transcript_of(identity.book, terms, owner=owner, kept_by="curator")
                receipts[path] = signed_once(path, copy, identity.secret)
        return receipts


def _versions(identity: Identity, run: str) -> list[Terms]:
    """The terms of a run of this name that were accepted here; several, if they changed before it began."""
    invited = (Invitation.read(data).terms for data in identity.book.invitations())
    return [terms for terms in invited if terms.run == run]


@dataclass
class _ChargesOpenedLate:
    """A ledger that is opened when something is first charged to it."""

    open: Callable[[], Ledger]

    @cached_property
    def _ledger(self) -> Ledger:
        return self.open()

    def answer(self, *arguments: Any, **options: Any) -> bytes:
        """As ``Ledger.answer``; what it takes is declared by ``Charges``."""
        return self._ledger.answer(*arguments, **options)


def make_curator_home(
    folder: Path, *, name: str = CURATOR, mailboxes: Sequence[str] = (), listen: str = "", reach_at: str = ""
) -> CuratorHome:
    """A new directory of a curator: a card, settings, no ledgers, no schemas.

    Args:
        folder: where.
        name: on its card; those who deal with several curators tell them apart by it.
        mailboxes: where letters come and go.
        listen: in split runs, where its tunnels listen.
        reach_at: where others reach them, if elsewhere.

    Raises:
        InvalidArgument: it holds something already, or cannot be made, or no party may have that name.
    """
    check_tunnels(listen, reach_at, file=SETTINGS_FILE)
    home, card, addresses = CuratorHome(folder), CardSecret.generate(name), checked_addresses(mailboxes)
    make_home_folder(folder)
    card.write(folder)
    home.schemas.mkdir(mode=PRIVATE_FOLDER)
    home.ledgers.mkdir(mode=PRIVATE_FOLDER)
    LetterBook(home.book_file).close()  # makes the file
    documents.write_text(folder / SETTINGS_FILE, starting_settings(addresses, listen=listen, reach_at=reach_at))
    return home


def curator(invitation: Invitation, name: str, folder: Path, *, identity: Identity | None = None) -> CuratorRun:
    """The side of a trusted curator.

    Keys of runs go when their terms have ended: until then a consumer may resume, and nobody tells the curator that
    everything arrived.

    Args:
        invitation: the signed terms.
        name: the curator's name in all runs.
        folder: the curator's directory.
        identity: who the curator is, where that is open already.

    Raises:
        LikesetError: it does not curate this run.
    """
    home, terms = _knowing(invitation, name, folder), invitation.terms
    if terms.split is not None:
        raise NotCurated("a split run travels by mailbox, and by nothing else")
    identity = identity or home.identity  # without its keys no receipt could be signed when rows are here
    declared = DeclaredRecords(home.schema(terms.schema_digest))
    seed_rows = home.public_rows.get(terms.seed_digest) if terms.seed_rows else None
    # Not noise: it follows from the card's secret, so that a curator that is made anew writes the same summary.
    secret = identity.secret.sealing.to_bytes()
    folds = hmac.digest(secret, b"likeset/folds/1" + bytes.fromhex(terms.digest), "sha256")
    party = make_curator(
        terms, noise=SecretNoise(), fold_key=int.from_bytes(folds, "big"), declared=declared, seed_rows=seed_rows
    )
    shell = CuratorShell(party, home.charges(terms))
    letters = Correspondence(identity, invitation, CURATOR)
    identity.book.settle_ended()
    return CuratorRun(letters, shell, MOST_BYTES, receipts=lambda: home.receipts_under(terms, identity))


def curator_by_mail(
    invitation: Invitation,
    name: str,
    folder: Path,
    *,
    identity: Identity,
    check_workers: Callable[[], object] = split_python,
) -> CuratorRun | ComputeRun:
    """The curator's side of a run by mailbox: as ``curator``; in a split run it reads nothing, and needs no schema.

    Args:
        invitation: the signed terms.
        name: the curator's name in all runs.
        folder: the curator's directory.
        identity: who the curator is.
        check_workers: raises where no worker can be started, which a split run needs.

    Raises:
        LikesetError: it does not curate this run.
    """
    if invitation.terms.split is None:
        return curator(invitation, name, folder, identity=identity)
    home = _knowing(invitation, name, folder)
    return compute_run(home, invitation, "curator", identity=identity, check_workers=check_workers)


def _knowing(invitation: Invitation, name: str, folder: Path) -> CuratorHome:
    """The home, if the terms are for it."""
    if name != CURATOR:
        raise IllegalMessage("this is the curator's directory")
    home = CuratorHome(folder)
    home.check()
    home.check_knows(invitation.terms)
    return home
