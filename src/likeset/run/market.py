"""A run among a consumer, its curator and owners, all in this process: planned, then held."""

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Self

import numpy as np

from likeset.arguments import Rows
from likeset.errors import BudgetExceeded
from likeset.geometry.discrepancy import squared_mmd
from likeset.geometry.features import FourierFeatures
from likeset.geometry.shapley import selection_game
from likeset.ledger import Ledger, Request
from likeset.mechanisms import width_choice
from likeset.privacy.events import Event, Release, Simulated
from likeset.privacy.noise import Noise, SecretNoise, SimulatedNoise
from likeset.privacy.view import View
from likeset.protocol.attribution import Attribution, attribute
from likeset.protocol.budgets import check_relations, check_rows_left, limit_of, open_accounts, owner_limits
from likeset.protocol.consumer import Consumer
from likeset.protocol.curator import Curator
from likeset.protocol.hashing import hash_map
from likeset.protocol.interactive import InteractiveCurator, InteractiveOwner
from likeset.protocol.messages import Summary
from likeset.protocol.notices import CouldNotAnswer, FewRows, Notice, notices_on_owners
from likeset.protocol.owner import Owner
from likeset.protocol.party import Traffic
from likeset.protocol.plans import PlannedView, planned_views, size_event
from likeset.protocol.run_secrets import RunSecrets
from likeset.protocol.sealed import SealedCurator, SealedOwner
from likeset.protocol.selection import Selection
from likeset.protocol.terms import RELEASE_SCALE, Budget, Terms
from likeset.protocol.wishes import Draft, Facts
from likeset.run.order import Order, Stalls
from likeset.transports.local import LocalEngine, Progress, RunResult

__all__ = ["Deal", "Draws", "Market", "Outcome", "Outline"]

_ROUNDING = 1e-6  # of a budget that is spent in parts


@dataclass(frozen=True, eq=False)
class Outline:
    """What a run will do and cost, before any owner's row is read or anything is spent.

    Attributes:
        terms: as they will be, but for seeds and, where it is chosen privately, the width of the release's kernel.
        guarantees: for each view what it will cost.
        width_is_chosen: whether the width of the release's kernel is chosen privately.
        notes: what was chosen otherwise than asked.
    """

    terms: Terms
    guarantees: tuple[PlannedView, ...]
    width_is_chosen: bool
    notes: tuple[Notice, ...]


@dataclass(frozen=True, eq=False)
class Outcome:
    """How a run ended.

    Attributes:
        terms: of the run.
        guarantees: for each view what it cost.
        gamma: width of the selection's kernel.
        summary: what the consumer received.
        picks: for each selected row its owner and its number there.
        rows_disclosed: by owner.
        traffic: by owner: what it heard and said.
        offered: the rows that the curator could choose from; None where it saw hashes, or chose as it went.
        warnings: what the user should know.
        seconds: how long it took.
    """

    terms: Terms
    guarantees: tuple[PlannedView, ...]
    gamma: float
    summary: Summary
    picks: tuple[tuple[str, int], ...]
    rows_disclosed: Mapping[str, int]
    traffic: Mapping[str, Traffic]
    offered: Rows | None
    warnings: tuple[Notice, ...]
    seconds: float

    def squared_mmd(self, rows: Rows, target: Rows) -> float:
        """Of the (weighted) selected rows to the target."""
        return squared_mmd(rows, target, gamma=self.gamma, weights=self.summary.weights)

    def attribution(self, rows: Rows, target: Rows) -> Attribution:
        """Who contributed what, judged on the selected rows; telling it to an owner would be a release of its own."""
        owners = self.terms.owners
        return attribute(
            owners,
            gains=self.summary.gains,
            owners=self.summary.owners,
            rows_disclosed=[self.rows_disclosed[name] for name in owners],
            price_per_row=self.terms.price_per_row,
            game=selection_game(rows, self.summary.owners, len(owners), target, gamma=self.gamma),
            coins=np.random.default_rng(0),
        )


@dataclass(frozen=True, slots=True)
class _Width:
    """The width of the release's kernel, what its choice left of the budget, and what that choice was."""

    gamma: float
    budget_left: Budget
    event: Event | None


@dataclass(frozen=True, eq=False, repr=False)
class Draws:
    """What a run draws by itself, before it hears anything.

    Attributes:
        noises: of the width's choice, the curator and the consumer.
        public_seed: of the release's features, where the user wants a particular one.
        secrets: keys and seeds, unless the run began earlier with others.
    """

    noises: tuple[Noise, Noise, Noise]
    public_seed: int | None
    secrets: RunSecrets

    @classmethod
    def of(cls, order: Order) -> Self:
        """New ones; the same for the same seed where noise is simulated."""
        coins = order.coins()
        draw = _drawn_from(coins) if order.simulated else secrets.randbits
        # Each release has a noise of its own: a run that is resumed draws what it would have drawn.
        first, second, third = (SimulatedNoise(draw(63)) if order.simulated else SecretNoise() for _ in range(3))
        public_seed = None if order.random_state is None else int(coins.integers(2**63))
        return cls((first, second, third), public_seed, RunSecrets(draw(256)))


