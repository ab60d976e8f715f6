"""The ledger: reserve, run, commit.

A charge is durable before a coin is tossed, and an answer is durable before it is sent. So a crash may lose
budget, never privacy; and a request that comes again gets the bytes that were sent before, never a second
draw. Why this suffices, and what it assumes of the disk, is in docs/proofs/ledger.md.
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from likeset.errors import ChargeRefused, InvalidArgument
from likeset.ledger.accounts import Account
from likeset.ledger.chain import Entry, Head, Problem
from likeset.ledger.charges import Charge, Limit
from likeset.ledger.journal import Journal, StoredMessage, journal_path
from likeset.ledger.log import ChainedLog, Reader, Verification, timestamp
from likeset.ledger.requests import Repeatable, Request, Reservation, Unfinished
from likeset.ledger.transaction import Transaction
from likeset.privacy.events import Event, Release
from likeset.privacy.guarantee import View, checked_name

__all__ = ["DrawEach", "Ledger"]

_Drawn = tuple[bytes, Release[Any] | None]
DrawEach = Callable[[Callable[[Repeatable], _Drawn], Iterable[Repeatable]], Iterable[_Drawn]]
"""Calls a function with each of some draws: ``map``, or that of a pool of threads."""


class Ledger:
    """Budgets of views, over all runs, in one append-only file that many processes and threads may share.

    Args:
        path: the file; created if it is not there. Its messages lie beside it (``journal_path``).
        read_only: look at an existing ledger without changing anything.
        patience: seconds to wait for another process's lock.
        clock: tells the time that entries carry.
        reader: takes in every entry once it is durable, in order; for what else follows from the log than budgets.

    Attributes:
        log: the chained log, for entries of audit beside those of budgets.

    Privacy contract:
        Protects:  the rows behind each account, against its observer, within the account's limit.
        Reveals:   to those who read the file: events, views, names of runs, proven releases; no data row, and
                   of other messages a salted digest only.
        Costs:     nothing of its own; a charge counts whether or not its answer was ever sent.
        Assumes:   what is sent is what ``commit`` returned, after it returned; nothing is drawn outside a
                   reservation; the disk keeps what it has confirmed.
        Basis:     proven, docs/proofs/ledger.md
    """

    def __init__(
        self,
        path: str | Path,
        *,
        read_only: bool = False,
        patience: float = 30.0,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        reader: Reader | None = None,
    ) -> None:
        self.path = Path(path)
        self._patience = patience
        self._read_only = read_only
        self.log = ChainedLog(self.path, clock=clock, read_only=read_only, patience=patience, reader=reader)
        self._journal: Journal | None = None
        self._opening_journal = threading.Lock()

    def set_limit(self, view: View, limit: Limit) -> None:
        """Open an account, or change its limit; what was spent stays spent.

        Raises:
            ChargeRefused: an earlier charge cannot be counted on this account: it was priced for a single owner,
                or planned under another relation (``OtherRelation``) or for another unit (``OtherUnit``).
        """
        self.set_limits({view: limit})

    def set_limits(self, limits: Mapping[View, Limit]) -> None:
        """Open several accounts or change their limits, all or none: one durable write for many owners.

        Raises:
            ChargeRefused: as ``set_limit``; then no limit is changed.
        """
        with self.log.reading() as state:
            if all(state.limit(view) == limit for view, limit in limits.items()):
                return
        with self.log.writing() as (state, append):
            for view, limit in limits.items():
                if state.limit(view) != limit:
                    state.tally(view, limit)  # raises if earlier charges cannot be counted on it
                    append("limit", "", {"view": view.to_json(), "limit": limit.to_json()})

    @contextmanager
    def deciding(self) -> Iterator[Transaction]:
        """Several charges, answers and entries of audit in one write, while what is decided on cannot change.

        All of it is durable when the block ends, and undone if it raises: what must hold is checked in the block.
        Answers are durable in the journal first, entries about them second; both before the block is left.
        """
        journal = self._messages()
        with self.log.writing() as (state, append):
            transaction = Transaction(state, append, journal, now=self.log.now())
            yield transaction
            transaction.store()

    def quote(
        self,
        view: View,
        event: Event,
        *,
        rows: int = 0,
        readable: int | None = None,
        also: Iterable[tuple[View, Event]] = (),
        limits: Mapping[View, Limit] | None = None,
    ) -> tuple[tuple[Account, Account], ...]:
        """What a charge would do: every account that hears it, before and after; nothing is charged.

        With ``limits``, as if these were in force; they are not set.
        """
        with self.log.reading() as state:
            return state.quote(Charge(((view, event), *also), rows, readable), limits or {})

    def check(self, costs: Iterable[tuple[View, Event]]) -> None:
        """Raise as a charge of these costs would; nothing is charged."""
        with self.log.reading() as state:
            state.check(Charge(tuple(costs), 0))

    def reserve(
        self,
        view: View,
        event: Event,
        *,
        request: Request,
        rows: int = 0,
        readable: int | None = None,
        also: Iterable[tuple[View, Event]] = (),
        unfinished: Unfinished = "refuse",
    ) -> Reservation:
        """Charge for a request before anything is run for it; durable when this returns.

        Args:
            view: who will hear the answer, and whose rows it depends on. A broadcast is one charge to the
                view of all who hear it.
            event: what will be run.
            request: what it is for.
            rows: how many rows the answer discloses, at most.
            readable: how many of them one party may read; None: all.
            also: further views that the same draw concerns, each with the event as that view sees it.
            unfinished: what to do if this request was charged before, and interrupted before its answer was
                stored; see ``Unfinished``.

        Raises:
            BudgetExceeded: an account cannot pay; nothing was charged.
            ChargeRefused: no account answers for a view.
            OtherRelation: an account that hears it has another relation than the event was planned under.
            OtherUnit: an account that hears it was charged for another unit of privacy before.
            UnprovenPart: the event has no proof and an account does not accept it by name.
            DifferentRequest: the same run, round and kind were asked for with another request.
            UnfinishedRequest: charged before, and interrupted, and that is to be refused; or to be resumed, and
                it was not reserved as one that may be.
            MessagePurged: answered before, but the bytes are gone.
        """
        with self.deciding() as transaction:
            return transaction.reserve(
                view, event, request=request, rows=rows, readable=readable, also=also, unfinished=unfinished
            )

    def commit(self, reservation: Reservation, message: bytes, *, release: Release[Any] | None = None) -> bytes:
        """Store the answer to a request; returns the bytes to send: the first that were ever stored for it.

        Args:
            reservation: what ``reserve`` returned.
            message: the answer's bytes; they go to the journal only.
            release: the value in it that may be shown, recorded in the ledger if its event is proven and the
                answer discloses no rows. It must be of the event that was reserved.

        Raises:
            ChargeRefused: the reservation is not in this ledger, another event was run than was reserved, or
                something was released under one that may be taken up again.
            DifferentRequest: this reservation already has another answer.
        """
        with self.deciding() as transaction:
            return transaction.commit(reservation, message, release=release)

    def answer(
        self,
        view: View,
        event: Event,
        run: Callable[[], tuple[bytes, Release[Any] | None]],
        *,
        request: Request,
        rows: int = 0,
        readable: int | None = None,
        also: Iterable[tuple[View, Event]] = (),
        unfinished: Unfinished = "refuse",
    ) -> bytes:
        """Reserve, run, commit: the bytes to send; ``run`` is not called for a request answered before.

        What costs nothing, and is the same whenever it is run, is reserved and committed at once, after it was run.
        """
        charge = Charge(((view, event), *also), rows, readable)
        if unfinished == "resume" and charge.free and self.is_new(request, charge):
            return self.answer_together([Repeatable(request, charge, run)])[0]
        reservation = self.reserve(
            view, event, request=request, rows=rows, readable=readable, also=charge.costs[1:], unfinished=unfinished
        )
        if reservation.answer is not None:
            return reservation.answer
        message, release = run()
        return self.commit(reservation, message, release=release)

    def answer_together(self, wanted: Sequence[Repeatable], *, draw: DrawEach = map) -> list[bytes]:
        """Draw what costs nothing, and is the same whenever it is drawn, then reserve and commit all in one write.

        If one of them is refused, all are, and nothing is charged: each may then be asked for by ``answer``.

        Args:
            wanted: for different requests.
            draw: calls a function with each of them, perhaps side by side.

        Raises:
            ChargeRefused: something costs more than rows: that must be on the disk before it is drawn.
            LikesetError: as ``answer``, for any of them.
        """
        if not all(each.charge.free for each in wanted):
            raise ChargeRefused("what has a price is charged before it is drawn, and not together with its answer")
        drawn = list(draw(lambda each: each.run(), wanted))
        with self.deciding() as transaction:
            return [transaction.answer(each, *one) for each, one in zip(wanted, drawn, strict=True)]

    def is_new(self, request: Request, charge: Charge) -> bool:
        """Whether a request was never charged, and has no answer: then what it gets has to be computed."""
        journal = self._messages()
        with self.log.reading() as state:
            if request.key in state.requests:
                return False
        return journal.find(request.key, request.fingerprint(charge, journal)) is None

    def accounts(self, *, limits: Mapping[View, Limit] | None = None) -> tuple[Account, ...]:
        """Every account with its limit and what is spent; with ``limits``, as if these were in force.

        Raises:
            ChargeRefused: as ``set_limit``, for one of the limits given.
        """
        with self.log.reading() as state:
            return state.accounts(limits or {})

    def entries(self, *, first: int = 1) -> tuple[Entry, ...]:
        """Every entry from a number on, oldest first."""
        return self.log.entries(first=first)

    def charge_of(self, request: Request) -> Charge | None:
        """What a request was charged; None if it never was."""
        with self.log.reading() as state:
            known = state.requests.get(request.key)
            return None if known is None else known.charge

    def reservations(self, requests: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """The last entry that charged for each request, by its key and fingerprint; those never charged are missing."""
        with self.log.reading() as state:
            return {
                (key, fingerprint): known.reservations[-1]
                for key, fingerprint in requests
                if (known := state.requests.get(key)) is not None and known.fingerprint == fingerprint
            }

    def head(self) -> Head:
        """The last entry's number and hash; keep it elsewhere to be able to show a roll-back."""
        with self.log.reading() as state:
            return state.head

    def messages(self, *, run: str | None = None) -> tuple[StoredMessage, ...]:
        """The stored messages (of one run), oldest first; one without a commit entry was never sent."""
        return self._messages().messages(run=run)

    def purge(self, *, run: str | None = None, before: datetime | None = None) -> int:
        """Remove stored messages of a run, or from before a time, or both; returns how many.

        The charges stay, and requests whose answers are removed are refused from now on: never drawn again.
        """
        if run is None and before is None:
            raise InvalidArgument("run", None, "say which messages: those of a run, or from before a time")
        if run is not None:
            checked_name("run", run)
        until = None if before is None else timestamp(before)
        journal = self._messages()
        # On record before it happens: a missing message is explained whenever it is missed.
        self.log.append("purge", "", {"run": run, "before": until})
        with self.log.writing():  # so that nobody answers from what is being removed
            return journal.purge(run=run, before=until)

    def verify(self, *, head: Head | str | None = None, messages: bool = False) -> Verification:
        """Check every entry, link and sum; with a head kept elsewhere, also that history still contains it.

        Finds entries that were altered, removed or reordered, and what does not add up. Only a head that was
        kept elsewhere shows that the end was cut off, an old copy was put back, or everything from some entry
        on was written anew.

        Args:
            head: what ``head`` returned at some earlier time, or its text.
            messages: also check that the stored messages are those that were recorded, that a purge is on record for
                each that is missing, and that the ledger is the one that they were stored beside. One that is stored
                and not on record is no problem: a death came between, and it was never sent.
        """
        verification = self.log.verify(head=Head.parse(head) if isinstance(head, str) else head)
        if messages and verification.ok:
            verification = Verification(verification.head, self._wrong_messages())
        return verification

    def close(self) -> None:
        """Let go of the files."""
        self.log.close()
        if self._journal is not None:
            self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wrong_messages(self) -> tuple[Problem, ...]:
        stored = {(message.key, message.fingerprint): message for message in self.messages()}
        entries = [(entry, entry.document()) for entry in self.entries()]
        hashes = {entry.number: entry.hash for entry, _ in entries}
        reserved = {entry.number: document for entry, document in entries if entry.kind == "reserve"}
        purges = [document for entry, document in entries if entry.kind == "purge"]
        problems = []
        for entry, document in entries:
            if entry.kind != "commit":
                continue
            run, charged = json.loads(entry.key)[0], reserved[document["reservation"]]
            at = document.get("stored", charged["at"])
            explained = any(
                purge["run"] in (None, run) and (purge["before"] is None or purge["before"] > at) for purge in purges
            )
            message = stored.get((entry.key, charged["fingerprint"]))
            if message is None and not explained:
                problems.append(Problem(entry.number, "its message is missing, and no purge of it is on record"))
            elif message is not None and message.digest != document["digest"]:
                problems.append(Problem(entry.number, "its stored message is not the one that was recorded"))
        heads = {message.after: Head.parse(message.after) for message in stored.values()}
        gone = [head for head in heads.values() if hashes.get(head.number) != head.hash]
        if gone:
            first = min(head.number for head in gone)
            problems.append(Problem(0, f"entry {first} is not the one that stood there when messages were stored"))
        return tuple(problems)

    def _messages(self) -> Journal:
        with self._opening_journal:
            if self._journal is None:
                with self.log.reading() as state:
                    identity = state.identity
                path, read_only, patience = journal_path(self.path), self._read_only, self._patience
                self._journal = Journal(path, ledger=identity, read_only=read_only, patience=patience)
            return self._journal
