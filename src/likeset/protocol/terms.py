"""The terms of a run: all that parties agree on before anything happens, identified by one digest."""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal, Self

import numpy as np

from likeset import arguments
from likeset.arguments import Rows, harmless_value
from likeset.errors import BadMessage, InvalidArgument, UnprovenPart
from likeset.geometry.features import MAX_SEED, FourierFeatures
from likeset.geometry.selection import LARGEST_EXPONENT
from likeset.privacy.auction import PAPER_AUCTION, plan_threshold
from likeset.privacy.events import Observer, PrivacyUnit, Relation
from likeset.privacy.guarantee import checked_delta, checked_name
from likeset.privacy.mwem_mean import CHANGING_SCHEDULES, SCHEDULES

MOST_SHOWN = 500
"""Characters of a text in terms, such as the purpose: stewards are shown that many."""

RELEASE_SCALE = 1.0 / 3.0
"""Gamma of the release relative to that of the selection: wider, to tell relevant rows from others, not detail."""

# Terms come from others: what nobody can mean must not take all memory of whoever reads them.
_MOST_COLUMNS, _MOST_COORDINATES, _MOST_FREQUENCIES = 1 << 20, 1 << 16, 1 << 28
_LARGEST_ANGLE, _LARGEST_NORMAL, _SMALLEST_ROWS = 1e30, 8.6, 1e-30
_DIGEST, _RUN_ID = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{32}")
_LONGEST_NAME = 80  # in an error
_FINGERPRINT = re.compile(r"[A-Z2-7]{5}(-[A-Z2-7]{5}){7}")


@dataclass(frozen=True, slots=True)
class Budget:
    """What one view may cost in this run."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        checked_delta(self.delta)
        keep_checked(self, epsilon=arguments.positive("epsilon", self.epsilon, zero=True), delta=float(self.delta))


@dataclass(frozen=True, slots=True)
class KernelShape:
    """What is known of the feature map of the releases before anything is drawn; all that it costs follows from this.

    Attributes:
        columns: number of columns of a row.
        dimension: length of a feature vector.
        kind: ``paired``, or ``paper`` for the paper's mean release.
    """

    columns: int
    dimension: int
    kind: Literal["paired", "paper"] = field(default="paired", kw_only=True)

    def __post_init__(self) -> None:
        arguments.one_of("kind", self.kind, ("paired", "paper"))
        keep_checked(
            self,
            columns=arguments.count("columns", self.columns, most=_MOST_COLUMNS),
            dimension=arguments.count("dimension", self.dimension, most=_MOST_COORDINATES),
        )
        # All that the map itself would refuse: to build it takes time, and nobody has approved the terms yet.
        if self.kind == "paired" and self.dimension % 2:
            raise InvalidArgument("dimension", self.dimension, "must be even for paired features")
        if self.columns * self.dimension > _MOST_FREQUENCIES:
            raise InvalidArgument("dimension", self.dimension, f"is too long for {self.columns} columns")

    def drawn(self, *, gamma: float, seed: int, largest: float) -> "Kernel":
        return Kernel(self.columns, self.dimension, gamma, seed, kind=self.kind, largest=largest)


@dataclass(frozen=True, slots=True)
class Kernel(KernelShape):
    """The feature map of the releases: owners see it, so it comes from public facts.

    Attributes:
        gamma: width of the kernel; wider than the one used for selection.
        seed: selects the frequencies; public.
        largest: no number of a row is larger in size: as the schema declares, or as large as gamma allows if 0. Rows
            beyond it are no rows of the run, so that features of all others are numbers.
    """

    gamma: float
    seed: int
    largest: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        KernelShape.__post_init__(self)
        keep_checked(
            self,
            gamma=arguments.positive("gamma", self.gamma),
            seed=arguments.count("seed", self.seed, least=0, most=MAX_SEED, most_is="a 256-bit number"),
        )
        most = _largest_entry(self.gamma, self.columns)
        if most < _SMALLEST_ROWS:
            raise InvalidArgument("gamma", self.gamma, "is too large: no row has features under such a kernel")
        keep_checked(self, largest=arguments.positive("largest", self.largest, zero=True) or most)
        if self.largest > most:
            raise InvalidArgument(
                "gamma",
                self.gamma,
                f"is too large: rows may then have numbers of up to {most:g}, and these have up to {self.largest:g}",
            )

    def features(self) -> FourierFeatures:
        """The map itself; the same for all parties in a process."""
        return _feature_map(self.columns, self.dimension, self.gamma, self.seed, self.kind)


@lru_cache(maxsize=4)
def _feature_map(
    columns: int, dimension: int, gamma: float, seed: int, kind: Literal["paired", "paper"]
) -> FourierFeatures:
    return FourierFeatures(columns, dimension, gamma, seed, kind)


class Fingerprints(Mapping[str, str]):
    """Fingerprints of cards, by the names of their parties: in one order, never changed, no two of them alike.

    Args:
        cards: by name, as eight groups of five letters of RFC 4648 base32, joined by ``-``.

    Raises:
        InvalidArgument: one is written otherwise, or two parties have one card.
    """

    __slots__ = ("_by_name",)

    def __init__(self, cards: Mapping[str, str] = MappingProxyType({})) -> None:
        if not isinstance(cards, Mapping) or not all(isinstance(name, str) for name in cards):
            raise InvalidArgument("cards", type(cards).__name__, "must be an object with a fingerprint for each name")
        for name, fingerprint in cards.items():
            if not isinstance(fingerprint, str) or _FINGERPRINT.fullmatch(fingerprint) is None:
                raise InvalidArgument(
                    f"cards.{name[:_LONGEST_NAME]}",
                    arguments.harmless_value(fingerprint),
                    "must be a fingerprint: eight groups of five letters A-Z and digits 2-7, joined by -",
                )
        times = Counter(cards.values())
        if len(times) < len(cards):
            alike = sorted(name for name in cards if times[cards[name]] > 1)
            raise InvalidArgument(f"cards.{alike[0]}", cards[alike[0]], "is another party's card, too")
        self._by_name = {name: cards[name] for name in sorted(cards)}

    def __getitem__(self, name: str) -> str:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __eq__(self, other: object) -> bool:
        return self._by_name == other._by_name if isinstance(other, Fingerprints) else Mapping.__eq__(self, other)

    def __hash__(self) -> int:
        return hash(tuple(self._by_name.items()))

    def __repr__(self) -> str:
        return f"Fingerprints({self._by_name})"


def is_run_id(text: object) -> bool:
    return isinstance(text, str) and _RUN_ID.fullmatch(text) is not None


def _largest_entry(gamma: float, columns: int) -> float:
    """How large the numbers of a row may be: its squares, exponents and angles are then numbers in single precision.

    An entry of a frequency is at most ``sqrt(2 gamma)`` times the length of ``columns`` normal numbers, none of which
    is beyond 8.6 (they are made from 53 bits), and an angle is a sum of ``columns`` products with them.
    """
    by_angles = _LARGEST_ANGLE / (_LARGEST_NORMAL * math.pow(columns, 1.5) * math.sqrt(2.0 * gamma))
    by_exponents = math.sqrt(LARGEST_EXPONENT / columns / (4.0 * gamma / RELEASE_SCALE))
    return min(arguments.LARGEST_SINGLE, by_angles, by_exponents)


def is_digest(text: str) -> bool:
    """Whether a text is written as digests are, and so may be part of a file's name."""
    return _DIGEST.fullmatch(text) is not None


