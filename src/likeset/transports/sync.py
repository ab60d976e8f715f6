"""A home at its mailboxes: read what came, let the home hear it, do what is due, post what is ready.

``Sync.look`` is the only loop between organisations, for every role and every store. A peer is told nothing but what
letters and documents say; reasons are in the home's log.
"""

import base64
import contextlib
import hashlib
import hmac
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol, Self

from likeset.errors import BadDocument, HomeRestored, LikesetError, NotReady, PostTrouble
from likeset.homes.compute import Computing, Witness, compute_room
from likeset.homes.consumer import Consumer
from likeset.homes.curator import Curator
from likeset.homes.home import Check, Clock, Home, utc_now
from likeset.homes.mail import CLOCKS_APART, TRANSIENT, Later, Mail
from likeset.homes.owner import Owner
from likeset.homes.runs import LARGEST_LETTER, Run, StoredLetter, duration
from likeset.split.host import split_python
from likeset.transports.stores import Store, StoredFile, open_store
from likeset.trust.cards import Card
from likeset.trust.letters import (
    MOST_ACCEPTANCE_BYTES,
    MOST_TERMS_BYTES,
    Pair,
    Post,
    file_name,
    is_post_size,
    pair_of,
    size_of_post,
)

SHORTEST, LONGEST = 1.0, 60.0
"""Seconds between two looks: while letters come, and when nothing has come for a while."""
LIVE_SHORTEST, LIVE_LONGEST = 0.05, 2.0
"""The same if a mailbox is live: two directories of this machine that a courier fills as letters come."""
NOTHING_NEW = "nothing new"

_GROWTH = 1.5
_MOST_UNREAD = 512  # files that one sender may leave unread; newer ones are left alone until those are read
_MOST_OPENED = 128  # files of one sender that one look opens
_OTHERS = 4  # documents of one sender that one look reads beside one letter for each run
_OLDEST = timedelta(days=3650)  # nothing older is opened: no terms last so long
_MOST_STRANGERS = 10_000  # files of strangers that are remembered in one folder
_MOST_OWN_OPENED = 16
_MOST_PUT_BACK = 3


class Note(str):
    """One line about something that a person should look at; ``run`` names its run, if it is about one."""

    __slots__ = ("run",)
    run: str

    def __new__(cls, words: str, run: str = "") -> Self:
        note = super().__new__(cls, words)
        note.run = run
        return note


