"""The methods compared: what sees everything, what sees nothing, and the protocols between them.

The protocols run with simulated noise: reproducible, and not private. The guarantees are those of the same run with
secret noise.
"""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import likeset
from likeset.arguments import Rows
from likeset.engines.local import LocalEngine
from likeset.geometry.greedy import match, uniform
from likeset.ledger import Ledger, Limit
from likeset.privacy.guarantee import Basis
from likeset.privacy.noise import SimulatedNoise
from likeset.privacy.schedules import auction_epsilon
from likeset.privacy.view import View
from likeset.protocol.consumer import Consumer
from likeset.protocol.drafting import Draft, Facts, Wishes
from likeset.protocol.hashing import commitment, hash_map
from likeset.protocol.interactive import InteractiveCurator, InteractiveOwner
from likeset.protocol.plans import planned_views
from likeset.protocol.sealed import SealedCurator, SealedOwner
from likeset.protocol.selection import Selection
from likeset.protocol.terms import RELEASE_SCALE, Hashing, Terms
from likeset.studies.market import Market
from likeset.tables.scan import MemoryScan

__all__ = ["EPSILONS", "METHODS", "Found", "Task"]

DELTA = 1e-5
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
_CONSUMER = "consumer"
_HASH_DIMENSION = 2000
_ACCEPTED = ("paper-auction", "summary-release")


@dataclass(frozen=True, eq=False)
class Task:
    """One market, one size, one kernel, one seed.

    Attributes:
        market: owners, target, test rows.
        size: rows wanted.
        gamma: of the selection.
        offers: rows that each owner offers.
        seed: of everything that is drawn.
        public: rows that anybody may see, for the paper's protocol.
    """

    market: Market
    size: int
    gamma: float
    offers: int
    seed: int
    public: Rows


@dataclass(frozen=True, eq=False)
class Found:
    """Rows of the pool that a method selected, what was seen for it, and what it costs whom."""

    indices: NDArray[np.int64]
    rows_seen: int
    guarantees: Mapping[str, str] = field(default_factory=dict)
    notes: str = ""


def _everything(task: Task, *, method: Any) -> Found:
    pool = task.market.pool
    found = match(pool, task.market.target, task.size, gamma=task.gamma, method=method)
    return Found(found.indices, len(pool), _NOTHING_HIDDEN)


def _uniform(task: Task) -> Found:
    sizes = [len(rows) for rows in task.market.owners.values()]
    chosen = uniform(sizes, task.size, coins=np.random.default_rng([task.seed, 3]))
    starts = np.cumsum([0, *sizes[:-1]])
    indices = np.concatenate([start + rows for start, rows in zip(starts, chosen, strict=True)])
    return Found(indices, task.size, {"target": "nothing released", "owners": "nothing released"})


def _protocol(task: Task, *, hash_dimension: int | None = None, **wishes: Any) -> Found:
    """One run of a protocol, its parties driven directly: what is wished is what is done."""
    secret = np.random.default_rng([task.seed, 4])
    hash_seed = int.from_bytes(secret.bytes(32), "big") | 1 << 255
    terms = _terms(task, wishes, None if hash_dimension is None else (hash_dimension, hash_seed))
    noise = SimulatedNoise(task.seed)
    hashes = hash_map(terms, hash_seed) if terms.hashing else None
    selection = Selection(gamma=task.gamma)
    owner_kind = SealedOwner if terms.protocol == "sealed" else InteractiveOwner
    names = dict(zip(terms.owners, task.market.owners, strict=True))
    with tempfile.TemporaryDirectory() as folder, Ledger(Path(folder) / "ledger.sqlite") as ledger:
        _open_accounts(ledger, terms)
        owners = {
            safe: owner_kind(
                terms,
                safe,
                scan=MemoryScan(task.market.owners[name], task.market.labels[name]),
                key=int.from_bytes(secret.bytes(32), "big"),
                ledger=ledger,
                hashes=hashes,
            )
            for safe, name in names.items()
        }
        if terms.protocol == "sealed":
            curator: Any = SealedCurator(terms, selection=selection, ledger=ledger, noise=noise)
        else:
            seeds = task.public if terms.seed_rows else None
            curator = InteractiveCurator(terms, selection=selection, ledger=ledger, noise=noise, seed_rows=seeds)
        consumer = Consumer(terms, target=task.market.target, ledger=ledger, noise=noise, hashes=hashes)
        result = LocalEngine(workers=1).run(curator, owners, consumer)
    starts = np.cumsum([0, *(len(rows) for rows in task.market.owners.values())])
    summary = result.summary
    places = [
        int(starts[owner]) + owners[terms.owners[owner]].row_of(int(handle))
        for owner, handle in zip(summary.owners, summary.handles, strict=True)
    ]
    trouble = [f"{len(summary.absent)} absent"] if len(summary.absent) else []
    trouble += [f"{len(summary.flagged)} flagged"] if len(summary.flagged) else []
    return Found(np.array(places), summary.rows_seen, _stated(terms), ", ".join(trouble))


