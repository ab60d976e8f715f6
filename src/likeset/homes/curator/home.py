"""The curator's own side: a directory with its ledgers, the schemas that it knows, its transcripts, its key and card.

What the settings of the curator's NVFlare site name: ``"factory": "likeset.homes.curator.home:curator"``, with the
directory. Every message is in the transcript before it is answered or leaves; when a run ends, each owner's receipt
lies in ``receipts``, and the engine sends it to the owner.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from likeset import documents
from likeset.errors import BadDocument, IllegalMessage, InvalidArgument, NotCurated, QuorumMissed
from likeset.homes import receipts
from likeset.homes.correspondence import Correspondence
from likeset.homes.curator.public_rows import PublicRows
from likeset.homes.identity import BOOK_FILE, Identity
from likeset.homes.letter_book import LetterBook
from likeset.homes.party_home import PartyHome
from likeset.homes.run_accounts import open_accounts, owner_limits
from likeset.homes.shell import Charges, CuratorShell
from likeset.homes.signed_invitation import Invitation, unpinned
from likeset.homes.site_run import CuratorRun
from likeset.homes.transcripts import CuratorTranscripts, Transcript
from likeset.ledger import Ledger
from likeset.privacy.noise import SecretNoise
from likeset.private_files import PRIVATE_FOLDER, keep_private_bytes, make_home_folder, make_private_folder
from likeset.protocol.messages import MOST_BYTES, Message
from likeset.protocol.parties import make_curator
from likeset.protocol.party import CURATOR
from likeset.protocol.term_parts import is_digest
from likeset.protocol.terms import Terms
from likeset.tables.schema.declared_records import DeclaredRecords
from likeset.tables.schema.schema import Schema
from likeset.trust.cards import CardSecret

__all__ = ["CuratorHome", "curator", "make_curator_home"]


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

    @property
    def key(self) -> Path:
        """The file of the signing key."""
        return self.folder / "key"

    @property
    def public_key(self) -> Path:
        """The file of the public key, for owners."""
        return self.folder / "curator.pub"

    @property
    def identity(self) -> Identity:
        """Who it is, and its letters.

        Raises:
            BadDocument: there are no keys, others can read them, or they are damaged.
        """
        return Identity.of(self.folder)

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

    def transcripts(self) -> CuratorTranscripts:
        """What passed between the curator and owners; close it."""
        return CuratorTranscripts(self._transcripts_file)

    @property
    def _transcripts_file(self) -> Path:
        return self.folder / "transcripts.sqlite"

    def check(self) -> None:
        """Raise unless this is the directory of a curator."""
        if not self.key.is_file() or not self.schemas.is_dir():
            raise InvalidArgument("DIR", self.folder, "is not the directory of a curator; make one with `site curator`")

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
        return self.public_rows.add(place, [Schema.load(path) for path in sorted(self.schemas.glob("*.yaml"))])

    def write_receipts(self, run: str) -> list[Path]:
        """Sign what is known of a run, for each owner; returns the files."""
        return [path for path, _ in self._signed(run)]

    def receipts_under(self, terms: Terms) -> dict[str, bytes]:
        """Sign what is known of a run, and return what is to be sent to the owners in it, under these terms."""
        return {
            one.transcript.owner: one.to_bytes()
            for _, one in self._signed(terms.run)
            if one.transcript.terms == terms.digest
        }

    def _signed(self, run: str) -> list[tuple[Path, receipts.Receipt]]:
        """Receipts for the owners of a run, in files; one more for each further version of its terms."""
        place = self.folder / "receipts" / receipts.file_name(run)
        made = list[tuple[Path, receipts.Receipt]]()
        transcripts = self._transcripts_of(run)
        if transcripts:
            make_private_folder(place)
        times = Counter(found.owner for found in transcripts)
        for found in transcripts:
            version = f"-{found.terms[:12]}" if times[found.owner] > 1 else ""
            path, receipt = place / f"{receipts.file_name(found.owner)}{version}.json", receipts.sign(found, self.key)
            receipts.write_receipt(path, receipt)
            made.append((path, receipt))
        return made

    def _transcripts_of(self, run: str) -> list[Transcript]:
        if not self._transcripts_file.exists():
            return []  # nothing ever passed, and a look at it leaves no file
        with self.transcripts() as copies:
            return copies.of_run(run)


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


def make_curator_home(folder: Path, *, name: str = CURATOR) -> CuratorHome:
    """A new directory of a curator: a key, a card, no ledgers, no schemas.

    Args:
        folder: where.
        name: on its card; those who deal with several curators tell them apart by it.

    Raises:
        InvalidArgument: it holds something already, or cannot be made, or no party may have that name.
    """
    home, card = CuratorHome(folder), CardSecret.generate(name)
    make_home_folder(folder)
    card.write(folder)
    home.schemas.mkdir(mode=PRIVATE_FOLDER)
    home.ledgers.mkdir(mode=PRIVATE_FOLDER)
    LetterBook(folder / BOOK_FILE).close()  # makes the file
    receipts.make_key(home.key)
    documents.write_text(home.public_key, receipts.public_key(home.key) + "\n")
    return home


@dataclass(eq=False)
class _RecordedCurator(CuratorShell):
    """A curator of whom everything is written down."""

    home: CuratorHome

    @cached_property
    def copies(self) -> CuratorTranscripts:
        """Opened for the first message: terms that nobody agreed to leave nothing."""
        return self.home.transcripts()

    def take(self, message: Message) -> tuple[Message, ...]:
        """As any curator; the message is kept first, used or not, and the replies before they leave."""
        if message.sender in self.terms.owners and message.terms == self.terms.digest:
            self._keep([message])
        return self._kept(lambda: super(_RecordedCurator, self).take(message))

    def give_up(self, owner: str) -> tuple[Message, ...]:
        """As any curator."""
        return self._kept(lambda: super(_RecordedCurator, self).give_up(owner))

    def _kept(self, answer: Callable[[], tuple[Message, ...]]) -> tuple[Message, ...]:
        try:
            replies = answer()
        except QuorumMissed:
            self.home.write_receipts(self.terms.run)  # rows came in all the same
            raise
        self._keep([reply for reply in replies if reply.receiver in self.terms.owners])
        if self.party.finished:
            self.home.write_receipts(self.terms.run)
        return replies

    def _keep(self, messages: list[Message]) -> None:
        if messages:
            self.copies.keep(messages)


def curator(invitation: Invitation, name: str, folder: Path) -> CuratorRun:
    """The curator's side of a run.

    Keys of runs go when their terms have ended: until then a consumer may resume, and nobody tells the curator that
    everything arrived.

    Args:
        invitation: the signed terms.
        name: the curator's name in all runs.
        folder: the curator's directory.

    Raises:
        LikesetError: it does not curate this run.
    """
    if name != CURATOR:
        raise IllegalMessage("this is the curator's directory")
    home, terms = CuratorHome(folder), invitation.terms
    home.check()
    home.check_knows(terms)
    receipts.public_key(home.key)  # without it no receipt could be signed when rows are here
    declared = DeclaredRecords(home.schema(terms.schema_digest))
    seed_rows = home.public_rows.get(terms.seed_digest) if terms.seed_rows else None
    party = make_curator(terms, noise=SecretNoise(), declared=declared, seed_rows=seed_rows)
    shell = _RecordedCurator(party, home.charges(terms), home)
    letters = Correspondence(home.identity, invitation, CURATOR)
    letters.identity.book.settle_ended()
    return CuratorRun(letters, shell, MOST_BYTES, receipts=lambda: home.receipts_under(terms))
