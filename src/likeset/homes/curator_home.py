"""The curator's home: its ledgers, the schemas and public rows that it knows, its card and its letters."""

import hmac
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import yaml
from pydantic import Field

from likeset import documents
from likeset.arguments import Rows
from likeset.documents import Document
from likeset.errors import BadDocument, BadTable, IllegalMessage, InvalidArgument, NotCurated
from likeset.files import PRIVATE_FOLDER, keep_private, keep_private_bytes, make_home_folder, make_private_folder
from likeset.homes.compute import ComputeRun, compute_run
from likeset.homes.home import (
    MailboxAddress,
    PartyHome,
    TunnelPlace,
    TunnelText,
    check_tunnels,
    checked_addresses,
    tunnel_lines,
)
from likeset.homes.mail import (
    Charges,
    Correspondence,
    CuratorRun,
    CuratorShell,
    Identity,
    Invitation,
    LetterBook,
    Receipt,
    file_name,
    open_accounts,
    owner_limits,
    signed_once,
    transcript_of,
    unpinned,
)
from likeset.ledger.ledger import Ledger
from likeset.privacy.noise import SecretNoise
from likeset.protocol.party import CURATOR
from likeset.protocol.split_run import make_curator
from likeset.protocol.terms import Terms, digest_of_rows, is_digest
from likeset.protocol.wire import MOST_BYTES
from likeset.split.host import split_python
from likeset.tables.records import DeclaredRecords
from likeset.tables.scan import SourceScan
from likeset.tables.schema import Schema
from likeset.tables.sources import open_source
from likeset.trust.cards import CardSecret

SETTINGS_FILE = "curator.yaml"
_MOST_HOURS = 24 * 3650
_Hours = Annotated[float, Field(ge=0.0, le=_MOST_HOURS, allow_inf_nan=False)]


class CuratorSettings(Document):
    """What stands in ``curator.yaml``.

    Attributes:
        mailboxes: addresses.
        patience_hours: how long it waits for an owner's answer after it asked, at most until the terms end.
        after_auction_hours: with an auction, how long after owners heard whether they are asked no receipt goes out.
        listen: in split runs, where its tunnels listen.
        reach_at: where others reach them, if elsewhere.
    """

    likeset: Literal["curator"] = "curator"
    version: Literal[1] = 1
    mailboxes: tuple[MailboxAddress, ...] = ()
    patience_hours: _Hours = 72.0
    after_auction_hours: _Hours = 72.0
    listen: TunnelText = ""
    reach_at: TunnelText = ""

    @property
    def patience(self) -> timedelta:
        return timedelta(hours=self.patience_hours)

    @property
    def after_auction(self) -> timedelta:
        return timedelta(hours=self.after_auction_hours)


def starting_settings(mailboxes: Sequence[str], *, listen: str = "", reach_at: str = "") -> str:
    """The ``curator.yaml`` of a new home."""
    listed = yaml.safe_dump(list(mailboxes), default_flow_style=True, width=1000).strip()
    usual = CuratorSettings()
    return f"""\
likeset: curator
version: 1

# Where letters come and go, as agreed with the others: file:///mnt/share, sftp://user@host/folder or s3://bucket/folder,
# never with a password in it.
mailboxes: {listed}

# How many hours an owner may take for an answer that it was asked for; then the run goes on without it, if enough are
# left. It never goes on after the end of the terms.
patience_hours: {usual.patience_hours:g}

# With an auction: for how many hours after owners heard whether they are asked no receipt goes out. Let it be no
# shorter than the patience: when a run ends tells owners whether anybody was asked.
after_auction_hours: {usual.after_auction_hours:g}

{tunnel_lines(listen, reach_at)}"""


