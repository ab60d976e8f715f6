"""The entries about budgets, folded into what they mean: accounts, requests and their answers.

Nothing here is stored: the entries are the truth, and every process folds them for itself, checking each link
of the chain as it goes.
"""

import marshal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from likeset.errors import ChargeRefused, LikesetError, OtherRelation, UnknownEvent
from likeset.ledger.accounts import Account, Tally
from likeset.ledger.chain import START, Entry, Head, Problem
from likeset.ledger.charges import Charge, Limit
from likeset.ledger.entry_kinds import AUDIT
from likeset.privacy.guarantee import View

__all__ = ["FORMAT", "Answer", "Charged", "Known", "LedgerState"]

FORMAT = 3
"""The version of what the bodies of entries hold, the JSON form of events (``events.VERSION``) included."""


_MOST_CHARGES, _MOST_TRIALS = 1024, 8


class Charged(NamedTuple):
    """A charge that was made.

    Attributes:
        entry: that reserved it.
        key: of the request that it was for.
        at: when (UTC).
        charge: what it cost.
    """

    entry: int
    key: str
    at: str
    charge: Charge


@dataclass(frozen=True, slots=True)
class Answer:
    """That a request was answered: by which reservation, and the salted digest of the bytes."""

    number: int
    digest: str


@dataclass(slots=True)
class Known:
    """A request that was charged at least once; ``repeatable`` if every time as one that may be resumed."""

    fingerprint: str
    charge: Charge
    repeatable: bool = True
    reservations: list[int] = field(default_factory=list)
    answer: Answer | None = None


