"""The consumer's side: its target, the one release of it for every owner, and the summary that comes back."""

import math

import numpy as np
from numpy.typing import ArrayLike

from likeset import arguments
from likeset.arguments import Rows
from likeset.errors import IllegalMessage, InvalidArgument
from likeset.privacy import gaussian_mean, mwem_mean
from likeset.privacy.events import Event, Relation, Release, Simulated
from likeset.privacy.guarantee import View
from likeset.privacy.noise import Noise, random_order
from likeset.protocol.admission import Admission
from likeset.protocol.legality import RELEASE_ROUND, consumer_rules, title_of_message
from likeset.protocol.message_arrays import Vector
from likeset.protocol.messages import Message, Summary, Target, TargetRelease
from likeset.protocol.party import CURATOR, Party
from likeset.protocol.plans import target_plan
from likeset.protocol.selection import Selection
from likeset.protocol.steps import ChargeWanted, PricedDraw, Step, Work
from likeset.protocol.terms import Terms
from likeset.tables.records import DeclaredRecords

__all__ = ["Consumer", "released_mean", "target_rows"]


def target_rows(terms: Terms, target: ArrayLike) -> Rows:
    """The target's rows as the terms want them.

    Raises:
        InvalidArgument: they have another shape, or cannot be released so.
    """
    rows = arguments.matrix("target", target)
    wanted = (terms.target_size if terms.relation is Relation.REPLACE_ONE else len(rows), terms.kernel.columns)
    if rows.shape != wanted:  # under add-or-remove the size is declared, and the true one is nobody's business
        raise InvalidArgument("target", f"array of shape {rows.shape}", f"must have shape {wanted}, as in the terms")
    if terms.relation is Relation.ADD_OR_REMOVE and terms.offers == "tilted":
        terms.kernel.features().check_places()  # else a row that goes would move what the others contribute
    return rows.astype(np.float32)


def released_mean(terms: Terms, rows: Rows, noise: Noise) -> PricedDraw[Vector]:
    """The one release of the target, for a charge; empty where offers are uniform.

    Args:
        terms: of the run.
        rows: of the target.
        noise: where that of the release comes from.
    """
    plan = target_plan(terms)
    if plan is None:
        return np.empty(0)
    event: Event = plan.event if noise.private else Simulated(plan.event)

    def draw() -> tuple[bytes, Release[Vector]]:
        # In a random order, and each by itself: a table may be sorted, and where a row stands must not show.
        features = terms.kernel.features().of_each(rows[random_order(len(rows), noise)])
        if isinstance(plan, gaussian_mean.GaussianPlan):
            drawn = gaussian_mean.run(plan, features, noise)
        else:
            made = mwem_mean.run(plan, features, noise)
            drawn = Release(made.value.mean, made.event)
        return drawn.value.astype("<f8").tobytes(), drawn

    kept = yield ChargeWanted(
        costs=((View.owners(terms.consumer), event),),
        draw=draw,
        run=terms.run,
        round=0,
        kind=f"{terms.consumer}/target-release",
        content=terms.digest.encode(),
    )
    return np.frombuffer(kept, dtype="<f8")


class Consumer(Party):
    """Holds the target; releases its mean once, for a charge; receives the summary.

    Args:
        terms: of the run.
        target: rows to match.
        noise: where the noise of the release comes from.
        selection: how the curator is to select; it may depend on the target, and owners hear nothing of it.
        declared: what rows must look like, where there is a schema.
    """

    def __init__(
        self,
        terms: Terms,
        *,
        target: ArrayLike,
        noise: Noise,
        selection: Selection | None = None,
        declared: DeclaredRecords | None = None,
    ) -> None:
        super().__init__(terms, terms.consumer, consumer_rules())
        self._rows = target_rows(terms, target)
        self._noise = noise
        self._admission = Admission(terms, declared)
        wished = selection or Selection()
        self._weighted, self._folds = wished.weighted, wished.folds
        self._gamma = wished.kernel_width(self._rows)
        self.summary: Summary | None = None

    def start(self) -> Step:
        """The target, for the curator, and then its release, for each owner; asked again, the same bytes.

        The curator comes first: it is to wait for owners before the first of them answers.

        Raises:
            PartyFailed: an earlier step was not carried to its end.
        """
        return self._begin_step(self._send_target())

    def _send_target(self) -> Work:
        release = yield from released_mean(self.terms, self._rows, self._noise)
        target = Target(
            rows=self._rows,
            release=release if self.terms.protocol == "interactive" else np.empty(0),
            gamma=self._gamma,
            weighted=self._weighted,
            folds=self._folds,
        )
        told = TargetRelease(release=release)
        number = RELEASE_ROUND[self.terms.protocol]
        return (
            self._message(CURATOR, 0, target),
            *(self._message(owner, number, told) for owner in self.terms.owners),
        )

    def _check_content(self, message: Message) -> None:
        body = message.body
        if not isinstance(body, Summary) or not self._fits(body):
            raise IllegalMessage(f"{title_of_message(message)}: its parts do not fit together")
        fault = self._fault(body)
        if fault is not None:
            raise IllegalMessage(f"{title_of_message(message)}: has {fault}")

    def _handle(self, message: Message) -> Work:
        if isinstance(message.body, Summary):
            self.summary = message.body
        yield from ()  # to listen costs nothing
        return ()

    def _fault(self, body: Summary) -> str | None:
        """What is wrong with the rows of a summary, in words that say nothing about them; None if nothing is."""
        if self._admission.declared is None or not len(body.rows):
            return None
        return self._admission.fault(body.rows, body.labels, body.records)

    def _fits(self, body: Summary) -> bool:
        """Whether a summary has the form of one: what is computed from it later will not fail."""
        aligned = (body.rows, body.owners, body.handles, body.weights, body.gains, body.squared_mmds)
        places = np.concatenate([body.owners, body.absent, body.flagged])
        return (
            len({len(part) for part in aligned}) == 1
            and len(body.rows) <= self.terms.size
            and body.rows.shape[1] == self.terms.kernel.columns
            and len(body.labels) in (0, len(body.rows))
            and len(body.flagged) == len(body.reasons)
            and bool(((places >= 0) & (places < len(self.terms.owners))).all())
            and all(bool(np.isfinite(part).all()) for part in (body.rows, body.weights, body.gains, body.squared_mmds))
            and bool((body.weights >= 0.0).all())
            and all(0.0 <= number <= 1.0 for number in (body.label_weight, body.label_skill))
            and (math.isnan(body.held_out_error) or math.isfinite(body.held_out_squared_mmd + body.held_out_error))
            and not body.held_out_error < 0.0
        )
