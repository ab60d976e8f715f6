"""Where messages are answered.

A run begins here, is charged, and goes on after a restart; every reply is kept before it leaves.
"""

import hashlib
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime

from likeset.errors import IllegalMessage
from likeset.homes.owner import budgets, exchanges
from likeset.homes.owner.datasets import OpenedData, Registry
from likeset.homes.owner.home import Home
from likeset.homes.owner.policy import History, Policy, about_month
from likeset.homes.owner.run_records import Decision, RunRecord
from likeset.homes.shell import carry
from likeset.ledger import Ledger, Request, Transaction
from likeset.protocol.messages import Message, decode
from likeset.protocol.owner import Owner
from likeset.protocol.parties import make_owner
from likeset.protocol.steps import Step
from likeset.protocol.terms import Terms

__all__ = ["RunAnswers"]

Permit = Callable[[RunRecord, Terms], Policy]
"""Asked before a run is opened here; raises if it may not be."""

Stands = Callable[[RunRecord, Terms], None]
"""Asked when a run begins, and before each answer leaves; raises if the decision for it stands no longer."""


@dataclass(eq=False)
class _Active:
    """A run that has begun."""

    owner: Owner
    sources: ExitStack = field(default_factory=ExitStack)  # closed when the run is let go
    rows: dict[tuple[int, str], int] = field(default_factory=dict)  # that left, by round and kind of what was heard
    story: bytes = b""  # a digest of all that was heard, in order
    purges: int = 0  # that were on record when it was made

    def heard(self, message: Message, rows: int) -> None:
        """It is on record, with replies in which so many rows are."""
        self.rows[message.round, message.body.kind] = rows
        self.story = hashlib.sha256(self.story + message.data).digest()


