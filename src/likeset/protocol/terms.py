"""The terms of a run: all that parties agree on before anything happens, identified by one digest.

Every field is declared once, with its type, the values that it may have, and where it comes from. Terms come from
strangers: what nobody can mean must not take the memory or the time of whoever reads them.
"""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import Field, asdict, dataclass, field, fields, is_dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from typing import Any, Literal, Self, cast, get_args, get_origin

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

MOST_TEXT = 1 << 17
"""Characters in the text of terms: as many owners as a stranger may name have a card each."""
MOST_SHOWN = 500
"""Characters of a text in terms, such as the purpose: stewards are shown that many."""
MOST_SPLIT_TARGET = 1 << 14
"""Rows of the target of a split run."""
RELEASE_SCALE = 1.0 / 3.0
"""Gamma of the release relative to that of the selection: wider, to tell relevant rows from others, not detail."""
SUMMARY_RELEASE = "summary-release"
"""The name under which releases about the summary must be accepted where not everyone is asked in every round."""
WITNESS = "witness"
"""The name under which the card of a witness stands in the terms, where there is one."""

_MOST_FREQUENCIES = 1 << 28  # numbers in the feature map
_MOST_SPLIT_SLOTS, _LARGEST_SPLIT_ENTRY = 1 << 20, 256.0  # what the public program takes
# Gamma times the largest squared distance from the middle of all ranges: the public program takes 2^11, of ranges that
# are rounded up to whole words.
_FARTHEST = 2000.0
_LARGEST_ANGLE, _LARGEST_NORMAL, _SMALLEST_ROWS = 1e30, 8.6, 1e-30
_YEARS = range(2000, 2200)  # in which terms may end
_LONGEST_NAME = 80  # in an error
_DIGEST, _RUN_ID = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{32}")
_FINGERPRINT = re.compile(r"[A-Z2-7]{5}(-[A-Z2-7]{5}){7}")

# What a stranger may ask for, beside the ranges of the fields.
_MOST_OWNERS = 1024
_MOST_FOREIGN_FREQUENCIES = 1 << 26  # a quarter of a gigabyte, once somebody has approved it
_MOST_ROUNDS, _MOST_ROUNDS_APART = 10_000, 1_000  # the latter where each round has a price of its own, or an auction

# Below the first, noise drowns any target; above the last there is nothing left to protect. Prices are calibrated by
# searches that begin near 1/epsilon, and their floating point is sound between these.
_EPSILON = 1e-6, 10_000.0

Origin = Literal["wish", "fact", "choice", "drawn"]
_Check = Callable[[str, Any], Any]


def _field(meaning: str, check: _Check | None = None, origin: Origin = "choice", **options: Any) -> Any:
    """A field: ``check`` takes its name and what was given, and returns what is kept, or raises."""
    metadata = {"meaning": meaning, "check": check, "origin": origin, "range": options.pop("range", ())}
    return field(metadata=metadata, **options)


def _count(meaning: str, most: int, origin: Origin = "choice", *, least: int = 1, **options: Any) -> Any:
    """A whole number. Kept as a plain one, as all numbers: equal terms have one text, whatever they were made of."""

    def check(name: str, value: object) -> int:
        return arguments.count(name, value, least=least, most=most)

    return _field(meaning, check, origin, range=(least, most), **options)


def _amount(
    meaning: str, least: float, most: float, origin: Origin = "choice", *, zero: bool = False, **options: Any
) -> Any:
    def check(name: str, value: object) -> float:
        number = arguments.positive(name, value, zero=zero)
        if number and not least <= number <= most:
            bound = f"at least {least:g}" if number < least else f"at most {most:g}"
            raise InvalidArgument(name, harmless_value(value), f"must be {bound}")
        return number

    return _field(meaning, check, origin, range=(least, most), **options)


def _truth(name: str, value: object) -> bool:
    if type(value) is not bool:
        raise InvalidArgument(name, repr(value), "must be true or false")
    return value


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidArgument(name, type(value).__name__, "must be text")
    if len(value) > MOST_SHOWN:
        shown = f"text of {len(value):,} characters"
        raise InvalidArgument(name, shown, f"must have at most {MOST_SHOWN} characters: a steward reads all of it")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(name, "other text", "has half of a surrogate pair, which is no character") from None
    return value


def _texts(name: str, value: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_text(name, word) for word in value)


def _digest_or_empty(name: str, value: object) -> str:
    text = _text(name, value)
    if text and not is_digest(text):  # a curator looks for a file of that name
        raise InvalidArgument(name, "other text", "must be 64 hexadecimal digits, or empty")
    return text