def digest_of_rows(rows: Rows) -> str:
    """By which the terms name public rows: of their numbers in single precision, in their order."""
    plain = np.ascontiguousarray(rows, dtype="<f4") + np.float32(0.0)  # no -0.0: equal rows have one digest
    head = f"likeset/rows/1\n{plain.shape[0]}x{plain.shape[1]}\n".encode()
    return hashlib.sha256(head + plain.tobytes()).hexdigest()


def check_text(argument: str, value: object) -> None:
    """Raise unless a value is a text that can be written, and that a steward is shown in full."""
    if not isinstance(value, str):
        raise InvalidArgument(argument, type(value).__name__, "must be text")
    if len(value) > MOST_SHOWN:
        shown = f"text of {len(value):,} characters"
        raise InvalidArgument(argument, shown, f"must have at most {MOST_SHOWN} characters: a steward reads all of it")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(argument, "other text", "has half of a surrogate pair, which is no character") from None


def keep_checked(thing: object, **values: float) -> None:
    """Put checked numbers in place of what was given, while a frozen object is made."""
    for name, value in values.items():
        object.__setattr__(thing, name, value)


MOST_SPLIT_SLOTS = 1 << 20
"""Slots of all owners together: what the public program takes."""
MOST_SPLIT_TARGET = 1 << 14
"""Rows of the target."""
LARGEST_SPLIT_ENTRY = 256.0
"""No number of a row may be larger in size: what the public program takes."""
_SMALLEST_GAMMA, _LARGEST_GAMMA = 1e-6, 1e6
# Gamma times the largest squared distance from the middle of all ranges: the public program takes 2^11, of ranges that
# are rounded up to whole words.
_FARTHEST = 2000.0


