"""The ledger: reserve, run, commit.

A charge is durable before a coin is tossed, and an answer is durable before it is sent. So a crash may lose
budget, never privacy; and a request that comes again gets the bytes that were sent before, never a second
draw. Why this suffices, and what it assumes of the disk, is in docs/proofs/ledger.md.
"""

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from likeset.errors import (
    ChargeRefused,
    DifferentRequest,
    InvalidArgument,
    LedgerTampered,
    MessagePurged,
    UnfinishedRequest,
)
from likeset.ledger.accounts import Account
from likeset.ledger.chain import Entry, Head, Problem, canonical
from likeset.ledger.charges import Charge, Limit
from likeset.ledger.journal import Journal, StoredMessage, journal_path
from likeset.ledger.ledger_state import Answer, Known
from likeset.ledger.log import Append, Log, Verification
from likeset.ledger.requests import Request, Reservation, Unfinished, recorded_release
from likeset.privacy.events import Event, Release
from likeset.privacy.view import View, checked_name

__all__ = ["Ledger"]


class Ledger:
    """Budgets of views, over all runs, in one append-only file that many processes and threads may share.

    Args:
        path: the file; created if it is not there. Its messages lie beside it (``journal_path``).
        read_only: look at an existing ledger without changing anything.
        patience: seconds to wait for another process's lock.
        clock: tells the time that entries carry.

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
    ) -> None:
        self.path = Path(path)
        self._clock = clock
        self._patience = patience
        self._read_only = read_only
        self._log = Log(self.path, now=self._now, read_only=read_only, patience=patience)
        self._journal: Journal | None = None
        self._opening_journal = threading.Lock()

    def set_limit(self, view: View, limit: Limit) -> None:
        """Open an account, or change its limit; what was spent stays spent.

        Raises:
            ChargeRefused: an earlier charge cannot be counted on this account: it was priced for a single owner,
                or planned under another relation (``OtherRelation``).
        """
        self.set_limits({view: limit})

    def set_limits(self, limits: Mapping[View, Limit]) -> None:
        """Open several accounts or change their limits, all or none: one durable write for many owners.

        Raises:
            ChargeRefused: as ``set_limit``; then no limit is changed.
        """
        with self._log.writing() as (state, append):
            for view, limit in limits.items():
                if state.limit(view) != limit:
                    state.tally(view, limit)  # raises if earlier charges cannot be counted on it
                    append("limit", "", {"view": view.to_json(), "limit": limit.to_json()})

    def quote(
        self,
        view: View,
        event: Event,
        *,
        rows: int = 0,
        also: Iterable[tuple[View, Event]] = (),
        limits: Mapping[View, Limit] | None = None,
    ) -> tuple[tuple[Account, Account], ...]:
        """What a charge would do: every account that hears it, before and after; nothing is charged.

        With ``limits``, as if these were in force; they are not set.
        """
        with self._log.reading() as state:
            return state.quote(Charge(((view, event), *also), rows), limits or {})

    def reserve(
        self,
        view: View,
        event: Event,
        *,
        request: Request,
        rows: int = 0,
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
            also: further views that the same draw concerns, each with the event as that view sees it.
            unfinished: what to do if this request was charged before, and interrupted before its answer was
                stored; see ``Unfinished``.

        Raises:
            BudgetExceeded: an account cannot pay; nothing was charged.
            ChargeRefused: no account answers for a view.
            OtherRelation: an account that hears it has another relation than the event was planned under.
            UnprovenPart: the event has no proof and an account does not accept it by name.
            DifferentRequest: the same run, round and kind were asked for with another request.
            UnfinishedRequest: charged before, and interrupted, and that is to be refused; or to be resumed, and
                it was not reserved as one that may be.
            MessagePurged: answered before, but the bytes are gone.
        """
        charge = Charge(((view, event), *also), rows)
        described = canonical(charge.to_json()).encode() + b"\n" + request.content
        fingerprint = self._messages().fingerprint(described)
        with self._log.writing() as (state, append):
            known = state.requests.get(request.key)
            attempt = 1
            if known is not None:
                if known.fingerprint != fingerprint:
                    raise DifferentRequest(
                        f"{request}: was asked for before with another request; refused", kind=request.kind
                    )
                attempt, last = len(known.reservations), known.reservations[-1]
                answered = self._answered(request, known, append)
                if answered is not None:
                    return Reservation(answered.number, request, event, attempt, answered.message)
                if unfinished == "resume" and known.repeatable:
                    return Reservation(last, request, event, attempt, repeatable=True)
                if unfinished != "charge":
                    raise UnfinishedRequest(
                        f"{request}: was charged (entry {last}) and no answer was stored; the charge stays spent, "
                        "and another draw would be a new one"
                    )
                attempt += 1
            state.check(charge)
            body = {"charge": charge.to_json(), "fingerprint": fingerprint, "attempt": attempt}
            if unfinished == "resume":
                body["repeatable"] = True  # on record, so that no draw with coins is ever taken for one
            entry = append("reserve", request.key, body)
        return Reservation(entry.number, request, event, attempt, repeatable=unfinished == "resume")

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
        request = reservation.request
        with self._log.reading() as state:
            known = state.requests.get(request.key)
        if known is None or reservation.number not in known.reservations:
            raise ChargeRefused(f"{request}: entry {reservation.number} is no reservation for it here")
        if reservation.repeatable and release is not None:
            raise ChargeRefused(f"{request}: a release has noise, which is not the same again; it cannot be resumed")
        if known.answer is None:
            # The bytes first: an answer that is on record can always be sent again.
            stored = self._messages().keep(
                reservation.number,
                run=request.run,
                at=self._now(),
                message=message,
                release=recorded_release(known.charge, release),
            )
            with self._log.writing() as (state, append):
                known = state.requests[request.key]
                if known.answer is None:
                    self._record(request, stored, append)
                    return stored.message
        # Somebody answered the same request before: that draw is the one that counts.
        winner = self._stored(request, known.answer)
        if winner.number == reservation.number and winner.message != message:
            raise DifferentRequest(
                f"{request}: another answer is already stored; it is sent again, never drawn anew", kind=request.kind
            )
        return winner.message

    def answer(
        self,
        view: View,
        event: Event,
        run: Callable[[], tuple[bytes, Release[Any] | None]],
        *,
        request: Request,
        rows: int = 0,
        also: Iterable[tuple[View, Event]] = (),
        unfinished: Unfinished = "refuse",
    ) -> bytes:
        """Reserve, run, commit: the bytes to send; ``run`` is not called for a request answered before."""
        reservation = self.reserve(view, event, request=request, rows=rows, also=also, unfinished=unfinished)
        if reservation.answer is not None:
            return reservation.answer
        message, release = run()
        return self.commit(reservation, message, release=release)

    def accounts(self, *, limits: Mapping[View, Limit] | None = None) -> tuple[Account, ...]:
        """Every account with its limit and what is spent; with ``limits``, as if these were in force.

        Raises:
            ChargeRefused: as ``set_limit``, for one of the limits given.
        """
        with self._log.reading() as state:
            return state.accounts(limits or {})

    def entries(self) -> tuple[Entry, ...]:
        """Every entry, oldest first."""
        return self._log.entries()

    def head(self) -> Head:
        """The last entry's number and hash; keep it elsewhere to be able to show a roll-back."""
        with self._log.reading() as state:
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
        until = None if before is None else _timestamp(before)
        journal = self._messages()
        with self._log.writing() as (_, append):
            # On record before it happens: a missing message is explained whenever it is missed.
            append("purge", "", {"run": run, "before": until})
        return journal.purge(run=run, before=until)

    def verify(self, *, head: Head | str | None = None, messages: bool = False) -> Verification:
        """Check every entry, link and sum; with a head kept elsewhere, also that history still contains it.

        Finds entries that were altered, removed or reordered, and what does not add up. Only a head that was
        kept elsewhere shows that the end was cut off, an old copy was put back, or everything from some entry
        on was written anew.

        Args:
            head: what ``head`` returned at some earlier time, or its text.
            messages: also check that the stored messages are those that were recorded, and that a purge is on
                record for each that is missing.
        """
        verification = self._log.verify(Head.parse(head) if isinstance(head, str) else head)
        if messages and verification.ok:
            verification = Verification(verification.head, self._wrong_messages())
        return verification

    def close(self) -> None:
        """Let go of the files."""
        self._log.close()
        if self._journal is not None:
            self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answered(self, request: Request, known: Known, append: Append) -> StoredMessage | None:
        """The stored answer to a request; one that was stored, but is not on record, is put there."""
        if known.answer is not None:
            return self._stored(request, known.answer)
        for number in known.reservations:
            stored = self._messages().find(number)
            if stored is not None:
                self._record(request, stored, append)
                return stored
        return None

    def _record(self, request: Request, stored: StoredMessage, append: Append) -> None:
        release = None if stored.release is None else json.loads(stored.release)
        body = {"reservation": stored.number, "digest": stored.digest, "release": release}
        append("commit", request.key, body)

    def _stored(self, request: Request, answer: Answer) -> StoredMessage:
        stored = self._messages().find(answer.number)
        if stored is None:
            raise MessagePurged(f"{request}: was answered (entry {answer.number}), but the answer was purged")
        if stored.digest != answer.digest:
            raise LedgerTampered(f"{request}: the stored answer is not the one that was recorded")
        return stored

    def _wrong_messages(self) -> tuple[Problem, ...]:
        stored = {message.number: message for message in self.messages()}
        entries = [(entry, entry.document()) for entry in self.entries()]
        reserved = {entry.number: document["at"] for entry, document in entries if entry.kind == "reserve"}
        purges = [document for entry, document in entries if entry.kind == "purge"]
        problems = []
        for entry, document in entries:
            if entry.kind != "commit":
                continue
            run, number = json.loads(entry.key)[0], document["reservation"]
            explained = any(
                purge["run"] in (None, run) and (purge["before"] is None or purge["before"] > reserved[number])
                for purge in purges
            )
            if number not in stored and not explained:
                problems.append(Problem(entry.number, "its message is missing, and no purge of it is on record"))
            elif number in stored and stored[number].digest != document["digest"]:
                problems.append(Problem(entry.number, "its stored message is not the one that was recorded"))
        return tuple(problems)

    def _messages(self) -> Journal:
        with self._opening_journal:
            if self._journal is None:
                with self._log.reading() as state:
                    identity = state.identity
                path, read_only, patience = journal_path(self.path), self._read_only, self._patience
                self._journal = Journal(path, ledger=identity, read_only=read_only, patience=patience)
            return self._journal

    def _now(self) -> str:
        return _timestamp(self._clock())


def _timestamp(moment: datetime) -> str:
    if moment.tzinfo is None:
        raise InvalidArgument("before", moment.isoformat(), "needs a time zone")
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")
