"""From the settings of a user to the terms of a run: the choices that are made for them, and why.

Every choice is a function of public facts: how many rows the target has, how many owners there are, the budget. None
looks at a row.
"""

import math
from dataclasses import dataclass, field
from typing import Literal

from likeset import arguments
from likeset.arguments import Rows
from likeset.errors import InvalidArgument
from likeset.privacy import accounting, auction, gaussian_mean, mwem_mean, width_choice
from likeset.privacy.events import Gaussian, Observer, PrivacyUnit, Relation
from likeset.protocol import notices
from likeset.protocol.notices import Notice
from likeset.protocol.terms import (
    Budget,
    KernelShape,
    PlannedTerms,
    RunSettings,
    SplitShape,
    digest_of_rows,
    names_from,
)
from likeset.run.job import Inputs

_WIDTH_SHARES = (0.15, 0.2, 0.25, 0.3)
"""Shares of the target's budget (in rho) for a private choice of the release's width: the least that makes the choice
reliable, and the last if none does."""

_SHORTEST, _LONGEST = 64, 320  # released vectors: outside of this nothing was gained
_SIGNAL = 0.075
"""Noise in a row's score at which, with ten offers for each row wanted, a release keeps half of what one without noise
would gain. Fitted (studies/results/frontier); how many rows are wanted and how many owners there are hardly matters."""
_SIGNAL_POWER = 0.5
"""With which it grows with the number of offers: who offers more can afford to be wrong more often. Fitted as well."""
_USUAL_OFFERS = 10.0
_OFFERED_PER_ASKED = 10.0
"""With a threshold auction, about how many rows each asked owner discloses. Asking a tenth, a quarter or half of the
owners instead was no better on unseen rows."""


@dataclass(frozen=True, slots=True)
class ReleaseOutlook:
    noise: float  # standard deviation, in the score of a row
    signal: float  # the noise at which half of the gain is left

    @property
    def ratio(self) -> float:
        return self.signal / self.noise

    @property
    def gain(self) -> float:
        """The part that remains of the gain of a release without noise over uniform offers."""
        return 1.0 / (1.0 + self.ratio**-2)

    @property
    def pays(self) -> bool:
        """Whether offers tilted toward the release can be expected to beat uniform ones: half of the gain is left."""
        return self.ratio >= 1.0


def release_outlook(
    budget: Budget, *, target_size: int, dimension: int, relation: Relation, unit: PrivacyUnit, offer_factor: float
) -> ReleaseOutlook:
    plan = gaussian_mean.plan(
        gaussian_mean.unit_rows(unit, relation),
        size=target_size,
        dimension=dimension,
        epsilon=budget.epsilon,
        delta=budget.delta,
    )
    signal = _SIGNAL * (offer_factor / _USUAL_OFFERS) ** _SIGNAL_POWER
    return ReleaseOutlook(noise=plan.sigma / plan.size, signal=signal)


