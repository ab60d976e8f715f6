"""The settings of a run, and its terms: all that parties agree on before anything happens, identified by one digest.

Every field is declared once, with its type, range, default, meaning and origin. ``job.yaml``, the options of
``likeset match`` and ``likeset plan``, and the arguments of ``likeset.match`` and ``Summarizer`` derive from the
settings. Terms come from strangers: reading terms that nobody can mean must not take much memory or time.
"""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, Literal, Self, cast, get_args, get_origin

import numpy as np
from numpy.typing import ArrayLike

from likeset import arguments
from likeset.arguments import Rows, checked_name, harmless_value
from likeset.errors import BadMessage, InvalidArgument, TermsExpired, UnprovenPart
from likeset.geometry.features import MAX_SEED, FourierFeatures
from likeset.geometry.selection import LARGEST_EXPONENT
from likeset.privacy.accounting import checked_delta
from likeset.privacy.auction import PAPER_AUCTION, plan_threshold
from likeset.privacy.events import Observer, PrivacyUnit, Relation
from likeset.privacy.mwem_mean import CHANGING_SCHEDULES

MOST_TEXT = 1 << 17
"""Characters in the text of terms: as many owners as a stranger may name have a card each."""
MOST_SHOWN = 500
"""Characters of a text in terms, such as the purpose: stewards are shown that many."""
MOST_SPLIT_TARGET = 1 << 14
"""Rows of the target of a split run."""
SUMMARY_RELEASE = "summary-release"
"""The name under which releases about the summary must be accepted where not everyone is asked in every round."""
WITNESS = "witness"
"""The name under which the card of a witness stands in the terms, where there is one."""
MOST_FOLDS = 50
"""Parts of the target for cross-fitting; each costs a selection."""

_MOST_FREQUENCIES = 1 << 28  # numbers in the feature map
_MOST_SPLIT_SLOTS, _LARGEST_SPLIT_ENTRY = 1 << 20, 256.0  # what the public program takes
# Gamma times the largest squared distance from the middle of all ranges: the public program takes 2^11, of ranges that
# are rounded up to whole words.
_FARTHEST = 2000.0
_LARGEST_ANGLE, _LARGEST_NORMAL, _SMALLEST_ROWS = 1e30, 8.6, 1e-30
_YEARS = range(2000, 2200)  # in which terms may end
_LONGEST_NAME = 80  # in an error
_MOST_EXTENSIONS, _MOST_EXTENSION_BYTES = 8, 2000
_FINGERPRINT = re.compile(r"[A-Z2-7]{5}(-[A-Z2-7]{5}){7}")

# What a stranger may ask for, beside the ranges of the fields.
_MOST_OWNERS = 1024
_MOST_FOREIGN_FREQUENCIES = 1 << 26  # a quarter of a gigabyte, once somebody has approved it
_MOST_ROUNDS, _MOST_ROUNDS_APART = 10_000, 1_000  # the latter where each round has a price of its own, or an auction

# Below the first, noise drowns any target; above the last there is nothing left to protect. Prices are calibrated by
# searches that begin near 1/epsilon, and their floating point is sound between these.
_EPSILON = 1e-6, 10_000.0
_AUCTION_EPSILON = 1e-6, 1_000.0
_MOST_DIMENSION = 1 << 16

Origin = Literal["setting", "fact", "choice", "drawn"]
_Check = Callable[[str, Any], Any]


def _field(
    meaning: str,
    check: _Check | None = None,
    origin: Origin = "choice",
    *,
    ends: tuple[float, ...] = (),
    setting: Mapping[str, Any] = MappingProxyType({}),
    **options: Any,
) -> Any:
    """A field: ``check`` takes its name and value, and returns the value to keep, or raises."""
    metadata = {"check": check, "origin": origin, "range": ends, "setting": {"meaning": meaning, **setting}}
    return field(metadata=metadata, **options)


def _count(meaning: str, most: int, origin: Origin = "choice", *, least: int = 1, **options: Any) -> Any:
    """A whole number. Kept as a plain one, as all numbers: equal terms have one text, whatever they were made of."""

    def check(name: str, value: object) -> int:
        return arguments.count(name, value, least=least, most=most)

    return _field(meaning, check, origin, ends=(least, most), **options)


