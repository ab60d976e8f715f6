"""A curator at a mailbox: whom it waits for, when it gives them up, and what it says in the end.

All that it waits for has an end that is fixed when the wait begins: nobody is asked twice, and no run lasts longer than
its terms. How its steps are carried out, once and again, is in ``curator_steps``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import ClassVar

from likeset.errors import (
    HomeRestored,
    IllegalMessage,
    LikesetError,
    NotCurated,
)
from likeset.homes.compute import ComputeRoom
from likeset.homes.curator_home import SETTINGS_FILE, CuratorHome, CuratorSettings, curator_by_mail
from likeset.homes.home import ABSTAINS, READY
from likeset.homes.mail import IN, OUT, CuratorRun, Identity, KeptLetter, utc_now
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import WITNESS
from likeset.split.host import environment_folder, split_python
from likeset.transports.mailbox.curator_steps import CuratorSteps
from likeset.transports.mailbox.desk import TRANSIENT
from likeset.transports.mailbox.memory import Answer, KnownRun
from likeset.transports.mailbox.postman import Arrived
from likeset.transports.mailbox.words import EndingWords, ProgressWords, last_time
from likeset.transports.outcomes import Ending
from likeset.transports.stores import Store
from likeset.trust.cards import Card
from likeset.trust.letters import PostKind

_OWN = ""  # in the place of a party: what this home said itself


@dataclass(eq=False)
class CuratorDesk(CuratorSteps):
    """A curator at a mailbox.

    Args:
        patience: how long it waits for an owner's answer.
        after_auction: how long receipts wait at least after owners were told whether they are asked.
        prepared: something that changes whenever this home may know more than before.
        room: where it computes in split runs; None for a process that only looks.
    """

    stays_by: ClassVar[str] = "likeset curator serve"

    patience: timedelta = field(default=CuratorSettings().patience, kw_only=True)
    after_auction: timedelta = field(default=CuratorSettings().after_auction, kw_only=True)
    prepared: Callable[[], object] = field(default=object, kw_only=True)
    _asked: dict[bytes, object] = field(default_factory=dict, init=False)

    def _visit(self) -> None:
        self._stuck, self._lacking = set(), set()
        consumers = [pin.card for pin in self.identity.pins.all() if (pin.state, pin.role) == ("pinned", "consumer")]
        self.take_from(consumers, wanted=self._wanted_of_consumer, take=self._take)
        for run in self.runs.values():
            self._take_up(run)
        self.take_from(self._others().values(), wanted=self._wanted_of_other, take=self._take)
        for run in list(self.runs.values()):
            self._go_on(run)
        for card in (*consumers, *self._others(closed=True).values()):
            self.postman.look_after(card)

    def _others(self, *, closed: bool = False) -> dict[str, Card]:
        """Owners, and witnesses, whom letters introduced in runs that are not closed yet, or in all, by fingerprint."""
        others: dict[str, Card] = {}
        for run in self.runs.values():
            if closed or not run.closed:
                for party in self.identity.book.introduced(run.terms) & {*self.terms(run).owners, WITNESS}:
                    card = self.card_of(run, party)
                    if card is not None:
                        others[card.fingerprint] = card
        return others

    # What may come.

    def _wanted_of_consumer(self, _card: Card, kind: PostKind, terms: bytes) -> bool:
        return kind != "letter" or self._is_accepted(terms)

    def _wanted_of_other(self, _card: Card, _kind: PostKind, terms: bytes) -> bool:
        return self._is_accepted(terms) and terms not in self._stuck

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
        elif run.ended:
            self.postman.take(arrived, "heard")  # too late, whatever it says
        elif post.kind == "letter" and self.split.is_split(run):
            self._take_share_letter(run, party, arrived)
        elif post.kind == "ending" and party in (self.terms(run).consumer, WITNESS) and self.split.is_split(run):
            self.postman.take(arrived, "heard" if self.split.hear_ending(run, party, post.document) else "refused")
        elif post.kind == "letter":
            step = self.memory.add_step(run.terms, "hears", party, folder=arrived.folder, name=arrived.name)
            self.postman.tally.taken += 1
            self._carry(run, step, post.document)
        elif post.kind == "standing" and party in self.terms(run).owners and post.document == ABSTAINS.encode():
            self.memory.answer(run.terms, party, Answer(ABSTAINS))
            self.memory.set_due(run.terms, self.clock())
            self.postman.take(arrived, "heard")
        else:
            self.postman.take(arrived, "refused")

    def _take_terms(self, card: Card, arrived: Arrived) -> bool:
        try:
            invitation = self.read_terms(arrived, card)
            if self.party(invitation.terms) != CURATOR:
                raise IllegalMessage(f"run {invitation.terms.run}: the terms do not name this home as the curator")
            self.add_run(invitation)
        except LikesetError as error:
            self.postman.note(f"terms of {card.name} were refused: {error}")
            return False
        return True

    def _take_up(self, run: KnownRun) -> None:
        """Accept a run, or tell the consumer what is missing; asked again when that may have changed."""
        if run.ended or (self._is_accepted(run.terms) and self._told(run) == READY):
            return
        if self.clock() >= run.ends:
            return
        stamp = self.prepared()
        if self._told(run) and self._asked.get(run.terms) == stamp:
            return
        self._asked[run.terms] = stamp
        consumer = self.terms(run).consumer
        try:
            side = self.side(run)
            assert side is not None  # noqa: S101 - a curator has decided
            accepted = side.acceptance()
        except (HomeRestored, *TRANSIENT):
            raise
        except NotCurated as error:
            self._not_curated(run, str(error))
        except LikesetError as error:
            self._not_curated(run, type(error).__name__)
        else:
            if self.send(run, consumer, "acceptance", accepted):  # else the next look tries again
                self.remove(run, "ending")
                self.memory.answer(run.terms, _OWN, Answer(READY))

    def _told(self, run: KnownRun) -> str:
        answer = self.memory.answer_of(run.terms, _OWN)
        return "" if answer is None else answer.word

    def _not_curated(self, run: KnownRun, detail: str) -> None:
        self.forget_side(run)
        words = EndingWords(Ending.NOT_CURATED, detail)
        if self.send(run, self.terms(run).consumer, "ending", words.to_bytes(), instead=True):
            self.memory.answer(run.terms, _OWN, Answer(Ending.NOT_CURATED.value))
        self.postman.note(f"run {self.terms(run).run}: {detail}")

    # What it is time for.

    def _go_on(self, run: KnownRun) -> None:
        now, run = self.clock(), self._again(run)
        is_open = not run.ended and self._is_accepted(run.terms)
        if is_open and self.split.is_split(run):
            self._patiently(run, lambda: self.split.go_on(run))
        elif is_open and now >= run.ends:
            self._end(run, Ending.TERMS_EXPIRED)
        elif is_open and run.terms not in self._stuck and run.due is not None and now >= run.due:
            self._patiently(run, lambda: self._attend(run, now))
        if run.terms in self._lacking:
            began = self._began(run, self.identity.book.letters(run.terms))
            if began is not None and now >= last_time(run.ends, began):
                self._end(run, Ending.FAILED, "a letter was removed from the mailbox and not put back")
        run = self._again(run)
        if run.ended:
            self._close(run)

    def _again(self, run: KnownRun) -> KnownRun:
        self.runs[run.terms] = next(known for known in self.memory.runs() if known.terms == run.terms)
        return self.runs[run.terms]

    def _attend(self, run: KnownRun, now: datetime) -> None:
        """Wait no longer for those who will not answer or whose time is over, and say for whom this curator waits."""
        side = self._side_before(run, None)
        if side is None:
            return
        present = self.identity.book.introduced(run.terms)
        while not self._again(run).ended and self._sides.get(run.terms) is side and run.terms not in self._stuck:
            answers, deadlines = self.memory.answers(run.terms), self._deadlines(run, side)
            gone = [owner for owner in side.waiting_for if owner in answers or owner not in present]
            late = [owner for owner, time in deadlines.items() if time <= now]
            if not gone and not late:
                self._say_progress(run, side, deadlines)
                return
            for owner in sorted({*gone, *late}):
                # Whoever did not answer in time is not waited for again, however many rounds there are.
                self.memory.answer(run.terms, owner, Answer(ABSTAINS))
                self._give_up(run, owner)

    def _deadlines(self, run: KnownRun, side: CuratorRun) -> dict[str, datetime]:
        """When each owner is given up whom the curator waits for: so long after the last letter to it."""
        letters = self.identity.book.letters(run.terms)
        began = self._began(run, letters)
        if began is None:
            return {}
        asked = {letter.peer: datetime.fromisoformat(letter.at) for letter in letters if letter.way == OUT}
        last = last_time(run.ends, began)
        return {owner: min(asked.get(owner, began) + self.patience, last) for owner in side.waiting_for}

    def _began(self, run: KnownRun, letters: Sequence[KeptLetter]) -> datetime | None:
        """When the consumer's first letter came."""
        consumer = self.terms(run).consumer
        times = (letter.at for letter in letters if (letter.way, letter.peer) == (IN, consumer))
        return next(map(datetime.fromisoformat, times), None)

    def _say_progress(self, run: KnownRun, side: CuratorRun, deadlines: dict[str, datetime]) -> None:
        """Tell the consumer whom this curator waits for, and look again when the first of them has had its time."""
        until = min(deadlines.values(), default=None)
        if side.waiting_for:
            words = ProgressWords(tuple(sorted(side.waiting_for)), until)
            self.send(run, self.terms(run).consumer, "progress", words.to_bytes(), instead=True)
        self.memory.set_due(run.terms, until)

    def _end(self, run: KnownRun, ending: Ending, detail: str = "") -> None:
        self.memory.end_run(run.terms, ending.value, detail)
        self.memory.set_due(run.terms, None)

    def _close(self, run: KnownRun) -> None:
        """Say how a run ended: to the consumer at once, and to owners in receipts; nobody could read that later on."""
        if run.closed:
            return
        if self.clock() >= run.ends:
            self.memory.close_run(run.terms)  # everybody's keys are gone; receipts can be given by hand
            return
        if self.split.is_split(run):
            self.memory.close_run(run.terms)  # the consumer says how it ended, and gives receipts
            return
        words = EndingWords(Ending(run.ended), run.detail)
        told = self.send(run, self.terms(run).consumer, "ending", words.to_bytes())
        self.remove(run, "progress")
        when = self._time_of_receipts(run)
        if when is not None and self.clock() < when:
            self.memory.set_due(run.terms, when)
            return
        try:
            side = self.side(run)
            assert isinstance(side, CuratorRun)  # noqa: S101 - the factory makes nothing else here
            side.end()
        except HomeRestored:
            raise
        except Exception as error:  # a full disk, a key that is gone: they can be signed when that is mended
            self.postman.note(f"run {self.terms(run).run}: receipts wait ({type(error).__name__})")
            return
        self.post_letters(run)
        if told:
            self.memory.close_run(run.terms)
        self.memory.set_due(run.terms, None)
        self.forget_side(run)

    def _time_of_receipts(self, run: KnownRun) -> datetime | None:
        """After an auction receipts come at a time that does not depend on who was asked; None for at once."""
        terms = self.terms(run)
        if terms.auction == "everyone":
            return None
        letters = self.identity.book.letters(run.terms)
        told = [letter.at for letter in letters if letter.way == OUT and letter.peer in terms.owners]
        began = self._began(run, letters)
        if not told or began is None:
            return None
        return min(max(map(datetime.fromisoformat, told)) + self.after_auction, last_time(run.ends, began))

    def _is_settled(self, _run: KnownRun, /) -> bool:
        return False  # nobody tells a curator that everything arrived: its files go when the terms end


