"""Generated markets whose labels are hardly related to rows: class 1 has 29% of the target and about 41% at owners."""

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.simulation import LabelledMarket

RELATIONS = {"independent": 0.0, "nearly independent": 0.25, "shifted": 0.6}
"""By how much a standard deviation along one direction changes the log-odds of class 1."""

_OWNERS, _ROWS, _COLUMNS, _TARGET, _TEST = 4, 1500, 12, 200, 1000
_SHARE_OF_OWNERS, _SHARE_OF_TARGET = 0.41, 0.29


def weak_label_market(relation: str, seed: int) -> LabelledMarket:
    """Four owners and a target whose rows lie elsewhere; where ``shifted``, they lie where class 1 is rarer."""
    coins = np.random.default_rng([seed, 77])
    direction, elsewhere = (vector / np.linalg.norm(vector) for vector in coins.normal(size=(2, _COLUMNS)))
    shape = 0.6 * coins.normal(size=(_COLUMNS, _COLUMNS)) / np.sqrt(_COLUMNS) + 0.8 * np.eye(_COLUMNS)
    moved = 0.6 * elsewhere - direction if relation == "shifted" else 1.2 * elsewhere

    def draw(count: int, centre: NDArray[np.float64], share: float) -> tuple[Rows, NDArray[np.int64]]:
        rows = (coins.normal(size=(count, _COLUMNS)) + centre) @ shape.T
        odds = RELATIONS[relation] * (rows @ direction)
        offsets = np.linspace(-5.0, 5.0, 401)
        shares = np.array([(1.0 / (1.0 + np.exp(-odds - offset))).mean() for offset in offsets])
        offset = offsets[int(np.argmin(np.abs(shares - share)))]
        chances = 1.0 / (1.0 + np.exp(-odds - offset))
        return rows.astype(np.float32), (coins.random(count) < chances).astype(np.int64)

    shares = _SHARE_OF_OWNERS + 0.06 * np.linspace(-1.0, 1.0, _OWNERS)
    owned = [draw(_ROWS, 0.5 * coins.normal(size=_COLUMNS), share) for share in shares]
    rows, labels = draw(_TARGET + _TEST, moved, _SHARE_OF_TARGET)
    return LabelledMarket(
        owners={f"owner {number}": part for number, (part, _) in enumerate(owned)},
        labels={f"owner {number}": part for number, (_, part) in enumerate(owned)},
        target=rows[:_TARGET],
        test=rows[_TARGET:],
        test_labels=labels[_TARGET:],
    )
