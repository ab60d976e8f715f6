"""Any sequence of charges, answers, repetitions, restarts and purges keeps the ledger's promises."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from ledger_world import CURATOR, ROWS, TARGET, Died, charge, commit, laplace, limit, reserve

from chance import examples
from likeset.errors import BudgetExceeded, DifferentRequest, MessagePurged, UnfinishedRequest
from likeset.ledger.budget import Limit, Request
from likeset.ledger.ledger import AUDIT, Head, Ledger, Reservation
from likeset.privacy.events import NoRelease, View

OWNER = View.owners("clinic-a")
FREE = charge(CURATOR, NoRelease())
ROW_LIMIT = 40
places = st.integers(0, 5)
prices = st.sampled_from([0.05, 0.1, 0.3])
counts = st.sampled_from([1, 7, 20])


class LedgerMachine(RuleBasedStateMachine):
    """A model beside the ledger: what was asked, what was answered, and what may have been spent at least."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.ledger = self._opened()
        self.ledger.set_limit(TARGET, limit(1.0))
        self.ledger.set_limit(OWNER, limit(0.6))
        self.ledger.set_limit(CURATOR, Limit.rows_only(ROW_LIMIT))
        self.asked: dict[str, tuple[Any, ...]] = {}
        self.open: list[Reservation] = []
        self.repeatable: dict[str, bool] = {}  # of what was charged
        self.answers: dict[str, bytes] = {}
        self.purged: set[str] = set()
        self.pure = {TARGET: 0.0, OWNER: 0.0}
        self.rows = 0
        self.heads: list[Head] = []
        self.notes = 0

    def _opened(self) -> Ledger:
        return Ledger(self.directory / "ledger.sqlite")

    def _reserve(self, what: tuple[Any, ...], repeatable: bool) -> None:
        view, event, request, rows = what
        before = self.ledger.head()
        stuck = self._is_stuck(what, repeatable)
        try:
            reservation = reserve(self.ledger, view, event, request=request, rows=rows, repeatable=repeatable)
        except BudgetExceeded as refused:
            assert refused.spent <= refused.limit * (1 + 1e-9)  # noqa: PT017 - others succeed
            assert request.key not in self.answers
            assert not stuck
            assert self.ledger.head() == before
            return
        except DifferentRequest:
            assert self.asked[request.key] != what
            assert self.ledger.head() == before
            return
        except UnfinishedRequest:
            assert stuck
            assert self.ledger.head() == before
            return
        except MessagePurged:
            assert request.key in self.purged
            return
        assert not stuck
        assert self.asked.setdefault(request.key, what) == what
        if reservation.answer is not None:
            assert (self.ledger.head(), reservation.answer) == (before, self.answers[request.key])
            return
        assert request.key not in self.answers
        self.open.append(reservation)
        if self.ledger.head() == before:
            assert repeatable
            assert self.repeatable[request.key]
            return
        self.repeatable[request.key] = repeatable
        self.rows += rows
        if view != CURATOR:
            self.pure[view] += 2.0 / event.scale

    def _is_stuck(self, what: tuple[Any, ...], repeatable: bool) -> bool:
        """Charged, without an answer, and not repeatable."""
        key = what[2].key
        if self.asked.get(key) != what or key in self.answers:
            return False
        return not (repeatable and self.repeatable[key])

    @rule(place=places, price=prices, view=st.sampled_from([TARGET, OWNER]), repeatable=st.booleans())
    def charge_a_release(self, place: int, price: float, view: View, repeatable: bool) -> None:
        self._reserve((view, laplace(price), Request("run", place, "mean"), 0), repeatable)

    @rule(place=places, rows=counts, content=st.sampled_from([b"", b"x"]), repeatable=st.booleans())
    def charge_rows(self, place: int, rows: int, content: bytes, repeatable: bool) -> None:
        self._reserve((CURATOR, ROWS, Request("run", place, "rows", content), rows), repeatable)

    @rule(which=st.integers(0, 100))
    def answer(self, which: int) -> None:
        """Finish one of the reservations, perhaps of a request that another one has answered meanwhile."""
        if self.open:
            reservation = self.open.pop(which % len(self.open))
            key = reservation.request.key
            message = b"draw %d" % reservation.number  # one that is taken up again is the same again
            try:
                sent = commit(self.ledger, reservation, message)
            except MessagePurged:
                assert key in self.purged
                return
            assert sent == self.answers.setdefault(key, message)

    @rule(place=places, rows=counts, fails=st.booleans())
    def charge_two_and_note_it(self, place: int, rows: int, fails: bool) -> None:
        before = self.ledger.head()
        requests = [Request("pair", place, kind) for kind in ("first", "second")]
        if any(request.key in self.asked for request in requests):
            return
        try:
            with self.ledger.deciding() as transaction:
                made = [reserve(transaction, CURATOR, ROWS, request=request, rows=rows) for request in requests]
                transaction.append("began", f"pair-{place}", {})
                if fails:
                    raise Died
        except (BudgetExceeded, Died):
            assert fails or self.rows + 2 * rows > ROW_LIMIT
            assert self.ledger.head() == before
            return
        self.open += made
        self.rows += 2 * rows
        self.notes += 1
        for request in requests:
            self.asked[request.key] = (CURATOR, ROWS, request, rows)
            self.repeatable[request.key] = False

    @rule(which=st.integers(0, 100), fails=st.booleans())
    def answer_and_note_it(self, which: int, fails: bool) -> None:
        """Finish a reservation together with an entry of audit; if the block fails, neither is there."""
        waiting = [one for one in self.open if one.request.key not in self.answers]
        if not waiting:
            return
        reservation, before = waiting[which % len(waiting)], self.ledger.head()
        message = b"draw %d" % reservation.number
        try:
            with self.ledger.deciding() as transaction:
                sent = transaction.commit(reservation, message)
                transaction.append("sent", reservation.request.run, {})
                if fails:
                    raise Died
        except Died:
            assert self.ledger.head() == before
            return
        self.open.remove(reservation)
        self.answers[reservation.request.key] = sent
        assert sent == message
        self.notes += 1

    @rule(place=places, content=st.sampled_from([b"", b"x"]))
    def answer_for_free(self, place: int, content: bytes) -> None:
        """A draw that costs nothing and is repeatable."""
        request = Request("free", place, "bid", content)
        what, before = (CURATOR, NoRelease(), request, 0), self.ledger.head()
        reply = b"bid %d %s" % (place, content)

        def ask() -> bytes:
            return self.ledger.draw(FREE, lambda: (reply, None), request=request, repeatable=True)

        if request.key not in self.asked:
            assert ask() == reply
            self.asked[request.key], self.answers[request.key] = what, reply
            self.repeatable[request.key] = True
            return
        if self.asked[request.key] != what:
            with pytest.raises(DifferentRequest):
                ask()
        else:
            assert ask() == self.answers[request.key]
        assert self.ledger.head() == before

    @rule()
    def repeat_everything(self) -> None:
        for key, sent in self.answers.items():
            view, event, request, rows = self.asked[key]
            if key in self.purged:
                with pytest.raises(MessagePurged):
                    reserve(self.ledger, view, event, request=request, rows=rows)
            else:
                assert reserve(self.ledger, view, event, request=request, rows=rows).answer == sent

    @rule()
    def restart(self) -> None:
        """Another process takes over; what was not committed stays open."""
        self.ledger.close()
        self.ledger = self._opened()

    @rule()
    def purge(self) -> None:
        self.ledger.purge(run="run")
        self.purged |= {key for key in self.answers if json.loads(key)[0] == "run"}

    @rule()
    def keep_the_head(self) -> None:
        self.heads.append(self.ledger.head())

    @invariant()
    def never_below_and_never_above(self) -> None:
        """What is recorded is what was reserved, and within the limits."""
        accounts = {account.view: account for account in self.ledger.accounts()}
        assert accounts[CURATOR].rows == self.rows <= ROW_LIMIT
        for view, pure in self.pure.items():
            spent, most = accounts[view].epsilon, accounts[view].limit.epsilon
            assert spent is not None
            assert most is not None
            assert spent <= most * (1 + 1e-9)
            assert spent <= pure * (1 + 1e-9)
            assert (spent > 0.0) == (pure > 0.0)

    @invariant()
    def every_note_is_there_once(self) -> None:
        assert sum(entry.kind in AUDIT for entry in self.ledger.entries()) == self.notes

    def teardown(self) -> None:
        """Whatever happened: the chain holds, and every head that was written down is in it."""
        assert self.ledger.verify().ok
        for head in self.heads:
            assert self.ledger.verify(head=head).ok
        self.ledger.close()
        shutil.rmtree(self.directory)


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings(max_examples=examples(10), stateful_step_count=25)
