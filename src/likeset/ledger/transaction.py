"""Charges, answers and entries of audit that are written together: all of them, or none."""

import json
from collections.abc import Iterable
from typing import Any

from likeset.errors import ChargeRefused, DifferentRequest, LedgerTampered, MessagePurged, UnfinishedRequest
from likeset.ledger.chain import Entry
from likeset.ledger.charges import Charge
from likeset.ledger.journal import Journal, StoredMessage
from likeset.ledger.ledger_state import Answer, Known, LedgerState
from likeset.ledger.log import Append
from likeset.ledger.requests import Repeatable, Request, Reservation, Unfinished, recorded_release
from likeset.privacy.events import Event, Release
from likeset.privacy.guarantee import View

__all__ = ["Transaction"]


class Transaction:
    """What is written in one block of ``Ledger.deciding``; nobody else writes before the block ends.

    Nothing in it is durable before the end of the block. So nothing that ``commit`` returned may be sent before, and
    no coin may be tossed for what was reserved in the same block.

    Args:
        state: the budgets, with what others wrote.
        append: writes an entry.
        journal: where answers are kept.
        now: the time.
    """

    def __init__(self, state: LedgerState, append: Append, journal: Journal, *, now: str) -> None:
        self._state = state
        self._append = append
        self._journal = journal
        self._now = now
        self._after = str(state.head)
        self._reserved: set[int] = set()
        self._unstored: dict[str, StoredMessage] = {}

    def append(self, kind: str, key: str, document: dict[str, Any]) -> Entry:
        """Write an entry of audit: what happened (``entry_kinds.AUDIT``), to which run, and what is said about it."""
        return self._append(kind, key, document)

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
        """As ``Ledger.reserve``; durable when the block ends, and not before."""
        charge = Charge(((view, event), *also), rows, readable)
        fingerprint = request.fingerprint(charge, self._journal)
        known = self._state.requests.get(request.key)
        if known is not None:
            earlier = self._known(known, fingerprint, request=request, event=event, unfinished=unfinished)
            if earlier is not None:
                return earlier
        self._state.check(charge)
        attempt = 1 if known is None else len(known.reservations) + 1
        body = {"charge": charge.to_json(), "fingerprint": fingerprint, "attempt": attempt}
        if unfinished == "resume":
            body["repeatable"] = True  # on record, so that no draw with coins is ever taken for one
        number = self._append("reserve", request.key, body).number
        self._reserved.add(number)
        stored = self._find(request.key, fingerprint)
        if stored is not None:
            # Stored without any entry: a death came before they were written, so it was never sent.
            self._record(stored)
            return Reservation(number, request, event, attempt, stored.message)
        return Reservation(number, request, event, attempt, repeatable=unfinished == "resume")

    def commit(self, reservation: Reservation, message: bytes, *, release: Release[Any] | None = None) -> bytes:
        """As ``Ledger.commit``; the bytes may be sent when the block has ended, and not before.

        Raises:
            ChargeRefused: as there; or it was reserved in this block, and is not one that may be taken up again:
                what is drawn with coins needs a charge on the disk first.
        """
        request, number = reservation.request, reservation.number
        known = self._state.requests.get(request.key)
        if known is None or number not in known.reservations:
            raise ChargeRefused(f"{request}: entry {number} is no reservation for it here")
        if reservation.repeatable and release is not None:
            raise ChargeRefused(f"{request}: a release has noise, which is not the same again; it cannot be resumed")
        if number in self._reserved and not reservation.repeatable:
            raise ChargeRefused(f"{request}: its charge is not on the disk yet, and nothing may be drawn for it before")
        if known.answer is not None:
            # Somebody answered the same request before: that draw is the one that counts.
            answer = self._stored(request, known, known.answer).message
            if known.answer.number == number and answer != message:
                raise _redrawn(request)
            return answer
        attempt, shown = known.reservations.index(number) + 1, recorded_release(known.charge, release)
        stored = self._find(request.key, known.fingerprint)
        if stored is None:
            stored = StoredMessage(request.key, known.fingerprint, attempt, self._now, self._after, message, shown)
            self._unstored[stored.key] = stored
        elif stored.attempt == attempt and (stored.message, stored.release) != (message, shown):
            raise _redrawn(request)
        self._record(stored)
        return stored.message

    def answer(self, wanted: Repeatable, message: bytes, release: Release[Any] | None) -> bytes:
        """Reserve and commit what may be: a draw that is the same again; the bytes of one answered meanwhile stay."""
        charge, ((view, event), *others) = wanted.charge, wanted.charge.costs
        charged = self.reserve(
            view,
            event,
            request=wanted.request,
            rows=charge.rows,
            readable=charge.readable,
            also=others,
            unfinished="resume",
        )
        return self.commit(charged, message, release=release) if charged.answer is None else charged.answer

    def store(self) -> None:
        """Make the answers durable: before the entries about them are, so that what is on record can be sent again."""
        if self._unstored:
            self._journal.keep(self._unstored.values())
            self._unstored.clear()

    def _known(
        self, known: Known, fingerprint: str, *, request: Request, event: Event, unfinished: Unfinished
    ) -> Reservation | None:
        """What a request that was charged before gets; None if that is to be charged once more."""
        if known.fingerprint != fingerprint:
            raise DifferentRequest(f"{request}: was asked for before with another request; refused", kind=request.kind)
        attempt, last = len(known.reservations), known.reservations[-1]
        if known.answer is None:
            stored = self._find(request.key, fingerprint)
            if stored is not None:
                self._record(stored)  # a death came between the two
        if known.answer is not None:
            message = self._stored(request, known, known.answer).message
            return Reservation(known.answer.number, request, event, attempt, message)
        if unfinished == "resume" and known.repeatable:
            return Reservation(last, request, event, attempt, repeatable=True)
        if unfinished != "charge":
            raise UnfinishedRequest(
                f"{request}: was charged (entry {last}) and no answer was stored; the charge stays spent, "
                "and another draw would be a new one"
            )
        return None

    def _record(self, stored: StoredMessage) -> None:
        charged = self._state.requests[stored.key].reservations
        if stored.attempt > len(charged):
            raise LedgerTampered(
                f"run {stored.run}, {stored.kind}: an answer is stored to a charge that is not there; "
                "the ledger is not the one that it was"
            )
        release = None if stored.release is None else json.loads(stored.release)
        body = {"reservation": charged[stored.attempt - 1], "digest": stored.digest, "release": release}
        if stored.at != self._now:
            body["stored"] = stored.at  # a death left it: a purge by age may remove what is older than its charge
        self._append("commit", stored.key, body)

    def _stored(self, request: Request, known: Known, answer: Answer) -> StoredMessage:
        stored = self._find(request.key, known.fingerprint)
        if stored is None:
            raise MessagePurged(f"{request}: was answered (entry {answer.number}), but the answer was purged")
        if stored.digest != answer.digest:
            raise LedgerTampered(f"{request}: the stored answer is not the one that was recorded")
        return stored

    def _find(self, key: str, fingerprint: str) -> StoredMessage | None:
        return self._unstored.get(key) or self._journal.find(key, fingerprint)


def _redrawn(request: Request) -> DifferentRequest:
    return DifferentRequest(
        f"{request}: another answer is already stored; it is sent again, never drawn anew", kind=request.kind
    )