class LedgerState:
    """What a prefix of the chain means.

    Args:
        checking: also check that every charge was within the limits in force when it was made.
    """

    def __init__(self, *, checking: bool = False) -> None:
        self._checking = checking
        self.head: Head = START
        self.identity = ""
        self.requests: dict[str, Known] = {}
        self._limits: dict[View, Limit] = {}
        self._tallies: dict[View, Tally] = {}
        self._places: dict[tuple[str, str], dict[View, int]] = {}  # of accounts, by observer and data set
        self._charges: list[Charged] = []
        self._trials: dict[tuple[View, Limit], tuple[Tally, int]] = {}
        self._read_charges: dict[bytes, tuple[Charge, list[Tally]]] = {}
        self._changed_limits = False
        self._other_format = False

    def accounts(self, limits: Mapping[View, Limit]) -> tuple[Account, ...]:
        """Every account, in the order in which they were opened; as it would be under limits that are given."""
        return tuple(tally.account() for tally in self._under(limits).values())

    def limit(self, view: View) -> Limit | None:
        """The limit in force for a view, if it has an account."""
        return self._limits.get(view)

    @property
    def charges(self) -> Sequence[Charged]:
        """Every charge, oldest first."""
        return self._charges

    def tally(self, view: View, limit: Limit) -> Tally:
        """What the charges so far would add up to on an account with this view and limit.

        Added up once for each limit that somebody asks about, and from then on charge by charge: whoever changes a
        limit is shown many runs under the new one before it is in force.
        """
        tally, counted = self._trials.pop((view, limit), (None, 0))
        tally = Tally(view, limit) if tally is None else tally
        for charged in self._charges[counted:]:
            if charged.charge.reaches(view):
                tally.add(charged.charge)
        while len(self._trials) >= _MOST_TRIALS:
            del self._trials[next(iter(self._trials))]
        self._trials[view, limit] = tally, len(self._charges)
        return tally.after(self._tallies[view]) if view in self._tallies else tally.copy()

    def surely_within_limits(self) -> bool:
        """Whether the sums alone show that every charge was within its limits: sums only grow.

        Where a limit was changed, or is passed at the end, each charge has to be looked at (``checking``).
        """
        return not self._changed_limits and all(tally.within_limit() for tally in self._tallies.values())

    def check(self, charge: Charge) -> None:
        """Raise if an account that hears the charge cannot pay it, or no account answers for it."""
        for tally in self._reached(charge, self._near(charge)):
            tally.check(charge)

    def quote(self, charge: Charge, limits: Mapping[View, Limit]) -> tuple[tuple[Account, Account], ...]:
        """Each account that hears the charge, before and after it, whether or not it can pay; limits as in accounts."""
        pairs = []
        for tally in self._reached(charge, self._under(limits)):
            after = tally.copy()
            after.add(charge)
            pairs.append((tally.account(), after.account()))
        return tuple(pairs)

    def apply(self, entry: Entry, document: Any) -> Problem | None:
        """Take in the next entry; what it says must make sense after those before it. Those of audit change nothing.

        Args:
            entry: the entry.
            document: what its body says.
        """
        self.head = Head(entry.number, entry.hash)
        if self._other_format or entry.kind in AUDIT:
            return None  # of another format: what the entries after it mean is not known here, and it was said
        try:
            return self._apply(entry, document)
        except OtherRelation as error:
            return Problem(
                entry.number,
                f"counts what was planned under {error.planned} on an account under {error.account}: no price there",
            )
        except UnknownEvent:
            return Problem(entry.number, "holds an event that this version of likeset does not know")
        except (LikesetError, KeyError, TypeError, ValueError, AttributeError) as error:
            # The text of the error may quote the entry, and entries written by a stranger may hold anything.
            return Problem(entry.number, f"does not say what an entry of its kind says ({type(error).__name__})")

    def _apply(self, entry: Entry, document: Any) -> Problem | None:
        match entry.kind:
            case "open":
                return self._opened(entry, document)
            case "limit":
                self._limited(document)
                return None
            case "reserve":
                return self._reserved(entry, document)
            case "commit":
                return self._committed(entry, document)
            case "purge":
                return None
            case _:
                return Problem(entry.number, "is of no known kind")

    def _under(self, limits: Mapping[View, Limit]) -> dict[View, Tally]:
        """The accounts as they are, but under the limits that are given."""
        other = {view: self.tally(view, limit) for view, limit in limits.items() if limit != self._limits.get(view)}
        return {**self._tallies, **other}

    def _near(self, charge: Charge) -> dict[View, Tally]:
        """The accounts with the observers and data sets of a charge, in their order: no other hears or covers it."""
        places: dict[View, int] = {}
        for view, _ in charge.costs:
            places |= self._places.get((view.observer, view.protected), {})
        return {view: self._tallies[view] for view in sorted(places, key=places.__getitem__)}

    def _reached(self, charge: Charge, tallies: Mapping[View, Tally]) -> list[Tally]:
        for view, _ in charge.costs:
            if not any(account.covers(view) for account in tallies):
                raise ChargeRefused(f"no account answers for the view ({view}); set a limit for it first")
        return [tally for view, tally in tallies.items() if charge.reaches(view)]

    def _opened(self, entry: Entry, document: Any) -> Problem | None:
        if entry.number != 1:
            return Problem(entry.number, "opens the ledger a second time")
        if document["format"] != FORMAT:
            self._other_format = True
            return Problem(
                entry.number,
                f"has format {document['format']}, this version reads {FORMAT}: only the likeset that wrote the ledger "
                "can count its charges; begin a new one, with limits less what was spent",
            )
        self.identity = document["identity"]
        return None

    def _limited(self, document: Any) -> None:
        view, limit = View.from_json(document["view"]), Limit.from_json(document["limit"])
        self._changed_limits |= view in self._limits
        self._places.setdefault((view.observer, view.protected), {}).setdefault(view, len(self._tallies))
        self._tallies[view] = self.tally(view, limit)
        self._limits[view] = limit
        self._read_charges.clear()

    def _reserved(self, entry: Entry, document: Any) -> Problem | None:
        charge, reached = self._charge(document["charge"])
        known = self.requests.setdefault(entry.key, Known(document["fingerprint"], charge))
        known.repeatable &= document.get("repeatable") is True
        problem = None
        if known.answer is not None or known.fingerprint != document["fingerprint"]:
            problem = Problem(entry.number, "charges a request that was already answered, or was another one")
        if self._checking:
            try:
                self.check(charge)
            except LikesetError:
                problem = Problem(entry.number, "passes a limit that was in force, as this version counts")
        for tally in reached:
            tally.add(charge)
        self._charges.append(Charged(entry.number, entry.key, document["at"], charge))
        known.reservations.append(entry.number)
        return problem

    def _committed(self, entry: Entry, document: Any) -> Problem | None:
        known = self.requests.get(entry.key)
        if known is None or document["reservation"] not in known.reservations:
            return Problem(entry.number, "answers a request that was never charged")
        if known.answer is not None:
            return Problem(entry.number, "answers a request a second time")
        known.answer = Answer(document["reservation"], document["digest"])
        return None

    def _charge(self, document: Any) -> tuple[Charge, list[Tally]]:
        """The charge that plain data describe, and whom it reaches; rounds of a run have the same, made once."""
        text = marshal.dumps(document, 2)  # the quickest that tells equal data from others; nobody loads it
        if text not in self._read_charges:
            if len(self._read_charges) >= _MOST_CHARGES:
                self._read_charges.clear()
            charge = Charge.from_json(document)
            self._read_charges[text] = charge, self._reached(charge, self._near(charge))
        return self._read_charges[text]