def largest_split(gamma: float, columns: int) -> float:
    """How large numbers of rows may be so that 64 bits hold their distances, in units of the kernel's width."""
    return min(LARGEST_SPLIT_ENTRY, math.sqrt(_FARTHEST / (gamma * columns)))


def largest_split_gamma(largest: float, columns: int) -> float:
    """The other way round: the narrowest kernel for rows whose numbers may be so large."""
    return _FARTHEST / (columns * largest**2) * (1.0 - 1e-9)


@dataclass(frozen=True, slots=True)
class SplitShape:
    """What is known of a split run before anything is drawn.

    Attributes:
        program: digest of the public program; every compute party builds it from its own files.
        openings: how many rows may be opened to the consumer in all: as many as the summary has.
    """

    program: str
    openings: int

    def __post_init__(self) -> None:
        if not isinstance(self.program, str) or not is_digest(self.program):
            raise InvalidArgument("split.program", "other text", "must be the digest of the public program")
        keep_checked(self, openings=arguments.count("split.openings", self.openings, most=MOST_SPLIT_SLOTS))

    def drawn(self, *, gamma: float) -> "SplitTerms":
        """The same with the kernel's width."""
        return SplitTerms(self.program, self.openings, gamma=gamma)


@dataclass(frozen=True, slots=True)
class SplitTerms(SplitShape):
    """What all parties of a split run agree on.

    Attributes:
        gamma: width of the selection's kernel. Public: it must not be read off the target.
    """

    gamma: float = field(kw_only=True)

    def __post_init__(self) -> None:
        SplitShape.__post_init__(self)
        keep_checked(self, gamma=arguments.positive("split.gamma", self.gamma))
        if not _SMALLEST_GAMMA <= self.gamma <= _LARGEST_GAMMA:
            reason = f"must lie between {_SMALLEST_GAMMA:g} and {_LARGEST_GAMMA:g}; scale the columns"
            raise InvalidArgument("split.gamma", self.gamma, reason)


SUMMARY_RELEASE = "summary-release"
"""The name under which releases about the summary must be accepted where not everyone is asked in every round."""

