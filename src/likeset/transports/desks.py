"""Each role at a mailbox: which terms and letters it takes, what it answers, and when it waits no longer."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Self

from likeset import documents
from likeset.errors import (
    BadDocument,
    HomeRestored,
    IllegalMessage,
    InvalidArgument,
    LedgerUnavailable,
    LikesetError,
    MailboxTrouble,
    NoAnswer,
    NotCurated,
    PostTrouble,
    QuorumMissed,
    TermsExpired,
    UnfinishedRequest,
)
from likeset.homes.compute import ComputeFolder, ComputeRoom, ComputeRun, SplitConsumerRun
from likeset.homes.consumer_home import ConsumerHome, KeptRun, consumer_run
from likeset.homes.curator_home import SETTINGS_FILE, CuratorHome, CuratorSettings, curator_run
from likeset.homes.home import ABSTAINS, READY, WAITING
from likeset.homes.mail import (
    AS_IF_NOT_COME,
    IN,
    OUT,
    ConsumerRun,
    CuratorRun,
    Factory,
    Identity,
    Invitation,
    KeptLetter,
    SiteRun,
    acknowledging_party,
    check_not_expired,
    end_of,
    most_bytes_from,
    most_bytes_to_owner,
    peer_in,
    utc_now,
)
from likeset.homes.owner_node import Home, NodeRun, OwnerNode, owner_run
from likeset.homes.witness_home import WitnessHome, witness
from likeset.protocol.party import CURATOR, ComputeState
from likeset.protocol.split_run import NOTHING_HELD
from likeset.protocol.terms import WITNESS, Terms
from likeset.protocol.wire import ShareReceipts, Summary
from likeset.split.host import environment_folder, split_python
from likeset.transports.posts import (
    MEMORY_FILE,
    Answer,
    Arrived,
    Ending,
    EndingWords,
    KnownRun,
    Look,
    MailMemory,
    Postman,
    ProgressWords,
    RunStep,
    Tally,
    last_time,
)
from likeset.transports.stores import Store
from likeset.trust.cards import Card, Pin
from likeset.trust.letters import (
    MOST_ACCEPTANCE_BYTES,
    MOST_TERMS_BYTES,
    Post,
    PostKind,
    is_acceptance,
    is_stub,
    letter_in,
    size_of_post,
)

REMEMBERED: Final = timedelta(days=14)
"""How long a run is remembered after its terms have ended, so that nobody makes it new by bringing old files back."""

MOST_RUNS_OF_ONE: Final = 200
"""Runs of one consumer that a home follows at a time."""

TRANSIENT = (LedgerUnavailable, MailboxTrouble)
"""What may be over at the next look: a letter that met with it is left."""

_OTHERS = 4  # documents of one sender that are read in one look, beside one letter for each run


@dataclass(eq=False)
class MailDesk(ABC):
    """A home at one mailbox.

    Args:
        folder: the home.
        store: the mailbox.
        factory: makes the home's side of a run.
        identity: the home's.
        clock: tells the time.
    """

    folder: Path
    store: Store
    factory: Factory
    identity: Identity
    clock: Callable[[], datetime]
    memory: MailMemory = field(init=False)
    postman: Postman = field(init=False)
    runs: dict[bytes, KnownRun] = field(default_factory=dict, init=False)
    _invitations: dict[bytes, Invitation] = field(default_factory=dict, init=False)
    _sides: dict[bytes, SiteRun] = field(default_factory=dict, init=False)
    _posted_to: dict[bytes, int] = field(default_factory=dict, init=False)  # the last letter that was left, by place

    def __post_init__(self) -> None:
        self.memory = MailMemory(self.folder, self.store.address, clock=self.clock)
        self.postman = Postman(self.identity, self.store, self.memory, self.clock)

    @property
    def is_live(self) -> bool:
        return self.store.address.startswith("courier:")

    def look(self) -> Look:
        """Take what came, answer it, and put right what is missing; raises as ``Desk.look``."""
        with self.memory.alone():
            self.identity.book.check_running()
            self.identity.book.settle_ended()
            self.postman.tally = Tally()
            self._load_runs()
            self._visit()
            self._load_runs()
            for run in self.runs.values():
                self.post_letters(run)
            self._clean_up()
            return self.postman.tally.look(self._next_deadline())

    def close(self) -> None:
        self.memory.close()
        self.identity.book.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def _visit(self) -> None: ...

    def _next_deadline(self) -> datetime | None:
        """When to look again although nothing comes."""
        now = self.clock()
        times = (time for run in self.runs.values() for time in (run.due, run.ends) if time is not None and time > now)
        return min(times, default=None)

    def take_from(
        self,
        cards: Iterable[Card],
        *,
        wanted: Callable[[Card, PostKind, bytes], bool],
        take: Callable[[Card, Arrived], None],
    ) -> None:
        """Take what senders left for this home; those with invalid files come last.

        A failure with one sender ends its turn, and not that of the others.

        Args:
            cards: of the senders.
            wanted: whether a post of a kind, under the terms of this digest, can be dealt with now.
            take: deals with a post.
        """
        for card in sorted(cards, key=self.postman.has_invalid_files):
            letters = [
                self.most_letter(self.terms(run), party)
                for run in self.runs.values()
                for party, fingerprint in self.terms(run).cards.items()
                if fingerprint == card.fingerprint
            ]
            pin = self.identity.pins.by_fingerprint(card.fingerprint)
            other = MOST_TERMS_BYTES if pin is not None and pin.role == "consumer" else MOST_ACCEPTANCE_BYTES
            in_one_look = _OTHERS * size_of_post(other) + sum(map(size_of_post, letters))
            limits = {"most_bytes": max([other, *letters]), "in_one_look": in_one_look}
            try:
                for arrived in self.postman.arrivals(card, **limits, wanted=partial(wanted, card)):
                    take(card, arrived)
            except (HomeRestored, *TRANSIENT) as error:
                if not isinstance(error, PostTrouble):
                    raise
                self.postman.note(f"posts of {card.name} wait: {error}")
            except Exception as error:
                self.postman.note(f"a post of {card.name} cannot be dealt with ({type(error).__name__})")

    def most_letter(self, terms: Terms, party: str) -> int:
        return most_bytes_from(terms, party)

    # Runs.

    def _load_runs(self) -> None:
        self.runs = {run.terms: run for run in self.memory.runs()}

    def invitation(self, run: KnownRun) -> Invitation:
        if run.terms not in self._invitations:
            self._invitations[run.terms] = Invitation.read(run.invitation)
        return self._invitations[run.terms]

    def terms(self, run: KnownRun) -> Terms:
        return self.invitation(run).terms

    def party(self, terms: Terms) -> str:
        """This home's name in terms.

        Raises:
            IllegalMessage: they do not name its card.
        """
        for name, fingerprint in terms.cards.items():
            if fingerprint == self.identity.fingerprint:
                return name
        raise IllegalMessage(f"run {terms.run}: the terms do not name this home's card")

    def read_terms(self, arrived: Arrived, card: Card) -> Invitation:
        """The terms in a post: signed by the card whose folder they lie in, and those that the post names.

        Raises:
            LikesetError: they are not.
        """
        if len(arrived.post.document) > MOST_TERMS_BYTES:
            raise IllegalMessage("terms that are larger than terms may be")
        invitation = Invitation.read(arrived.post.document)
        if invitation.signed.card != card or bytes.fromhex(invitation.terms.digest) != arrived.post.terms:
            raise IllegalMessage("terms that somebody else signed than whoever left them, or other terms than named")
        check_not_expired(invitation.terms, self.clock())
        return invitation

    def add_run(self, invitation: Invitation) -> KnownRun:
        """Follow a run.

        Raises:
            IllegalMessage: this home follows too many runs of this consumer.
        """
        digest = bytes.fromhex(invitation.terms.digest)
        if digest not in self.runs:
            own = [run for run in self.runs.values() if self.invitation(run).signed.card == invitation.signed.card]
            if len(own) >= MOST_RUNS_OF_ONE:
                raise IllegalMessage(f"terms of more than the {MOST_RUNS_OF_ONE} runs of one consumer that are open")
            self.follow(invitation)
        return self.runs[digest]

    def follow(self, invitation: Invitation) -> None:
        """Follow a run that is not followed yet, however many there are."""
        digest, ends = bytes.fromhex(invitation.terms.digest), end_of(invitation.terms)
        self.memory.add_run(digest, invitation=invitation.to_bytes(), ends=ends)
        self.runs[digest] = KnownRun(digest, invitation.to_bytes(), ends)

    def side(self, run: KnownRun) -> SiteRun | None:
        """This home's side of a run; None while somebody here has still to decide.

        Raises:
            LikesetError: this home does not take part.
        """
        known = self._sides.get(run.terms)
        if known is not None and not known.failed:
            return known
        invitation = self.invitation(run)
        made = self.factory(invitation, self.party(invitation.terms), self.folder)
        if made is not None:
            self._sides[run.terms] = made
        return made

    def forget_side(self, run: KnownRun) -> None:
        self._sides.pop(run.terms, None)

    # Posts.

    def card_of(self, run: KnownRun, party: str) -> Card | None:
        terms = self.terms(run)
        pin = self.identity.pins.by_fingerprint(terms.cards[party])
        if pin is not None:
            return pin.card if pin.state == "pinned" else None
        if party == terms.consumer:
            return self.invitation(run).signed.card
        peer = self.identity.book.peer(run.terms, party)
        return None if peer is None else _card(peer.card)

    def send(self, run: KnownRun, party: str, kind: PostKind, document: bytes, *, instead: bool = False) -> bool:
        """Leave a document for a party; with ``instead``, in place of those of its kind that are there.

        Returns:
            False if the party's folder cannot be used now: to be tried again.
        """
        card = self.card_of(run, party)
        if card is None:
            return True
        try:
            self.postman.send(card, Post(kind, run.terms, document), party=party)
        except PostTrouble as error:
            self.postman.note(f"nothing can be left for {party}: {error}")
            return False
        if instead:
            self.remove(run, kind, party=party, but=document)
        return True

    def remove(
        self, run: KnownRun, kind: PostKind | None = None, *, party: str | None = None, but: bytes | None = None
    ) -> None:
        """Take away what was left in a run: of a kind, for a party, all but one document; or all of it."""
        left = self.memory.posted(terms=run.terms, kind=kind, party=party)
        self.postman.remove([file for file in left if but is None or file.document != but])

    def send_back(self, run: KnownRun, party: str, replies: Iterable[bytes]) -> None:
        """Show a party what it wrote before, where that is among replies; the rest the letter book keeps."""
        for data in replies:
            if is_stub(data) or is_acceptance(data):
                self.send(run, party, "letter", data)

    def post_letters(self, run: KnownRun) -> None:
        """Leave what this home wrote and did not leave yet."""
        book = self.identity.book
        written = book.written(run.terms, after=self._posted_to.get(run.terms, 0))
        if not written:
            return
        left, all_left = self.memory.papers(run.terms), True
        for letter in written:
            data = book.letter_data(run.terms, letter.peer, OUT, letter.number) if letter.digest not in left else None
            card = None if data is None else self.card_of(run, letter.peer)
            if data is not None and card is not None:
                post = Post("letter", run.terms, data)
                try:
                    self.postman.send(card, post, party=letter.peer, number=letter.number, paper=letter.digest)
                except PostTrouble as error:
                    self.postman.note(f"nothing can be left for {letter.peer}: {error}")
                    all_left = False
            if all_left:
                self._posted_to[run.terms] = letter.place

    def _clean_up(self) -> None:
        """Take away what nobody needs any more: of runs that are settled, and of those whose terms have ended."""
        now = self.clock()
        for run in list(self.runs.values()):
            if now >= run.ends or self._is_settled(run):
                self.remove(run)
            if now >= run.ends + REMEMBERED:
                self.memory.forget_run(run.terms)
                del self.runs[run.terms]
                self._invitations.pop(run.terms, None)
                self.forget_side(run)

    def _is_settled(self, run: KnownRun, /) -> bool:
        """Whether this home has said all that it will say in a run, and others have what they need."""
        return self.identity.book.is_settled(run.terms)

    def memory_says_ended(self, run: KnownRun) -> bool:
        return any(known.ended for known in self.memory.runs() if known.terms == run.terms)

    def heard(self, work: Callable[[], tuple[bytes, ...]]) -> tuple[bytes, ...] | Exception:
        """The replies to a letter, or why there are none.

        Raises:
            HomeRestored: this home stops.
            LedgerUnavailable, MailboxTrouble: the letter is left.
        """
        try:
            return work()
        except (HomeRestored, *TRANSIENT):
            raise
        except Exception as error:
            return error


@lru_cache(maxsize=4096)
def _card(data: bytes) -> Card:
    return Card.from_bytes(data)


PROGRESS: Final = "@progress"
"""In the place of a party: whom a run waits for, by the last word of whoever waits."""
COMPUTING: Final = "@computing"
"""In the place of a party: how far the computation is here, in words."""
SOON: Final = timedelta(seconds=2)
"""How soon a desk looks again while something is computed."""

Fate = Literal["heard", "refused", "later"]


@dataclass(eq=False)
class SplitRuns:
    """What a desk does in split runs.

    Args:
        desk: whose runs.
        end: notes how a run ended; the first word counts.
        patience: how long the party waits for owners' parts.
        room: where it computes; None for a process that only looks.
        command: that stays and computes, as a person types it.
    """

    desk: MailDesk
    end: Callable[[KnownRun, Ending, str], None]
    patience: timedelta
    room: ComputeRoom | None
    command: str
    _told: dict[bytes, str] = field(default_factory=dict, init=False)
    _faults: set[str] = field(default_factory=set, init=False)

    def is_split(self, run: KnownRun) -> bool:
        return self.desk.terms(run).split is not None

    def side(self, run: KnownRun) -> ComputeRun:
        """This party's side of it; raises as ``MailDesk.side``."""
        side = self.desk.side(run)
        assert isinstance(side, ComputeRun)  # noqa: S101 - a factory of a compute party makes nothing else
        return side

    # What comes.

    def hear(self, run: KnownRun, party: str, data: bytes) -> Fate:
        """Hear a letter.

        Raises:
            HomeRestored: this home stops.
            LedgerUnavailable, MailboxTrouble: the letter is left.
        """
        try:
            side = self.side(run)
        except (HomeRestored, *TRANSIENT):
            raise
        except LikesetError as error:  # this home's own trouble, which can be mended
            self.desk.postman.note(f"run {self.desk.terms(run).run} waits: {error}")
            return "later"
        if side.party is None and _number(data) > 0:
            return "later"  # the consumer's first letter says who takes part, and files come in any order
        replies = self.desk.heard(lambda: side.hear(data))
        if isinstance(replies, NoAnswer):
            self.desk.postman.note(f"run {side.terms.run} waits: {replies}")
            return "later"
        if isinstance(replies, Exception):
            self._note_refusal(run, party, replies)
            return "refused"
        self.desk.send_back(run, party, replies)
        self._note_faults(side)
        if side.party is not None and side.party.finished and not isinstance(side, SplitConsumerRun):
            self.finish(run, Ending.DONE)
        return "heard"

    def hear_ending(self, run: KnownRun, party: str, document: bytes) -> bool:
        """Another compute party says how the run ended there; where rows were opened, only the consumer says that."""
        words = EndingWords.read(document)
        if words is None or words.ended in (Ending.DONE, Ending.NOT_CURATED):
            return False
        if (
            ComputeFolder(self.desk.folder, run.terms.hex()).opening.picks() is None
        ):  # nobody takes that from its reader
            said = f": {words.detail}" if words.detail else ""
            self.finish(run, words.ended, f"{party} says so{said}")  # its word, which nothing here proves
        return True

    def _note_refusal(self, run: KnownRun, party: str, error: Exception) -> None:
        terms = self.desk.terms(run)
        words = str(error) if isinstance(error, LikesetError) else type(error).__name__
        self.desk.postman.note(f"run {terms.run}: a letter of {party} was refused: {words}")
        if isinstance(error, QuorumMissed):
            self.finish(run, Ending.QUORUM_MISSED, tell=True)
        elif self.side(run).failed:
            self.finish(run, Ending.NOT_COMPUTED, words, tell=True)

    def _note_faults(self, side: ComputeRun) -> None:
        """Parts that are not used stand in the notes, once."""
        for fault in () if side.party is None else side.party.faults:
            words = f"run {side.terms.run}: {fault.owner} {fault.reason}"
            if words not in self._faults:
                self._faults.add(words)
                self.desk.postman.note(words)

    # What it is time for.

    def go_on(self, run: KnownRun) -> None:
        """Wait no longer for those whose time is over; compute; end what cannot come to an end."""
        now = self.desk.clock()
        if now >= run.ends:
            self.finish(run, Ending.TERMS_EXPIRED)
            return
        side = self.side(run)
        if side.party is None:
            return
        try:
            self._give_up(run, side, now)
        except QuorumMissed:
            self.finish(run, Ending.QUORUM_MISSED, tell=True)
            return
        if isinstance(side, SplitConsumerRun):
            side.acknowledge()
        began, is_consumer = self._began(run), isinstance(side, SplitConsumerRun)
        if side.party.is_ready:
            self._compute(run, side)
        elif is_consumer:
            self._say_state(run, side)
        if is_consumer and began is not None and now >= last_time(run.ends, began) and not self._is_over(run):
            self.finish(run, Ending.NOT_COMPUTED, self._whom_it_waited_for(side), tell=True)

    def _is_over(self, run: KnownRun) -> bool:
        return self.desk.memory_says_ended(run)

    def _give_up(self, run: KnownRun, side: ComputeRun, now: datetime) -> None:
        deadline = self._deadline(run, side)
        present, answers = self.desk.identity.book.introduced(run.terms), self.desk.memory.answers(run.terms)
        for owner in sorted(side.waiting_for):
            is_gone = isinstance(side, SplitConsumerRun) and (owner not in present or self._abstains(owner, answers))
            if is_gone or (deadline is not None and now >= deadline):
                side.give_up(owner)
        if side.waiting_for and deadline is not None:
            words = ProgressWords(tuple(sorted(side.waiting_for)), deadline)
            self.desk.memory.answer(run.terms, PROGRESS, Answer("", words.to_bytes()))
            self.desk.memory.set_due(run.terms, deadline)
        else:
            self.desk.memory.answer(run.terms, PROGRESS, Answer(""))

    def _abstains(self, owner: str, answers: dict[str, Answer]) -> bool:
        return owner in answers and answers[owner].word == "abstains"

    def _deadline(self, run: KnownRun, side: ComputeRun) -> datetime | None:
        """When owners are given up: so long after the run began, or after the consumer said whose parts it has."""
        began = self._began(run)
        since = began
        if not isinstance(side, SplitConsumerRun):
            since = _first(self._letters(run), IN, side.terms.consumer, ShareReceipts.kind)
        return None if since is None or began is None else min(since + self.patience, last_time(run.ends, began))

    def _began(self, run: KnownRun) -> datetime | None:
        """When the consumer's first letter was written, or came."""
        consumer, letters = self.desk.terms(run).consumer, self._letters(run)
        own = _first(letters, OUT, None, None)
        return _first(letters, IN, consumer, None) or own

    def _letters(self, run: KnownRun) -> list[KeptLetter]:
        return self.desk.identity.book.letters(run.terms)

    # Computing.

    def _compute(self, run: KnownRun, side: ComputeRun) -> None:
        assert side.party is not None  # noqa: S101 - it is ready
        if self.room is None:
            words = f"all compute parties are ready: computing needs `{self.command}` here, and serve at the others"
            self._say(run, words)
            return
        digest = side.terms.digest
        try:
            reaches = side.reaches
        except BadDocument as error:  # it signed that with its vote, and says nothing else any more
            self.finish(run, Ending.NOT_COMPUTED, str(error), tell=True)
            return
        status = self.room.start(digest, side.party.inputs(), reaches)
        self._say(run, str(status))
        self._note_repeats(run)
        if status.state == "failed":
            self.finish(run, Ending.NOT_COMPUTED, status.reason, tell=True)
        elif status.state == "done" and isinstance(side, SplitConsumerRun):
            self._open(run, side)

    def _open(self, run: KnownRun, side: SplitConsumerRun) -> None:
        assert self.room is not None  # noqa: S101 - it computed
        slots = self.room.opened(side.terms.digest)
        if slots is None:
            return
        side.opened(slots)
        self._note_unopened(side)
        # The others heard that it is over, as ever; whether any row held is for the consumer alone.
        if side.has_summary:
            self.finish(run, Ending.DONE)
        else:
            self.finish(run, Ending.NOT_COMPUTED, NOTHING_HELD)

    def _note_repeats(self, run: KnownRun) -> None:
        terms = self.desk.terms(run)
        count = 0 if self.room is None else self.room.repeats(terms.digest)
        if count:
            words = f"run {terms.run}: what was opened was asked for again, and sent as before (request {count})"
            self.desk.postman.note(words)

    def _note_unopened(self, side: SplitConsumerRun) -> None:
        for owner, count in side.unopened_picks.items():
            words = f"{count} rows picked from {owner} did not open and were left out; this does not show who caused it"
            self.desk.postman.note(f"run {side.terms.run}: {words}")

    def finish(self, run: KnownRun, ending: Ending, detail: str = "", *, tell: bool = False) -> None:
        """A run is over here: nothing of it is computed any more.

        Once all compute parties have agreed on a roster, rows may have been opened: letters and their key then stay
        until the terms end. Before that nobody computes, and no share stays.

        Args:
            run: the run.
            ending: how.
            detail: what else there is to say.
            tell: whether the other compute parties are told.
        """
        self._note_repeats(run)
        terms, side = self.desk.terms(run), None if ending is Ending.TERMS_EXPIRED else self.desk.side(run)
        words = EndingWords(ending, detail).to_bytes()
        others = {terms.consumer, CURATOR, WITNESS} & set(terms.cards) - {self.desk.party(terms)}
        for party in sorted(others) if tell else ():
            self.desk.send(run, party, "ending", words)
        if isinstance(side, ComputeRun) and not side.may_have_computed:
            if self.room is not None:
                self.room.end(terms.digest)
            side.forget()
        self.desk.forget_side(run)
        self.end(run, ending, detail)
        self.remove_files(run, ending)  # only what has ended may lose the record of an opening

    def remove_files(self, run: KnownRun, ending: str) -> None:
        """Nothing of a run is computed any more: remove its files, whether this process computes or only looks.

        The record that rows were opened stays until the terms end, unless the consumer's letter says that the run is
        over. Without it the run could be computed once more for whoever brings it back by another mailbox.

        Args:
            run: the run.
            ending: how it ended; empty where only its terms have.
        """
        if self.room is not None:
            self.room.end(run.terms.hex())
        kept = ComputeFolder(self.desk.folder, run.terms.hex())
        with kept.alone() as is_alone:
            if not is_alone:
                return  # another process computes, and may be about to open: the next look removes them
            if ending == Ending.DONE or self.desk.clock() >= run.ends:
                kept.remove()
            else:
                kept.rest()

    # What a person hears of it.

    def _say(self, run: KnownRun, words: str) -> None:
        self.desk.memory.answer(run.terms, COMPUTING, Answer("", words.encode()))
        if self._told.get(run.terms) != words:
            self._told[run.terms] = words
            self.desk.postman.note(f"run {self.desk.terms(run).run}: {words}")

    def _say_state(self, run: KnownRun, side: ComputeRun) -> None:
        if side.party is not None and side.party.position.state is not ComputeState.COLLECTING:
            self._say(run, self._whom_it_waited_for(side))

    def _whom_it_waited_for(self, side: ComputeRun) -> str:
        assert side.party is not None  # noqa: S101 - the caller looked
        state = side.party.position.state
        return f"waits for the other compute parties ({state.value})"

    @property
    def next_look(self) -> datetime | None:
        """When to look again although nothing comes; None if nothing is computed."""
        return self.desk.clock() + SOON if self.room is not None and self.room.is_busy else None


