"""What is fixed of a run's terms before anything is drawn for it: enough to say what the run will do, and cost.

Nothing here has a digest, and nobody agrees to it: that is for ``Terms``, which are these and what was drawn.
"""

import math
from collections import Counter
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any, Literal

from likeset import arguments
from likeset.errors import InvalidArgument, UnprovenPart
from likeset.privacy.auction import PAPER_AUCTION, plan_threshold
from likeset.privacy.events import Observer, PrivacyUnit, Relation
from likeset.privacy.guarantee import checked_name
from likeset.privacy.schedules import CHANGING
from likeset.privacy.schedules import NAMES as SCHEDULES
from likeset.protocol.split.split_terms import MOST_SPLIT_SLOTS, MOST_SPLIT_TARGET, SplitShape
from likeset.protocol.term_parts import Budget, KernelShape, check_text, is_digest, keep_checked

__all__ = ["SUMMARY_RELEASE", "PlannedTerms"]

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
        if (self.schedule in CHANGING) != (self.promised_epsilon > 0.0):
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
        """What the public program cannot do, or is not made for."""
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
        """The parts of these terms that have no proof, with the reason."""
        parts = []
        if self.auction == "paper":
            parts.append((PAPER_AUCTION, "who is not asked knows that somebody bid more"))
        if self.summary_release != "none" and self.auction != "everyone":
            parts.append((SUMMARY_RELEASE, "who is asked and what is released feed on one another"))
        return tuple(parts)

    def document(self) -> dict[str, Any]:
        """As plain data."""
        values = ((declared.name, getattr(self, declared.name)) for declared in fields(self))
        # One level at a time: a copy of all that is below takes longer the more owners there are.
        return {
            name: asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
            for name, value in values
        }

    @property
    def unit(self) -> PrivacyUnit:
        """The unit of privacy."""
        return PrivacyUnit(self.rows_per_unit, self.id_column)

    @property
    def asked_owners(self) -> int:
        """About how many owners are asked, as a public number."""
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
