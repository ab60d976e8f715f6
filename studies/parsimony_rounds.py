"""What an auction asks for, round by round, with thousands of owners: the paper's Algorithm 3 without messages.

Releases are exact here, so that nothing but the auction differs: what is measured is how many rows the curator sees, at
the best quality that such a protocol can have. Coins of the auction are simulated.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.geometry.features import FourierFeatures
from likeset.privacy import auction
from likeset.privacy.noise import Noise


@dataclass(frozen=True, eq=False)
class Crowd:
    """Many owners with equally many rows, and a target.

    Attributes:
        owners: an array of owners, rows, columns.
        target: rows to match.
    """

    owners: Rows
    target: Rows

    @property
    def pool(self) -> Rows:
        """All rows, owner after owner."""
        return self.owners.reshape(-1, self.owners.shape[2])


@dataclass(frozen=True, eq=False)
class Rounds:
    """What came of the rounds: rows of the pool in the order of their selection, and how many were seen for it."""

    indices: NDArray[np.int64]
    rows_seen: int


def crowd(*, owners: int, rows: int, target: int, columns: int, coins: np.random.Generator) -> Crowd:
    """Owners of different kinds: each has rows around two of twelve places, and the target is around three of them.

    The places are as many standard deviations apart as images of different digits are.
    """
    centres = coins.normal(scale=1.0, size=(12, columns))
    mine = np.array([coins.choice(len(centres), size=2, replace=False) for _ in range(owners)])
    which = mine[np.arange(owners)[:, None], coins.integers(2, size=(owners, rows))]
    wanted = coins.choice(3, size=target, p=(0.5, 0.3, 0.2))
    return Crowd(
        owners=(centres[which] + coins.normal(scale=0.7, size=(owners, rows, columns))).astype(np.float32),
        target=(centres[wanted] + coins.normal(scale=0.7, size=(target, columns))).astype(np.float32),
    )


def run_rounds(
    market: Crowd,
    *,
    size: int,
    gamma: float,
    dimension: int,
    feature_seed: int,
    plan: auction.AuctionPlan,
    noise: Noise,
) -> Rounds:
    """``size`` rounds: everybody bids its best row not sent yet, the auction asks, the best row at hand joins."""
    owners, rows, columns = market.owners.shape
    features = FourierFeatures(columns, dimension, gamma, feature_seed)
    hashed = features(market.pool)
    attraction = hashed @ features.mean(market.target).astype(np.float32)
    repulsion = np.zeros(len(hashed), dtype=np.float32)  # sum over the summary
    sent = np.zeros(len(hashed), dtype=np.bool_)
    times_bid = np.zeros(len(hashed), dtype=np.int64)
    at_hand: list[int] = []
    chosen: list[int] = []
    starts = np.arange(owners) * rows
    for step in range(size):
        scores = attraction - repulsion / np.float32(step + 1)  # mean_v k - q/(q + 1) mean_s k, q = step
        open_scores = np.where(sent, -np.inf, scores).reshape(owners, rows)
        best = starts + open_scores.argmax(axis=1)
        present = ~sent[best]
        times_bid[best[present]] += 1
        values = [float(scores[row]) if here else None for row, here in zip(best, present, strict=True)]
        bids = auction.Bids(tuple(values), tuple(times_bid[best].tolist()))
        asked = best[auction.run(plan, bids, noise).value]
        sent[asked] = True
        at_hand += asked.tolist()
        if at_hand:
            position = int(np.argmax(scores[at_hand]))
            chosen.append(at_hand.pop(position))
            repulsion += hashed @ hashed[chosen[-1]]
    return Rounds(np.array(chosen, dtype=np.int64), int(sent.sum()))
