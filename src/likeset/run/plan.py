"""What a run will do and cost, before any owner's row is read or anything is spent; then its terms and its secrets."""

import math
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from likeset.arguments import Rows
from likeset.errors import BudgetExceeded, InvalidArgument
from likeset.geometry.kernels import median_gamma
from likeset.geometry.selection import Selection, is_usable_width
from likeset.ledger.budget import Account, Charge, Limit, Request
from likeset.ledger.ledger import Ledger
from likeset.privacy import accounting, width_choice
from likeset.privacy.accounting import Basis
from likeset.privacy.events import ROW, Composition, Event, PrivacyUnit, Release, Simulated, View
from likeset.privacy.mwem_mean import PAPER_GAMMA
from likeset.privacy.noise import Noise, SecretNoise, SimulatedNoise
from likeset.protocol import notices
from likeset.protocol.notices import Notice, notice_documents
from likeset.protocol.prices import PlannedView, auction_plan, limit_of, planned_views, size_event, summary_event
from likeset.protocol.terms import (
    Budget,
    PlannedTerms,
    RunSettings,
    SplitShape,
    Terms,
    largest_split_gamma,
)
from likeset.run.draft import Draft, ReleaseOutlook, release_outlook
from likeset.run.job import Inputs, Job, RunSecrets, named_job, note_how_to_raise, open_inputs, options_to_change
from likeset.split.engine.agreement import MOST_COLUMNS, PARTIES
from likeset.split.host import program_digest
from likeset.tables.sources import is_path

NO_WIDTH = 1.0
"""Stands where a width is not known yet, or nobody uses it."""

ONE_RUN = (
    "The budget counts only this run. To count and limit several runs on the same rows, give all of them one "
    "--ledger FILE."
)

_DIGITS_SINGLE, _DIGITS_DOUBLE = 24, 50  # binary ones; owners thin in single precision, a curator goes to double
_ALLOW_FEWER = "set allow_fewer to take what there is"
_ROUNDING = 1e-6  # of a budget that is spent in parts
_GOOD = 0.8  # of the gain over uniform offers
_WHEN = (
    "That gain is large where rows like the target's are rare, and may be nothing where they are common: there "
    "offers: uniform costs no epsilon."
)
_FEWEST_OFFERS = 4  # for each row
_LARGEST_SUGGESTED = 16.0
_MOST_SUGGESTED_ROWS = 1_000_000


# Secrets and noise


@dataclass(frozen=True, eq=False, repr=False)
class RunDraws:
    noises: tuple[Noise, Noise, Noise]
    public_seed: int | None
    secrets: RunSecrets


