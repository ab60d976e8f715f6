"""What a run will do and cost, before any owner's row is read or anything is spent; then the numbers that are drawn."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np

from likeset import arguments
from likeset.arguments import Rows
from likeset.errors import BudgetExceeded, InvalidArgument
from likeset.homes.run_accounts import check_accounts, check_rows_left, limit_of, open_accounts
from likeset.ledger import Account, Ledger, Limit
from likeset.privacy import width_choice
from likeset.privacy.events import Composition, Event, Release, Simulated
from likeset.privacy.guarantee import Basis, View
from likeset.privacy.noise import Noise
from likeset.privacy.schedules import GAMMA
from likeset.protocol.draft import Draft, Facts
from likeset.protocol.notices import Notice
from likeset.protocol.planned_terms import PlannedTerms
from likeset.protocol.plans import PlannedView, auction_plan, planned_views, size_event, summary_event
from likeset.protocol.run_settings import MOST_FOLDS, RunSettings
from likeset.protocol.selection import Selection
from likeset.protocol.term_parts import RELEASE_SCALE
from likeset.protocol.terms import Terms
from likeset.run.guarantees import width_request
from likeset.run.inputs import Inputs
from likeset.run.kernel_widths import NO_WIDTH, check_scale, check_width, gamma_by_median, public_width
from likeset.run.run_draws import RunDraws, public_coins
from likeset.run.run_secrets import RunSecrets
from likeset.run.split_plan import check_split_width, is_split, planned_split, split_notes, split_range, split_width

__all__ = ["Plan", "SettledRun", "make_plan"]

_ALLOW_FEWER = "take what there is (--allow-fewer, or allow_fewer in a job and in Python)"
_ROUNDING = 1e-6  # of a budget that is spent in parts


@dataclass(frozen=True, eq=False, repr=False)
class SettledRun:
    """What is settled before any owner hears anything.

    Attributes:
        terms: final.
        secrets: of the run.
        curators_noise: for what the curator draws.
        consumers_noise: for the release of the target.
    """

    terms: Terms
    secrets: RunSecrets
    curators_noise: Noise
    consumers_noise: Noise


@dataclass(frozen=True, eq=False)
class Plan:
    """What a run will do and cost.

    Attributes:
        wishes: what the user asks for.
        inputs: what the plan was made from.
        terms: what is fixed of them before anything is drawn.
        selection: how the curator is to select; it may depend on the target, so that no owner hears of it.
        seed_rows: public rows that start the summary of ``interactive``, checked.
        public_width: gamma of the release's kernel, where public facts give it; None where it is chosen privately.
        width_plan: that choice; None where public facts give the width.
        notes: what was chosen otherwise than asked.
    """

    wishes: RunSettings
    inputs: Inputs
    terms: PlannedTerms
    selection: Selection
    seed_rows: Rows | None
    public_width: float | None
    width_plan: width_choice.WidthPlan | None
    notes: tuple[Notice, ...]

    @property
    def simulated(self) -> bool:
        """Whether the noise is simulated: then nothing is private."""
        return self.wishes.noise == "simulated"

    @cached_property
    def guarantees(self) -> tuple[PlannedView, ...]:
        """For each view what the whole run will cost; whatever else is wrong with the terms shows here.

        Raises:
            InvalidArgument: a part of the run costs more than its limit.
        """
        choice = None if self.width_plan is None else self.width_plan.event
        views = planned_views(self.terms, simulated=self.simulated, width_choice=choice)
        self._check_price("epsilon", self.wishes.epsilon, views[0], about="the target")
        of_owner = next(view for view in views if view.view == View.owners(self.terms.owners[0]))  # they cost alike
        self._check_price("owner_epsilon", self.terms.owner_budget.epsilon, of_owner, about="owners' rows")
        return views

    def _check_price(self, setting: str, limit: float, planned: PlannedView, *, about: str) -> None:
        price = planned.guarantee
        if price.basis is not Basis.PROVEN or price.epsilon <= limit * (1.0 + _ROUNDING):
            return
        what = f"schedule {self.terms.schedule}" if self.terms.schedule else f"auction {self.terms.auction}"
        needed = math.ceil(price.epsilon * 100.0) / 100.0
        reason = f"is too little: {what} costs {price.epsilon:.4g} about {about}; set {setting} to at least {needed:g}"
        raise InvalidArgument(setting, f"{limit:g}", reason)

    @property
    def kernel_width(self) -> float:
        """Gamma of the selection's kernel."""
        return self.selection.kernel_width(self.inputs.target)

    def check_enough_rows(self, owners_rows: Iterable[int]) -> None:
        """Owners must have as many rows as are wanted, of which each offers no more than its share.

        Args:
            owners_rows: how many rows each owner has.

        Raises:
            InvalidArgument: there are fewer, and the user did not allow that.
        """
        if self.wishes.allow_fewer:
            return
        counts, each, size = list(owners_rows), self.terms.rows_per_owner, self.terms.size
        total, offered = sum(counts), sum(min(count, each) for count in counts)
        if size > total:
            reason = f"is more than the {total:,} rows that all owners have together; ask for fewer, or {_ALLOW_FEWER}"
            raise InvalidArgument("size", size, reason)
        if size > offered:
            reason = f"is more than the {offered:,} rows that owners can offer, each {each:,} at most"
            raise InvalidArgument("size", size, f"{reason}; raise offer_factor, ask for fewer, or {_ALLOW_FEWER}")

    @property
    def _target_limit(self) -> Limit:
        """What a ledger that knows nothing of the target allows owners to learn about it."""
        return limit_of(self.wishes.epsilon, self.wishes.delta, self.terms.relation, simulated=self.simulated)

    def quote(self, ledger: Ledger) -> tuple[tuple[Account, Account], ...]:
        """What owners know about the target before and after the run; an account that is not there is as if new."""
        about_target = self.guarantees[0]
        known = {account.view for account in ledger.accounts()}
        limits = {} if about_target.view in known else {about_target.view: self._target_limit}
        return ledger.quote(about_target.view, about_target.event, limits=limits)

    def check_affordable(self, ledger: Ledger) -> None:
        """Raise if a ledger does not allow the run; nothing is charged, and nothing is written.

        Raises:
            BudgetExceeded: too little is left of the target's budget, of an owner's, or of the rows of too many owners.
            UnprovenPart: an owner's account does not accept a part of the run.
            OtherRelation: an account has another relation, or another unit of privacy.
        """
        guarantees = self.guarantees  # what is wrong with the terms shows before anything is spent
        check_accounts(ledger, guarantees)
        check_rows_left(ledger, self.terms)
        if not ledger.messages(run=self.terms.run):  # a run that is resumed has paid for some of its releases
            _check_affordable(self.quote(ledger), guarantees[0])
            self._check_owners_accounts(ledger)

    def _check_owners_accounts(self, ledger: Ledger) -> None:
        """Accounts that the ledger has must allow what will be charged to them; new ones get limits that suffice."""
        terms, known = self.terms, {account.view for account in ledger.accounts()}
        views = [view for owner in terms.owners if (view := View.owners(owner)) in known]
        events: list[Event] = [] if terms.auction == "everyone" else [auction_plan(terms).event]
        events += [] if terms.summary_release == "none" else [summary_event(terms)]
        if views and events:
            charged = Composition(tuple(Simulated(event) if self.simulated else event for event in events))
            ledger.check((view, charged) for view in views)

    def settle(self, ledger: Ledger, draws: RunDraws, *, content: bytes | None, **between: Any) -> SettledRun:
        """Make the terms, of what was planned and drawn; a private choice of the release's width is charged here.

        Args:
            ledger: the consumer's.
            draws: what the run drew.
            content: where the ledger outlives this call, a digest of all that the run is about: the run's secrets are
                kept with it, and asked again, the same terms come out.
            between: what the terms of organisations have beyond that: ``expires``, ``run_id`` and ``cards``.
        """
        self.check_affordable(ledger)
        relation = self.terms.relation
        first, second, third = draws.noises
        about_target = View.owners(self.inputs.consumer)
        open_accounts(ledger, {about_target: self._target_limit})
        kept = draws.secrets
        if content is not None:
            told = size_event(relation)
            kept = kept.kept(ledger, about_target, run=self.terms.run, content=content, told=told)
        gamma = self._release_gamma(ledger, first)
        seed = kept.feature_seed if draws.public_seed is None else draws.public_seed
        width = None if self.terms.split is None else split_width(self.wishes, self.inputs, gamma)
        if self.terms.split is not None and "cards" not in between:
            between |= kept.named_parties(self.terms)
        terms = Terms.settled(
            self.terms,
            gamma=gamma,
            seed=seed,
            largest=_largest_entry(self.inputs) if width is None else split_range(self.inputs, width),
            split_gamma=width,
            **between,
        )
        return SettledRun(terms, kept, second, third)

    def _release_gamma(self, ledger: Ledger, noise: Noise) -> float:
        """The width of the release's kernel: public, or by a private choice charged to the target's budget."""
        plan = self.width_plan
        if plan is None:
            return self.public_width or NO_WIDTH
        event: Event = plan.event if noise.private else Simulated(plan.event)

        def run() -> tuple[bytes, Release[float]]:
            chosen = width_choice.run(plan, self.inputs.target, noise)
            return np.float64(chosen.value).tobytes(), chosen

        request = width_request(self.terms)
        data = ledger.answer(View.owners(self.inputs.consumer), event, run, request=request)
        return RELEASE_SCALE / float(np.frombuffer(data, dtype=np.float64)[0])