_MOST_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class PublicRows:
    """A folder of public rows.

    Args:
        folder: where it is, or will be.
    """

    folder: Path

    def add(self, place: str, schemas: Iterable[Schema]) -> tuple[str, ...]:
        """Know the rows of a table, as each of these schemas that fits maps them; returns their digests.

        Raises:
            InvalidArgument: none of the schemas fits.
        """
        digests, reason = [], "there is no schema"
        for schema in schemas:
            try:
                rows = _mapped(place, schema)
            except BadTable as error:
                reason = str(error)
                continue
            digests.append(self._keep(rows))
        if not digests:
            raise InvalidArgument("--seed-rows", place, f"fits none of the schemas that are known here: {reason}")
        return tuple(digests)

    def get(self, digest: str) -> Rows:
        """The rows of this digest.

        Raises:
            NotCurated: they are not here, or not what they were.
        """
        path = self.folder / f"{digest}.npy"
        try:
            rows: Rows = np.load(path, allow_pickle=False)
        except FileNotFoundError:
            raise NotCurated(
                f"the curator does not have the public seed rows {digest[:12]} that the terms name"
            ) from None
        except (OSError, ValueError):
            raise NotCurated(f"the curator cannot read the public seed rows {digest[:12]}") from None
        if rows.ndim != 2 or digest_of_rows(rows) != digest:
            raise NotCurated(f"the curator's public seed rows {digest[:12]} are not what they were")
        return rows

    def _keep(self, rows: Rows) -> str:
        digest = digest_of_rows(rows)
        self.folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)

        def write(path: Path) -> None:
            with path.open("wb") as file:
                np.save(file, rows)

        keep_private(self.folder / f"{digest}.npy", write)
        return digest


def _mapped(place: str, schema: Schema) -> Rows:
    with open_source(place) as source:
        if not 0 < source.row_count <= _MOST_ROWS:
            raise BadTable(source.name, f"must have from 1 to {_MOST_ROWS:,} rows")
        return np.concatenate([block.rows for _, block in SourceScan(source, schema, labelled=False).blocks()])


@dataclass(frozen=True, slots=True)
class CuratorHome(PartyHome):
    """The directory of a curator.

    Args:
        folder: where it is.
    """

    @property
    def usual_name(self) -> str:
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
        return self.folder / "ledgers"

    def ledger(self, terms: Terms) -> Ledger:
        """A run's ledger, with what its terms allow; over all runs owners keep their own."""
        ledger = Ledger(self.ledgers / f"{terms.digest}.sqlite")
        open_accounts(ledger, owner_limits(terms, simulated=False))
        return ledger

    @property
    def schemas(self) -> Path:
        return self.folder / "schemas"

    def charges(self, terms: Terms) -> Charges:
        """A run's ledger, opened for its first charge: terms that nobody agreed to leave nothing here."""
        return _ChargesOpenedLate(lambda: self.ledger(terms))

    @property
    def settings(self) -> CuratorSettings:
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
        return [Schema.load(path) for path in sorted(self.schemas.glob("*.yaml"))]

    @property
    def is_made(self) -> bool:
        return self.schemas.is_dir() and self.ledgers.is_dir()

    def check(self) -> None:
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


def curator_run(
    invitation: Invitation,
    name: str,
    folder: Path,
    *,
    identity: Identity | None = None,
    check_workers: Callable[[], object] = split_python,
) -> CuratorRun | ComputeRun:
    """The curator's side of a run; in a split run it reads nothing, and needs no schema.

    Keys of runs are deleted when their terms have ended: nobody tells the curator that everything arrived.

    Args:
        invitation: the signed terms.
        name: the curator's name in all runs.
        folder: the curator's directory.
        identity: who the curator is, where that is open already.
        check_workers: raises where no worker can be started, which a split run needs.

    Raises:
        LikesetError: it does not curate this run.
    """
    home, terms = _knowing(invitation, name, folder), invitation.terms
    identity = identity or home.identity  # without its keys no receipt could be signed when rows are here
    if terms.split is not None:
        return compute_run(home, invitation, "curator", identity=identity, check_workers=check_workers)
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


def _knowing(invitation: Invitation, name: str, folder: Path) -> CuratorHome:
    if name != CURATOR:
        raise IllegalMessage("this is the curator's directory")
    home = CuratorHome(folder)
    home.check()
    home.check_knows(invitation.terms)
    return home
