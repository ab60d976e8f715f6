"""A split run at a compute party's home: curator, consumer or witness.

Letters of a split run are kept whole until its terms end: they hold shares, which alone tell nothing. A party that
was killed is made anew by hearing them again, in the order in which they came. It says then what it said before. When
the terms end, the letters and their key are deleted.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from likeset.errors import IllegalMessage
from likeset.homes.compute_folder import ComputeFolder, Reach
from likeset.homes.correspondence import HeardLetter
from likeset.homes.letter_records import IN, OUT, RECEIPT
from likeset.homes.shell import Charges, ComputeShell, SplitConsumerShell
from likeset.homes.site_run import SiteRun
from likeset.protocol.legality import ComputeState
from likeset.protocol.messages import Message, Summary
from likeset.protocol.split.compute_inputs import OpenedSlots
from likeset.protocol.split.compute_party import ComputeParty
from likeset.protocol.split.split_consumer import SplitConsumer
from likeset.protocol.split.split_messages import OfferShare, ShareReceipts, TargetShare
from likeset.trust.cards import Card
from likeset.trust.row_shares import COMPUTE_ROLES

__all__ = ["ComputeResident", "ComputeRun", "SplitConsumerRun"]

MakeParty = Callable[[Mapping[str, Card]], ComputeParty]
"""Given the cards of all who accepted, by their names in the terms: the party."""


@dataclass(eq=False)
class ComputeResident:
    """A compute party, made once it is known who takes part.

    Args:
        name: its name in the terms.
        make: makes it.
        charges: where what it wants charged is charged; only the consumer wants anything.
    """

    name: str
    make: MakeParty
    charges: Charges | None = None
    shell: ComputeShell[Any] | None = field(default=None, init=False)

    @property
    def failed(self) -> bool:
        """Whether it says nothing more, and must be made anew."""
        return self.shell is not None and self.shell.failed

    def begin(self, cards: Mapping[str, Card]) -> None:
        """It is known who takes part."""
        if self.shell is None:
            party, charges = self.make(cards), self.charges or _NoCharges()
            if isinstance(party, SplitConsumer):
                self.shell = SplitConsumerShell(party, charges)
            else:
                self.shell = ComputeShell(party, charges)

    def take(self, message: Message) -> tuple[Message, ...]:
        """The replies to a message."""
        return self.made.take(message)

    @property
    def made(self) -> ComputeShell[Any]:
        """The party in its shell.

        Raises:
            IllegalMessage: the consumer has not said yet who takes part.
        """
        if self.shell is None:
            raise IllegalMessage(f"{self.name}: the consumer has not said yet who takes part")
        return self.shell

    @property
    def consumer(self) -> SplitConsumerShell:
        """The consumer in its shell.

        Raises:
            IllegalMessage: this is another party.
        """
        made = self.made
        if not isinstance(made, SplitConsumerShell):
            raise IllegalMessage(f"{self.name} is not the consumer")
        return made


class _NoCharges:
    """Of a party that has nothing to charge."""

    def answer(self, *_arguments: object, **_options: object) -> bytes:
        raise IllegalMessage("a compute party other than the consumer draws nothing")


@dataclass(eq=False)
class ComputeRun(SiteRun):
    """At a compute party.

    Args:
        kept: what is kept of the run beside its letters.
    """

    resident: ComputeResident
    kept: ComputeFolder = field(kw_only=True)

    def __post_init__(self) -> None:
        if self.letters.is_begun:
            self.resident.begin(self.letters.cards)
            self._repeat()

    def _repeat(self) -> None:
        """Hear again what was heard; what was answered is in the book, and is not written again."""
        for letter in self.letters.kept:
            if letter.way == OUT and letter.kind == ShareReceipts.kind:
                for owner in sorted(self.waiting_for):  # whom it had given up before it told whose parts it has
                    self.resident.made.give_up(owner)
            elif letter.way == IN and (data := self.letters.data_of(letter)) is not None:
                message = self.letters.read(data, most_bytes=self.most_bytes).message
                if message is not None:
                    self.resident.take(message)

    @property
    def party(self) -> ComputeParty | None:
        """The party; None before it is known who takes part."""
        return None if self.resident.shell is None else self.resident.shell.party

    @property
    def waiting_for(self) -> frozenset[str]:
        """The owners whose part it still waits for."""
        return frozenset() if self.party is None else self.party.waiting_for

    @property
    def reaches(self) -> dict[int, Reach]:
        """Where the other compute parties are reached, by rank, as far as they voted.

        Raises:
            BadDocument: one of them said something else.
        """
        if self.party is None:
            return {}
        ranks = {role: rank for rank, role in enumerate(COMPUTE_ROLES)}
        return {ranks[role]: Reach.read(data) for role, data in self.party.reaches.items()}

    def give_up(self, owner: str) -> tuple[bytes, ...]:
        """What it writes when it waits for an owner's part no longer."""
        return self.letters.write(self.resident.made.give_up(owner))

    @property
    def may_have_computed(self) -> bool:
        """Whether all compute parties agreed on a roster: before that nothing is computed, and nothing opened."""
        states = (ComputeState.READY, ComputeState.SETTLED)
        return self.party is not None and self.party.position.state in states

    def forget(self) -> None:
        """Nothing was opened: no share and no key stays; what was written can be sent again."""
        if self.party is not None:
            self.party.forget()
        self.kept.remove()
        self.letters.settle(resend=True)

    def _admit(self, heard: HeardLetter) -> None:
        super()._admit(heard)
        is_first = heard.message is not None and isinstance(heard.message.body, TargetShare)
        if is_first and self._is_of_consumer(heard):
            self.letters.introduce(heard.enclosures)
            self.resident.begin(self.letters.cards)
        elif heard.enclosures:
            raise IllegalMessage(f"run {self.terms.run}: a letter that encloses what nobody asked for")


