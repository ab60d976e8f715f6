"""What a user asks for, beyond the terms: the selection's kernel, the noise, the seeds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likeset import arguments
from likeset.arguments import Rows
from likeset.errors import InvalidArgument
from likeset.geometry.kernels import median_gamma
from likeset.privacy.relation import Relation
from likeset.protocol.declarations import Declared
from likeset.protocol.hashing import commitment
from likeset.protocol.owner import Scan
from likeset.protocol.selection import Selection, is_usable_width
from likeset.protocol.terms import RELEASE_SCALE, Hashing
from likeset.protocol.wishes import Wishes

__all__ = ["Order", "Stalls", "check_width"]

_LONGEST_HASH = 1 << 16


@dataclass(frozen=True, eq=False, kw_only=True)
class Stalls:
    """What the parties bring to the market.

    Attributes:
        target: the consumer's rows.
        owners: how each owner reaches its rows, by a name that may stand in records and messages.
        public_rows: rows that anybody may see, or None.
        largest_squared_norm: of all rows, as far as it is known.
        content: a digest of everything: a run goes on with the data that it began with, or not at all.
        column_names: of what leaves an owner; empty for bare arrays.
        schema_digest: of the schema that declares the columns; empty for bare arrays.
        declared: that schema; None for bare arrays.
        consumer: the consumer's name.
        purpose: what the summary is for, in words.
    """

    target: Rows
    owners: Mapping[str, Scan]
    public_rows: Rows | None
    largest_squared_norm: float
    content: bytes
    column_names: tuple[str, ...] = ()
    schema_digest: str = ""
    declared: Declared | None = None
    consumer: str = "consumer"
    purpose: str = "a matched training set"


@dataclass(frozen=True, eq=False, kw_only=True)
class Order:
    """One order; the fields are described in ``likeset.Summarizer``."""

    wishes: Wishes
    gamma: float | Literal["median"] = "median"
    gamma_scale: float = 1.0
    release_gamma: float | None = None
    hash_dimension: int | None = None
    weights: bool = False
    declared_size: int | None = None
    seed_rows: ArrayLike | None = None
    noise: Literal["secret", "simulated"] = "secret"
    random_state: int | None = None

    @property
    def simulated(self) -> bool:
        """Whether the noise is simulated: then nothing is private."""
        return arguments.one_of("noise", self.noise, ("secret", "simulated")) == "simulated"

    def coins(self) -> np.random.Generator:
        """Public coins."""
        seed = None if self.random_state is None else arguments.count("random_state", self.random_state, least=0)
        return np.random.default_rng(seed)

    def selection(self, stalls: Stalls) -> Selection:
        """How the curator selects; whatever could go wrong with it goes wrong here, before anything is spent."""
        scale = arguments.positive("gamma_scale", self.gamma_scale)
        if not isinstance(self.weights, bool):
            raise InvalidArgument("weights", type(self.weights).__name__, "must be True or False")
        if self.weights and (self.hash_dimension is not None or self.wishes.protocol == "interactive"):
            raise InvalidArgument("weights", True, "go with the sealed protocol and a curator who sees rows")
        if self.hash_dimension is not None:
            if self.wishes.protocol == "interactive" or self.wishes.auction not in ("auto", "everyone"):
                raise InvalidArgument(
                    "hash_dimension",
                    self.hash_dimension,
                    "goes with protocol sealed and auction everyone: by bids the curator would see what hashes hide",
                )
            return Selection()
        if self.gamma == "median":
            gamma = _median_gamma("target", stalls.target, scale=scale)
        else:
            gamma = arguments.positive("gamma", self.gamma)
        check_width("gamma_scale" if self.gamma == "median" else "gamma", gamma, stalls)
        return Selection(gamma=gamma, weighted=self.weights)

    def public_width(self, stalls: Stalls, *, released: bool) -> float | None:
        """The width of the release's kernel as far as public facts give it; None if it must be chosen privately."""
        if self.release_gamma is not None:
            gamma = arguments.positive("release_gamma", self.release_gamma)
        elif stalls.public_rows is not None:
            gamma = _median_gamma("public_rows", stalls.public_rows, scale=RELEASE_SCALE)
        elif released:
            return None
        elif self.hash_dimension is None or self.gamma != "median":
            return 1.0  # nobody uses it
        else:
            raise InvalidArgument("gamma", "'median'", "must be a number: hashes are public, and nothing is released")
        check_width("release_gamma", gamma, stalls)
        return gamma

    def hashing(self, release_gamma: float, hash_seed: int) -> Hashing | None:
        """What the terms say about hashes, where the curator may see nothing else."""
        if self.hash_dimension is None:
            return None
        dimension = arguments.count("hash_dimension", self.hash_dimension, least=2, most=_LONGEST_HASH)
        if dimension % 2:
            raise InvalidArgument("hash_dimension", dimension, "must be even")
        # Owners use this kernel too, so it must not be read off the target: it follows from the release's, or from what
        # the user gave, which then stands in the terms.
        by_release = self.gamma_scale * release_gamma / RELEASE_SCALE
        gamma = by_release if self.gamma == "median" else arguments.positive("gamma", self.gamma)
        return Hashing(dimension, gamma, commitment(hash_seed))

    def public_size(self, stalls: Stalls) -> int:
        """The number that everybody may know: of the target's rows, or the one declared in its place."""
        if self.wishes.relation == Relation.ADD_OR_REMOVE:
            if self.declared_size is None:
                raise InvalidArgument(
                    "declared_size",
                    None,
                    "must be given under add-or-remove: the number of the target's rows is protected",
                )
            return arguments.count("declared_size", self.declared_size)
        if self.declared_size is not None:
            raise InvalidArgument("declared_size", self.declared_size, "goes with add-or-remove only")
        return len(stalls.target)

    def seeds(self, stalls: Stalls) -> NDArray[Any] | None:
        """The public rows that start the summary of ``interactive``, checked."""
        if self.seed_rows is None:
            return None
        if self.wishes.protocol != "interactive":
            raise InvalidArgument("seed_rows", "given", "go with the interactive protocol only")
        rows = arguments.matrix("seed_rows", self.seed_rows)
        arguments.same_columns("target", stalls.target, "seed_rows", rows)
        return rows


def check_width(argument: str, gamma: float, stalls: Stalls) -> None:
    """Exponents of the kernel must be numbers in single precision."""
    if not is_usable_width(gamma, stalls.largest_squared_norm):
        raise InvalidArgument(argument, f"{gamma:g}", "is too large for these rows: a kernel of them is not a number")


def _median_gamma(argument: str, rows: Rows, *, scale: float) -> float:
    """By the median squared distance; an error names the argument that the caller gave."""
    try:
        return median_gamma(rows, scale=scale, coins=np.random.default_rng(0))
    except InvalidArgument as error:
        raise InvalidArgument(argument, error.value, error.reason) from error
