"""The paper's own arithmetic, reproduced, beside what is proven for the same settings.

Settings of its Section 4: d = 140, T = floor(140^1.5) = 1656 steps at 0.01 for the target; p = 500 rounds of
5 steps at 0.01/sqrt(5 * 500) = 0.0002 for the summary; 1656 steps at 0.05 for the first release of the
summary.
"""

import math
from typing import Any

import pytest

from likeset.errors import InvalidArgument
from likeset.privacy import auction, mwem_mean
from likeset.privacy.accounting import Basis, guarantee
from likeset.privacy.events import ROW, Event, Norm, Relation, Repeated, RowSum, SelectionSum
from studies.contract import Options
from studies.prices import STUDY, dwork_rothblum_vadhan, kairouz_oh_viswanath, paper_preconditions, price_comparison

EXPERIMENT = mwem_mean.schedule("experiment", dimension=140, size=500, epsilon=1.0, delta=1e-5)


def _row(relation: Relation) -> RowSum:
    return RowSum(norm=Norm.COORDINATE, radius=1.0, unit=ROW, relation=relation)


TARGET = EXPERIMENT.target.event(_row(Relation.REPLACE_ONE))
SUMMARY = Repeated(EXPERIMENT.summary(2).event(_row(Relation.REPLACE_ONE)), 500)
SELECTED = SelectionSum(norm=Norm.COORDINATE, radius=1.0, unit=ROW, relation=Relation.REPLACE_ONE)
SUMMARY_OF_OWNERS = Repeated(EXPERIMENT.summary(2).event(SELECTED), 500)


def test_the_settings_are_the_papers() -> None:
    assert (EXPERIMENT.target.iterations, EXPERIMENT.target.epsilon) == (1656, 0.01)
    assert (EXPERIMENT.summary(1).iterations, EXPERIMENT.summary(1).epsilon) == (1656, 0.05)
    assert EXPERIMENT.summary(2) == EXPERIMENT.summary(500)
    assert EXPERIMENT.summary(2).iterations == 5
    assert EXPERIMENT.summary(2).epsilon == pytest.approx(0.0002)


def test_the_totals_that_the_paper_prints() -> None:
    """1.4 and 0.043: Dwork-Rothblum-Vadhan for one mechanism per step.

    0.01 sqrt(2 * 1656 log 100) + 1656 * 0.01 (e^0.01 - 1) = 1.2350 + 0.1664.
    """
    assert dwork_rothblum_vadhan(0.01, 1656, 0.01) == pytest.approx(1.4014, abs=1e-4)
    assert dwork_rothblum_vadhan(0.0002, 2500, 1e-4) == pytest.approx(0.0430, abs=1e-4)


def test_the_totals_of_the_theorem_that_the_paper_cites() -> None:
    """For T mechanisms and for 2T; the first by hand.

    1656 * 0.01 (e^0.01 - 1)/(e^0.01 + 1) = 0.0828; sqrt(2 * 1656 * 0.0001 log(e + 57.55/1)) = 1.1651.
    """
    assert kairouz_oh_viswanath(0.01, 1656, 0.01) == pytest.approx(1.248, abs=5e-4)
    assert kairouz_oh_viswanath(0.01, 3312, 0.01) == pytest.approx(1.879, abs=5e-4)
    assert kairouz_oh_viswanath(0.0002, 2500, 1e-4) == pytest.approx(0.0316, abs=5e-5)
    assert kairouz_oh_viswanath(0.0002, 5000, 1e-4) == pytest.approx(0.0462, abs=5e-5)
    assert kairouz_oh_viswanath(0.1, 1, 1e-9) == pytest.approx(0.1), "plain composition, where it is the least"


@pytest.mark.parametrize(
    ("event", "delta", "expected", "tightest"),
    [
        (TARGET, 1e-2, 3.30, 2.82),
        (TARGET, 1e-5, 5.55, None),
        (SUMMARY, 1e-4, 0.076, None),
        (SUMMARY, 1e-5, 0.096, 0.0863),
        (SUMMARY_OF_OWNERS, 1e-4, 0.166, None),
        (SUMMARY_OF_OWNERS, 1e-5, 0.203, 0.1839),
    ],
)
def test_what_is_proven_under_replace_one(event: Event, delta: float, expected: float, tightest: float | None) -> None:
    """By Rényi divergences: rho = steps * (2 eps)² for sensitivity 2, e.g. 1656 * 0.0004 = 0.6624.

    The summary protects a row of itself at sensitivity 2, a row of an owner at sensitivity 4 if everyone is asked.

    The exact worst case must lie between the Gaussian limit at mu = sqrt(2 rho) and that.
    """
    answer = guarantee(event, relation=Relation.REPLACE_ONE, delta=delta)
    assert answer.epsilon == pytest.approx(expected, rel=0.01)
    assert answer.basis is Basis.PROVEN
    if tightest is None:
        return
    exact = guarantee(event, relation=Relation.REPLACE_ONE, delta=delta, exact_choices=True)
    assert exact.epsilon == pytest.approx(tightest, rel=0.005)
    assert exact.epsilon < answer.epsilon
    assert exact.basis is Basis.PROVEN