@dataclass
class Look:
    """What one look did.

    Attributes:
        taken: files that came and were dealt with.
        left: files that cannot be dealt with yet; the next look tries again.
        sent: files that were written.
        put_back: of these, files that somebody else had removed.
        strangers: files that no known party wrote; they are left alone.
        refused: of those taken, files that were refused; the home's log says why.
        runs: names of the runs of those files, each once.
        notes: what a person should know; each is said once.
        next_deadline: when this home must look again although nothing comes.
        troubles: why a mailbox could not be used, by its address.
    """

    taken: int = 0
    left: int = 0
    sent: int = 0
    put_back: int = 0
    strangers: int = 0
    refused: int = 0
    runs: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    next_deadline: datetime | None = None
    troubles: dict[str, str] = field(default_factory=dict)

    @property
    def something_happened(self) -> bool:
        return bool(self.taken or self.sent)

    @property
    def words(self) -> str:
        if not (self.taken or self.sent or self.left or self.strangers):
            return NOTHING_NEW
        words = [f"{_letters(self.taken)} came", f"{_letters(self.sent)} went"]
        words += [f"{self.refused} of those that came refused"] if self.refused else []
        words += [f"{_letters(self.left)} left for later"] if self.left else []
        words += [f"{self.strangers} by strangers left alone"] if self.strangers else []
        return ", ".join(words)

    def touch(self, *runs: str) -> None:
        self.runs += [run for run in runs if run not in self.runs]

    def add(self, other: "Look") -> None:
        for name in ("taken", "left", "sent", "put_back", "strangers", "refused"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.touch(*other.runs)
        self.notes += other.notes
        deadlines = [time for time in (self.next_deadline, other.next_deadline) if time is not None]
        self.next_deadline = min(deadlines, default=None)


def _letters(count: int) -> str:
    return f"{count} letter{'' if count == 1 else 's'}"


@dataclass(eq=False)
class Sync:
    """A home at one mailbox.

    Args:
        home: the home.
        store: the mailbox.
        stays: whether this process stays and computes split runs.
        check_workers: raises if no worker can be started.
    """

    home: Home
    store: Store
    stays: bool = False
    check_workers: Callable[[], object] = split_python
    mail: Mail = field(init=False)
    computing: Computing | None = field(default=None, init=False)  # None at an owner's home, which computes nothing
    _look: Look = field(default_factory=Look, init=False)
    _taken: set[bytes] = field(default_factory=set, init=False)  # terms of the runs whose files this look took
    _time: datetime | None = field(default=None, init=False)
    _said: set[str] = field(default_factory=set, init=False)
    _halves: dict[tuple[str, str], StoredFile] = field(default_factory=dict, init=False)
    _checked: set[str] = field(default_factory=set, init=False)  # outgoing folders, once in each process

    def __post_init__(self) -> None:
        self.mail = Mail(self.home, fetch=self._fetch, mailbox_time=self._mailbox_time)
        roles = self.home.settings.roles
        if set(roles) != {"owner"}:
            room = compute_room(self.home) if self.stays else None
            self.computing = Computing(self.mail, room, self.check_workers, self.note)
        for role in roles:
            if role == "owner":
                Owner(self.mail)
            elif role == "consumer":
                Consumer(self.mail, computing=self.computing)
            elif role == "curator":
                Curator(self.mail, computing=self.computing)
            else:
                Witness(self.mail, computing=self.computing)

    @property
    def is_live(self) -> bool:
        return self.store.address.startswith("courier:")

    def close(self) -> None:
        if self.computing is not None and self.computing.room is not None:
            self.computing.room.close()
        self.mail.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def look(self) -> Look:
        """Take what came, answer it, do what is due, post what is ready.

        Whatever interrupts it, the next look continues: nothing is charged twice, and what was not written is written.

        Raises:
            MailboxTrouble: the mailbox cannot be used now.
            HomeRestored: this home was restored from an old backup, and does nothing more.
            LikesetError: this home cannot be used: its keys, its files, its settings.
        """
        self.home.check_running()
        self._look, self._taken, self._time = Look(), set(), None
        self._guard("the end of terms", self.mail.tick)
        runs = [run for run in self.mail.runs(mailbox=self.store.address) if run.readable is not None]
        for card in sorted(self._senders(runs).values(), key=self._has_invalid_files):
            self._take_from(card, runs)
        for run in self.mail.runs(mailbox=self.store.address):
            if run.digest in self._taken:
                self._look.touch(run.name)
            if not run.is_over and run.readable is not None:
                due = lambda run=run: self.mail.parts[run.role].due(run)  # noqa: E731
                self._guard(f"run {run.name}", due, run.name)
        if self.computing is not None:
            self._guard("files of computations", self.computing.clean)
        self._post()
        self._look_after()
        self._look.next_deadline = self._next_deadline()
        return self._look

    def note(self, words: str, run: str = "") -> None:
        if words not in self._said:
            self._said.add(words)
            self._look.notes.append(Note(words, run))

    def _guard(self, about: str, work: Callable[[], object], run: str = "") -> bool:
        """Do something in one run; its failure must not keep the others from theirs."""
        try:
            work()
        except HomeRestored:
            raise
        except (Later, LikesetError) as error:
            self.note(f"{about} waits: {error}", run)
            return False
        except Exception as error:  # texts of foreign errors may quote rows
            self.note(f"{about} waits ({type(error).__name__})", run)
            return False
        return True

    def _next_deadline(self) -> datetime | None:
        now = self.home.clock()
        soon = self.computing.next_look if self.computing is not None and self.stays else None
        times = [] if soon is None else [soon]
        for run in self.mail.runs(mailbox=self.store.address):
            if not run.is_over:
                due = run.deadline if run.due is None else datetime.fromtimestamp(run.due, UTC)
                times += [time for time in (due, run.end) if time > now]
        return min(times, default=None)

    def _mailbox_time(self) -> datetime:
        """What the clock of the mailbox says: the time of a file that is written and removed, once in each look."""
        if self._time is None:
            secret = self.home.secret.sealing.to_bytes()
            data = b"likeset/clock/1" + hmac.digest(secret, b"likeset/clock/1", "sha256")
            folder = base64.b32encode(hashlib.sha256(data).digest()[:20]).decode("ascii").lower()
            self.store.write(folder, file_name(data), data)
            self._time = max(file.modified for file in self.store.list(folder))
            self.store.remove(folder, file_name(data))
        return self._time

    def clock_ahead(self) -> timedelta:
        """By how much this machine's clock is ahead of the mailbox's; negative if it is behind."""
        return self.home.clock() - self._mailbox_time()

    # What came.

    def _senders(self, runs: Iterable[Run]) -> dict[str, Card]:
        """Pinned consumers, and the parties of runs in which something may still come."""
        cards = {pin.card.fingerprint: pin.card for pin in self.home.pins.pinned("consumer")}
        now = self.home.clock()
        for run in runs:
            if run.is_over and not (run.role == "owner" and run.state == "cancelled" and now < run.end):
                continue
            for party in run.terms.cards:
                card = self._card(run, party) if party != run.party else None
                if card is not None:
                    cards[card.fingerprint] = card
        return cards

    def _card(self, run: Run, party: str) -> Card | None:
        """The card of a party; None if it is not known here, or no longer counts."""
        pin = self.home.pins.by_fingerprint(run.terms.cards[party])
        if pin is not None:
            return pin.card if pin.state == "pinned" else None
        peer = self.mail.peer(run, party)
        return None if peer is None else peer.card

    def _pair(self, card: Card) -> Pair:
        return pair_of(self.home.secret, card)

    def _has_invalid_files(self, card: Card) -> bool:
        folder = self._pair(card).incoming.folder
        return any(place == folder for place, _ in self._halves) or "stranger" in self.mail.files(folder).values()

    def _take_from(self, card: Card, runs: Sequence[Run]) -> None:
        folder = self._pair(card).incoming.folder
        letters = [
            self.mail.most_bytes(run, party)
            for run in runs
            for party, fingerprint in run.terms.cards.items()
            if fingerprint == card.fingerprint
        ]
        pin = self.home.pins.by_fingerprint(card.fingerprint)
        other = MOST_TERMS_BYTES if pin is not None and pin.role == "consumer" else MOST_ACCEPTANCE_BYTES
        left = _OTHERS * size_of_post(other) + sum(map(size_of_post, letters))
        opened = 0
        for file in self._unread(card, folder, size_of_post(max([other, *letters]))):
            if self._halves.get((folder, file.name)) == file:
                self._look.left += 1
                continue
            left -= file.size
            if left < 0 or opened == _MOST_OPENED:
                self._look.left += 1
                continue
            opened += 1
            post = self._opened(card, folder, file)
            if post is not None:
                self._take(card, post, (folder, file.name))

    def _take(self, card: Card, post: Post, place: tuple[str, str]) -> None:
        try:
            good = self._heard(card, post, place)
        except Later:
            self._look.left += 1
            return
        except HomeRestored:
            raise
        except TRANSIENT as error:
            self._look.left += 1
            self.note(f"a letter of {card.name} waits: {error}")
            return
        except LikesetError as error:
            good = False
            if place[1] not in self.mail.files(place[0]):  # a letter that was opened is in the log with its run
                self.home.refused("", error)
        except Exception as error:  # a bug must not keep other letters from being heard
            good = False
            self.note(f"a letter of {card.name} cannot be dealt with ({type(error).__name__})")
        if place[1] not in self.mail.files(place[0]):
            self.mail.note_file(*place, state="heard" if good else "refused")
        self._taken.add(post.terms)
        self._look.taken += 1
        self._look.refused += not good

    def _heard(self, card: Card, post: Post, place: tuple[str, str]) -> bool:
        if post.kind == "terms":
            run = self.mail.invited(post.document, mailbox=self.store.address, card=card)
            if run.digest != post.terms:
                return False
            self.mail.consider(run)
            if self.mail.again(run).state == "waiting":
                how = f"likeset owner review {run.name}"
                self.note(f"run {run.name} of {run.terms.consumer} waits for a decision: {how}", run.name)
            return True
        if post.kind == "letter":
            self.mail.hear(post.document, place=place)
            return True
        return self.mail.told(card, post.terms, post.kind, post.document, place=place)

    def _unread(self, card: Card, folder: str, most_bytes: int) -> list[StoredFile]:
        try:
            listed = self.store.list(folder)
        except PostTrouble as error:  # a sender that spoils its own folder keeps no other from being heard
            self.note(f"nothing from {card.name} can be read: {error}")
            return []
        now = self.home.clock()
        times = {file.name: file.modified for file in listed if file.modified <= now + CLOCKS_APART}
        known = self.mail.files(folder, times) if listed else {}
        self._forget_gone(folder, known, listed)
        oldest, unread, large, old = now - _OLDEST, list[StoredFile](), 0, 0
        for file in listed:
            if known.get(file.name) == "stranger":
                self._look.strangers += 1
            elif file.name in known:
                continue
            elif file.size > most_bytes:
                large += 1
            elif file.modified < oldest:
                old += 1
            elif not is_post_size(file.size):
                self._look.strangers += 1
            else:
                unread.append(file)
        self._count(card, large, "larger than anything that may come from there")
        self._count(card, old, f"older than {_OLDEST.days} days")
        unread.sort(key=lambda file: (file.modified, file.name))
        self._count(card, len(unread) - _MOST_UNREAD, f"more than the {_MOST_UNREAD} that one sender may leave unread")
        return unread[:_MOST_UNREAD]

    def _forget_gone(self, folder: str, known: dict[str, str], listed: Iterable[StoredFile]) -> None:
        """Remember strangers' and refused files only while they are there, so that a flood leaves no trace."""
        names = {file.name for file in listed}
        self._halves = {place: half for place, half in self._halves.items() if place[0] != folder or place[1] in names}
        gone = {name for name, state in known.items() if state in ("stranger", "refused")} - names
        if gone:
            self.mail.forget_files(folder, gone)

    def _count(self, card: Card, count: int, what: str) -> None:
        if count > 0:
            self._look.left += count
            files = "a file" if count == 1 else f"{count} files"
            self.note(f"{files} from {card.name}: {what}; left alone")

    def _opened(self, card: Card, folder: str, file: StoredFile) -> Post | None:
        try:
            data = self.store.read(folder, file.name, most_bytes=file.size)
        except PostTrouble:
            self._look.left += 1  # it is gone, or cannot be read now
            return None
        if file_name(data) != file.name:
            self._halves[folder, file.name] = file
            self._look.left += 1
            self.note(f"an incomplete or changed file from {card.name}; it is read again when it changes")
            return None
        self._halves.pop((folder, file.name), None)
        try:
            return self._pair(card).incoming.unwrap(data)
        except BadDocument:
            self._look.strangers += 1
            if sum(state == "stranger" for state in self.mail.files(folder).values()) < _MOST_STRANGERS:
                self.mail.note_file(folder, file.name, state="stranger")
            self.note(f"files of strangers are where only {card.name} should write; they are left alone")
            return None

    def _fetch(self, run: Run, peer: str, folder: str, name: str) -> bytes | None:
        """Read a letter again whose bytes are not stored here."""
        card = self._card(run, peer)
        if card is None:
            return None
        try:
            data = self.store.read(folder, name, most_bytes=size_of_post(self.mail.most_bytes(run, peer)))
            return self._pair(card).incoming.unwrap(data).document if file_name(data) == name else None
        except (PostTrouble, BadDocument):
            return None

    # What leaves.

    def _post(self) -> None:
        """Post what is ready and remove what was taken back; one transaction records both."""
        posted = []
        for run in self.mail.runs(mailbox=self.store.address):
            if run.readable is not None:
                placed = ((row, self._written(run, row)) for row in self._claimed(run))
                ours = [(row, *place) for row, place in placed if place is not None]
                self._look.touch(*([run.name] if ours else []))
                posted += ours
        removed = []
        for _, row in self.mail.in_state("stale", mailbox=self.store.address):
            with contextlib.suppress(PostTrouble):  # removed when the folder can be used again
                if row.name:
                    self.store.remove(row.folder, row.name)
                removed.append(row)
        if posted or removed:
            self.mail.posted(posted, removed)
        self._look.sent += len(posted)

    def _claimed(self, run: Run) -> list[StoredLetter]:
        rows: list[StoredLetter] = []
        self._guard(f"run {run.name}", lambda: rows.extend(self.mail.claim(run)))
        return rows

    def _written(self, run: Run, row: StoredLetter) -> tuple[str, str] | None:
        card, document = self._card(run, row.peer), self.mail.data_of(row)
        if card is None or document is None:
            self.mail.mark([row], "withheld")
            return None
        pair = self._pair(card)
        data = pair.outgoing.wrap(Post(row.post, run.digest, document))
        try:
            self.store.write(pair.outgoing.folder, file_name(data), data)
        except PostTrouble as error:
            self.note(f"nothing can be posted to {row.peer}: {error}", run.name)
            return None
        return pair.outgoing.folder, file_name(data)

    def _look_after(self) -> None:
        """Put back files that somebody else removed, and find files of this home that it does not know."""
        posted: dict[str, list[tuple[Run, StoredLetter]]] = {}
        for run, row in self.mail.in_state("posted", mailbox=self.store.address):
            posted.setdefault(row.folder, []).append((run, row))
        cards = {self._pair(pin.card).outgoing.folder: pin.card for pin in self.home.pins.pinned()}
        for folder in {*posted, *(cards.keys() - self._checked)}:
            try:
                listed = {file.name: file for file in self.store.list(folder)}
            except PostTrouble as error:
                self.note(f"posted letters cannot be looked after: {error}")
                continue
            known = {row.name for _, row in posted.get(folder, ())}
            times = {name: file.modified for name, file in listed.items() if name in known}
            self.mail.files(folder, times)
            behind = max(times.values(), default=self.home.clock()) - self.home.clock()
            if behind > CLOCKS_APART:
                self.note(f"the clock is {duration(behind)} behind the mailbox: set the wrong one")
            card = cards.get(folder) or self._card_of(posted.get(folder, ()))
            if card is not None:
                self._check_own(card, folder, [file for name, file in listed.items() if name not in known])
                missing = [pair for pair in posted.get(folder, ()) if pair[1].name not in listed]
                with contextlib.suppress(NotReady):
                    self._put_back(card, missing)
            self._checked.add(folder)

    def _card_of(self, posted: Iterable[tuple[Run, StoredLetter]]) -> Card | None:
        return next((card for run, row in posted if (card := self._card(run, row.peer)) is not None), None)

    def _put_back(self, card: Card, missing: Sequence[tuple[Run, StoredLetter]]) -> None:
        count = 0
        for run, row in missing:
            document = self.mail.data_of(row)
            if document is None:
                self.mail.mark([row], "removed")  # nobody needs it any more
            elif not self.mail.may_leave(self.mail.again(run), row):
                self.mail.mark([row], "withheld")  # whoever removed it, it does not leave after a withdrawal
            elif row.put_back >= _MOST_PUT_BACK:
                self.note(
                    f"letters to {card.name} were removed {_MOST_PUT_BACK} times; ask the operator of the mailbox"
                )
            else:
                data = self._pair(card).outgoing.wrap(Post(row.post, run.digest, document))
                try:
                    self.store.write(row.folder, row.name, data)
                except PostTrouble as error:
                    self.note(f"nothing can be put back for {card.name}: {error}")
                    break
                self.mail.mark([row], "posted", put_back=1)
                count += 1
        if count:
            self._look.sent += count
            self._look.put_back += count
            self._look.notes.append(f"to {card.name}: {_letters(count)} removed by somebody else; put back")

    def _check_own(self, card: Card, folder: str, files: Iterable[StoredFile]) -> None:
        """A file in this home's own folder that it signed and does not know shows that an old backup was restored."""
        known, opened, left = self.mail.files(folder), 0, size_of_post(LARGEST_LETTER)
        for file in files:
            state = known.get(file.name)
            if state in ("removed", "stale"):
                with contextlib.suppress(PostTrouble):
                    self.store.remove(folder, file.name)  # somebody brought it back
                continue
            if state is not None or not is_post_size(file.size) or opened == _MOST_OWN_OPENED or file.size > left:
                continue
            opened, left = opened + 1, left - file.size
            try:
                post = self._pair(card).outgoing.unwrap(self.store.read(folder, file.name, most_bytes=file.size))
            except PostTrouble:
                continue
            except BadDocument:
                self.mail.note_file(folder, file.name, state="stranger")
                continue
            if self.mail.is_own(post.document) and not self.mail.knows_own(post.document):
                self.home.stop(f"an unknown letter of this home to {card.name} is in the mailbox")
            self.mail.note_file(folder, file.name, state="heard")


# Looking once, and again and again.

Tell = Callable[[str], None]
"""Called with one line for a person."""


class Stop(Protocol):
    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, or so many seconds; returns whether it is set."""


@contextmanager
def opened_syncs(
    folder: Path,
    addresses: Sequence[str],
    *,
    stays: bool = False,
    clock: Clock = utc_now,
    check_workers: Callable[[], object] = split_python,
) -> Iterator[list[Sync]]:
    """A home, and the curator's in it, at each of its mailboxes; two addresses of one place are one."""
    with ExitStack() as stack:
        home = stack.enter_context(Home(folder, clock=clock))
        home.keep_reserve()
        own = [] if home.own_curator is None else [stack.enter_context(Home(home.own_curator, clock=clock))]
        stores = {store.address: store for store in map(open_store, addresses)}
        for store in stores.values():
            stack.callback(store.close)
        yield [
            stack.enter_context(Sync(one, store, stays=stays, check_workers=check_workers))
            for one in (home, *own)
            for store in stores.values()
        ]


def check_clock(folder: Path, addresses: Sequence[str], *, clock: Clock = utc_now) -> Iterator[Check]:
    """Compare the clock of a home with that of each of its mailboxes, which gives letters their times."""
    for address in addresses:
        what = f"clock and {address}"
        try:
            with opened_syncs(folder, [address], clock=clock) as opened:
                apart = opened[0].clock_ahead()
        except LikesetError as error:
            yield Check(what, ok=False, detail=str(error))
            continue
        agree, way = abs(apart) <= CLOCKS_APART, "ahead of" if apart > timedelta() else "behind"
        told = f"the clock is {duration(abs(apart))} {way} the mailbox; set the wrong one: until then nothing is ended"
        yield Check(what, ok=agree, detail="agree" if agree else told)


def look_once(syncs: Sequence[Sync]) -> tuple[Look, list[LikesetError]]:
    """One look at each mailbox; what all did, and what went wrong: trouble with one keeps no other from its look."""
    together, troubles = Look(), list[LikesetError]()
    for sync in syncs:
        try:
            together.add(sync.look())
        except HomeRestored:
            raise
        except LikesetError as error:
            troubles.append(error)
    return together, troubles


def serve(
    syncs: Sequence[Sync],
    *,
    stop: Stop,
    tell: Tell,
    looked: Callable[[Look], None] = lambda _: None,
    troubled: Tell = lambda _: None,
    shortest: float = SHORTEST,
    longest: float = LONGEST,
    clock: Clock = utc_now,
) -> None:
    """Look until told to stop; a look that has begun is completed first.

    Pauses grow while nothing happens, start anew when something did, and end at deadlines. Trouble is told in one line
    when it begins and when it is over.
    """
    if any(sync.is_live for sync in syncs):
        shortest, longest = min(shortest, LIVE_SHORTEST), min(longest, LIVE_LONGEST)
    troubles, pause = dict[int, str](), shortest
    while not stop.is_set():
        together = Look()
        for place, sync in enumerate(syncs):
            if stop.is_set():
                break
            try:
                look = sync.look()
            except HomeRestored:
                raise
            except Exception as error:  # one bad peer or mailbox never ends this loop
                words = str(error) if isinstance(error, LikesetError) else f"internal error ({type(error).__name__})"
                if troubles.get(place) != words:
                    tell(Note(f"{words}; trying again"))
                troubles[place] = together.troubles[sync.store.address] = words
                troubled(words)
                continue
            if troubles.pop(place, None) is not None:
                tell("the mailbox can be used again")
            together.add(look)
            for note in look.notes:
                tell(note)
        looked(together)
        pause = shortest if together.something_happened else min(pause * _GROWTH, longest)
        until = pause
        if together.next_deadline is not None:  # a deadline that has passed does not make it busy
            until = min(pause, max(shortest, (together.next_deadline - clock()).total_seconds()))
        stop.wait(until)
