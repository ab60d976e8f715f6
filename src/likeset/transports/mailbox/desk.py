"""What all desks have in common: their runs, the letters that their home has written, and the end of terms."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, Self

from likeset.errors import HomeRestored, IllegalMessage, LedgerUnavailable, MailboxTrouble, PostTrouble
from likeset.homes.mail import OUT, Factory, Identity, Invitation, SiteRun, check_not_expired, end_of, most_bytes_from
from likeset.protocol.terms import Terms
from likeset.transports.mailbox.looks import Look
from likeset.transports.mailbox.memory import KnownRun, MailMemory
from likeset.transports.mailbox.postman import Arrived, Postman, Tally
from likeset.transports.stores import Store
from likeset.trust.cards import Card
from likeset.trust.letters import (
    MOST_ACCEPTANCE_BYTES,
    MOST_TERMS_BYTES,
    Post,
    PostKind,
    is_acceptance,
    is_stub,
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
