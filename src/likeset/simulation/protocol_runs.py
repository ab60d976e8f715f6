"""One run of a protocol on a market, its parties driven directly: what is wished is what is done."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np

from likeset.geometry.features import FourierFeatures
from likeset.homes.shell import ConsumerShell, CuratorShell, Shell
from likeset.ledger import Request
from likeset.privacy.events import Event, Release
from likeset.privacy.guarantee import Basis, Guarantee, View
from likeset.privacy.noise import SimulatedNoise
from likeset.protocol.consumer import Consumer
from likeset.protocol.curator import Curator
from likeset.protocol.draft import Draft, Facts
from likeset.protocol.exact_scores import in_own_units
from likeset.protocol.interactive import InteractiveCurator
from likeset.protocol.parties import make_curator, make_owner
from likeset.protocol.plans import planned_views
from likeset.protocol.run_settings import RunSettings
from likeset.protocol.selection import Selection
from likeset.protocol.steps import Work
from likeset.protocol.term_parts import RELEASE_SCALE
from likeset.protocol.terms import Terms
from likeset.simulation.hashing_curator import HashingCurator
from likeset.simulation.tasks import DELTA, MethodPicks, StatedCost, Task
from likeset.tables.scan.memory_scan import MemoryScan
from likeset.transports.local import LocalEngine

__all__ = ["run_protocol"]

_CONSUMER = "consumer"


@dataclass(frozen=True)
class _Unlimited:
    """Charges without accounts: noise of a known seed protects nobody, and nothing is to be kept."""

    answers: dict[str, bytes] = field(default_factory=dict)

    def answer(
        self,
        view: View,  # noqa: ARG002 - nobody is charged
        event: Event,  # noqa: ARG002
        run: Callable[[], tuple[bytes, Release[Any] | None]],
        *,
        request: Request,
        **charged: Any,  # noqa: ARG002
    ) -> bytes:
        """The bytes of a request, drawn once."""
        if request.key not in self.answers:
            self.answers[request.key], _ = run()
        return self.answers[request.key]


class _BidSums(InteractiveCurator):
    """Keeps the gains by which rows won, as the paper would pay for them."""

    def _close_round(self) -> Work:
        scores = self._gains(np.stack([row.features for row in self._pool])) if self._pool else np.zeros(0)
        if len(scores):
            best = self._best_at_hand()
            name = self.terms.owners[self._pool[best].held.owner]
            self.winning_bids[name] = self.winning_bids.get(name, 0.0) + in_own_units(float(scores[best]))
        return (yield from super()._close_round())

    @cached_property
    def winning_bids(self) -> dict[str, float]:
        return {}


def run_protocol(task: Task, *, hash_dimension: int | None = None, **wishes: Any) -> MethodPicks:
    """Run the protocol that fields of ``RunSettings`` describe, with simulated noise of the task's seed.

    Args:
        task: what is to be matched.
        hash_dimension: if given, the curator goes by hashes of this length, as the paper's extension has it.
        wishes: fields of ``RunSettings``.
    """
    secret = np.random.default_rng([task.seed, 4])
    hash_seed = int.from_bytes(secret.bytes(32), "big")
    terms, pays = _terms(task, wishes)
    noise = SimulatedNoise(task.seed)
    selection = Selection(gamma=task.gamma)
    names = dict(zip(terms.owners, task.market.owners, strict=True))
    charges = _Unlimited()
    owners = {
        safe: make_owner(
            terms,
            safe,
            scan=MemoryScan(task.market.owners[name], task.market.labels[name]),
            key=int.from_bytes(secret.bytes(32), "big"),
        )
        for safe, name in names.items()
    }
    curator: Curator
    if terms.protocol == "interactive":
        curator = _BidSums(terms, noise=noise, seed_rows=task.market.public if terms.seed_rows else None)
    elif hash_dimension is None:
        curator = make_curator(terms, noise=noise, fold_key=None)
    else:
        hashes = FourierFeatures(terms.kernel.columns, hash_dimension, task.gamma, hash_seed, "phased")
        curator = HashingCurator(terms, noise=noise, hashes=hashes)
    consumer = Consumer(terms, target=task.market.target, noise=noise, selection=selection)
    result = LocalEngine(workers=1).run(
        CuratorShell(curator, charges),
        {name: Shell(owner, charges) for name, owner in owners.items()},
        ConsumerShell(consumer, charges),
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
        extra={
            **({} if pays is None else {"release_expected_to_pay": pays}),
            **({"winning_bids": _by_owner(curator, names)} if isinstance(curator, _BidSums) else {}),
        },
    )


def _by_owner(curator: _BidSums, names: Mapping[str, str]) -> dict[str, float]:
    return {name: float(f"{curator.winning_bids.get(safe, 0.0):.7g}") for safe, name in names.items()}


def _terms(task: Task, wishes: Mapping[str, Any]) -> tuple[Terms, bool | None]:
    """The terms, and whether the draft thinks that a release pays; None where that is not asked."""
    market = task.market
    # Half a row less than wanted: it is rounded up to whole rows for each owner.
    offer_factor = (task.offers - 0.5) * len(market.owners) / task.size
    usual = {"size": task.size, "delta": DELTA, "auction": "everyone", "offers": "tilted", "offer_factor": offer_factor}
    wanted = RunSettings(**{**usual, **wishes})
    starts_from_rows = wanted.summary_release != "none" and market.public is not None
    facts = Facts(
        run="study",
        consumer=_CONSUMER,
        purpose="study",
        target_size=len(market.target),
        columns=market.target.shape[1],
        column_names=(),
        schema_digest="",
        record_bytes=0,
        owners=tuple(f"owner-{number}" for number in range(len(market.owners))),
        rows_per_unit=1,
        id_column="",
        seed_rows=market.public if starts_from_rows else None,
        version=version("likeset"),
    )
    draft = Draft(wanted, facts)
    asked = wanted.protocol == "sealed" and wanted.offers == "tilted"
    pays = draft.offers == "tilted" if asked else None
    # A study must see tilted offers where they do not pay, too: what the draft would fall back to is overruled.
    draft.offers = "uniform" if wanted.offers == "uniform" else "tilted"
    terms = Terms.settled(
        draft.planned(target_budget=draft.budget),
        gamma=task.gamma * (1.0 if wanted.protocol == "interactive" else RELEASE_SCALE),
        seed=int(np.random.default_rng([task.seed, 5]).integers(2**63)),
        largest=0.0,
    )
    return terms, pays


def _stated_cost(guarantee: Guarantee) -> StatedCost:
    """What the run would guarantee with secret noise."""
    if guarantee.basis is Basis.NONE:
        return StatedCost(None, "none")
    return StatedCost(float(f"{guarantee.epsilon:.4g}"), str(guarantee.basis))