def _number(data: bytes) -> int:
    try:
        return letter_in(data, most_bytes=len(data)).header.number
    except LikesetError:
        return 0


def _first(letters: list[KeptLetter], way: str, peer: str | None, kind: str | None) -> datetime | None:
    for letter in letters:
        if letter.way == way and letter.peer == (peer or letter.peer) and letter.kind == (kind or letter.kind):
            return datetime.fromisoformat(letter.at)
    return None


class PartyState(StrEnum):
    """Where somebody stands; its value is what people read."""

    UNHEARD = "has not got the terms"
    """As far as is known here: nothing came from it."""

    DECIDES = "decides"
    TAKES_PART = "takes part"
    ABSTAINS = "does not take part"


@dataclass(frozen=True)
class RunProgress:
    """What a consumer knows of a run.

    Attributes:
        run: its name.
        parties: where everybody stands, by name; the curator under ``curator``.
        decide_by: when the run begins without those who have not decided, if a quorum accepted.
        terms_end: when the terms end, and with them the run.
        began: whether the first letters were written; nothing is charged before that.
        waited_for: owners whom the curator waits for, by its last word; in a split run, the consumer itself.
        until: when it gives them up.
        computing: in a split run, how far the computation is, in words; empty before it begins.
        split: whether the curator is split, and the consumer computes with it.
        ended: how the run ended; None if it has not.
        detail: what else is said of the end, or what the curator lacks, in words.
    """

    run: str
    parties: Mapping[str, PartyState]
    decide_by: datetime
    terms_end: datetime
    began: bool = False
    waited_for: tuple[str, ...] = ()
    until: datetime | None = None
    ended: Ending | None = None
    detail: str = ""
    computing: str = ""
    split: bool = False

    @property
    def done(self) -> bool:
        return self.ended is Ending.DONE

    @property
    def headline(self) -> str:
        if self.ended is not None:
            return f"{self.ended}: {self.detail}" if self.detail else str(self.ended)
        return "running" if self.began else "waiting for answers"

    @property
    def outlook(self) -> str:
        end = f"the terms end on {_moment(self.terms_end)}"
        if self.ended is not None:
            return ""
        if not self.began:
            return f"begins when all have answered, or at {_moment(self.decide_by)} with those who accepted; {end}"
        if self.waited_for and self.until is not None:
            who, waits = ("shares of", "are waited for ") if self.split else ("the curator waits for", "")
            return f"{who} {', '.join(self.waited_for)} {waits}until {_moment(self.until)}; {end}"
        if self.split:
            return f"{self.computing or 'waiting for the other compute parties'}; {end}"
        return f"waiting for the curator; {end}"

    def stands(self, name: str) -> str:
        state = self.parties[name]
        if self.waited_for and state is PartyState.TAKES_PART and name not in (CURATOR, WITNESS):
            waits = "its shares are waited for" if self.split else "the curator waits for it"
            return waits if name in self.waited_for else "has answered"
        return state.value

    def document(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "parties": {party: state.value for party, state in self.parties.items()},
            "decide_by": self.decide_by.isoformat(),
            "terms_end": self.terms_end.isoformat(),
            "began": self.began,
            "waited_for": list(self.waited_for),
            "until": None if self.until is None else self.until.isoformat(),
            "ended": None if self.ended is None else self.ended.value,
            "detail": self.detail,
            "computing": self.computing,
            "split": self.split,
        }