# Terms come from others: what nobody can mean must not take all memory of whoever reads them.
_MOST_RECORD_BYTES = 1 << 28
_MOST_ROWS = 1 << 53  # beyond it a count and its float64 are no longer the same number


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTerms:
    """What is fixed of the terms of one run before anything is drawn for it.

    Attributes:
        run: name of the run; a (run, round, kind) is answered once.
        consumer: who wants the summary.
        purpose: what for, in words.
        owners: who is invited, in the public order that breaks ties.
        quorum: how many owners must take part.
        schema_digest: of the schema that declares the columns; empty for bare arrays.
        columns: names of the columns that leave an owner; empty for bare arrays.
        record_bytes: how long the record of a row and its label may be, by its schema; 0 for bare arrays.
        kernel: what is known of the feature map of the releases.
        split: who computes in the curator's place, on shares; None for a curator who is trusted with rows.
        protocol: ``sealed`` or ``interactive``.
        size: rows of the summary (the paper's p).
        target_size: rows of the target (m), public; under add-or-remove declared beforehand and near the true number.
        offer_factor: about how many rows are offered, in all, for each row of the summary.
        offers: ``tilted`` toward the target's release, or ``uniform``, without any release.
        labels: ``match`` where owners and the curator may use labels to find the target's classes, or ``ignore``.
        thinning: whether owners thin more candidates than they offer to an offer that represents them.
        target_budget: what owners may learn about the target.
        owner_budget: what owners may learn about one another's rows.
        relation: what neighbouring data are.
        rows_per_unit: how many rows of one unit of privacy take part, at most: 1 if the unit is a row.
        id_column: the column that says which rows belong to one unit; empty where the schema declares none.
        auction: who is asked: ``everyone``, ``threshold`` or ``paper``.
        auction_epsilon: of one use of the auction; 0 with ``everyone``.
        auction_offset: with ``threshold``, about how many owners are asked; 0 otherwise.
        auction_patience: with ``paper``, after how many rounds with the same bid a row is asked for; 0 otherwise.
        summary_release: what ``interactive`` tells owners about the summary so far: ``none``, ``gaussian``, ``mwem``.
        seed_rows: how many public rows start the summary of ``interactive``; never owners' rows.
        seed_digest: which rows these are (``digest_of_rows``); empty where there are none.
        schedule: the paper's schedule by name for ``mwem``; empty where the budget is split for the user.
        promised_epsilon: from which ``theorem`` and ``proof`` compute their steps; 0 otherwise. It limits nothing.
        price_per_row: what an owner is paid for each row disclosed; depends on nobody else's data.
        accept_unproven: names of parts without a proof that all parties accept.
        version: of the package.
    """

    run: str
    consumer: str
    purpose: str
    owners: tuple[str, ...]
    quorum: int
    schema_digest: str
    columns: tuple[str, ...]
    record_bytes: int
    kernel: KernelShape
    split: SplitShape | None = None
    protocol: Literal["sealed", "interactive"]
    size: int
    target_size: int
    offer_factor: float
    offers: Literal["tilted", "uniform"]
    labels: Literal["match", "ignore"]
    thinning: bool
    target_budget: Budget
    owner_budget: Budget
    relation: Relation
    rows_per_unit: int
    id_column: str
    auction: Literal["everyone", "threshold", "paper"]
    auction_epsilon: float
    auction_offset: int
    auction_patience: int
    summary_release: Literal["none", "gaussian", "mwem"]
    seed_rows: int
    seed_digest: str
    schedule: str
    promised_epsilon: float
    price_per_row: float
    accept_unproven: tuple[str, ...]
    version: str

    def __post_init__(self) -> None:
        self._check_words()
        self._check_numbers()
        self._check_combination()

    def _check_words(self) -> None:
        checked_name("run", self.run)
        checked_name("consumer", self.consumer)
        if not self.owners:
            raise InvalidArgument("owners", "none", "at least one owner is needed")
        for name in self.owners:
            checked_name("owners", name)
        twice = sorted(name for name, times in Counter(self.owners).items() if times > 1)
        if twice:
            raise InvalidArgument("owners", ", ".join(twice), "an owner may be named once only")
        reserved = {"curator", self.consumer} & set(self.owners)
        if reserved or self.consumer == "curator":
            raise InvalidArgument("owners", ", ".join(sorted(reserved or {"curator"})), "is another party's name")
        for argument in ("purpose", "schema_digest", "id_column", "seed_digest", "version"):
            check_text(argument, getattr(self, argument))
        if self.schema_digest and not is_digest(self.schema_digest):
            # A curator looks for a file of that name.
            raise InvalidArgument("schema_digest", "other text", "must be 64 hexadecimal digits, or empty")
        for argument in ("columns", "accept_unproven"):
            for word in getattr(self, argument):
                check_text(argument, word)
        arguments.one_of("protocol", self.protocol, ("sealed", "interactive"))
        arguments.one_of("offers", self.offers, ("tilted", "uniform"))
        arguments.one_of("labels", self.labels, ("match", "ignore"))
        arguments.one_of("auction", self.auction, ("everyone", "threshold", "paper"))
        arguments.one_of("summary_release", self.summary_release, ("none", "gaussian", "mwem"))
        arguments.one_of("schedule", self.schedule, ("", *SCHEDULES))

    def _check_numbers(self) -> None:
        """Kept as plain numbers: equal terms have one text, whatever their numbers were made of."""
        if type(self.thinning) is not bool:
            raise InvalidArgument("thinning", repr(self.thinning), "must be true or false")
        keep_checked(
            self,
            quorum=arguments.count("quorum", self.quorum, most=len(self.owners), most_is="the number of owners"),
            record_bytes=arguments.count("record_bytes", self.record_bytes, least=0, most=_MOST_RECORD_BYTES),
            size=arguments.count("size", self.size, most=_MOST_ROWS),
            target_size=arguments.count("target_size", self.target_size, most=_MOST_ROWS),
            offer_factor=arguments.positive("offer_factor", self.offer_factor),
            rows_per_unit=arguments.count("rows_per_unit", self.rows_per_unit, most=_MOST_ROWS),
            auction_epsilon=arguments.positive("auction_epsilon", self.auction_epsilon, zero=True),
            auction_offset=arguments.count("auction_offset", self.auction_offset, least=0, most=_MOST_ROWS),
            auction_patience=arguments.count("auction_patience", self.auction_patience, least=0, most=_MOST_ROWS),
            promised_epsilon=arguments.positive("promised_epsilon", self.promised_epsilon, zero=True),
            seed_rows=arguments.count("seed_rows", self.seed_rows, least=0, most=_MOST_ROWS),
            price_per_row=arguments.positive("price_per_row", self.price_per_row, zero=True),
        )
        if self.offer_factor * self.size > _MOST_ROWS:
            raise InvalidArgument("offer_factor", self.offer_factor, "asks for more rows than can be counted")

    def _check_combination(self) -> None:
        """Parts that do not go together, and parts without a proof that nobody accepted by name."""
        if self.protocol == "sealed" and (self.summary_release != "none" or self.auction == "paper" or self.schedule):
            raise InvalidArgument(
                "protocol", "sealed", "has no summary release, paper auction or schedule: those are of interactive"
            )
        if self.protocol == "interactive" and self.offers == "uniform":
            raise InvalidArgument("offers", "uniform", "is of the sealed protocol; interactive needs a target release")
        if not is_digest(self.seed_digest) if self.seed_rows else self.seed_digest:
            raise InvalidArgument(
                "seed_digest", "other text", "must be what digest_of_rows() gave, or empty if there are none"
            )
        if self.summary_release != "none" and not self.schedule and self.owner_budget.epsilon == 0.0:
            raise InvalidArgument("owner_budget", 0.0, "allows no release of the summary; use summary_release='none'")
        if self.offers == "tilted" and self.target_budget.epsilon == 0.0:
            raise InvalidArgument("epsilon", 0.0, "allows no release of the target; use offers='uniform'")
        uses_paper_release = self.summary_release == "mwem" or bool(self.schedule)
        if uses_paper_release != (self.kernel.kind == "paper"):
            raise InvalidArgument("kernel", self.kernel.kind, "must be paper exactly where the mean release is mwem")
        if (self.auction == "everyone") != (self.auction_epsilon == 0.0):
            raise InvalidArgument("auction_epsilon", self.auction_epsilon, "must be 0 exactly where everyone is asked")
        if (self.auction == "threshold") != (self.auction_offset > 0):
            raise InvalidArgument("auction_offset", self.auction_offset, "goes with the threshold auction")
        if (self.auction == "paper") != (self.auction_patience > 0):
            raise InvalidArgument("auction_patience", self.auction_patience, "goes with the paper's auction")
        if (self.schedule in CHANGING_SCHEDULES) != (self.promised_epsilon > 0.0):
            raise InvalidArgument(
                "promised_epsilon", self.promised_epsilon, "goes with the schedules theorem and proof"
            )
        # What would fail in a later step fails here, before the release of the target is paid for.
        if self.summary_release == "gaussian" and self.kernel.kind == "paper":
            raise InvalidArgument("summary_release", "gaussian", "needs paired features, which no schedule goes with")
        if self.schedule and self.size < 2:
            raise InvalidArgument("size", self.size, "must be at least 2 for the paper's schedules")
        if self.auction == "threshold":
            plan_threshold(
                len(self.owners),
                epsilon=self.auction_epsilon,
                observer=Observer.COALITION,
                rounds=self.size if self.protocol == "interactive" else 1,
                summary_released=self.summary_release != "none",
                offset=self.auction_offset,
            )
        self._check_split()
        for name, reason in self.unproven_parts():
            if name not in self.accept_unproven:
                raise UnprovenPart(name, reason)

    def _check_split(self) -> None:
        split = self.split
        if split is None:
            return
        if self.protocol == "interactive" or self.auction != "everyone":
            raise InvalidArgument(
                "curator",
                "split",
                "goes with the sealed protocol and everyone asked; interactive and auctions need a trusted curator",
            )
        if split.openings != self.size:
            raise InvalidArgument("split.openings", split.openings, f"must be the size, {self.size}")
        if self.target_size > MOST_SPLIT_TARGET:
            reason = f"is too large for a split curator: at most {MOST_SPLIT_TARGET:,} rows"
            raise InvalidArgument("target_size", self.target_size, reason)
        if self.rows_per_owner * len(self.owners) > MOST_SPLIT_SLOTS:
            reason = f"asks for more than the {MOST_SPLIT_SLOTS:,} rows that a split curator takes"
            raise InvalidArgument("offer_factor", self.offer_factor, reason)

    def unproven_parts(self) -> tuple[tuple[str, str], ...]:
        parts = []
        if self.auction == "paper":
            parts.append((PAPER_AUCTION, "who is not asked knows that somebody bid more"))
        if self.summary_release != "none" and self.auction != "everyone":
            parts.append((SUMMARY_RELEASE, "who is asked and what is released feed on one another"))
        return tuple(parts)

    def document(self) -> dict[str, Any]:
        values = ((declared.name, getattr(self, declared.name)) for declared in fields(self))
        # One level at a time: a copy of all that is below takes longer the more owners there are.
        return {
            name: asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
            for name, value in values
        }

    @property
    def unit(self) -> PrivacyUnit:
        return PrivacyUnit(self.rows_per_unit, self.id_column)

    @property
    def asked_owners(self) -> int:
        return min(self.auction_offset, len(self.owners)) if self.auction == "threshold" else len(self.owners)

    @property
    def rows_per_owner(self) -> int:
        """How many rows an owner discloses, at most: fixed beforehand, never recomputed after dropouts."""
        if self.protocol == "interactive":
            return self.size
        return math.ceil(self.offer_factor * self.size / self.asked_owners)

    @property
    def rows_readable(self) -> int:
        """How many rows of an owner one party may read, at most: all that it offers, unless the curator is split."""
        return self.rows_per_owner if self.split is None else min(self.rows_per_owner, self.split.openings)