def _owner_names(name: str, value: tuple[str, ...]) -> tuple[str, ...]:
    if not value:
        raise InvalidArgument(name, "none", "at least one owner is needed")
    for owner in value:
        checked_name(name, owner)
    twice = sorted(owner for owner, times in Counter(value).items() if times > 1)
    if twice:
        raise InvalidArgument(name, ", ".join(twice), "an owner may be named once only")
    return value


def _delta(name: str, value: object) -> float:
    number = checked_delta(arguments.positive(name, value, zero=True))
    if 0.0 < number < 1e-100:
        raise InvalidArgument(name, number, "must be 0 or at least 1e-100")
    return number


def _program(name: str, value: object) -> str:
    if not isinstance(value, str) or not is_digest(value):
        raise InvalidArgument(name, "other text", "must be the digest of the public program")
    return value


def _fingerprints(_: str, cards: object) -> Mapping[str, str]:
    """Fingerprints of cards by the names of their parties, in one order; no two of them alike."""
    if not isinstance(cards, Mapping) or not all(isinstance(name, str) for name in cards):
        raise InvalidArgument("cards", type(cards).__name__, "must be an object with a fingerprint for each name")
    for name, fingerprint in cards.items():
        if not isinstance(fingerprint, str) or _FINGERPRINT.fullmatch(fingerprint) is None:
            reason = "must be a fingerprint: eight groups of five letters A-Z and digits 2-7, joined by -"
            raise InvalidArgument(f"cards.{name[:_LONGEST_NAME]}", harmless_value(fingerprint), reason)
    times = Counter(cards.values())
    if len(times) < len(cards):
        alike = sorted(name for name in cards if times[cards[name]] > 1)
        raise InvalidArgument(f"cards.{alike[0]}", cards[alike[0]], "is another party's card, too")
    return {name: cards[name] for name in sorted(cards)}


def _run_id(name: str, value: object) -> str:
    if value != "" and not (isinstance(value, str) and _RUN_ID.fullmatch(value)):
        raise InvalidArgument(name, "other text", "must be 32 hexadecimal digits, or empty")
    return str(value)


def _check_of(declared: "Field[Any]") -> _Check | None:
    if (check := declared.metadata.get("check")) is not None:
        return cast("_Check", check)
    if get_origin(declared.type) is Literal:
        return lambda name, value: arguments.one_of(name, value, get_args(declared.type))
    checks: dict[Any, _Check] = {str: _text, bool: _truth, tuple[str, ...]: _texts}
    return checks.get(declared.type)


def _check_fields(thing: Any, of: str = "") -> None:
    """Check every field of a frozen object that is being made, and keep what its check returns."""
    for declared in fields(thing):
        if (check := _check_of(declared)) is not None:
            object.__setattr__(thing, declared.name, check(of + declared.name, getattr(thing, declared.name)))


@dataclass(frozen=True, slots=True)
class Budget:
    """What one view may cost in this run."""

    epsilon: float = _amount("what it may learn, at most", *_EPSILON, zero=True)
    delta: float = _field("at which epsilon is stated", _delta, range=(1e-100, 1.0))

    def __post_init__(self) -> None:
        _check_fields(self)


@dataclass(frozen=True, slots=True)
class KernelShape:
    """What is known of the feature map of the releases before anything is drawn; all costs follow from this."""

    columns: int = _count("number of columns of a row", 1 << 20, "fact")
    dimension: int = _count("length of a feature vector", 1 << 16)
    kind: Literal["paired", "paper"] = field(default="paired", kw_only=True)  # ``paper``: for its mean release

    def __post_init__(self) -> None:
        _check_fields(self)
        # All that the map itself would refuse: to build it takes time, and nobody has approved the terms yet.
        if self.kind == "paired" and self.dimension % 2:
            raise InvalidArgument("dimension", self.dimension, "must be even for paired features")
        if self.columns * self.dimension > _MOST_FREQUENCIES:
            raise InvalidArgument("dimension", self.dimension, f"is too long for {self.columns} columns")

    def drawn(self, *, gamma: float, seed: int, largest: float) -> "Kernel":
        return Kernel(self.columns, self.dimension, gamma, seed, kind=self.kind, largest=largest)


