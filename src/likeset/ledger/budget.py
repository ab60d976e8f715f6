"""Budgets and charges: which charge an account accepts, by relation, unit and limit."""

import copy
import hashlib
import hmac
import json
from dataclasses import dataclass, field
from typing import Any, Self

from likeset.arguments import checked_name, count, positive
from likeset.errors import BudgetExceeded, ChargeRefused, InvalidArgument, OtherRelation, OtherUnit, UnprovenPart
from likeset.privacy import accounting, events
from likeset.privacy.accounting import Basis, checked_delta
from likeset.privacy.events import Event, Relation, View, unit_of


def canonical(document: Any) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


@dataclass(frozen=True, slots=True)
class Limit:
    """How much an account may spend in total, over all runs.

    Unproven parts have no price: once one is charged, epsilon bounds the proven part only and the account as a whole
    has no guarantee (its basis becomes ``none``, for good).
    """

    epsilon: float | None  # None, as delta and relation: nothing is promised, as toward a curator who sees rows
    delta: float | None
    relation: Relation | None
    rows: int = 0  # that may be disclosed, or offered in shares
    accept_unproven: tuple[str, ...] = ()  # names of unproven parts that may be charged
    readable: int | None = None  # how many rows any one party may read; None: all

    def __post_init__(self) -> None:
        count("rows", self.rows, least=0)
        if self.readable is not None:
            count("readable", self.readable, least=0)
        if len({self.epsilon is None, self.delta is None, self.relation is None}) == 2:
            raise InvalidArgument("epsilon", self.epsilon, "goes with a delta and a relation: give all or none")
        if self.epsilon is not None and self.delta is not None:
            positive("epsilon", self.epsilon, zero=True)
            checked_delta(self.delta)
            if not isinstance(self.relation, Relation):
                raise InvalidArgument("relation", repr(self.relation), "must be a Relation")
        for name in self.accept_unproven:
            checked_name("accept_unproven", name)

    @classmethod
    def rows_only(cls, rows: int, *, readable: int | None = None) -> Self:
        """For an observer who sees rows: their number is limited, and nothing is promised about the rest."""
        return cls(None, None, None, rows, readable=readable)

    def allows_all_of(self, other: "Limit") -> bool:
        if self.epsilon is None or self.delta is None or other.epsilon is None or other.delta is None:
            return self.epsilon is None
        return other.epsilon <= self.epsilon and other.delta <= self.delta

    def to_json(self) -> dict[str, Any]:
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "relation": None if self.relation is None else self.relation.value,
            "rows": self.rows,
            "accept_unproven": list(self.accept_unproven),
        } | ({} if self.readable is None else {"readable": self.readable})

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        relation = document["relation"]
        return cls(
            document["epsilon"],
            document["delta"],
            None if relation is None else Relation(relation),
            document["rows"],
            tuple(document["accept_unproven"]),
            document.get("readable"),  # absent if all rows are readable
        )


@dataclass(frozen=True, slots=True)
class Charge:
    """What one draw costs: for each view that it reaches, the event as that view sees it.

    Several views stand in one charge where one draw concerns several data sets.
    """

    costs: tuple[tuple[View, Event], ...]
    rows: int = 0  # that are disclosed, or offered in shares, at most
    readable: int | None = None  # how many of them one party may read; None: all

    def __post_init__(self) -> None:
        count("rows", self.rows, least=0)
        if self.readable is not None:
            count("readable", self.readable, least=0, most=self.rows, most_is="the number of rows")
        views = [view for view, _ in self.costs]
        if len(set(views)) != len(views):
            raise InvalidArgument("costs", f"{len(views)} views", "names a view twice")
        steps = (step for _, event in self.costs for step in events.steps(event))
        auctions = (step for step in steps if isinstance(step, events.ThresholdAuction))
        if any(auction.observer is events.Observer.ONE_OWNER for auction in auctions):
            raise ChargeRefused(
                "the charge is priced for a single owner, and owners who compare notes learn more; charge the price "
                "for any coalition"
            )
        events.Composition(tuple(event for _, event in self.costs))  # one draw is planned under one relation

    def to_json(self) -> dict[str, Any]:
        costs = [{"view": view.to_json(), "event": events.as_json(event)} for view, event in self.costs]
        read = {} if self.readable is None else {"readable": self.readable}
        return {"costs": costs, "rows": self.rows, **read}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        costs = ((View.from_json(cost["view"]), events.from_json(cost["event"])) for cost in document["costs"])
        return cls(tuple(costs), document["rows"], document.get("readable"))

    @property
    def read_at_most(self) -> int:
        return self.rows if self.readable is None else self.readable

    @property
    def free(self) -> bool:
        """Whether it costs nobody anything: what leaves was charged before."""
        return not self.rows and all(isinstance(event, events.NoRelease) for _, event in self.costs)

    def event_for(self, account: View) -> Event:
        return dict(self.costs)[account]


def check_account(account: View, limit: Limit, unit: str | None, event: Event) -> None:
    """An account adds up prices under one relation and for one unit of privacy: other prices have no meaning there.

    A limit without an epsilon adds up no prices; ``unit`` is that of the charges so far, None if none had one.
    """
    if limit.relation is None:
        return
    planned = events.relation_of(event)
    if planned is not None and planned is not limit.relation:
        raise OtherRelation(str(account), account=limit.relation, planned=planned)
    protected = events.unit_of(event)
    if None not in (unit, protected) and protected != unit:
        raise OtherUnit(str(account), account=str(unit), planned=str(protected))


