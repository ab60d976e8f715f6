"""What an auction asks for is what its law says, and it changes nothing else."""

import math
from pathlib import Path

from chance import public_coins
from likeset.privacy import auction
from likeset.privacy.auction import auction_epsilon, auction_patience
from likeset.privacy.noise import SimulatedNoise
from studies.contract import Cell, Options
from studies.parsimony import STUDY, Crowd, Rounds, crowd, run_rounds
from studies.runner import run_study

SIZE, GAMMA, DIMENSION = 12, 0.1, 64


def market(owners: int) -> Crowd:
    return crowd(owners=owners, rows=20, target=50, columns=4, coins=public_coins(5))


def rounds(owners: int, plan: auction.AuctionPlan) -> Rounds:
    return run_rounds(
        market(owners),
        size=SIZE,
        gamma=GAMMA,
        dimension=DIMENSION,
        feature_seed=7,
        plan=plan,
        noise=SimulatedNoise(1),
    )


def paper_plan(owners: int, epsilon: float) -> auction.PaperPlan:
    return auction.plan_paper(
        owners,
        epsilon=epsilon,
        patience=auction_patience(owners),
        rounds=SIZE,
        accept_unproven=(auction.PAPER_AUCTION,),
    )


def test_the_papers_auction_saves_rows_and_changes_nothing_else() -> None:
    owners = 40
    epsilon = auction_epsilon(owners=owners, epsilon=1.0, delta=1e-5)
    everyone, paper = rounds(owners, auction.plan_everyone(owners)), rounds(owners, paper_plan(owners, epsilon))
    assert paper.indices.tolist() == everyone.indices.tolist()
    # A rank is asked with probability exp(-(i - 1) eps): 0.84 of 40 owners on average, and never all of them 12 times.
    expected = sum(math.exp(-rank * epsilon) for rank in range(owners)) * SIZE
    spread = math.sqrt(SIZE * owners / 4)
    assert expected - 6 * spread < paper.rows_seen < everyone.rows_seen


def test_the_study_measures_draws_its_bound_and_says_that_noise_is_simulated(tmp_path: Path) -> None:
    lines = run_study(_Few(), Options(seeds=1, sizes=(10,)), out=tmp_path, workers=0)
    assert all(line.done for line in lines), [line.failure for line in lines]
    found = {line["method"]: line for line in lines}
    assert found["everyone each round"]["rows_per_pick"] == 10.0
    assert found["everyone once"]["rows_per_pick"] == 10.0  # the offer factor
    assert found["paper"]["rows_per_pick"] < 10.0 < found["paper"]["paper_bound"]
    shown = STUDY.present(lines, tmp_path)
    assert "not private" in next(iter(shown.figures)).read_text(encoding="utf-8")


class _Few:
    """The study with ten owners only."""

    name, description = STUDY.name, STUDY.description
    run, present = STUDY.run, STUDY.present

    def cells(self, options: Options) -> list[Cell]:
        return [cell for cell in STUDY.cells(options) if cell["owners"] == 10]
