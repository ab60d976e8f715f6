"""``sealed``, our default: owners hear one release and nothing else; the curator selects exactly.

An owner hears the release of the target (or nothing at all, with uniform offers), tilts its own rows toward it, and
sends a fixed number of them to the curator alone. With everyone asked, nothing that an owner hears depends on any other
owner's rows: the transcripts are identical, not merely close. With very many owners a single threshold auction on
how well each could match decides who is asked.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.errors import IllegalMessage
from likeset.geometry.tilt import Drawing
from likeset.ledger import Request
from likeset.mechanisms import auction, gaussian_mean
from likeset.privacy.events import Event, Release, Simulated, Unbounded
from likeset.privacy.noise import Noise
from likeset.privacy.view import View
from likeset.protocol.curator import Charges, Curator, Held, is_number
from likeset.protocol.declarations import Declared
from likeset.protocol.messages import Asked, Message, Misfit, Offer, Target, TargetRelease, Vector, decode, encode
from likeset.protocol.offers import OfferKeys, Weighing, draw_offer, fit_drawing, weigh
from likeset.protocol.owner import Owner, key_in_run
from likeset.protocol.party import CURATOR
from likeset.protocol.plans import auction_plan, target_plan
from likeset.protocol.terms import Terms

__all__ = ["SealedCurator", "SealedOwner", "foreseen_sample"]

_RELEASE, _ANSWER = 1, 2  # rounds
_FIT = "fit"


def foreseen_sample(run: str, key: int) -> Drawing:
    """The draw with which an owner of this key begins its answer, known before it hears anything."""
    return fit_drawing(key_in_run(key, run, _FIT))


class SealedOwner(Owner):
    """Offers rows that look like the target, as far as the release tells."""

    opening_round = _RELEASE
    _weighing: Weighing | None = None

    def _handle(self, message: Message) -> Sequence[Message]:
        self._check_sender(message)
        body = message.body
        if isinstance(body, TargetRelease) and message.round == self.opening_round and self._weighing is None:
            self._check_release(self.terms, message, body)
            return self._hear(message, body.release)
        if isinstance(body, Asked) and message.round == _ANSWER and self._weighing is not None and self._auctioned:
            return (self._sealed_offer(message, self._weighing),) if body.asked else ()
        raise IllegalMessage(f"{self._named(message)}: may not come now")

    @property
    def _auctioned(self) -> bool:
        return self.terms.auction != "everyone"

    def _hear(self, message: Message, release: Vector) -> Sequence[Message]:
        plan = target_plan(self.terms)
        weighing = weigh(
            self.terms,
            self._scan,
            release if plan else None,
            noise=plan.standard_deviation if isinstance(plan, gaussian_mean.GaussianPlan) else 0.0,
            keys=self._keys,
        )
        if self._auctioned:
            reply = self._message(CURATOR, _RELEASE, Misfit(misfit=weighing.misfit))
        else:
            reply = self._sealed_offer(message, weighing)
        self._weighing = weighing
        return (reply,)

    @property
    def _keys(self) -> OfferKeys:
        return OfferKeys(
            fit=self._derived_key(_FIT), tilted=self._derived_key("offer"), uniform=self._derived_key("hedge")
        )

    def _sealed_offer(self, message: Message, weighing: Weighing) -> Message:
        """The offer, charged before it leaves and kept so that it can be sent again.

        The draw follows from the owner's key. So the offer is drawn and written before the charge, and what turns out
        to be unusable, or too large to be sent, costs nothing; and after a crash the same draw is made again for the
        same charge. What leaves is what the ledger keeps, which is what was sent before if anything was.
        """
        drawn = draw_offer(self.terms, self._scan, weighing, keys=self._keys)
        written = encode(self._message(CURATOR, message.round, self._offer(drawn)))
        data = self._ledger.answer(
            View.curator(self.name),
            Unbounded("rows are seen by the curator"),
            lambda: (written, None),
            request=Request(self.terms.run, message.round, f"{self.name}/offer", content=encode(message)),
            rows=self.terms.rows_per_owner,
            unfinished="resume",
        )
        reply = decode(data)
        if isinstance(reply.body, Offer):
            self.rows_disclosed = len(reply.body.rows)
        return reply


class SealedCurator(Curator):
    """Passes the release on, takes one offer from each owner asked, and selects exactly."""

    def __init__(self, terms: Terms, *, ledger: Charges, noise: Noise, declared: Declared | None = None) -> None:
        super().__init__(terms, ledger=ledger, noise=noise, declared=declared)
        self._misfits: dict[str, float] = {}
        self._held: dict[str, Offer] = {}
        self._asking = terms.auction != "everyone"
        self._asked = set(terms.owners)

    @property
    def offered_rows(self) -> Rows | None:
        """The rows that were offered and believed."""
        if self.terms.hashing is not None or not self._held:
            return None
        return np.concatenate([offer.rows for offer in self._held.values()])

    def _begin(self, target: Target) -> Sequence[Message]:
        self._waiting = set(self.terms.owners)
        call = TargetRelease(release=target.release)
        return [self._message(owner, _RELEASE, call) for owner in self.terms.owners]

    def _take(self, message: Message) -> None:
        body = message.body
        if self._asking and isinstance(body, Misfit) and message.round == _RELEASE:
            if is_number(body.misfit) and body.misfit >= 0.0:
                self._misfits[message.sender] = body.misfit
            else:
                self._flag(message.sender, "sent a misfit that is no squared distance")
            return
        expected = _RELEASE if self.terms.auction == "everyone" else _ANSWER
        if self._asking or not isinstance(body, Offer) or message.round != expected:
            raise IllegalMessage(f"{self._named(message)}: may not come now")
        self.rows_seen += len(body.rows)
        fault = self._fault(body, most=self.terms.rows_per_owner)
        if message.sender not in self._asked:
            self._flag(message.sender, "sent rows that nobody asked for")
        elif fault:
            self._flag(message.sender, fault)
        else:
            self._held[message.sender] = body

    def _step(self) -> Sequence[Message]:
        if self._asking:
            return self._ask()
        return [self._select()]

    def _ask(self) -> Sequence[Message]:
        """One auction, drawn once; everybody gets an answer of the same length."""
        asked = self._draw_auction()
        self._asking = False
        self._asked = {owner for owner, yes in zip(self.terms.owners, asked, strict=True) if yes} & set(self._misfits)
        # Where nobody was asked the run will fail, but not before all have their answers: else whoever got a no would
        # know that somebody else got a yes. So everybody is waited for, in vain.
        self._waiting = set(self._asked or self.terms.owners)
        return [
            self._message(owner, _ANSWER, Asked(asked=bool(yes)))
            for owner, yes in zip(self.terms.owners, asked, strict=True)
        ]

    def _draw_auction(self) -> NDArray[np.bool_]:
        plan = auction_plan(self.terms)
        event: Event = plan.event if self._noise.private else Simulated(plan.event)
        bids = auction.Bids(
            values=tuple(-self._misfits[name] if name in self._misfits else None for name in self.terms.owners),
            waited=(1,) * len(self.terms.owners),
        )

        def run() -> tuple[bytes, Release[NDArray[np.bool_]]]:
            drawn = auction.run(plan, bids, self._noise)
            return np.packbits(drawn.value).tobytes(), drawn

        first, *others = (View.owners(owner) for owner in self.terms.owners)
        data = self._ledger.answer(
            first,
            event,
            run,
            request=Request(self.terms.run, _ANSWER, "curator/auction", content=self._digest.encode()),
            also=[(view, event) for view in others],
        )
        return np.unpackbits(np.frombuffer(data, dtype=np.uint8), count=len(self.terms.owners)).astype(bool)

    def _select(self) -> Message:
        if self._target is None:
            raise IllegalMessage("there is no target to select for")
        taking_part = len(self._held) if self.terms.auction == "everyone" else len(self._misfits)
        self._check_quorum(taking_part)
        places = {name: place for place, name in enumerate(self.terms.owners)}
        held = [Held(places[name], self._held[name]) for name in self.terms.owners if name in self._held]
        sent = [one for one in held if len(one.offer.rows)]
        held = self._drop_odd_labels(sent)
        self._check_quorum(taking_part - (len(sent) - len(held)) if held else 0)
        pool = np.concatenate([one.offer.rows for one in held])
        select = self._selection.select_hashed if self.terms.hashing else self._selection.select
        return self._summary(held, select(pool, self._target, self.terms.size))
