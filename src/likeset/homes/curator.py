"""A curator in runs: its schemas and public rows, the owners that it waits for, and its receipts."""

import hmac
from collections.abc import Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import ClassVar

import numpy as np

from likeset.arguments import Rows
from likeset.errors import (
    BadTable,
    InvalidArgument,
    LikesetError,
    NotCurated,
    PostTrouble,
    QuorumMissed,
    TryLater,
    UnfinishedRequest,
)
from likeset.files import PRIVATE_FOLDER, keep_private_bytes, make_private_folder
from likeset.homes.compute import ComputeHandler
from likeset.homes.consumer import keep_rows
from likeset.homes.mail import Decision, Heard
from likeset.homes.runs import (
    RECEIPT,
    Ending,
    LetterState,
    Run,
    State,
    ending_document,
    last_time,
    progress_document,
    read_progress,
    read_word,
)
from likeset.ledger.budget import Charge
from likeset.ledger.ledger import Transaction
from likeset.privacy.events import View
from likeset.privacy.noise import SecretNoise
from likeset.protocol.party import ChargeWanted, Party
from likeset.protocol.prices import owner_limits
from likeset.protocol.sealed import Curator as CuratorParty
from likeset.protocol.split import make_curator
from likeset.protocol.terms import Terms, digest_of_rows, is_digest
from likeset.protocol.wire import Message
from likeset.tables.records import DeclaredRecords
from likeset.tables.scan import SourceScan
from likeset.tables.schema import Schema
from likeset.tables.sources import open_source
from likeset.trust.cards import Card, Role
from likeset.trust.letters import PostKind

_MOST_ROWS = 1_000_000


def _mapped(place: str, schema: Schema) -> Rows:
    with open_source(place) as source:
        if not 0 < source.row_count <= _MOST_ROWS:
            raise BadTable(source.name, f"must have from 1 to {_MOST_ROWS:,} rows")
        return np.concatenate([block.rows for _, block in SourceScan(source, schema, labelled=False).blocks()])


