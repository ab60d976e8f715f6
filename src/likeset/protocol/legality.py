"""Which message may come when: all of it, as tables.

A party stands in a state and a round. A message may come if the party's table has a turn for that state and the
message's kind, and if sender and round are those of the turn; then the party stands where the turn says. The curator
also moves by itself, once it has all the answers that it waits for: a second table says from where to where.

An owner whom the curator no longer waits for is late. Whatever owners say in a run may come late, in any state and of
any round; it is heard and not used.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from likeset.errors import IllegalMessage
from likeset.protocol.messages import (
    Asked,
    Bid,
    Delivery,
    Message,
    Misfit,
    Offer,
    Summary,
    SummaryRelease,
    Target,
    TargetRelease,
)
from likeset.protocol.split.split_messages import (
    ENVELOPES_ROUND,
    OFFER_ROUND,
    OPENED_ROUND,
    RECEIPTS_ROUND,
    ROSTER_ROUND,
    TARGET_ROUND,
    Envelopes,
    OfferShare,
    PicksOpened,
    RosterVote,
    ShareReceipts,
    TargetShare,
)
from likeset.protocol.terms import Terms
from likeset.trust.row_shares import ComputeRole

__all__ = [
    "RELEASE_ROUND",
    "ComputeState",
    "ConsumerState",
    "CuratorState",
    "OwnerState",
    "Position",
    "RoundRule",
    "Rules",
    "Sender",
    "State",
    "Turn",
    "compute_rules",
    "consumer_rules",
    "curator_rules",
    "last_call",
    "owner_rules",
    "title_of_message",
]


class OwnerState(Enum):
    """What an owner did last."""

    INVITED = "heard nothing yet"
    WEIGHED = "told its misfit, and may be asked"
    OPENED = "heard the target's release, or whether it is asked; the next round may begin"
    BID = "bid a row, and may be asked"
    ANSWERED = "has no more to say"


class CuratorState(Enum):
    """What the curator waits for."""

    TARGET = "the target"
    MISFITS = "misfits"
    OFFERS = "offers"
    OPENED = "nothing: the first round opens"
    BIDS = "bids"
    DELIVERIES = "rows that were asked for"
    FINISHED = "nothing: the summary is made"


class ConsumerState(Enum):
    """Whether the consumer has its summary."""

    WAITING = "not yet"
    SERVED = "it has"


class ComputeState(Enum):
    """How far a compute party of a split run is."""

    COLLECTING = "waits for parts of offers"
    COUNTED = "told of whose offers it has its part, and waits for the others to tell"
    VOTED = "signed the roster, and waits for the others' signatures"
    READY = "may compute"
    SETTLED = "nothing more: picks were opened to the consumer"


State = OwnerState | CuratorState | ConsumerState | ComputeState


class Sender(Enum):
    """Who speaks, as its hearer sees it."""

    CURATOR = auto()
    CONSUMER = auto()
    AWAITED = auto()  # an owner whose answer the curator waits for
    LATE = auto()  # an owner whose answer it waited for, and no longer does
    OWNER = auto()  # any other owner
    PEER = auto()  # another compute party, in that capacity
    STRANGER = auto()


class RoundRule(Enum):
    """Of which round a message must be, where it is no fixed one."""

    SAME = auto()
    NEXT = auto()  # and no later than the last


@dataclass(frozen=True, slots=True)
class Turn:
    """Who may say something, of which round, and where its hearer stands then."""

    sender: Sender
    round: int | RoundRule
    then: State


@dataclass(frozen=True, slots=True)
class Position:
    """Where a party stands.

    Attributes:
        state: what it did last, or waits for.
        round: of what it heard, or opened, last.
    """

    state: State
    round: int = 0


_NOT_NOW = "may not come now"


@dataclass(frozen=True, eq=False)
class Rules:
    """When a party hears what.

    Attributes:
        start: where it begins.
        turns: by state and kind of message.
        moves: those that it makes by itself, each with its round.
        last_round: no round is later.
        by_kind: why a message of a kind is refused; and
        by_sender: of a sender; and
        otherwise: any other.
    """

    start: State
    turns: Mapping[tuple[State, str], Turn]
    moves: Mapping[tuple[State, State], RoundRule] = field(default_factory=dict)
    last_round: int | None = None
    by_kind: Mapping[str, str] = field(default_factory=dict)
    by_sender: Mapping[Sender, str] = field(default_factory=dict)
    otherwise: str = _NOT_NOW

    def after(self, position: Position, message: Message, sender: Sender) -> Position:
        """Where a party stands after a message.

        Raises:
            IllegalMessage: it may not come now, or from there.
        """
        kind = message.body.kind
        if sender is Sender.LATE and any(
            kind == said and turn.sender is Sender.AWAITED for (_, said), turn in self.turns.items()
        ):
            return position
        turn = self.turns.get((position.state, kind))
        if turn is None or turn.sender is not sender or not self._is_round(turn.round, position, message.round):
            raise IllegalMessage(f"{title_of_message(message)}: {self._reason(message, sender)}")
        return Position(turn.then, message.round)

    def after_move(self, position: Position, state: State) -> Position:
        """Where a party stands that moves by itself.

        Raises:
            ValueError: it may not; that is a mistake in the party.
        """
        rule = self.moves.get((position.state, state))
        number = position.round + (rule is RoundRule.NEXT)
        if rule is None or not self._is_round(rule, position, number):
            raise ValueError(f"no move leads from {position} to {state}")
        return Position(state, number)

    def _is_round(self, rule: int | RoundRule, position: Position, number: int) -> bool:
        if rule is RoundRule.SAME:
            return number == position.round
        if rule is RoundRule.NEXT:
            return number == position.round + 1 and (self.last_round is None or number <= self.last_round)
        return number == rule

    def _reason(self, message: Message, sender: Sender) -> str:
        told = self.by_kind.get(message.body.kind) or self.by_sender.get(sender)
        if told is not None:
            return told
        if self.last_round is not None and message.round > self.last_round:
            return f"{self.otherwise}: the terms foresee {self.last_round} rounds"
        return self.otherwise


def title_of_message(message: Message) -> str:
    """How a message is called in errors."""
    return f"{message.body.kind} message of {message.sender}, round {message.round}"


_Turns = Mapping[tuple[State, str], Turn]

RELEASE_ROUND: Mapping[str, int] = {"sealed": 1, "interactive": 0}
"""Of which round the target's release is, by protocol: the only thing that owners hear from the consumer."""

