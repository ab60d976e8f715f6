"""The front door: everything in one process, in the style of scikit-learn."""

import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from likeset import arguments
from likeset.arguments import Rows
from likeset.engines.local import LocalEngine, Progress, RunResult
from likeset.errors import InvalidArgument
from likeset.geometry.discrepancy import squared_mmd
from likeset.geometry.features import FourierFeatures
from likeset.geometry.kernels import median_gamma
from likeset.geometry.shapley import selection_game
from likeset.ledger import Ledger, Request
from likeset.mechanisms import width_choice
from likeset.privacy.events import Event, Release, Simulated
from likeset.privacy.noise import Noise, SecretNoise, SimulatedNoise
from likeset.privacy.relation import Relation
from likeset.privacy.view import View
from likeset.protocol.attribution import attribute
from likeset.protocol.budgets import check_rows_left, limit_of, open_accounts, owner_limits
from likeset.protocol.consumer import Consumer
from likeset.protocol.curator import Curator
from likeset.protocol.drafting import Draft, Facts, Wishes
from likeset.protocol.hashing import commitment, hash_map
from likeset.protocol.interactive import InteractiveCurator, InteractiveOwner
from likeset.protocol.owner import Owner
from likeset.protocol.plans import planned_views
from likeset.protocol.run_secrets import RunSecrets
from likeset.protocol.sealed import SealedCurator, SealedOwner
from likeset.protocol.selection import Selection
from likeset.protocol.terms import RELEASE_SCALE, Budget, Hashing, Terms
from likeset.tables.frames import MarketTables, column_names, gather
from likeset.tables.scan import MemoryScan

__all__ = ["Pick", "Summarizer"]

_CONSUMER = "consumer"
_LONGEST_HASH = 1 << 16
_LARGEST_EXPONENT = 1e37


@dataclass(frozen=True, slots=True)
class Pick:
    """One selected row: whose, which, its marginal gain, and the squared MMD once it was in."""

    owner: str
    row: int
    gain: float
    squared_mmd: float


@dataclass(frozen=True, slots=True)
class _Width:
    """The width of the release's kernel, what its choice left of the budget, and what that choice was."""

    gamma: float
    budget_left: Budget
    event: Event | None


