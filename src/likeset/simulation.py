"""Markets of public data, and baselines of a private run on them, for the demo and the studies.

A market has owners with different distributions, a small target, and a held-out test set. Methods select rows from
it with access to every row, with access to none, or by a protocol with simulated noise.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.geometry.greedy import exact_greedy
from likeset.geometry.offers import uniform
from likeset.geometry.selection import Selection
from likeset.ledger.budget import Charge, Request
from likeset.privacy.accounting import Basis, Guarantee
from likeset.privacy.events import Release, View
from likeset.privacy.noise import SimulatedNoise
from likeset.protocol.interactive import InteractiveCurator
from likeset.protocol.prices import planned_views
from likeset.protocol.sealed import Consumer, Curator
from likeset.protocol.split import OWNERS, make_curator
from likeset.protocol.terms import PRESETS, RunSettings, Terms
from likeset.run.draft import Draft
from likeset.run.job import Inputs, TableRows
from likeset.tables.scan import MemoryScan
from likeset.transports.local import ChargedParty, run_local

DIGIT_GROUPS = ((0, 1), (3, 4), (5, 6), (7, 8), (9, 2))
"""The paper's five owners: each holds the images of two digits."""

_TARGET_MIX = {3: 0.7, 4: 0.3}
_HELD_OUT = 140  # images of the target's digits that no owner has: half are the target, half the test set


@dataclass(frozen=True)
class LabelledMarket:
    """Owners' rows and labels by name, the target (its labels are known to the experimenter only) and test rows.

    ``public`` rows start the summary of the paper's protocol.
    """

    owners: Mapping[str, Rows]
    labels: Mapping[str, NDArray[np.int64]]
    target: Rows
    test: Rows
    test_labels: NDArray[np.int64]
    public: Rows | None = None

    @property
    def pool(self) -> Rows:
        """All owners' rows, owner after owner."""
        return np.concatenate(list(self.owners.values()))

    @property
    def pool_labels(self) -> NDArray[np.int64]:
        return np.concatenate(list(self.labels.values()))


def digits_market(*, coins: np.random.Generator) -> LabelledMarket:
    """Five owners by digit groups and a target of 3s and 4s at 0.7/0.3, from the images bundled with scikit-learn."""
    from sklearn.datasets import load_digits  # late: loading it takes longer than a match

    images, digits = load_digits(return_X_y=True)
    rows = (images / 16.0).astype(np.float32)
    held_out = _draw_mix(digits, _TARGET_MIX, _HELD_OUT, coins)
    available = np.ones(len(rows), dtype=bool)
    available[held_out] = False
    owners, labels = {}, {}
    for group in DIGIT_GROUPS:
        name = "digits " + ", ".join(str(digit) for digit in group)
        chosen = np.flatnonzero(np.isin(digits, group) & available)
        owners[name], labels[name] = rows[chosen], digits[chosen].astype(np.int64)
    half = len(held_out) // 2
    return LabelledMarket(
        owners=owners,
        labels=labels,
        target=rows[held_out[:half]],
        test=rows[held_out[half:]],
        test_labels=digits[held_out[half:]].astype(np.int64),
    )


def svm_scores(rows: Rows, labels: NDArray[np.int64], market: LabelledMarket) -> dict[str, float]:
    """Judge a linear SVM trained on ``rows`` by the test rows: balanced accuracy, accuracy and AUC.

    The AUC is the mean over the test's classes of each against the rest, as in ``likeset.evaluate``.
    """
    from sklearn.metrics import roc_auc_score  # late: as above
    from sklearn.svm import LinearSVC

    known, wanted, test = np.unique(labels), np.unique(market.test_labels), market.test_labels
    predicted, margins = np.full(len(test), known[0]), np.zeros((len(test), len(known)))
    if len(known) > 1:
        classifier = LinearSVC(random_state=0, max_iter=20_000).fit(rows, labels)
        predicted, decided = classifier.predict(market.test), classifier.decision_function(market.test)
        margins = np.stack([-decided, decided], axis=1) if decided.ndim == 1 else decided
    recalls = [float((predicted[test == kind] == kind).mean()) for kind in wanted]
    aucs = [
        float(roc_auc_score(test == kind, margins[:, known == kind].sum(axis=1)))
        for kind in (wanted[1:] if len(wanted) == 2 else wanted)
    ]
    return {
        "balanced_accuracy": float(np.mean(recalls)),
        "accuracy": float((predicted == test).mean()),
        "auc": float(np.mean(aucs)),
    }


