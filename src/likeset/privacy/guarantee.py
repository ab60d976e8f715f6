"""The statement at the end: how much, under which relation, on whose word, and for which view."""

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Self, get_args

from likeset.errors import InvalidArgument
from likeset.privacy.events import Relation


class Basis(StrEnum):
    """On whose word a guarantee rests."""

    PROVEN = "proven"
    """A proof in docs/proofs covers what was done."""

    CLAIMED = "claimed"
    """The paper says so; shown for comparison only."""

    NONE = "none"
    """Nobody can say: the epsilon is infinite and the note says why."""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """(epsilon, delta)-differential privacy under a relation, on a basis; infinite if, and only if, there is no bound.

    ``note`` says how it was computed, or what stands in the way.
    """

    epsilon: float
    delta: float
    relation: Relation
    basis: Basis
    note: str

    def __post_init__(self) -> None:
        checked_delta(self.delta)
        if math.isnan(self.epsilon) or self.epsilon < 0:
            raise InvalidArgument("epsilon", self.epsilon, "must be zero or more")
        # A number beside the word "none" would be read as a number.
        if math.isinf(self.epsilon) != (self.basis is Basis.NONE):
            raise InvalidArgument("basis", self.basis, f"does not go with epsilon = {self.epsilon}")

    def __str__(self) -> str:
        if self.basis is Basis.NONE:
            return f"no guarantee ({self.note})"
        return f"epsilon = {self.epsilon:.4g} at delta = {self.delta:g}, {self.relation}, {self.basis}"


def guess_in_words(probability: float, *, relation: str, unit: str) -> str:
    """What ``accounting.guess_probability`` says about one unit: a part of a sentence, the same on every screen.

    Two candidates for a unit are neighbours under replace-one. Under add-or-remove they are two steps apart, and
    neighbours are data with and without the unit.
    """
    percent = math.ceil(1000.0 * probability - 1e-9) / 10.0
    guessed = f"about {unit}" if relation == Relation.REPLACE_ONE else f"whether {unit} takes part"
    return f"a coin-flip guess {guessed} becomes correct at most {percent:g}% of the time"


def bound_in_words(probability: float, *, epsilon: float, delta: float, relation: str, unit: str) -> str:
    return f"{guess_in_words(probability, relation=relation, unit=unit)} (epsilon {epsilon:.4g}, delta {delta:g})"


def checked_delta(delta: float) -> float:
    if isinstance(delta, bool) or not 0.0 <= delta < 1.0:
        raise InvalidArgument("delta", delta, "must be at least 0 and below 1")
    return float(delta)


# Who observes, and whose rows are protected: every guarantee and every budget is stated for one such view.
#
# Owners may compare what they heard: ``View.owners(data)`` is any coalition of owners other than the one whose data set
# it is.

ObserverRole = Literal["owners", "curator", "consumer"]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}")


def checked_name(argument: str, value: str) -> str:
    """A name that may stand in records and messages: short, printable, without blanks."""
    if not isinstance(value, str) or _NAME.fullmatch(value) is None:
        shown = f"text of {len(value)} characters" if isinstance(value, str) else type(value).__name__
        raise InvalidArgument(
            argument, shown, "must be 1 to 128 letters, digits or ._:/@- and start with a letter or digit"
        )
    return value


@dataclass(frozen=True, slots=True, order=True)
class View:
    """What one observer can learn about the data set ``protected``."""

    observer: ObserverRole
    protected: str

    def __post_init__(self) -> None:
        if self.observer not in get_args(ObserverRole):
            raise InvalidArgument("observer", repr(self.observer), "must be one of owners, curator, consumer")
        checked_name("protected", self.protected)

    @classmethod
    def owners(cls, protected: str) -> Self:
        """Any coalition of owners."""
        return cls("owners", protected)

    @classmethod
    def curator(cls, protected: str) -> Self:
        return cls("curator", protected)

    @classmethod
    def consumer(cls, protected: str) -> Self:
        return cls("consumer", protected)

    def to_json(self) -> dict[str, Any]:
        # The empty coalition is any; digests of requests cover it.
        return {"observer": self.observer, "protected": self.protected, "coalition": []}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        if document["coalition"]:
            raise InvalidArgument("coalition", f"{len(document['coalition'])} names", "must be empty: any coalition")
        return cls(document["observer"], document["protected"])

    def __str__(self) -> str:
        return f"{'any owners see' if self.observer == 'owners' else f'{self.observer} sees'} {self.protected}"
