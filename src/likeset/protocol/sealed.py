"""``sealed``, our default: owners hear one release and nothing else; the curator selects exactly.

An owner hears the release of the target (or nothing at all, with uniform offers), tilts its own rows toward it, and
sends a fixed number of them to the curator alone. With everyone asked, nothing that an owner hears depends on any other
owner's rows: the transcripts are identical, not merely close. With very many owners a single threshold auction on
how well each could match decides who is asked.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.errors import IllegalMessage
from likeset.geometry.offers import Drawing
from likeset.privacy import auction, gaussian_mean
from likeset.privacy.events import Release, Unbounded
from likeset.privacy.guarantee import View
from likeset.privacy.noise import Noise
from likeset.protocol.cross_fitting import HeldOut, cross_fit
from likeset.protocol.curator import Curator, Held, is_number, join_labels
from likeset.protocol.legality import RELEASE_ROUND, CuratorState
from likeset.protocol.message_arrays import Labels, Vector
from likeset.protocol.messages import Asked, Message, Misfit, Offer, Target, TargetRelease, decode
from likeset.protocol.offers import OfferKeys, Weighing, draw_offer, fit_drawing, weigh
from likeset.protocol.owner import Owner, key_in_run
from likeset.protocol.party import CURATOR
from likeset.protocol.plans import auction_plan, target_plan
from likeset.protocol.selection import Selected
from likeset.protocol.steps import ChargeWanted, PricedDraw, Work
from likeset.protocol.terms import Terms
from likeset.tables.records import DeclaredRecords

__all__ = ["SealedCurator", "SealedOwner", "foreseen_sample"]

_RELEASE, _ANSWER = RELEASE_ROUND["sealed"], 2  # rounds
_FIT = "fit"


def foreseen_sample(run: str, key: int) -> Drawing:
    """The draw with which an owner of this key begins its answer, known before it hears anything."""
    return fit_drawing(key_in_run(key, run, _FIT))


class SealedOwner(Owner):
    """Offers rows that look like the target, as far as the release tells."""

    _weighing: Weighing | None = None

    def _handle(self, message: Message) -> Work:
        if isinstance(message.body, TargetRelease):
            weighing = self._weighing = self._weigh(message.body.release)
            if self.terms.auction != "everyone":
                return (self._message(CURATOR, _RELEASE, Misfit(misfit=weighing.misfit)),)
            return (yield from self._sealed_offer(message, weighing))
        if isinstance(message.body, Asked) and message.body.asked and self._weighing is not None:
            return (yield from self._sealed_offer(message, self._weighing))
        return ()

    def _weigh(self, release: Vector) -> Weighing:
        plan = target_plan(self.terms)
        return weigh(
            self.terms,
            self._scan,
            release if plan else None,
            noise=plan.standard_deviation if isinstance(plan, gaussian_mean.GaussianPlan) else 0.0,
            keys=self._keys,
        )

    @property
    def _keys(self) -> OfferKeys:
        return OfferKeys(
            fit=self._derived_key(_FIT), tilted=self._derived_key("offer"), uniform=self._derived_key("hedge")
        )

    def _sealed_offer(self, message: Message, weighing: Weighing) -> Work:
        """The offer, charged before it leaves and kept so that it can be sent again.

        The draw follows from the owner's key. So the offer is drawn and written before the charge, and what turns out
        to be unusable, or too large to be sent, costs nothing; and after a crash the same draw is made again for the
        same charge. What leaves is what the ledger keeps, which is what was sent before if anything was.
        """
        drawn = draw_offer(self.terms, self._scan, weighing, keys=self._keys)
        offer = self._message(CURATOR, message.round, self._offer(drawn))
        offer_bytes = offer.data
        kept = yield ChargeWanted(
            costs=((View.curator(self.name), Unbounded("rows are seen by the curator")),),
            draw=lambda: (offer_bytes, None),
            run=self.terms.run,
            round=message.round,
            kind=f"{self.name}/offer",
            content=message.data,
            rows=self.terms.rows_per_owner,
            repeatable=True,
        )
        reply = offer if kept == offer_bytes else decode(kept)
        if isinstance(reply.body, Offer):
            self.rows_disclosed = len(reply.body.rows)
        return (reply,)


class SealedCurator(Curator):
    """Takes one offer from each owner asked, and selects exactly.

    Args:
        terms: of the run.
        noise: as every curator has it.
        fold_key: the curator's secret for this run, which draws the folds of the target. Numbers in the summary that
            depend on rows outside it are then rounded. None where all parties are in one process.
        declared: as every curator has it.
    """

    def __init__(
        self, terms: Terms, *, noise: Noise, fold_key: int | None, declared: DeclaredRecords | None = None
    ) -> None:
        super().__init__(terms, noise=noise, declared=declared)
        self._fold_key = fold_key
        self._misfits: dict[str, float] = {}
        self._held: dict[str, Offer] = {}
        self._asked = set(terms.owners)

    @property
    def offered_rows(self) -> Rows | None:
        """The rows that were offered and believed."""
        if not self._held:
            return None
        return np.concatenate([offer.rows for offer in self._held.values()])

    def _begin(self, target: Target) -> Work:  # noqa: ARG002 (owners hear of it from the consumer)
        self._waiting = set(self.terms.owners)
        yield from ()  # nothing is charged: the consumer was, for the release
        return ()

    def _take(self, message: Message) -> None:
        body = message.body
        if isinstance(body, Misfit):
            if is_number(body.misfit) and body.misfit >= 0.0:
                self._misfits[message.sender] = body.misfit
            else:
                self._flag(message.sender, "sent a misfit that is no squared distance")
        elif isinstance(body, Offer):
            self.rows_seen += len(body.rows)
            fault = self._fault(body, most=self.terms.rows_per_owner)
            if message.sender not in self._asked:
                self._flag(message.sender, "sent rows that nobody asked for")
            elif fault:
                self._flag(message.sender, fault)
            else:
                self._held[message.sender] = body

    def _go_on(self) -> Work:
        if self.position.state is CuratorState.MISFITS:
            return (yield from self._ask())
        return [self._select()]

    def _ask(self) -> Work:
        """One auction, drawn once; everybody gets an answer of the same length."""
        asked = yield from self._draw_auction()
        self._move(CuratorState.OFFERS)
        self._asked = {owner for owner, yes in zip(self.terms.owners, asked, strict=True) if yes} & set(self._misfits)
        # Where nobody was asked the run will fail, but not before all have their answers: else whoever got a no would
        # know that somebody else got a yes. So everybody is waited for, in vain.
        self._waiting = set(self._asked or self.terms.owners)
        return [
            self._message(owner, _ANSWER, Asked(asked=bool(yes)))
            for owner, yes in zip(self.terms.owners, asked, strict=True)
        ]

    def _draw_auction(self) -> PricedDraw[NDArray[np.bool_]]:
        plan = auction_plan(self.terms)
        bids = auction.Bids(
            values=tuple(-self._misfits[name] if name in self._misfits else None for name in self.terms.owners),
            waited=(1,) * len(self.terms.owners),
        )

        def draw() -> tuple[bytes, Release[NDArray[np.bool_]]]:
            drawn = auction.run(plan, bids, self._noise)
            return np.packbits(drawn.value).tobytes(), drawn

        kept = yield self._charge_to_owners("auction", plan.event, draw, round_number=_ANSWER)
        return np.unpackbits(np.frombuffer(kept, dtype=np.uint8), count=len(self.terms.owners)).astype(bool)

    def _select(self) -> Message:
        if self._target is None:
            raise IllegalMessage("there is no target to select for")
        taking_part = len(self._held) if self.terms.auction == "everyone" else len(self._misfits)
        self._check_quorum(taking_part)
        places = {name: number for number, name in enumerate(self.terms.owners)}
        held = [Held(places[name], self._held[name]) for name in self.terms.owners if name in self._held]
        sent = [holding for holding in held if len(holding.offer.rows)]
        held = self._drop_odd_labels(sent)
        self._check_quorum(taking_part - (len(sent) - len(held)) if held else 0)
        pool = np.concatenate([holding.offer.rows for holding in held])
        selected, self.held_out = self._chosen(pool, self._target, join_labels(held))
        if self._fold_key is None:
            return self._summary(held, selected, self.held_out)
        return self._summary(held, _rounded(selected), self.held_out and self.held_out.rounded)

    def _chosen(self, pool: Rows, target: Rows, labels: Labels) -> tuple[Selected, HeldOut | None]:
        """What is selected of the pool, and how like rows of the target it is that were not seen."""
        chances = self._selection.class_chances(pool, target, labels) if self.terms.labels == "match" else None
        selected = self._selection.select(pool, target, self.terms.size, chances=chances)
        return selected, cross_fit(
            self._selection, pool, target, selected, fold_key=self._fold_key or 0, chances=chances
        )


def _rounded(selected: Selected) -> Selected:
    """With few digits of the numbers that depend on the labels of all offers.

    Gains and squared MMDs follow from the selected rows and the target; so do weights where labels did not count.
    """
    weights = selected.weights
    if selected.label_weight > 0.0:
        weights = np.round(weights / weights.mean(), 2)
        weights /= weights.sum()
    return replace(
        selected,
        weights=weights,
        label_weight=round(selected.label_weight, 2),
        label_skill=round(selected.label_skill, 2),
    )