@dataclass(frozen=True, slots=True)
class Kernel(KernelShape):
    """The feature map of the releases: owners see it, so it comes from public facts."""

    # Its root and products with squared distances are numbers.
    gamma: float = _amount("width of the kernel; wider than the one used for selection", 1e-100, 1e100, "drawn")
    seed: int = _count("selects the frequencies; public", MAX_SEED, "drawn", least=0)
    # No number of a row is larger in size: as the schema declares, or as large as gamma allows if 0. Rows beyond it are
    # no rows of the run, so that features of all others are numbers.
    largest: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        KernelShape.__post_init__(self)
        most = _largest_entry(self.gamma, self.columns)
        if most < _SMALLEST_ROWS:
            raise InvalidArgument("gamma", self.gamma, "is too large: no row has features under such a kernel")
        object.__setattr__(self, "largest", arguments.positive("largest", self.largest, zero=True) or most)
        if self.largest > most:
            reason = f"rows may then have numbers of up to {most:g}, and these have up to {self.largest:g}"
            raise InvalidArgument("gamma", self.gamma, f"is too large: {reason}")

    def features(self) -> FourierFeatures:
        """The map itself; the same for all parties in a process."""
        return _feature_map(self.columns, self.dimension, self.gamma, self.seed, self.kind)


@lru_cache(maxsize=4)
def _feature_map(
    columns: int, dimension: int, gamma: float, seed: int, kind: Literal["paired", "paper"]
) -> FourierFeatures:
    return FourierFeatures(columns, dimension, gamma, seed, kind)


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


def largest_split(gamma: float, columns: int) -> float:
    """How large numbers of rows may be so that 64 bits hold their distances, in units of the kernel's width."""
    return min(_LARGEST_SPLIT_ENTRY, math.sqrt(_FARTHEST / (gamma * columns)))


def largest_split_gamma(largest: float, columns: int) -> float:
    """The other way round: the narrowest kernel for rows whose numbers may be so large."""
    return _FARTHEST / (columns * largest**2) * (1.0 - 1e-9)


@dataclass(frozen=True, slots=True)
class SplitShape:
    """What is known of a split run before anything is drawn."""

    program: str = _field(
        "digest of the public program; every compute party builds it from its own files", _program, "fact"
    )
    openings: int = _count(
        "how many rows may be opened to the consumer in all: as many as the summary has", _MOST_SPLIT_SLOTS
    )

    def __post_init__(self) -> None:
        _check_fields(self, of="split.")

    def drawn(self, *, gamma: float) -> "SplitTerms":
        return SplitTerms(self.program, self.openings, gamma=gamma)


