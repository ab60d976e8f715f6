"""Mironov's attack finds what no histogram shows, and leaves lattice noise alone."""

import pytest

from chance import pinned_coins
from likeset.audit.auditor import lower_bound
from likeset.audit.sound import reachability, reachable, textbook_laplace


@pytest.mark.parametrize("scale", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("value", [0.0, 1.0, -3.25])
def test_every_answer_is_reachable_from_its_own_value(scale: float, value: float) -> None:
    answers = textbook_laplace(value, scale, 20_000, pinned_coins(1))
    assert reachable(answers, value, scale).all()


def test_most_answers_are_not_reachable_from_a_neighbouring_value() -> None:
    answers = textbook_laplace(0.0, 1.0, 20_000, pinned_coins(2))
    assert reachable(answers, 1.0, 1.0).mean() < 0.5


def test_the_score_refutes_what_the_plain_output_does_not() -> None:
    """Scale 1 and values one apart: epsilon would be 1 over the reals."""
    coins = pinned_coins(3)
    first, second = (textbook_laplace(value, 1.0, 20_000, coins) for value in (0.0, 1.0))
    assert lower_bound(first, second, delta=0.0).epsilon < 1
    assert lower_bound(first, second, delta=0.0, score=reachability(0.0, 1.0, 1.0)).epsilon > 5