@dataclass(frozen=True, eq=False, repr=False)
class Deal:
    """What is settled before any owner hears anything.

    Attributes:
        terms: final.
        drawn: the run's secrets.
        noises: of the width's choice, the curator and the consumer.
        width_event: what the choice of the width of the release's kernel was; None if it is public.
    """

    terms: Terms
    drawn: RunSecrets
    noises: tuple[Noise, Noise, Noise]
    width_event: Event | None


@dataclass(eq=False)
class Market:
    """A run in the making.

    Args:
        order: what the user asks for.
        stalls: what the parties bring.
        shown_names: how owners are called toward the user, by their name in the terms; as there if not given.
        progress: called as answers come in.
        cancelled: asked between messages.
        draws: what the run draws by itself, if that was done already.
    """

    order: Order
    stalls: Stalls
    shown_names: Mapping[str, str] = field(default_factory=dict)
    progress: Progress | None = None
    cancelled: Callable[[], bool] | None = None
    draws: Draws | None = None

    def __post_init__(self) -> None:
        _ = self.order.simulated, self.order.coins()  # wrong words and numbers show before anything else is done
        self._seed_rows = self.order.seeds(self.stalls)
        self._selection = self.order.selection(self.stalls)
        self._draft = Draft(self.order.wishes, self._facts())
        self._public_width = self.order.public_width(self.stalls, released=self._draft.releases_target)
        self._split = None if self._public_width is not None else self._draft.split_for_width()

    def outline(self) -> Outline:
        """What will happen; wrong wishes show here."""
        choice, terms = self._choice, self.outlined_terms()
        return Outline(
            terms=terms,
            guarantees=planned_views(terms, simulated=self.order.simulated, width_choice=choice),
            width_is_chosen=self._split is not None,
            notes=tuple(self._draft.notes),
        )

    def outlined_terms(self) -> Terms:
        """The terms but for numbers that are drawn or chosen later; prices are not looked at."""
        budget = self._draft.budget if self._split is None else self._split[1]
        return self._terms(_Width(self._public_width or 1.0, budget, self._choice), RunSecrets(0), 0)

    @property
    def _choice(self) -> Event | None:
        return None if self._split is None else self._split[0].event

    @property
    def selection(self) -> Selection:
        """How the curator is to select."""
        return self._selection

    def agree(self, ledger: Ledger, *, resumable: bool) -> Deal:
        """Settle the terms; the choice of the release's width, if there is one, is charged here.

        Args:
            ledger: the consumer's.
            resumable: whether the ledger outlives this call, so that the run's secrets are kept in it: asked again, the
                same terms come out.
        """
        order, run = self.order, self.order.wishes.run
        outline = self.outline()  # what is wrong with the terms shows before anything is spent
        draws = self.draws or Draws.of(order)
        check_relations(ledger, outline.guarantees)
        check_rows_left(ledger, outline.terms)
        wishes = order.wishes
        limit = limit_of(wishes.epsilon, wishes.delta, self._draft.relation, simulated=order.simulated)
        about_target = View.owners(self.stalls.consumer)
        open_accounts(ledger, {about_target: limit})
        _check_affordable(ledger, outline.guarantees[0], run=run)
        drawn = draws.secrets
        if resumable:
            told = size_event(self._draft.relation)
            drawn = drawn.kept(ledger, about_target, run=run, content=self.stalls.content, told=told)
        width = self._width(ledger, draws.noises[0])
        return Deal(self._terms(width, drawn, draws.public_seed), drawn, draws.noises, width.event)

    def hold(self, ledger: Ledger, *, resumable: bool, agreed: Callable[[Terms], None] | None = None) -> Outcome:
        """Run it.

        Args:
            ledger: where everything is charged.
            resumable: whether the ledger outlives this call, so that the run's secrets are kept in it.
            agreed: called with the final terms, before any owner hears anything; raising here ends the run.
        """
        start = time.perf_counter()
        deal = self.agree(ledger, resumable=resumable)
        terms, drawn, simulated = deal.terms, deal.drawn, self.order.simulated
        if agreed is not None:
            agreed(terms)
        open_accounts(ledger, owner_limits(terms, simulated=simulated))
        hashes = None if terms.hashing is None else hash_map(terms, drawn.hash_seed)
        parties = self._owners(terms, ledger=ledger, drawn=drawn, hashes=hashes)
        curator = self._curator(terms, ledger, deal.noises[1])
        result = LocalEngine(progress=self.progress, cancelled=self.cancelled).run(
            curator,
            parties,
            Consumer(
                terms,
                target=self.stalls.target,
                ledger=ledger,
                noise=deal.noises[2],
                hashes=hashes,
                selection=self._selection,
                declared=self.stalls.declared,
            ),
        )
        found = result.summary
        return Outcome(
            terms=terms,
            guarantees=planned_views(terms, simulated=simulated, width_choice=deal.width_event),
            gamma=terms.hashing.gamma if terms.hashing else self._selection.kernel_width(self.stalls.target),
            summary=found,
            picks=tuple(
                (terms.owners[owner], parties[terms.owners[owner]].row_of(int(handle)))
                for owner, handle in zip(found.owners, found.handles, strict=True)
            ),
            rows_disclosed={name: party.rows_disclosed for name, party in parties.items()},
            traffic={name: party.traffic for name, party in parties.items()},
            offered=curator.offered_rows,
            warnings=self._warnings(terms, result),
            seconds=time.perf_counter() - start,
        )

    def _facts(self) -> Facts:
        stalls = self.stalls
        return Facts(
            consumer=stalls.consumer,
            purpose=stalls.purpose,
            expires="",
            target_size=self.order.public_size(stalls),
            columns=stalls.target.shape[1],
            column_names=stalls.column_names,
            schema_digest=stalls.schema_digest,
            record_bytes=0 if stalls.declared is None else stalls.declared.record_bytes,
            largest_entry=0.0 if stalls.declared is None else stalls.declared.largest_entry,
            owners=tuple(stalls.owners),
            seed_rows=self._seed_rows,
            version=version("likeset"),
        )

    def _terms(self, width: _Width, drawn: RunSecrets, public_seed: int | None) -> Terms:
        return self._draft.terms(
            release_gamma=width.gamma,
            feature_seed=drawn.feature_seed if public_seed is None else public_seed,
            target_budget=width.budget_left,
            hashing=self.order.hashing(width.gamma, drawn.hash_seed),
        )

    def _width(self, ledger: Ledger, noise: Noise) -> _Width:
        """The width of the release's kernel: public, or by a private choice charged to the target's budget."""
        if self._split is None:
            return _Width(self._public_width or 1.0, self._draft.budget, None)
        plan, budget_left = self._split
        event: Event = plan.event if noise.private else Simulated(plan.event)

        def run() -> tuple[bytes, Release[float]]:
            chosen = width_choice.run(plan, self.stalls.target, noise)
            return np.float64(chosen.value).tobytes(), chosen

        consumer = self.stalls.consumer
        request = Request(self.order.wishes.run, 0, f"{consumer}/width")
        data = ledger.answer(View.owners(consumer), event, run, request=request)
        return _Width(RELEASE_SCALE / float(np.frombuffer(data, dtype=np.float64)[0]), budget_left, plan.event)

    def _owners(
        self, terms: Terms, *, ledger: Ledger, drawn: RunSecrets, hashes: FourierFeatures | None
    ) -> dict[str, Owner]:
        kind = SealedOwner if terms.protocol == "sealed" else InteractiveOwner
        return {
            name: kind(
                terms,
                name,
                scan=scan,
                key=drawn.owner_key(name),
                ledger=ledger,
                declared=self.stalls.declared,
                hashes=hashes,
            )
            for name, scan in self.stalls.owners.items()
        }

    def _curator(self, terms: Terms, ledger: Ledger, noise: Noise) -> Curator:
        common: dict[str, Any] = {
            "ledger": ledger,
            "noise": noise,
            "declared": self.stalls.declared,
        }
        if terms.protocol == "sealed":
            return SealedCurator(terms, **common)
        return InteractiveCurator(terms, seed_rows=self._seed_rows, **common)

    def _warnings(self, terms: Terms, result: RunResult) -> tuple[Notice, ...]:
        found = result.summary
        shown = {name: self.shown_names.get(name, name) for name in terms.owners}
        warnings = [*self._draft.notes, *notices_on_owners(list(shown.values()), found, answers={})]
        warnings += [CouldNotAnswer(shown[name], why) for name, why in result.failures.items()]
        if len(found.rows) < terms.size:
            warnings.append(FewRows(len(found.rows), terms.size))
        return tuple(warnings)


def _check_affordable(ledger: Ledger, about_target: PlannedView, *, run: str) -> None:
    """All releases of the target together must fit: nothing is spent on the first if the last cannot be paid."""
    if ledger.messages(run=run):
        return  # a run that is resumed has paid for some of them
    view = about_target.view
    for before, after in ledger.quote(view, about_target.event):
        most, epsilon = after.limit.epsilon, after.epsilon
        if most is not None and epsilon is not None and epsilon > most * (1.0 + _ROUNDING):
            raise BudgetExceeded(
                str(view),
                spent=before.epsilon or 0.0,
                requested=about_target.guarantee.epsilon,
                limit=most,
                unit=f"epsilon at delta = {after.limit.delta:g}, {after.limit.relation}",
            )


def _drawn_from(coins: np.random.Generator) -> Callable[[int], int]:
    """A stand-in for ``secrets.randbits`` that repeats itself with the seed."""
    return lambda bits: int.from_bytes(coins.bytes((bits + 7) // 8), "big") >> (-bits % 8)
