"""``sealed``, the default protocol: owners hear one release and nothing else; the curator selects exactly."""

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from likeset import arguments
from likeset.arguments import Rows
from likeset.errors import BadMessage, IllegalMessage, InvalidArgument
from likeset.geometry.features import Projection
from likeset.geometry.offers import Drawing, Strata, fit_strata, thin
from likeset.geometry.offers import fit as fit_tilt
from likeset.geometry.selection import HeldOut, Selected, Selection, cross_fit, is_usable_width
from likeset.ledger.budget import Charge, Request
from likeset.privacy import auction, gaussian_mean, mwem_mean
from likeset.privacy.events import Event, NoRelease, Relation, Release, Simulated, Unbounded, View
from likeset.privacy.noise import Noise, random_order
from likeset.protocol.party import (
    CONSUMER_RULES,
    CURATOR,
    RELEASE_ROUND,
    ChargeWanted,
    CuratorState,
    Draw,
    Party,
    PricedDraw,
    Sender,
    Step,
    Work,
    curator_rules,
    owner_rules,
    title_of_message,
)
from likeset.protocol.prices import auction_plan, target_plan
from likeset.protocol.terms import MOST_FOLDS, Terms
from likeset.protocol.wire import (
    Asked,
    Delivery,
    Labels,
    Message,
    Misfit,
    Offer,
    Summary,
    Target,
    TargetRelease,
    Vector,
    decode,
)
from likeset.tables.records import DeclaredRecords
from likeset.tables.scan import DrawnRows
from likeset.tables.schema import FetchedRows, narrow, unusable_texts
from likeset.trust.cards import CardSecret

Mask = NDArray[np.bool_]

_NOT_AS_DECLARED = "records that are not as the schema declares"


@dataclass(frozen=True, eq=False)
class Admission:
    """Decides row by row, by the terms and the schema alone: the verdict on a row is the same wherever it lies."""

    terms: Terms
    declared: DeclaredRecords | None

    def __post_init__(self) -> None:
        if self.declared is None:
            return
        terms, declared = self.terms, self.declared
        if terms.record_bytes < declared.record_bytes:
            reason = f"is too short: the schema declares records of up to {declared.record_bytes} bytes"
            raise InvalidArgument("record_bytes", terms.record_bytes, reason)
        if terms.kernel.largest < declared.largest_entry:
            reason = f"is too small: the schema makes numbers of up to {declared.largest_entry:g}"
            raise InvalidArgument("kernel.largest", terms.kernel.largest, reason)

    def admits(self, block: FetchedRows) -> Mask:
        records = None if self.declared is None or block.table is None else self.declared.of(block.table)
        admitted = np.ones(len(block.rows), dtype=np.bool_)
        with np.errstate(over="ignore"):  # what single precision cannot hold is not admitted
            rows = np.asarray(block.rows, dtype=np.float32)
        for _, bad in self._faults(rows, block.labels, records):
            admitted &= ~bad
        return admitted

    def fault(self, rows: Rows, labels: Labels, packed: NDArray[np.uint8]) -> str | None:
        """What is wrong with rows of another party, in words that say nothing about them; None if nothing is."""
        records = None
        if self.declared is None:
            if len(packed):
                return "records, which nobody declared"
        else:
            try:
                records = self.declared.unpack(packed.tobytes(), rows=len(rows))
            except BadMessage:
                return _NOT_AS_DECLARED
        faults = self._faults(rows, labels, records)
        return next((reason for reason, bad in faults if bad.any()), None)

    def _faults(self, rows: Rows, labels: Labels, records: pa.Table | None) -> Iterator[tuple[str, Mask]]:
        with np.errstate(invalid="ignore"):  # what is no number is not below any
            within: Mask = np.abs(rows) <= self.terms.kernel.largest
        yield "rows with numbers beyond what the terms declare", np.logical_not(within.all(axis=1))
        yield from self._label_faults(labels, len(rows))
        if self.declared is None or records is None:
            return
        made, good = self.declared.rows_of(records)
        yield _NOT_AS_DECLARED, ~good
        yield "records that are longer than the schema declares", self.declared.too_long(records)
        yield "rows that are not what the schema makes of its records", np.asarray((made != rows).any(axis=1))
        inside = self.declared.labels_in(records) if len(labels) else None
        if inside is not None:
            yield "labels that are not those of its records", np.asarray(inside != labels, dtype=np.bool_)

    def _label_faults(self, labels: Labels, rows: int) -> Iterator[tuple[str, Mask]]:
        """Labels are right or wrong one by one; what is wrong with their kind is wrong with all.

        They are there if the terms name their column, and only then; without a schema any will do.
        """
        if len(labels) == rows:
            yield "labels that no message takes", unusable_texts(labels)
        if self.declared is None or not rows:
            return
        everywhere = np.ones(rows, dtype=np.bool_)
        if self.declared.label_column not in self.terms.columns:
            if len(labels):
                yield "labels, which nobody declared", everywhere
        elif not len(labels):
            yield "rows without labels, where the schema declares them", everywhere
        elif (fault := self.declared.label_fault(labels)) is not None:
            one_by_one = [self.declared.label_fault(labels[row : row + 1]) is not None for row in range(rows)]
            yield fault, np.array(one_by_one) if len(labels) == rows else everywhere