def test_under_add_or_remove_the_papers_first_total_holds_after_all() -> None:
    """Half the sensitivity, a quarter of rho: 0.1656 amounts to 1.35, below the printed 1.40."""
    removed = EXPERIMENT.target.event(_row(Relation.ADD_OR_REMOVE))
    answer = guarantee(removed, relation=Relation.ADD_OR_REMOVE, delta=0.01)
    assert answer.epsilon == pytest.approx(1.351, rel=0.005)


def test_preconditions_of_the_main_theorem_at_the_papers_own_parameters() -> None:
    """44 sqrt(2 d) log d log²p / eps_v = 1.4e7 and 968 d² log²d log(1/delta) log⁵p = 4e13."""
    target, seed, dimension = paper_preconditions()
    assert target.needed == pytest.approx(1.405e7, rel=1e-3)
    assert seed.needed == pytest.approx(3.956e13, rel=1e-3)
    assert dimension.needed == pytest.approx(7227, rel=1e-3)
    assert (target.used, seed.used, dimension.used) == (360, 150, 140)


def test_the_schedules_differ_as_the_paper_does() -> None:
    """With T = 140²: eps/(16 T) in the theorem, eps/sqrt(16 T) in the proof; then 16 against 36."""
    theorem, proof = (
        mwem_mean.schedule(name, dimension=140, size=500, epsilon=1.0, delta=1e-4) for name in ("theorem", "proof")
    )
    assert theorem.target.iterations == proof.target.iterations == 19600
    assert theorem.target.epsilon == pytest.approx(1 / 313600)
    assert proof.target.epsilon == pytest.approx(1 / 560)
    ratio = theorem.summary(7).epsilon / proof.summary(7).epsilon
    assert ratio == pytest.approx(math.sqrt(36 / 16))
    assert proof.summary(1).epsilon / proof.summary(4).epsilon == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("changed", "argument"),
    [
        ({"name": "proofs"}, "name"),
        ({"dimension": 0}, "dimension"),
        ({"size": 1}, "size"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1 / math.e}, "delta"),
    ],
)
def test_a_schedule_that_the_paper_does_not_define_is_refused(changed: dict[str, Any], argument: str) -> None:
    good: dict[str, Any] = {"name": "proof", "dimension": 4, "size": 9, "epsilon": 1.0, "delta": 0.3}
    with pytest.raises(InvalidArgument) as refused:
        mwem_mean.schedule(**good | changed)
    assert refused.value.argument == argument


def test_the_papers_auction_at_its_own_parameters() -> None:
    """K = 5, eps = 1, delta = 1e-5: 1/(3 sqrt2 * 11.51 * 5^(1/3)) = 0.01197, patience ceil(5^(2/3)) = 3."""
    assert auction.auction_epsilon(owners=5, epsilon=1.0, delta=1e-5) == pytest.approx(0.01197, abs=1e-5)
    assert auction.auction_patience(5) == 3
    assert auction.auction_patience(8) == 4


def test_the_study_shows_the_papers_count_beside_what_is_proven() -> None:
    """A row that is added at an owner replaces a row of the summary: both have sensitivity 2, and one price."""
    cells = [cell for cell in STUDY.cells(Options()) if cell["line"] != "preconditions"]
    lines = [price_comparison(cell["line"] // 2, list(Relation)[cell["line"] % 2], exact=False) for cell in cells]

    def line(what: str, protected: str, delta: float, relation: Relation) -> tuple[float | None, float]:
        (found,) = [
            one
            for one in lines
            if one.what.startswith(what)
            and one.protected.startswith(protected)
            and (one.proven.delta, one.proven.relation) == (delta, relation)
        ]
        return None if found.claimed is None else found.claimed.epsilon, found.proven.epsilon

    replaced, summary = Relation.REPLACE_ONE, "summary mean, 500 rounds (T"
    target = line("target mean, once", "one row of the target", 0.01, replaced)
    assert target == pytest.approx((1.4014, 3.30), rel=0.01)
    owners = line(summary, "one row of an owner", 1e-5, replaced)
    assert owners == pytest.approx((0.0481, 0.203), rel=0.01)
    added = line(summary, "one row of an owner", 1e-4, Relation.ADD_OR_REMOVE)
    assert added == line(summary, "one row of the summary", 1e-4, replaced)
    assert line("private auction", "one row of an owner", 1e-5, replaced) == (1.0, math.inf)
