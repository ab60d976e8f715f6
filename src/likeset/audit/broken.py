"""Deliberately broken mechanisms. The auditor must catch every one of them; a test fails if it does not.

Each is a mistake that somebody has made or would be tempted to make, keeps the claim of the sound mechanism beside
it, and names the channel in which it is caught. None of them can be reached from a protocol.
"""

from collections.abc import Callable

from likeset.audit import broken_auctions, broken_leaks, broken_means, broken_noise, kept_trials
from likeset.audit.sums import fresh_seed
from likeset.audit.trials import Trial

__all__ = ["BROKEN", "broken_trials"]

BROKEN: tuple[Callable[[int], Trial], ...] = (
    broken_means.halved_noise,
    broken_means.halved_coordinate,
    broken_means.wrong_relation,
    broken_means.forgotten_rows,
    broken_means.selection_as_sum,
    broken_means.reused_noise,
    broken_leaks.sign_of_product,
    broken_leaks.parity,
    broken_leaks.late_variance,
    broken_leaks.raw_mean,
    broken_leaks.raw_mean_of_two_hundred,
    broken_noise.doubled_rate,
    broken_noise.forgotten_unit,
    kept_trials.kept_by_block,
    kept_trials.kept_by_place,
    broken_noise.redrawn_answer,
    broken_noise.early_exit,
    broken_noise.floating_point_laplace,
    broken_noise.seeded_noise,
    broken_auctions.paper_auction,
    broken_auctions.redrawn_threshold,
    broken_auctions.revealed_count,
)
"""One builder for each member of the set; it takes the seed of the simulated noise."""


def broken_trials(seed: int | None = None) -> list[Trial]:
    """The whole set.

    Args:
        seed: of all noise; a fresh one if not given, so that repeated audits see other coins.
    """
    chosen = fresh_seed() if seed is None else seed
    return [build(chosen) for build in BROKEN]