_SEALED_RELEASE, _INTERACTIVE_RELEASE = RELEASE_ROUND["sealed"], RELEASE_ROUND["interactive"]
_OWNER_SEALED: _Turns = {
    (OwnerState.INVITED, TargetRelease.kind): Turn(Sender.CONSUMER, _SEALED_RELEASE, OwnerState.ANSWERED),
}
_OWNER_AUCTIONED: _Turns = {
    (OwnerState.INVITED, TargetRelease.kind): Turn(Sender.CONSUMER, _SEALED_RELEASE, OwnerState.WEIGHED),
    (OwnerState.WEIGHED, Asked.kind): Turn(Sender.CURATOR, 2, OwnerState.ANSWERED),
}
_OWNER_INTERACTIVE: _Turns = {
    (OwnerState.INVITED, TargetRelease.kind): Turn(Sender.CONSUMER, _INTERACTIVE_RELEASE, OwnerState.OPENED),
    (OwnerState.OPENED, SummaryRelease.kind): Turn(Sender.CURATOR, RoundRule.NEXT, OwnerState.BID),
    (OwnerState.BID, Asked.kind): Turn(Sender.CURATOR, RoundRule.SAME, OwnerState.OPENED),
    # The curator gave it up in that round, or its answer was lost.
    (OwnerState.BID, SummaryRelease.kind): Turn(Sender.CURATOR, RoundRule.NEXT, OwnerState.BID),
}

_CURATOR_SEALED: _Turns = {
    (CuratorState.TARGET, Target.kind): Turn(Sender.CONSUMER, 0, CuratorState.OFFERS),
    (CuratorState.OFFERS, Offer.kind): Turn(Sender.AWAITED, 1, CuratorState.OFFERS),
}
_CURATOR_AUCTIONED: _Turns = {
    (CuratorState.TARGET, Target.kind): Turn(Sender.CONSUMER, 0, CuratorState.MISFITS),
    (CuratorState.MISFITS, Misfit.kind): Turn(Sender.AWAITED, 1, CuratorState.MISFITS),
    (CuratorState.OFFERS, Offer.kind): Turn(Sender.AWAITED, 2, CuratorState.OFFERS),
}
_CURATOR_INTERACTIVE: _Turns = {
    (CuratorState.TARGET, Target.kind): Turn(Sender.CONSUMER, 0, CuratorState.OPENED),
    (CuratorState.BIDS, Bid.kind): Turn(Sender.AWAITED, RoundRule.SAME, CuratorState.BIDS),
    (CuratorState.DELIVERIES, Delivery.kind): Turn(Sender.AWAITED, RoundRule.SAME, CuratorState.DELIVERIES),
}
_MOVES_SEALED: Mapping[tuple[State, State], RoundRule] = {
    (CuratorState.MISFITS, CuratorState.OFFERS): RoundRule.SAME,
    (CuratorState.OFFERS, CuratorState.FINISHED): RoundRule.SAME,
}
_MOVES_INTERACTIVE: Mapping[tuple[State, State], RoundRule] = {
    (CuratorState.OPENED, CuratorState.BIDS): RoundRule.NEXT,
    (CuratorState.BIDS, CuratorState.DELIVERIES): RoundRule.SAME,
    (CuratorState.DELIVERIES, CuratorState.BIDS): RoundRule.NEXT,
    (CuratorState.DELIVERIES, CuratorState.FINISHED): RoundRule.SAME,
}

_CONSUMER: _Turns = {
    (ConsumerState.WAITING, Summary.kind): Turn(Sender.CURATOR, 0, ConsumerState.SERVED),
}

