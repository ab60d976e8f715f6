"""What every party asks of a message before it looks inside: is it for me, of this run, answered before?"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from likeset.errors import IllegalMessage
from likeset.protocol.messages import Body, Message, encode
from likeset.protocol.terms import Terms

__all__ = ["CURATOR", "Party", "Traffic"]

CURATOR = "curator"


@dataclass(slots=True)
class Traffic:
    """What a party heard and said, each message counted once however often it was repeated."""

    heard_messages: int = 0
    heard_bytes: int = 0
    sent_messages: int = 0
    sent_bytes: int = 0


class Party:
    """A state machine: message in, messages out.

    An illegal message raises and leaves the state unchanged. A message that came before gets the replies that it got
    before; another message in its place (same sender, round and kind) is refused.

    Attributes:
        traffic: what it heard and said so far.
    """

    def __init__(self, terms: Terms, name: str) -> None:
        self.terms = terms
        self.name = name
        self.traffic = Traffic()
        self._digest = terms.digest
        self._seen: dict[tuple[str, int, str], tuple[bytes, tuple[Message, ...]]] = {}

    def receive(self, message: Message) -> tuple[Message, ...]:
        """Take a message; returns the replies.

        Raises:
            IllegalMessage: it may not come now, from there, or with that content.
        """
        self.check_envelope(message)
        place = (message.sender, message.round, message.body.kind)
        data = encode(message)
        fingerprint = hashlib.sha256(data).digest()
        if place in self._seen:
            known, replies = self._seen[place]
            if known != fingerprint:
                raise IllegalMessage(f"{self._named(message)}: another one came in its place before")
            return replies
        replies = tuple(self._handle(message))
        self._seen[place] = (fingerprint, replies)
        self.traffic.heard_messages += 1
        self.traffic.heard_bytes += len(data)
        self.traffic.sent_messages += len(replies)
        self.traffic.sent_bytes += sum(len(encode(reply)) for reply in replies)
        return replies

    def check_envelope(self, message: Message) -> None:
        """Raise unless the message is for this party, of this run, and under these terms."""
        if message.receiver != self.name:
            raise IllegalMessage(f"{self._named(message)}: is for {message.receiver}, not for {self.name}")
        if message.run != self.terms.run:
            raise IllegalMessage(f"{self._named(message)}: is of run {message.run}, not of {self.terms.run}")
        if message.terms != self._digest:
            raise IllegalMessage(f"{self._named(message)}: was made under other terms")

    def _handle(self, message: Message) -> Sequence[Message]:
        """What is particular to a party; checks everything before it changes anything."""
        raise NotImplementedError

    def _message(self, receiver: str, round_number: int, body: Body) -> Message:
        return Message(
            run=self.terms.run,
            terms=self._digest,
            sender=self.name,
            receiver=receiver,
            round=round_number,
            body=body,
        )

    @staticmethod
    def _named(message: Message) -> str:
        return f"{message.body.kind} message of {message.sender}, round {message.round}"