def make_plan(wishes: RunSettings, inputs: Inputs) -> Plan:
    """Plan a run; what is wrong with the wishes shows here, or when the plan is asked for its guarantees."""
    arguments.one_of("noise", wishes.noise, ("secret", "simulated"))
    public_coins(wishes)  # wrong words and numbers show before anything else is done
    seed_rows = _checked_seed_rows(wishes, inputs)
    selection = _selection(wishes, inputs)
    draft = Draft(wishes, _facts(wishes, inputs, seed_rows))
    width = public_width(wishes, inputs, released=draft.releases_target)
    width_plan, budget = (None, draft.budget) if width is not None else draft.split_for_width()
    split = planned_split(wishes)
    terms = draft.planned(target_budget=budget, split=split)
    _check_enough_asked(wishes, terms)
    if width is None or not draft.releases_target:
        check_scale(inputs, released=width is None)
    # A kernel under which no row has features is refused here, and not after something was spent.
    terms.kernel.drawn(gamma=width or NO_WIDTH, seed=0, largest=_largest_entry(inputs))
    if split is not None and (width is not None or wishes.gamma != "median"):
        check_split_width(wishes, inputs, split, width or NO_WIDTH)
    notes = (*draft.notes, *split_notes(wishes, split))
    return Plan(wishes, inputs, terms, selection, seed_rows, width, width_plan, notes)


