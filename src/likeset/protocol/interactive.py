"""``interactive``: the paper's Algorithm 3, round by round."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likeset import arguments
from likeset.arguments import Rows
from likeset.errors import IllegalMessage, InvalidArgument
from likeset.geometry.features import FourierFeatures
from likeset.ledger.budget import Charge
from likeset.privacy import auction, gaussian_mean, mwem_mean
from likeset.privacy.events import Event, NoRelease, Unbounded, View
from likeset.privacy.noise import Noise
from likeset.protocol.party import CURATOR, ChargeWanted, CuratorState, PricedDraw, Work, title_of_message
from likeset.protocol.prices import auction_plan, summary_event, summary_plan
from likeset.protocol.sealed import Curator, Held, HoledScan, Mask, Owner
from likeset.protocol.terms import Terms, digest_of_rows
from likeset.protocol.wire import (
    Asked,
    Bid,
    Delivery,
    Message,
    Offer,
    SummaryRelease,
    Target,
    TargetRelease,
    Vector,
    decode,
)
from likeset.tables.records import DeclaredRecords
from likeset.tables.scan import DrawnRows

STEPS = 2.0**20
"""Lattice steps per unit."""

_LONGEST = 2.0**11  # of a direction: products of a *difference* of two with features of length sqrt(2) stay below 2**53
_LARGEST = 16.0  # of a coordinate: up to 2**14 of them stay within the longest
_NEAR_ONE = 1.0 - 1e-6
_CHUNK = 1 << 16


def features_on_lattice(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Features as whole numbers of steps; a float32 holds them exactly."""
    return np.asarray(np.rint(features * np.float32(STEPS)))


def direction_on_lattice(direction: NDArray[np.float64]) -> NDArray[np.float64]:
    """A released mean as whole numbers of steps.

    A coordinate of a mean is at most 1; one beyond 16 is noise that has drowned it, and is cut off there. Everybody
    cuts alike, coordinate by coordinate, and what is done to a release afterwards costs nothing.
    """
    within = np.clip(direction, -_LARGEST, _LARGEST)
    if not float(np.linalg.norm(within)) <= _LONGEST:
        raise IllegalMessage("a released mean has more coordinates than can be added up exactly")
    return np.rint(within * STEPS)


def exact_sums(direction: NDArray[np.float64], lines: NDArray[np.float32]) -> NDArray[np.float64]:
    """For each row the sum over coordinates of direction times feature; ``lines`` has one line per coordinate."""
    total = np.empty(lines.shape[1])
    for first in range(0, lines.shape[1], _CHUNK):
        total[first : first + _CHUNK] = direction @ lines[:, first : first + _CHUNK].astype(np.float64)
    return total


def gains(attraction: NDArray[np.float64], repulsion: NDArray[np.float64], *, summary_size: int) -> NDArray[np.float64]:
    share = summary_size / (summary_size + 1)
    return attraction - share * repulsion


def in_own_units(score: float) -> float:
    return score / (STEPS * STEPS)


def within_bounds(features: NDArray[np.float64], *, paired: bool) -> NDArray[np.float32]:
    """One row's lattice features as they enter a released sum: within the bounds that its noise was made for.

    A function of this row alone: features computed anew, in one product with other rows, would differ in their last
    bits with the rows around them.
    """
    own = features / STEPS
    if not paired:
        bound = np.sqrt(2.0 / len(own))
        return np.clip(own, -bound, bound).astype(np.float32)
    # Short of 1 by more than float32 rounds: whoever checks the length finds it below 1 in any order of summation.
    length = float(np.sqrt(own @ own))
    return (own * (_NEAR_ONE / max(length, _NEAR_ONE))).astype(np.float32)