def _amount(
    meaning: str, least: float, most: float, origin: Origin = "choice", *, zero: bool = False, **options: Any
) -> Any:
    def check(name: str, value: object) -> float:
        number = arguments.positive(name, value, zero=zero)
        if number and not least <= number <= most:
            bound = f"at least {least:g}" if number < least else f"at most {most:g}"
            raise InvalidArgument(name, harmless_value(value), f"must be {bound}")
        return number

    return _field(meaning, check, origin, ends=(least, most), **options)


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
        raise InvalidArgument(name, "other text", "has half of a surrogate pair, not a character") from None
    return value


def _texts(name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str | Mapping) or not isinstance(value, Collection):
        raise InvalidArgument(name, type(value).__name__, "must be a list of texts")
    return tuple(_text(name, word) for word in value)


def _code(form: str, reason: str) -> _Check:
    def check(name: str, value: object) -> str:
        if not isinstance(value, str) or re.fullmatch(form, value) is None:
            raise InvalidArgument(name, "other text", reason)
        return value

    return check


_extension_name = _code("[a-z][a-z0-9.-]{0,39}", "must have names of at most 40 letters a-z, digits, dots and dashes")
_digest_or_empty = _code("([0-9a-f]{64})?", "must be 64 hexadecimal digits, or empty")  # becomes the name of a file


def _owner_names(name: str, value: object) -> tuple[str, ...]:
    owners = _texts(name, value)
    if not owners:
        raise InvalidArgument(name, "none", "at least one owner is needed")
    for owner in owners:
        checked_name(name, owner)
    twice = sorted(owner for owner, times in Counter(owners).items() if times > 1)
    if twice:
        raise InvalidArgument(name, ", ".join(twice), "an owner may be named once only")
    return owners


def _relation(name: str, value: object) -> Relation:
    return Relation(arguments.one_of(name, value, tuple(Relation)))


def _delta(name: str, value: object) -> float:
    number = checked_delta(arguments.positive(name, value, zero=True))
    if 0.0 < number < 1e-100:
        raise InvalidArgument(name, number, "must be 0 or at least 1e-100")
    return number


def _folds(name: str, value: object) -> int:
    return 0 if value == 0 else arguments.count(name, value, least=2, most=MOST_FOLDS)


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


def _extensions(name: str, value: object) -> Mapping[str, str]:
    """Texts by name, in one order, as they came: what a later likeset says and nobody needs to understand."""
    if not isinstance(value, Mapping) or len(value) > _MOST_EXTENSIONS:
        raise InvalidArgument(name, "another value", f"must be an object of at most {_MOST_EXTENSIONS} texts")
    for word, text in value.items():
        _extension_name(name, word)
        _text(name, text)
    size = sum(len(text.encode()) for text in value.values())
    if size > _MOST_EXTENSION_BYTES:
        raise InvalidArgument(name, f"{size:,} bytes", f"must have at most {_MOST_EXTENSION_BYTES:,} bytes of text")
    return {word: value[word] for word in sorted(value)}


def _check_of(declared: "Field[Any]") -> _Check | None:
    if (check := declared.metadata.get("check")) is not None:
        return cast("_Check", check)
    if get_origin(declared.type) is Literal:
        return lambda name, value: arguments.one_of(name, value, get_args(declared.type))
    checks: dict[Any, _Check] = {str: _text, bool: _truth, tuple[str, ...]: _texts, Relation: _relation}
    return checks.get(declared.type)


def _check_fields(thing: Any, of: str = "") -> None:
    """Check every field of a frozen object that is being made, and keep what its check returns.

    A default that is None or a word, such as ``auto``, needs no check.
    """
    for declared in fields(thing):
        value = getattr(thing, declared.name)
        is_default = (value is None or isinstance(value, str)) and value == declared.default
        if not is_default and (check := _check_of(declared)) is not None:
            object.__setattr__(thing, declared.name, check(of + declared.name, value))


@dataclass(frozen=True, slots=True)
class Setting:
    name: str  # in a job; its option on the command line has the same name
    type: Any
    default: Any  # ``dataclasses.MISSING`` where it must be given
    meaning: str  # one sentence, without a full stop; ``words to type`` are marked
    argument: str  # its name as an argument of ``Summarizer``
    is_fine: bool = False  # whether few people ever change it
    is_of_interactive: bool = False

    @property
    def is_required(self) -> bool:
        return self.default is MISSING