@dataclass(eq=False)
class SplitConsumerRun(ComputeRun):
    """At the consumer.

    Args:
        keep: takes the summary, before the others are told that it is over.
        receipts: a signed receipt for each owner whose part came.
    """

    keep: Callable[[Summary], None] = field(kw_only=True)
    receipts: Callable[[Collection[str]], Mapping[str, bytes]] = field(kw_only=True)

    def begin(self, acceptances: Iterable[bytes]) -> tuple[bytes, ...]:
        """The first letters of the run, once enough others take part."""

        def start() -> tuple[Message, ...]:
            self.resident.begin(self.letters.cards)
            return self.resident.consumer.start()

        return self.letters.begin(acceptances, start)

    def _repeat(self) -> None:
        self.resident.consumer.start()
        super()._repeat()

    def opened(self, slots: OpenedSlots) -> tuple[bytes, ...]:
        """The computation gave its picks: keep what was bought, and tell the other compute parties that it is over."""
        replies = self.resident.consumer.opened(slots)
        summary = self.resident.consumer.party.summary
        if summary is not None:
            self.keep(summary)
        return self.letters.write(replies)

    @property
    def has_summary(self) -> bool:
        """Whether any row that was picked held, once they were opened."""
        return self.resident.consumer.party.summary is not None

    @property
    def unopened_picks(self) -> dict[str, int]:
        """By owner, how many picks were left out because they did not open to a record."""
        return self.resident.consumer.party.unopened_picks

    def acknowledge(self) -> tuple[bytes, ...]:
        """Receipts for the owners whose part came, in letters to them; written once.

        They say how many rows were offered, and go before anything is computed: neither what they say nor when they
        are written depends on what is bought, or on whether the run comes to an end.
        """
        kept = self.letters.kept
        told = {letter.peer for letter in kept if (letter.way, letter.kind) == (OUT, RECEIPT)}
        came = {letter.peer for letter in kept if (letter.way, letter.kind) == (IN, OfferShare.kind)}
        return self.letters.write_receipts(dict(self.receipts(came - told))) if came - told else ()
