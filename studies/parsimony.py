"""``parsimony``: how many rows the curator sees for each row it buys, as the number of owners grows.

The paper's auction against its own bound ``K/tau + 1/eps_auc``, asking everyone each round, a threshold used once, and
asking everyone once for fewer rows each. Owners are generated: no public data set has thousands of them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.geometry.features import FourierFeatures
from likeset.geometry.greedy import exact_greedy
from likeset.geometry.kernels import median_gamma, squared_mmd
from likeset.privacy import auction
from likeset.privacy.auction import auction_epsilon, auction_patience
from likeset.privacy.noise import SimulatedNoise
from likeset.summarizer import Summarizer
from studies.contract import Cell, Options, Presentation, RecordLine, Table


@dataclass(frozen=True, eq=False)
class Crowd:
    """Many owners with equally many rows, and a target.

    Attributes:
        owners: an array of owners, rows, columns.
        target: rows to match.
    """

    owners: Rows
    target: Rows

    @property
    def pool(self) -> Rows:
        """All rows, owner after owner."""
        return self.owners.reshape(-1, self.owners.shape[2])


@dataclass(frozen=True, eq=False)
class Rounds:
    """What came of the rounds: rows of the pool in the order of their selection, and how many were seen for it."""

    indices: NDArray[np.int64]
    rows_seen: int


def crowd(*, owners: int, rows: int, target: int, columns: int, coins: np.random.Generator) -> Crowd:
    """Owners of different kinds: each has rows around two of twelve places, and the target is around three of them.

    The places are as many standard deviations apart as images of different digits are.
    """
    centres = coins.normal(scale=1.0, size=(12, columns))
    mine = np.array([coins.choice(len(centres), size=2, replace=False) for _ in range(owners)])
    which = mine[np.arange(owners)[:, None], coins.integers(2, size=(owners, rows))]
    wanted = coins.choice(3, size=target, p=(0.5, 0.3, 0.2))
    return Crowd(
        owners=(centres[which] + coins.normal(scale=0.7, size=(owners, rows, columns))).astype(np.float32),
        target=(centres[wanted] + coins.normal(scale=0.7, size=(target, columns))).astype(np.float32),
    )


def run_rounds(
    market: Crowd,
    *,
    size: int,
    gamma: float,
    dimension: int,
    feature_seed: int,
    ask: Callable[[auction.Bids], NDArray[np.bool_]],
) -> Rounds:
    """``size`` rounds: everybody bids its best row not sent yet, ``ask`` asks some, the best row at hand joins.

    As in the product, rows at hand are scored again in each round, with the current summary.
    """
    owners, rows, columns = market.owners.shape
    features = FourierFeatures(columns, dimension, gamma, feature_seed)
    hashed = features(market.pool)
    attraction = hashed @ features.mean(market.target).astype(np.float32)
    repulsion = np.zeros(len(hashed), dtype=np.float32)  # sum over the summary
    sent = np.zeros(len(hashed), dtype=np.bool_)
    times_bid = np.zeros(len(hashed), dtype=np.int64)
    at_hand: list[int] = []
    chosen: list[int] = []
    starts = np.arange(owners) * rows
    for step in range(size):
        scores = attraction - repulsion / np.float32(step + 1)  # mean_v k - q/(q + 1) mean_s k, q = step
        open_scores = np.where(sent, -np.inf, scores).reshape(owners, rows)
        best = starts + open_scores.argmax(axis=1)
        present = ~sent[best]
        times_bid[best[present]] += 1
        values = [float(scores[row]) if here else None for row, here in zip(best, present, strict=True)]
        bids = auction.Bids(tuple(values), tuple(times_bid[best].tolist()))
        asked = best[ask(bids)]
        sent[asked] = True
        at_hand += asked.tolist()
        if at_hand:
            position = int(np.argmax(scores[at_hand]))
            chosen.append(at_hand.pop(position))
            repulsion += hashed @ hashed[chosen[-1]]
    return Rounds(np.array(chosen, dtype=np.int64), int(sent.sum()))


def winner_only(bids: auction.Bids) -> NDArray[np.bool_]:
    """The first of the paper's two simple ways: the best bid's owner is asked, and knows that it bid most."""
    return np.asarray((auction.ranks(bids.values) == 1) & bids.present)


def exponential_mechanism(epsilon: float, coins: np.random.Generator) -> Callable[[auction.Bids], NDArray[np.bool_]]:
    """One owner, with odds ``exp(epsilon bid / (2 * 2))``: a bid is between -1 and 1."""

    def ask(bids: auction.Bids) -> NDArray[np.bool_]:
        scores = np.array([-np.inf if value is None else value for value in bids.values])
        if not bids.present.any():
            return bids.present
        odds = np.exp(epsilon / 4.0 * (scores - scores.max()))
        return np.asarray(np.arange(len(odds)) == coins.choice(len(odds), p=odds / odds.sum()))

    return ask


def exponential_epsilon(*, epsilon: float, delta: float, rounds: int) -> float:
    """Of each round, so that all of them together cost (epsilon, delta): a choice has rho = epsilon²/8."""
    log = math.log(1.0 / delta)
    rho = (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2  # rho + 2 sqrt(rho log) = epsilon
    return math.sqrt(8.0 * rho / rounds)


_LABELS = {
    "paper": "the paper's auction, each round (not private)",
    "winner only": "only the best bid's owner, each round (not private)",
    "exponential mechanism": "one owner by the exponential mechanism, each round",
    "everyone each round": "everyone, each round",
    "everyone once": "sealed: everyone once, fewer rows each",
    "threshold once": "sealed: threshold once",
}


def present_parsimony(lines: Sequence[RecordLine], *, methods: Sequence[str]) -> Presentation:
    """Rows seen per row bought, and how near the summary came."""
    done = [line for line in lines if line.done]
    sizes = sorted({line["size"] for line in done})
    tables = [_table([line for line in done if line["size"] == size], methods) for size in sizes]
    return Presentation(
        "How many rows the curator sees",
        [
            "The paper's auction asks the owner of rank i with probability exp(-(i-1) eps_auc) and a row that was bid "
            "tau times for certain; its bound on the rows seen per row bought is K/tau + 1/eps_auc = "
            "(1 + 3 sqrt(2) log(1/delta)/epsilon) K^(1/3).",
            "The first three per-round protocols select the same rows, up to scores that tie: the top bid is always "
            "asked, so the auction saves rows and changes nothing else. It is not differentially private "
            "(docs/paper-audit.md). The exponential mechanism gets (epsilon, delta) for all rounds.",
            f"Each owner has {_ROWS} rows: at most {_ROWS} K/p rows are seen per row bought, which `everyone each "
            f"round` reaches where more than {_ROWS} rows are bought.",
            "MMD² is measured on 2,000 rows of the target's distribution that no method saw. On the 300 rows that it "
            "selects for, exact greedy comes arbitrarily close with many rows: a ratio to that says nothing about "
            "new rows.",
        ],
        tables,
    )


def _table(lines: Sequence[RecordLine], methods: Sequence[str]) -> Table:
    return Table(
        f"{lines[0]['size']:,} rows bought: rows seen per row bought; in brackets MMD² to unseen rows over "
        f"exact greedy's ({_of_seeds(lines)})",
        ["owners", "the paper's bound", *(_LABELS[method] for method in methods)],
        [_row(lines, owners, methods) for owners in sorted({line["owners"] for line in lines})],
    )


def _of_seeds(lines: Sequence[RecordLine]) -> str:
    count = len({line["seed"] for line in lines})
    return "one seed" if count == 1 else f"mean of {count} seeds"


def _values(lines: Sequence[RecordLine], owners: int, method: str, result: str) -> list[float]:
    return [line[result] for line in lines if (line["owners"], line["method"]) == (owners, method)]


def _row(lines: Sequence[RecordLine], owners: int, methods: Sequence[str]) -> list[str]:
    bound = next(line["paper_bound"] for line in lines if line["owners"] == owners)
    cells = [f"{owners:,}", f"{bound:.0f}"]
    for method in methods:
        seen = _values(lines, owners, method, "rows_per_pick")
        near = _values(lines, owners, method, "over_exact")
        cells.append(f"{fmean(seen):.1f} ({fmean(near):.2f})" if seen else "-")
    return cells


_ROUNDS = ("paper", "everyone each round", "winner only", "exponential mechanism")
ASKING_METHODS = (*_ROUNDS, "everyone once", "threshold once")
_OWNERS = (5, 10, 20, 50, 100, 200, 500, 1000, 2000)
_ROWS, _TARGET, _UNSEEN, _COLUMNS = 120, 300, 2000, 10
_SIZE = 50
_DIMENSION = 128
_DELTA = 1e-5
_MOST_ASKED_ONCE = 500  # owners: with more than are rows to be offered, each would still send one
_LEAST_CHOICE = 10  # rows that owners have, for each that is bought
_LEAST_THRESHOLD = 50  # owners: below it a threshold asks nearly everyone
_SEEDS = 5


def parsimony_bound(*, owners: int, epsilon: float, delta: float) -> float:
    """Rows asked for per row bought, by the paper's own count: ``1/eps_auc`` plus ``owners/patience``.

    Up to rounding this is (3 sqrt(2) log(1/delta)/epsilon + 1) K^(1/3).
    """
    return (3.0 * math.sqrt(2.0) * math.log(1.0 / delta) / epsilon + 1.0) * math.cbrt(owners)


class Parsimony:
    """The study."""

    name = "parsimony"
    description = "rows that the curator sees per row it buys, against the number of owners"

    def cells(self, options: Options) -> Sequence[Cell]:
        """Seed by seed, so that a run that is stopped has something of everything."""
        options.without_data("the owners of this study are generated")
        wanted = options.chosen(ASKING_METHODS)
        return [
            Cell(
                self.name,
                {
                    "method": method,
                    "owners": owners,
                    "size": size,
                    "epsilon": epsilon,
                    "delta": _DELTA,
                    "rows": _ROWS,
                    "target": _TARGET,
                    "seed": seed,
                    "revision": 2,
                },
            )
            for seed in range(options.seeds or _SEEDS)
            for size in options.sizes or (_SIZE,)
            for epsilon in options.epsilons or (1.0,)
            for owners in _OWNERS
            for method in wanted
            if owners * _ROWS >= _LEAST_CHOICE * size and _is_sensible(method, owners)
        ]

    def run(self, cell: Cell) -> dict[str, Any]:
        """One way of asking, in one market."""
        size, seed = int(cell["size"]), int(cell["seed"])
        market = crowd(
            owners=cell["owners"],
            rows=cell["rows"],
            target=cell["target"] + _UNSEEN,
            columns=_COLUMNS,
            coins=np.random.default_rng(seed),
        )
        market, unseen = replace(market, target=market.target[:_TARGET]), market.target[_TARGET:]
        gamma = median_gamma(market.target, scale=1.0, coins=np.random.default_rng(0))
        exact = exact_greedy(market.pool, market.target, size, gamma=gamma).indices
        yardstick = squared_mmd(market.pool[exact], unseen, gamma=gamma)
        if cell["method"] in _ROUNDS:
            rounds = run_rounds(market, size=size, gamma=gamma, dimension=_DIMENSION, feature_seed=seed, ask=_ask(cell))
            seen, summary = rounds.rows_seen, market.pool[rounds.indices]
        else:
            seen, summary = _run_sealed(cell, market, gamma)
        distance = squared_mmd(summary, unseen, gamma=gamma)
        bound = parsimony_bound(owners=cell["owners"], epsilon=cell["epsilon"], delta=cell["delta"])
        return {
            "rows_per_pick": seen / size,
            "paper_bound": bound,
            "squared_mmd": distance,
            "over_exact": distance / yardstick,
        }

    def present(self, lines: Sequence[RecordLine], out: Path) -> Presentation:  # noqa: ARG002 - no figures
        """A table, and the two panels: rows seen, and what was made of them."""
        return present_parsimony(lines, methods=ASKING_METHODS)


def _is_sensible(method: str, owners: int) -> bool:
    if method == "everyone once":
        return owners <= _MOST_ASKED_ONCE
    return method != "threshold once" or owners >= _LEAST_THRESHOLD


def _ask(cell: Cell) -> Callable[[auction.Bids], NDArray[np.bool_]]:
    owners, prices = int(cell["owners"]), {"epsilon": cell["epsilon"], "delta": cell["delta"]}
    if cell["method"] == "winner only":
        return winner_only
    if cell["method"] == "exponential mechanism":
        each = exponential_epsilon(**prices, rounds=cell["size"])
        return exponential_mechanism(each, np.random.default_rng([cell["seed"], 9]))
    plan: auction.AuctionPlan = auction.plan_everyone(owners)
    if cell["method"] == "paper":
        plan = auction.plan_paper(
            owners,
            epsilon=auction_epsilon(owners=owners, **prices),
            patience=auction_patience(owners),
            rounds=cell["size"],
            accept_unproven=(auction.PAPER_AUCTION,),
        )
    noise = SimulatedNoise(cell["seed"])
    return lambda bids: auction.run(plan, bids, noise).value


def _run_sealed(cell: Cell, market: Crowd, gamma: float) -> tuple[int, Rows]:
    """Rows seen and the summary of the sealed protocol, with its own release of the target's mean."""
    summarizer = Summarizer(
        cell["size"],
        epsilon=cell["epsilon"],
        delta=cell["delta"],
        gamma=gamma,
        release_gamma=gamma / 3.0,
        auction="everyone" if cell["method"] == "everyone once" else "threshold",
        auction_epsilon=cell["epsilon"],
        noise="simulated",
        random_state=cell["seed"],
        folds=0,
    )
    summarizer.fit(market.target, {f"owner-{number}": rows for number, rows in enumerate(market.owners)})
    return summarizer.rows_seen_, summarizer.summary_


STUDY = Parsimony()