WITNESS = "witness"
"""The name under which the card of a witness stands in the terms, where there is one."""
_YEARS = range(2000, 2200)  # in which terms may end


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms(PlannedTerms):
    """The terms of one run: as planned, with what was drawn for it.

    Attributes:
        kernel: as planned, with all that the feature map of the releases needs.
        split: as planned, with the width of the selection's kernel.
        expires: until when the terms may be used, ISO 8601 (UTC if it names no zone); empty for no end. Engines compare
            it with their clocks.
        run_id: of the run, drawn at random: 32 hexadecimal digits; empty among parties in one house.
        cards: fingerprints of the parties' cards, by their names in the terms: the consumer, every owner, ``curator``
            and, where there is one, ``witness``; empty among parties in one house.
    """

    kernel: Kernel
    split: SplitTerms | None = None
    expires: str
    run_id: str = ""
    cards: Mapping[str, str] = field(default_factory=Fingerprints)

    def __post_init__(self) -> None:
        PlannedTerms.__post_init__(self)
        check_text("expires", self.expires)
        _ = self.end
        self._check_parties()
        self._check_computing()

    @classmethod
    def settled(
        cls,
        planned: PlannedTerms,
        *,
        gamma: float,
        seed: int,
        largest: float,
        split_gamma: float | None = None,
        **more: Any,
    ) -> Self:
        """The terms that were planned, with what was drawn for them.

        Args:
            planned: what stays as it is.
            gamma: of the kernel.
            seed: of the kernel.
            largest: of the kernel.
            split_gamma: of the selection's kernel, where the curator is split; None where it is trusted.
            more: ``expires``, and where parties have cards ``run_id`` and ``cards``.

        Raises:
            ValueError: another curator was planned, and priced; that is a mistake in the caller.
        """
        if (planned.split is None) != (split_gamma is None):
            raise ValueError(f"a curator was planned as {planned.split}")
        split = None if planned.split is None or split_gamma is None else planned.split.drawn(gamma=split_gamma)
        kept: dict[str, Any] = {declared.name: getattr(planned, declared.name) for declared in fields(PlannedTerms)}
        kernel = planned.kernel.drawn(gamma=gamma, seed=seed, largest=largest)
        return cls(**{**kept, "expires": "", **more, "kernel": kernel, "split": split})

    def _check_parties(self) -> None:
        """Either every party is named by its card, and the run by its number, or no party is."""
        object.__setattr__(self, "cards", Fingerprints(self.cards))  # however it was given, the terms have a hash
        if self.run_id != "" and not is_run_id(self.run_id):
            raise InvalidArgument("run_id", "other text", "must be 32 hexadecimal digits, or empty")
        if bool(self.run_id) != bool(self.cards):
            raise InvalidArgument("cards", f"{len(self.cards)} cards", "go with a run_id: both are given, or neither")
        if not self.cards:
            return
        if WITNESS in (self.consumer, *self.owners):
            raise InvalidArgument("owners", WITNESS, "is another party's name")
        expected = {self.consumer, *self.owners, "curator"}
        odd = sorted((set(self.cards) - {WITNESS}) ^ expected)
        if odd:
            name = arguments.harmless_value(odd[0])
            raise InvalidArgument("cards", name, "there must be a card for each party, and for nobody else")

    def _check_computing(self) -> None:
        """In a split run every party signs what it says about shares, so every party has a card."""
        split = self.split
        if split is None:
            return
        if not self.cards:
            raise InvalidArgument("cards", "none", "a split run names every party by the fingerprint of its card")
        if WITNESS not in self.cards:
            raise InvalidArgument("cards", "no witness", "a split run needs a witness: three parties compute")
        most = largest_split(split.gamma, self.kernel.columns)
        if self.kernel.largest > most:
            reason = f"rows may have numbers of up to {most:g} there, and these have up to {self.kernel.largest:g}"
            raise InvalidArgument("split.gamma", split.gamma, f"is too large: {reason}; scale the columns down")

    @property
    def end(self) -> datetime | None:
        if not self.expires:
            return None
        try:
            # Python takes any character between date and time, also one that steers a terminal.
            moment = datetime.fromisoformat(self.expires if self.expires.isprintable() else "")
        except ValueError as error:
            raise InvalidArgument(
                "expires", arguments.harmless_value(self.expires), "must be a date or time, such as 2031-01-31"
            ) from error
        if moment.year not in _YEARS:
            reason = (
                f"must lie in the years {_YEARS[0]} to {_YEARS[-1]}: homes count days from it, and keep keys until it"
            )
            raise InvalidArgument("expires", arguments.harmless_value(self.expires), reason)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

    @property
    def digest(self) -> str:
        return _digest_of(_ThisOne(self))

    def to_json(self) -> str:
        """As canonical text: equal terms give equal text."""
        return canonical_text(self.document())

    def document(self) -> dict[str, Any]:
        """As plain data: what ``to_json`` writes."""
        document = PlannedTerms.document(self)
        document["kernel"]["seed"] = f"{self.kernel.seed:x}"
        return {**document, "cards": dict(self.cards)}

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The terms that ``to_json`` wrote; a field too many, too few or of another type is refused."""
        return cls.from_document(plain_data(text))

    @classmethod
    def from_document(cls, document: Any) -> Self:
        """The terms in what ``plain_data`` read; a field too many, too few or of another type is refused."""
        expected = {declared.name for declared in fields(cls)}
        if not isinstance(document, dict) or set(document) != expected:
            known = set(document) if isinstance(document, dict) else set()
            odd = ", ".join(sorted(known ^ expected)) or "the whole"
            raise InvalidArgument("terms", odd, "must have exactly the fields of Terms")
        document = dict(document)
        try:
            document["kernel"] = Kernel(**{**document["kernel"], "seed": int(document["kernel"]["seed"], 16)})
            if document["split"] is not None:
                document["split"] = SplitTerms(**document["split"])
            for name in ("target_budget", "owner_budget"):
                document[name] = Budget(**document[name])
            for name in ("owners", "columns", "accept_unproven"):
                if not isinstance(document[name], list):
                    raise InvalidArgument("terms", name, "must be a list")
                document[name] = tuple(document[name])
            document["relation"] = Relation(document["relation"])
            return cls(**document)
        except InvalidArgument:
            raise
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidArgument("terms", type(error).__name__, "has a field of another type than Terms") from error

    def with_changes(self, **changes: Any) -> Self:
        """The same terms but for some fields; another digest."""
        return replace(self, **changes)


def plain_data(text: str) -> Any:
    """What the text of terms says, before anything in it is checked.

    Raises:
        InvalidArgument: it is not JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument("terms", f"text of {len(text)} characters", "is not JSON") from error