def key_in_run(key: int, run: str, purpose: str) -> int:
    text = f"likeset/owner/{run}/{purpose}/".encode() + key.to_bytes(32, "big")
    return int.from_bytes(hashlib.sha256(text).digest(), "big")


def row_handles(key: int, run: str, row_numbers: Iterable[int]) -> Iterator[int]:
    """Opaque names of an owner's rows in a run, a keyed digest of each row's number: 64 bits, new in each run."""
    secret = key_in_run(key, run, "handles").to_bytes(32, "big")
    for number in row_numbers:
        digest = hashlib.blake2b(int(number).to_bytes(8, "big"), key=secret, digest_size=8).digest()
        yield int.from_bytes(digest, "big")


class Scan(Protocol):
    """How an owner reaches its rows, wherever they lie: in memory, in files, on a cluster."""

    @property
    def row_count(self) -> int: ...

    def draw(self, *drawings: Drawing) -> list[DrawnRows]:
        """Several draws in one pass over all rows; each the same for the same key."""

    def fetch(self, row_numbers: NDArray[np.int64]) -> FetchedRows: ...

    def blocks(self) -> Iterator[tuple[int, FetchedRows]]: ...


@runtime_checkable
class HoledScan(Scan, Protocol):
    """A scan in which some numbers are no rows: they stay empty, so that the others keep theirs."""

    @property
    def absent_rows(self) -> NDArray[np.int64]: ...