def _check_enough_asked(wishes: RunSettings, terms: PlannedTerms) -> None:
    """As many rows must be asked for as are wanted, whatever owners have."""
    if type(wishes.allow_fewer) is not bool:
        raise InvalidArgument("allow_fewer", type(wishes.allow_fewer).__name__, "must be True or False")
    asked = terms.rows_per_owner * terms.asked_owners
    if asked < terms.size and not wishes.allow_fewer:
        rows = "1 row" if asked == 1 else f"{asked:,} rows"
        reason = f"asks owners for {rows} where {terms.size:,} are wanted; raise it to 1 or more"
        raise InvalidArgument("offer_factor", terms.offer_factor, f"{reason}, or {_ALLOW_FEWER}")


def _facts(wishes: RunSettings, inputs: Inputs, seed_rows: Rows | None) -> Facts:
    return Facts(
        run=inputs.run,
        consumer=inputs.consumer,
        purpose=inputs.purpose,
        target_size=_public_size(wishes, inputs),
        columns=inputs.target.shape[1],
        column_names=inputs.column_names,
        schema_digest=inputs.schema_digest,
        record_bytes=0 if inputs.declared is None else inputs.declared.record_bytes,
        owners=inputs.owners,
        rows_per_unit=inputs.rows_per_unit,
        id_column=inputs.id_column,
        seed_rows=seed_rows,
        version=version("likeset"),
    )


