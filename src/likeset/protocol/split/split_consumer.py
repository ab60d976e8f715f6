"""The consumer of a split run: shares its target, releases its mean once, computes, and opens what it bought."""

import hashlib
import os
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from likeset.arguments import Rows
from likeset.errors import BadDocument, IllegalMessage, InvalidArgument
from likeset.geometry.weights import weights
from likeset.privacy.guarantee import View
from likeset.privacy.noise import Noise
from likeset.protocol.consumer import released_mean, target_rows
from likeset.protocol.legality import RELEASE_ROUND, ComputeState
from likeset.protocol.messages import Message, Summary, TargetRelease
from likeset.protocol.plans import size_event
from likeset.protocol.selection import Selection
from likeset.protocol.split.bought_summary import Bought, buy
from likeset.protocol.split.compute_inputs import OpenedSlots
from likeset.protocol.split.compute_party import ComputeParty
from likeset.protocol.split.run_shape import party_name, split_terms, target_commitment
from likeset.protocol.split.share_checks import HeldTarget
from likeset.protocol.split.slot_records import records_of_run
from likeset.protocol.split.split_messages import OPENED_ROUND, TARGET_ROUND, Envelopes, PicksOpened, TargetShare
from likeset.protocol.steps import ChargeWanted, PricedDraw, Step, Work
from likeset.protocol.terms import Terms
from likeset.tables.records import DeclaredRecords
from likeset.trust.cards import Card, CardSecret
from likeset.trust.encoding import fields, read_tagged
from likeset.trust.offer_lists import SALT_BYTES
from likeset.trust.row_shares import COMPUTE_ROLES, fixed_point, joined_shares, split_words, word_bytes, words_in

__all__ = ["NOTHING_HELD", "SplitConsumer"]

NOTHING_HELD = "none of the rows that were picked opened to a record"
"""Why there is no summary although picks were opened."""
_KEPT_TAG = b"likeset shared target"


