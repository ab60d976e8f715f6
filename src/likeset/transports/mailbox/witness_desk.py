"""A witness at a mailbox: it accepts terms that name it, takes its shares, and computes with curator and consumer.

It hears terms of consumers whose cards are pinned, and letters of those whom a consumer introduced. It reads no row.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import ClassVar

from likeset.errors import HomeRestored, IllegalMessage, LikesetError, NotCurated
from likeset.homes.compute import ComputeRoom
from likeset.homes.home import READY
from likeset.homes.mail import Identity, utc_now
from likeset.homes.witness_home import WitnessHome, witness
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import WITNESS
from likeset.split.host import split_python
from likeset.transports.mailbox.computing_desk import ComputingDesk
from likeset.transports.mailbox.desk import TRANSIENT
from likeset.transports.mailbox.memory import Answer, KnownRun
from likeset.transports.mailbox.postman import Arrived
from likeset.transports.mailbox.words import EndingWords
from likeset.transports.outcomes import Ending
from likeset.transports.stores import Store
from likeset.trust.cards import Card
from likeset.trust.letters import PostKind

_OWN = ""  # in the place of a party: what this home said itself


@dataclass(eq=False)
class WitnessDesk(ComputingDesk):
    """A witness at a mailbox.

    Args:
        patience: how long it waits for an owner's part once the consumer has it.
        room: where it computes; None for a process that only looks.
    """

    stays_by: ClassVar[str] = "likeset witness serve"

    def _visit(self) -> None:
        consumers = [pin.card for pin in self.identity.pins.all() if (pin.state, pin.role) == ("pinned", "consumer")]
        self.take_from(consumers, wanted=self._wanted_of_consumer, take=self._take)
        for run in self.runs.values():
            self._take_up(run)
        self.take_from(self._introduced(not_ended=True), wanted=self._wanted_of_other, take=self._take)
        for run in list(self.runs.values()):
            if not self.memory_says_ended(run) and self._is_accepted(run.terms):
                self._go_on(run)
        for card in (*consumers, *self._introduced(not_ended=False)):
            self.postman.look_after(card)

    def _introduced(self, *, not_ended: bool) -> Iterable[Card]:
        cards: dict[str, Card] = {}
        for run in self.runs.values():
            if not_ended and run.ended:
                continue
            for party in self.identity.book.introduced(run.terms) & {*self.terms(run).owners, CURATOR}:
                card = self.card_of(run, party)
                if card is not None:
                    cards[card.fingerprint] = card
        return cards.values()

    # What may come.

    def _wanted_of_consumer(self, _card: Card, kind: PostKind, terms: bytes) -> bool:
        return kind != "letter" or self._is_accepted(terms)

    def _wanted_of_other(self, _card: Card, _kind: PostKind, terms: bytes) -> bool:
        return self._is_accepted(terms)

    def _is_accepted(self, terms: bytes) -> bool:
        return terms in self.runs and self.identity.book.run_keys(terms) is not None

    def _take(self, card: Card, arrived: Arrived) -> None:
        run, post = self.runs.get(arrived.post.terms), arrived.post
        if post.kind == "terms":
            self.postman.take(arrived, "heard" if self._take_terms(card, arrived) else "refused")
            return
        names = self.terms(run).cards.items() if run is not None else ()
        party = next((name for name, fingerprint in names if fingerprint == card.fingerprint), None)
        if run is None or party is None:
            self.postman.take(arrived, "refused")
        elif self.memory_says_ended(run):
            self.postman.take(arrived, "heard")  # too late, whatever it says
        elif post.kind == "letter":
            self._take_letter(run, party, arrived)
        elif post.kind == "ending" and party in (CURATOR, self.terms(run).consumer):
            self.postman.take(arrived, "heard" if self.split.hear_ending(run, party, post.document) else "refused")
        else:
            self.postman.take(arrived, "refused")

    def _take_letter(self, run: KnownRun, party: str, arrived: Arrived) -> None:
        try:
            self._take_share_letter(run, party, arrived)
        except TRANSIENT as error:
            self.postman.note(f"run {self.terms(run).run} waits: {error}")
            self.postman.tally.left += 1

    def _take_terms(self, card: Card, arrived: Arrived) -> bool:
        try:
            invitation = self.read_terms(arrived, card)
            if self.party(invitation.terms) != WITNESS:
                raise IllegalMessage(f"run {invitation.terms.run}: the terms do not name this home as the witness")
            self.add_run(invitation)
        except LikesetError as error:
            self.postman.note(f"terms of {card.name} were refused: {error}")
            return False
        return True

    def _take_up(self, run: KnownRun) -> None:
        """Accept a run, or tell the consumer what is missing; asked again at each look, for that may be mended."""
        answer = self.memory.answer_of(run.terms, _OWN)
        told = "" if answer is None else answer.word
        if run.ended or self.clock() >= run.ends or (told == READY and self._is_accepted(run.terms)):
            return
        consumer = self.terms(run).consumer
        try:
            accepted = self.split.side(run).acceptance()
        except (HomeRestored, *TRANSIENT):
            raise
        except LikesetError as error:
            words = EndingWords(Ending.NOT_CURATED, str(error) if isinstance(error, NotCurated) else "")
            if told != words.detail or not told:
                self.send(run, consumer, "ending", words.to_bytes(), instead=True)
                self.memory.answer(run.terms, _OWN, Answer(words.detail or Ending.NOT_CURATED.value))
                self.postman.note(f"run {self.terms(run).run}: {error}")
        else:
            if self.send(run, consumer, "acceptance", accepted):  # else the next look tries again
                self.remove(run, "ending")
                self.memory.answer(run.terms, _OWN, Answer(READY))

    # What it is time for.

    def _go_on(self, run: KnownRun) -> None:
        try:
            self.split.go_on(run)
        except HomeRestored:
            raise
        except LikesetError as error:
            self.forget_side(run)
            self.postman.note(f"run {self.terms(run).run} waits: {error}")

    def _end(self, run: KnownRun, ending: Ending, detail: str = "") -> None:
        self.memory.end_run(run.terms, ending.value, detail)
        self.memory.set_due(run.terms, None)
        self.postman.note(f"run {self.terms(run).run}: {ending.value}{f': {detail}' if detail else ''}")

    def _is_settled(self, _run: KnownRun, /) -> bool:
        return False  # others read its last letters when they look: its files go when the terms end


def witness_desk(
    folder: Path,
    store: Store,
    *,
    patience: timedelta | None = None,
    clock: Callable[[], datetime] = utc_now,
    room: ComputeRoom | None = None,
    check_workers: Callable[[], object] = split_python,
) -> WitnessDesk:
    """A witness's desk at one mailbox.

    Args:
        folder: the witness's directory.
        store: the mailbox.
        patience: how long it waits for owners' parts; by ``witness.yaml`` if None.
        clock: tells the time.
        room: where it computes; None for a process that only looks.
        check_workers: raises where no worker can be started.

    Raises:
        LikesetError: this is no witness's directory, or it has no keys.
    """
    home = WitnessHome(folder)
    home.check()
    identity = Identity.of(folder, clock=clock)
    return WitnessDesk(
        folder,
        store,
        partial(witness, identity=identity, check_workers=check_workers),
        identity,
        clock,
        patience=home.settings.patience if patience is None else patience,
        room=room,
    )