def _moment(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M} UTC"


_STATES = {
    WAITING: PartyState.DECIDES,
    ABSTAINS: PartyState.ABSTAINS,
    READY: PartyState.TAKES_PART,
}


def progress_of(home: ConsumerHome, run: KeptRun) -> RunProgress:
    """Where a run is, by what this home keeps; nobody is asked.

    Raises:
        InvalidArgument: the run does not travel by mailbox.
    """
    travel, terms = run.travel, run.terms
    if travel is None:
        raise InvalidArgument("RUN", run.name, "does not travel by mailbox; see `likeset run start`")
    digest = bytes.fromhex(terms.digest)
    known, answers = None, dict[str, Answer]()
    if (home.folder / MEMORY_FILE).exists():
        with closing(MailMemory(home.folder, travel.mailbox)) as memory:
            known = next((other for other in memory.runs() if other.terms == digest), None)
            answers = memory.answers(digest)
    said = ProgressWords.read(answers[PROGRESS].document) if PROGRESS in answers else None
    ended = Ending(known.ended) if known is not None and known.ended else None
    if known is None and utc_now() >= end_of(terms):
        ended = Ending.TERMS_EXPIRED  # the desk forgot it
    if run.summary_path.exists():
        ended = Ending.DONE
    with home.identity.book as book:
        began = bool(book.written(digest))
    return RunProgress(
        run=run.name,
        parties={
            party: _STATES[answers[party].word] if party in answers else PartyState.UNHEARD
            for party in (CURATOR, *((WITNESS,) if WITNESS in terms.cards else ()), *terms.owners)
        },
        decide_by=travel.decide_by,
        terms_end=end_of(terms),
        began=began,
        waited_for=said.waiting_for if said is not None and ended is None else (),
        until=said.until if said is not None and ended is None else None,
        ended=ended,
        detail=_detail(known, answers),
        computing=answers[COMPUTING].document.decode() if COMPUTING in answers and ended is None else "",
        split=terms.split is not None,
    )


