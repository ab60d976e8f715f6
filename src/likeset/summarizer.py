"""The front door: everything in one process, in the style of scikit-learn."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from likeset.errors import InvalidArgument
from likeset.ledger import Ledger
from likeset.protocol.wishes import Wishes
from likeset.run.market import Market, Outcome
from likeset.run.order import Order, Stalls
from likeset.tables.scan.memory_scan import MemoryScan
from likeset.tables.sources.frames import MarketTables, column_names, gather
from likeset.transports.local import Progress

__all__ = ["Pick", "Summarizer"]


@dataclass(frozen=True, slots=True)
class Pick:
    """One selected row: whose, which, its marginal gain, and the squared MMD once it was in."""

    owner: str
    row: int
    gain: float
    squared_mmd: float


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
        offers: ``tilted`` or ``auto``: toward the release, but uniform (with a word in ``warnings_``) where a release
            would be mostly noise, by the target's size and the budget alone; ``uniform``: no release at all.
        label_strata: whether owners may use their own labels to find the classes that the target consists of.
        thinning: whether owners thin more candidates than they offer to an offer that represents them.
        auction: ``everyone``, ``threshold``, ``paper`` (interactive only), or ``auto``.
        auction_epsilon: of one use of an auction other than ``everyone``.
        summary_release: what ``interactive`` releases about the summary each round: ``none``, ``gaussian``, ``mwem``.
        schedule: the paper's schedule for ``mwem``: ``theorem``, ``proof``, ``experiment``; empty splits the budget.
        owner_epsilon: what owners may learn about one another's rows; 0 unless an auction or summary release needs it.
        seed_rows: public rows that start the summary of ``interactive``.
        hash_dimension: if given, the curator sees hashes of this length instead of rows; with ``sealed`` and everyone
            asked.
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
            Each has a ``kind``, the owner whom it ``concerns`` if it is about one, and its words as ``text``.
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
        market = Market(
            self._order(),
            self._stalls(inputs),
            shown_names={safe: name for name, safe in inputs.safe_names.items()},
            progress=self.progress,
        )
        market.outline()  # what is wrong with the wishes shows before a ledger is made
        with self._opened_ledger() as ledger:
            outcome = market.hold(ledger, resumable=self.ledger is not None)
        self._tell(outcome, inputs)
        return self

    def _order(self) -> Order:
        return Order(
            wishes=Wishes(**{field.name: getattr(self, field.name) for field in fields(Wishes)}),
            **{field.name: getattr(self, field.name) for field in fields(Order) if field.name != "wishes"},
        )

    @staticmethod
    def _stalls(inputs: MarketTables) -> Stalls:
        labels = inputs.labels
        return Stalls(
            target=inputs.target,
            owners={
                inputs.safe_names[name]: MemoryScan(rows, None if labels is None else labels[name])
                for name, rows in inputs.owners.items()
            },
            public_rows=inputs.public_rows,
            largest_squared_norm=inputs.largest_squared_norm,
            content=inputs.digest(),
            column_names=column_names(next(iter(inputs.tables.values()))) or (),
        )

    def _tell(self, outcome: Outcome, inputs: MarketTables) -> None:
        """Everything about the result, in terms of the rows that the caller gave."""
        shown = {safe: name for name, safe in inputs.safe_names.items()}
        found, picks = outcome.summary, [(shown[owner], row) for owner, row in outcome.picks]
        self.terms_ = outcome.terms
        self.gamma_ = outcome.gamma
        self.guarantees_ = outcome.guarantees
        self.indices_ = picks
        self.summary_ = gather(inputs.tables, picks)
        self.labels_ = found.labels if inputs.labels is not None else None
        self.weights_ = found.weights
        rows = np.stack([inputs.owners[owner][row] for owner, row in picks])
        self.squared_mmd_ = outcome.squared_mmd(rows, inputs.target)
        self.rows_seen_ = found.rows_seen
        self.access_ratio_ = (found.rows_seen + len(inputs.target)) / (self.size + len(inputs.target))
        self.history_ = tuple(
            Pick(owner, row, float(gain), float(value))
            for (owner, row), gain, value in zip(picks, found.gains, found.squared_mmds, strict=True)
        )
        self.attribution_ = outcome.attribution(rows, inputs.target)
        self.shares_ = {shown[one.owner]: one.share for one in self.attribution_.owners}
        self.warnings_ = outcome.warnings

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
