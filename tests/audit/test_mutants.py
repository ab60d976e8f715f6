"""A wrong sensitivity changes claims of the suite, and the same suite refutes them.

Each mutant is planted into ``privacy.events``; then only trials whose claims changed are run, one of each mechanism
that the test names. What they observe has not changed: their noise follows from the pair, not from a sensitivity.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from chance import PINNED
from likeset.audit.harness import Trial, run_trial
from likeset.audit.sound_trials import sound_trials
from likeset.privacy.events import ROW, PairSplit, Relation, RowSum, SelectionSum

Summed = RowSum | SelectionSum
_RIGHT: Callable[[Summed], float] = vars(RowSum)["sensitivity"].fget  # asked of a RowSum it would be the mutant


def rows_per_unit_ignored(quantity: Summed) -> float:
    return _RIGHT(replace(quantity, unit=ROW))


def removal_a_hundred_times_too_small(quantity: Summed) -> float:
    return _RIGHT(quantity) * (0.01 if quantity.relation is Relation.ADD_OR_REMOVE else 1.0)


def removal_priced_for_replacement(quantity: Summed) -> float:
    return _RIGHT(replace(quantity, relation=Relation.ADD_OR_REMOVE))


def a_thousandth(_: Summed) -> float:
    return 1e-3


def selection_as_plain_sum(quantity: Summed) -> float:
    return _RIGHT(quantity)


def pair_counted_once(quantity: PairSplit) -> float:
    return float(quantity.unit.rows)


MUTANTS: list[tuple[type, Callable[[Any], float], set[str]]] = [
    (RowSum, rows_per_unit_ignored, {"discrete Laplace", "discrete Gaussian", "gaussian mean"}),
    (RowSum, removal_a_hundred_times_too_small, {"discrete Laplace", "discrete Gaussian", "gaussian mean"}),
    (RowSum, removal_priced_for_replacement, {"discrete Laplace", "gaussian mean"}),
    (SelectionSum, a_thousandth, {"gaussian mean of rows selected for the summary"}),
    (SelectionSum, selection_as_plain_sum, {"gaussian mean of rows selected for the summary"}),
    (PairSplit, pair_counted_once, {"width choice"}),
]


def refutes(trials: list[Trial]) -> bool:
    return any(verdict.violated for trial in trials for verdict in run_trial(trial))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "mutant", "refuted_by"), MUTANTS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_wrong_sensitivity_is_refuted(
    monkeypatch: pytest.MonkeyPatch,
    kind: type,
    mutant: Callable[[Any], float],
    refuted_by: set[str],
) -> None:
    before = right_suite()
    monkeypatch.setattr(kind, "sensitivity", property(mutant))
    after = sound_trials(PINNED)
    suspects = [new for old, new in zip(before, after, strict=True) if old.claims != new.claims]
    for mechanism in sorted(refuted_by):
        mine = [trial for trial in suspects if trial.mechanism.split(",")[0] == mechanism]
        assert mine, f"no claim about {mechanism} has changed"
        # The last one has several rows to a unit, or rows that are removed: one trial is enough to refute.
        assert refutes(mine[-1:]), mechanism


@cache
def right_suite() -> list[Trial]:
    return sound_trials(PINNED)