@dataclass(frozen=True, slots=True)
class SplitTerms(SplitShape):
    """What all parties of a split run agree on."""

    gamma: float = _amount(
        "width of the selection's kernel. Public: it must not be read off the target.", 1e-6, 1e6, "drawn", kw_only=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTerms:
    """What is fixed of the terms of one run before anything is drawn for it.

    Where a field comes from: ``wish`` (a setting of the same name), ``fact`` (of the same name about the data),
    ``choice`` (made from both), ``drawn`` (for the run).
    """

    run: str = _field("name of the run; a (run, round, kind) is answered once", checked_name, "fact")
    consumer: str = _field("who wants the summary", checked_name, "fact")
    purpose: str = _field("what for, in words", origin="fact")
    owners: tuple[str, ...] = _field("who is invited, in the public order that breaks ties", _owner_names, "fact")
    quorum: int = _field("how many owners must take part", origin="wish")  # its range depends on the owners
    schema_digest: str = _field(
        "of the schema that declares the columns; empty for bare arrays", _digest_or_empty, "fact"
    )
    columns: tuple[str, ...] = _field("names of the columns that leave an owner; empty for bare arrays")
    record_bytes: int = _count(
        "how long the record of a row and its label may be, by its schema; 0 for bare arrays", 1 << 28, "fact", least=0
    )
    kernel: KernelShape  # what is known of the feature map of the releases
    split: SplitShape | None = None  # who computes on shares; None for a curator who is trusted with rows
    protocol: Literal["sealed", "interactive"] = _field("``sealed`` or ``interactive``", origin="wish")
    size: int = _count("rows of the summary (the paper's p)", 1_000_000, "wish")
    target_size: int = _count(
        "rows of the target (m), public; under add-or-remove declared beforehand and near the true number",
        1 << 40,
        "fact",
    )
    # Below the first no row at all would be offered by the most owners, of the largest summary.
    offer_factor: float = _amount(
        "about how many rows are offered, in all, for each row of the summary", 1e-6, 1_000_000, "wish"
    )
    offers: Literal["tilted", "uniform"] = _field(
        "``tilted`` toward the target's release, or ``uniform``, without any release"
    )
    labels: Literal["match", "ignore"] = _field(
        "``match`` where owners and the curator may use labels to find the target's classes, or ``ignore``",
        origin="wish",
    )
    thinning: bool = _field(
        "whether owners thin more candidates than they offer to an offer that represents them", origin="wish"
    )
    target_budget: Budget  # what owners may learn about the target
    owner_budget: Budget  # what owners may learn about one another's rows
    relation: Relation  # what neighbouring data are
    rows_per_unit: int = _count(
        "how many rows of one unit of privacy take part, at most: 1 if the unit is a row", 1_000_000, "fact"
    )
    id_column: str = _field(
        "the column that says which rows belong to one unit; empty where the schema declares none", origin="fact"
    )
    auction: Literal["everyone", "threshold", "paper"] = _field(
        "who is asked: ``everyone``, ``threshold`` or ``paper``"
    )
    # Noise is of 1/epsilon ranks, and there are at most a thousand: a millionth asks everybody, which is free where it
    # is called so, and at a thousand there is no noise left.
    auction_epsilon: float = _amount("of one use of the auction; 0 with ``everyone``", 1e-6, 1_000.0, zero=True)
    auction_offset: int = _count(
        "with ``threshold``, about how many owners are asked; 0 otherwise", 10_000_000, least=0
    )
    auction_patience: int = _count(
        "with ``paper``, after how many rounds with the same bid a row is asked for; 0 otherwise", _MOST_ROUNDS, least=0
    )
    summary_release: Literal["none", "gaussian", "mwem"] = _field(
        "what ``interactive`` tells owners about the summary so far: ``none``, ``gaussian``, ``mwem``", origin="wish"
    )
    seed_rows: int = _count(
        "how many public rows start the summary of ``interactive``; never owners' rows", 1_000_000, least=0
    )
    seed_digest: str = _field("which rows these are (``digest_of_rows``); empty where there are none")
    schedule: str = _field(
        "the paper's schedule by name for ``mwem``; empty where the budget is split for the user",
        lambda name, value: arguments.one_of(name, value, ("", *SCHEDULES)),
        "wish",
    )
    promised_epsilon: float = _amount(
        "from which ``theorem`` and ``proof`` compute their steps; 0 otherwise. It limits nothing", *_EPSILON, zero=True
    )
    # Sums of money are numbers.
    price_per_row: float = _amount(
        "what an owner is paid for each row disclosed; depends on nobody else's data", 1e-100, 1e100, "wish", zero=True
    )
    accept_unproven: tuple[str, ...] = _field("names of parts without a proof that all parties accept")
    version: str = _field("of the package", origin="fact")

    def __post_init__(self) -> None:
        _check_fields(self)
        quorum = arguments.count("quorum", self.quorum, most=len(self.owners), most_is="the number of owners")
        object.__setattr__(self, "quorum", quorum)
        reserved = {"curator", self.consumer} & set(self.owners)
        if reserved or self.consumer == "curator":
            raise InvalidArgument("owners", ", ".join(sorted(reserved or {"curator"})), "is another party's name")
        self._check_combination()
        self._check_split()
        for name, reason in self.unproven_parts():
            if name not in self.accept_unproven:
                raise UnprovenPart(name, reason)

    def _check_combination(self) -> None:
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
        if self.rows_per_owner * len(self.owners) > _MOST_SPLIT_SLOTS:
            reason = f"asks for more than the {_MOST_SPLIT_SLOTS:,} rows that a split curator takes"
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


@dataclass(frozen=True, kw_only=True)
class Terms(PlannedTerms):
    """The terms of one run: as planned, with what was drawn for it."""

    kernel: Kernel
    split: SplitTerms | None = None
    expires: str = _field(
        "until when the terms may be used, ISO 8601 (UTC if it names no zone); empty for no end. Engines compare it "
        "with their clocks"
    )
    run_id: str = _field("32 hexadecimal digits; empty among parties in one house", _run_id, "drawn", default="")
    cards: Mapping[str, str] = _field(
        "fingerprints by name: the consumer's, every owner's, ``curator``'s and, where there is one, ``witness``'s; "
        "empty among parties in one house",
        _fingerprints,
        "fact",
        default_factory=dict,
        hash=False,
    )

    def __post_init__(self) -> None:
        PlannedTerms.__post_init__(self)
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
        if bool(self.run_id) != bool(self.cards):
            raise InvalidArgument("cards", f"{len(self.cards)} cards", "go with a run_id: both are given, or neither")
        if not self.cards:
            return
        if WITNESS in (self.consumer, *self.owners):
            raise InvalidArgument("owners", WITNESS, "is another party's name")
        expected = {self.consumer, *self.owners, "curator"}
        odd = sorted((set(self.cards) - {WITNESS}) ^ expected)
        if odd:
            name = harmless_value(odd[0])
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
                "expires", harmless_value(self.expires), "must be a date or time, such as 2031-01-31"
            ) from error
        if moment.year not in _YEARS:
            reason = (
                f"must lie in the years {_YEARS[0]} to {_YEARS[-1]}: homes count days from it, and keep keys until it"
            )
            raise InvalidArgument("expires", harmless_value(self.expires), reason)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(b"likeset/terms/4\n" + self.to_json().encode()).hexdigest()

    def to_json(self) -> str:
        """As canonical text: equal terms give equal text."""
        return _canonical_text(self.document())

    def document(self) -> dict[str, Any]:
        """As plain data: what ``to_json`` writes."""
        document = PlannedTerms.document(self)
        document["kernel"]["seed"] = f"{self.kernel.seed:x}"
        return document

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The terms that ``to_json`` wrote; a field too many, too few or of another type is refused."""
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidArgument("terms", f"text of {len(text)} characters", "is not JSON") from error
        expected = {declared.name for declared in fields(cls)}
        if not isinstance(document, dict) or set(document) != expected:
            known = set(document) if isinstance(document, dict) else set()
            odd = ", ".join(sorted(known ^ expected)) or "the whole"
            raise InvalidArgument("terms", odd, "must have exactly the fields of Terms")
        try:
            kernel = document["kernel"]
            document["kernel"] = Kernel(**{**kernel, "seed": int(kernel["seed"], 16)})
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


def _canonical_text(document: dict[str, Any]) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)


def checked(name: str, value: object, *, called: str = "") -> Any:
    """A value for a field of the terms, before there are any; errors name it as it is ``called``."""
    check = _CHECKS[name]
    return value if check is None else check(called or name, value)


_CHECKS = {
    declared.name: _check_of(declared) for part in (KernelShape, Budget, PlannedTerms) for declared in fields(part)
}


def names_from(origin: Origin) -> tuple[str, ...]:
    """Fields of planned terms that come from a setting, or a fact, of the same name."""
    return tuple(declared.name for declared in fields(PlannedTerms) if declared.metadata.get("origin") == origin)


def read_foreign(text: str) -> Terms:
    """The terms that a stranger's text describes, of a size that can be meant.

    Raises:
        BadMessage: the text is too long.
        InvalidArgument: it does not describe terms, or asks for what nobody can mean.
    """
    if len(text) > MOST_TEXT:
        raise BadMessage(f"terms of {len(text)} characters are too long; at most {MOST_TEXT:,}")
    terms = Terms.from_json(text)
    _check_work(terms)
    return terms


def read_foreign_canonical(text: str) -> Terms:
    """As ``read_foreign``; a text that is not the canonical one is refused.

    Raises:
        BadMessage: the text is too long, or not the canonical one.
        InvalidArgument: it does not describe terms, or asks for what nobody can mean.
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
    length, most = len(_canonical_text(terms.document())), MOST_TEXT - room
    if length > most:
        reason = f"may have at most {most:,}; shorten the purpose and the names of owners and columns"
        raise InvalidArgument("terms", f"text of {length:,} characters", reason)
    _check_work(terms)


def check_between(terms: Terms) -> None:
    """Raise unless terms name the run and every party, as those between organisations do."""
    if not terms.cards:
        raise InvalidArgument(
            "cards", "none", "terms between organisations name every party by the fingerprint of its card"
        )


def _check_work(terms: PlannedTerms) -> None:
    """What terms ask of whoever reads, prices and answers them; those in one house may ask for more."""
    columns, dimension, owners = terms.kernel.columns, terms.kernel.dimension, len(terms.owners)
    if columns * dimension > _MOST_FOREIGN_FREQUENCIES:
        raise InvalidArgument("kernel", f"{columns} x {dimension}", "is too large a feature map")
    if owners > _MOST_OWNERS:
        raise InvalidArgument("owners", owners, f"is more than anybody can mean; at most {_MOST_OWNERS:,}")
    apart = terms.auction == "threshold" or terms.schedule in CHANGING_SCHEDULES
    rounds = _MOST_ROUNDS_APART if apart else _MOST_ROUNDS
    if terms.protocol == "interactive" and terms.size > rounds:
        raise InvalidArgument("size", terms.size, f"is more than anybody can mean; at most {rounds:,}")