def _draw_mix(
    labels: NDArray[Any], mix: Mapping[int, float], count: int, coins: np.random.Generator
) -> NDArray[np.int64]:
    """Rows of the given labels in the given proportions, in random order."""
    parts: Sequence[NDArray[np.int64]] = [
        coins.choice(np.flatnonzero(labels == label), size=round(share * count), replace=False)
        for label, share in mix.items()
    ]
    return coins.permutation(np.concatenate(parts))


DELTA = 1e-5
_RELEASE_SCALE = 1.0 / 3.0


@dataclass(frozen=True, eq=False)
class Task:
    """The input of a method: ``offers`` rows of each owner in ``sealed``; ``epsilon`` for protocols with a budget."""

    market: LabelledMarket
    size: int
    gamma: float
    offers: int
    epsilon: float
    seed: int


@dataclass(frozen=True, slots=True)
class StatedCost:
    """The price of a view: epsilon (None if there is no bound) and its basis."""

    epsilon: float | None
    basis: str


@dataclass(frozen=True, eq=False)
class MethodPicks:
    """The result of a method: rows of the pool in order, and the prices about the target and other owners."""

    indices: NDArray[np.int64]
    rows_seen: int
    weights: NDArray[np.float64] | None = None
    target: StatedCost = StatedCost(0.0, "nothing is told")
    owners: StatedCost = StatedCost(0.0, "nothing is told")
    notes: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)


_CONSUMER = "consumer"

CuratorOf = Callable[[Terms, SimulatedNoise, int], Curator]
"""Makes a curator of terms, noise, and a seed that the other parties could share with it."""


@dataclass(frozen=True)
class _Unlimited:
    """Charges without accounts, because noise of a known seed protects nobody."""

    answers: dict[str, bytes] = field(default_factory=dict)

    def draw(
        self,
        charge: Charge,  # noqa: ARG002 - nobody is charged
        run: Callable[[], tuple[bytes, Release[Any] | None]],
        *,
        request: Request,
        **charged: Any,  # noqa: ARG002
    ) -> bytes:
        if request.key not in self.answers:
            self.answers[request.key], _ = run()
        return self.answers[request.key]


def run_protocol(task: Task, *, curator_of: CuratorOf | None = None, **settings: Any) -> MethodPicks:
    """Run the protocol of the given ``RunSettings`` fields, with simulated noise of the task's seed.

    ``curator_of`` makes another curator than the usual one.
    """
    secret = np.random.default_rng([task.seed, 4])
    shared_seed = int.from_bytes(secret.bytes(32), "big")
    terms, pays = _terms(task, settings)
    noise = SimulatedNoise(task.seed)
    selection = Selection(gamma=task.gamma)
    names = dict(zip(terms.owners, task.market.owners, strict=True))
    charges = _Unlimited()
    owners = {
        safe: OWNERS[terms.kind](
            terms,
            safe,
            scan=MemoryScan(task.market.owners[name], task.market.labels[name]),
            key=int.from_bytes(secret.bytes(32), "big"),
        )
        for safe, name in names.items()
    }
    curator: Curator
    if curator_of is not None:
        curator = curator_of(terms, noise, shared_seed)
    elif terms.protocol == "interactive":
        curator = InteractiveCurator(terms, noise=noise, seed_rows=task.market.public if terms.seed_rows else None)
    else:
        curator = make_curator(terms, noise=noise, fold_key=None)
    consumer = Consumer(terms, target=task.market.target, noise=noise, selection=selection)
    result = run_local(
        ChargedParty(curator, charges),
        {name: ChargedParty(owner, charges) for name, owner in owners.items()},
        ChargedParty(consumer, charges),
    )
    starts = np.cumsum([0, *(len(rows) for rows in task.market.owners.values())])
    summary = result.summary
    indices = [
        int(starts[owner]) + owners[terms.owners[owner]].row_of(int(handle))
        for owner, handle in zip(summary.owners, summary.handles, strict=True)
    ]
    trouble = [f"{len(summary.absent)} absent"] if len(summary.absent) else []
    trouble += [f"{len(summary.flagged)} flagged"] if len(summary.flagged) else []
    views = {planned.view: planned.guarantee for planned in planned_views(terms, width_choice=None)}
    return MethodPicks(
        np.array(indices, dtype=np.int64),
        summary.rows_seen,
        target=_stated_cost(views[View.owners(terms.consumer)]),
        owners=_stated_cost(views[View.owners(terms.owners[0])]),
        notes=", ".join(trouble),
        extra={} if pays is None else {"release_expected_to_pay": pays},
    )