class RunAnswers:
    """The runs that this process answers.

    Args:
        home: the node's directory.
        name: the owner's name.
        ledger: where everything is charged, kept and written down.
        clock: tells the time.
    """

    def __init__(self, home: Home, name: str, *, ledger: Ledger, clock: Callable[[], datetime]) -> None:
        self._home = home
        self._name = name
        self._key = home.key()
        self._registry = Registry(home.data)
        self._ledger = ledger
        self._clock = clock
        self._active: dict[str, _Active] = {}

    def answer(
        self, record: RunRecord, terms: Terms, message: Message, *, permit: Permit, stands: Stands
    ) -> tuple[Message, ...]:
        """The replies to a message of a run that is approved."""
        active = self._active.get(terms.digest)
        if active is not None and (active.owner.failed or active.rows.keys() != record.heard):
            self._let_go(terms)  # also where another process answered since: what follows depends on that
        elif active is not None and active.purges != record.purges:
            self._let_go(terms)  # what was removed is not to be sent from memory
        if terms.digest not in self._active:
            if not record.began:
                Owner.check_opening(terms, self._name, message)  # what begins nothing costs nothing
            self._active[terms.digest] = self._begun(record, terms, permit(record, terms), stands)
        return self._answered(record, self._active[terms.digest], message, stands)

    def _let_go(self, terms: Terms) -> None:
        """Of a party: the next one is made from what is on record."""
        self._active.pop(terms.digest).sources.close()

    def close(self) -> None:
        """Let go of the rows."""
        with ExitStack() as stack:
            for active in self._active.values():
                stack.push(active.sources)

    def _begun(self, record: RunRecord, terms: Terms, policy: Policy, stands: Stands) -> _Active:
        """The run at work; charged, and put where it was before."""
        decision = record.decided(terms.digest)
        assert decision is not None  # noqa: S101 - the node asks only for what is approved
        with ExitStack() as stack:
            data = self._registry.get(decision.data)
            source = stack.enter_context(data.open_source())
            smallest = record.smallest_group or policy.smallest_group
            opened = data.guarded(source, terms, smallest_group=smallest, key=self._key)
            # Without the seed nothing can be answered, so nothing is charged.
            if record.began:
                with self._ledger.deciding() as transaction:
                    self._charge(transaction, terms, data.name, opened.fingerprint)
            else:
                self._begin(record, terms, decision, policy, stands, opened.fingerprint)
            active = self._resumed(record, terms, opened)
            active.sources = stack.pop_all()
        return active

    def _begin(
        self, record: RunRecord, terms: Terms, decision: Decision, policy: Policy, stands: Stands, fingerprint: str
    ) -> None:
        """Charge, and write down that the run began: while nobody can decide otherwise, or begin another run."""
        with self._ledger.deciding() as transaction:
            stands(record, terms)
            if record.decided(terms.digest) != decision:
                raise IllegalMessage(f"run {terms.run}: somebody decided anew while it began")
            began = budgets.began(self._ledger)
            if terms.run not in began:
                reasons = about_month(policy, terms.run, History(began, self._clock()))
                if reasons:
                    raise IllegalMessage("; ".join(reasons))
            self._charge(transaction, terms, decision.data, fingerprint)
            if not record.began:
                words = {"digest": terms.digest, "data": decision.data, "smallest_group": policy.smallest_group}
                transaction.append("began", terms.run, words)

    def _charge(self, transaction: Transaction, terms: Terms, data: str, fingerprint: str) -> None:
        """For what others may learn, before anything is answered; a run goes on with the data that it began with."""
        others, _, _ = budgets.costs_of(terms, self._name)
        charged = transaction.reserve(
            others.view,
            others.event,
            request=Request(terms.run, 0, budgets.BEGIN, content=terms.digest.encode()),
            unfinished="resume",  # nothing is drawn here: the charge is for what the curator will draw
        )
        first = charged.answer if charged.answer is not None else transaction.commit(charged, fingerprint.encode())
        if first != fingerprint.encode():
            raise IllegalMessage(
                f"run {terms.run}: data set {data} is not what it was when the run began: its rows, its schema or "
                "smallest_group changed"
            )

    def _resumed(self, record: RunRecord, terms: Terms, opened: OpenedData) -> _Active:
        """The owner of the protocol, where it was before: it hears again what it heard, and nothing is charged anew."""
        party = make_owner(
            terms,
            self._name,
            scan=opened.scan,
            key=self._key,
            declared=opened.declared,
            secret=None if terms.split is None else self._home.card_secret(),
        )
        active = _Active(party, purges=record.purges)
        for past in exchanges.exchanges(self._ledger, terms.run):
            if not past.entry:
                continue  # a crash came before it was on record: nothing was sent, and it may come again
            heard, kept = decode(past.heard), past.kept
            replies = carry(party.receive(heard), lambda _wanted, kept=kept: kept)  # type: ignore[misc]
            if tuple(reply.data for reply in replies) != past.replies:
                raise IllegalMessage(f"run {terms.run}: its past does not repeat itself; it cannot go on")
            active.heard(heard, exchanges.rows_in(replies))
        if active.rows.keys() != record.heard:
            raise IllegalMessage(f"run {terms.run}: a part of its past was purged; it cannot go on")
        return active

    def _answered(self, record: RunRecord, active: _Active, message: Message, stands: Stands) -> tuple[Message, ...]:
        """The replies: charged, kept and written down as sent in one write, and only if the decision then stands."""
        terms, slot = active.owner.terms, (message.round, message.body.kind)
        step = active.owner.receive(message)  # reads rows, which may take long: nobody is kept waiting for that
        try:
            with self._ledger.deciding() as transaction:
                stands(record, terms)
                if slot in active.rows:
                    return step.replies  # on record, with what they cost
                if record.heard - active.rows.keys() - {slot}:
                    raise IllegalMessage(f"run {terms.run}: another process answered meanwhile; it may come again")
                replies, rows, as_drawn = self._recorded(transaction, record, active, message, step)
        except BaseException:
            self._let_go(terms)  # it has heard what is not on record
            raise
        active.heard(message, rows)
        if not as_drawn:
            self._let_go(terms)  # it would repeat what it drew, and not what is kept
        return replies

    def _recorded(
        self, transaction: Transaction, record: RunRecord, active: _Active, message: Message, step: Step
    ) -> tuple[tuple[Message, ...], int, bool]:
        """The replies as they are kept, how many rows are in them, and whether the party will say the same again."""
        exchange = exchanges.ExchangeRecord(transaction, self._name, message, active.story)
        charged, most, as_drawn = step.charge is not None, active.owner.terms.rows_per_owner, True
        replies = carry(step, exchange.charge)
        rows = exchanges.rows_in(replies)
        if sum(active.rows.values()) + rows > most:
            raise IllegalMessage(f"run {record.run}: more rows would leave than the {most} that the terms allow")
        if not charged:
            kept = exchange.keep(replies)
            if kept != tuple(reply.data for reply in replies):
                as_drawn, replies = False, tuple(map(decode, kept))  # another process was faster
        words = {
            "entry": exchange.entry,
            "round": message.round,
            "heard": message.body.kind,
            "replies": [reply.body.kind for reply in replies],
            "bytes": sum(len(reply.data) for reply in replies),
            "rows": rows,
        }
        if replies and exchange.entry not in record.sent:
            transaction.append("sent", record.run, words)
        return replies, rows, as_drawn