_SPLIT_START: _Turns = {
    (ComputeState.COLLECTING, OfferShare.kind): Turn(Sender.AWAITED, OFFER_ROUND, ComputeState.COLLECTING),
    (ComputeState.COLLECTING, ShareReceipts.kind): Turn(Sender.PEER, RECEIPTS_ROUND, ComputeState.COLLECTING),
    (ComputeState.COUNTED, ShareReceipts.kind): Turn(Sender.PEER, RECEIPTS_ROUND, ComputeState.COUNTED),
    # Whoever votes has everybody's receipts: no vote comes before this party told its own.
    (ComputeState.COUNTED, RosterVote.kind): Turn(Sender.PEER, ROSTER_ROUND, ComputeState.COUNTED),
    (ComputeState.VOTED, RosterVote.kind): Turn(Sender.PEER, ROSTER_ROUND, ComputeState.VOTED),
}
_SPLIT_OTHERS: _Turns = {
    **_SPLIT_START,
    (ComputeState.COLLECTING, TargetShare.kind): Turn(Sender.CONSUMER, TARGET_ROUND, ComputeState.COLLECTING),
    (ComputeState.READY, PicksOpened.kind): Turn(Sender.CONSUMER, OPENED_ROUND, ComputeState.SETTLED),
}
_SPLIT_CONSUMER: _Turns = {
    **_SPLIT_START,
    (ComputeState.VOTED, Envelopes.kind): Turn(Sender.CURATOR, ENVELOPES_ROUND, ComputeState.VOTED),
    (ComputeState.READY, Envelopes.kind): Turn(Sender.CURATOR, ENVELOPES_ROUND, ComputeState.READY),
}
_MOVES_SPLIT: Mapping[tuple[State, State], RoundRule] = {
    (ComputeState.COLLECTING, ComputeState.COUNTED): RoundRule.SAME,
    (ComputeState.COUNTED, ComputeState.VOTED): RoundRule.SAME,
    (ComputeState.VOTED, ComputeState.READY): RoundRule.SAME,
    (ComputeState.READY, ComputeState.SETTLED): RoundRule.SAME,
}


def owner_rules(terms: Terms) -> Rules:
    """When an owner hears what."""
    interactive = terms.protocol == "interactive"
    sealed = _OWNER_SEALED if terms.auction == "everyone" else _OWNER_AUCTIONED
    return Rules(
        OwnerState.INVITED,
        _OWNER_INTERACTIVE if interactive else sealed,
        last_round=terms.size if interactive else None,
        by_kind={
            TargetRelease.kind: f"{_NOT_NOW}: the target's release comes once, first of all, and from the consumer"
        },
        by_sender=dict.fromkeys(
            set(Sender) - {Sender.CURATOR},
            "an owner hears the target's release from the consumer, all else from the curator, and nobody else",
        ),
    )


def last_call(terms: Terms) -> tuple[int, str]:
    """Round and kind of the last message that an owner who takes part to the end hears."""
    if terms.protocol == "interactive":
        return terms.size, Asked.kind
    return (RELEASE_ROUND["sealed"], TargetRelease.kind) if terms.auction == "everyone" else (2, Asked.kind)


def curator_rules(terms: Terms) -> Rules:
    """When the curator hears what, and how it goes on when it has heard everybody."""
    interactive = terms.protocol == "interactive"
    sealed = _CURATOR_SEALED if terms.auction == "everyone" else _CURATOR_AUCTIONED
    no_owner, not_expected = "its sender is not among the owners", "nothing is expected from its sender now"
    return Rules(
        CuratorState.TARGET,
        _CURATOR_INTERACTIVE if interactive else sealed,
        _MOVES_INTERACTIVE if interactive else _MOVES_SEALED,
        last_round=terms.size if interactive else None,
        by_kind={Target.kind: "the target comes once, from the consumer"},
        by_sender={
            **dict.fromkeys((Sender.CURATOR, Sender.CONSUMER, Sender.STRANGER), no_owner),
            **dict.fromkeys((Sender.OWNER, Sender.LATE), not_expected),
        },
    )


def consumer_rules() -> Rules:
    """When the consumer hears what."""
    return Rules(ConsumerState.WAITING, _CONSUMER, otherwise="the consumer expects nothing but the curator's summary")


def compute_rules(role: ComputeRole) -> Rules:
    """When a compute party of a split run hears what, and how it goes on when it has heard everybody."""
    return Rules(
        ComputeState.COLLECTING,
        _SPLIT_CONSUMER if role == "consumer" else _SPLIT_OTHERS,
        _MOVES_SPLIT,
        by_kind={
            TargetShare.kind: "the target comes once, before anything is computed, and from the consumer",
            Envelopes.kind: "envelopes come once the roster is agreed on, from the curator to the consumer",
            PicksOpened.kind: "the end comes once, after the computation, and from the consumer",
        },
        by_sender={Sender.STRANGER: "its sender has no part in this run"},
    )
