"""A compute party of a split run: collects shares, and agrees with the others on whose offers to compute on.

What it hears is checked against what owners signed. What is wrong with an owner's part makes that offer absent; what is
wrong with another compute party's word is refused. Before all compute parties signed one roster nobody computes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from likeset.errors import BadDocument, IllegalMessage, InvalidArgument, OfferRefused, QuorumMissed
from likeset.protocol.legality import ComputeState, Sender, compute_rules, title_of_message
from likeset.protocol.messages import Body, Message
from likeset.protocol.party import Party
from likeset.protocol.split.compute_inputs import ComputeInputs
from likeset.protocol.split.run_shape import (
    inputs_digest,
    largest_word,
    offer_context,
    offer_shape,
    party_name,
    role_of,
    split_terms,
)
from likeset.protocol.split.share_checks import HeldTarget, checked_receipts, checked_target
from likeset.protocol.split.split_messages import (
    ENVELOPES_ROUND,
    RECEIPTS_ROUND,
    ROSTER_ROUND,
    Envelopes,
    OfferShare,
    PicksOpened,
    RosterVote,
    ShareReceipts,
    TargetShare,
)
from likeset.protocol.steps import Step, Work
from likeset.protocol.terms import Terms
from likeset.trust.cards import Card, CardSecret
from likeset.trust.encoding import fields
from likeset.trust.row_shares import COMPUTE_ROLES, ComputeRole, words_in
from likeset.trust.share_receipts import (
    Roster,
    ShareReceipt,
    SignedRoster,
    agreed_roster,
    dropped_owners,
    roster_of,
    sign_receipt,
    sign_roster,
)
from likeset.trust.shared_offers import OfferPart, repeated_between

__all__ = ["MOST_REACH", "ComputeParty", "PartyFault"]

MOST_REACH = 1 << 14
"""Bytes that say how a compute party is reached."""
_CALLED_ABSENT = "sent a part that is not used"


@dataclass(frozen=True, slots=True)
class PartyFault:
    """What was wrong with what a party sent, for the log; says nothing about rows."""

    party: str
    reason: str


class ComputeParty(Party):
    """Curator or witness of a split run; ``SplitConsumer`` is the third.

    Args:
        terms: of the run.
        role: of this party.
        secret: its card.
        cards: of the owners and the other compute parties that accepted, by their names in the terms.
        reach: how the others reach this party's worker; kept by its home, for a party made anew must say the same.

    Attributes:
        role: of this party.
        absent: owners of whom no part came in time.
        faults: whose messages were not used, and why.
        late: parts that came after their time and were not looked at.
        reaches: how each other compute party's worker is reached, once it voted.

    Raises:
        InvalidArgument: a card is another than the terms name.
        IllegalMessage: the curator of the run is trusted.
    """

    def __init__(
        self, terms: Terms, role: ComputeRole, *, secret: CardSecret, cards: Mapping[str, Card], reach: bytes = b""
    ) -> None:
        super().__init__(terms, party_name(terms, role), compute_rules(role))
        self._split = split_terms(terms)
        for name, card in {**cards, self.name: secret.card}.items():
            if terms.cards.get(name) != card.fingerprint:
                raise InvalidArgument("cards", card.name, f"is not the card that the terms name for {name}")
        if len(reach) > MOST_REACH:
            raise InvalidArgument("reach", f"{len(reach)} bytes", f"must have at most {MOST_REACH}")
        self.role: ComputeRole = role
        self.absent: set[str] = set()
        self.faults: list[PartyFault] = []
        self.late = 0
        self.reaches: dict[ComputeRole, bytes] = {}
        self._secret, self._cards, self._reach = secret, {**cards, self.name: secret.card}, reach
        self._shape = offer_shape(terms)
        self._peers = tuple(other for other in COMPUTE_ROLES if other != role)
        self._waiting = set(terms.owners)
        self._target: HeldTarget | None = None
        self._parts: dict[str, OfferPart] = {}
        self._signed: dict[str, ShareReceipt] = {}
        self._receipts: dict[ComputeRole, tuple[ShareReceipt, ...]] = {}
        self._votes: dict[ComputeRole, SignedRoster] = {}
        self._roster: Roster | None = None

    @property
    def waiting_for(self) -> frozenset[str]:
        """The owners whose part it still waits for; nobody once it told which parts it has."""
        return frozenset(self._waiting) if self.position.state is ComputeState.COLLECTING else frozenset()

    @property
    def is_ready(self) -> bool:
        """Whether all compute parties signed one roster, so that it may compute."""
        return self.position.state is ComputeState.READY

    @property
    def finished(self) -> bool:
        """Whether picks were opened to the consumer, and it knows: shares may be forgotten."""
        return self.position.state is ComputeState.SETTLED

    @property
    def rostered(self) -> tuple[str, ...]:
        """The owners that are computed on, in the order of the terms; nobody before there is a roster."""
        lists = {} if self._roster is None else self._roster.lists
        return tuple(name for name in self.terms.owners if self.terms.cards[name] in lists)

    @property
    def receipts(self) -> tuple[ShareReceipt, ...]:
        """Those of all compute parties so far: with a roster they prove who left an owner out."""
        return tuple(receipt for told in self._receipts.values() for receipt in told)

    def part_of(self, owner: str) -> OfferPart:
        """This party's part of an owner's offer, checked.

        Raises:
            IllegalMessage: it has none.
        """
        if owner not in self._parts:
            raise IllegalMessage(f"{self.name} has no part of an offer of {owner}")
        return self._parts[owner]

    def give_up(self, owner: str) -> Step:
        """Wait for this owner's part no longer: a late one is not used.

        Raises:
            PartyFailed: an earlier step was not carried to its end.
        """
        return self._begin_step(self._without(owner))

    def inputs(self) -> ComputeInputs:
        """What this party puts into the computation.

        Raises:
            IllegalMessage: nothing may be computed yet, or any more.
        """
        if not self.is_ready or self._roster is None or self._target is None:
            raise IllegalMessage(f"{self.name} may not compute now: {self.position.state.value}")
        split, layout = self._split, self._shape.layout
        words = np.concatenate([self._parts[owner].words(layout) for owner in self.rostered])
        target = words_in(self._target.share, width=layout.columns)
        most = largest_word(self.terms)
        return ComputeInputs(
            rank=COMPUTE_ROLES.index(self.role),
            offers=len(words),
            target_rows=len(target),
            size=self._picks,
            gamma=split.gamma,
            lows=(-most,) * layout.columns,
            highs=(most,) * layout.columns,
            program=split.program,
            digest=inputs_digest(self._roster.digest, self._target.commitments),
            offer_words=words.view(np.int64),
            target_words=target.view(np.int64),
        )

    def forget(self) -> None:
        """Drop all shares, when the run is over and nobody can ask for them any more."""
        self._parts.clear()
        self._target = None

    def _sender(self, message: Message) -> Sender:
        name, body = message.sender, message.body
        if name in self.terms.owners:
            return Sender.AWAITED if name in self.waiting_for else Sender.LATE
        if isinstance(body, TargetShare | PicksOpened) and name == self.terms.consumer:
            return Sender.CONSUMER
        if isinstance(body, Envelopes) and role_of(self.terms, name) == "curator":
            return Sender.CURATOR
        return Sender.PEER if role_of(self.terms, name) in self._peers else Sender.STRANGER

    def _check_content(self, message: Message) -> None:
        body, role = message.body, role_of(self.terms, message.sender)
        try:
            if isinstance(body, TargetShare):
                checked_target(self.terms, self.role, body)
            elif isinstance(body, ShareReceipts) and role is not None:
                checked_receipts(self.terms, role, body, card=self._compute_cards[role])
            elif isinstance(body, RosterVote) and role is not None:
                self._checked_vote(body, role)
            elif isinstance(body, PicksOpened) and body.openings != self._picks:
                raise BadDocument("end", "names another number of openings than the terms allow")
        except BadDocument as error:
            raise IllegalMessage(f"{title_of_message(message)}: {error}") from None

    def _handle(self, message: Message) -> Work:
        body, role = message.body, role_of(self.terms, message.sender)
        if isinstance(body, OfferShare):
            self._take_part(message.sender, body.part.tobytes())
        elif isinstance(body, TargetShare):
            self._target = checked_target(self.terms, self.role, body)
        elif isinstance(body, ShareReceipts) and role is not None:
            self._receipts[role] = checked_receipts(self.terms, role, body, card=self._compute_cards[role])
            if role == "consumer":
                named = {receipt.context.owner for receipt in self._receipts[role]}
                self._abandon_others(named)
        elif isinstance(body, RosterVote) and role is not None:
            self._votes[role] = self._checked_vote(body, role)
            self.reaches[role] = body.reach.tobytes()
        yield from ()  # to collect shares costs nothing
        return self._go_on()

    def _without(self, owner: str) -> Work:
        if owner not in self.waiting_for:
            return ()
        self._waiting.discard(owner)
        self.absent.add(owner)
        yield from ()
        return self._go_on()

    def _abandon_others(self, named: set[str]) -> None:
        """Owners of whom the consumer has no part are in no roster: nobody waits for them."""
        for owner in sorted(self._waiting):
            if self.terms.cards[owner] not in named:
                self._waiting.discard(owner)
                self.absent.add(owner)

    def _take_part(self, owner: str, data: bytes) -> None:
        """An owner's part; one that is refused is as if it had not come, but for the log."""
        if owner not in self.waiting_for:
            self.late += 1
            return
        self._waiting.discard(owner)
        try:
            part = OfferPart.from_bytes(data)
            context = offer_context(self.terms, owner)
            if owner not in self._cards:
                raise BadDocument("card", "the owner did not accept these terms")
            card = self._cards[owner]
            receipt = sign_receipt(self._secret, part, context=context, role=self.role, owner=card, shape=self._shape)
        except (OfferRefused, BadDocument) as error:
            self._refuse(owner, str(error))
            return
        self._parts[owner], self._signed[owner] = part, receipt

    def _refuse(self, owner: str, reason: str) -> None:
        self.faults.append(PartyFault(owner, f"{_CALLED_ABSENT}: {reason}"))
        self._parts.pop(owner, None)
        self._signed.pop(owner, None)

    def _has_collected(self) -> bool:
        """Whether it can tell which parts it has."""
        if self.role != "consumer" and "consumer" not in self._receipts:
            return False
        return self._target is not None and not self._waiting

    def _go_on(self) -> list[Message]:
        """Every step that is due."""
        replies: list[Message] = []
        if self.position.state is ComputeState.COLLECTING and self._has_collected():
            replies += self._tell_receipts()
        if self.position.state is ComputeState.COUNTED and len(self._receipts) == 1 + len(self._peers):
            replies += self._vote()
        if self.position.state is ComputeState.VOTED and len(self._votes) == 1 + len(self._peers):
            replies += self._agree()
        return replies

    def _tell_receipts(self) -> list[Message]:
        for pair in repeated_between(self._parts, self._shape):
            for owner in pair:
                self._refuse(owner, "it repeats what another owner drew, or another owner repeats it")
        receipts = tuple(self._signed[owner] for owner in self.terms.owners if owner in self._signed)
        self._receipts[self.role] = receipts
        self._move(ComputeState.COUNTED)
        told = fields(*(receipt.to_bytes() for receipt in receipts))
        return self._to_peers(RECEIPTS_ROUND, ShareReceipts(receipts=np.frombuffer(told, dtype=np.uint8)))

    def _vote(self) -> list[Message]:
        """Sign the roster that follows from all receipts."""
        roster = roster_of(self.receipts, terms=bytes.fromhex(self.terms.digest), parties=self._parties)
        if len(roster.lists) < self.terms.quorum:
            raise QuorumMissed(
                f"{len(roster.lists)} of {len(self.terms.owners)} owners took part; the terms ask for "
                f"{self.terms.quorum}"
            )
        self._log_left_out(roster)
        self._roster = roster
        vote = self._votes[self.role] = sign_roster(self._secret, roster, self.role)
        self._move(ComputeState.VOTED)
        signed_bytes = np.frombuffer(vote.to_bytes(), dtype=np.uint8)
        reach = np.frombuffer(self._reach, dtype=np.uint8)
        return self._to_peers(ROSTER_ROUND, RosterVote(roster=signed_bytes, reach=reach))

    def _log_left_out(self, roster: Roster) -> None:
        """Who acknowledged an offer that is not computed on, and who did not: nobody is left out in silence."""
        signers: dict[str, set[ComputeRole]] = {}
        for receipt in self.receipts:
            signers.setdefault(receipt.context.owner, set()).add(receipt.role)
        for owner in self.terms.owners:
            signed_by = signers.get(self.terms.cards[owner], set())
            missing = [role for role in COMPUTE_ROLES if role not in signed_by]
            if not signed_by or self.terms.cards[owner] in roster.lists or owner in {f.party for f in self.faults}:
                continue
            reason = f"{' and '.join(missing)} acknowledged no part of it" if missing else "it signed different lists"
            self.faults.append(PartyFault(owner, f"its offer is not computed on: {reason}"))

    def _agree(self) -> list[Message]:
        """All signed: the same, or somebody told different parties different things, and nobody computes."""
        try:
            agreed_roster(self._votes.values(), self._compute_cards)
        except BadDocument as error:
            raise IllegalMessage(f"run {self.terms.run}: {error}; nothing is computed") from None
        self._move(ComputeState.READY)
        if self.role != "curator":
            return []
        envelopes = b"".join(self._parts[owner].envelopes for owner in self.rostered)
        body = Envelopes(envelopes=np.frombuffer(envelopes, dtype=np.uint8))
        return [self._message(self.terms.consumer, ENVELOPES_ROUND, body)]

    def _checked_vote(self, body: RosterVote, role: ComputeRole) -> SignedRoster:
        vote = SignedRoster.from_bytes(body.roster.tobytes())
        if len(body.reach) > MOST_REACH:
            raise BadDocument("roster", "says at too great length how its signer is reached")
        if vote.role != role or not vote.is_signed_by(self._compute_cards[role]):
            raise BadDocument("roster", f"the {role} did not sign it")
        if dropped_owners(vote, self.receipts, self._compute_cards):
            raise BadDocument("roster", "leaves out an owner, or a list, that all compute parties acknowledged")
        if self._roster is not None and vote.roster.digest != self._roster.digest:
            raise BadDocument("roster", "is not the one that follows from the receipts")
        return vote

    @property
    def _picks(self) -> int:
        """How many slots will be opened: as many as the terms allow, or all that there are."""
        return min(self._split.openings, self._shape.slots * len(self.rostered))

    @property
    def _parties(self) -> tuple[str, ...]:
        return tuple(self.terms.cards[party_name(self.terms, role)] for role in COMPUTE_ROLES)

    @property
    def _compute_cards(self) -> dict[ComputeRole, Card]:
        named = {role: self._cards.get(party_name(self.terms, role)) for role in COMPUTE_ROLES}
        return {role: card for role, card in named.items() if card is not None}

    def _to_peers(self, round_number: int, body: Body) -> list[Message]:
        return [self._message(party_name(self.terms, role), round_number, body) for role in self._peers]

    def _move(self, state: ComputeState) -> None:
        self._position = self._rules.after_move(self._position, state)