def curator_desk(
    folder: Path,
    store: Store,
    *,
    patience: timedelta | None = None,
    after_auction: timedelta | None = None,
    clock: Callable[[], datetime] = utc_now,
    room: ComputeRoom | None = None,
    check_workers: Callable[[], object] = split_python,
) -> CuratorDesk:
    """A curator's desk at one mailbox.

    Args:
        folder: the curator's directory.
        store: the mailbox.
        patience: how long it waits for an owner's answer, from the letter that asked for it; by ``curator.yaml`` if
            None.
        after_auction: in a run with an auction, how long receipts wait at least after owners were told; likewise.
        clock: tells the time.
        room: where it computes in split runs; None for a process that only looks.
        check_workers: raises where no worker can be started, which split runs need.

    Raises:
        LikesetError: this is no curator's directory, or it has no keys.
    """
    home = CuratorHome(folder)
    home.check()
    identity = Identity.of(folder, clock=clock)
    return CuratorDesk(
        folder,
        store,
        partial(curator_by_mail, identity=identity, check_workers=check_workers),
        identity,
        clock,
        patience=home.settings.patience if patience is None else patience,
        after_auction=home.settings.after_auction if after_auction is None else after_auction,
        prepared=lambda: _stamps(home.schemas, home.cards, folder / SETTINGS_FILE, environment_folder()),
        room=room,
    )


def _stamps(*paths: Path) -> list[int]:
    return [path.stat().st_mtime_ns for path in paths if path.exists()]