class InteractiveOwner(Owner):
    """Bids its best remaining row in each round and sends it if asked.

    It keeps the scores of all its rows and, when a release comes, updates them by the coordinates that changed: a
    round costs rows times changed coordinates.
    """

    _features: NDArray[np.float32]  # one line per coordinate: a release touches few of them
    _attraction: NDArray[np.float64]  # of each row, from the target's release on
    _repulsion: NDArray[np.float64]
    _summary_mean: NDArray[np.float64]  # in lattice steps
    _direction: NDArray[np.float64]
    _bid_row: int | None = None

    def _check_content(self, message: Message) -> None:
        super()._check_content(message)
        if isinstance(message.body, SummaryRelease):
            self._check_summary_release(message, message.body)

    def _check_summary_release(self, message: Message, release: SummaryRelease) -> None:
        nothing_to_tell = self.terms.summary_release == "none" or self.terms.seed_rows + message.round == 1
        if nothing_to_tell and (release.coordinates.size or release.values.size):
            # By directions of its own choice a curator would learn of every row that it does not ask for.
            raise IllegalMessage(f"{title_of_message(message)}: the terms announce no release in this round")
        changed, values = release.coordinates, release.values
        are_places = ((changed >= 0) & (changed < self.terms.kernel.dimension)).all()
        if not are_places or changed.shape != values.shape or len(np.unique(changed)) != len(changed):
            raise IllegalMessage(f"{title_of_message(message)}: must have one value for each of some coordinates")
        if not np.isfinite(values).all():
            raise IllegalMessage(f"{title_of_message(message)}: has a value that is not a number")

    def _handle(self, message: Message) -> Work:
        body = message.body
        if isinstance(body, TargetRelease):
            self._open_rows(body.release)  # tells nobody anything, and takes long: no charge waits for it
            # All rows that may leave in this run are charged at once, before the first of them can be asked for.
            costs = ((View.curator(self.name), Unbounded("rows are seen by the curator")),)
            yield ChargeWanted(
                charge=Charge(costs, rows=self.terms.rows_per_owner),
                asked=self._request("rows", 0, message.data),
                draw=lambda: (b"", None),
                repeatable=True,
            )
        elif isinstance(body, SummaryRelease):
            return (yield from self._bid(message, body))
        elif isinstance(body, Asked):
            return (yield from self._answer(message, body))
        return ()

    def _open_rows(self, release: Vector) -> None:
        self._direction = direction_on_lattice(release)
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
        self._attraction = exact_sums(self._direction, lines)
        self._attraction[~admitted] = -np.inf  # no curator would take them, nor this owner's other rows with them
        self._repulsion = np.zeros(self._scan.row_count)
        self._summary_mean = np.zeros(self.terms.kernel.dimension)

    def _bid(self, message: Message, release: SummaryRelease) -> Work:
        changed, values = release.coordinates, direction_on_lattice(release.values)
        if len(changed):
            self._repulsion += exact_sums(values - self._summary_mean[changed], self._features[changed])
            self._summary_mean[changed] = values
        row, gain = self._best_row()
        own, features = Bid(gain=float("nan"), handle=0), b""
        if row is not None:
            own = Bid(gain=in_own_units(gain), handle=int(self._handles(np.array([row]))[0]))
            features = self._features[:, row].tobytes()
        # With its features: those of another processor would not be worth the bid.
        data = self._message(CURATOR, message.round, own).data
        kept = yield self._kept("bid", message, len(data).to_bytes(4, "big") + data + features)
        end = 4 + int.from_bytes(kept[:4], "big")
        bid = decode(kept[4:end])
        assert isinstance(bid.body, Bid)  # noqa: S101 - nothing else is kept
        self._bid_row = None if end == len(kept) else self._row_named(bid.body.handle)
        if self._bid_row is not None:
            self._put_features(self._bid_row, np.frombuffer(kept[end:], dtype=np.float32))
        return (bid,)

    def _row_named(self, handle: int) -> int:
        if handle not in self._rows_by_handle:  # another row is the best one on this processor
            self._handles(np.arange(self._scan.row_count))
        return self.row_of(handle)

    def _put_features(self, row: int, features: NDArray[np.float32]) -> None:
        line = features[:, None]
        self._features[:, row] = features
        self._attraction[row] = exact_sums(self._direction, line)[0]
        self._repulsion[row] = exact_sums(self._summary_mean, line)[0]

    def _best_row(self) -> tuple[int | None, float]:
        """The best row not sent yet, equal ones by their handles; none if every row was sent."""
        scores = gains(self._attraction, self._repulsion, summary_size=self.terms.seed_rows + self.position.round - 1)
        if not len(scores) or not np.isfinite(scores.max()):
            return None, float("nan")
        best = np.flatnonzero(scores == scores.max())
        if len(best) > 1:
            best = best[np.argsort(self._handles(best), kind="stable")]
        return int(best[0]), float(scores[best[0]])

    def _answer(self, message: Message, body: Asked) -> Work:
        row, self._bid_row = self._bid_row, None
        if not body.asked or row is None:
            return ()
        number = np.array([row])
        drawn = DrawnRows(number, self._scan.fetch(number))
        delivery = self._message(CURATOR, message.round, self._delivery(drawn))
        # One row a round, ever: all rows of a run were charged with its first answer.
        kept = yield self._kept("delivery", message, delivery.data)
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


