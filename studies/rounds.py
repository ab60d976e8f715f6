"""Algorithm 3 of the paper, observed by an experimenter who knows all rows; and run on hashes alone."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.svm import LinearSVC

from likeset.arguments import Rows
from likeset.geometry.kernels import rbf_kernel
from likeset.protocol.interactive import STEPS, InteractiveCurator, in_own_units
from likeset.protocol.party import Work
from likeset.protocol.terms import Terms
from likeset.protocol.wire import Bid, Delivery
from likeset.simulation import MethodPicks, Task, published_protocol


class ObservedCurator(InteractiveCurator):
    """Compares the bid of each row, when it joins the summary, with the kernel means that the bid estimates."""

    def __init__(self, *given: Any, target: Rows, gamma: float, **named: Any) -> None:
        super().__init__(*given, **named)
        self._wanted, self._gamma = target, gamma
        self.winners: list[tuple[int, float]] = []
        """Owner and bid of each winner."""
        self.errors: list[tuple[float, float, float]] = []
        """Of the target's term, of the summary's, and of the bid."""

    def _close_round(self) -> Work:
        if self._pool:
            self._observe()
        return (yield from super()._close_round())

    def _observe(self) -> None:
        winner = self._pool[self._best_at_hand()]
        made, row = self.terms.seed_rows + self._round - 1, winner.held.offer.rows
        summary = np.concatenate([self._seed_rows, *(chosen.held.offer.rows for chosen in self._chosen)])
        exact = [self._mean(row, self._wanted), self._mean(row, summary)]
        released = [in_own_units(float(mean @ winner.features)) for mean in (self._target_mean, self._summary_mean)]
        bids = [near - made / (made + 1) * repeated for near, repeated in (released, exact)]
        self.winners.append((winner.held.owner, bids[0]))
        self.errors.append((abs(released[0] - exact[0]), abs(released[1] - exact[1]), abs(bids[0] - bids[1])))

    def _mean(self, row: Rows, others: Rows) -> float:
        """Mean kernel of a row with others, in double precision."""
        if not len(others):
            return 0.0
        return float(rbf_kernel(row.astype(np.float64), others.astype(np.float64), gamma=self._gamma).mean())


class HashingCurator(InteractiveCurator):
    """Algorithm 3 where owners send ``h_1(x)``: no row reaches this curator, which checks the bid by the hash."""

    def _take_row(self, owner: str, delivery: Delivery) -> None:
        super()._take_row(owner, replace(delivery, rows=np.zeros_like(delivery.rows)))

    def _mismatch(self, bid: Bid, delivery: Delivery) -> str | None:
        gain = in_own_units(float(self._gains(delivery.features.astype(np.float64))[0]))
        return None if gain == bid.gain else "sent a hash that is not worth its bid"


def observed_protocol(task: Task) -> MethodPicks:
    """The published protocol; ``extra`` has owners' winning bids, and errors of bids beside the paper's bounds."""
    made: list[ObservedCurator] = []

    def curator(terms: Terms, noise: Any, seed: int) -> ObservedCurator:  # noqa: ARG001 - as all are made
        given = {"noise": noise, "seed_rows": _seeds(terms, task), "target": task.market.target, "gamma": task.gamma}
        made.append(ObservedCurator(terms, **given))
        return made[0]

    picks = published_protocol(task, curator_of=curator)
    (observed,) = made
    owners, values = zip(*observed.winners, strict=True)
    bids = np.bincount(owners, weights=values, minlength=len(task.market.owners)).tolist()
    means = np.mean(observed.errors, axis=0).tolist()
    extra: Mapping[str, Any] = {
        **picks.extra,
        "owner_bids": dict(zip(task.market.owners, bids, strict=True)),
        "error_target": means[0],
        "error_summary": means[1],
        "error_bid": means[2],
        "largest_error_bid": float(np.max(observed.errors, axis=0)[2]),
        "delta_bound": 7.0 * max(means[:2]) * math.log(task.size),  # the paper's 7 xi ln p
    }
    return replace(picks, extra=extra)


def hashed_protocol(task: Task) -> MethodPicks:
    """The published protocol on hashes; ``svm_hashes`` is a linear SVM trained on the hashes that were bought."""
    made: list[HashingCurator] = []

    def curator(terms: Terms, noise: Any, seed: int) -> HashingCurator:  # noqa: ARG001
        made.append(HashingCurator(terms, noise=noise, seed_rows=_seeds(terms, task)))
        return made[0]

    picks = published_protocol(task, curator_of=curator)
    (hashing,) = made
    market, bought = task.market, np.stack([row.features for row in hashing._chosen]) / STEPS
    model = LinearSVC(random_state=0, C=10.0).fit(bought, market.pool_labels[picks.indices])
    score = model.score(hashing.terms.kernel.features()(market.test), market.test_labels)
    return replace(picks, extra={**picks.extra, "svm_hashes": float(score)})


def _seeds(terms: Terms, task: Task) -> Rows | None:
    return task.market.public if terms.seed_rows else None