class Curator(ComputeHandler):
    """A curator's part in runs. In a split run it reads nothing, and needs no schema."""

    role: ClassVar[Role] = "curator"

    # Schemas and public rows.

    @property
    def schemas(self) -> Path:
        return self.home.folder / "schemas"

    def schemas_known(self) -> list[Schema]:
        return [Schema.load(path) for path in sorted(self.schemas.glob("*.yaml"))]

    def add_schema(self, path: Path) -> Schema:
        """Add a schema; a run on an unknown schema ends before owners are asked for rows."""
        schema = Schema.load(path)
        make_private_folder(self.schemas)
        keep_private_bytes(self.schemas / f"{schema.digest}.yaml", path.read_bytes())
        return schema

    def schema(self, digest: str) -> Schema:
        if not is_digest(digest):
            raise NotCurated("the terms name no schema by its digest, and a curator needs one")
        path = self.schemas / f"{digest}.yaml"
        if not path.exists():
            raise NotCurated(f"the curator does not know the schema {digest[:12]} that the terms name")
        schema = Schema.load(path)
        if schema.digest != digest:  # somebody edited the file, or this version reads it differently
            raise NotCurated(f"the curator's schema {digest[:12]} is not what it was")
        return schema

    @property
    def seed_rows(self) -> Path:
        return self.home.folder / "seed-rows"

    def add_seed_rows(self, place: str) -> tuple[str, ...]:
        """Add public rows, mapped by each known schema that fits; returns their digests."""
        digests, reason = [], "there is no schema"
        for schema in self.schemas_known():
            try:
                rows = _mapped(place, schema)
            except BadTable as error:
                reason = str(error)
                continue
            digests.append(digest_of_rows(rows))
            self.seed_rows.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
            keep_rows(self.seed_rows / f"{digests[-1]}.npy", rows)
        if not digests:
            raise InvalidArgument("--seed-rows", place, f"fits none of the schemas that are known here: {reason}")
        return tuple(digests)

    def _seed(self, digest: str) -> Rows:
        try:
            rows: Rows = np.load(self.seed_rows / f"{digest}.npy", allow_pickle=False)
        except (OSError, ValueError):
            raise NotCurated(f"the curator does not have the public seed rows {digest[:12]} of the terms") from None
        if rows.ndim != 2 or digest_of_rows(rows) != digest:
            raise NotCurated(f"the curator's public seed rows {digest[:12]} are not what they were")
        return rows

    # Taking part.

    def check_able(self, run: Run) -> None:
        if run.is_split:
            super().check_able(run)
            return
        self._public_parts(run.terms)

    def _public_parts(self, terms: Terms) -> tuple[DeclaredRecords, Rows | None]:
        declared = DeclaredRecords(self.schema(terms.schema_digest))
        return declared, self._seed(terms.seed_digest) if terms.seed_rows else None

    def make(self, run: Run, cards: Mapping[str, Card]) -> tuple[Party, ExitStack]:
        terms = run.terms
        if run.is_split:
            return super().make(run, cards)
        declared, seed_rows = self._public_parts(terms)
        if _has_draws(terms):
            limits = owner_limits(terms, simulated=False)
            self.home.database.set_limits(
                {_of_run(view, terms): limit for view, limit in limits.items() if view.observer == "owners"}
            )
        # Not noise: it follows from the card's secret, so that a rebuilt curator writes the same summary.
        secret = self.home.secret.sealing.to_bytes()
        folds = hmac.digest(secret, b"likeset/folds/1" + run.digest, "sha256")
        fold_key = int.from_bytes(folds, "big")
        party = make_curator(terms, noise=SecretNoise(), fold_key=fold_key, declared=declared, seed_rows=seed_rows)
        return party, ExitStack()

    def draws_later(self, run: Run) -> bool:
        return not run.is_split and _has_draws(run.terms)

    def charge(self, run: Run, wanted: ChargeWanted) -> Charge:
        """Accounts of this run alone: over all runs, owners keep their own budgets."""
        charge = wanted.charge
        return replace(charge, costs=tuple((_of_run(view, run.terms), event) for view, event in charge.costs))

    # After a letter.

    def after(self, t: Transaction, run: Run, party: Party, heard: Heard | None, replies: Sequence[Message]) -> None:
        super().after(t, run, party, heard, replies)
        if isinstance(party, CuratorParty):
            run = self.mail.change(t, self.mail.reload(run), due=None)  # whom it waits for is told anew
            if party.finished:
                self.mail.change(t, run, state=State.ANSWERED, ended=Ending.DONE)
                self._say_end(t, run, Ending.DONE)

    def refuse(self, t: Transaction, run: Run, heard: Heard, error: Exception) -> None:
        super().refuse(t, run, heard, error)
        # Without a letter for which a peer is at fault, the run continues as if it had not come.
        if not run.is_split and not (isinstance(error, LikesetError) and error.fault == "peer"):
            self._fail(t, run, error)

    def _fail(self, t: Transaction, run: Run, error: Exception, detail: str = "") -> None:
        """End a run that produces no summary; owners whose rows came get their receipts all the same."""
        ending, detail = Ending.FAILED, detail or type(error).__name__
        if isinstance(error, QuorumMissed | UnfinishedRequest):
            ending = Ending.QUORUM_MISSED if isinstance(error, QuorumMissed) else Ending.UNFINISHED
            detail = ""
        if run.state != State.ANSWERED and not run.is_over:
            state = State.ANSWERED if run.state == State.BEGUN else State.FAILED
            run = self.mail.change(t, run, state=state, ended=ending, reason=detail, due=None)
            self._say_end(t, run, ending, detail)

    def _say_end(self, t: Transaction, run: Run, ending: Ending, detail: str = "") -> None:
        self.mail.write_document(t, run, run.terms.consumer, "ending", ending_document(ending, detail))
        self.mail.take_back(t, run, "progress")

    def hear_document(self, t: Transaction, run: Run, peer: str, post: PostKind, document: bytes) -> bool:
        if post == "participation" and peer in run.terms.owners:
            return (read_word(document) or ("",))[0] == "leaves"
        return super().hear_document(t, run, peer, post, document)

    # Periodic work.

    def due(self, run: Run) -> None:
        super().due(run)
        if run.state == State.BEGUN and not run.is_split:
            self._give_up_late(run)
            run = self.mail.reload(run)
        if run.state == State.ANSWERED:
            self._send_receipts(run)

    def _give_up_late(self, run: Run) -> None:
        """Stop waiting for owners who abstain or whose time is over, and tell the consumer who is waited for."""
        while True:
            if run.state != State.BEGUN:
                return
            try:
                waiting = self._waiting_for(run)
                deadlines, gone = self._deadlines(run, waiting), self._gone(run, waiting)
                late = {owner for owner, time in deadlines.items() if self.mail.passed(time)}
                if not gone and not late:
                    break
                self.mail.decide(run, Decision("give-up", sorted(gone | late)[0]))
            except (TryLater, PostTrouble) as error:
                began = self.mail.began(run)
                if began is not None and self.mail.passed(last_time(run.end, began)):
                    with self.home.deciding() as t:
                        lost = "a letter was removed from the mailbox and not put back"
                        self._fail(t, self.mail.reload(run), error, lost)
                raise
            except (QuorumMissed, UnfinishedRequest) as error:
                with self.home.deciding() as t:
                    self._fail(t, self.mail.reload(run), error)
            run = self.mail.reload(run)
        until = min(deadlines.values(), default=None)
        document, due = progress_document(waiting, until), None if until is None else until.timestamp()
        if waiting and (run.due, self._progress(run)) != (due, document):
            with self.home.deciding() as t:
                self.mail.write_document(t, run, run.terms.consumer, "progress", document)
                self.mail.change(t, self.mail.reload(run), due=due)

    def _progress(self, run: Run) -> bytes:
        return self.mail.last_document(run, "out", "progress", run.terms.consumer) or b""

    def _waiting_for(self, run: Run) -> frozenset[str]:
        """For whom a run waits: as the consumer was told, or, if something came since, by all that came."""
        told = None if run.due is None else read_progress(self._progress(run))
        if told is not None:
            return frozenset(told[0])
        party = self.mail.party(run)  # a process that begins reads all offers again
        return party.waiting_for if isinstance(party, CuratorParty) else frozenset()

    def _gone(self, run: Run, waiting: Set[str]) -> set[str]:
        """Owners that will not answer: not introduced, abstaining, given up before, or with a refused letter."""
        rows, present = self.mail.letters(run), self.mail.introduced(run)
        says_so = (("participation", LetterState.HEARD), ("letter", LetterState.REFUSED))
        gone = {row.peer for row in rows if row.way == "in" and (row.post, row.state) in says_so}
        gone |= {row.peer for row in rows if row.way == "own"}
        return {owner for owner in waiting if owner in gone or owner not in present}

    def _deadlines(self, run: Run, waiting: Set[str]) -> dict[str, datetime]:
        """When the curator stops waiting for each owner: the patience after the last letter to it."""
        began = self.mail.began(run)
        if began is None:
            return {}
        asked = {row.peer: row.time for row in self.mail.letters(run) if row.way == "out" and row.post == "letter"}
        last, patience = run.last_offer, self.home.settings.patience
        if run.deadline == run.end:  # the terms state no such moment
            last = last_time(run.end, began)
        return {owner: min(asked.get(owner, began) + patience, last) for owner in waiting}

    def _send_receipts(self, run: Run) -> None:
        """Sign receipts when the run has ended; after an auction at a time that does not depend on who was asked."""
        rows, began = self.mail.letters(run), self.mail.began(run)
        if run.terms.auction != "everyone" and began is not None:
            to_owners = (row for row in rows if row.way == "out" and row.peer in run.terms.owners)
            latest = max((row.time for row in to_owners if row.kind != RECEIPT), default=began)
            delay = timedelta(hours=self.home.settings.after_auction_hours)
            when = min(latest + delay, last_time(run.end, began))
            if not self.mail.passed(when):
                self.mail.update(run, due=when.timestamp())
                return
        with self.home.deciding() as t:
            run = self.mail.reload(run)
            present = self.mail.introduced(run)
            self.mail.write_receipts(t, run, (owner for owner in run.terms.owners if owner in present))
            self.mail.end_in(t, run, State.CLOSED, Ending(run.ended), run.reason)


def _has_draws(terms: Terms) -> bool:
    return terms.protocol == "interactive" or terms.auction != "everyone"


def _of_run(view: View, terms: Terms) -> View:
    return replace(view, protected=f"{view.protected[:90]}@{terms.digest[:32]}")