@dataclass
class Draft:
    settings: RunSettings
    inputs: Inputs
    notes: list[Notice] = field(default_factory=list)

    def __post_init__(self) -> None:
        settings, inputs = self.settings, self.inputs
        self.seed_rows, self.target_size = self._checked_seed_rows(), self._public_size()
        self.unit = PrivacyUnit(arguments.count("rows_per_unit", inputs.rows_per_unit), inputs.id_column)
        self.relation = Relation(settings.relation)
        self.budget = Budget(settings.epsilon, settings.delta)
        self.offers: Literal["tilted", "uniform"] = self._chosen_offers()
        self.dimension = self._dimension() if settings.dimension == "auto" else settings.dimension
        if self.offers == "tilted" and settings.protocol == "sealed":
            outlook = self._outlook(self.dimension)
            if not outlook.pays:
                self.offers = "uniform"  # by the budget and the target's size alone
                enough = 10 * math.ceil(self.target_size / outlook.ratio / 10.0)  # noise falls with the target's size
                size, epsilon = self.target_size, self.budget.epsilon
                self.notes.append(notices.uniform_offers(size, epsilon, self.unit.rows, enough=enough))

    @property
    def releases_target(self) -> bool:
        return self.offers == "tilted"

    def split_for_width(self) -> tuple[width_choice.WidthPlan, Budget]:
        """A choice of the release's width and what its cost leaves for the release, together within the budget."""
        if self.settings.schedule:
            raise InvalidArgument("release_gamma", None, "must be given with a schedule, which has a budget of its own")
        if self.relation is not Relation.REPLACE_ONE:
            raise InvalidArgument(
                "release_gamma",
                None,
                f"cannot be chosen privately under {self.relation} (there is no proof): give it, or public_rows",
            )
        for share in _WIDTH_SHARES:
            found = self.width_for(share)
            if found[0].failure_bound <= width_choice.LARGEST_FAILURE:
                break
        return found

    def width_for(self, share: float) -> tuple[width_choice.WidthPlan, Budget]:
        """A choice of the release's width for a share of the budget, and the rest of the budget."""
        rho = _rho_within(self.budget)
        choice = width_choice.plan(
            size=self.target_size,
            unit=self.unit,
            rho=share * rho,
            relation=self.relation,
            columns=self.inputs.target.rows.shape[1],
        )
        quantity = gaussian_mean.unit_rows(self.unit, self.relation)
        sigma = quantity.sensitivity / math.sqrt(2.0 * (1.0 - share) * rho)
        event = Gaussian(sigma=sigma, quantity=quantity, coordinates=self.dimension, spacing=gaussian_mean.SPACING)
        left = accounting.guarantee(event, relation=self.relation, delta=self.budget.delta)
        return choice, Budget(left.epsilon, self.budget.delta)

    def planned(self, *, target_budget: Budget, split: SplitShape | None = None) -> PlannedTerms:
        """What is fixed of the terms before anything is drawn."""
        settings, inputs, seed_rows = self.settings, self.inputs, self.seed_rows
        paper = settings.summary_release == "mwem" or bool(settings.schedule)
        name, epsilon, offset = self._auction(seen=split is None)
        patience = settings.patience or auction.auction_patience(len(inputs.owners)) if name == "paper" else 0
        return PlannedTerms(
            **{name: getattr(settings, name) for name in names_from("setting")},
            run=inputs.run,
            consumer=inputs.consumer,
            purpose=inputs.purpose,
            owners=inputs.owners,
            schema_digest="" if inputs.schema is None else inputs.schema.digest,
            columns=inputs.column_names,
            record_bytes=0 if inputs.declared is None else inputs.declared.record_bytes,
            target_size=self.target_size,
            rows_per_unit=self.unit.rows,
            id_column=self.unit.column,
            kernel=KernelShape(inputs.target.rows.shape[1], self.dimension, kind="paper" if paper else "paired"),
            split=split,
            offers=self.offers,
            target_budget=target_budget if self.releases_target else Budget(0.0, settings.delta),
            owner_budget=Budget(self._owner_epsilon(name, epsilon), settings.delta),
            relation=self.relation,
            auction=name,
            auction_epsilon=epsilon,
            auction_offset=offset,
            auction_patience=patience,
            promised_epsilon=settings.promised_epsilon if settings.schedule in mwem_mean.CHANGING_SCHEDULES else 0.0,
            seed_rows=0 if seed_rows is None else len(seed_rows),
            seed_digest="" if seed_rows is None else digest_of_rows(seed_rows),
            accept_unproven=tuple(settings.accept_unproven),
        )

    def _dimension(self) -> int:
        """Length of the released vector.

        The noise in a row's score is s = sigma/m at any length: features have norm 1. What grows with the length is the
        noise in the score that the target itself would have, ``s² sqrt(2d)``; what shrinks is the kernel's error, like
        ``a/d``. Their sum is least at ``d = (sqrt(2) a / s²)^(2/3)``. ``a = 1/2`` is fitted, not derived: it gives the
        140 that did well with 360 rows at epsilon 1. Measured quality is nearly flat from 64 to 320.
        """
        if self.settings.schedule == "experiment":
            return mwem_mean.PAPER_DIMENSION
        if self.budget.epsilon == 0.0:
            return _SHORTEST
        best = math.pow(1.0 / (math.sqrt(2.0) * self._outlook(_LONGEST).noise ** 2), 2.0 / 3.0)
        return 2 * round(min(max(best, _SHORTEST), _LONGEST) / 2.0)

    def _outlook(self, dimension: int) -> ReleaseOutlook:
        return release_outlook(
            self.budget,
            target_size=self.target_size,
            dimension=dimension,
            relation=self.relation,
            unit=self.unit,
            offer_factor=self.settings.offer_factor,
        )

    def _public_size(self) -> int:
        declared = self.settings.declared_size
        if (self.settings.relation == "add-or-remove") != (declared is not None):
            reason = "must be given under add-or-remove, which protects the number of the target's rows, and only there"
            raise InvalidArgument("declared_size", declared, reason)
        return len(self.inputs.target.rows) if declared is None else declared

    def _checked_seed_rows(self) -> Rows | None:
        if self.inputs.seed_rows is None:
            return None
        if self.settings.protocol != "interactive":
            raise InvalidArgument("seed_rows", "given", "go with the interactive protocol only")
        rows = arguments.matrix("seed_rows", self.inputs.seed_rows)
        arguments.same_columns("target", self.inputs.target.rows, "seed_rows", rows)
        return rows

    def _chosen_offers(self) -> Literal["tilted", "uniform"]:
        if self.settings.offers == "uniform":
            return "uniform"
        if self.budget.epsilon == 0.0:
            is_sealed = self.settings.protocol == "sealed"
            without = ", or set offers to uniform, which makes no release" if is_sealed else ""
            raise InvalidArgument("epsilon", 0.0, f"allows no release of the target: raise it{without}")
        if self.budget.delta == 0.0:
            raise InvalidArgument(
                "delta", 0.0, "must be above 0 for a release of the target; offers='uniform' needs none"
            )
        return "tilted"

    def _auction(self, *, seen: bool) -> tuple[Literal["everyone", "threshold", "paper"], float, int]:
        """Who is asked: its name, the epsilon of one use, and about how many owners a threshold asks."""
        settings, owners = self.settings, len(self.inputs.owners)
        offered = settings.offer_factor * settings.size
        name = settings.auction
        if name == "auto":
            many = owners > offered and settings.protocol == "sealed" and seen and settings.owner_epsilon != 0.0
            name = "threshold" if many else "everyone"
        if name == "everyone":
            return "everyone", 0.0, 0
        epsilon = settings.auction_epsilon
        if name == "paper":
            if epsilon is None:
                promised = settings.promised_epsilon
                epsilon = auction.auction_epsilon(owners=owners, epsilon=promised, delta=settings.delta)
            return "paper", arguments.positive("auction_epsilon", epsilon), 0
        epsilon = arguments.positive("auction_epsilon", 1.0 if epsilon is None else epsilon)
        if settings.owner_epsilon == 0.0:
            raise InvalidArgument(
                "owner_epsilon", 0.0, "allows no threshold auction: give more, leave it out, or set auction: everyone"
            )
        least = auction.plan_threshold(
            owners, epsilon=epsilon, observer=Observer.COALITION, rounds=1, summary_released=False
        ).offset
        return "threshold", epsilon, max(least, min(owners, round(offered / _OFFERED_PER_ASKED)))

    def _owner_epsilon(self, auction_name: str, auction_epsilon: float) -> float:
        """What owners may learn about one another: as given, or what a threshold auction needs."""
        if self.settings.owner_epsilon is not None:
            return self.settings.owner_epsilon
        rounds = self.settings.size if self.settings.protocol == "interactive" else 1
        return rounds * math.log1p(math.exp(auction_epsilon)) if auction_name == "threshold" else 0.0


def _rho_within(budget: Budget) -> float:
    low, high = 0.0, 1.0
    while accounting.epsilon_of_rho(high, budget.delta) <= budget.epsilon:
        high *= 2.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        fits = accounting.epsilon_of_rho(middle, budget.delta) <= budget.epsilon
        low, high = (middle, high) if fits else (low, middle)
    # A hair less: what is planned here is added up again, step by step, by the ledger.
    return low * (1.0 - 1e-6)