def _terms(task: Task, wishes: Mapping[str, Any], hashing: tuple[int, int] | None) -> Terms:
    market = task.market
    defaults = likeset.Summarizer(task.size, delta=DELTA, auction="everyone", run="quality")
    wanted: dict[str, Any] = {one.name: getattr(defaults, one.name) for one in fields(Wishes)}
    # Half a row less than wanted: it is rounded up to whole rows for each owner.
    wanted["offer_factor"] = (task.offers - 0.5) * len(market.owners) / task.size
    wanted |= wishes
    facts = Facts(
        consumer=_CONSUMER,
        purpose="benchmark",
        expires="",
        target_size=len(market.target),
        columns=market.target.shape[1],
        column_names=(),
        schema_digest="",
        owners=tuple(market.owners),
        seed_rows=len(task.public) if wanted["schedule"] else 0,
        version=likeset.__version__,
    )
    draft = Draft(Wishes(**wanted), facts)
    # A benchmark must see tilted offers where they do not pay, too: what the draft would fall back to is overruled.
    draft.offers = wanted["offers"]
    return draft.terms(
        release_gamma=task.gamma * (1.0 if wanted["protocol"] == "interactive" else RELEASE_SCALE),
        feature_seed=int(np.random.default_rng([task.seed, 5]).integers(2**63)),
        target_budget=draft.budget,
        hashing=None if hashing is None else Hashing(hashing[0], task.gamma, commitment(hashing[1])),
    )


def _open_accounts(ledger: Ledger, terms: Terms) -> None:
    """Accounts without an end: budgets are not what is measured here."""
    unlimited = Limit(1e9, 0.1, terms.relation, accept_unproven=("simulated", "unbounded", *_ACCEPTED))
    ledger.set_limit(View.owners(terms.consumer), unlimited)
    for owner in terms.owners:
        ledger.set_limit(View.owners(owner), unlimited)
        ledger.set_limit(View.curator(owner), Limit.rows_only(terms.rows_per_owner))


def _stated(terms: Terms) -> dict[str, str]:
    """What the run would guarantee with secret noise: for the target's rows and for an owner's, toward owners."""
    views = {one.view: one.guarantee for one in planned_views(terms)}
    words = {}
    for data, protected in (("target", terms.consumer), ("owners", terms.owners[0])):
        guarantee = views[View.owners(protected)]
        words[data] = "none" if guarantee.basis is Basis.NONE else f"{guarantee.epsilon:.3g} ({guarantee.basis})"
    return words


_NOTHING_HIDDEN = {"target": "none", "owners": "none"}
_PAPER: dict[str, Any] = {
    "protocol": "interactive",
    "summary_release": "mwem",
    "schedule": "experiment",
    "auction": "paper",
    "dimension": 140,
    "accept_unproven": _ACCEPTED,
}


def _paper(task: Task) -> Found:
    epsilon = auction_epsilon(owners=len(task.market.owners), epsilon=1.0, delta=DELTA)
    return _protocol(task, **_PAPER, auction_epsilon=epsilon)


METHODS: dict[str, Callable[[Task], Found]] = {
    "exact greedy": partial(_everything, method="exact"),
    "feature greedy": partial(_everything, method="features"),
    "uniform sampling": _uniform,
    "uniform offers": partial(_protocol, offers="uniform", epsilon=0.0, thinning=False),
    "uniform offers, thinned": partial(_protocol, offers="uniform", epsilon=0.0),
    **{f"sealed, eps {epsilon:g}": partial(_protocol, epsilon=epsilon) for epsilon in EPSILONS},
    "sealed, eps 1, labels not used": partial(_protocol, label_strata=False),
    "sealed, eps 1, hash-only": partial(_protocol, hash_dimension=_HASH_DIMENSION),
    "interactive, no summary release": partial(_protocol, protocol="interactive"),
    "interactive, gaussian": partial(_protocol, protocol="interactive", summary_release="gaussian", owner_epsilon=1.0),
    "interactive, paper's settings": _paper,
}
"""By name, in the order of the tables."""
