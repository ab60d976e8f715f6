"""The statement at the end: how much, under which relation, and on whose word."""

import math
from dataclasses import dataclass
from enum import StrEnum

from likeset.errors import InvalidArgument
from likeset.privacy.relation import Relation

__all__ = ["Basis", "Guarantee", "bound_in_words", "checked_delta", "guess_in_words"]


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
    """(epsilon, delta)-differential privacy under a relation, on a basis.

    Args:
        epsilon: the bound; infinite if, and only if, there is none.
        delta: at which epsilon is stated.
        relation: what neighbouring data are.
        basis: on whose word.
        note: how it was computed, or what stands in the way.
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
    """The same, with the bound that it stands beside."""
    return f"{guess_in_words(probability, relation=relation, unit=unit)} (epsilon {epsilon:.4g}, delta {delta:g})"


def checked_delta(delta: float) -> float:
    """A probability that can stand in a guarantee."""
    if isinstance(delta, bool) or not 0.0 <= delta < 1.0:
        raise InvalidArgument("delta", delta, "must be at least 0 and below 1")
    return float(delta)
