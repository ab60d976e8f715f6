"""A party as a pure state machine: which message is legal when, and a step that names charges before replies."""

import hashlib
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any, TypeVar

from likeset.errors import IllegalMessage, PartyFailed, QuorumMissed
from likeset.ledger.budget import Charge, Request
from likeset.privacy.events import Release
from likeset.protocol import wire
from likeset.protocol.terms import Terms
from likeset.protocol.wire import Body, Message
from likeset.trust.shares import ComputeRole


class OwnerState(Enum):
    INVITED = "heard nothing yet"
    WEIGHED = "told its misfit, and may be asked"
    OPENED = "heard the target's release, or whether it is asked; the next round may begin"
    BID = "bid a row, and may be asked"
    ANSWERED = "has no more to say"


class CuratorState(Enum):
    TARGET = "the target"
    MISFITS = "misfits"
    OFFERS = "offers"
    OPENED = "nothing: the first round opens"
    BIDS = "bids"
    DELIVERIES = "rows that were asked for"
    FINISHED = "nothing: the summary is made"


class ConsumerState(Enum):
    WAITING = "not yet"
    SERVED = "it has"


class ComputeState(Enum):
    COLLECTING = "waits for parts of offers"
    COUNTED = "sent its receipts and waits for the receipts of the others"
    VOTED = "signed the roster, and waits for the others' signatures"
    READY = "may compute"
    SETTLED = "nothing more: picks were opened to the consumer"


State = OwnerState | CuratorState | ConsumerState | ComputeState


class Sender(Enum):
    CURATOR = "the curator"
    CONSUMER = "the consumer"
    AWAITED = "an owner whose answer is awaited"
    LATE = "an owner whose answer is no longer awaited"
    OWNER = "another owner"
    PEER = "a compute party"  # another one, in that capacity
    STRANGER = "a stranger"


class RoundRule(Enum):
    SAME = auto()
    NEXT = auto()  # and no later than the last


@dataclass(frozen=True, slots=True)
class Turn:
    sender: Sender
    round: int | RoundRule
    then: State


@dataclass(frozen=True, slots=True)
class Position:
    state: State
    round: int = 0


@dataclass(frozen=True, eq=False)
class Rules:
    """When a party hears what: ``turns`` by state and kind of message; no round is later than ``last_round``."""

    start: State
    turns: Mapping[tuple[State, str], Turn]
    last_round: int | None = None

    def after(self, position: Position, message: Message, sender: Sender) -> Position:
        kind = message.body.kind
        if sender is Sender.LATE and any(
            kind == said and turn.sender is Sender.AWAITED for (_, said), turn in self.turns.items()
        ):
            return position
        turn = self.turns.get((position.state, kind))
        if turn is None or turn.sender is not sender or not self._is_round(turn.round, position, message.round):
            expected = [said for state, said in self.turns if state is position.state] or ["nothing"]
            now = f"in round {position.round}, when {' or '.join(expected)} may come"
            raise IllegalMessage(f"{title_of_message(message)}: came {now}")
        return Position(turn.then, message.round)

    def _is_round(self, rule: int | RoundRule, position: Position, number: int) -> bool:
        if rule is RoundRule.SAME:
            return number == position.round
        if rule is RoundRule.NEXT:
            return number == position.round + 1 and (self.last_round is None or number <= self.last_round)
        return number == rule


def title_of_message(message: Message) -> str:
    return f"{message.body.kind} message of {message.sender}, round {message.round}"


_Turns = Mapping[tuple[State, str], Turn]

RELEASE_ROUND: Mapping[str, int] = {"sealed": 1, "interactive": 0}
"""Of which round the target's release is, by protocol: the only thing that owners hear from the consumer."""

_SEALED_RELEASE, _INTERACTIVE_RELEASE = RELEASE_ROUND["sealed"], RELEASE_ROUND["interactive"]
_OWNER_SEALED: _Turns = {
    (OwnerState.INVITED, wire.TargetRelease.kind): Turn(Sender.CONSUMER, _SEALED_RELEASE, OwnerState.ANSWERED),
}
_OWNER_AUCTIONED: _Turns = {
    (OwnerState.INVITED, wire.TargetRelease.kind): Turn(Sender.CONSUMER, _SEALED_RELEASE, OwnerState.WEIGHED),
    (OwnerState.WEIGHED, wire.Asked.kind): Turn(Sender.CURATOR, 2, OwnerState.ANSWERED),
}
_OWNER_INTERACTIVE: _Turns = {
    (OwnerState.INVITED, wire.TargetRelease.kind): Turn(Sender.CONSUMER, _INTERACTIVE_RELEASE, OwnerState.OPENED),
    (OwnerState.OPENED, wire.SummaryRelease.kind): Turn(Sender.CURATOR, RoundRule.NEXT, OwnerState.BID),
    (OwnerState.BID, wire.Asked.kind): Turn(Sender.CURATOR, RoundRule.SAME, OwnerState.OPENED),
    # The curator gave it up in that round, or its answer was lost.
    (OwnerState.BID, wire.SummaryRelease.kind): Turn(Sender.CURATOR, RoundRule.NEXT, OwnerState.BID),
}

