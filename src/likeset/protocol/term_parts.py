"""The parts that terms are made of: budgets, the kernel of releases, and the digests that name things."""

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

import numpy as np

from likeset import arguments
from likeset.arguments import Rows
from likeset.errors import InvalidArgument
from likeset.geometry.features import MAX_SEED, FourierFeatures
from likeset.privacy.guarantee import checked_delta
from likeset.protocol.selection import LARGEST_EXPONENT

__all__ = [
    "MOST_SHOWN",
    "RELEASE_SCALE",
    "Budget",
    "Fingerprints",
    "Kernel",
    "KernelShape",
    "check_text",
    "digest_of_rows",
    "is_digest",
    "is_run_id",
    "keep_checked",
]

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
        """The kernel of this shape, with what was drawn for it."""
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
    """Whether a text is written as the number of a run is."""
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