class Summarizer(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Collect rows from owners that together look like a target, with all parties in this process.

    Columns should be on one scale: a unit of distance means the same in each. Bring scales from public knowledge; a
    scaler fitted on the data would leak.

    Args:
        size: how many rows to collect.
        epsilon: what owners may learn about the target's rows; 0 tells them nothing (``offers="uniform"``).
        delta: the probability that this leaves out.
        protocol: ``sealed`` (the default) or ``interactive`` (the paper's Algorithm 3).
        gamma: width of the selection's kernel, or ``median``: by the target's own distances, which no owner hears.
        gamma_scale: gamma times the median squared distance, for ``median``.
        release_gamma: width of the release's kernel, which owners see. If not given: from ``public_rows``, or chosen
            privately within the budget.
        dimension: length of the released vector, or ``auto``.
        offer_factor: about how many rows the curator sees for each row of the summary.
        offers: ``tilted`` toward the release, ``uniform`` (no release at all), or ``auto``: tilted where the release
            can be expected to pay, by the target's size and the budget alone.
        label_strata: whether owners may use their own labels to find the classes that the target consists of.
        thinning: whether owners thin more candidates than they offer to an offer that represents them.
        auction: ``everyone``, ``threshold``, ``paper`` (interactive only), or ``auto``.
        auction_epsilon: of one use of an auction other than ``everyone``.
        summary_release: what ``interactive`` releases about the summary each round: ``none``, ``gaussian``, ``mwem``.
        schedule: the paper's schedule for ``mwem``: ``theorem``, ``proof``, ``experiment``; empty splits the budget.
        owner_epsilon: what owners may learn about one another's rows; 0 unless an auction or summary release needs it.
        seed_rows: public rows that start the summary of ``interactive``.
        hash_dimension: if given, the curator sees hashes of this length instead of rows.
        weights: whether to weigh the selected rows so that they match better still.
        relation: ``replace-one`` or ``add-or-remove``: what neighbouring data are.
        declared_size: under add-or-remove, where the number of the target's rows is itself protected, the public number
            that stands for it.
        rows_per_unit: the unit of privacy: at most so many rows belong to one person.
        accept_unproven: names of parts without a proof that are accepted.
        price_per_row: what an owner is paid for each row disclosed.
        quorum: how many owners must take part.
        noise: ``secret``, or ``simulated``: reproducible with ``random_state``, and not private.
        random_state: seed of the public coins and, with simulated noise, of everything.
        ledger: file of the budgets, kept across runs; a temporary one if not given.
        run: name of the run in that ledger.
        progress: called as answers come in.

    Attributes:
        summary_: the selected rows, as the kind of table that the owners gave.
        indices_: for each of them (owner, row number).
        labels_: their labels, or None.
        weights_: their weights, summing to 1.
        squared_mmd_: squared MMD of the (weighted) summary to the target.
        guarantees_: for each view what it costs, with its basis.
        shares_: each owner's share of the value; telling it to an owner would be a release of its own.
        attribution_: the same in full: rows, value, Shapley value, payment.
        rows_seen_: how many rows the curator saw.
        access_ratio_: (rows seen + m) / (size + m).
        history_: one ``Pick`` per selected row, in order.
        terms_: the terms of the run.
        warnings_: what the user should know: a fallback, owners who were absent or not believed, rows that ran short.
        gamma_: width of the selection's kernel.
    """

    def __init__(
        self,
        size: int,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        protocol: Literal["sealed", "interactive"] = "sealed",
        gamma: float | Literal["median"] = "median",
        gamma_scale: float = 1.0,
        release_gamma: float | None = None,
        dimension: int | Literal["auto"] = "auto",
        offer_factor: float = 10.0,
        offers: Literal["auto", "tilted", "uniform"] = "tilted",
        label_strata: bool = True,
        thinning: bool = True,
        auction: Literal["auto", "everyone", "threshold", "paper"] = "auto",
        auction_epsilon: float = 1.0,
        summary_release: Literal["none", "gaussian", "mwem"] = "none",
        schedule: str = "",
        owner_epsilon: float = 0.0,
        seed_rows: ArrayLike | None = None,
        hash_dimension: int | None = None,
        weights: bool = False,
        relation: str = "replace-one",
        declared_size: int | None = None,
        rows_per_unit: int = 1,
        accept_unproven: tuple[str, ...] = (),
        price_per_row: float = 0.0,
        quorum: int = 1,
        noise: Literal["secret", "simulated"] = "secret",
        random_state: int | None = None,
        ledger: str | Path | None = None,
        run: str = "run",
        progress: Progress | None = None,
    ) -> None:
        self.size = size
        self.epsilon = epsilon
        self.delta = delta
        self.protocol = protocol
        self.gamma = gamma
        self.gamma_scale = gamma_scale
        self.release_gamma = release_gamma
        self.dimension = dimension
        self.offer_factor = offer_factor
        self.offers = offers
        self.label_strata = label_strata
        self.thinning = thinning
        self.auction = auction
        self.auction_epsilon = auction_epsilon
        self.summary_release = summary_release
        self.schedule = schedule
        self.owner_epsilon = owner_epsilon
        self.seed_rows = seed_rows
        self.hash_dimension = hash_dimension
        self.weights = weights
        self.relation = relation
        self.declared_size = declared_size
        self.rows_per_unit = rows_per_unit
        self.accept_unproven = accept_unproven
        self.price_per_row = price_per_row
        self.quorum = quorum
        self.noise = noise
        self.random_state = random_state
        self.ledger = ledger
        self.run = run
        self.progress = progress

    def fit(
        self,
        target: Any,
        owners: Mapping[str, Any],
        labels: Mapping[str, ArrayLike] | None = None,
        *,
        public_rows: ArrayLike | None = None,
    ) -> Self:
        """Run the protocol among a consumer, its curator and the owners.

        Args:
            target: rows to match; an array or a data frame of numbers.
            owners: rows of each owner, of the same kind and with the same columns.
            labels: labels of each owner's rows; they are handed on and, unless ``label_strata`` is off, help their
                owner to find the classes that matter.
            public_rows: rows that anybody may see, on the same scale: they give the width of the release's kernel.
        """
        inputs = MarketTables.checked(target, owners, labels, public_rows)
        if self.progress is not None and not callable(self.progress):
            raise InvalidArgument("progress", type(self.progress).__name__, "must be a function")
        simulated = arguments.one_of("noise", self.noise, ("secret", "simulated")) == "simulated"
        coins = self._coins()
        draw = _drawn_from(coins) if simulated else secrets.randbits
        noise: Noise = SimulatedNoise(draw(63)) if simulated else SecretNoise()
        public_seed = None if self.random_state is None else int(coins.integers(2**63))
        selection = self._selection(inputs)
        draft = Draft(self._wishes(), self._facts(inputs))
        planned = self._planned_width(draft, inputs)
        # What is wrong with the terms shows before anything is spent.
        public = planned if isinstance(planned, _Width) else _Width(1.0, draft.budget, None)
        trial = self._terms(draft, public, RunSecrets(0), None)
        with self._opened_ledger() as ledger:
            check_rows_left(ledger, trial)
            limit = limit_of(self.epsilon, self.delta, draft.relation, simulated=simulated)
            open_accounts(ledger, {View.owners(_CONSUMER): limit})
            drawn = RunSecrets(draw(256))
            if self.ledger is not None:
                drawn = drawn.kept(ledger, View.owners(_CONSUMER), run=self.run, content=inputs.digest())
            width = planned if isinstance(planned, _Width) else self._chosen_width(planned, inputs, ledger, noise)
            terms = self._terms(draft, width, drawn, public_seed)
            open_accounts(ledger, owner_limits(terms, simulated=simulated))
            hashes = None if terms.hashing is None else hash_map(terms, drawn.hash_seed)
            parties = self._owners(terms, inputs, ledger=ledger, drawn=drawn, hashes=hashes)
            result = LocalEngine(progress=self.progress).run(
                self._curator(terms, selection, ledger, noise),
                parties,
                Consumer(terms, target=inputs.target, ledger=ledger, noise=noise, hashes=hashes),
            )
        self.terms_ = terms
        self.gamma_ = terms.hashing.gamma if terms.hashing else selection.kernel_width(inputs.target)
        self.guarantees_ = planned_views(terms, simulated=simulated, width_choice=width.event)
        self._tell(result, inputs, parties, draft.notes)
        return self

    def _coins(self) -> np.random.Generator:
        seed = None if self.random_state is None else arguments.count("random_state", self.random_state, least=0)
        return np.random.default_rng(seed)

    def _selection(self, inputs: MarketTables) -> Selection:
        """How the curator selects; whatever could go wrong with it goes wrong here, before anything is spent."""
        scale = arguments.positive("gamma_scale", self.gamma_scale)
        if not isinstance(self.weights, bool):
            raise InvalidArgument("weights", type(self.weights).__name__, "must be True or False")
        if self.weights and (self.hash_dimension is not None or self.protocol == "interactive"):
            raise InvalidArgument("weights", True, "go with the sealed protocol and a curator who sees rows")
        if self.hash_dimension is not None:
            return Selection()
        if self.gamma == "median":
            gamma = _median_gamma("target", inputs.target, scale=scale)
        else:
            gamma = arguments.positive("gamma", self.gamma)
        _check_width("gamma_scale" if self.gamma == "median" else "gamma", gamma, inputs)
        return Selection(gamma=gamma, weighted=self.weights)

    def _terms(self, draft: Draft, width: "_Width", drawn: RunSecrets, public_seed: int | None) -> Terms:
        return draft.terms(
            release_gamma=width.gamma,
            feature_seed=drawn.feature_seed if public_seed is None else public_seed,
            target_budget=width.budget_left,
            hashing=self._hashing(width.gamma, drawn.hash_seed),
        )

    def _wishes(self) -> Wishes:
        return Wishes(**{field.name: getattr(self, field.name) for field in fields(Wishes)})

    def _public_size(self, inputs: MarketTables) -> int:
        """The number that everybody may know: of the target's rows, or the one declared in its place."""
        if self.relation == Relation.ADD_OR_REMOVE:
            if self.declared_size is None:
                raise InvalidArgument(
                    "declared_size",
                    None,
                    "must be given under add-or-remove: the number of the target's rows is protected",
                )
            return arguments.count("declared_size", self.declared_size)
        if self.declared_size is not None:
            raise InvalidArgument("declared_size", self.declared_size, "goes with add-or-remove only")
        return len(inputs.target)

    def _facts(self, inputs: MarketTables) -> Facts:
        return Facts(
            consumer=_CONSUMER,
            purpose="a matched training set",
            expires="",
            target_size=self._public_size(inputs),
            columns=inputs.target.shape[1],
            column_names=column_names(next(iter(inputs.tables.values()))) or (),
            schema_digest="",
            owners=tuple(inputs.safe_names.values()),
            seed_rows=self._count_seed_rows(inputs),
            version=version("likeset"),
        )

    def _planned_width(self, draft: Draft, inputs: MarketTables) -> "_Width | tuple[width_choice.Plan, Budget]":
        """The width of the release's kernel where it is given or follows from public rows; else how to choose it."""
        if self.release_gamma is not None:
            gamma = arguments.positive("release_gamma", self.release_gamma)
        elif inputs.public_rows is not None:
            gamma = _median_gamma("public_rows", inputs.public_rows, scale=self.gamma_scale * RELEASE_SCALE)
        elif draft.releases_target:
            return draft.split_for_width()
        elif self.hash_dimension is None or self.gamma != "median":
            return _Width(1.0, draft.budget, None)  # nobody uses it
        else:
            raise InvalidArgument("gamma", "'median'", "must be a number: hashes are public, and nothing is released")
        _check_width("release_gamma", gamma, inputs)
        return _Width(gamma, draft.budget, None)

    def _chosen_width(
        self, split: tuple[width_choice.Plan, Budget], inputs: MarketTables, ledger: Ledger, noise: Noise
    ) -> "_Width":
        """The same by a private choice, charged to the target's budget."""
        plan, budget_left = split
        event: Event = plan.event if noise.private else Simulated(plan.event)

        def run() -> tuple[bytes, Release[float]]:
            chosen = width_choice.run(plan, inputs.target, noise)
            return np.float64(chosen.value).tobytes(), chosen

        request = Request(self.run, 0, f"{_CONSUMER}/width")
        data = ledger.answer(View.owners(_CONSUMER), event, run, request=request)
        scale = self.gamma_scale * RELEASE_SCALE
        return _Width(scale / float(np.frombuffer(data, dtype=np.float64)[0]), budget_left, plan.event)

    def _hashing(self, release_gamma: float, hash_seed: int) -> Hashing | None:
        if self.hash_dimension is None:
            return None
        dimension = arguments.count("hash_dimension", self.hash_dimension, least=2, most=_LONGEST_HASH)
        if dimension % 2:
            raise InvalidArgument("hash_dimension", dimension, "must be even")
        # Owners use this kernel too, so it must not be read off the target: it follows from the release's.
        gamma = release_gamma / RELEASE_SCALE if self.gamma == "median" else arguments.positive("gamma", self.gamma)
        return Hashing(dimension, gamma, commitment(hash_seed))

    def _owners(
        self,
        terms: Terms,
        inputs: MarketTables,
        *,
        ledger: Ledger,
        drawn: RunSecrets,
        hashes: FourierFeatures | None,
    ) -> dict[str, Owner]:
        kind = SealedOwner if terms.protocol == "sealed" else InteractiveOwner
        parties: dict[str, Owner] = {}
        for name, rows in inputs.owners.items():
            safe = inputs.safe_names[name]
            scan = MemoryScan(rows, None if inputs.labels is None else inputs.labels[name])
            parties[safe] = kind(terms, safe, scan=scan, key=drawn.owner_key(safe), ledger=ledger, hashes=hashes)
        return parties

    def _curator(self, terms: Terms, selection: Selection, ledger: Ledger, noise: Noise) -> Curator:
        if terms.protocol == "sealed":
            return SealedCurator(terms, selection=selection, ledger=ledger, noise=noise)
        return InteractiveCurator(terms, selection=selection, ledger=ledger, noise=noise, seed_rows=self.seed_rows)

    def _tell(self, result: RunResult, inputs: MarketTables, parties: Mapping[str, Owner], warnings: list[str]) -> None:
        """Everything about the result, in terms of the rows that the caller gave."""
        found, names = result.summary, list(inputs.owners)
        picks = [
            (names[owner], parties[inputs.safe_names[names[owner]]].row_of(int(handle)))
            for owner, handle in zip(found.owners, found.handles, strict=True)
        ]
        self.indices_ = picks
        self.summary_ = gather(inputs.tables, picks)
        self.labels_ = found.labels if inputs.labels is not None else None
        self.weights_ = found.weights
        rows = np.stack([inputs.owners[owner][row] for owner, row in picks])
        self.squared_mmd_ = squared_mmd(rows, inputs.target, gamma=self.gamma_, weights=self.weights_)
        self.rows_seen_ = found.rows_seen
        self.access_ratio_ = (found.rows_seen + len(inputs.target)) / (self.size + len(inputs.target))
        self.history_ = tuple(
            Pick(owner, row, float(gain), float(value))
            for (owner, row), gain, value in zip(picks, found.gains, found.squared_mmds, strict=True)
        )
        disclosed = [parties[inputs.safe_names[name]].rows_disclosed for name in names]
        self.attribution_ = attribute(
            tuple(inputs.safe_names[name] for name in names),
            gains=found.gains,
            owners=found.owners,
            rows_disclosed=disclosed,
            price_per_row=self.price_per_row,
            game=selection_game(rows, found.owners, len(names), inputs.target, gamma=self.gamma_),
            coins=np.random.default_rng(0),
        )
        self.shares_ = {name: one.share for name, one in zip(names, self.attribution_.owners, strict=True)}
        warnings += [
            f"{names[place]} was not believed: {why}" for place, why in zip(found.flagged, found.reasons, strict=True)
        ]
        warnings += [f"{names[place]} did not take part" for place in found.absent]
        warnings += [f"{safe}: {why}" for safe, why in result.failures.items()]
        if len(picks) < self.size:
            warnings.append(f"only {len(picks)} rows were offered where {self.size} were wanted")
        self.warnings_ = tuple(warnings)

    def _count_seed_rows(self, inputs: MarketTables) -> int:
        if self.seed_rows is None:
            return 0
        if self.protocol != "interactive":
            raise InvalidArgument("seed_rows", "given", "go with the interactive protocol only")
        rows = arguments.matrix("seed_rows", self.seed_rows)
        arguments.same_columns("target", inputs.target, "seed_rows", rows)
        return len(rows)

    @contextmanager
    def _opened_ledger(self) -> Iterator[Ledger]:
        if self.ledger is not None and not isinstance(self.ledger, str | Path):
            raise InvalidArgument("ledger", type(self.ledger).__name__, "must be the path of a file")
        if self.ledger is not None:
            with Ledger(self.ledger) as kept:
                yield kept
            return
        with tempfile.TemporaryDirectory() as directory, Ledger(Path(directory) / "ledger.sqlite") as passing:
            yield passing


def _drawn_from(coins: np.random.Generator) -> Callable[[int], int]:
    """A stand-in for ``secrets.randbits`` that repeats itself with the seed."""
    return lambda bits: int.from_bytes(coins.bytes((bits + 7) // 8), "big") >> (-bits % 8)


def _median_gamma(argument: str, rows: Rows, *, scale: float) -> float:
    """By the median squared distance; an error names the argument that the caller gave."""
    try:
        return median_gamma(rows, scale=scale, coins=np.random.default_rng(0))
    except InvalidArgument as error:
        raise InvalidArgument(argument, error.value, error.reason) from error


def _check_width(argument: str, gamma: float, inputs: MarketTables) -> None:
    """Exponents of the kernel must be numbers in single precision."""
    if 4.0 * gamma * inputs.largest_squared_norm > _LARGEST_EXPONENT:
        raise InvalidArgument(argument, f"{gamma:g}", "is too large for these rows: a kernel of them is not a number")
