"""A run at one home, as whatever carries letters sees it: letters in, letters out, and nothing else.

Inside, a letter is opened, a party hears what it says, what that costs is charged, and the answers are sealed and
written down before they leave. A letter that is refused is as if it had not come.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from likeset.errors import IllegalMessage, LetterContradicts
from likeset.homes.correspondence import Correspondence, HeardLetter
from likeset.homes.shell import ConsumerShell, CuratorShell, Resident
from likeset.protocol.messages import Message, Summary, Target
from likeset.trust.signed_terms import is_acceptance

__all__ = ["ConsumerRun", "CuratorRun", "OwnerRun", "SiteRun"]


@dataclass(eq=False)
class SiteRun:
    """A run at one home.

    Args:
        letters: of the run.
        resident: who answers.
        most_bytes: no letter may be larger.
        refused: told what is refused although an answer goes out: that a letter contradicts another one.
    """

    letters: Correspondence
    resident: Resident
    most_bytes: int
    refused: Callable[[str], None] = field(default=lambda _reason: None, kw_only=True)

    @property
    def failed(self) -> bool:
        """Whether it says nothing more, and must be made anew."""
        return self.resident.failed

    def acceptance(self) -> bytes:
        """What this home signs to take part."""
        return self.letters.acceptance()

    def hear(self, data: bytes) -> tuple[bytes, ...]:
        """The letters that answer a letter.

        Raises:
            LikesetError: it is refused.
        """
        if is_acceptance(data):
            self.letters.meet_own_acceptance(data)
        try:
            heard = self.letters.read(data, most_bytes=self.most_bytes)
        except LetterContradicts as error:
            if error.earlier is None:
                raise
            self.refused(str(error))
            return (error.earlier,)  # its writer sees what it wrote before, and whether it remembers
        return self.letters.write(self._replies(heard), came=heard)

    def _replies(self, heard: HeardLetter) -> tuple[Message, ...]:
        return self.resident.take(_message_in(heard))


@dataclass(eq=False)
class OwnerRun(SiteRun):
    """At an owner.

    Args:
        keep_receipt: takes the curator's receipt; looks at it and keeps it or refuses it.
    """

    keep_receipt: Callable[[bytes], None] = field(kw_only=True)

    def _replies(self, heard: HeardLetter) -> tuple[Message, ...]:
        if heard.message is None:
            for receipt in heard.enclosures:
                self.keep_receipt(receipt)
            return ()
        self.letters.introduce(heard.enclosures)
        return super()._replies(heard)


@dataclass(eq=False)
class ConsumerRun(SiteRun):
    """At the consumer.

    Args:
        keep: takes the bytes of the message that holds the summary before anything is answered.
    """

    resident: ConsumerShell
    keep: Callable[[bytes], None] = field(kw_only=True)

    def begin(self, acceptances: Iterable[bytes]) -> tuple[bytes, ...]:
        """The first letters of the run, once enough others take part."""
        return self.letters.begin(acceptances, self.resident.start)

    def _replies(self, heard: HeardLetter) -> tuple[Message, ...]:
        replies = super()._replies(heard)
        if heard.message is not None and isinstance(heard.message.body, Summary):
            self.keep(heard.message.data)
        return replies


@dataclass(eq=False)
class CuratorRun(SiteRun):
    """At the curator.

    Args:
        receipts: when the run has ended, however: a signed receipt for each owner who sent something.
    """

    resident: CuratorShell
    receipts: Callable[[], Mapping[str, bytes]] = field(kw_only=True)

    @property
    def waiting_for(self) -> frozenset[str]:
        """The owners whose answer it still waits for."""
        return self.resident.waiting_for

    def give_up(self, owner: str) -> tuple[bytes, ...]:
        """What it writes when it waits for an owner no longer."""
        return self.letters.write(self.resident.give_up(owner))

    def end(self) -> tuple[bytes, ...]:
        """The receipts, in letters to their owners."""
        return self.letters.write_receipts(dict(self.receipts()))

    def _replies(self, heard: HeardLetter) -> tuple[Message, ...]:
        message = _message_in(heard)
        if not isinstance(message.body, Target):
            return super()._replies(heard)
        present = self.letters.introduce(heard.enclosures)
        replies = list(super()._replies(heard))
        for owner in self.resident.terms.owners:
            if owner not in present and owner in self.waiting_for:
                replies += self.resident.give_up(owner)  # it did not accept, and will never answer
        return tuple(replies)


def _message_in(heard: HeardLetter) -> Message:
    if heard.message is None:
        raise IllegalMessage("a letter that says nothing")
    return heard.message