class SplitConsumer(ComputeParty):
    """Holds the target; shares it once, for good; receives index and r of each pick, and with them its rows.

    Args:
        terms: of the run.
        target: rows to match.
        noise: where the noise of the release comes from.
        secret: the consumer's card.
        cards: of the owners and the other compute parties that accepted, by their names in the terms.
        selection: whether to weigh rows that were bought; its kernel is that of the terms.
        declared: what rows must look like, where there is a schema.
        reach: how the others reach this party's worker.

    Attributes:
        summary: what was bought, in the form that a trusted curator would have sent; None before that.
        lost_picks: picks that named no slot: damage that no owner answers for.
        unopened_picks: by owner, how many picks were left out because they did not open to a record.

    Raises:
        InvalidArgument: the target does not have the shape of the terms, or has numbers beyond what they allow.
    """

    def __init__(
        self,
        terms: Terms,
        *,
        target: ArrayLike,
        noise: Noise,
        secret: CardSecret,
        cards: Mapping[str, Card],
        selection: Selection | None = None,
        declared: DeclaredRecords | None = None,
        reach: bytes = b"",
    ) -> None:
        super().__init__(terms, "consumer", secret=secret, cards=cards, reach=reach)
        self._rows = target_rows(terms, target)
        if float(np.abs(self._rows).max()) > terms.kernel.largest:
            reason = f"has numbers beyond the {terms.kernel.largest:g} that the terms allow; scale it down"
            raise InvalidArgument("target", f"array of shape {self._rows.shape}", reason)
        self._noise = noise
        self._weighted = selection is not None and selection.weighted
        self._records = records_of_run(terms, declared)
        self._envelopes: dict[str, dict[int, bytes]] | None = None
        self.summary: Summary | None = None
        self.lost_picks = 0
        self.unopened_picks: dict[str, int] = {}

    def start(self) -> Step:
        """The target's shares, for the other compute parties, and then its release, for each owner.

        Asked again, the same bytes.

        Raises:
            PartyFailed: an earlier step was not carried to its end.
            InvalidArgument: the run began with another target.
        """
        return self._begin_step(self._send_target())

    @property
    def is_ready(self) -> bool:
        """Whether it may compute: all signed one roster, and every envelope of it is there and as owners signed."""
        return super().is_ready and self._envelopes is not None

    def opened(self, picks: OpenedSlots) -> Step:
        """What the computation opened: makes the summary, and tells the others that it is over.

        Where no pick gave a record there is no summary, and the others are told the same: it would tell a curator with
        owners who lie that every pick fell on them.

        Raises:
            IllegalMessage: nothing was to be computed.
        """
        if not self.is_ready:
            raise IllegalMessage(f"{self.name} may not open anything now: {self.position.state.value}")
        return self._begin_step(self._buy(picks))

    def _send_target(self) -> Work:
        shares = yield from self._shared_target()
        release = yield from released_mean(self.terms, self._rows, self._noise)
        told = TargetRelease(release=release)
        number = RELEASE_ROUND[self.terms.protocol]
        return (
            *(self._message(party_name(self.terms, role), TARGET_ROUND, shares[role]) for role in self._peers),
            *(self._message(owner, number, told) for owner in self.terms.owners),
        )

    def _shared_target(self) -> PricedDraw[dict[str, TargetShare]]:
        """Shares of the target, drawn once: whatever happens later, the run is about this target."""
        words, roles = fixed_point(self._rows), COMPUTE_ROLES

        def draw() -> tuple[bytes, None]:
            shares = [word_bytes(share) for share in split_words(words)]
            return fields(_KEPT_TAG, *shares, *(os.urandom(SALT_BYTES) for _ in roles)), None

        kept = yield ChargeWanted(
            costs=((View.owners(self.name), size_event(self.terms.relation)),),
            draw=draw,
            run=self.terms.run,
            round=TARGET_ROUND,
            kind=f"{self.name}/target-shares",
            content=self._digest.encode(),
            repeatable=True,  # nothing left before it was kept
        )
        parts = read_tagged(_KEPT_TAG, kept, 2 * len(roles))
        shares, salts = parts[: len(roles)], parts[len(roles) :]
        if not np.array_equal(joined_shares([words_in(share, width=words.shape[1]) for share in shares]), words):
            reason = "is another one than this run began with; go on with that one, or begin a new run"
            raise InvalidArgument("target", f"array of shape {words.shape}", reason)
        each = [
            target_commitment(self.terms, role, salt=salt, share=share)
            for role, salt, share in zip(roles, salts, shares, strict=True)
        ]
        self._target = HeldTarget(shares[roles.index(self.role)], tuple(each))
        commitments = np.frombuffer(b"".join(each), dtype=np.uint8)
        return {
            role: TargetShare(
                share=np.frombuffer(share, dtype=np.uint8),
                salt=np.frombuffer(salt, dtype=np.uint8),
                commitments=commitments,
            )
            for role, salt, share in zip(roles, salts, shares, strict=True)
        }

    def _check_content(self, message: Message) -> None:
        super()._check_content(message)
        if isinstance(message.body, Envelopes):
            try:
                self._checked_envelopes(message.body)
            except BadDocument as error:
                raise IllegalMessage(f"{message.body.kind} message of {message.sender}: {error}") from None

    def _handle(self, message: Message) -> Work:
        if isinstance(message.body, Envelopes):
            self._envelopes = self._checked_envelopes(message.body)
        return (yield from super()._handle(message))

    def _checked_envelopes(self, body: Envelopes) -> dict[str, dict[int, bytes]]:
        """By owner and slot; every one of them is that of the owner's list, for which the curator signed."""
        size, slots, data = self._shape.envelope_bytes, self._shape.slots, body.envelopes.tobytes()
        if len(data) != size * slots * len(self.rostered):
            raise BadDocument("envelopes", "are not as many as the roster's owners have slots")
        whole: dict[str, dict[int, bytes]] = {}
        for place, owner in enumerate(self.rostered):
            start = size * slots * place
            mine = {slot: data[start + size * slot : start + size * (slot + 1)] for slot in range(slots)}
            for slot, envelope in mine.items():
                if hashlib.sha256(envelope).digest() != self._parts[owner].digests_of(slot).envelope:
                    raise BadDocument("envelopes", f"one of {owner} is not that of the owner's list")
            whole[owner] = mine
        return whole

    def _buy(self, picks: OpenedSlots) -> Work:
        owners = self.rostered
        bought = buy(
            [self._parts[owner] for owner in owners],
            picks,
            envelopes=[(self._envelopes or {})[owner] for owner in owners],
            shape=self._shape,
            records=self._records,
        )
        self.lost_picks = bought.lost
        self.unopened_picks = {owners[place]: sum(faults.values()) for place, faults in sorted(bought.faults.items())}
        self.summary = self._summary(bought) if bought.records else None
        self._move(ComputeState.SETTLED)
        yield from ()  # the rows were charged by their owners
        return self._to_peers(OPENED_ROUND, PicksOpened(openings=self._picks))

    def _summary(self, bought: Bought) -> Summary:
        """As a trusted curator would have sent it; likeness on new rows stays unknown: that needs all offers."""
        held = self._records.bought(bought.records)
        selection = Selection(gamma=split_terms(self.terms).gamma)
        judged, rows = selection.judge(held.rows, self._rows), np.asarray(held.rows, dtype=np.float32)
        places = {name: number for number, name in enumerate(self.terms.owners)}
        owners = self.rostered
        reasons = {places[fault.party]: fault.reason for fault in self.faults if fault.party in places}
        reasons |= {places[owners[place]]: _in_words(faults) for place, faults in bought.faults.items()}
        absent = {places[name] for name in self.terms.owners if name not in owners} - set(reasons)
        return Summary(
            rows=rows,
            labels=held.labels,
            owners=np.array([places[owners[place]] for place in bought.owners], dtype=np.int64),
            handles=held.handles,
            weights=self._weights(rows) if self._weighted else judged.weights,
            gains=judged.gains,
            squared_mmds=judged.squared_mmds,
            rows_seen=self._shape.slots * len(owners),
            absent=np.array(sorted(absent), dtype=np.int64),
            flagged=np.array(sorted(reasons), dtype=np.int64),
            reasons=np.array([reasons[place] for place in sorted(reasons)], dtype=np.str_),
            records=np.frombuffer(held.packed, dtype=np.uint8),
        )

    def _weights(self, rows: Rows) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return weights(rows, self._rows, gamma=split_terms(self.terms).gamma)


def _in_words(faults: Mapping[str, int]) -> str:
    return "; ".join(f"{count} rows that were picked were left out: {reason}" for reason, count in faults.items())