_FINE: dict[str, Any] = {"is_fine": True}
_OF_PAPER: dict[str, Any] = {"is_fine": True, "is_of_interactive": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rounds:
    auction: Literal["auto", "everyone", "threshold", "paper"] = _field(
        "who is asked for rows: ``everyone``, ``threshold``, ``paper`` (interactive only), or ``auto``: ``everyone``, "
        "but ``threshold`` in ``sealed`` with more than ``offer_factor`` owners for each row",
        default="auto",
        setting=_FINE,
    )
    # Noise is of 1/epsilon ranks, and there are at most a thousand: a millionth asks everybody, which is free where it
    # is called so, and at a thousand there is no noise left.
    auction_epsilon: float | None = _amount(
        "epsilon of one use of an auction other than ``everyone``; if not given, 1 for ``threshold`` and the paper's "
        "own for ``paper`` (0.012 with five owners)",
        *_AUCTION_EPSILON,
        zero=True,
        default=None,
        setting=_FINE,
    )
    patience: int | None = _count(
        "how many rounds an owner bids the same row before the auction ``paper`` asks for it (the paper's tau); if not "
        "given, the paper's K^(2/3) with K owners",
        _MOST_ROUNDS,
        default=None,
        setting=_OF_PAPER,
    )
    summary_release: Literal["none", "gaussian", "mwem"] = _field(
        "what ``interactive`` releases about the summary each round: ``none``, ``gaussian``, ``mwem``",
        default="none",
        setting=_OF_PAPER,
    )
    schedule: Literal["", "theorem", "proof", "experiment"] = _field(
        "the paper's schedule for ``mwem``: ``theorem``, ``proof``, or ``experiment`` (with its own length and kernel "
        "of the release unless others are given); empty splits the budget",
        default="",
        setting=_OF_PAPER,
    )
    promised_epsilon: float = _amount(
        "the epsilon that the paper's theorem promises, from which its schedules and its auction's epsilon follow; "
        "the run's proven price must stay within epsilon and owner_epsilon",
        *_EPSILON,
        default=1.0,
        setting=_OF_PAPER,
    )
    owner_epsilon: float | None = _amount(
        "what owners may learn about each other's rows; if not given, the price of a threshold auction; 0: everyone is "
        "asked",
        *_EPSILON,
        zero=True,
        default=None,
        setting=_FINE,
    )
    accept_unproven: tuple[str, ...] = _field("names of accepted parts without a proof", default=(), setting=_OF_PAPER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interactive(_Rounds):
    """The paper's protocol (Algorithm 3), for ``Summarizer(size, protocol=Interactive(...))``.

    Its settings have the names and meanings of the options of ``likeset match``. ``seed_rows`` are public rows that
    start the summary; never owners' rows.

    Example:
        >>> Interactive.as_published().schedule
        'experiment'
    """

    seed_rows: ArrayLike | None = field(default=None, repr=False, compare=False)

    @classmethod
    def as_published(cls, **changes: Any) -> Self:
        """The settings of the paper's experiments, except for ``changes``.

        The paper starts from about 150 public ``seed_rows``. Its auction and its summary release have no proof, and
        must be accepted by name: ``accept_unproven=("paper-auction", "summary-release")``.
        """
        return cls(**{**_AS_PUBLISHED, **changes})

    def settings(self) -> dict[str, Any]:
        return {"protocol": "interactive", **{one.name: getattr(self, one.name) for one in fields(_Rounds)}}


_AS_PUBLISHED: dict[str, Any] = {"auction": "paper", "summary_release": "mwem", "schedule": "experiment"}
PRESETS: dict[str, dict[str, Any]] = {"paper": {"protocol": "interactive", **_AS_PUBLISHED}}
"""Settings by one name, for job files and the command line; settings given beside the name override them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings(_Rounds):
    """What a user asks for, in a file, on the command line or in Python."""

    size: int = _count("how many rows to collect", 1_000_000)
    epsilon: float = _amount(
        "what owners may learn about a row of the target; 0 (nothing) requires uniform offers",
        *_EPSILON,
        zero=True,
        default=1.0,
    )
    delta: float = _field("the delta at which epsilon is stated", _delta, default=1e-5)
    protocol: Literal["sealed", "interactive"] = _field(
        "how rows are asked for: ``sealed``, or ``interactive`` (the paper's Algorithm 3)", default="sealed"
    )
    gamma: float | Literal["median"] = _field(
        "gamma of the selection's kernel (a larger one is narrower), or ``median``: from the target's distances, which "
        "no owner receives",
        arguments.positive,
        default="median",
        setting=_FINE,
    )
    gamma_scale: float = _field(
        "gamma times the median squared distance, for ``median``", arguments.positive, default=1.0, setting=_FINE
    )
    release_gamma: float | None = _field(
        "gamma of the release's kernel, which owners see; if not given, from public rows, or chosen privately within "
        "the budget",
        arguments.positive,
        default=None,
        setting=_FINE,
    )
    dimension: int | Literal["auto"] = _count(
        "length of the released vector, or ``auto``", _MOST_DIMENSION, default="auto", setting=_FINE
    )
    # Below the first no row at all would be offered by the most owners, of the largest summary.
    offer_factor: float = _amount(
        "about how many rows the curator sees for each row of the summary", 1e-6, 1_000_000, default=10.0
    )
    allow_fewer: bool = _field("accept fewer rows than ``size`` if owners have or may offer too few", default=False)
    offers: Literal["auto", "tilted", "uniform"] = _field(
        "which rows owners offer: ``auto`` or ``tilted`` (toward the release; uniform, with a warning, if the target's "
        "size and the budget make a release mostly noise), or ``uniform`` (no release at all: a random sample, which "
        "``thinning`` spreads over the owner's rows)",
        default="auto",
    )
    thinning: bool = _field(
        "owners draw more candidates than they offer, and offer rows that represent them",
        default=True,
        setting=_FINE,
    )
    curator: Literal["auto", "trusted", "split"] = _field(
        "who selects: ``trusted``, a curator who reads every offered row; ``split``, three parties who compute on "
        "shares, so that only the buyer reads a row (with ``sealed`` and a schema; labels are not matched, and the "
        "distance to new rows is not measured); or ``auto``: split between organisations if a witness is named, else "
        "trusted",
        default="auto",
    )
    weights: bool = _field(
        "fit weights of the selected rows to the target; the estimated distance is for equal weights",
        default=False,
    )
    labels: Literal["match", "ignore"] = _field(
        "``match``: with ``sealed``, owners and the curator use labels that are classes, if rows predict them; or "
        "``ignore``. Numbers with decimals are never matched",
        default="match",
    )
    folds: int = _field(
        "number of parts into which the curator splits the target, to measure the distance to new rows; each part "
        "costs a selection, and with 0 that distance stays unknown",
        _folds,
        default=5,
        setting=_FINE,
    )
    relation: Literal["replace-one", "add-or-remove"] = _field(
        "the neighbouring relation: ``replace-one`` or ``add-or-remove``", default="replace-one", setting=_FINE
    )
    declared_size: int | None = _field(
        "under add-or-remove, which protects the number of the target's rows, a public number in its place",
        arguments.count,
        default=None,
        setting=_FINE,
    )
    # Sums of money are numbers.
    price_per_row: float = _amount(
        "the payment of an owner for each disclosed row", 1e-100, 1e100, zero=True, default=0.0, setting=_FINE
    )
    currency: str = _field(
        "the currency of ``price_per_row``, such as ``EUR``",
        _code("[^\\W_]{0,12}", "must be at most 12 letters or digits, such as EUR"),
        default="",
        setting=_FINE,
    )
    quorum: int = _field("how many owners must take part", default=1, setting=_FINE)  # its range depends on the owners
    noise: Literal["secret", "simulated"] = _field(
        "kind of noise: ``secret``, or ``simulated`` (repeatable with a seed, and NOT private)", default="secret"
    )
    seed: int | None = _field(
        "seed of the public coins and, with simulated noise, of everything; a run with secret noise cannot be repeated",
        lambda name, value: arguments.count(name, value, least=0),
        default=None,
        setting={"argument": "random_state"},
    )

    def __post_init__(self) -> None:
        _check_fields(self)


def settings() -> tuple[Setting, ...]:
    declared, of_rounds = fields(RunSettings), len(fields(_Rounds))
    return tuple(
        Setting(one.name, one.type, one.default, **{"argument": one.name, **one.metadata["setting"]})
        for one in (*declared[of_rounds:], *declared[:of_rounds])
    )


def _from_setting(name: str) -> Any:
    """A field of the terms that is as the user set it."""
    (setting,) = (declared for declared in fields(RunSettings) if declared.name == name)
    return field(metadata={**setting.metadata, "origin": "setting"})


@dataclass(frozen=True, slots=True)
class Budget:
    """What one view may cost in this run."""

    epsilon: float = _amount("what it may learn, at most", *_EPSILON, zero=True)
    delta: float = _field("at which epsilon is stated", _delta, ends=(1e-100, 1.0))

    def __post_init__(self) -> None:
        _check_fields(self)


@dataclass(frozen=True, slots=True)
class KernelShape:
    """What is known of the feature map of the releases before anything is drawn; all costs follow from this."""

    columns: int = _count("number of columns of a row", 1 << 20, "fact")
    dimension: int = _count("length of a feature vector", _MOST_DIMENSION)
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
    gamma: float = _amount("width of the kernel", 1e-100, 1e100, "drawn")
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
    by_exponents = math.sqrt(LARGEST_EXPONENT / columns / (4.0 * gamma))
    return min(arguments.LARGEST_SINGLE, by_angles, by_exponents)


def is_digest(text: str) -> bool:
    return re.fullmatch("[0-9a-f]{64}", text) is not None


def digest_of_text(text: str) -> str:
    """The digest of terms, by their canonical text."""
    return hashlib.sha256(b"likeset/terms/5\n" + text.encode()).hexdigest()


def digest_of_rows(rows: Rows) -> str:
    """By which the terms name public rows: of their numbers in single precision, in their order."""
    plain = np.ascontiguousarray(rows, dtype="<f4") + np.float32(0.0)  # no -0.0: equal rows have one digest
    head = f"likeset/rows/1\n{plain.shape[0]}x{plain.shape[1]}\n".encode()
    return hashlib.sha256(head + plain.tobytes()).hexdigest()


def largest_split_gamma(largest: float, columns: int) -> float:
    """For rows with numbers of up to this size: the largest that ``SplitTerms.check_holds`` takes."""
    return _FARTHEST / (columns * largest**2) * (1.0 - 1e-9)


@dataclass(frozen=True, slots=True)
class SplitShape:
    program: str = _field(
        "digest of the public program; every compute party builds it from its own files",
        _code("[0-9a-f]{64}", "must be the digest of the public program"),
        "fact",
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
    gamma: float = _amount(
        "width of the selection's kernel. Public: it must not be read off the target.", 1e-6, 1e6, "drawn", kw_only=True
    )

    def check_holds(self, columns: int, *, largest: float, argument: str = "split.gamma") -> None:
        """Raise unless 64 bits hold the distances of rows, in units of the kernel's width."""
        most = min(_LARGEST_SPLIT_ENTRY, math.sqrt(_FARTHEST / (self.gamma * columns)))
        if largest > most:
            reason = f"rows may have numbers of up to {most:.4g} there, and these have up to {largest:.4g}"
            raise InvalidArgument(argument, self.gamma, f"is too large for a split curator: {reason}; scale them down")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTerms:
    """What is fixed of the terms of one run before anything is drawn for it.

    Where a field comes from: ``setting`` (a setting of the same name), ``fact`` (about the data),
    ``choice`` (made from both), ``drawn`` (for the run).
    """

    run: str = _field("name of the run; a (run, round, kind) is answered once", checked_name, "fact")
    consumer: str = _field("who wants the summary", checked_name, "fact")
    purpose: str = _field("what for, in words", origin="fact")
    owners: tuple[str, ...] = _field("who is invited, in the public order that breaks ties", _owner_names, "fact")
    quorum: int = _from_setting("quorum")
    schema_digest: str = _field(
        "of the schema that declares the columns; empty for bare arrays", _digest_or_empty, "fact"
    )
    columns: tuple[str, ...] = _field("names of the columns that leave an owner; empty for bare arrays")
    record_bytes: int = _count(
        "how long the record of a row and its label may be, by its schema; 0 for bare arrays", 1 << 28, "fact", least=0
    )
    kernel: KernelShape  # what is known of the feature map of the releases
    split: SplitShape | None = None  # who computes on shares; None for a curator who is trusted with rows
    protocol: Literal["sealed", "interactive"] = _from_setting("protocol")
    size: int = _from_setting("size")
    target_size: int = _count(
        "rows of the target (m), public; under add-or-remove declared beforehand and near the true number",
        1 << 40,
        "fact",
    )
    offer_factor: float = _from_setting("offer_factor")
    offers: Literal["tilted", "uniform"] = _field(
        "``tilted`` toward the target's release, or ``uniform``, without any release"
    )
    labels: Literal["match", "ignore"] = _from_setting("labels")
    thinning: bool = _from_setting("thinning")
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
    auction_epsilon: float = _amount("of one use of the auction; 0 with ``everyone``", *_AUCTION_EPSILON, zero=True)
    auction_offset: int = _count(
        "with ``threshold``, about how many owners are asked; 0 otherwise", 10_000_000, least=0
    )
    auction_patience: int = _count(
        "with ``paper``, after how many rounds with the same bid a row is asked for; 0 otherwise", _MOST_ROUNDS, least=0
    )
    summary_release: Literal["none", "gaussian", "mwem"] = _from_setting("summary_release")
    seed_rows: int = _count(
        "how many public rows start the summary of ``interactive``; never owners' rows", 1_000_000, least=0
    )
    seed_digest: str = _field("which rows these are (``digest_of_rows``); empty where there are none")
    schedule: Literal["", "theorem", "proof", "experiment"] = _from_setting("schedule")
    promised_epsilon: float = _amount(
        "from which ``theorem`` and ``proof`` compute their steps; 0 otherwise. It limits nothing", *_EPSILON, zero=True
    )
    price_per_row: float = _from_setting("price_per_row")
    currency: str = _from_setting("currency")
    accept_unproven: tuple[str, ...] = _field("names of parts without a proof that all parties accept")

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
        for name, needed, setting in (
            ("auction_offset", self.auction == "threshold", "auction: threshold"),
            ("auction_patience", self.auction == "paper", "auction: paper"),
            ("promised_epsilon", self.schedule in CHANGING_SCHEDULES, "schedule: theorem or proof"),
        ):
            if needed != ((value := getattr(self, name)) > 0):
                raise InvalidArgument(name, value, f"must be above 0 with {setting}, and 0 otherwise")
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
        if not self.schema_digest:
            raise InvalidArgument("curator", "split", "needs a schema, which declares the rows that are shared")
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
        # One level at a time: a copy of all that is below takes longer the more owners there are.
        document = {declared.name: getattr(self, declared.name) for declared in fields(self)}
        parts = ("kernel", "split", "target_budget", "owner_budget")
        return document | {name: asdict(document[name]) for name in parts if document[name] is not None}

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
    def kind(self) -> Literal["sealed", "interactive", "split"]:
        """The protocol, where a split ``sealed`` is a kind of its own."""
        return self.protocol if self.split is None else "split"

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
    answer_by: str = _field(
        "until when owners decide, ISO 8601 as ``expires`` and not after it; empty for as long as the terms last. The "
        "run then begins with those who accepted",
        default="",
    )
    run_id: str = _field(
        "32 hexadecimal digits; empty among parties in one process",
        _code("([0-9a-f]{32})?", "must be 32 hexadecimal digits, or empty"),
        "drawn",
        default="",
    )
    cards: Mapping[str, str] = _field(
        "fingerprints by name: the consumer's, every owner's, ``curator``'s and, where there is one, ``witness``'s; "
        "empty among parties in one process",
        _fingerprints,
        "fact",
        default_factory=dict,
        hash=False,
    )
    extensions: Mapping[str, str] = _field(
        "short texts by name that a reader keeps, shows and need not understand: neither prices nor what leaves an "
        "owner depend on them. What all parties must understand is a field of the next version of the terms",
        _extensions,
        "fact",
        default_factory=dict,
        hash=False,
    )

    def __post_init__(self) -> None:
        PlannedTerms.__post_init__(self)
        if self.deadline is not None and (self.end is None or self.deadline > self.end):
            raise InvalidArgument("answer_by", harmless_value(self.answer_by), "must not be after the end of the terms")
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
        split_gamma: float = math.nan,
        **more: Any,
    ) -> Self:
        """The terms that were planned, with what was drawn for them: ``split_gamma`` only where the curator is split.

        ``more`` is ``expires``, and where parties have cards ``answer_by``, ``run_id`` and ``cards``.
        """
        split = None if planned.split is None else planned.split.drawn(gamma=split_gamma)
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
        if WITNESS not in self.cards:
            raise InvalidArgument("cards", "no witness", "a split run names three computing parties by their cards")
        split.check_holds(self.kernel.columns, largest=self.kernel.largest)

    @cached_property
    def end(self) -> datetime | None:
        return _moment("expires", self.expires)

    @cached_property
    def deadline(self) -> datetime | None:
        """When owners must have answered."""
        return _moment("answer_by", self.answer_by) or self.end

    def check_not_expired(self, now: datetime) -> None:
        if self.end is not None and now > self.end:
            end = f"the terms of run {self.run} ended at {self.end.isoformat()}"
            raise TermsExpired(f"{end}, and this machine's clock says {clock_words(now)}; agree on new ones, or set it")

    @cached_property
    def digest(self) -> str:
        return digest_of_text(self.to_json())

    def to_json(self) -> str:
        """The canonical text: equal terms have equal texts."""
        return _canonical_text(self.document())

    def document(self) -> dict[str, Any]:
        """The terms as plain data."""
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
        names = {declared.name for declared in fields(cls)}
        if not isinstance(document, dict) or set(document) != names:
            odd = sorted(set(document) ^ names) if isinstance(document, dict) else ["the whole"]
            raise InvalidArgument("terms", ", ".join(odd), "must have exactly the fields of Terms")
        try:
            kernel, split = document["kernel"], document["split"]
            document["kernel"] = Kernel(**{**kernel, "seed": int(kernel["seed"], 16)})
            document["split"] = None if split is None else SplitTerms(**split)
            for name in ("target_budget", "owner_budget"):
                document[name] = Budget(**document[name])
            return cls(**document)
        except InvalidArgument:
            raise
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidArgument("terms", type(error).__name__, "has a field of another type than Terms") from error


def clock_words(now: datetime) -> str:
    """The time to the hour: enough to see that a clock is wrong, and repeated refusals have one text."""
    return f"{now.astimezone(UTC):%Y-%m-%d, %H} h UTC"


def _moment(name: str, text: str) -> datetime | None:
    if not text:
        return None
    try:
        # Python takes any character between date and time, also one that steers a terminal.
        moment = datetime.fromisoformat(text if text.isprintable() else "")
    except ValueError as error:
        raise InvalidArgument(name, harmless_value(text), "must be a date or time, such as 2031-01-31") from error
    if moment.year not in _YEARS:
        reason = f"must lie in the years {_YEARS[0]} to {_YEARS[-1]}: homes count days from it, and keep keys until it"
        raise InvalidArgument(name, harmless_value(text), reason)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _canonical_text(document: dict[str, Any]) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)