def _largest_entry(inputs: Inputs) -> float:
    return 0.0 if inputs.declared is None else inputs.declared.largest_entry


def _selection(wishes: RunSettings, inputs: Inputs) -> Selection:
    """How the curator selects; whatever could go wrong with it goes wrong here, before anything is spent."""
    scale = arguments.positive("gamma_scale", wishes.gamma_scale)
    if not isinstance(wishes.weights, bool):
        raise InvalidArgument("weights", type(wishes.weights).__name__, "must be True or False")
    arguments.one_of("labels", wishes.labels, ("match", "ignore"))
    if wishes.weights and wishes.protocol == "interactive":
        raise InvalidArgument("weights", True, "go with the sealed protocol")
    if wishes.folds:
        arguments.count("folds", wishes.folds, least=2, most=MOST_FOLDS)
    if is_split(wishes):
        return Selection(weighted=wishes.weights)  # its kernel stands in the terms
    given = GAMMA if wishes.gamma == "median" and wishes.schedule == "experiment" else wishes.gamma
    if given == "median":
        gamma = gamma_by_median("target", inputs.target, scale=scale)
        check_width("gamma_scale", gamma, inputs, scale=scale)
    else:
        gamma = arguments.positive("gamma", given)
        check_width("gamma", gamma, inputs)
    return Selection(gamma=gamma, weighted=wishes.weights, folds=wishes.folds)


def _public_size(wishes: RunSettings, inputs: Inputs) -> int:
    """The number that everybody may know: of the target's rows, or the one declared in its place."""
    if wishes.relation == "add-or-remove":
        if wishes.declared_size is None:
            raise InvalidArgument(
                "declared_size",
                None,
                "must be given under add-or-remove: the number of the target's rows is protected",
            )
        return arguments.count("declared_size", wishes.declared_size)
    if wishes.declared_size is not None:
        raise InvalidArgument("declared_size", wishes.declared_size, "goes with add-or-remove only")
    return len(inputs.target)


def _checked_seed_rows(wishes: RunSettings, inputs: Inputs) -> Rows | None:
    if inputs.seed_rows is None:
        if wishes.schedule == "experiment":
            raise InvalidArgument(
                "seed_rows", None, "must be given: the paper's experiments start from about 150 public rows"
            )
        return None
    if wishes.protocol != "interactive":
        raise InvalidArgument("seed_rows", "given", "go with the interactive protocol only")
    rows = arguments.matrix("seed_rows", inputs.seed_rows)
    arguments.same_columns("target", inputs.target, "seed_rows", rows)
    return rows


def _check_affordable(quoted: Iterable[tuple[Account, Account]], about_target: PlannedView) -> None:
    """All releases of the target together must fit: nothing is spent on the first if the last cannot be paid."""
    view = about_target.view
    for before, after in quoted:
        most, epsilon = after.limit.epsilon, after.epsilon
        if most is not None and epsilon is not None and epsilon > most * (1.0 + _ROUNDING):
            raise BudgetExceeded(
                str(view),
                spent=before.epsilon or 0.0,
                requested=about_target.guarantee.epsilon,
                limit=most,
                unit=f"epsilon at delta = {after.limit.delta:g}, {after.limit.relation}",
            )
