"""A curator at a mailbox: whom it waits for, when it gives them up, and what it says in the end.

A curator keeps no rows on its disk. While a run is under way its letters stay in the mailbox, sealed, and a curator
that was stopped hears them again: in the order in which it heard them, with the owners given up whom it had given up.
What it is about to do is written down before it is done, so that a run that is held again is the same run.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from likeset.errors import (
    HomeRestored,
    IllegalMessage,
    LikesetError,
    NotCurated,
    QuorumMissed,
    UnfinishedRequest,
)
from likeset.homes.curator.home import CuratorHome, curator
from likeset.homes.expiry import utc_now
from likeset.homes.identity import Identity
from likeset.homes.letter_records import OUT
from likeset.homes.site_run import CuratorRun
from likeset.homes.standings import ABSTAINS
from likeset.protocol.party import CURATOR
from likeset.transports.mailbox.desk import TRANSIENT, MailDesk
from likeset.transports.mailbox.memory import Answer, KnownRun, RunStep
from likeset.transports.mailbox.postman import Arrived
from likeset.transports.mailbox.stores import Store
from likeset.transports.mailbox.words import EndingWords, ProgressWords
from likeset.transports.outcomes import Ending
from likeset.transports.refused_letters import AS_IF_NOT_COME
from likeset.transports.sites import SiteSettings
from likeset.trust.cards import Card
from likeset.trust.letters import is_stub, letter_in
from likeset.trust.posts import PostKind

__all__ = ["AFTER_AUCTION", "BEFORE_END", "PATIENCE", "CuratorDesk", "curator_desk"]

PATIENCE: Final = timedelta(hours=72)
"""How long a curator waits for an owner's answer."""

BEFORE_END: Final = timedelta(hours=24)
"""A curator waits for nobody during the last day of the terms, or the last quarter of what was left of them when the
run began: with the terms their keys go, and nobody could read a summary or a receipt any more."""

AFTER_AUCTION: Final = timedelta(hours=1)
"""In a run with an auction, receipts go no sooner after owners were told whether they are asked."""

_OWN = ""  # in the place of a party: what this home said itself
_MOST_BYTES = SiteSettings.most_bytes