def canonical_text(document: dict[str, Any]) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)


class _ThisOne:
    """Terms, the same only as themselves: to compare what two of them say takes longer the more owners they name."""

    __slots__ = ("terms",)

    def __init__(self, terms: Terms) -> None:
        self.terms = terms

    def __hash__(self) -> int:
        return id(self.terms)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ThisOne) and self.terms is other.terms


@lru_cache(maxsize=64)
def _digest_of(this: _ThisOne) -> str:
    return _digest(this.terms)


@lru_cache(maxsize=16)
def _digest(terms: Terms) -> str:
    """Kept: with thousands of owners, each of them asks, and the text names them all."""
    return hashlib.sha256(b"likeset/terms/4\n" + terms.to_json().encode()).hexdigest()


MOST_TEXT = 1 << 17
"""Characters in the text of terms: as many owners as there may be have a card each."""

_MOST_FOREIGN_FREQUENCIES = (
    1 << 26
)  # numbers in the feature map: a quarter of a gigabyte, once somebody has approved it
_MOST_OWNERS = 1024
_MOST_ROUNDS = 10_000
_MOST_ROUNDS_APART = 1_000  # where each round has noise and a price of its own, or an auction
_Range = tuple[float, float]  # the least and the most; 0 is always let through to the terms' own checks
_NUMBERS: dict[str, _Range] = {
    "size": (1, 1_000_000),
    "target_size": (1, 1 << 40),
    "seed_rows": (1, 1_000_000),
    "rows_per_unit": (1, 1_000_000),
    "quorum": (1, _MOST_OWNERS),
    # Below the first no row at all would be offered by the most owners, of the largest summary.
    "offer_factor": (1e-6, 1_000_000),
    # Noise is of 1/epsilon ranks, and there are at most a thousand: a millionth asks everybody, which is free where it
    # is called so, and at a thousand there is no noise left.
    "auction_epsilon": (1e-6, 1_000.0),
    "auction_offset": (1, 10_000_000),
    "auction_patience": (1, _MOST_ROUNDS),
    "price_per_row": (1e-100, 1e100),  # so that sums of money are numbers
    "promised_epsilon": (1e-6, 10_000.0),  # as of a budget
}
# Below the first, noise drowns any target; above the last there is nothing left to protect. Prices are calibrated by
# searches that begin near 1/epsilon, and their floating point is sound between these.
_BUDGET: dict[str, _Range] = {"epsilon": (1e-6, 10_000.0), "delta": (1e-100, 1.0)}
_GAMMA = (1e-100, 1e100)  # so that its square root and products with squared distances are numbers
_NUMBERS_OF_PARTS: dict[str, dict[str, _Range]] = {
    "kernel": {"columns": (1, 1 << 20), "dimension": (1, 1 << 16), "gamma": _GAMMA},
    "split": {"openings": (1, MOST_SPLIT_SLOTS), "gamma": _GAMMA},
    "target_budget": _BUDGET,
    "owner_budget": _BUDGET,
}