def whereabouts(home: ConsumerHome, run: KeptRun) -> RunProgress:
    """Where a run is, by what this home keeps; how it ended is kept beside its result."""
    progress = progress_of(home, run)
    if progress.ended is not None and not run.ending:
        kept = {"outcome": progress.ended, "detail": progress.detail, "unanswered": _unanswered(progress)}
        documents.write_text(run.ending_path, json.dumps(kept, indent=1) + "\n")
    return progress


def _unanswered(progress: RunProgress) -> dict[str, str]:
    """Owners whose rows are not in the summary, as far as the consumer knows, and why."""
    silent = {
        name: "abstains" if state is PartyState.ABSTAINS else "no answer"
        for name, state in progress.parties.items()
        if name != CURATOR and state is not PartyState.TAKES_PART
    }
    return silent | dict.fromkeys(progress.waited_for, "no answer")


def _detail(known: KnownRun | None, answers: Mapping[str, Answer]) -> str:
    """What is said of the end, or what the curator or the witness lacks."""
    if known is not None and known.detail:
        return known.detail
    told = (answers.get(party) for party in (CURATOR, WITNESS))
    lacks = (answer.document for answer in told if answer is not None and answer.word == ABSTAINS)
    return "; ".join(data.decode("utf-8", "replace") for data in lacks if data)


