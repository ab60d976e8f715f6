"""Small runs from arrays, one for each kind of wish; between them ten seeds.

The coins of the data are pinned, not those of ``LIKESET_SEED``: what is compared with a file must not depend on it.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


def _rows(seed: int, count: int, *, middle: float = 0.5) -> NDArray[np.float64]:
    """Three columns between 0 and 1, with six decimals, so that a text file holds the same numbers."""
    drawn = np.random.default_rng(seed).normal(middle, 0.2, size=(count, 3))
    return np.asarray(np.round(np.clip(drawn, 0.0, 1.0), 6), dtype=np.float64)


TARGET = _rows(100, 60)
PUBLIC = _rows(101, 30)
SEEDS = _rows(102, 3)


def owners(count: int = 3, *, size: int = 45) -> dict[str, NDArray[np.float64]]:
    names = ("north", "south", "west", *(f"clinic-{place}" for place in range(3, count)))[:count]
    return {
        name: _rows(200 + place, size + 5 * (place % 3), middle=0.3 + 0.15 * (place % 4))
        for place, name in enumerate(names)
    }


@dataclass(frozen=True)
class Scenario:
    """One run.

    Attributes:
        seed: of the coins and the simulated noise.
        wishes: arguments of the ``Summarizer``.
        owners: how many.
        size: rows of the smallest owner.
        labels: whether owners have labels.
        public_rows: whether there are rows that anybody may see.
    """

    seed: int
    wishes: dict[str, Any] = field(default_factory=dict)
    owners: int = 3
    size: int = 45
    labels: bool = False
    public_rows: bool = False

    def settings(self) -> dict[str, Any]:
        """All arguments of the ``Summarizer``; None takes one away."""
        usual = {"size": 6, "epsilon": 8.0, "offer_factor": 6.0, "release_gamma": 0.8}
        return {name: value for name, value in {**usual, **self.wishes}.items() if value is not None}

    def label_columns(self) -> dict[str, NDArray[np.int64]] | None:
        if not self.labels:
            return None
        return {name: (rows[:, 0] > 0.5).astype(np.int64) for name, rows in self.tables().items()}

    def tables(self) -> dict[str, NDArray[np.float64]]:
        return owners(self.owners, size=self.size)


_ROUNDS: dict[str, Any] = {"protocol": "interactive", "size": 4, "dimension": 32}
_THRESHOLD: dict[str, Any] = {"auction": "threshold", "auction_epsilon": 2.0}
_PAPER: dict[str, Any] = {
    **_ROUNDS,
    "dimension": 20,
    "summary_release": "mwem",
    "auction": "paper",
    "auction_epsilon": 0.02,
    "seed_rows": SEEDS,
    "accept_unproven": ("paper-auction", "summary-release"),
}

SCENARIOS: dict[str, Scenario] = {
    "sealed": Scenario(1),
    "sealed, width chosen privately": Scenario(2, {"release_gamma": None}),
    "sealed, width from public rows": Scenario(3, {"release_gamma": None}, public_rows=True),
    "sealed, uniform offers": Scenario(4, {"offers": "uniform", "epsilon": 0.0}, size=300),
    "sealed, uniform where a release is noise": Scenario(5, {"epsilon": 0.1, "thinning": False}),
    "sealed, weights": Scenario(6, {"weights": True}),
    "sealed, weights of uniform offers": Scenario(7, {"weights": True, "offers": "uniform"}),
    "sealed, labels matched": Scenario(8, labels=True),
    "sealed, labels ignored": Scenario(8, {"labels": "ignore"}, labels=True),
    "sealed, without thinning": Scenario(9, {"thinning": False}),
    "sealed, gamma given, price and quorum": Scenario(10, {"gamma": 2.5, "price_per_row": 1.5, "quorum": 3}),
    "sealed, gamma scaled": Scenario(1, {"gamma_scale": 0.5, "dimension": 80}),
    "sealed, threshold": Scenario(2, _THRESHOLD, owners=8),
    "sealed, threshold by itself": Scenario(3, {"size": 2, "offer_factor": 3.0, "epsilon": 16.0}, owners=9),
    "sealed, two rows per unit": Scenario(5, {"rows_per_unit": 2, "epsilon": 12.0}),
    "sealed, add or remove": Scenario(5, {"relation": "add-or-remove", "declared_size": 55}),
    "sealed, every row offered": Scenario(7, {"offer_factor": 100.0}),
    "sealed, fewer rows than wanted": Scenario(8, {"size": 16, "allow_fewer": True}, owners=2, size=4),
    "interactive": Scenario(9, _ROUNDS),
    "interactive, seed rows": Scenario(10, {**_ROUNDS, "seed_rows": SEEDS}),
    "interactive, labels": Scenario(1, _ROUNDS, labels=True),
    "interactive, threshold": Scenario(2, {**_ROUNDS, **_THRESHOLD}, owners=6),
    "interactive, gaussian summary": Scenario(3, {**_ROUNDS, "summary_release": "gaussian", "owner_epsilon": 4.0}),
    "interactive, gaussian summary, two rows per unit": Scenario(
        4, {**_ROUNDS, "summary_release": "gaussian", "owner_epsilon": 4.0, "rows_per_unit": 2}
    ),
    "interactive, add or remove": Scenario(5, {**_ROUNDS, "relation": "add-or-remove", "declared_size": 64}),
    "interactive, mwem": Scenario(
        6, {**_ROUNDS, "summary_release": "mwem", "owner_epsilon": 4.0, "accept_unproven": ("summary-release",)}
    ),
    "interactive, the paper, experiment": Scenario(7, {**_PAPER, "schedule": "experiment", "gamma": 5.49458341085}),
    "interactive, the paper, proof": Scenario(
        8, {**_PAPER, "schedule": "proof", "promised_epsilon": 8.0, "epsilon": 42.0}
    ),
    "interactive, the paper, theorem": Scenario(9, {**_PAPER, "schedule": "theorem", "promised_epsilon": 8.0}),
}
