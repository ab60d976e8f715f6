"""A run at one home, as whatever carries letters sees it: letters in, letters out, and nothing else.

Inside, a letter is opened, a party hears what it says, what that costs is charged, and the answers are sealed and
written down before they leave. A letter that is refused is as if it had not come.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from likeset.errors import IllegalMessage, LetterContradicts, LikesetError
from likeset.homes.correspondence import Correspondence, HeardLetter
from likeset.homes.shell import ConsumerShell, CuratorShell, Resident
from likeset.homes.signed_invitation import Invitation
from likeset.homes.transcripts import acknowledging_party
from likeset.protocol.messages import Message, Summary, Target
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import WITNESS, Terms
from likeset.trust.letters import is_stub
from likeset.trust.signed_terms import is_acceptance

__all__ = ["ConsumerRun", "CuratorRun", "Factory", "OwnerRun", "SiteRun"]


@dataclass(eq=False)
class SiteRun:
    """A run at one home.

    Args:
        letters: of the run.
        resident: who answers.
        most_bytes: no letter may be larger.
        refused: told why a letter is refused before the resident has heard of it; what the resident refuses, it writes
            down itself.
    """

    letters: Correspondence
    resident: Resident
    most_bytes: int
    refused: Callable[[str], None] = field(default=lambda _reason: None, kw_only=True)

    @property
    def terms(self) -> Terms:
        """Of the run."""
        return self.letters.terms

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
        try:
            if is_acceptance(data):
                self.letters.own.meet_acceptance(data)
            if is_stub(data):
                self.letters.own.meet_stub(data)
            heard = self.letters.read(data, most_bytes=self.most_bytes)
            self._admit(heard)
        except LetterContradicts as error:
            self.refused(str(error))
            return (error.earlier,)  # its writer sees what it wrote before, and whether it remembers
        except LikesetError as error:
            self.refused(str(error))
            raise
        replies = self._replies(heard)
        return () if replies is None else self.letters.write(replies, came=heard)

    def _admit(self, heard: HeardLetter) -> None:
        """Look at a letter that was opened, before the resident hears what it says.

        Raises:
            IllegalMessage: it may not come here.
        """
        _message_in(heard)

    def _is_of_consumer(self, heard: HeardLetter) -> bool:
        """Nobody else says who takes part."""
        return heard.arrival.peer == self.terms.consumer

    def _replies(self, heard: HeardLetter) -> tuple[Message, ...] | None:
        """What is answered; None if the letter says nothing that is worth keeping."""
        return self.resident.take(_message_in(heard))


@dataclass(eq=False)
class OwnerRun(SiteRun):
    """At an owner.

    Args:
        keep_receipt: takes a receipt for what left; looks at it, and returns whether it keeps it.
        absent: the owner does not take part (any more). It hears receipts, which are about what left before, and
            nothing else.
    """

    keep_receipt: Callable[[bytes], bool] = field(kw_only=True)
    absent: bool = field(default=False, kw_only=True)

    def acceptance(self) -> bytes:
        """What this home signs to take part.

        Raises:
            IllegalMessage: it does not.
        """
        self._check_present()
        return super().acceptance()

    def _admit(self, heard: HeardLetter) -> None:
        if heard.message is not None:
            self._check_present()
            if self._is_of_consumer(heard):
                self._meet_computing(heard.enclosures)
        elif heard.arrival.peer != acknowledging_party(self.terms) or len(heard.enclosures) != 1:
            raise IllegalMessage(f"run {self.terms.run}: a letter that says nothing, and brings no receipt")

    def _meet_computing(self, enclosures: Iterable[bytes]) -> None:
        present = self.letters.introduce(enclosures)
        for name in (CURATOR, WITNESS):
            if name in self.terms.cards and name not in present:
                raise IllegalMessage(f"run {self.terms.run}: nobody says where to write to the {name}")

    def _check_present(self) -> None:
        if self.absent:
            raise IllegalMessage(f"run {self.terms.run}: this owner does not take part; its own records say why")

    def _replies(self, heard: HeardLetter) -> tuple[Message, ...] | None:
        if heard.message is not None:
            return super()._replies(heard)
        # A curator can sign any number of receipts: a letter is kept with the receipt that it brought, or not at all.
        return () if self.keep_receipt(heard.enclosures[0]) else None


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

    def _replies(self, heard: HeardLetter) -> tuple[Message, ...] | None:
        replies = super()._replies(heard)
        if heard.message is not None and isinstance(heard.message.body, Summary):
            self.keep(heard.message.data)
        return replies


@dataclass(eq=False)
class CuratorRun(SiteRun):
    """At the curator.

    Args:
        receipts: when the run has ended, however: a signed receipt for each owner who took part.
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

    def _replies(self, heard: HeardLetter) -> tuple[Message, ...] | None:
        try:
            return self._answers(heard)
        except Exception:
            if not self._is_of_consumer(heard):
                self.letters.write((), came=heard)  # rows came in all the same, and are acknowledged
            raise

    def _answers(self, heard: HeardLetter) -> tuple[Message, ...]:
        if not isinstance(_message_in(heard).body, Target) or not self._is_of_consumer(heard):
            return self.resident.take(_message_in(heard))
        present = self.letters.introduce(heard.enclosures)
        replies = list(self.resident.take(_message_in(heard)))
        for owner in self.terms.owners:
            if owner not in present and owner in self.waiting_for:
                replies += self.resident.give_up(owner)  # it did not accept, and will never answer
        return tuple(replies)


Factory = Callable[[Invitation, str, Path], SiteRun | None]
"""Makes a site's side of a run from the signed terms, the party's name in them, and the site's own folder. None while
somebody at the site has still to decide; an error of likeset where the site does not take part. An owner's must know,
also after a restart, what it answered, and refuse another message in its place, as an owner's home does by its ledger.
"""


def _message_in(heard: HeardLetter) -> Message:
    if heard.message is None:
        raise IllegalMessage("a letter that says nothing")
    return heard.message