def read_foreign(text: str) -> Terms:
    """The terms that a stranger's text describes, of a size that can be meant.

    Raises:
        BadMessage: the text is too long.
        InvalidArgument: it does not describe terms, or names numbers that nobody can mean.
    """
    if len(text) > MOST_TEXT:
        raise BadMessage(f"terms of {len(text)} characters are too long; at most {MOST_TEXT:,}")
    document = plain_data(text)
    if isinstance(document, dict):
        _check_document(document)
    return Terms.from_document(document)


def read_foreign_canonical(text: str) -> Terms:
    """As ``read_foreign``; a text that is not the canonical one is refused.

    Raises:
        BadMessage: the text is too long, or not the canonical one.
        InvalidArgument: it does not describe terms, or names numbers that nobody can mean.
    """
    terms = read_foreign(text)
    if terms.to_json() != text:
        raise BadMessage("the terms are not in their canonical form")
    return terms


def check_meant(terms: PlannedTerms, *, room: int = 0) -> None:
    """Raise if others would refuse to read these terms: better before they are sent, or anything is spent on them.

    Args:
        terms: as they are, or what is fixed of them.
        room: characters to leave for what is not.
    """
    text, most = canonical_text(terms.document()), MOST_TEXT - room
    if len(text) > most:
        reason = f"may have at most {most:,}; shorten the purpose and the names of owners and columns"
        raise InvalidArgument("terms", f"text of {len(text):,} characters", reason)
    _check_document(json.loads(text))


