"""What a charge costs to whom, and how much an account may spend."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

from likeset.arguments import count, positive
from likeset.errors import ChargeRefused, InvalidArgument, OtherRelation, OtherUnit
from likeset.privacy import accounting, events
from likeset.privacy.events import Event, Relation
from likeset.privacy.guarantee import View, checked_delta, checked_name

__all__ = ["Charge", "Limit", "as_followed", "check_account", "proven_part", "unproven_parts"]


@dataclass(frozen=True, slots=True)
class Limit:
    """How much an account may spend in total, over all runs.

    Args:
        epsilon: of the guarantee; None promises nothing, for an observer who sees rows outright (the
            curator).
        delta: of the guarantee; None exactly if epsilon is.
        relation: of the guarantee; None exactly if epsilon is.
        rows: how many rows may be disclosed, or offered in shares.
        readable: how many of them any one party may read; None: all.
        accept_unproven: names of unproven parts that may be charged to this account. They have no price: once
            one is charged, epsilon bounds the proven part only and the account as a whole has no guarantee
            (its basis becomes ``none``, for good).
    """

    epsilon: float | None
    delta: float | None
    relation: Relation | None
    rows: int = 0
    accept_unproven: tuple[str, ...] = ()
    readable: int | None = None

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
        """Whether every sum of prices within the other limit is within this one."""
        if self.epsilon is None or self.delta is None or other.epsilon is None or other.delta is None:
            return self.epsilon is None
        return other.epsilon <= self.epsilon and other.delta <= self.delta

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "relation": None if self.relation is None else self.relation.value,
            "rows": self.rows,
            "accept_unproven": list(self.accept_unproven),
        } | ({} if self.readable is None else {"readable": self.readable})

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """The limit that ``to_json`` described."""
        relation = document["relation"]
        return cls(
            document["epsilon"],
            document["delta"],
            None if relation is None else Relation(relation),
            document["rows"],
            tuple(document["accept_unproven"]),
            document.get("readable"),  # not in ledgers of before
        )


@dataclass(frozen=True, slots=True)
class Charge:
    """What one draw costs: for each view that it reaches, the event as that view sees it.

    Several views may stand in one charge because one draw can concern several data sets, or cost a coalition
    more than a single owner.

    Attributes:
        costs: for each view what it costs.
        rows: that are disclosed, or offered in shares, at most.
        readable: how many of them one party may read; None: all.
    """

    costs: tuple[tuple[View, Event], ...]
    rows: int
    readable: int | None = None

    def __post_init__(self) -> None:
        count("rows", self.rows, least=0)
        if self.readable is not None:
            count("readable", self.readable, least=0, most=self.rows, most_is="the number of rows")
        views = [view for view, _ in self.costs]
        if len(set(views)) != len(views):
            raise InvalidArgument("also", f"{len(views)} views", "names a view twice")
        events.Composition(tuple(event for _, event in self.costs))  # one draw is planned under one relation

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        costs = [{"view": view.to_json(), "event": events.as_json(event)} for view, event in self.costs]
        read = {} if self.readable is None else {"readable": self.readable}
        return {"costs": costs, "rows": self.rows, **read}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """The charge that ``to_json`` described."""
        costs = ((View.from_json(cost["view"]), events.from_json(cost["event"])) for cost in document["costs"])
        return cls(tuple(costs), document["rows"], document.get("readable"))

    @property
    def read_at_most(self) -> int:
        """Rows that one party may read."""
        return self.rows if self.readable is None else self.readable

    @property
    def free(self) -> bool:
        """Whether it costs nobody anything: what leaves was charged before."""
        return not self.rows and all(isinstance(event, events.NoRelease) for _, event in self.costs)

    def reaches(self, account: View) -> bool:
        """Whether the account's observer hears any of it."""
        return any(account.hears(view) for view, _ in self.costs)

    def cost_to(self, account: View) -> tuple[Event, ...]:
        """What an account has to pay: one event if some view in the charge covers it, else all that it hears.

        Raises:
            ChargeRefused: the price was made for a single owner, and the account is of owners who compare
                notes.
        """
        covering = [(view, event) for view, event in self.costs if view.covers(account)]
        if covering:
            # The price for the fewest observers is the closest bound; a view without names means all of them.
            narrowest = min(covering, key=lambda cost: (not cost[0].coalition, len(cost[0].coalition)))
            due = [narrowest]
        else:
            due = [(view, event) for view, event in self.costs if account.hears(view)]
        if len(account.coalition) != 1 and any(_for_one_owner(event) for _, event in due):
            raise ChargeRefused(
                f"account ({account}): the charge is priced for a single owner, and owners who compare notes "
                "learn more; charge the coalition's price as well (also=...)"
            )
        return tuple(event for _, event in due)


def check_account(account: View, limit: Limit, unit: str | None, event: Event) -> None:
    """An account adds up prices under one relation and for one unit of privacy: other prices have no meaning there.

    Args:
        account: whose it is.
        limit: of the account; one without an epsilon adds up no prices.
        unit: of the charges so far, in words; None if there was none that has a unit.
        event: to be charged.

    Raises:
        OtherRelation: the event was planned under another relation.
        OtherUnit: the event was planned for another unit.
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
    """Name and reason of each part of an event that has no proof."""
    parts: dict[str, str] = {}
    for leaf in _leaves(event):
        reasons = accounting.obstacles(leaf)
        if reasons:
            parts[_kind(leaf)] = "; ".join(reasons)
    return tuple(parts.items())


def proven_part(event: Event) -> Event:
    """The event without the parts that have no proof; whole, if it has none of those."""
    if isinstance(event, events.ThresholdAuction) and not accounting.obstacles(event):
        return event
    if not accounting.obstacles(event):
        return as_followed(event)  # whole: a plan fixed in advance has a better price than its steps one by one
    return as_followed(events.Composition(tuple(leaf for leaf in _leaves(event) if not accounting.obstacles(leaf))))


def as_followed(event: Event) -> Event:
    """The event as it has to be priced once another release follows.

    What a single owner hears of a threshold auction is cheap only as long as nothing that it hears later depends on
    who else was asked.
    """
    match event:
        case events.ThresholdAuction():
            return replace(event, observer=events.Observer.COALITION)
        case events.Composition():
            return events.Composition(tuple(as_followed(part) for part in event.events))
        case events.Repeated():
            return events.Repeated(as_followed(event.event), event.times)
        case _:
            return event


def _leaves(event: Event) -> Iterator[Event]:
    """The parts of an event that are proven or not each by itself."""
    match event:
        case events.Composition():
            for part in event.events:
                yield from _leaves(part)
        case events.Repeated():
            # Kept together: the price of a repetition is not the price of one part.
            for leaf in _leaves(event.event):
                yield events.Repeated(leaf, event.times)
        case _:
            yield event


def _kind(event: Event) -> str:
    while isinstance(event, events.Repeated):
        event = event.event
    return str(events.as_json(event)["kind"])


def _for_one_owner(event: Event) -> bool:
    match event:
        case events.ThresholdAuction():
            return event.observer is events.Observer.ONE_OWNER
        case events.Composition():
            return any(_for_one_owner(part) for part in event.events)
        case events.Repeated() | events.Simulated():
            return _for_one_owner(event.event)
        case _:
            return False
