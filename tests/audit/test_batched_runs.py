"""Many runs at once are the runs one by one: same code, same noise, one row each."""

import numpy as np
import pytest

from likeset.audit.trials import PrefetchedNoise, RunsAtOnce, batched_draws, opposite_rows
from likeset.privacy import auction, gaussian_mean
from likeset.privacy.events import ROW, Relation
from likeset.privacy.noise import SecretNoise, SimulatedNoise

PAIR = opposite_rows(4, 3)
PLAN = gaussian_mean.GaussianPlan(
    quantity=gaussian_mean.unit_rows(ROW, Relation.REPLACE_ONE), size=4, dimension=3, sigma=2.0
)


@pytest.mark.parametrize("side", [0, 1])
def test_a_block_is_the_runs_one_by_one(side: int) -> None:
    """Served from the same block of noise, value by value."""
    at_once = batched_draws(
        lambda number, drawn: gaussian_mean.run(PLAN, PAIR[number], drawn).value, PrefetchedNoise(SimulatedNoise(5))
    )
    one_by_one = PrefetchedNoise(SimulatedNoise(5))
    rows = np.asarray(at_once(side, 50))
    assert rows.shape == (50, 3)
    assert rows.tolist() == [gaussian_mean.run(PLAN, PAIR[side], one_by_one).value.tolist() for _ in range(50)]


def test_it_is_as_private_as_its_source() -> None:
    assert RunsAtOnce(SecretNoise(), 2).private
    assert not RunsAtOnce(SimulatedNoise(1), 2).private


def test_a_mechanism_that_mixes_runs_is_not_observed() -> None:
    mixing = batched_draws(lambda _, drawn: drawn.discrete_laplace(1.0, 3).sum(axis=0), SimulatedNoise(1))
    with pytest.raises(AssertionError, match="keep runs apart"):
        mixing(0, 10)


def test_a_mechanism_that_chooses_is_not_run_at_once() -> None:
    plan = auction.plan_paper(2, epsilon=0.1, patience=9, rounds=1, accept_unproven={auction.PAPER_AUCTION})
    with pytest.raises(NotImplementedError, match="coins"):
        auction.run(plan, auction.Bids((1.0, 2.0), (1, 1)), RunsAtOnce(SimulatedNoise(1), 10))