def check_between(terms: Terms) -> None:
    """Raise unless terms name the run and every party, as those between organisations do.

    Raises:
        InvalidArgument: they are of parties in one house.
    """
    if not terms.cards:
        raise InvalidArgument(
            "cards", "none", "terms between organisations name every party by the fingerprint of its card"
        )


def _check_document(document: dict[str, Any]) -> None:
    _check_numbers(document, _NUMBERS)
    parts = {name: part for name in _NUMBERS_OF_PARTS if isinstance(part := document.get(name), dict)}
    for name, part in parts.items():
        _check_numbers(part, _NUMBERS_OF_PARTS[name], of=f"{name}.")
    given = (parts.get("kernel", {}).get(name) for name in ("columns", "dimension"))
    sides = [side for side in given if isinstance(side, int | float)]
    if math.prod(sides) > _MOST_FOREIGN_FREQUENCIES:
        raise InvalidArgument("kernel", " x ".join(map(str, sides)), "is too large a feature map")
    owners = document.get("owners")
    if isinstance(owners, list) and len(owners) > _MOST_OWNERS:
        raise InvalidArgument("owners", len(owners), f"is more than anybody can mean; at most {_MOST_OWNERS:,}")
    if document.get("protocol") == "interactive":
        apart = document.get("auction") == "threshold" or document.get("schedule") in CHANGING_SCHEDULES
        _check_numbers(document, {"size": (1, _MOST_ROUNDS_APART if apart else _MOST_ROUNDS)})


def _check_numbers(document: dict[str, Any], limits: dict[str, _Range], *, of: str = "") -> None:
    for name, (least, most) in limits.items():
        value = document.get(name)
        if not isinstance(value, int | float) or value == 0:
            continue
        if value < least:
            raise InvalidArgument(
                of + name, harmless_value(value), f"is less than anybody can mean; at least {least:g}"
            )
        if not value <= most:  # which NaN is not, either
            raise InvalidArgument(of + name, harmless_value(value), f"is more than anybody can mean; at most {most:,g}")