@dataclass(eq=False)
class ComputingDesk(MailDesk):
    """A home at a mailbox that computes beside its looks.

    Args:
        patience: how long it waits for an owner's part.
        room: where it computes; None for a process that only looks.
    """

    stays_by: ClassVar[str]
    """The command that stays and computes, as a person types it."""

    patience: timedelta = field(default=timedelta(hours=72), kw_only=True)
    room: ComputeRoom | None = field(default=None, kw_only=True)
    split: SplitRuns = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.split = SplitRuns(self, self._end, self.patience, self.room, self.stays_by)

    def close(self) -> None:
        """Let go of the home's files; what is computed stops, and goes on with the next process."""
        if self.room is not None:
            self.room.close()
        super().close()

    def _next_deadline(self) -> datetime | None:
        times = (super()._next_deadline(), self.split.next_look)
        return min((time for time in times if time is not None), default=None)

    def _clean_up(self) -> None:
        """Of runs that are over no share is left in files, also where the process was killed when it ended one."""
        now = self.clock()
        for run in self.runs.values():
            if (run.ended or now >= run.ends) and ComputeFolder(self.folder, run.terms.hex()).exists:
                self.split.remove_files(run, run.ended)
        super()._clean_up()

    @abstractmethod
    def _end(self, run: KnownRun, ending: Ending, detail: str = "") -> None: ...

    def _take_share_letter(self, run: KnownRun, party: str, arrived: Arrived) -> None:
        """Hear a letter of a split run, or leave it for the next look."""
        fate = self.split.hear(run, party, arrived.post.document)
        if fate == "later":
            self.postman.tally.left += 1
            return
        self.postman.take(arrived, fate)
        if party == self.terms(run).consumer:
            self.remove(run, "acceptance")  # the consumer has it: it wrote


@dataclass(eq=False)
class CuratorSteps(ComputingDesk):
    _reached: dict[bytes, int] = field(default_factory=dict, init=False)  # the last step of a side that is made
    _stuck: set[bytes] = field(default_factory=set, init=False)  # runs that wait for something in this look
    _lacking: set[bytes] = field(default_factory=set, init=False)  # of these, for a letter that somebody removed

    @abstractmethod
    def _end(self, run: KnownRun, ending: Ending, detail: str = "") -> None: ...

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
            self.postman.note(f"run {self.terms(run).run} waits: {_safe_words(error)}")

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
                self._lacking.add(run.terms)
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
        post = self.postman.read_again(card, step.name, most_bytes=self.most_letter(self.terms(run), step.party))
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
        is_of_owner = step.party in self.terms(run).owners
        match replies:
            case QuorumMissed():
                self._end(run, Ending.QUORUM_MISSED)
            case UnfinishedRequest():
                self._end(run, Ending.UNFINISHED, type(replies).__name__)
            case Exception() if step.what == "gives up" or not isinstance(replies, AS_IF_NOT_COME):
                self._end(run, Ending.FAILED, type(replies).__name__)
            case Exception():
                self._refuse(run, step)
            case _ if any(is_stub(reply) for reply in replies):
                self.send_back(run, step.party, replies)
                self._refuse(run, step)
            case _ if data is not None and is_of_owner:
                self._remove_received(run, step.party, data)
            case _ if data is not None:
                self.remove(run, "acceptance")  # the consumer has it: it wrote

    def _refuse(self, run: KnownRun, step: RunStep) -> None:
        """A letter is as if it had not come; an owner will not write another one."""
        party = step.party
        self.memory.drop_step(step.number)  # else its writer could take it away, and hold the run up
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


_OWN = ""  # in the place of a party: what this home said itself