_FEATURE_TOLERANCE = 4.0
"""How far, in lattice steps, the features that an owner sends may be from those that the curator computes, beyond what
float32 leaves open for that row. An honest owner must pass whatever its rows are, or one row would decide about all."""


@dataclass(frozen=True, eq=False)
class _Row:
    held: Held
    features: NDArray[np.float64]
    addend: NDArray[np.float32]


class InteractiveCurator(Curator):
    """Runs the rounds. The selection follows the released direction, as in the paper; its kernel judges the summary."""

    def __init__(
        self,
        terms: Terms,
        *,
        noise: Noise,
        declared: DeclaredRecords | None = None,
        seed_rows: ArrayLike | None = None,
    ) -> None:
        super().__init__(terms, noise=noise, declared=declared)
        seeds = np.empty((0, terms.kernel.columns)) if seed_rows is None else seed_rows
        rows = arguments.matrix("seed_rows", seeds, allow_empty=True)
        if rows.shape != (terms.seed_rows, terms.kernel.columns):
            wanted = (terms.seed_rows, terms.kernel.columns)
            raise InvalidArgument(
                "seed_rows", f"array of shape {rows.shape}", f"must have shape {wanted}, by the terms"
            )
        if len(rows) and digest_of_rows(rows) != terms.seed_digest:
            raise InvalidArgument("seed_rows", f"array of shape {rows.shape}", "are not those that the terms name")
        self._seed_rows = rows
        self._target_mean = np.zeros(terms.kernel.dimension)  # in lattice steps
        self._summary_mean = np.zeros(terms.kernel.dimension)  # in lattice steps
        self._released_mean = np.zeros(terms.kernel.dimension)
        self._mwem_state: mwem_mean.State | None = None
        self._bids: dict[str, Bid] = {}
        self._times_bid: dict[tuple[str, int], int] = {}
        self._pool: list[_Row] = []
        self._chosen: list[_Row] = []
        self._heard: set[str] = set()
        self._asked: set[str] = set()
        self._abstained: set[tuple[str, bool]] = set()  # in this round: owner, and whether from bidding
        self._gone: set[str] = set()  # those who missed a step of a run that releases something about the summary
        self._delivered: set[tuple[str, int]] = set()

    @cached_property
    def _map(self) -> FourierFeatures:
        """Made when it is first needed: it can be large, and curators are made for terms that nobody agreed to yet."""
        return self.terms.kernel.features()

    @cached_property
    def _seed_features(self) -> NDArray[np.float32]:
        rows = self._seed_rows
        return self._map(rows) if len(rows) else np.empty((0, self.terms.kernel.dimension), np.float32)

    @property
    def _round(self) -> int:
        return self.position.round

    @property
    def _bidding(self) -> bool:
        return self.position.state is CuratorState.BIDS

    def _begin(self, target: Target) -> Work:
        self._target_mean = direction_on_lattice(target.release)
        return (yield from self._open_round())

    def _awaits(self, owner: str) -> bool:
        # At the end of a run everybody may be waited for, in vain: a row still comes only from who was asked for it.
        return super()._awaits(owner) and (self._bidding or owner in self._asked)

    def _is_late(self, message: Message) -> bool:
        """An answer to a step that is over; an owner who missed a step may answer the next one."""
        abstained = (message.sender, isinstance(message.body, Bid)) in self._abstained
        return message.round < self._round or (message.round == self._round and abstained) or self.finished

    def _abstain(self, owner: str) -> None:
        """Abstaining from a step costs an owner that step only, unless something is released about the summary.

        Then it is out, with its rows at hand: if it came back, a row more or less at this owner could move several
        rows of the summary, and the noise is made for one (docs/proofs/summary-stream.md).
        """
        self._abstained.add((owner, self._bidding))
        if self.terms.summary_release != "none" and (self._bidding or owner in self._asked):
            self._gone.add(owner)
            number = self.terms.owners.index(owner)
            self._pool = [row for row in self._pool if row.held.owner != number]

    def _take(self, message: Message) -> None:
        body = message.body
        if isinstance(body, Delivery):
            self._take_row(message.sender, body)
        elif isinstance(body, Bid):
            self._heard.add(message.sender)
            if math.isfinite(body.gain):
                self._bids[message.sender] = body
                waited = self._times_bid.get((message.sender, body.handle), 0)
                self._times_bid[message.sender, body.handle] = waited + 1
            elif not math.isnan(body.gain):
                self._flag(message.sender, "sent a bid that is not a number")

    def _take_row(self, owner: str, delivery: Delivery) -> None:
        """A row that was asked for; one that is not what its owner bid is dropped, and nobody is asked instead."""
        self.rows_seen += len(delivery.rows)
        offer = Offer(
            rows=delivery.rows,
            labels=delivery.labels,
            handles=np.array([delivery.handle], dtype=np.uint64),
            records=delivery.records,
        )
        fault = self._fault(offer, most=1) or self._mismatch(self._bids[owner], delivery)
        if fault is None and (owner, delivery.handle) in self._delivered:
            fault = "sent a row a second time"
        if fault is not None:
            self._flag(owner, fault)
            return
        self._delivered.add((owner, delivery.handle))
        features = delivery.features[0].astype(np.float64)
        addend = within_bounds(features, paired=self.terms.kernel.kind == "paired")
        self._pool.append(_Row(Held(self.terms.owners.index(owner), offer), features, addend))

    def _mismatch(self, bid: Bid, delivery: Delivery) -> str | None:
        if len(delivery.rows) != 1 or delivery.handle != bid.handle:
            return "sent another row than the one it bid"
        if delivery.features.shape != (1, self.terms.kernel.dimension) or not np.isfinite(delivery.features).all():
            return "sent features of another shape than agreed"
        own = features_on_lattice(self._map.of_each(delivery.rows))
        if not (delivery.features == np.rint(delivery.features)).all():
            return "sent features that are not on the lattice"
        allowed = _FEATURE_TOLERANCE + STEPS * self._map.disagreement(delivery.rows)
        if not (np.abs(own.astype(np.float64) - delivery.features) <= allowed).all():
            return "sent a row that does not have the features it bid with"
        if in_own_units(float(self._gains(delivery.features.astype(np.float64))[0])) != bid.gain:
            return "sent a row that is not worth its bid"
        return None

    def _gains(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Gain of rows of lattice features under the released direction, to the bit as owners compute it."""
        lines = features.T.astype(np.float32)
        return gains(
            exact_sums(self._target_mean, lines),
            exact_sums(self._summary_mean, lines),
            summary_size=self.terms.seed_rows + self._round - 1,
        )

    def _go_on(self) -> Work:
        return (yield from self._ask() if self._bidding else self._close_round())

    def _open_round(self) -> Work:
        self._move(CuratorState.BIDS, next_round=True)
        self._bids, self._abstained = {}, set()
        self._waiting = set(self.terms.owners)
        release = yield from self._release_summary()
        return [self._message(owner, self._round, release) for owner in self.terms.owners]

    def _release_summary(self) -> PricedDraw[SummaryRelease]:
        plan = summary_plan(self.terms, self._round)
        if plan is None:
            return SummaryRelease(coordinates=np.empty(0, dtype=np.int64), values=np.empty(0))
        # The first round is about seed rows alone; the second is charged with all that follow it.
        event: Event = summary_event(self.terms) if self._round == 2 else NoRelease()
        data = yield self._charge_to_owners(
            "summary-release", event, lambda: (self._drawn_summary(plan), None), round_number=self._round
        )
        stored = np.frombuffer(data, dtype="<f8").reshape(3, self.terms.kernel.dimension)
        mean, tilts, grid_mean = stored
        changed = np.flatnonzero(mean != self._released_mean)
        self._released_mean = mean
        self._summary_mean = direction_on_lattice(mean)
        self._mwem_state = mwem_mean.State(tilts=tilts, mean=grid_mean)
        return SummaryRelease(coordinates=changed, values=mean[changed])

    def _drawn_summary(self, plan: gaussian_mean.GaussianPlan | mwem_mean.MwemPlan) -> bytes:
        # A round without a row still counts: rows of zeros stand in, so that the divisor is the public counter.
        features = np.zeros((plan.size, plan.dimension), dtype=np.float32)
        features[: len(self._seed_features)] = self._seed_features
        for position, row in enumerate(self._chosen, start=len(self._seed_features)):
            features[position] = row.addend
        stored = np.zeros((3, plan.dimension))
        if isinstance(plan, gaussian_mean.GaussianPlan):
            stored[0] = gaussian_mean.run(plan, features, self._noise).value
        else:
            made = mwem_mean.run(plan, features, self._noise, start=self._mwem_state).value
            stored[:] = made.mean, made.state.tilts, made.state.mean
        return stored.astype("<f8").tobytes()

    def _ask(self) -> Work:
        asked = yield from self._draw_auction()
        self._move(CuratorState.DELIVERIES)
        names = self.terms.owners
        chosen = {name for name, yes in zip(names, asked, strict=True) if yes}
        # After a restart the stored draw may ask an owner whose bid did not come this time: it abstains.
        self._asked = chosen & set(self._bids)
        self._waiting = set(self._asked)
        self._abstained |= {(name, False) for name in chosen - self._waiting}
        # Who did not bid hears nothing: when the run is resumed it may bid, and then this is where its answer stands.
        messages = [
            self._message(name, self._round, Asked(asked=bool(yes)))
            for name, yes in zip(names, asked, strict=True)
            if (name, True) not in self._abstained
        ]
        if not self._waiting and self._round == self.terms.size:
            # The end of the run may fail, but not before all have their answers: everybody is waited for, in vain.
            self._waiting = set(names)
        return messages if self._waiting else [*messages, *(yield from self._close_round())]

    def _draw_auction(self) -> PricedDraw[Mask]:
        plan = auction_plan(self.terms)
        out = self._gone | {flag.owner for flag in self.flags}
        bids = {name: bid for name, bid in self._bids.items() if name not in out}
        values = auction.Bids(
            values=tuple(bids[name].gain if name in bids else None for name in self.terms.owners),
            waited=tuple(self._times_bid[name, bids[name].handle] if name in bids else 0 for name in self.terms.owners),
        )
        if isinstance(plan, auction.EveryonePlan):
            return values.present
        # All rounds are charged with the first; later ones are kept so that none is ever drawn twice.
        event: Event = plan.event if self._round == 1 else NoRelease()
        return (yield from self._auction(plan, values, event, round_number=self._round))

    def _close_round(self) -> Work:
        if self._pool:
            self._chosen.append(self._pool.pop(self._best_at_hand()))
        if self._round < self.terms.size:
            return (yield from self._open_round())
        return [self._finish()]

    def _best_at_hand(self) -> int:
        """Position of the pool's best row under the current releases; equal ones by owner, then by handle, as bids."""
        scores = self._gains(np.stack([row.features for row in self._pool]))
        handles = np.array([row.held.offer.handles[0] for row in self._pool])
        owners = np.array([row.held.owner for row in self._pool])
        return int(np.lexsort((handles, owners, -scores))[0])

    def _finish(self) -> Message:
        if self._target is None:
            raise IllegalMessage("there is no target")
        self.absent = set(self.terms.owners) - self._heard
        self._check_quorum(len(self._heard))
        held = self._believed_rows()
        if not held:
            self._check_quorum(0)
        rows: Rows = np.concatenate([holding.offer.rows for holding in held])
        return self._summary(held, self._selection.judge(rows, self._target))

    def _believed_rows(self) -> list[Held]:
        """What was chosen; in the place of rows whose labels turn out odd come others that are at hand."""
        at_hand = [row.held for row in self._chosen + self._pool]
        believed = {id(holding) for holding in self._drop_odd_labels(at_hand)}
        chosen = [row for row in self._chosen if id(row.held) in believed]
        self._pool = [row for row in self._pool if id(row.held) in believed]
        while self._pool and len(chosen) < len(self._chosen):
            chosen.append(self._pool.pop(self._best_at_hand()))
        return [row.held for row in chosen]