def new_draws(settings: RunSettings) -> RunDraws:
    coins, simulated = np.random.default_rng(settings.seed), settings.noise == "simulated"

    def draw(bits: int) -> int:
        if not simulated:
            return secrets.randbits(bits)
        return int.from_bytes(coins.bytes((bits + 7) // 8), "big") >> (-bits % 8)

    # Each release has a noise of its own: a run that is resumed draws what it would have drawn.
    first, second, third = (SimulatedNoise(draw(63)) if simulated else SecretNoise() for _ in range(3))
    public_seed = None if settings.seed is None else int(coins.integers(2**63))
    return RunDraws((first, second, third), public_seed, RunSecrets(draw(256)))


def draws_of_run(settings: RunSettings, ledger_path: Path, *, run: str) -> RunDraws:
    """What a run will draw; with the secrets that it began with, if it began earlier."""
    draws = new_draws(settings)
    if ledger_path.exists():
        with Ledger(ledger_path) as ledger:
            began = RunSecrets.found_in(ledger, run=run)
            draws = draws if began is None else replace(draws, secrets=began)
    return draws


# The widths of kernels, and a split curator


def split_width(settings: RunSettings, inputs: Inputs, release_gamma: float) -> float:
    """Gamma of a split selection: as given, or from the release's own width; never from the target's distances.

    What follows from the release is no narrower than what 64 bits hold, by the range that a schema declares.
    """
    if settings.gamma != "median":
        return settings.gamma
    gamma, columns = settings.gamma_scale * release_gamma, inputs.target.rows.shape[1]
    return min(gamma, largest_split_gamma(_largest_entry(inputs), columns))


def check_split_width(settings: RunSettings, inputs: Inputs, split: SplitShape, release_gamma: float) -> None:
    """What 64 bits cannot hold shows before anything is spent."""
    columns = inputs.target.rows.shape[1]
    if columns > MOST_COLUMNS:
        reason = f"shares rows of at most {MOST_COLUMNS:,} numbers; these have {columns:,}"
        raise InvalidArgument("curator", "split", reason)
    terms = split.drawn(gamma=split_width(settings, inputs, release_gamma))
    terms.check_holds(columns, largest=_largest_entry(inputs), argument="gamma")


def split_notes(settings: RunSettings, split: SplitShape | None) -> tuple[Notice, ...]:
    if split is None:
        return ()
    lost = [
        *([notices.LABELS_NOT_MATCHED] if settings.labels == "match" else []),
        *([notices.DISTANCE_IN_SAMPLE] if settings.folds else []),
        *([notices.PUBLIC_WIDTH] if settings.gamma == "median" else []),
    ]
    return (notices.SPLIT_CURATOR, *lost)


def public_width(settings: RunSettings, inputs: Inputs, *, released: bool) -> float | None:
    """The width of the release's kernel as far as public facts give it; None if it must be chosen privately."""
    if settings.release_gamma is not None:
        gamma = settings.release_gamma
    elif inputs.public_rows is not None:
        gamma = gamma_by_median("public_rows", inputs.public_rows, scale=1.0)
    elif settings.schedule == "experiment":
        gamma = PAPER_GAMMA
    elif released:
        return None
    elif settings.curator != "split" or settings.gamma != "median":
        return NO_WIDTH  # nobody uses it
    else:
        reason = "must be a number for a split curator without a release; give gamma, release_gamma or public_rows"
        raise InvalidArgument("gamma", "'median'", reason)
    check_width("release_gamma", gamma, inputs)
    return gamma


def check_width(argument: str, gamma: float, inputs: Inputs) -> None:
    """Exponents of the kernel must be numbers in single precision, and what rounding leaves of them below 1."""
    in_thinning = argument == "release_gamma"
    digits = _DIGITS_SINGLE if in_thinning else _DIGITS_DOUBLE
    if not is_usable_width(gamma, inputs.largest_squared_norm) or _loses_exponents(gamma, inputs, digits=digits):
        reason = "is too large for these rows: a kernel of them is not a number; scale them to about 1"
        raise InvalidArgument(argument, f"{gamma:g}", reason)


def check_scale(inputs: Inputs, *, released: bool) -> None:
    """Where the release's width comes from the public grid, rows must lie as near to one another as that expects."""
    nearest = min(width_choice.grid(inputs.target.rows.shape[1]))
    is_wide = _loses_exponents(max(NO_WIDTH, 1.0 / nearest), inputs, digits=_DIGITS_SINGLE)
    if is_wide or (released and 0.0 < (inputs.largest_squared_distance or 0.0) < nearest):
        how = "some rows lie hundreds of units" if is_wide else "all rows lie within a few hundredths of a unit"
        reason = (
            f"is not scaled, or owners' rows are not: {how} from its middle; divide each column by a spread that is "
            "public knowledge (a scaler in a pipeline scales the target alone), or give release_gamma"
        )
        raise InvalidArgument("target", f"array of shape {inputs.target.rows.shape}", reason)


def _loses_exponents(gamma: float, inputs: Inputs, *, digits: int) -> bool:
    """Whether rounding alone moves an exponent of the kernel by 1 or more; never where a schema bounds the rows."""
    return 4.0 * gamma * (inputs.largest_squared_distance or 0.0) >= 2.0**digits


def gamma_by_median(argument: str, rows: Rows, *, scale: float) -> float:
    try:
        return median_gamma(rows, scale=scale, coins=np.random.default_rng(0))
    except InvalidArgument as error:
        raise InvalidArgument(argument, error.value, error.reason) from error


# The plan


@dataclass(frozen=True, eq=False)
class Plan:
    settings: RunSettings
    inputs: Inputs
    terms: PlannedTerms
    selection: Selection
    seed_rows: Rows | None
    public_width: float | None
    width_plan: width_choice.WidthPlan | None
    notes: tuple[Notice, ...]
    own_curator: bool = False  # whether the curator belongs to the consumer

    @property
    def simulated(self) -> bool:
        return self.settings.noise == "simulated"

    @cached_property
    def guarantees(self) -> tuple[PlannedView, ...]:
        """The cost of the whole run for each view; raises the remaining errors of the terms."""
        choice = None if self.width_plan is None else self.width_plan.event
        views = planned_views(self.terms, simulated=self.simulated, width_choice=choice, own_curator=self.own_curator)
        self._check_price("epsilon", self.settings.epsilon, views[0], about="the target")
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
    def width_failure(self) -> float | None:
        """Bound on the probability that a privately chosen width is far off; None if the width is public."""
        return None if self.width_plan is None else self.width_plan.failure_bound

    @cached_property
    def warnings(self) -> tuple[Notice, ...]:
        return tuple(self.inputs.warnings(self.settings))

    @property
    def rows_seen(self) -> int:
        return self.terms.rows_per_owner * len(self.terms.owners)

    @property
    def expected_rows_seen(self) -> int:
        """About how many it will be: with an auction, chance decides how many owners are asked."""
        return self.terms.rows_per_owner * self.terms.asked_owners

    @property
    def messages(self) -> int:
        """How many messages travel between curator and owners, at most."""
        terms = self.terms
        if terms.protocol == "interactive":
            each = 1 + 4 * terms.size
        elif terms.split is not None:
            each = 1 + PARTIES
        else:
            each = 2 if terms.auction == "everyone" else 4
        return each * len(terms.owners)

    @cached_property
    def advice(self) -> "Advice":
        return _advice(self)

    @cached_property
    def accounts(self) -> list[dict[str, Any]] | None:
        """What the ledger has of the target and of owners, before and after the run; None if there is no ledger yet."""
        if self.inputs.ledger is None or not (path := Path(self.inputs.ledger)).exists():
            return None
        terms, about_target = self.terms, self.guarantees[0]
        of_owners = {View.curator(owner) for owner in terms.owners}
        with Ledger(path, read_only=True) as opened:
            try:
                self.check_affordable(opened)
            except BudgetExceeded as error:
                note_how_to_raise(error, path)
                raise
            known = {account.view: account for account in opened.accounts()}
            limits = {} if about_target.view in known else {about_target.view: self._target_limit}
            ((before, after),) = opened.quote(Charge(((about_target.view, about_target.event),)), limits=limits)
        spent, total = (one.epsilon if one.basis is Basis.PROVEN else None for one in (before, after))
        rows = [account for view, account in known.items() if view in of_owners]
        return [
            _outlook(after, "epsilon", spent, total, after.limit.epsilon),
            *(_outlook(one, "rows", one.rows, one.rows + terms.rows_per_owner, one.limit.rows) for one in rows),
        ]

    def document(self) -> dict[str, Any]:
        terms, advice, target = self.terms, self.advice, self.inputs.target
        budget, ledger = "" if self.accounts is not None else ONE_RUN, self.inputs.ledger
        if ledger is not None and self.accounts is None:
            budget = f"There is no ledger {ledger} yet: this job would make it, limited to what it needs."
        return {
            "private": is_private(self.guarantees, simulated=self.simulated),
            "protocol": terms.protocol,
            "size": terms.size,
            "target": {"name": target.name, "rows": len(target.rows)},
            "owners": list(terms.owners),
            "guarantees": guarantee_documents(self.guarantees, unit=terms.unit),
            "rows_per_owner": terms.rows_per_owner,
            "rows_seen_at_most": self.rows_seen,
            "rows_seen_expected": self.expected_rows_seen,
            "messages_at_most": self.messages,
            "offers": terms.offers,
            "released_coordinates": terms.kernel.dimension if terms.offers == "tilted" else 0,
            "width_failure_at_most": self.width_failure,
            "noise": advice.noise,
            "signal": advice.signal,
            "advice": advice.text,
            "curator": "trusted" if terms.split is None else "split",
            "notes": notice_documents(self.notes),
            "warnings": notice_documents(self.warnings),
            "budget": {
                "shared": ledger is not None,
                "in_words": budget,
                "accounts": self.accounts,
            },
        }

    def check_enough_rows(self, owners_rows: Iterable[int]) -> None:
        if self.settings.allow_fewer:
            return
        each, size = self.terms.rows_per_owner, self.terms.size
        held = list(owners_rows)
        offered = sum(min(count, each) for count in held)
        if size > offered:
            reason = f"is more than the {offered:,} rows that all owners can offer, each {each:,} at most"
            remedy = "raise offer_factor, ask for fewer" if offered < sum(held) else "ask for fewer"
            raise InvalidArgument("size", size, f"{reason}; {remedy}, or {_ALLOW_FEWER}")

    @property
    def _target_limit(self) -> Limit:
        """What a ledger that knows nothing of the target allows owners to learn about it."""
        return limit_of(self.settings.epsilon, self.settings.delta, self.terms.relation, simulated=self.simulated)

    def check_affordable(self, ledger: Ledger) -> None:
        """Accounts that the ledger has must allow what will be charged to them; new ones get limits that suffice.

        All releases must fit together: nothing is spent on the first if the last cannot be paid.
        """
        terms, about_target = self.terms, self.guarantees[0]  # the terms are checked with their prices
        if ledger.messages(run=terms.run):
            return  # a run that is resumed has paid for some of its releases
        check_rows_left(ledger, terms)
        events: list[Event] = [] if terms.auction == "everyone" else [auction_plan(terms).event]
        events += [] if terms.summary_release == "none" else [summary_event(terms)]
        heard = Composition(tuple(Simulated(event) if self.simulated else event for event in events))
        costs = [(about_target.view, about_target.event)]
        costs += [(View.owners(owner), heard) for owner in terms.owners if events]
        known = {account.view for account in ledger.accounts()}
        if charged := tuple((view, event) for view, event in costs if view in known):
            ledger.check(Charge(charged))

    def settle(
        self, ledger: Ledger, draws: RunDraws, *, content: bytes | None, **between: Any
    ) -> tuple[Terms, RunDraws]:
        """Make the terms, of what was planned and drawn; a private choice of the release's width is charged here.

        If the ledger outlives this call, ``content`` is a digest of the run's data and settings: the ledger stores the
        run's secrets with it, and a repeated call makes the same terms. ``between`` is what terms of organisations have
        beyond that: ``expires``, ``run_id`` and ``cards``.
        """
        self.check_affordable(ledger)
        about_target = View.owners(self.inputs.consumer)
        open_accounts(ledger, {about_target: self._target_limit})
        kept = draws.secrets
        if content is not None:
            event = size_event(self.terms.relation)
            kept = kept.load_or_store(ledger, about_target, run=self.terms.run, content=content, event=event)
        gamma = self._release_gamma(ledger, draws.noises[0])
        if self.terms.split is not None:
            between["split_gamma"] = split_width(self.settings, self.inputs, gamma)
            if "cards" not in between:
                between |= kept.named_parties(self.terms)
        terms = Terms.settled(
            self.terms,
            gamma=gamma,
            seed=kept.feature_seed if draws.public_seed is None else draws.public_seed,
            largest=_largest_entry(self.inputs),
            **between,
        )
        return terms, replace(draws, secrets=kept)

    def _release_gamma(self, ledger: Ledger, noise: Noise) -> float:
        """The width of the release's kernel: public, or by a private choice charged to the target's budget."""
        plan = self.width_plan
        if plan is None:
            return self.public_width or NO_WIDTH
        event: Event = plan.event if noise.private else Simulated(plan.event)

        def run() -> tuple[bytes, Release[float]]:
            chosen = width_choice.run(plan, self.inputs.target.rows, noise)
            return np.float64(chosen.value).tobytes(), chosen

        charge = Charge(((View.owners(self.inputs.consumer), event),))
        data = ledger.draw(charge, run, request=Request(self.terms.run, 0, f"{self.terms.consumer}/width"))
        return 1.0 / float(np.frombuffer(data, dtype=np.float64)[0])


def make_plan(settings: RunSettings, inputs: Inputs) -> Plan:
    """Plan a run; settings that do not fit together show here, or when the plan is asked for its guarantees."""
    if settings.schedule == "experiment" and inputs.seed_rows is None:
        raise InvalidArgument(
            "seed_rows", None, "must be given: the paper's experiments start from about 150 public rows"
        )
    selection = _selection(settings, inputs)
    draft = Draft(settings, inputs)
    width = public_width(settings, inputs, released=draft.releases_target)
    width_plan, budget = (None, draft.budget) if width is not None else draft.split_for_width()
    # What ``auto`` means between organisations is settled before; in one process it is a trusted curator.
    split = SplitShape(program_digest(), settings.size) if settings.curator == "split" else None
    terms = draft.planned(target_budget=budget, split=split)
    _check_enough_asked(settings, terms)
    if width is None or not draft.releases_target:
        check_scale(inputs, released=width is None)
    # A kernel under which no row has features is refused here, and not after something was spent.
    terms.kernel.drawn(gamma=width or NO_WIDTH, seed=0, largest=_largest_entry(inputs))
    if split is not None and (width is not None or settings.gamma != "median"):
        check_split_width(settings, inputs, split, width or NO_WIDTH)
    notes = (*draft.notes, *split_notes(settings, split), *_width_notes(width_plan, settings))
    return Plan(settings, inputs, terms, selection, draft.seed_rows, width, width_plan, notes)


def _width_notes(width_plan: width_choice.WidthPlan | None, settings: RunSettings) -> tuple[Notice, ...]:
    if width_plan is None or width_plan.failure_bound <= width_choice.LARGEST_FAILURE:
        return ()
    return (notices.uncertain_width(width_plan.failure_bound, width_plan.size, settings.epsilon),)


def _check_enough_asked(settings: RunSettings, terms: PlannedTerms) -> None:
    asked = terms.rows_per_owner * terms.asked_owners
    if asked < terms.size and not settings.allow_fewer:
        rows = "1 row" if asked == 1 else f"{asked:,} rows"
        reason = f"asks owners for {rows} where {terms.size:,} are wanted; raise it to 1 or more"
        raise InvalidArgument("offer_factor", terms.offer_factor, f"{reason}, or {_ALLOW_FEWER}")


def _largest_entry(inputs: Inputs) -> float:
    return 0.0 if inputs.declared is None else inputs.declared.largest_entry


def _selection(settings: RunSettings, inputs: Inputs) -> Selection:
    """How the curator selects; raises all errors of this choice before anything is spent."""
    if settings.curator == "split":
        return Selection()  # its kernel stands in the terms
    given = PAPER_GAMMA if settings.gamma == "median" and settings.schedule == "experiment" else settings.gamma
    if given == "median":
        gamma = gamma_by_median("target", inputs.target.rows, scale=settings.gamma_scale)
        check_width("gamma_scale", gamma, inputs)
    else:
        gamma = given
        check_width("gamma", gamma, inputs)
    return Selection(gamma=gamma, folds=settings.folds)


def open_plan(job: Job, *, secrets: RunSecrets) -> Plan:
    """Open the schema, the target and public rows, and plan the job; prices are not looked at yet.

    Where the schema keeps a few rows of each id, the secrets decide which rows the target has.
    """
    return make_plan(job, open_inputs(job, keep_key=secrets.target_keep_key))


def plan_job(job: Job) -> Plan:
    """Plan a job for people to look at: nothing is read of any owner, and what is wrong shows now.

    Raises ``BudgetExceeded`` where the job's ledger does not allow it. A run that the ledger has, and that cannot be
    resumed, is planned as a new one.
    """
    check_owners_files(job)
    again = job.model_copy(update={"run": None}) if "run" in options_to_change(job) else job
    plan = open_plan(named_job(again), secrets=new_draws(job).secrets)  # nothing is released of these rows
    _ = plan.guarantees, plan.accounts
    return plan


def check_owners_files(job: Job) -> None:
    for name, source in job.owners.items():
        if is_path(source) and not os.access(source, os.F_OK):
            raise InvalidArgument(f"owner {name}", source, "there is no such file")


# Guarantees and budgets


def open_accounts(ledger: Ledger, limits: Mapping[View, Limit]) -> None:
    known = {account.view for account in ledger.accounts()}
    ledger.set_limits({view: limit for view, limit in limits.items() if view not in known})


def check_rows_left(ledger: Ledger, terms: PlannedTerms) -> None:
    """Raise if too few owners may still disclose rows; an owner whose limit is reached abstains."""
    views = {View.curator(owner) for owner in terms.owners}
    mine = [account for account in ledger.accounts() if account.view in views]
    spent = [account for account in mine if account.rows + terms.rows_per_owner > account.limit.rows]
    if len(views) - len(spent) < terms.quorum:
        raise BudgetExceeded(
            str(spent[0].view),
            spent=spent[0].rows,
            requested=terms.rows_per_owner,
            limit=spent[0].limit.rows,
            unit="rows",
        )


def is_private(guarantees: Iterable[PlannedView], *, simulated: bool) -> bool:
    """Whether all that owners receive is bounded: with simulated noise, or a part without a proof, it is not."""
    about_owners = (planned for planned in guarantees if planned.view.observer == "owners")
    return not simulated and all(math.isfinite(planned.guarantee.epsilon) for planned in about_owners)


def guarantee_documents(guarantees: Iterable[PlannedView], *, unit: PrivacyUnit) -> list[dict[str, Any]]:
    return [
        {
            "observer": planned.view.observer,
            "protects": planned.view.protected,
            "protected_unit": "one row" if unit == ROW else f"one id (at most {unit.rows} of its rows take part)",
            "epsilon": float(planned.guarantee.epsilon) if math.isfinite(planned.guarantee.epsilon) else None,
            "delta": planned.guarantee.delta,
            "guess": planned.guess,
            "parts": _parts(planned),
            "relation": str(planned.guarantee.relation),
            "basis": str(planned.guarantee.basis),
            "note": planned.guarantee.note,
            "rows": planned.rows,
            "readable": planned.readable,
            "shared": planned.shared,
            "owns_curator": planned.owns_curator,
        }
        for planned in guarantees
    ]


def _parts(planned: PlannedView) -> list[dict[str, Any]]:
    """What a price consists of, where the release's width was chosen privately: each part priced alone."""
    about, event = planned.guarantee, planned.event
    if planned.width_choice is None or not isinstance(event, Composition) or math.isinf(about.epsilon):
        return []
    named = zip(("width choice", "release"), event.events, strict=True)
    priced = {what: accounting.guarantee(part, relation=about.relation, delta=about.delta) for what, part in named}
    return [{"what": what, "epsilon": priced[what].epsilon} for what in ("release", "width choice")]


def counted_budget(job: Job, ledger: Ledger) -> dict[str, Any]:
    """What a run left, as far as this ledger knows.

    A ledger of one run knows no other run, so the sum over several runs is not counted.
    """
    accounts = [account for account in ledger.accounts() if account.view.observer == "owners"]
    about_target = next(account for account in accounts if account.view == View.owners(job.consumer))
    unbounded = [account for account in accounts if account.basis is not Basis.PROVEN]
    return {
        "shared": job.ledger is not None,
        "epsilon_spent": about_target.epsilon if about_target.basis is Basis.PROVEN else None,
        "epsilon_limit": about_target.limit.epsilon,
        "delta": about_target.delta,
        "in_words": ONE_RUN if job.ledger is None else _over_all_runs(about_target, unbounded),
    }


def _over_all_runs(account: Account, unbounded: list[Account]) -> str:
    if unbounded:
        whose = ", ".join(other.view.protected for other in unbounded)
        parts = ", ".join(sorted({part for other in unbounded for part in other.unproven}))
        return f"There is no bound over all runs in this ledger for the rows of {whose}: it was charged for {parts}."
    return (
        f"All runs in this ledger together spent epsilon = {account.epsilon:.3g} of {account.limit.epsilon:.3g} about "
        f"the rows of {account.view.protected}. The sum holds if no terms were chosen because of rows. Runs in other "
        "ledgers, or under another name, are not counted."
        + (f" The limit was raised: delta = {account.delta:g} in all." if len(account.deltas) > 1 else "")
    )


def _outlook(
    account: Account, unit: str, spent: float | None, after: float | None, limit: float | None
) -> dict[str, Any]:
    left = None if after is None or limit is None else max(0.0, limit - after)
    about = account.view.protected
    return {"about": about, "unit": unit, "spent": spent, "after": after, "limit": limit, "left": left}


# Advice


@dataclass(frozen=True, slots=True)
class Advice:
    noise: float | None
    signal: float | None
    text: str
    pays: bool


def _advice(plan: Plan) -> Advice:
    terms = plan.terms
    if terms.offers == "uniform":
        reason = (
            " ".join(note.text for note in plan.notes if note.kind == "uniform-offers")
            or "offers are uniform, as asked: nothing about the target is released"
        )
        return Advice(None, None, f"{reason}.{_on_size(terms)}", pays=True)
    if terms.kernel.kind != "paired":
        return Advice(None, None, "The paper's release: no rule of thumb is known for it.", pays=True)

    def outlook(epsilon: float, rows: int) -> ReleaseOutlook:
        return release_outlook(
            Budget(epsilon, terms.target_budget.delta),
            target_size=rows,
            dimension=terms.kernel.dimension,
            relation=terms.relation,
            unit=terms.unit,
            offer_factor=terms.offer_factor,
        )

    asked, epsilon, rows = plan.settings.epsilon, terms.target_budget.epsilon, terms.target_size
    now = outlook(epsilon, rows)
    have = f"Your target has {rows:,} rows: epsilon = {asked:g} keeps {now.gain:.0%} of the gain over uniform offers"
    if now.gain >= _GOOD:
        return Advice(now.noise, now.signal, f"{have}: good. {_WHEN}{_on_size(terms)}", pays=True)
    share = epsilon / asked  # of the budget that goes into the release
    better_epsilon = _least(lambda value: outlook(share * value, rows).gain >= _GOOD, asked, _LARGEST_SUGGESTED)
    better_rows = _least(lambda value: outlook(epsilon, round(value)).gain >= _GOOD, rows, _MOST_SUGGESTED_ROWS)
    ways = [f"epsilon >= {math.ceil(better_epsilon * 10.0 - 1e-9) / 10.0:g}"] if better_epsilon else []
    ways += [f">= {math.ceil(better_rows / 10) * 10:,} rows"] if better_rows else []
    otherwise = "offers: uniform" if terms.protocol == "sealed" else "protocol: sealed"
    text = f"{have}; for {_GOOD:.0%} use {' or '.join(ways) or otherwise}."
    return Advice(now.noise, now.signal, f"{text} {_WHEN}{_on_size(terms)}", pays=now.pays)


def _on_size(terms: PlannedTerms) -> str:
    offers = terms.rows_per_owner * terms.asked_owners
    if offers >= _FEWEST_OFFERS * terms.size:
        return ""
    return (
        f" {terms.size:,} rows of at most {offers:,} offers are a large part: rows beyond the right ones can make a "
        "model worse. likeset evaluate compares the first rows with all."
    )


def _least(good_enough: Callable[[float], bool], low: float, high: float) -> float | None:
    if not good_enough(high):
        return None
    while high / low > 1.05:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if good_enough(middle) else (middle, high)
    return high
