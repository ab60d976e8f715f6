"""What every party asks of a message before it looks inside: is it for me, of this run, answered before, its turn?"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from likeset.errors import IllegalMessage, PartyFailed
from likeset.protocol.legality import Position, Rules, Sender, title_of_message
from likeset.protocol.messages import Body, Message
from likeset.protocol.steps import Step, Work
from likeset.protocol.terms import Terms

__all__ = ["CURATOR", "Party", "Traffic", "check_envelope", "speaker"]

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

    Args:
        terms: of the run.
        name: the party's name in them.
        rules: when it hears what.

    Attributes:
        traffic: what it heard and said so far.
    """

    def __init__(self, terms: Terms, name: str, rules: Rules) -> None:
        self.terms = terms
        self.name = name
        self.traffic = Traffic()
        self._rules = rules
        self._position = Position(rules.start)
        self._digest = terms.digest
        self._seen: dict[tuple[str, int, str], tuple[bytes, tuple[Message, ...]]] = {}
        self._open: Step | None = None
        self._failure = ""

    @property
    def position(self) -> Position:
        """Where it stands."""
        return self._position

    @property
    def failed(self) -> bool:
        """Whether a step was not carried to its end, so that it says nothing more."""
        return bool(self._failure)

    def receive(self, message: Message) -> Step:
        """Take a message; returns what is to be charged, or the replies.

        Raises:
            IllegalMessage: it may not come now, from there, or with that content.
            PartyFailed: an earlier step was not carried to its end.
        """
        self._check_usable()
        check_envelope(self.terms, self.name, message)
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
        return self._begin_step(self._handle(message), remember)

    def _sender(self, message: Message) -> Sender:
        """Who speaks, as this party sees it."""
        return speaker(self.terms, message)

    def _check_content(self, message: Message) -> None:
        """Raise if a message whose turn it is holds what it may not; changes nothing."""

    def _handle(self, message: Message) -> Work:
        """What is particular to a party, of a message that may come; from here on it fails, or comes to its end."""
        raise NotImplementedError

    def _begin_step(self, work: Work, at_end: _AtEnd = lambda _replies: None) -> Step:
        """The first step of some work."""
        self._check_usable()
        return self._advance(work, None, at_end)

    def _advance(self, work: Work, kept: bytes | None, at_end: _AtEnd) -> Step:
        """The next step of some work, given the bytes that are kept for its last charge."""
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
            self._open, self._failure = None, "the next message came before a step was at its end"
        self._check_failure()

    def _check_failure(self) -> None:
        if self._failure:
            raise PartyFailed(
                f"{self.name} in run {self.terms.run} hears nothing more, for a step of it was not carried to its end "
                f"({self._failure}); make it anew from what is recorded"
            )

    def _message(self, receiver: str, round_number: int, body: Body) -> Message:
        return Message(
            run=self.terms.run,
            terms=self._digest,
            sender=self.name,
            receiver=receiver,
            round=round_number,
            body=body,
        )


def check_envelope(terms: Terms, name: str, message: Message) -> None:
    """Raise unless a message is for the party of this name, of this run, and under these terms."""
    if message.receiver != name:
        raise IllegalMessage(f"{title_of_message(message)}: is for {message.receiver}, not for {name}")
    if message.run != terms.run:
        raise IllegalMessage(f"{title_of_message(message)}: is of run {message.run}, not of {terms.run}")
    if message.terms != terms.digest:
        raise IllegalMessage(f"{title_of_message(message)}: was made under other terms")


def speaker(terms: Terms, message: Message) -> Sender:
    """Who speaks, as owners and the consumer see it: an owner knows no other owner."""
    if message.sender == CURATOR:
        return Sender.CURATOR
    return Sender.CONSUMER if message.sender == terms.consumer else Sender.STRANGER