_CURATOR_SEALED: _Turns = {
    (CuratorState.TARGET, wire.Target.kind): Turn(Sender.CONSUMER, 0, CuratorState.OFFERS),
    (CuratorState.OFFERS, wire.Offer.kind): Turn(Sender.AWAITED, 1, CuratorState.OFFERS),
}
_CURATOR_AUCTIONED: _Turns = {
    (CuratorState.TARGET, wire.Target.kind): Turn(Sender.CONSUMER, 0, CuratorState.MISFITS),
    (CuratorState.MISFITS, wire.Misfit.kind): Turn(Sender.AWAITED, 1, CuratorState.MISFITS),
    (CuratorState.OFFERS, wire.Offer.kind): Turn(Sender.AWAITED, 2, CuratorState.OFFERS),
}
_CURATOR_INTERACTIVE: _Turns = {
    (CuratorState.TARGET, wire.Target.kind): Turn(Sender.CONSUMER, 0, CuratorState.OPENED),
    (CuratorState.BIDS, wire.Bid.kind): Turn(Sender.AWAITED, RoundRule.SAME, CuratorState.BIDS),
    (CuratorState.DELIVERIES, wire.Delivery.kind): Turn(Sender.AWAITED, RoundRule.SAME, CuratorState.DELIVERIES),
}
_CONSUMER: _Turns = {
    (ConsumerState.WAITING, wire.Summary.kind): Turn(Sender.CURATOR, 0, ConsumerState.SERVED),
}

_SPLIT_START: _Turns = {
    (ComputeState.COLLECTING, wire.OfferShare.kind): Turn(Sender.AWAITED, wire.OFFER_ROUND, ComputeState.COLLECTING),
    (ComputeState.COLLECTING, wire.ShareReceipts.kind): Turn(Sender.PEER, wire.RECEIPTS_ROUND, ComputeState.COLLECTING),
    (ComputeState.COUNTED, wire.ShareReceipts.kind): Turn(Sender.PEER, wire.RECEIPTS_ROUND, ComputeState.COUNTED),
    # Whoever votes has everybody's receipts: no vote comes before this party told its own.
    (ComputeState.COUNTED, wire.RosterVote.kind): Turn(Sender.PEER, wire.ROSTER_ROUND, ComputeState.COUNTED),
    (ComputeState.VOTED, wire.RosterVote.kind): Turn(Sender.PEER, wire.ROSTER_ROUND, ComputeState.VOTED),
}
_SPLIT_OTHERS: _Turns = {
    **_SPLIT_START,
    (ComputeState.COLLECTING, wire.TargetShare.kind): Turn(Sender.CONSUMER, wire.TARGET_ROUND, ComputeState.COLLECTING),
    (ComputeState.READY, wire.PicksOpened.kind): Turn(Sender.CONSUMER, wire.OPENED_ROUND, ComputeState.SETTLED),
}
_SPLIT_CONSUMER: _Turns = {
    **_SPLIT_START,
    (ComputeState.VOTED, wire.Envelopes.kind): Turn(Sender.CURATOR, wire.ENVELOPES_ROUND, ComputeState.VOTED),
    (ComputeState.READY, wire.Envelopes.kind): Turn(Sender.CURATOR, wire.ENVELOPES_ROUND, ComputeState.READY),
}


CONSUMER_RULES = Rules(ConsumerState.WAITING, _CONSUMER)
COMPUTE_RULES: Mapping[ComputeRole, Rules] = {
    "curator": Rules(ComputeState.COLLECTING, _SPLIT_OTHERS),
    "consumer": Rules(ComputeState.COLLECTING, _SPLIT_CONSUMER),
    "witness": Rules(ComputeState.COLLECTING, _SPLIT_OTHERS),
}