class Owner(Party):
    def __init__(
        self,
        terms: Terms,
        name: str,
        *,
        scan: Scan,
        key: int,
        declared: DeclaredRecords | None = None,
        secret: CardSecret | None = None,  # signs an offer in shares, where the curator is split
    ) -> None:
        if name not in terms.owners:
            raise IllegalMessage(f"{name} is not among the owners of run {terms.run}")
        if terms.split is not None and (secret is None or secret.card.fingerprint != terms.cards[name]):
            raise InvalidArgument("secret", name, "has no secret of the card that the terms name")
        super().__init__(terms, name, owner_rules(terms))
        self._scan = scan
        self._key = key  # secret and kept: decides which rows are drawn and how they are named toward others
        self._secret = secret
        self._admission = Admission(terms, declared)
        self._rows_by_handle: dict[int, int] = {}
        self.rows_disclosed = 0

    def row_of(self, handle: int) -> int:
        if handle not in self._rows_by_handle:
            raise IllegalMessage(f"{self.name} sent no row under that handle")
        return self._rows_by_handle[handle]

    def _check_content(self, message: Message) -> None:
        body, width = message.body, 0 if self.terms.offers == "uniform" else self.terms.kernel.dimension
        if not isinstance(body, TargetRelease):
            return
        if body.release.shape != (width,) or not np.isfinite(body.release).all():
            raise IllegalMessage(f"{title_of_message(message)}: the release does not have the shape of the terms")

    def _kept(self, kind: str, message: Message, data: bytes) -> ChargeWanted:
        """Have what answers a message stored, free of charge: another processor may compute other last bits."""
        return ChargeWanted(
            charge=Charge(((View.curator(self.name), NoRelease()),)),
            asked=self._request(kind, message.round, message.data),
            draw=lambda: (data, None),
            repeatable=True,
        )

    def _handles(self, row_numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
        handles = list(row_handles(self._key, self.terms.run, row_numbers))
        self._rows_by_handle.update(zip(handles, map(int, row_numbers), strict=True))
        return np.array(handles, dtype=np.uint64)

    def _leaving(self, drawn: DrawnRows) -> tuple[NDArray[np.uint64], FetchedRows]:
        """Handles and rows, in an order that tells nothing about how they were found; none that is not admitted."""
        admitted = np.flatnonzero(self._admission.admits(drawn.records))
        drawn = DrawnRows(drawn.row_numbers[admitted], drawn.records.take(admitted))
        handles = self._handles(drawn.row_numbers)
        order = np.argsort(handles, kind="stable")
        return handles[order], drawn.records.take(order)

    def _offer(self, drawn: DrawnRows) -> Offer:
        handles, leaving = self._leaving(drawn)
        rows, labels = np.asarray(leaving.rows, dtype=np.float32), narrow(leaving.labels)
        declared = self._admission.declared
        packed = b"" if leaving.table is None or declared is None else declared.pack(leaving.table)
        return Offer(
            rows=rows,
            labels=labels,
            handles=handles,
            records=np.frombuffer(packed, dtype=np.uint8),
        )


_FIT_ROWS = 4000  # rows on which the weights are fitted: enough for class means and one parameter
_PROXY_ROWS = 2500  # rows that stand for the weighted table when candidates are thinned
_TILTED_CANDIDATES = 4  # candidates for each offered row that are drawn by weight ...
_UNIFORM_CANDIDATES = 2  # ... and uniformly, as a hedge against look-alikes
_DEVIATIONS = 1.0  # of the squared length of the noise, before a tilt begins


@dataclass(frozen=True, eq=False)
class RowScore:
    tilt: Projection | None = None
    strata: Strata | None = None

    @property
    def is_uniform(self) -> bool:
        return self.tilt is None and self.strata is None

    def __call__(self, block: FetchedRows, first_row: int) -> NDArray[np.float64]:
        scores = np.zeros(len(block.rows))
        if self.tilt is not None:
            scores += self.tilt(block.rows, first_row=first_row)
        if self.strata is not None:
            scores += self.strata.score(block.labels)
        return scores


@dataclass(frozen=True, eq=False)
class Weighing:
    score: RowScore
    sample: FetchedRows
    sample_weights: NDArray[np.float64]
    misfit: float  # squared distance of the sample's weighted mean from the release; 0 where there is none


def foreseen_sample(run: str, key: int) -> Drawing:
    """The draw with which an owner of this key begins its answer, known before it hears anything."""
    return Drawing(_FIT_ROWS, key_in_run(key, run, "fit"))


def _noise_energy(dimension: int, noise: float) -> float:
    """What the squared length of noise in that many coordinates exceeds in about one of six releases.

    Its mean alone let chance start a tilt at owners whose rows are like the target: they then offered what resembles
    the noise (docs/decisions.md, "How an owner draws its offer").
    """
    return dimension * noise**2 * (1.0 + _DEVIATIONS * math.sqrt(2.0 / dimension))


def weigh(terms: Terms, scan: Scan, release: NDArray[np.float64] | None, *, noise: float, key: int) -> Weighing:
    (drawn,) = scan.draw(foreseen_sample(terms.run, key))
    sample = drawn.records.take(np.argsort(drawn.row_numbers))
    equal = np.full(len(sample.rows), 1.0 / len(sample.rows))
    if release is None:
        return Weighing(RowScore(), sample, equal, 0.0)
    features = terms.kernel.features()
    hashed = features(sample.rows)
    strata = None
    if terms.labels == "match" and len(sample.labels):
        strata = fit_strata(hashed, sample.labels, release, noise=noise)
    base = np.zeros(len(sample.rows)) if strata is None else strata.score(sample.labels)
    tilt = fit_tilt(
        hashed,
        release,
        noise_energy=_noise_energy(len(release), noise),
        # The tilt keeps half as many effective rows as this: twice what is offered, half of a small table.
        wanted=min(_TILTED_CANDIDATES * terms.rows_per_owner, scan.row_count),
        population=scan.row_count,
        log_weights=base,
    )
    exponents = base + tilt.score(hashed)
    weights = np.exp(exponents - exponents.max())
    weights /= weights.sum()
    mean = weights @ hashed.astype(np.float64)
    score = RowScore(Projection(features, tilt.beta * tilt.direction) if tilt.beta else None, strata)
    return Weighing(score, sample, weights, float(((mean - release) ** 2).sum()))


def draw_offer(terms: Terms, scan: Scan, weighing: Weighing, *, key: int) -> DrawnRows:
    """The rows to offer, as many as the terms say or all that there are; one pass over the owner's rows."""
    count = terms.rows_per_owner
    tilted_key, uniform_key = (key_in_run(key, terms.run, purpose) for purpose in ("offer", "hedge"))
    all_there_are = scan.row_count <= count
    if all_there_are or not terms.thinning:
        if all_there_are or weighing.score.is_uniform:
            return scan.draw(Drawing(count, uniform_key))[0]
        return scan.draw(Drawing(count, tilted_key, weighing.score))[0]
    if weighing.score.is_uniform:
        (candidates,) = scan.draw(Drawing((_TILTED_CANDIDATES + _UNIFORM_CANDIDATES) * count, uniform_key))
    else:
        tilted, uniform = scan.draw(
            Drawing(_TILTED_CANDIDATES * count, tilted_key, weighing.score),
            Drawing(_UNIFORM_CANDIDATES * count, uniform_key),
        )
        candidates = _together(tilted, uniform)
    proxies = np.unique(np.linspace(0, len(weighing.sample.rows) - 1, _PROXY_ROWS).astype(np.int64))
    weights = weighing.sample_weights[proxies]
    kept = thin(
        candidates.records.rows,
        weighing.sample.rows[proxies],
        weights / weights.sum(),
        count,
        gamma=terms.kernel.gamma,
    )
    return DrawnRows(candidates.row_numbers[kept], candidates.records.take(kept))


def _together(first: DrawnRows, second: DrawnRows) -> DrawnRows:
    new = np.flatnonzero(~np.isin(second.row_numbers, first.row_numbers))
    return DrawnRows(
        np.concatenate([first.row_numbers, second.row_numbers[new]]),
        FetchedRows.concatenate([first.records, second.records.take(new)]),
    )


def target_rows(terms: Terms, target: ArrayLike) -> Rows:
    rows = arguments.matrix("target", target)
    wanted = (terms.target_size if terms.relation is Relation.REPLACE_ONE else len(rows), terms.kernel.columns)
    if rows.shape != wanted:  # under add-or-remove the size is declared, and the true one is nobody's business
        raise InvalidArgument("target", f"array of shape {rows.shape}", f"must have shape {wanted}, as in the terms")
    if terms.relation is Relation.ADD_OR_REMOVE and terms.offers == "tilted":
        terms.kernel.features().check_places()  # else a row that goes would move what the others contribute
    return rows.astype(np.float32)


def released_mean(terms: Terms, rows: Rows, noise: Noise) -> PricedDraw[Vector]:
    plan = target_plan(terms)
    if plan is None:
        return np.empty(0)
    event: Event = plan.event if noise.private else Simulated(plan.event)

    def draw() -> tuple[bytes, Release[Vector]]:
        # In a random order, and each by itself: a table may be sorted, and where a row stands must not show.
        features = terms.kernel.features().of_each(rows[random_order(len(rows), noise)])
        if isinstance(plan, gaussian_mean.GaussianPlan):
            drawn = gaussian_mean.run(plan, features, noise)
        else:
            made = mwem_mean.run(plan, features, noise)
            drawn = Release(made.value.mean, made.event)
        return drawn.value.astype("<f8").tobytes(), drawn

    kept = yield ChargeWanted(
        charge=Charge(((View.owners(terms.consumer), event),)),
        asked=Request(terms.run, 0, f"{terms.consumer}/target-release", terms.digest.encode()),
        draw=draw,
    )
    return np.frombuffer(kept, dtype="<f8")


class Consumer(Party):
    def __init__(
        self,
        terms: Terms,
        *,
        target: ArrayLike,
        noise: Noise,
        selection: Selection | None = None,
        declared: DeclaredRecords | None = None,
    ) -> None:
        super().__init__(terms, terms.consumer, CONSUMER_RULES)
        self._rows = target_rows(terms, target)
        self._noise = noise
        self._admission = Admission(terms, declared)
        selection = selection or Selection()
        self._folds = selection.folds
        self._gamma = selection.kernel_width(self._rows)
        self.summary: Summary | None = None

    def start(self) -> Step:
        """The target, for the curator, and then its release, for each owner; asked again, the same bytes.

        The curator comes first: it is to wait for owners before the first of them answers.
        """
        return self._begin_step(self._send_target())

    def _send_target(self) -> Work:
        release = yield from released_mean(self.terms, self._rows, self._noise)
        target = Target(
            rows=self._rows,
            release=release if self.terms.protocol == "interactive" else np.empty(0),
            gamma=self._gamma,
            folds=self._folds,
        )
        target_release = TargetRelease(release=release)
        number = RELEASE_ROUND[self.terms.protocol]
        return (
            self._message(CURATOR, 0, target),
            *(self._message(owner, number, target_release) for owner in self.terms.owners),
        )

    def _check_content(self, message: Message) -> None:
        body = message.body
        if not isinstance(body, Summary) or not self._fits(body):
            raise IllegalMessage(f"{title_of_message(message)}: its parts do not fit together")
        if self._admission.declared is None or not len(body.rows):
            return
        fault = self._admission.fault(body.rows, body.labels, body.records)
        if fault is not None:
            raise IllegalMessage(f"{title_of_message(message)}: has {fault}")

    def _handle(self, message: Message) -> Work:
        if isinstance(message.body, Summary):
            self.summary = message.body
        yield from ()  # to listen costs nothing
        return ()

    def _fits(self, body: Summary) -> bool:
        """Whether a summary has the form of one: what is computed from it later will not fail."""
        aligned = (body.rows, body.owners, body.handles, body.gains, body.squared_mmds)
        places = np.concatenate([body.owners, body.absent, body.flagged])
        return (
            len({len(part) for part in aligned}) == 1
            and len(body.rows) <= self.terms.size
            and body.rows.shape[1] == self.terms.kernel.columns
            and len(body.labels) in (0, len(body.rows))
            and len(body.flagged) == len(body.reasons)
            and bool(((places >= 0) & (places < len(self.terms.owners))).all())
            and all(bool(np.isfinite(part).all()) for part in (body.rows, body.gains, body.squared_mmds))
            and 0 <= body.label_weight <= 100
            and 0 <= body.label_skill <= 100
        )


@dataclass(frozen=True, slots=True)
class Flag:
    """An owner whose message was not used, and why; says nothing about its rows."""

    owner: str
    reason: str


@dataclass(frozen=True, eq=False)
class Held:
    owner: int
    offer: Offer


class Curator(Party):
    def __init__(self, terms: Terms, *, noise: Noise, declared: DeclaredRecords | None = None) -> None:
        super().__init__(terms, CURATOR, curator_rules(terms))
        self._declared = declared
        self._admission = Admission(terms, declared)
        self._selection = Selection()  # as the consumer wants, once its target is there
        self._noise = noise
        self._target: Rows | None = None
        self._waiting: set[str] = set()
        self.flags: list[Flag] = []
        self.absent: set[str] = set()
        self.rows_seen = 0
        self.held_out: HeldOut | None = None  # with details that only runs within one process may show

    @property
    def offered(self) -> tuple[Rows | None, Labels | None]:
        """All offers with their labels, in one order; None where rows come one by one."""
        return None, None

    @property
    def waiting_for(self) -> frozenset[str]:
        return frozenset(self._waiting)

    @property
    def finished(self) -> bool:
        return self.position.state is CuratorState.FINISHED

    def give_up(self, owner: str) -> Step:
        """Wait for this owner no longer: it abstains from the current step; a late answer is discarded."""
        self._note_input(f"give-up {owner}".encode())
        return self._begin_step(self._without(owner))

    def _without(self, owner: str) -> Work:
        if owner not in self._waiting:
            return ()
        self._abstain(owner)
        return (yield from self._no_longer_waiting(owner))

    def _no_longer_waiting(self, owner: str) -> Work:
        self._waiting.discard(owner)
        return () if self._waiting else (yield from self._go_on())

    def _abstain(self, owner: str) -> None:
        self.absent.add(owner)

    def _sender(self, message: Message) -> Sender:
        owner = message.sender
        if owner not in self.terms.owners:
            return Sender.CONSUMER if owner == self.terms.consumer else Sender.STRANGER
        if self._is_late(message):
            return Sender.LATE
        return Sender.AWAITED if self._awaits(owner) else Sender.OWNER

    def _awaits(self, owner: str) -> bool:
        return owner in self._waiting

    def _is_late(self, message: Message) -> bool:
        return message.sender in self.absent

    def _check_content(self, message: Message) -> None:
        if isinstance(message.body, Target):
            self._check_target(message, message.body)

    def _handle(self, message: Message) -> Work:
        if isinstance(message.body, Target):
            chosen = message.body
            self._selection = Selection(gamma=chosen.gamma, folds=chosen.folds)
            self._target = message.body.rows
            return (yield from self._begin(message.body))
        if self._is_late(message):
            if isinstance(message.body, Offer | Delivery):
                self.rows_seen += len(message.body.rows)
            return ()
        self._take(message)
        return (yield from self._no_longer_waiting(message.sender))

    def _begin(self, target: Target) -> Work:
        raise NotImplementedError

    def _take(self, message: Message) -> None:
        raise NotImplementedError

    def _go_on(self) -> Work:
        raise NotImplementedError

    def _charge_to_owners(self, kind: str, event: Event, draw: Draw, *, round_number: int) -> ChargeWanted:
        """A draw about all owners' rows that all owners hear of; drawn with coins, so never drawn again."""
        if not self._noise.private and not isinstance(event, NoRelease):
            event = Simulated(event)
        costs = tuple((View.owners(owner), event) for owner in self.terms.owners)
        asked = self._request(kind, round_number, self._digest.encode())
        return ChargeWanted(charge=Charge(costs), asked=asked, draw=draw)

    def _auction(
        self, plan: auction.AuctionPlan, bids: auction.Bids, event: Event, *, round_number: int
    ) -> PricedDraw[Mask]:
        def draw() -> tuple[bytes, Release[Mask] | None]:
            drawn = auction.run(plan, bids, self._noise)
            return np.packbits(drawn.value).tobytes(), drawn if event == plan.event else None

        kept = yield self._charge_to_owners("auction", event, draw, round_number=round_number)
        return np.unpackbits(np.frombuffer(kept, dtype=np.uint8), count=len(self.terms.owners)).astype(bool)

    def _check_target(self, message: Message, target: Target) -> None:
        """The target, and how the consumer wants rows selected; nothing that owners hear depends on the latter."""
        terms, rows, interactive = self.terms, target.rows, self.terms.protocol == "interactive"
        plan = target_plan(terms) if interactive else None
        size = terms.target_size if terms.relation is Relation.REPLACE_ONE else max(1, len(rows))
        reason = ""
        if rows.shape != (size, terms.kernel.columns) or not (np.abs(rows) <= arguments.LARGEST_SINGLE).all():
            reason = "the target does not have the shape of the terms"
        elif target.release.shape != (plan.dimension if plan else 0,) or not np.isfinite(target.release).all():
            reason = "the release does not have the shape of the terms"
        elif not is_usable_width(target.gamma, float(np.square(rows, dtype=np.float64).sum(axis=1).max())):
            reason = "rows cannot be compared by a kernel of that width"
        elif not 0 <= target.folds <= MOST_FOLDS:
            reason = f"wants more than {MOST_FOLDS} folds, or less than none"
        if reason:
            raise IllegalMessage(f"{title_of_message(message)}: {reason}")

    def _flag(self, owner: str, reason: str) -> None:
        if all(flag.owner != owner for flag in self.flags):
            self.flags.append(Flag(owner, reason))

    def _fault(self, offer: Offer, *, most: int) -> str | None:
        """What is wrong with rows that came in, in words that say nothing about them; None if nothing is."""
        width = self.terms.kernel.columns
        if len(offer.rows) > most:
            return f"sent {len(offer.rows)} rows where at most {most} were asked for"
        if offer.rows.shape[1] != width:
            return f"sent rows with {offer.rows.shape[1]} columns instead of {width}"
        if len(offer.handles) != len(offer.rows) or len(np.unique(offer.handles)) != len(offer.handles):
            return "sent handles that do not name its rows one by one"
        if len(offer.labels) not in (0, len(offer.rows)):
            return f"sent {len(offer.labels)} labels for {len(offer.rows)} rows"
        fault = self._admission.fault(offer.rows, offer.labels, offer.records)
        return None if fault is None else f"sent {fault}"

    def _drop_odd_labels(self, held: list[Held]) -> list[Held]:
        """Without owners whose labels are of another kind than those of most owners of whom something is held.

        Where two kinds have as many owners, the kind of the first owner in the terms counts. That is not asked when
        rows come in: one row of an owner would decide whether its others are used in later rounds.
        """
        kinds: dict[int, set[str]] = {}
        for holding in sorted(held, key=lambda holding: holding.owner):
            if len(holding.offer.rows):
                kinds.setdefault(holding.owner, set()).add(_label_kind(holding.offer.labels))
        votes = Counter(next(iter(kind)) for kind in kinds.values() if len(kind) == 1)
        expected = {kind for kind, _ in votes.most_common(1)}
        odd = {owner for owner, kind in kinds.items() if kind != expected}
        for owner in sorted(odd):
            self._flag(self.terms.owners[owner], "sent labels of another kind than other owners")
        return [holding for holding in held if holding.owner not in odd]

    def _summary(self, held: list[Held], selected: Selected, held_out: HeldOut | None = None) -> Message:
        chosen, offers, labels = selected.indices, [holding.offer for holding in held], _joined_labels(held)
        owners = np.repeat([holding.owner for holding in held], [len(offer.rows) for offer in offers])
        places = {name: number for number, name in enumerate(self.terms.owners)}
        flags = sorted(self.flags, key=lambda flag: places[flag.owner])
        summary = Summary(
            rows=np.concatenate([offer.rows for offer in offers])[chosen],
            labels=narrow(labels[chosen]) if len(labels) else labels,
            owners=owners[chosen].astype(np.int64),
            handles=np.concatenate([offer.handles for offer in offers])[chosen],
            gains=selected.gains,
            squared_mmds=selected.squared_mmds,
            rows_seen=self.rows_seen,
            absent=np.array(sorted(places[name] for name in self.absent), dtype=np.int64),
            flagged=np.array([places[flag.owner] for flag in flags], dtype=np.int64),
            reasons=np.array([flag.reason for flag in flags], dtype=np.str_),
            records=self._chosen_records(held, chosen),
            label_weight=round(100.0 * selected.label_weight),
            label_skill=round(100.0 * selected.label_skill),
            held_out_squared_mmd=held_out.squared_mmd if held_out else math.nan,
            held_out_error=held_out.error if held_out else math.nan,
        )
        self._move(CuratorState.FINISHED)
        return self._message(self.terms.consumer, 0, summary)

    def _chosen_records(self, held: list[Held], chosen: NDArray[np.int64]) -> NDArray[np.uint8]:
        if self._declared is None:
            return np.empty(0, dtype=np.uint8)
        offers = [holding.offer for holding in held]
        tables = [self._declared.unpack(offer.records.tobytes(), rows=len(offer.rows)) for offer in offers]
        return np.frombuffer(self._declared.pack(pa.concat_tables(tables).take(pa.array(chosen))), dtype=np.uint8)


def _joined_labels(held: list[Held]) -> Labels:
    return np.concatenate([holding.offer.labels for holding in held])


def _label_kind(labels: Labels) -> str:
    if not len(labels):
        return "none"
    return "text" if labels.dtype.kind == "U" else "numbers"


_RELEASE, _ANSWER = RELEASE_ROUND["sealed"], 2  # rounds


class SealedOwner(Owner):
    _weighing: Weighing | None = None

    def _handle(self, message: Message) -> Work:
        if isinstance(message.body, TargetRelease):
            plan = target_plan(self.terms)
            noise = plan.sigma / plan.size if isinstance(plan, gaussian_mean.GaussianPlan) else 0.0
            release = message.body.release if plan else None
            weighing = self._weighing = weigh(self.terms, self._scan, release, noise=noise, key=self._key)
            if self.terms.auction != "everyone":
                misfit = self._message(CURATOR, _RELEASE, Misfit(misfit=weighing.misfit))
                return (decode((yield self._kept("misfit", message, misfit.data))),)
            return (yield from self._sealed_offer(message, weighing))
        if isinstance(message.body, Asked) and message.body.asked and self._weighing is not None:
            return (yield from self._sealed_offer(message, self._weighing))
        return ()

    def _sealed_offer(self, message: Message, weighing: Weighing) -> Work:
        """The offer, charged before it leaves and kept so that it can be sent again.

        The draw follows from the owner's key. So the offer is drawn and written before the charge, and what turns out
        to be unusable, or too large to be sent, costs nothing; and after a crash the same draw is made again for the
        same charge. What leaves is what the ledger keeps, which is what was sent before if anything was.
        """
        drawn = draw_offer(self.terms, self._scan, weighing, key=self._key)
        offer = self._message(CURATOR, message.round, self._offer(drawn))
        offer_bytes = offer.data
        costs = ((View.curator(self.name), Unbounded("rows are seen by the curator")),)
        kept = yield ChargeWanted(
            charge=Charge(costs, rows=self.terms.rows_per_owner),
            asked=self._request("offer", message.round, message.data),
            draw=lambda: (offer_bytes, None),
            repeatable=True,
        )
        reply = offer if kept == offer_bytes else decode(kept)
        if isinstance(reply.body, Offer):
            self.rows_disclosed = len(reply.body.rows)
        return (reply,)


class SealedCurator(Curator):
    def __init__(
        self, terms: Terms, *, noise: Noise, fold_key: int | None, declared: DeclaredRecords | None = None
    ) -> None:
        super().__init__(terms, noise=noise, declared=declared)
        # The curator's secret, which draws the folds of the target; the estimate, which depends on rows outside the
        # summary, is then rounded. None where all parties are in one process.
        self._fold_key = fold_key
        self._misfits: dict[str, float] = {}
        self._held: dict[str, Offer] = {}
        self._asked = set(terms.owners)

    @property
    def offered(self) -> tuple[Rows | None, Labels | None]:
        offers = [offer for offer in self._held.values() if len(offer.rows)]
        if not offers:
            return None, None
        return np.concatenate([offer.rows for offer in offers]), np.concatenate([offer.labels for offer in offers])

    def _begin(self, target: Target) -> Work:  # noqa: ARG002 (owners hear of it from the consumer)
        self._waiting = set(self.terms.owners)
        yield from ()  # nothing is charged: the consumer was, for the release
        return ()

    def _take(self, message: Message) -> None:
        body = message.body
        if isinstance(body, Misfit):
            if math.isfinite(body.misfit) and body.misfit >= 0.0:
                self._misfits[message.sender] = body.misfit
            else:
                self._flag(message.sender, "sent a misfit that is not a squared distance")
        elif isinstance(body, Offer):
            self.rows_seen += len(body.rows)
            fault = self._fault(body, most=self.terms.rows_per_owner)
            if message.sender not in self._asked:
                self._flag(message.sender, "sent rows that nobody asked for")
            elif fault:
                self._flag(message.sender, fault)
            else:
                self._held[message.sender] = body

    def _go_on(self) -> Work:
        if self.position.state is CuratorState.MISFITS:
            return (yield from self._ask())
        return [self._select()]

    def _ask(self) -> Work:
        """One auction, drawn once; everybody gets an answer of the same length."""
        plan = auction_plan(self.terms)
        bids = auction.Bids(
            values=tuple(-self._misfits[name] if name in self._misfits else None for name in self.terms.owners),
            waited=(1,) * len(self.terms.owners),
        )
        asked = yield from self._auction(plan, bids, plan.event, round_number=_ANSWER)
        self._move(CuratorState.OFFERS)
        self._asked = {owner for owner, yes in zip(self.terms.owners, asked, strict=True) if yes} & set(self._misfits)
        # Where nobody was asked the run will fail, but not before all have their answers: else whoever got a no would
        # know that somebody else got a yes. So everybody is waited for, in vain.
        self._waiting = set(self._asked or self.terms.owners)
        return [
            self._message(owner, _ANSWER, Asked(asked=bool(yes)))
            for owner, yes in zip(self.terms.owners, asked, strict=True)
        ]

    def _select(self) -> Message:
        if self._target is None:
            raise IllegalMessage("there is no target to select for")
        taking_part = len(self._held) if self.terms.auction == "everyone" else len(self._misfits)
        self._check_quorum(taking_part)
        places = {name: number for number, name in enumerate(self.terms.owners)}
        held = [Held(places[name], self._held[name]) for name in self.terms.owners if name in self._held]
        sent = [holding for holding in held if len(holding.offer.rows)]
        held = self._drop_odd_labels(sent)
        self._check_quorum(taking_part - (len(sent) - len(held)) if held else 0)
        pool = np.concatenate([holding.offer.rows for holding in held])
        labels, target, selection = _joined_labels(held), self._target, self._selection
        matched = len(labels) and self.terms.labels == "match"
        chances = selection.class_chances(pool, target, labels) if matched else None
        kernel = selection.pool_kernel(pool, target)
        selected = selection.select(pool, target, self.terms.size, chances=chances, kernel=kernel)
        self.held_out = cross_fit(
            selection, pool, target, selected, fold_key=self._fold_key or 0, chances=chances, kernel=kernel
        )
        rounded = self.held_out and (self.held_out if self._fold_key is None else self.held_out.rounded)
        return self._summary(held, selected, rounded)