@dataclass(eq=False)
class OwnerDesk(MailDesk):
    """An owner at a mailbox.

    Args:
        refused: told what is refused before the home's side of a run has heard of it, in fixed words.
        decided: something that changes whenever somebody may have decided; None where only asking tells.
        ended: called once the terms of a run have ended.
        on_close: called when the desk is closed.
    """

    refused: Callable[[str], None] = field(default=lambda _reason: None, kw_only=True)
    decided: Callable[[], object] = field(default=object, kw_only=True)
    ended: Callable[[], None] = field(default=lambda: None, kw_only=True)
    on_close: Callable[[], None] = field(default=lambda: None, kw_only=True)
    _over: set[bytes] = field(default_factory=set, init=False)

    def close(self) -> None:
        super().close()
        self.on_close()

    def _visit(self) -> None:
        over = {run.terms for run in self.runs.values() if self.clock() >= run.ends}
        if over - self._over:
            self.ended()
            self._over |= over
        peers = [pin for pin in self.identity.pins.all() if pin.state == "pinned" and pin.role != "owner"]
        pins = {pin.card.fingerprint: pin for pin in peers}
        self.take_from(
            [pin.card for pin in peers],
            wanted=lambda card, kind, terms: self._wanted(pins[card.fingerprint], kind, terms),
            take=lambda card, arrived: self._take(pins[card.fingerprint], arrived),
        )
        for run in self.runs.values():
            self._say_standing(run)
        for pin in peers:
            self.postman.look_after(pin.card)

    # What may come.

    def most_letter(self, terms: Terms, party: str) -> int:  # noqa: ARG002 - it is the same for all
        return most_bytes_to_owner(terms)

    def _wanted(self, pin: Pin, kind: PostKind, terms: bytes) -> bool:
        if kind != "letter":
            return True
        if not self._knows(terms):
            return False  # its terms may still come
        return pin.role == "consumer" or CURATOR in self.identity.book.introduced(terms)

    def _knows(self, terms: bytes) -> bool:
        """Whether a run is followed here; one that the letter book knows is, also if the desk forgot it."""
        if terms not in self.runs:
            kept = self.identity.book.run_keys(terms)
            if kept is None or kept.secret is None:
                return False  # not known, or over: nothing in it is answered any more
            self.add_run(Invitation.read(kept.invitation))
        return True

    def _take(self, pin: Pin, arrived: Arrived) -> None:
        try:
            if arrived.post.kind == "terms" and pin.role == "consumer":
                self.postman.take(arrived, "heard" if self._take_terms(pin, arrived) else "refused")
            elif arrived.post.kind == "letter":
                self.postman.take(arrived, "heard" if self._take_letter(pin, arrived) else "refused")
            else:
                self.refused(f"a post that no {pin.role} leaves for an owner")
                self.postman.take(arrived, "refused")
        except TRANSIENT as error:
            self.postman.tally.left += 1
            self.postman.note(f"a post of {pin.card.name} waits: {error}")

    def _take_terms(self, pin: Pin, arrived: Arrived) -> bool:
        try:
            invitation = self.read_terms(arrived, pin.card)
            if self.party(invitation.terms) not in invitation.terms.owners:
                raise IllegalMessage(f"run {invitation.terms.run}: the terms do not name this home as an owner")
            self.add_run(invitation)
        except LikesetError as error:
            self.refused(f"{type(error).__name__}: {error}")
            return False
        return True

    def _take_letter(self, pin: Pin, arrived: Arrived) -> bool:
        run = self.runs[arrived.post.terms]
        data, writer = arrived.post.document, self._writer(pin, run)
        if writer is None:
            self.refused("a letter under terms that name another card for its writer")
            return False
        replies = self.heard(lambda: self._hearing(run).hear(data))
        if isinstance(replies, Exception):
            comes_back = is_stub(data) or is_acceptance(data)
            if not comes_back and self._told(run).word == READY:
                waits = acknowledging_party(self.terms(run))
                self.send(run, waits, "standing", ABSTAINS.encode())  # as by every transport: one word, and no reason
            return False
        self._acknowledge(run)
        self.send_back(run, writer, replies)
        return True

    def _writer(self, pin: Pin, run: KnownRun) -> str | None:
        terms = self.terms(run)
        party = terms.consumer if pin.role == "consumer" else CURATOR
        return party if terms.cards[party] == pin.card.fingerprint else None  # no witness writes to an owner

    def _hearing(self, run: KnownRun) -> SiteRun:
        try:
            check_not_expired(self.terms(run), self.clock())
        except TermsExpired as error:
            self.refused(str(error))
            raise
        side = self.side(run)
        if side is None:
            self.refused("nobody at this site has decided yet")
            raise IllegalMessage("nobody at this site has decided yet")
        return side

    def _acknowledge(self, run: KnownRun) -> None:
        """A letter came: whoever wrote it has what this owner signed."""
        self.remove(run, "acceptance")

    # Whether it takes part.

    def _told(self, run: KnownRun) -> Answer:
        """What the consumer was told last, and what the home looked like then."""
        return self.memory.answer_of(run.terms, _OWN) or Answer("")

    def _say_standing(self, run: KnownRun) -> None:
        """Tell the consumer whether this owner takes part, if that is not what it was told before.

        While a decision is waited for, the node is asked at each look: a commit of another process is in the ledger's
        files before readers see it, so that files tell too early. An owner that abstains is asked again only when
        something changed.
        """
        told, before = self._told(run), self._stamp()
        if told.word == READY or self.clock() >= run.ends or (told.word == ABSTAINS and told.document == before):
            return
        try:
            word, document = self._standing(run)
        except TRANSIENT as error:
            self.postman.note(f"run {self.terms(run).run} waits: {error}")
            return
        if word != told.word and not self._tell(run, word, document):
            return
        # A refusal is itself written down, and is no decision. Who decides while it is asked is heard at the next look.
        self.memory.answer(run.terms, _OWN, Answer(word, self._stamp() if word == ABSTAINS else before))

    def _tell(self, run: KnownRun, word: str, document: bytes) -> bool:
        terms = self.terms(run)
        if word == WAITING:
            how = f"likeset owner review {terms.run}"
            self.postman.note(f"run {terms.run} of {terms.consumer} waits for a decision: {how}")
        kind: PostKind = "acceptance" if word == READY else "standing"
        if not self.send(run, terms.consumer, kind, document, instead=True):
            return False
        self.remove(run, "standing", party=terms.consumer, but=document)
        return True

    def _stamp(self) -> bytes:
        return repr(self.decided()).encode()

    def _standing(self, run: KnownRun) -> tuple[str, bytes]:
        try:
            check_not_expired(self.terms(run), self.clock())
            side = self.side(run)
            if side is None:
                return WAITING, WAITING.encode()
            return READY, side.acceptance()
        except (HomeRestored, *TRANSIENT):
            raise
        except Exception:
            self.forget_side(run)  # somebody may decide otherwise
            return ABSTAINS, ABSTAINS.encode()

    def _is_settled(self, run: KnownRun, /) -> bool:
        # The consumer's receipt in a split run says nothing of the others: their parts lie there until the terms end.
        return super()._is_settled(run) and self.terms(run).split is None