def owner_rules(terms: Terms) -> Rules:
    if terms.protocol == "interactive":
        return Rules(OwnerState.INVITED, _OWNER_INTERACTIVE, terms.size)
    return Rules(OwnerState.INVITED, _OWNER_SEALED if terms.auction == "everyone" else _OWNER_AUCTIONED)


def last_call(terms: Terms) -> tuple[int, str]:
    """Round and kind of the last message that an owner who takes part to the end hears."""
    if terms.protocol == "interactive":
        return terms.size, wire.Asked.kind
    return (RELEASE_ROUND["sealed"], wire.TargetRelease.kind) if terms.auction == "everyone" else (2, wire.Asked.kind)


def curator_rules(terms: Terms) -> Rules:
    if terms.protocol == "interactive":
        return Rules(CuratorState.TARGET, _CURATOR_INTERACTIVE, terms.size)
    return Rules(CuratorState.TARGET, _CURATOR_SEALED if terms.auction == "everyone" else _CURATOR_AUCTIONED)


Draw = Callable[[], tuple[bytes, Release[Any] | None]]
"""Tosses coins and reads rows, once the charge is durable; returns what is to be kept, and the release in it."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ChargeWanted:
    """What must be charged before a draw; a (run, round, kind) is drawn once, and gives the same bytes ever after."""

    charge: Charge
    asked: Request
    draw: Draw = field(repr=False)
    repeatable: bool = False  # the draw follows from a stored key, not from coins: an interrupted charge is resumed

    def request(self, *, inputs: bytes = b"") -> Request:
        """The ledger's request for the draw; ``inputs`` is a digest of everything that the draw follows from."""
        return replace(self.asked, content=self.asked.content + inputs)


_Value = TypeVar("_Value")

PricedDraw = Generator[ChargeWanted, bytes, _Value]
"""A part of a party's work that wants something charged, and returns what was drawn."""

Work = PricedDraw[Sequence[Message]]
"""How a party answers: it yields what it wants charged, is sent the bytes that are kept for it, and returns replies."""


@dataclass(frozen=True, eq=False)
class Step:
    charge: ChargeWanted | None = None  # None at the end; until then there are no replies
    replies: tuple[Message, ...] = ()
    _go_on: Callable[["Step", bytes], "Step"] | None = field(default=None, repr=False)
    _abandon: Callable[["Step"], None] | None = field(default=None, repr=False)

    def go_on(self, data: bytes) -> "Step":
        if self._go_on is None:
            raise PartyFailed("a step that is at its end does not go on")
        return self._go_on(self, data)

    def charged(self, commit: Callable[[ChargeWanted], bytes]) -> "Step":
        """The next step, after ``commit`` charged for the draw and returned the bytes that are kept for it.

        If the charge is refused or its draw fails, the party has failed and must be rebuilt.
        """
        assert self.charge is not None  # noqa: S101 - callers look at it
        try:
            data = commit(self.charge)
        except BaseException:
            if self._abandon is not None:
                self._abandon(self)
            raise
        return self.go_on(data)

    def complete(self, commit: Callable[[ChargeWanted], bytes]) -> tuple[Message, ...]:
        step = self
        while step.charge is not None:
            step = step.charged(commit)
        return step.replies


CURATOR = "curator"

_AtEnd = Callable[[tuple[Message, ...]], None]


@dataclass(slots=True)
class Traffic:
    """What a party heard and said, each message counted once however often it was repeated."""

    heard_messages: int = 0
    heard_bytes: int = 0
    sent_messages: int = 0
    sent_bytes: int = 0


