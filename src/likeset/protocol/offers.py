"""Which of its rows an owner offers: its own rows, the release and public numbers decide, and nothing else.

Three steps: weigh (by class, where the owner's classes explain most of its distance to the release, and by the witness
tilt), draw candidates by those weights in one pass, and thin them to an offer that represents the weighted rows.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from likeset.geometry.features import FourierFeatures, Projection
from likeset.geometry.greedy import thin
from likeset.geometry.offers import Drawing, Strata, Tilt, fit_strata
from likeset.geometry.offers import fit as fit_tilt
from likeset.protocol.owner import Scan
from likeset.protocol.term_parts import RELEASE_SCALE
from likeset.protocol.terms import Terms
from likeset.tables.scan.memory_scan import DrawnRows, FetchedRows

__all__ = ["OfferKeys", "RowScore", "Weighing", "draw_offer", "fit_drawing", "weigh"]

_FIT_ROWS = 4000  # rows on which the weights are fitted: enough for class means and one parameter
_PROXY_ROWS = 2500  # rows that stand for the weighted table when candidates are thinned
_TILTED_CANDIDATES = 4  # candidates for each offered row that are drawn by weight ...
_UNIFORM_CANDIDATES = 2  # ... and uniformly, as a hedge against look-alikes


@dataclass(frozen=True, slots=True)
class OfferKeys:
    """An owner's keys for one run: each draw has its own."""

    fit: int
    tilted: int
    uniform: int


@dataclass(frozen=True, eq=False)
class Weighing:
    """Weights of an owner's rows, fitted on a sample of them.

    Attributes:
        features: the release's feature map; None where there is no release.
        tilt: the witness tilt; None where there is no release.
        strata: weights by class; None where classes are unknown or tell nothing.
        sample: the rows that it was fitted on.
        sample_weights: their weights, summing to 1.
        misfit: squared distance of their weighted mean from the release; 0 where there is none.
    """

    features: FourierFeatures | None
    tilt: Tilt | None
    strata: Strata | None
    sample: FetchedRows
    sample_weights: NDArray[np.float64]
    misfit: float

    @property
    def is_uniform(self) -> bool:
        """Whether all rows weigh the same."""
        return self.strata is None and (self.tilt is None or self.tilt.beta == 0.0)

    @cached_property
    def score(self) -> "RowScore":
        """Log-weights of blocks of rows."""
        if self.features is None or self.tilt is None or self.tilt.beta == 0.0:
            return RowScore(None, self.strata)
        return RowScore(Projection(self.features, self.tilt.beta * self.tilt.direction), self.strata)


@dataclass(frozen=True, eq=False)
class RowScore:
    """Log-weights of rows; goes to wherever the rows are.

    Attributes:
        tilt: the weight by features; None where there is none.
        strata: the weight by class; None where there is none.
    """

    tilt: Projection | None
    strata: Strata | None

    def __call__(self, block: FetchedRows, first_row: int) -> NDArray[np.float64]:
        """Log-weights of a block of rows, given the number of its first row."""
        scores = np.zeros(len(block.rows))
        if self.tilt is not None:
            scores += self.tilt(block.rows, first_row=first_row)
        if self.strata is not None:
            scores += self.strata.score(block.labels)
        return scores

    @property
    def fingerprint(self) -> str:
        """A digest of the weights: another one gives another draw."""
        known = [] if self.strata is None else [*self.strata.classes.tolist(), *self.strata.log_weights.tolist()]
        tilted = "" if self.tilt is None else self.tilt.fingerprint
        return hashlib.sha256(f"{tilted}/{known!r}".encode()).hexdigest()


def fit_drawing(key: int) -> Drawing:
    """The sample on which weights are fitted: it follows from a key alone, so it can be drawn before the release."""
    return Drawing(_FIT_ROWS, key)


def weigh(terms: Terms, scan: Scan, release: NDArray[np.float64] | None, *, noise: float, keys: OfferKeys) -> Weighing:
    """Fit the weights on a sample.

    Args:
        terms: of the run.
        scan: the owner's rows.
        release: the released mean of the target; None where offers are uniform.
        noise: standard deviation of each coordinate of the release.
        keys: of the owner, for this run.
    """
    (drawn,) = scan.draw(fit_drawing(keys.fit))
    sample = drawn.records.take(np.argsort(drawn.row_numbers))
    equal = np.full(len(sample.rows), 1.0 / len(sample.rows))
    if release is None:
        return Weighing(None, None, None, sample, equal, 0.0)
    features = terms.kernel.features()
    hashed = features(sample.rows)
    strata = None
    if terms.labels == "match" and len(sample.labels):
        strata = fit_strata(hashed, sample.labels, release, noise=noise)
    base = np.zeros(len(sample.rows)) if strata is None else strata.score(sample.labels)
    tilt = fit_tilt(
        hashed,
        release,
        noise_energy=len(release) * noise**2,
        # The tilt keeps half as many effective rows as this: twice what is offered, half of a small table.
        wanted=min(_TILTED_CANDIDATES * terms.rows_per_owner, scan.row_count),
        population=scan.row_count,
        log_weights=base,
    )
    exponents = base + tilt.score(hashed)
    weights = np.exp(exponents - exponents.max())
    weights /= weights.sum()
    mean = weights @ hashed.astype(np.float64)
    return Weighing(features, tilt, strata, sample, weights, float(((mean - release) ** 2).sum()))


def draw_offer(terms: Terms, scan: Scan, weighing: Weighing, *, keys: OfferKeys) -> DrawnRows:
    """The rows to offer, as many as the terms say or all that there are; one pass over the owner's rows."""
    count = terms.rows_per_owner
    all_there_are = scan.row_count <= count
    if all_there_are or not terms.thinning:
        if all_there_are or weighing.is_uniform:
            return scan.draw(Drawing(count, keys.uniform))[0]
        return scan.draw(Drawing(count, keys.tilted, weighing.score))[0]
    if weighing.is_uniform:
        (candidates,) = scan.draw(Drawing((_TILTED_CANDIDATES + _UNIFORM_CANDIDATES) * count, keys.uniform))
    else:
        tilted, uniform = scan.draw(
            Drawing(_TILTED_CANDIDATES * count, keys.tilted, weighing.score),
            Drawing(_UNIFORM_CANDIDATES * count, keys.uniform),
        )
        candidates = _together(tilted, uniform)
    proxies = np.unique(np.linspace(0, len(weighing.sample.rows) - 1, _PROXY_ROWS).astype(np.int64))
    weights = weighing.sample_weights[proxies]
    kept = thin(
        candidates.records.rows,
        weighing.sample.rows[proxies],
        weights / weights.sum(),
        count,
        gamma=terms.kernel.gamma / RELEASE_SCALE,
    )
    return DrawnRows(candidates.row_numbers[kept], candidates.records.take(kept))


def _together(first: DrawnRows, second: DrawnRows) -> DrawnRows:
    """The rows of two draws, those that are in both once."""
    new = np.flatnonzero(~np.isin(second.row_numbers, first.row_numbers))
    return DrawnRows(
        np.concatenate([first.row_numbers, second.row_numbers[new]]),
        FetchedRows.concatenate([first.records, second.records.take(new)]),
    )
