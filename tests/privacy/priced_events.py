"""Events that tests put a price on."""

from likeset.privacy.accounting import Filter
from likeset.privacy.events import ROW, Event, Gaussian, Norm, Observer, Relation, RowSum, ThresholdAuction

REPLACE = Relation.REPLACE_ONE
COORDINATE = RowSum(norm=Norm.COORDINATE, radius=1.0, unit=ROW, relation=REPLACE)


def gaussian(sigma: float, spacing: float = 2.0**-30, relation: Relation = REPLACE) -> Gaussian:
    quantity = RowSum(norm=Norm.EUCLIDEAN, radius=1.0, unit=ROW, relation=relation)
    return Gaussian(sigma=sigma, quantity=quantity, coordinates=140, spacing=spacing)


def auction(*, epsilon: float, observer: Observer, rounds: int, summary_released: bool = False) -> ThresholdAuction:
    return ThresholdAuction(epsilon=epsilon, observer=observer, rounds=rounds, summary_released=summary_released)


def concentrated_price(event: Event, relation: Relation) -> float:
    return Filter.empty(relation=relation, delta=0.0).add(event).rho


def pure_price(event: Event, relation: Relation) -> float:
    return Filter.empty(relation=relation, delta=0.0).add(event).spent_purely