class Party:
    """A state machine: a message in, a step out; nothing that it wants charged is drawn before it is.

    An illegal message raises and leaves the state unchanged. A message that came before gets the replies that it got
    before; another message in its place (same sender, round and kind) is refused. A party whose step was begun and
    not carried to its end has failed: it says nothing more, and is to be made anew from what is recorded.
    """

    def __init__(self, terms: Terms, name: str, rules: Rules) -> None:
        self.terms = terms
        self.name = name
        self.versions: Mapping[str, int] = {}  # of messages, by reader; the newest for others
        self.traffic = Traffic()
        self._rules = rules
        self._position = Position(rules.start)
        self._digest = terms.digest
        self.heard = b""  # a digest of all that was heard or decided, in order: what is drawn follows from it
        self._seen: dict[tuple[str, int, str], tuple[bytes, tuple[Message, ...]]] = {}
        self._open: Step | None = None
        self._failure = ""

    @property
    def position(self) -> Position:
        return self._position

    @property
    def failed(self) -> bool:
        return bool(self._failure)

    def receive(self, message: Message) -> Step:
        self._check_usable()
        self._check_envelope(message)
        slot = (message.sender, message.round, message.body.kind)
        data = message.data
        fingerprint = hashlib.sha256(data).digest()
        if slot in self._seen:
            known, replies = self._seen[slot]
            if known != fingerprint:
                raise IllegalMessage(f"{title_of_message(message)}: another one came in its place before")
            return Step(replies=replies)
        after = self._rules.after(self._position, message, self._sender(message))
        self._check_content(message)

        def remember(replies: tuple[Message, ...]) -> None:
            self._seen[slot] = (fingerprint, replies)
            self.traffic.heard_messages += 1
            self.traffic.heard_bytes += len(data)
            self.traffic.sent_messages += len(replies)
            self.traffic.sent_bytes += sum(len(reply.data) for reply in replies)

        self._position = after
        self._note_input(fingerprint)
        return self._begin_step(self._handle(message), remember)

    def receive_once(self, message: Message) -> Step:
        if (message.sender, message.round, message.body.kind) in self._seen:
            raise IllegalMessage(f"{title_of_message(message)}: repeats what came before")
        return self.receive(message)

    def _note_input(self, content: bytes) -> None:
        self.heard = hashlib.sha256(self.heard + content).digest()

    def _check_envelope(self, message: Message) -> None:
        if message.receiver != self.name:
            raise IllegalMessage(f"{title_of_message(message)}: is for {message.receiver}, not for {self.name}")
        if message.run != self.terms.run:
            raise IllegalMessage(f"{title_of_message(message)}: is of run {message.run}, not of {self.terms.run}")
        if message.terms != self._digest:
            raise IllegalMessage(f"{title_of_message(message)}: was made under other terms")

    def _sender(self, message: Message) -> Sender:
        if message.sender == CURATOR:
            return Sender.CURATOR
        return Sender.CONSUMER if message.sender == self.terms.consumer else Sender.STRANGER

    def _check_content(self, message: Message) -> None:
        """Raise if a message whose turn it is holds what it may not; changes nothing."""

    def _handle(self, message: Message) -> Work:
        raise NotImplementedError

    def _begin_step(self, work: Work, at_end: _AtEnd = lambda _replies: None) -> Step:
        self._check_usable()
        return self._advance(work, None, at_end)

    def _advance(self, work: Work, kept: bytes | None, at_end: _AtEnd) -> Step:
        self._open = None
        try:
            wanted = next(work) if kept is None else work.send(kept)
        except StopIteration as end:
            replies = tuple(end.value)
            at_end(replies)
            return Step(replies=replies)
        except BaseException as error:
            self._failure = type(error).__name__
            raise

        def go_on(step: Step, data: bytes) -> Step:
            if self._open is not step:
                self._failure = self._failure or "a step went on twice"
            self._check_failure()
            return self._advance(work, data, at_end)

        self._open = Step(wanted, (), go_on, self._abandon)
        return self._open

    def _abandon(self, step: Step) -> None:
        if self._open is step:
            self._open, self._failure = None, "a charge was refused, or its draw was lost"

    def _check_usable(self) -> None:
        if self._open is not None:
            self._open, self._failure = None, "a message came before the end of a step"
        self._check_failure()

    def _check_failure(self) -> None:
        if self._failure:
            raise PartyFailed(
                f"{self.name} in run {self.terms.run} failed ({self._failure}) and accepts no more messages; rebuild "
                "it from the log"
            )

    def _move(self, state: State, *, next_round: bool = False) -> None:
        self._position = Position(state, self._position.round + next_round)

    def _check_quorum(self, taking_part: int) -> None:
        if taking_part < self.terms.quorum:
            raise QuorumMissed(
                f"{taking_part} of {len(self.terms.owners)} owners took part; the terms ask for {self.terms.quorum}"
            )

    def _request(self, kind: str, round_number: int, content: bytes) -> Request:
        return Request(self.terms.run, round_number, f"{self.name}/{kind}", content)

    def _message(self, receiver: str, round_number: int, body: Body) -> Message:
        named = {"version": self.versions[receiver]} if receiver in self.versions else {}
        return Message(
            run=self.terms.run,
            terms=self._digest,
            sender=self.name,
            receiver=receiver,
            round=round_number,
            body=body,
            **named,
        )
