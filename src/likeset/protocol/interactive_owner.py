"""An owner's side of ``interactive``: it bids its best remaining row in each round and sends it if asked."""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from likeset.errors import IllegalMessage
from likeset.privacy.events import NoRelease, Unbounded
from likeset.privacy.guarantee import View
from likeset.protocol.exact_scores import direction_on_lattice, exact_sums, features_on_lattice, gains, in_own_units
from likeset.protocol.legality import title_of_message
from likeset.protocol.message_arrays import Vector
from likeset.protocol.messages import (
    Asked,
    Bid,
    Delivery,
    Message,
    SummaryRelease,
    TargetRelease,
    decode,
)
from likeset.protocol.owner import HoledScan, Owner
from likeset.protocol.party import CURATOR
from likeset.protocol.steps import ChargeWanted, Work
from likeset.tables.scan.memory_scan import DrawnRows

__all__ = ["InteractiveOwner"]


class InteractiveOwner(Owner):
    """Bids its best remaining row in each round and sends it if asked.

    It keeps the scores of all its rows and, when a release comes, updates them by the coordinates that changed: a
    round costs rows times changed coordinates.
    """

    _features: NDArray[np.float32]  # one line per coordinate: a release touches few of them
    _attraction: NDArray[np.float64]  # of each row, from the target's release on
    _repulsion: NDArray[np.float64]
    _summary_mean: NDArray[np.float64]  # in lattice steps
    _bid_row: int | None = None
    _story = b""  # a digest of all that was heard, in order: what is bid follows from it

    def _check_content(self, message: Message) -> None:
        super()._check_content(message)
        if isinstance(message.body, SummaryRelease):
            self._check_summary_release(message, message.body)

    def _check_summary_release(self, message: Message, release: SummaryRelease) -> None:
        nothing_to_tell = self.terms.summary_release == "none" or self.terms.seed_rows + message.round == 1
        if nothing_to_tell and (release.coordinates.size or release.values.size):
            # By directions of its own choice a curator would learn of every row that it does not ask for.
            raise IllegalMessage(f"{title_of_message(message)}: the terms announce no release in this round")
        changed = release.coordinates
        if changed.shape != release.values.shape or not np.isfinite(release.values).all():
            raise IllegalMessage(f"{title_of_message(message)}: does not have a value for each coordinate")
        if len(changed) and (changed.min() < 0 or changed.max() >= self.terms.kernel.dimension):
            raise IllegalMessage(f"{title_of_message(message)}: names a coordinate that does not exist")
        if len(np.unique(changed)) != len(changed):
            raise IllegalMessage(f"{title_of_message(message)}: names a coordinate twice")

    def _handle(self, message: Message) -> Work:
        body, story = message.body, hashlib.sha256(self._story + message.data).digest()
        replies: Sequence[Message] = ()
        if isinstance(body, TargetRelease):
            self._open_rows(body.release)  # tells nobody anything, and takes long: no charge waits for it
            yield self._all_rows(message)
        elif isinstance(body, SummaryRelease):
            replies = (self._message(CURATOR, message.round, self._bid(body)),)
        elif isinstance(body, Asked):
            replies = yield from self._answer(message, body, story)
        self._story = story
        return replies

    def _all_rows(self, message: Message) -> ChargeWanted:
        """All rows that may leave in this run are charged at once, before the first of them can be asked for."""
        return ChargeWanted(
            costs=((View.curator(self.name), Unbounded("rows are seen by the curator")),),
            draw=lambda: (b"", None),
            run=self.terms.run,
            round=0,
            kind=f"{self.name}/rows",
            content=message.data,
            rows=self.terms.rows_per_owner,
            repeatable=True,
        )

    def _open_rows(self, release: Vector) -> None:
        """The features of all rows, and what the target's release makes of them."""
        direction = direction_on_lattice(release)
        features = self.terms.kernel.features()
        lines = np.empty((self.terms.kernel.dimension, self._scan.row_count), dtype=np.float32)
        admitted = np.empty(self._scan.row_count, dtype=np.bool_)
        for first, block in self._scan.blocks():
            admitted[first : first + len(block.rows)] = self._admission.admits(block)
            for part, hashed in features.blocks(block.rows, first_row=first):
                lines[:, first + part.start : first + part.stop] = features_on_lattice(hashed).T
        if isinstance(self._scan, HoledScan):
            admitted[self._scan.absent_rows] = False
        lines[:, ~admitted] = 0.0
        self._features = lines
        self._attraction = exact_sums(direction, lines)
        self._attraction[~admitted] = -np.inf  # no curator would take them, nor this owner's other rows with them
        self._repulsion = np.zeros(self._scan.row_count)
        self._summary_mean = np.zeros(self.terms.kernel.dimension)

    def _bid(self, release: SummaryRelease) -> Bid:
        changed, values = release.coordinates, direction_on_lattice(release.values)
        if len(changed):
            self._repulsion += exact_sums(values - self._summary_mean[changed], self._features[changed])
            self._summary_mean[changed] = values
        self._bid_row, gain = self._best_row()
        if self._bid_row is None:
            return Bid(gain=float("nan"), handle=0)
        return Bid(gain=in_own_units(gain), handle=int(self._handles(np.array([self._bid_row]))[0]))

    def _best_row(self) -> tuple[int | None, float]:
        """The best row not sent yet, equal ones by their handles; none if every row was sent."""
        scores = gains(self._attraction, self._repulsion, summary_size=self.terms.seed_rows + self.position.round - 1)
        if not len(scores) or not np.isfinite(scores.max()):
            return None, float("nan")
        best = np.flatnonzero(scores == scores.max())
        if len(best) > 1:
            best = best[np.argsort(self._handles(best), kind="stable")]
        return int(best[0]), float(scores[best[0]])

    def _answer(self, message: Message, body: Asked, story: bytes) -> Work:
        row, self._bid_row = self._bid_row, None
        if not body.asked or row is None:
            return ()
        number = np.array([row])
        drawn = DrawnRows(number, self._scan.fetch(number))
        delivery = self._message(CURATOR, message.round, self._delivery(drawn))
        # One row a round, ever: who starts anew and hears another story would otherwise send other rows for the same
        # charge.
        kept = yield ChargeWanted(
            costs=((View.curator(self.name), NoRelease()),),
            draw=lambda: (delivery.data, None),
            run=self.terms.run,
            round=message.round,
            kind=f"{self.name}/delivery",
            content=story,
            repeatable=True,
        )
        self._attraction[row] = -np.inf  # never offered again
        self.rows_disclosed += 1
        return (delivery if kept == delivery.data else decode(kept),)

    def _delivery(self, drawn: DrawnRows) -> Delivery:
        offer = self._offer(drawn)
        return Delivery(
            rows=offer.rows,
            labels=offer.labels,
            handle=int(offer.handles[0]),
            features=self._features[:, drawn.row_numbers[0]][None, :],
            records=offer.records,
        )
