"""From lines to curves: the same method over seeds, by size, with what it is compared to."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Self

from studies.contract import RecordLine
from studies.methods import METHODS

Group = tuple[str, float | None, float | None]
"""Market, scale, gamma: what one panel shows."""


@dataclass(frozen=True, slots=True)
class Series:
    """One method, at one epsilon and number of offers, over seeds and sizes."""

    method: str
    epsilon: float | None
    offers: int | None

    @classmethod
    def of(cls, line: RecordLine) -> Self:
        """The one that a line belongs to."""
        return cls(line["method"], line["epsilon"], line["offers"])

    def has(self, line: RecordLine) -> bool:
        """Whether the line belongs to it."""
        return (line["method"], line["epsilon"], line["offers"]) == (self.method, self.epsilon, self.offers)


def label(series: Series) -> str:
    """In legends and tables."""
    words = METHODS[series.method].label
    words += "" if series.epsilon is None else f", ε = {series.epsilon:g}"
    return words if series.offers is None else f"{words}, {series.offers} each"


def width_words(group: Group) -> str:
    """The kernel in words."""
    _, scale, gamma = group
    return f"gamma·median = {scale:g}" if gamma is None else f"gamma = {gamma:g}"


def results_by_size(lines: Iterable[RecordLine], series: Series, result: str) -> dict[int, list[float]]:
    """One result of a method by size, over seeds."""
    values: dict[int, list[float]] = {}
    for line in lines:
        if series.has(line):
            values.setdefault(line["size"], []).append(line.results[result])
    return dict(sorted(values.items()))


def increase(lines: Sequence[RecordLine], series: Series, *, over: str, result: str) -> dict[int, list[float]]:
    """By how many percent a result lies above that of another method with the same seed and size."""
    base: Mapping[tuple[int, int], float] = {
        (line["seed"], line["size"]): line.results[result] for line in lines if line["method"] == over
    }
    increases: dict[int, list[float]] = {}
    for line in lines:
        pair = line["seed"], line["size"]
        if series.has(line) and pair in base:
            increases.setdefault(line["size"], []).append(100.0 * (line.results[result] / base[pair] - 1.0))
    return dict(sorted(increases.items()))


def spread(values: Sequence[float], form: str) -> str:
    """Mean and, after ±, standard deviation over seeds."""
    if not values:
        return "-"
    if len(values) == 1:
        return f"{values[0]:{form}}"
    return f"{fmean(values):{form}} ± {stdev(values):{form.lstrip('+')}}"
