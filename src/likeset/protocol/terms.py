"""What all parties agree on before anything happens, by its digest.

Everything an owner hears may depend only on these terms, on the releases that they announce, and on its own rows. So
whatever could otherwise carry something about others' rows (how many rows are asked for, the kernel of the release, the
scaling, how many rounds) is fixed here, from public facts.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Self

from likeset import arguments
from likeset.errors import InvalidArgument
from likeset.privacy.events import Relation
from likeset.protocol.planned_terms import PlannedTerms
from likeset.protocol.split.split_terms import SplitTerms, largest_split
from likeset.protocol.term_parts import Budget, Fingerprints, Kernel, check_text, is_run_id

__all__ = ["WITNESS", "Terms", "canonical_text", "plain_data"]

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
        """When the terms end; None if they do not."""
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
        """What parties compare, and what an owner approves."""
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
    """The one text of plain data."""
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
    """Kept: a party asks for every message."""
    return _digest(this.terms)


@lru_cache(maxsize=16)
def _digest(terms: Terms) -> str:
    """Kept: with thousands of owners, each of them asks, and the text names them all."""
    return hashlib.sha256(b"likeset/terms/4\n" + terms.to_json().encode()).hexdigest()