def unproven_parts(event: Event) -> tuple[tuple[str, str], ...]:
    parts: dict[str, str] = {}
    for leaf, _ in accounting.leaves(event):
        if reasons := accounting.obstacles(leaf):
            parts[str(events.as_json(leaf)["kind"])] = "; ".join(reasons)
    return tuple(parts.items())


def proven_part(event: Event) -> Event:
    if not accounting.obstacles(event):
        return event  # whole: a plan fixed in advance has a better price than its steps one by one
    proven = [each for each in accounting.leaves(event) if not accounting.obstacles(each[0])]
    return events.Composition(tuple(events.Repeated(leaf, times) for leaf, times in proven))


_ROUNDING = 1e-9
"""Relative: a budget that was split into equal charges must not fail at the last one because of rounding."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request. Each (run, round, kind) is answered once; asked again, it gets the same bytes."""

    run: str
    round: int
    kind: str  # contains the name of the party that answers, if one ledger serves several
    content: bytes = field(default=b"", repr=False)  # tells a repetition from another request

    def __post_init__(self) -> None:
        checked_name("run", self.run)
        checked_name("kind", self.kind)
        count("round", self.round, least=0)

    @property
    def key(self) -> str:
        return canonical([self.run, self.round, self.kind])

    def fingerprint(self, charge: Charge, key: bytes) -> str:
        """A keyed digest of the charge and the content; without the key it says nothing about them."""
        return hmac.new(key, canonical(charge.to_json()).encode() + b"\n" + self.content, hashlib.sha256).hexdigest()

    def __str__(self) -> str:
        return f"run {self.run}, round {self.round}, {self.kind}"


@dataclass(frozen=True, slots=True)
class Account:
    view: View
    limit: Limit
    epsilon: float | None  # of the proven charges, at the limit's delta; None if the limit promises nothing
    rows: int  # disclosed, or offered in shares
    unproven: tuple[str, ...]  # names of the unproven parts that were charged
    charges: int
    readable: int = 0  # how many of the rows one party could read
    unit: str | None = None  # of privacy, in words: that of the first charge that has one
    deltas: tuple[float, ...] = ()  # of each limit that may have allowed charges; raising a limit adds one

    @property
    def delta(self) -> float | None:
        """At which the account's epsilon holds over all charges (docs/proofs/ledger.md, a changed limit)."""
        return sum(self.deltas) if self.deltas else None

    @property
    def basis(self) -> Basis:
        return Basis.NONE if self.unproven or self.epsilon is None else Basis.PROVEN


class Tally:
    def __init__(self, view: View, limit: Limit) -> None:
        self._view = view
        self._limit = limit
        self._filter: accounting.Filter | None = None
        if limit.relation is not None and limit.delta is not None:
            self._filter = accounting.Filter.empty(relation=limit.relation, delta=limit.delta)
        self._rows = self._readable = 0
        self._charges = 0
        self._unproven: frozenset[str] = frozenset()
        self._unit: str | None = None
        self._limits: tuple[Limit, ...] = (limit,)

    def account(self) -> Account:
        spent = None if self._filter is None else self._filter.epsilon
        unproven, deltas = tuple(sorted(self._unproven)), (limit.delta for limit in self._limits)
        counts = self._rows, unproven, self._charges, self._readable, self._unit
        return Account(self._view, self._limit, spent, *counts, tuple(delta for delta in deltas if delta is not None))

    def copy(self) -> "Tally":
        return copy.copy(self)  # no attribute is changed in place

    def after(self, earlier: "Tally") -> "Tally":
        """The same sum, with the limits under which charges were made before this one.

        One that allows no more than another adds nothing: what it allowed, the other allows as well.
        """
        twin = self.copy()
        if earlier._filter is not None and earlier._filter.charges:
            covered = any(limit.allows_all_of(self._limit) for limit in earlier._limits)
            twin._limits = earlier._limits if covered else (*earlier._limits, self._limit)
        return twin

    def add(self, charge: Charge) -> None:
        if charge.free:  # most are: answers that were paid for when the run began
            self._charges += 1
            return
        event = charge.event_for(self._view)
        check_account(self._view, self._limit, self._unit, event)
        self._unproven |= {name for name, _ in unproven_parts(event)}
        if self._filter is not None:
            self._unit = self._unit or unit_of(event)
            self._filter = self._filter.add(proven_part(event))
        self._rows += charge.rows
        self._readable += charge.read_at_most
        self._charges += 1

    def check(self, charge: Charge) -> None:
        """Raise if the limit does not allow the charge; nothing is counted."""
        if self._rows + charge.rows > self._limit.rows:
            raise BudgetExceeded(
                str(self._view), spent=self._rows, requested=charge.rows, limit=self._limit.rows, unit="rows"
            )
        most_readable = self._limit.rows if self._limit.readable is None else self._limit.readable
        if self._readable + charge.read_at_most > most_readable:
            raise BudgetExceeded(
                str(self._view),
                spent=self._readable,
                requested=charge.read_at_most,
                limit=most_readable,
                unit="rows that one party may read",
            )
        after = self.copy()
        after.add(charge)
        if self._limit.epsilon is None or self._filter is None:
            return
        for name, reason in unproven_parts(charge.event_for(self._view)):
            if name not in self._limit.accept_unproven:
                raise UnprovenPart(name, f"{reason} (account: {self._view})")
        if after._filter is not None and not after._filter.epsilon <= self._limit.epsilon * (1 + _ROUNDING):
            alone = Tally(self._view, self._limit)
            alone.add(charge)
            raise BudgetExceeded(
                str(self._view),
                spent=self._filter.epsilon,
                requested=0.0 if alone._filter is None else alone._filter.epsilon,
                limit=self._limit.epsilon,
                unit=f"epsilon at delta = {self._limit.delta:g}, {self._limit.relation}",
            )