def owner_desk(folder: Path, store: Store, *, clock: Callable[[], datetime] = utc_now) -> OwnerDesk:
    """An owner's desk at one mailbox; an owner with several mailboxes has several desks.

    Args:
        folder: the node's directory.
        store: the mailbox.
        clock: tells the time.

    Raises:
        LikesetError: this is no node, or it has no keys.
    """
    home = Home(folder)
    home.check()
    opened = _NodeOpenedLate(folder, clock)

    def seat(invitation: Invitation, _name: str, _folder: Path) -> NodeRun | None:
        return owner_run(opened.node, invitation)

    return OwnerDesk(
        folder,
        store,
        seat,
        Identity.of(folder, clock=clock),
        clock,
        refused=lambda reason: opened.node.refused(reason),
        decided=lambda: _stamps(home),
        ended=lambda: opened.node.settle_ended(),
        on_close=opened.close,
    )


@dataclass(eq=False)
class _NodeOpenedLate:
    folder: Path
    clock: Callable[[], datetime]

    @cached_property
    def node(self) -> OwnerNode:
        return OwnerNode(self.folder, clock=self.clock)

    def close(self) -> None:
        if "node" in self.__dict__:
            self.node.close()


def _stamps(home: Home) -> tuple[object, ...]:
    """What changes whenever somebody decides, changes the policy, pins a card or adds rows."""
    log = home.ledger.with_name(home.ledger.name + "-wal")
    return tuple(_stamp(path) for path in (home.ledger, log, home.policy, home.cards, home.data))


def _stamp(path: Path) -> object:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


@dataclass(frozen=True, slots=True)
class TravellingRun:
    """A run that this consumer lets travel by the mailbox.

    Attributes:
        invitation: the signed terms.
        decide_by: when it begins without those who have not decided.
        cancelled: whether the consumer stopped it.
    """

    invitation: Invitation
    decide_by: datetime
    cancelled: bool = False


@dataclass(eq=False)
class ConsumerDesk(ComputingDesk):
    """A consumer at a mailbox.

    Args:
        travelling: the runs that travel by this mailbox, by name.
        patience: how long it waits for owners in split runs, from its own letter.
        room: where it computes in split runs; None for a process that only looks.
    """

    stays_by: ClassVar[str] = "likeset run watch RUN"

    travelling: Callable[[], Iterable[TravellingRun]] = field(kw_only=True)
    _decide_by: dict[bytes, datetime] = field(default_factory=dict, init=False)

    def _visit(self) -> None:
        for travelling in self.travelling():
            digest = bytes.fromhex(travelling.invitation.terms.digest)
            self._decide_by[digest] = travelling.decide_by
            self._invitations[digest] = travelling.invitation
            is_forgotten = self.clock() >= end_of(travelling.invitation.terms) + REMEMBERED
            if digest not in self.runs and not travelling.cancelled and not is_forgotten:
                self.follow(travelling.invitation)
            if travelling.cancelled and digest in self.runs and not self.runs[digest].ended:
                self._cancel(self.runs[digest])
        self._load_runs()
        open_runs = [run for run in self.runs.values() if not run.ended and run.terms in self._decide_by]
        for run in open_runs:
            self._leave_terms(run)
        self.take_from(
            self._peers(open_runs).values(), wanted=lambda _card, _kind, terms: terms in self.runs, take=self._take
        )
        for run in open_runs:
            self._go_on(run)
        for card in self._peers(self.runs.values()).values():
            self.postman.look_after(card)

    def _cancel(self, run: KnownRun) -> None:
        if self.split.is_split(run) and self._has_begun(run):
            self.split.finish(run, Ending.CANCELLED, tell=True)
        else:
            self._end(run, Ending.CANCELLED)

    def _peers(self, runs: Iterable[KnownRun]) -> dict[str, Card]:
        peers: dict[str, Card] = {}
        for run in runs:
            for party in self.terms(run).cards:
                if party != self.terms(run).consumer:
                    card = self.card_of(run, party)
                    if card is None:
                        self.postman.note(f"the card of {party} is not pinned here any more; nothing of it is read")
                    else:
                        peers[card.fingerprint] = card
        return peers

    def most_letter(self, terms: Terms, party: str) -> int:
        """See ``MailDesk.most_letter``; an owner writes letters to the consumer only in a split run."""
        if party in terms.owners and terms.split is None:
            return MOST_ACCEPTANCE_BYTES
        return super().most_letter(terms, party)

    def _leave_terms(self, run: KnownRun) -> None:
        """For everybody who has not accepted yet, until the run begins."""
        if self._has_begun(run):
            return
        answers = self.memory.answers(run.terms)
        for party in self.terms(run).cards:
            answer = answers.get(party)
            if party != self.terms(run).consumer and (answer is None or answer.word != READY):
                self.send(run, party, "terms", run.invitation)

    def _has_begun(self, run: KnownRun) -> bool:
        return bool(self.identity.book.written(run.terms))

    # What comes.

    def _take(self, card: Card, arrived: Arrived) -> None:
        run = self.runs[arrived.post.terms]
        names = [name for name, fingerprint in self.terms(run).cards.items() if fingerprint == card.fingerprint]
        try:
            if names and not run.ended and arrived.post.kind == "letter" and self.split.is_split(run):
                self._take_split(run, names[0], arrived)
                return
            good = bool(names) and (
                bool(run.ended) or self._dealt_with(run, names[0], arrived.post.kind, arrived.post.document)
            )
        except (HomeRestored, MailboxTrouble):
            raise
        except LikesetError as error:  # this home's own trouble
            self.postman.tally.left += 1
            self.postman.note(f"a post of {card.name} waits: {error}")
            return
        self.postman.take(arrived, "heard" if good else "refused")

    def _dealt_with(self, run: KnownRun, party: str, kind: PostKind, document: bytes) -> bool:
        match kind:
            case "standing":
                return self._take_standing(run, party, document)
            case "acceptance":
                return self._take_acceptance(run, party, document)
            case "letter":
                return self._take_letter(run, party, document)
            case "progress" if party == CURATOR:
                return self._take_progress(run, document)
            case "ending" if party in (CURATOR, WITNESS):
                return self._take_ending(run, party, document)
            case _:
                return False

    def _take_split(self, run: KnownRun, party: str, arrived: Arrived) -> None:
        fate = self.split.hear(run, party, arrived.post.document) if self._has_begun(run) else "refused"
        if fate == "later":
            self.postman.tally.left += 1
        else:
            self.postman.take(arrived, fate)

    def _take_standing(self, run: KnownRun, party: str, document: bytes) -> bool:
        word = {data.encode(): data for data in (WAITING, ABSTAINS)}.get(document)
        if word is None:
            return False
        known = self.memory.answer_of(run.terms, party)
        refuses_now = word == ABSTAINS and self.split.is_split(run) and self._has_begun(run)
        if known is None or known.word != READY or refuses_now:
            self.memory.answer(run.terms, party, Answer(word))
        return True

    def _take_acceptance(self, run: KnownRun, party: str, document: bytes) -> bool:
        peer = peer_in(document, self.terms(run), self.identity.pins)
        if peer is None or peer.party != party:
            self.postman.note(f"run {self.terms(run).run}: an acceptance of {party} does not hold")
            return False
        known = self.memory.answer_of(run.terms, party)
        if self._has_begun(run) or (known is not None and known.word == READY):
            return self._meet_again(run, party, document)
        self.memory.answer(run.terms, party, Answer(READY, document))
        self.remove(run, "terms", party=party)
        return True

    def _meet_again(self, run: KnownRun, party: str, document: bytes) -> bool:
        """Whoever signed anew does not remember what it signed before, and is shown it; who comes late is not heard."""
        known = self.memory.answer_of(run.terms, party)
        if known is not None and known.word == READY and known.document != document:
            self.send(run, party, "letter", known.document)
            return False
        return known is not None and known.word == READY

    def _take_letter(self, run: KnownRun, party: str, document: bytes) -> bool:
        side = self.side(run)
        assert side is not None  # noqa: S101 - a consumer has decided
        replies = self.heard(lambda: side.hear(document))
        if isinstance(replies, Exception):
            self.postman.note(f"run {self.terms(run).run}: a letter of {party} was refused: {_safe_words(replies)}")
            return False
        self.send_back(run, party, replies)
        kept = self.identity.book.letters(run.terms, CURATOR)
        if any((letter.way, letter.kind) == (IN, Summary.kind) for letter in kept):
            self._end(run, Ending.DONE)
        return True

    def _take_progress(self, run: KnownRun, document: bytes) -> bool:
        words = ProgressWords.read(document)
        if words is None or not set(words.waiting_for) <= set(self.terms(run).owners):
            return False
        self.memory.answer(run.terms, PROGRESS, Answer("", document))
        return True

    def _take_ending(self, run: KnownRun, party: str, document: bytes) -> bool:
        words = EndingWords.read(document)
        if words is None:
            return False
        if words.ended is Ending.NOT_CURATED:
            known = self.memory.answer_of(run.terms, party)
            if known is None or known.word != READY:
                self.memory.answer(run.terms, party, Answer(ABSTAINS, words.detail.encode()))
        elif self.split.is_split(run):
            return self.split.hear_ending(run, party, document)
        elif words.ended is not Ending.DONE:  # then the summary is on its way
            self._end(run, words.ended, words.detail)
        return True

    # What it is time for.

    def _go_on(self, run: KnownRun) -> None:
        if self.memory_says_ended(run):
            return
        now, terms = self.clock(), self.terms(run)
        if self._has_begun(run) and self.split.is_split(run):
            self._go_on_split(run)
        elif now >= run.ends:
            self._end(run, Ending.TERMS_EXPIRED)
        elif not self._has_begun(run):
            answers = self.memory.answers(run.terms)
            computing = {CURATOR, WITNESS} & terms.cards.keys()
            asked = computing | set(terms.owners)
            accepted = {party for party in asked if party in answers and answers[party].word == READY}
            all_decided = all(party in answers and answers[party].word != WAITING for party in asked)
            enough = computing <= accepted and len(accepted - computing) >= terms.quorum
            if enough and (all_decided or now >= self._decide_by[run.terms]):
                self._begin(run, [answers[party].document for party in sorted(accepted)])
            elif all_decided and computing <= accepted:
                self._end(run, Ending.QUORUM_MISSED)
            else:
                decide_by = self._decide_by[run.terms]
                self.memory.set_due(run.terms, decide_by if now < decide_by else None)

    def _go_on_split(self, run: KnownRun) -> None:
        try:
            self.split.go_on(run)
        except (HomeRestored, *TRANSIENT):
            raise
        except LikesetError as error:
            self.forget_side(run)
            self.postman.note(f"run {self.terms(run).run} waits: {_safe_words(error)}")

    def _begin(self, run: KnownRun, acceptances: list[bytes]) -> None:
        side = self.side(run)
        assert isinstance(side, ConsumerRun | SplitConsumerRun)  # noqa: S101 - the factory makes nothing else here
        self.memory.set_due(run.terms, None)
        try:
            side.begin(acceptances)
        except HomeRestored:
            raise
        except QuorumMissed:
            self._end(run, Ending.QUORUM_MISSED)
        except UnfinishedRequest as error:
            self._end(run, Ending.UNFINISHED, _safe_words(error))
        except LikesetError as error:
            self.forget_side(run)
            self.postman.note(f"run {self.terms(run).run} cannot begin: {_safe_words(error)}")
        else:
            self.remove(run, "terms")

    def _end(self, run: KnownRun, ending: Ending, detail: str = "") -> None:
        self.memory.end_run(run.terms, ending.value, detail)
        self.memory.set_due(run.terms, None)
        self.forget_side(run)
        self.postman.note(f"run {self.terms(run).run}: {ending.value}{f': {detail}' if detail else ''}")

    def _is_settled(self, run: KnownRun, /) -> bool:
        # After an auction nobody may see when it ended: an owner would see its files go. They go with the terms.
        # In a split run others read its last letters when they look.
        is_seen = self.terms(run).auction != "everyone" and run.ended != Ending.CANCELLED.value
        is_last_word = self.split.is_split(run) and self._has_begun(run)
        return bool(run.ended) and not is_seen and not is_last_word


