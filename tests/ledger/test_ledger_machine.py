"""Any sequence of charges, answers, repetitions, restarts and purges keeps the ledger's promises."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from ledger_world import CURATOR, ROWS, TARGET, laplace, limit

from chance import examples
from likeset.errors import BudgetExceeded, DifferentRequest, MessagePurged, UnfinishedRequest
from likeset.ledger import Head, Ledger, Limit, Request, Reservation, Unfinished
from likeset.privacy.view import View

OWNER = View.owners("target", among=["a"])
ROW_LIMIT = 40
places = st.integers(0, 5)
prices = st.sampled_from([0.05, 0.1, 0.3])
counts = st.sampled_from([1, 7, 20])
ways = st.sampled_from(["refuse", "charge", "resume"])


class LedgerMachine(RuleBasedStateMachine):
    """A model beside the ledger: what was asked, what was answered, and what may have been spent at least."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.ledger = Ledger(self.directory / "ledger.sqlite")
        self.ledger.set_limit(TARGET, limit(1.0))
        self.ledger.set_limit(OWNER, limit(0.6))
        self.ledger.set_limit(CURATOR, Limit.rows_only(ROW_LIMIT))
        self.asked: dict[str, tuple[Any, ...]] = {}
        self.open: list[Reservation] = []
        self.repeatable: dict[str, bool] = {}  # of what was charged: whether every time as one that may be resumed
        self.answers: dict[str, bytes] = {}
        self.purged: set[str] = set()
        self.pure = {TARGET: 0.0, OWNER: 0.0}
        self.rows = 0
        self.heads: list[Head] = []

    def _reserve(self, what: tuple[Any, ...], unfinished: Unfinished) -> None:
        view, event, request, rows = what
        before = self.ledger.head()
        stuck = self._is_stuck(what, unfinished)
        try:
            reservation = self.ledger.reserve(view, event, request=request, rows=rows, unfinished=unfinished)
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
            assert reservation.answer == self.answers[request.key]
            assert self.ledger.head() == before
            return
        assert request.key not in self.answers
        self.open.append(reservation)
        if self.ledger.head() == before:
            assert unfinished == "resume"
            assert self.repeatable[request.key]
            return
        self.repeatable[request.key] = self.repeatable.get(request.key, True) and unfinished == "resume"
        self.rows += rows
        if view != CURATOR:
            for account in self.pure:
                if account.hears(view):
                    self.pure[account] += 2.0 / event.scale

    def _is_stuck(self, what: tuple[Any, ...], unfinished: Unfinished) -> bool:
        """Charged, without an answer, and neither to be charged again nor one that may be resumed."""
        key = what[2].key
        if self.asked.get(key) != what or key in self.answers:
            return False
        return unfinished == "refuse" or (unfinished == "resume" and not self.repeatable[key])

    @rule(place=places, price=prices, view=st.sampled_from([TARGET, OWNER]), unfinished=ways)
    def charge_a_release(self, place: int, price: float, view: View, unfinished: Unfinished) -> None:
        """Ask for a release."""
        self._reserve((view, laplace(price), Request("run", place, "mean"), 0), unfinished)

    @rule(place=places, rows=counts, content=st.sampled_from([b"", b"x"]), unfinished=ways)
    def charge_rows(self, place: int, rows: int, content: bytes, unfinished: Unfinished) -> None:
        """Ask for rows."""
        self._reserve((CURATOR, ROWS, Request("run", place, "rows", content), rows), unfinished)

    @rule(which=st.integers(0, 100))
    def answer(self, which: int) -> None:
        """Finish one of the reservations, perhaps of a request that another one has answered meanwhile."""
        if self.open:
            reservation = self.open.pop(which % len(self.open))
            key = reservation.request.key
            message = b"draw %d" % reservation.number  # one that is taken up again is the same again
            try:
                sent = self.ledger.commit(reservation, message)
            except MessagePurged:
                assert key in self.purged
                return
            assert sent == self.answers.setdefault(key, message)

    @rule()
    def repeat_everything(self) -> None:
        """Every answered request comes again."""
        for key, answer in self.answers.items():
            view, event, request, rows = self.asked[key]
            if key in self.purged:
                with pytest.raises(MessagePurged):
                    self.ledger.reserve(view, event, request=request, rows=rows)
            else:
                assert self.ledger.reserve(view, event, request=request, rows=rows).answer == answer

    @rule()
    def restart(self) -> None:
        """Another process takes over; what was not committed stays open."""
        self.ledger.close()
        self.ledger = Ledger(self.directory / "ledger.sqlite")

    @rule()
    def purge(self) -> None:
        """All messages go."""
        self.ledger.purge(run="run")
        self.purged |= set(self.answers)

    @rule()
    def keep_the_head(self) -> None:
        """Somebody writes the head down."""
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

    def teardown(self) -> None:
        """Whatever happened: the chain holds, and every head that was written down is in it."""
        assert self.ledger.verify().ok
        for head in self.heads:
            assert self.ledger.verify(head=head).ok
        self.ledger.close()
        shutil.rmtree(self.directory)


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings(max_examples=examples(15), stateful_step_count=25)