@dataclass(eq=False)
class CuratorDesk(MailDesk):
    """A curator at a mailbox.

    Args:
        patience: how long it waits for an owner's answer.
        after_auction: how long receipts wait at least after owners were told whether they are asked.
        prepared: something that changes whenever this home may know more than before.
    """

    patience: timedelta = field(default=PATIENCE, kw_only=True)
    after_auction: timedelta = field(default=AFTER_AUCTION, kw_only=True)
    prepared: Callable[[], object] = field(default=object, kw_only=True)
    _reached: dict[bytes, int] = field(default_factory=dict, init=False)  # the last step of a side that is made
    _asked: dict[bytes, object] = field(default_factory=dict, init=False)
    _stuck: set[bytes] = field(default_factory=set, init=False)  # runs that wait for something in this look

    def _visit(self) -> None:
        self._stuck = set()
        consumers = [pin.card for pin in self.identity.pins.all() if (pin.state, pin.role) == ("pinned", "consumer")]
        for card in consumers:
            for arrived in self.postman.arrivals(card, most_bytes=_MOST_BYTES, wanted=self._wanted_of_consumer):
                self._take(card, arrived)
        for run in self.runs.values():
            self._take_up(run)
        owners = self._owners()
        for card in owners.values():
            for arrived in self.postman.arrivals(card, most_bytes=_MOST_BYTES, wanted=self._wanted_of_owner):
                self._take(card, arrived)
        for run in list(self.runs.values()):
            self._go_on(run)
        for card in (*consumers, *self._owners(closed=True).values()):
            self.postman.look_after(card)

    def _owners(self, *, closed: bool = False) -> dict[str, Card]:
        """Owners whom letters introduced in runs that are not closed yet, or in all, by fingerprint."""
        owners: dict[str, Card] = {}
        for run in self.runs.values():
            if closed or not run.closed:
                for party in self.identity.book.introduced(run.terms) & set(self.terms(run).owners):
                    card = self.card_of(run, party)
                    if card is not None:
                        owners[card.fingerprint] = card
        return owners

    # What may come.

    def _wanted_of_consumer(self, kind: PostKind, terms: bytes) -> bool:
        return kind != "letter" or self._is_accepted(terms)

    def _wanted_of_owner(self, _kind: PostKind, terms: bytes) -> bool:
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
        if run.ended or (self._is_accepted(run.terms) and self._told(run) == ""):
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
            self.memory.answer(run.terms, _OWN, Answer(""))
            self.send(run, consumer, "acceptance", accepted)
            self.remove(run, lambda file: file.kind == "ending")

    def _told(self, run: KnownRun) -> str:
        answer = self.memory.answers(run.terms).get(_OWN)
        return "" if answer is None else answer.word

    def _not_curated(self, run: KnownRun, detail: str) -> None:
        self.forget_side(run)
        words = EndingWords(Ending.NOT_CURATED, detail)
        self.send(run, self.terms(run).consumer, "ending", words.to_bytes(), instead=True)
        self.memory.answer(run.terms, _OWN, Answer(Ending.NOT_CURATED.value))
        self.postman.note(f"run {self.terms(run).run}: {detail}")

    # Steps.

    def _carry(self, run: KnownRun, step: RunStep, data: bytes | None = None) -> None:
        """Carry a step to its end that was written down; first those before it that this process did not see."""

        def work() -> None:
            side = self._side_before(run, step)
            if side is not None:
                self._apply(run, side, step, data)

        self._patiently(run, work)

    def _patiently(self, run: KnownRun, work: Callable[[], None]) -> None:
        """Do something in a run; what this home cannot do just now, it does at a later look."""
        try:
            work()
        except (*TRANSIENT, OSError) as error:
            self.forget_side(run)
            self._stuck.add(run.terms)
            self.postman.note(f"run {self.terms(run).run} waits: {_words(error)}")

    def _side_before(self, run: KnownRun, step: RunStep | None) -> CuratorRun | None:
        """The curator's side as it was before a step, or after all; None if a letter that it heard is not there now."""
        side = self._made(run)
        for earlier in self.memory.steps(run.terms, after=self._reached[run.terms]):
            if step is not None and earlier.number >= step.number:
                return side
            data = self._letter_of(run, earlier)
            if earlier.name and data is None:
                self.postman.note(
                    f"run {self.terms(run).run}: a letter of {earlier.party} was removed from the mailbox; the run "
                    "goes on when its writer has put it back"
                )
                self._stuck.add(run.terms)
                return None
            self._apply(run, side, earlier, data)
        return side

    def _made(self, run: KnownRun) -> CuratorRun:
        known = self._sides.get(run.terms)
        side = self.side(run)
        assert isinstance(side, CuratorRun)  # noqa: S101 - the factory makes nothing else here
        if side is not known or run.terms not in self._reached:
            self._reached[run.terms] = 0
        return side

    def forget_side(self, run: KnownRun) -> None:
        """Make it anew when it is needed, from what it heard."""
        super().forget_side(run)
        self._reached.pop(run.terms, None)

    def _letter_of(self, run: KnownRun, step: RunStep) -> bytes | None:
        card = self.card_of(run, step.party) if step.name else None
        if card is None:
            return None
        post = self.postman.read_again(card, step.name, most_bytes=_MOST_BYTES)
        return None if post is None else post.document

    def _apply(self, run: KnownRun, side: CuratorRun, step: RunStep, data: bytes | None) -> None:
        if step.what == "gives up":
            replies = self.heard(lambda: side.give_up(step.party))
        else:
            replies = self.heard(lambda: side.hear(data or b""))
        self._reached[run.terms] = step.number
        if step.number > self.memory.applied(run.terms):
            self._follow(run, step, replies, data)
            self.memory.apply(run.terms, step.number)
        if side.resident.party.finished:
            self._end(run, Ending.DONE)

    def _follow(self, run: KnownRun, step: RunStep, replies: tuple[bytes, ...] | Exception, data: bytes | None) -> None:
        """What follows from a step that is carried out for the first time."""
        is_of_owner = step.party in self.terms(run).owners
        match replies:
            case QuorumMissed():
                self._end(run, Ending.QUORUM_MISSED)
            case UnfinishedRequest():
                self._end(run, Ending.UNFINISHED, type(replies).__name__)
            case Exception() if step.what == "gives up" or not isinstance(replies, AS_IF_NOT_COME):
                self._end(run, Ending.FAILED, type(replies).__name__)
            case Exception():
                self._refuse(run, step.party)
            case _ if any(is_stub(reply) for reply in replies):
                self.send_back(run, step.party, replies)
                self._refuse(run, step.party)
            case _ if data is not None and is_of_owner:
                self._remove_received(run, step.party, data)
            case _ if data is not None:
                self.remove(run, lambda file: file.kind == "acceptance")  # the consumer has it: it wrote

    def _refuse(self, run: KnownRun, party: str) -> None:
        """A letter is as if it had not come; an owner will not write another one."""
        self.postman.tally.refused += 1
        self.postman.note(f"run {self.terms(run).run}: a letter of {party} was refused")
        if party in self.terms(run).owners:
            self.memory.answer(run.terms, party, Answer(ABSTAINS))

    def _give_up(self, run: KnownRun, owner: str) -> None:
        self._carry(run, self.memory.add_step(run.terms, "gives up", owner))

    def _remove_received(self, run: KnownRun, owner: str, data: bytes) -> None:
        """Take away the letters that an owner has, by its own word in its last one."""
        card, last = self.card_of(run, owner), letter_in(data, most_bytes=len(data)).header.last_received
        if card is None:
            return
        folder = self.postman.pair(card).outgoing_folder
        letters = [file for file in self.memory.posted(folder=folder) if file.terms == run.terms and file.number >= 0]
        numbers = [file.number for file in letters if file.paper == last]
        self.postman.remove(file for file in letters if numbers and file.number <= numbers[0])

    # What it is time for.

    def _go_on(self, run: KnownRun) -> None:
        now, run = self.clock(), self._again(run)
        is_open = not run.ended and self._is_accepted(run.terms)
        if is_open and now >= run.ends:
            self._end(run, Ending.TERMS_EXPIRED)
        elif is_open and run.terms not in self._stuck and run.due is not None and now >= run.due:
            self._patiently(run, lambda: self._attend(run, now))
        run = self._again(run)
        if run.ended:
            self._close(run)

    def _again(self, run: KnownRun) -> KnownRun:
        """A run as it is remembered now."""
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
        began, asked = None, dict[str, str]()
        for letter in self.identity.book.letters(run.terms):
            if letter.way == OUT:
                asked[letter.peer] = letter.at
            elif letter.peer == self.terms(run).consumer and began is None:
                began = letter.at
        if began is None:
            return {}
        # What comes of it must reach everybody before the terms end, and with them the keys.
        last = run.ends - min(BEFORE_END, (run.ends - datetime.fromisoformat(began)) / 4)
        since = {owner: datetime.fromisoformat(asked.get(owner, began)) for owner in side.waiting_for}
        return {owner: min(time + self.patience, last) for owner, time in since.items()}

    def _say_progress(self, run: KnownRun, side: CuratorRun, deadlines: dict[str, datetime]) -> None:
        """Tell the consumer whom this curator waits for, and look again when the first of them has had its time."""
        until = min(deadlines.values(), default=None)
        if side.waiting_for:
            words = ProgressWords(tuple(sorted(side.waiting_for)), until)
            self.send(run, self.terms(run).consumer, "progress", words.to_bytes(), instead=True)
        self.memory.set_due(run.terms, until)

    def _end(self, run: KnownRun, ending: Ending, detail: str = "") -> None:
        """How a run ended; the first word counts."""
        self.memory.end_run(run.terms, ending.value, detail)
        self.memory.set_due(run.terms, None)

    def _close(self, run: KnownRun) -> None:
        """Say how a run ended: to the consumer at once, and to owners in receipts; nobody could read that later on."""
        if run.closed:
            return
        if self.clock() >= run.ends:
            self.memory.close_run(run.terms)  # everybody's keys are gone; receipts can be given by hand
            return
        words = EndingWords(Ending(run.ended), run.detail)
        self.send(run, self.terms(run).consumer, "ending", words.to_bytes())
        self.remove(run, lambda file: file.kind == "progress")
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
        self._post_letters(run)
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
        return max(datetime.fromisoformat(at) for at in told) + self.after_auction if told else None

    def _is_settled(self, _run: KnownRun, /) -> bool:
        return False  # nobody tells a curator that everything arrived: its files go when the terms end


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, LikesetError) else type(error).__name__


def curator_desk(
    folder: Path,
    store: Store,
    *,
    patience: timedelta = PATIENCE,
    after_auction: timedelta = AFTER_AUCTION,
    clock: Callable[[], datetime] = utc_now,
) -> CuratorDesk:
    """A curator's desk at one mailbox.

    Args:
        folder: the curator's directory.
        store: the mailbox.
        patience: how long it waits for an owner's answer, from the letter that asked for it.
        after_auction: in a run with an auction, how long receipts wait at least after owners were told.
        clock: tells the time.

    Raises:
        LikesetError: this is no curator's directory, or it has no keys.
    """
    home = CuratorHome(folder)
    home.check()
    identity = Identity.of(folder, clock=clock)
    return CuratorDesk(
        folder,
        store,
        partial(curator, identity=identity),
        identity,
        clock,
        patience=patience,
        after_auction=after_auction,
        prepared=lambda: [path.stat().st_mtime_ns for path in (home.schemas, home.cards) if path.exists()],
    )