def names_from(origin: Origin) -> tuple[str, ...]:
    """Fields of planned terms of an origin; those that come from a setting have its name."""
    return tuple(declared.name for declared in fields(PlannedTerms) if declared.metadata.get("origin") == origin)


def read_foreign(text: str) -> Terms:
    """The terms in a stranger's text; BadMessage or InvalidArgument unless it is the canonical text of sane terms."""
    if len(text) > MOST_TEXT:
        raise BadMessage(f"terms of {len(text)} characters are too long; at most {MOST_TEXT:,}")
    terms = Terms.from_json(text)
    _check_work(terms)
    if terms.to_json() != text:
        raise BadMessage("the terms are not in their canonical form")
    return terms


def check_foreign_limits(terms: PlannedTerms, *, room: int = 0) -> None:
    """Raise if others would refuse to read these terms, before they are sent or anything is spent on them.

    ``room`` is how many characters to leave for what is not fixed yet.
    """
    length, most = len(_canonical_text(terms.document())), MOST_TEXT - room
    if length > most:
        reason = f"may have at most {most:,}; shorten the purpose and the names of owners and columns"
        raise InvalidArgument("terms", f"text of {length:,} characters", reason)
    _check_work(terms)


def check_between(terms: Terms) -> None:
    if not terms.cards:
        raise InvalidArgument(
            "cards", "none", "terms between organisations name every party by the fingerprint of its card"
        )


def _check_work(terms: PlannedTerms) -> None:
    """Limit what terms ask of strangers who read, price and answer them; in one process they may ask for more."""
    columns, dimension, owners = terms.kernel.columns, terms.kernel.dimension, len(terms.owners)
    if columns * dimension > _MOST_FOREIGN_FREQUENCIES:
        raise InvalidArgument("kernel", f"{columns} x {dimension}", "is too large a feature map")
    if owners > _MOST_OWNERS:
        raise InvalidArgument("owners", owners, f"is too large: at most {_MOST_OWNERS:,}")
    apart = terms.auction == "threshold" or terms.schedule in CHANGING_SCHEDULES
    rounds = _MOST_ROUNDS_APART if apart else _MOST_ROUNDS
    if terms.protocol == "interactive" and terms.size > rounds:
        raise InvalidArgument("size", terms.size, f"is too large: at most {rounds:,}")