def _terms(task: Task, settings: Mapping[str, Any]) -> tuple[Terms, bool | None]:
    """The terms, and whether a release is worthwhile by the draft; None if not computed."""
    draft = draft_of(task, **settings)
    wanted = draft.settings
    asked = wanted.protocol == "sealed" and wanted.offers == "tilted"
    pays = draft.offers == "tilted" if asked else None
    # A study must see tilted offers where they do not pay, too: what the draft would fall back to is overruled.
    draft.offers = "uniform" if wanted.offers == "uniform" else "tilted"
    # The kernels of selections in studies are narrower than the usual one; those of releases are not.
    usual = task.gamma * (1.0 if wanted.protocol == "interactive" else _RELEASE_SCALE)
    terms = Terms.settled(
        draft.planned(target_budget=draft.budget),
        gamma=wanted.release_gamma or usual,
        seed=int(np.random.default_rng([task.seed, 5]).integers(2**63)),
        largest=0.0,
    )
    return terms, pays


def draft_of(task: Task, **settings: Any) -> Draft:
    """The draft of the terms for the given ``RunSettings`` fields."""
    market = task.market
    # Half a row less than wanted: it is rounded up to whole rows for each owner.
    offer_factor = (task.offers - 0.5) * len(market.owners) / task.size
    usual = {"size": task.size, "delta": DELTA, "auction": "everyone", "offers": "tilted", "offer_factor": offer_factor}
    wanted = RunSettings(**{**usual, **settings})
    starts_from_rows = wanted.summary_release != "none" and market.public is not None
    inputs = Inputs(
        target=TableRows("study", market.target),
        owners=tuple(f"owner-{number}" for number in range(len(market.owners))),
        public_rows=None,
        seed_rows=market.public if starts_from_rows else None,
        run="study",
        consumer=_CONSUMER,
        purpose="study",
        rows_per_unit=1,
        largest_squared_norm=math.inf,  # unknown, and not asked for here
    )
    return Draft(wanted, inputs)


def _stated_cost(guarantee: Guarantee) -> StatedCost:
    """The price of the run with secret noise."""
    if guarantee.basis is Basis.NONE:
        return StatedCost(None, "none")
    return StatedCost(float(f"{guarantee.epsilon:.4g}"), str(guarantee.basis))


POOLED = StatedCost(None, "rows are pooled")
"""The price of a method that sees every row."""

_ACCEPTED = ("paper-auction", "summary-release")


def greedy(task: Task) -> MethodPicks:
    """Greedy selection with access to all rows."""
    pool = task.market.pool
    selected = exact_greedy(pool, task.market.target, task.size, gamma=task.gamma)
    return MethodPicks(selected.indices, len(pool), target=POOLED, owners=POOLED)


def uniform_sampling(task: Task) -> MethodPicks:
    """As many random rows from each owner."""
    sizes = [len(rows) for rows in task.market.owners.values()]
    chosen = uniform(sizes, task.size, coins=np.random.default_rng([task.seed, 3]))
    starts = np.cumsum([0, *sizes[:-1]])
    indices = np.concatenate([start + rows for start, rows in zip(starts, chosen, strict=True)])
    return MethodPicks(np.random.default_rng([task.seed, 7]).permutation(indices), task.size)


def published_protocol(task: Task, *, curator_of: CuratorOf | None = None) -> MethodPicks:
    """The paper's protocol with its own settings: its epsilons are those of the schedule, not the user's."""
    return run_protocol(task, curator_of=curator_of, **PRESETS["paper"], accept_unproven=_ACCEPTED)