def _safe_words(error: Exception) -> str:
    """Texts of errors that are not likeset's may quote rows."""
    return str(error) if isinstance(error, LikesetError) else type(error).__name__


def consumer_desk(
    folder: Path,
    store: Store,
    *,
    patience: timedelta | None = None,
    clock: Callable[[], datetime] = utc_now,
    room: ComputeRoom | None = None,
    check_workers: Callable[[], object] = split_python,
) -> ConsumerDesk:
    """A consumer's desk at one mailbox: it carries all runs that travel by it (``run.travel.mailbox``).

    Args:
        folder: the consumer's directory.
        store: the mailbox.
        patience: how long it waits for owners in split runs; by ``consumer.yaml`` if None.
        clock: tells the time.
        room: where it computes in split runs; None for a process that only looks.
        check_workers: raises where no worker can be started, which split runs need.

    Raises:
        LikesetError: this is no consumer's directory, or it has no keys.
    """
    home = ConsumerHome(folder)
    home.check()
    identity = Identity.of(folder, clock=clock)
    known: dict[str, TravellingRun] = {}

    def travelling() -> Iterable[TravellingRun]:
        for run in home.runs():
            if run.name not in known or run.cancelled:
                travel = run.travel
                if travel is None or travel.mailbox != store.address:
                    continue
                known[run.name] = TravellingRun(run.invitation, travel.decide_by, run.cancelled)
        return known.values()

    return ConsumerDesk(
        folder,
        store,
        partial(consumer_run, identity=identity, check_workers=check_workers),
        identity,
        clock,
        travelling=travelling,
        patience=home.connection.patience if patience is None else patience,
        room=room,
    )


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
        partial(curator_run, identity=identity, check_workers=check_workers),
        identity,
        clock,
        patience=home.settings.patience if patience is None else patience,
        after_auction=home.settings.after_auction if after_auction is None else after_auction,
        prepared=lambda: _modified(home.schemas, home.cards, folder / SETTINGS_FILE, environment_folder()),
        room=room,
    )


def _modified(*paths: Path) -> list[int]:
    return [path.stat().st_mtime_ns for path in paths if path.exists()]


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
