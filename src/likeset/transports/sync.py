"""Syncs a home with its mailboxes: reads new files, lets the home hear them, applies deadlines, posts what is ready.

``Sync.once`` is the only loop between organisations, for every role and every store. A peer is told nothing but what
letters and documents say; reasons are in the home's log.
"""

import base64
import contextlib
import hashlib
import heapq
import hmac
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Protocol, Self

from likeset.errors import BadDocument, HomeRestored, LikesetError, MailboxTrouble, PostTrouble, TryLater, is_final
from likeset.homes.checkup import Check
from likeset.homes.compute import SOON, Computations, ComputeHandler, Witness, computations_of
from likeset.homes.consumer import Consumer
from likeset.homes.curator import Curator
from likeset.homes.home import Clock, Home, utc_now
from likeset.homes.mail import CLOCKS_APART, Mail
from likeset.homes.owner import Owner
from likeset.homes.runs import LARGEST_LETTER, LetterState, Run, State, StoredLetter, duration, must_know
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
"""Seconds between two syncs: while letters come, and when nothing has come for a while."""
LIVE_SHORTEST, LIVE_LONGEST = 0.05, 2.0
"""The same if a mailbox is live: two directories of this machine that a courier fills as letters come."""
NOTHING_NEW = "nothing new"

_GROWTH = 1.5
_MOST_OPENED = 128  # files of one sender that one sync opens
_OTHERS = 4  # documents of one sender that one sync reads beside letters
_MOST_LETTERS = 8  # of one sender that one sync reads, if each is as large as one of another run may be
_MOST_OWN_OPENED = 16
_CLOCK_TRIES = 5
_MOST_GONE = 100  # files of one sender that are gone and not yet forgotten


class Note(str):
    """A line for a person's attention; ``run`` names its run, if it is about one."""

    __slots__ = ("run",)
    run: str

    def __new__(cls, words: str, run: str = "") -> Self:
        note = super().__new__(cls, words)
        note.run = run
        return note


@dataclass
class Synced:
    taken: int = 0  # files that were read and processed
    left: int = 0  # files that cannot be processed yet; the next sync tries again
    sent: int = 0
    put_back: int = 0  # files that somebody else had removed and that were written again
    refused: int = 0  # of those taken; the home's log says why
    runs: list[str] = field(default_factory=list)  # of those files, each once
    notes: list[str] = field(default_factory=list)  # what a person should know; each is said once
    next_deadline: datetime | None = None  # when this home must sync again although nothing comes
    troubles: dict[str, str] = field(default_factory=dict)  # why a mailbox could not be used, by its address

    @property
    def something_happened(self) -> bool:
        return bool(self.taken or self.sent)

    @property
    def words(self) -> str:
        if not (self.taken or self.sent or self.left):
            return NOTHING_NEW
        words = [f"{_letters(self.taken)} came", f"{_letters(self.sent)} went"]
        words += [f"{self.refused} of those that came refused"] if self.refused else []
        words += [f"{_letters(self.left)} not to be read yet (the next check tries again)"] if self.left else []
        return ", ".join(words)

    def touch(self, *runs: str) -> None:
        self.runs += [run for run in runs if run not in self.runs]

    def add(self, other: "Synced") -> None:
        for name in ("taken", "left", "sent", "put_back", "refused"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.touch(*other.runs)
        self.notes += other.notes
        deadlines = [time for time in (self.next_deadline, other.next_deadline) if time is not None]
        self.next_deadline = min(deadlines, default=None)


def _letters(count: int) -> str:
    return f"{count} letter{'' if count == 1 else 's'}"


@dataclass(eq=False)
class Sync:
    home: Home
    store: Store
    stays: bool = False  # whether this process stays and computes split runs
    mail: Mail = field(init=False)
    computing: list[ComputeHandler] = field(init=False)  # empty at an owner's home, which computes nothing
    computations: Computations | None = field(init=False)
    _done: Synced = field(default_factory=Synced, init=False)
    _taken: set[bytes] = field(default_factory=set, init=False)  # terms of the runs whose files this sync took
    _time: datetime | None = field(default=None, init=False)
    _said: set[str] = field(default_factory=set, init=False)
    _has_looked: bool = field(default=False, init=False)  # for the files of runs that are over: once in a process
    _pausing: set[tuple[str, str]] = field(default_factory=set, init=False)  # folders and files of letters that wait
    _checked: set[str] = field(default_factory=set, init=False)  # outgoing folders that may be written to

    def __post_init__(self) -> None:
        self.mail = Mail(self.home, fetch=self._fetch, mailbox_time=self._mailbox_time)
        roles = self.home.settings.roles
        self.computations = computations_of(self.home) if self.stays and set(roles) != {"owner"} else None
        handlers = [handler for handler in (Consumer, Curator, Witness) if handler.role in roles]
        self.computing = [handler(self.mail, computations=self.computations, tell=self.note) for handler in handlers]
        if "owner" in roles:
            Owner(self.mail)

    def close(self) -> None:
        if self.computations is not None:
            self.computations.close()
        self.mail.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def once(self) -> Synced:
        """Read and answer new files, apply deadlines, and post what is ready.

        After an interruption the next sync continues: nothing is charged twice, and missing files are written.
        """
        self.home.check_running()
        self._done, self._taken, self._time = Synced(), set(), None
        if not self.home.pins.pinned():
            self._mailbox_time()  # there is nothing to list, and whoever sets a mailbox up tests it now
        troubles, pausing = self.mail.troubles.all(), list(self.mail.troubles.pausing())
        self._pausing = {(trouble.folder, trouble.name) for trouble in pausing}
        due_failed = {trouble.digest for trouble in troubles if not trouble.name}
        due_later = {trouble.digest for trouble in pausing if not trouble.name}
        self._guard("the end of terms", self.mail.tick)
        for card, letters in self._senders().values():
            self._take_from(card, letters)
        self._done.touch(*(run.name for digest in self._taken if (run := self.mail.run(digest)) is not None))
        for run in self._open_runs():
            if not run.is_over and run.digest not in due_later:
                is_done = self._guard(f"run {run.name}", partial(self.mail.handlers[run.role].due, run), run)
                if is_done and run.digest in due_failed:
                    self.mail.troubles.over(run.digest)
                if run.state in (State.INVITED, State.WAITING) and run.decided == "approved":
                    self._note_declined(run)
        for handler in self.computing:
            self._guard("files of computations", handler.clean)
        self._check_posted()
        self._post()
        self._done.next_deadline = self._next_deadline()
        return self._done

    def _open_runs(self) -> list[Run]:
        return [run for run in self.mail.open_runs(self.store.address) if run.readable is not None]

    def note(self, words: str, run: str = "") -> None:
        if words not in self._said:
            self._said.add(words)
            self._done.notes.append(Note(words, run))

    def _guard(self, about: str, work: Callable[[], object], run: Run | None = None) -> bool:
        """Do something in one run; its failure must not keep the others from theirs."""
        try:
            work()
        except HomeRestored:
            raise
        except Exception as error:
            self._wait(about, error, run)
            return False
        return True

    def _wait(self, about: str, error: Exception, run: Run | None = None, place: tuple[str, str] = ("", "")) -> None:
        """Tell at once what waits and why; what this machine is to blame for is tried again after a pause."""
        if run is None or isinstance(error, TryLater | MailboxTrouble):  # each sync looks into the mailbox again
            reason = self.mail.troubles.reason(error)
        else:
            reason = self.mail.troubles.add(run.digest, *place, error)
        self.note(f"{about} waits: {reason}", "" if run is None else run.name)

    def _next_deadline(self) -> datetime | None:
        now = self.home.clock()
        times = [now + SOON] if self.computations is not None and self.computations.is_busy else []
        for run in self._open_runs():
            if not run.is_over:
                due = run.deadline if run.due is None else datetime.fromtimestamp(run.due, UTC)
                times += [time for time in (due, run.end) if time > now]
        times += [datetime.fromtimestamp(trouble.again, UTC) for trouble in self.mail.troubles.pausing()]
        return min(times, default=None)

    def _mailbox_time(self) -> datetime:
        """The mailbox's time: that of a file that each sync writes and removes once."""
        if self._time is None:
            secret = self.home.secret.sealing.to_bytes()
            data = b"likeset/clock/1" + hmac.digest(secret, b"likeset/clock/1", "sha256")
            folder = base64.b32encode(hashlib.sha256(data).digest()[:20]).decode("ascii").lower()
            files, tries = list[StoredFile](), _CLOCK_TRIES
            while not files:  # another process of this home may have removed it
                if not tries:
                    raise PostTrouble(
                        self.store.address, "shows no file that was just written, so its clock is unknown"
                    )
                self.store.write(folder, file_name(data), data)
                files, tries = self.store.list(folder), tries - 1
            self._time = max(file.modified for file in files)
            self.store.remove(folder, file_name(data))
        return self._time

    # Reading.

    def _senders(self) -> dict[str, tuple[Card, list[int]]]:
        """Pinned consumers, and the parties of runs in which something may still come.

        By fingerprint, each with the sizes of the largest letters that it may write in these runs.
        """
        pins = {pin.card.fingerprint: pin for pin in self.home.pins.all()}
        consumers = (pin.card for pin in pins.values() if (pin.role, pin.state) == ("consumer", "pinned"))
        senders = {card.fingerprint: (card, list[int]()) for card in consumers}
        for run in self._open_runs():
            terms, sizes = run.terms, dict[bool, int]()
            # An owner hears no other owner, and terms may name hundreds.
            parties = set(must_know(terms, run.party).values() if run.role == "owner" else terms.cards) - {run.party}
            owners, known = parties.intersection(terms.owners), self.mail.introduced(run) | {terms.consumer}
            for party in parties:
                fingerprint, is_owner = terms.cards[party], party in owners
                if fingerprint not in senders:
                    pin, peer = pins.get(fingerprint), self.mail.peer(run, party) if party in known else None
                    if (pin is None and peer is None) or (pin is not None and pin.state != "pinned"):
                        continue
                    senders[fingerprint] = (
                        (peer.card if pin is None and peer is not None else pins[fingerprint].card),
                        [],
                    )
                if is_owner not in sizes:
                    sizes[is_owner] = self.mail.most_bytes(run, party)
                senders[fingerprint][1].append(sizes[is_owner])
        return senders

    def _card(self, run: Run, party: str) -> Card | None:
        """The card of a party; None if it is not known here, or no longer counts."""
        pin = self.home.pins.by_fingerprint(run.terms.cards[party])
        if pin is not None:
            return pin.card if pin.state == "pinned" else None
        peer = self.mail.peer(run, party)
        return None if peer is None else peer.card

    def _pair(self, card: Card) -> Pair:
        return pair_of(self.home.secret, card)

    def _take_from(self, card: Card, letters: Sequence[int]) -> None:
        folder = self._pair(card).incoming.folder
        pin = self.home.pins.by_fingerprint(card.fingerprint)
        other = MOST_TERMS_BYTES if pin is not None and pin.role == "consumer" else MOST_ACCEPTANCE_BYTES
        left = _OTHERS * size_of_post(other) + sum(map(size_of_post, heapq.nlargest(_MOST_LETTERS, letters)))
        opened = 0
        for file in self._unread(card, folder, size_of_post(max([other, *letters]))):
            left -= file.size
            if left < 0 or opened == _MOST_OPENED:
                self._done.left += 1
                continue
            opened += 1
            post = self._opened(card, folder, file)
            if post is not None:
                self._take(card, post, (folder, file.name))

    def _take(self, card: Card, post: Post, place: tuple[str, str]) -> None:
        try:
            good = self._heard(card, post, place)
        except TryLater:
            self._done.left += 1
            return
        except HomeRestored:
            raise
        except Exception as error:
            if not is_final(error):
                self._done.left += 1
                self._wait(f"a letter of {card.name}", error, self.mail.run(post.terms), place)
                return
            good = False
            if place[1] not in self.mail.files(place[0]):  # a letter that was opened is in the log with its run
                self.home.refused("", error)
            self._note_stopped(post)
        if place[1] not in self.mail.files(place[0]):
            self.mail.note_file(*place)
        self._taken.add(post.terms)
        self._done.taken += 1
        self._done.refused += not good

    def _review(self, run: Run) -> str:
        return shlex.join(("likeset", "owner", "review", run.name, "--home", str(self.home.folder)))

    def _note_stopped(self, post: Post) -> None:
        """Tell an owner that a run which it accepted does not continue; no reason leaves this home."""
        run = self.mail.run(post.terms)
        if run is not None and run.is_stopped:
            self.note(f"run {run.name} did not continue here: {self._review(run)}", run.name)

    def _note_declined(self, run: Run) -> None:
        """Tell an owner that its rules no longer allow a run that a person approved."""
        if self.mail.reload(run).reason not in ("", run.reason):
            self.note(f"run {run.name} is approved, and your rules refuse it: {self._review(run)}", run.name)

    def _heard(self, card: Card, post: Post, place: tuple[str, str]) -> bool:
        if post.kind == "terms":
            run = self.mail.invited(post.document, mailbox=self.store.address, card=card)
            if run.digest != post.terms:
                return False
            self._guard(f"run {run.name}", partial(self.mail.consider, run), run)
            if self.mail.reload(run).state == State.WAITING:
                how = self._review(run)
                self.note(f"run {run.name} of {run.terms.consumer} waits for a decision: {how}", run.name)
            return True
        if post.kind == "letter":
            self.mail.hear(post.document, place=place)
            return True
        return self.mail.hear_document(card, post.terms, post.kind, post.document, place=place)

    def _unread(self, card: Card, folder: str, most_bytes: int) -> list[StoredFile]:
        try:
            listed = self.store.list(folder)
        except PostTrouble as error:  # a sender that spoils its own folder keeps no other from being heard
            self.note(f"nothing from {card.name} can be read: {error}")
            return []
        known = self.mail.files(folder, self._plausible_times(listed))
        if listed.is_whole:
            self._forget_gone(folder, known, listed)
        waiting = {name for place, name in self._pausing if place == folder} & {file.name for file in listed}
        self._done.left += len(waiting)
        unread = [file for file in listed if file.name not in known and file.name not in waiting]
        usable = [file for file in unread if file.size <= most_bytes and is_post_size(file.size)]
        if len(usable) < len(unread):
            self.note(f"ignored files from {card.name}: not letters of open runs, or too large")
        return sorted(usable, key=lambda file: (file.modified, file.name))

    def _forget_gone(self, folder: str, known: Mapping[str, str], there: Iterable[StoredFile]) -> None:
        """Files without content for this home are remembered only while they are there: a flood leaves few rows."""
        gone = {name for name, state in known.items() if state == LetterState.READ} - {file.name for file in there}
        if len(gone) > _MOST_GONE:
            self.mail.forget_files(folder, gone)

    def _plausible_times(self, files: Iterable[StoredFile]) -> dict[str, datetime]:
        """The times of files; without those in the future, which their writer or the mailbox made up."""
        latest = self.home.clock() + CLOCKS_APART
        return {file.name: file.modified for file in files if file.modified <= latest}

    def _opened(self, card: Card, folder: str, file: StoredFile) -> Post | None:
        try:
            data = self.store.read(folder, file.name, most_bytes=file.size)
        except PostTrouble:
            self._done.left += 1  # it is gone, or cannot be read now
            return None
        if file_name(data) != file.name:
            self._done.left += 1
            self.note(f"an incomplete or changed file from {card.name}; it is read again")
            return None
        try:
            return self._pair(card).incoming.unwrap(data)
        except BadDocument:
            self._done.taken += 1
            self._done.refused += 1
            self.mail.note_file(folder, file.name)
            self.note(f"refused a file in {card.name}'s folder that {card.name} did not write")
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

    # Posting.

    def _post(self) -> None:
        """Remove what was taken back and post what is ready; each file is recorded before the next one is written."""
        removed, again = list[StoredLetter](), set[str]()
        try:
            for row in self.mail.stale(self.store.address):
                with contextlib.suppress(PostTrouble):  # removed when the folder can be used again
                    if row.name:
                        self.store.remove(row.folder, row.name)
                    removed.append(row)
            for run in self.mail.runs_to_post(self.store.address):
                for row in self._claimed(run) if run.readable is not None else ():
                    if (place := self._written(run, row)) is None:
                        continue
                    self.mail.posted(row, *place, removed=removed)
                    removed.clear()
                    self._done.touch(run.name)
                    self._done.sent += not row.name
                    self._done.put_back += bool(row.name)
                    again |= {row.peer} if row.name else set()
        finally:
            if removed:
                self.mail.removed(removed)
        for peer in sorted(again):
            self.note(f"letters to {peer} were removed by somebody else and put back; ask the mailbox's operator")

    def _claimed(self, run: Run) -> list[StoredLetter]:
        rows: list[StoredLetter] = []
        self._guard(f"run {run.name}", lambda: rows.extend(self.mail.claim(run)))
        return rows

    def _written(self, run: Run, row: StoredLetter) -> tuple[str, str] | None:
        card, document = self._card(run, row.peer), self.mail.data_of(row)
        if card is None or document is None:
            self.mail.unclaim(row)
            return None
        pair = self._pair(card)
        if pair.outgoing.folder not in self._checked:
            self.note(
                f"nothing is posted to {row.peer} until its folder was read: an old backup may be running", run.name
            )
            return None
        data = pair.outgoing.wrap(Post(row.post, run.digest, document))
        try:
            self.store.write(pair.outgoing.folder, file_name(data), data)
        except PostTrouble as error:
            self.note(f"nothing can be posted to {row.peer}: {error}", run.name)
            return None
        return pair.outgoing.folder, file_name(data)

    def _check_posted(self) -> None:
        """Find files that somebody else removed, to be posted again, and files of this home that it does not know."""
        cards = {self._pair(pin.card).outgoing.folder: pin.card for pin in self.home.pins.pinned()}
        posted = self.mail.posted_files(self.store.address, every=not self._has_looked)
        for run, peer in self.mail.readers(self.store.address, posted.keys() - cards.keys()):
            if run.readable is not None and (card := self._card(run, peer)) is not None:
                cards[self._pair(card).outgoing.folder] = card
        for folder in {*posted, *(cards.keys() - self._checked)}:
            self._check_folder(folder, cards.get(folder), posted.get(folder, {}))
        self._has_looked = True
        if cards.keys() <= self._checked:  # an old backup would delete keys that it does not know
            self.mail.delete_unused_keys()

    def _check_folder(self, folder: str, card: Card | None, posted: Mapping[str, int]) -> None:
        try:
            files = self.store.list(folder)
        except PostTrouble as error:
            self.note(f"posted letters cannot be checked: {error}")
            return
        listed = {file.name: file for file in files}
        ours = [file for file in files if file.name in posted]
        self.mail.files(folder, self._plausible_times(ours))
        behind = max((file.modified for file in ours), default=self.home.clock()) - self.home.clock()
        if behind > CLOCKS_APART:
            self.note(f"the clock is {duration(behind)} behind the mailbox: set the wrong one")
        if not files.is_whole:
            self.note(f"the listing of {folder} is not whole: too many files; ask the mailbox's operator to look at it")
            return
        unknown = [file for file in files if file.name not in posted]
        if card is not None and self._check_own(card, folder, unknown):
            self._checked.add(folder)
        self.mail.post_again(number for name, number in posted.items() if name not in listed)

    def _check_own(self, card: Card, folder: str, files: Sequence[StoredFile]) -> bool:
        """Whether all files in this home's own folder were looked at.

        One that it signed and does not know shows that an old backup was restored.
        """
        known, opened, most = self.mail.files(folder), 0, size_of_post(LARGEST_LETTER)
        self._forget_gone(folder, known, files)
        left, is_whole = most, True
        for file in files:
            state = known.get(file.name)
            if state in (LetterState.REMOVED, LetterState.STALE):
                with contextlib.suppress(PostTrouble):
                    self.store.remove(folder, file.name)  # somebody brought it back
            if state is not None or not is_post_size(file.size) or file.size > most:
                continue
            if opened == _MOST_OWN_OPENED or file.size > left:
                is_whole = False
                continue
            opened, left = opened + 1, left - file.size
            try:
                post = self._pair(card).outgoing.unwrap(self.store.read(folder, file.name, most_bytes=file.size))
            except PostTrouble:
                is_whole = False
                continue
            except BadDocument:
                self.mail.note_file(folder, file.name)
                continue
            if self.mail.is_unknown_own(post.document):
                self.home.stop(f"an unknown letter of this home to {card.name} is in the mailbox")
            self.mail.note_file(folder, file.name)
        return is_whole


# One sync, and the loop.


class Stop(Protocol):
    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, at most this many seconds; returns whether it is set."""


@contextmanager
def opened_syncs(
    folder: Path, addresses: Sequence[str], *, stays: bool = False, clock: Clock = utc_now
) -> Iterator[list[Sync]]:
    """A home, and the curator's in it, at each of its mailboxes; two addresses of one place are one."""
    with ExitStack() as stack:
        home = stack.enter_context(Home(folder, clock=clock))
        home.keep_reserve()
        own = [] if home.own_curator is None else [stack.enter_context(Home(home.own_curator, clock=clock))]
        stores = {store.address: store for store in map(open_store, addresses)}
        for store in stores.values():
            stack.callback(store.close)
        yield [stack.enter_context(Sync(each, store, stays)) for each in (home, *own) for store in stores.values()]


def check_mailboxes(folder: Path, addresses: Sequence[str], *, clock: Clock = utc_now) -> Iterator[Check]:
    """Compare the clock of a home with that of each mailbox, which gives letters their times; who reads its folders."""
    for address in addresses:
        what = f"clock and {address}"
        try:
            with opened_syncs(folder, [address], clock=clock) as opened:
                apart = opened[0].home.clock() - opened[0]._mailbox_time()
                unreadable = opened[0].store.why_unreadable()
        except LikesetError as error:
            yield Check(what, ok=False, detail=str(error))
            continue
        if unreadable:
            yield Check(f"mailbox {address}", ok=False, detail=unreadable)
        agree, way = abs(apart) <= CLOCKS_APART, "ahead of" if apart > timedelta() else "behind"
        fault = f"the clock is {duration(abs(apart))} {way} the mailbox; set the wrong one: until then nothing is ended"
        yield Check(what, ok=agree, detail="agree" if agree else fault)


def sync_once(syncs: Iterable[Sync], *, stop: Stop | None = None) -> Synced:
    """Sync each mailbox once, or until told to stop; what one bad peer or mailbox causes stops no other."""
    together = Synced()
    for sync in syncs:
        if stop is not None and stop.is_set():
            break
        try:
            together.add(sync.once())
        except HomeRestored:
            raise
        except Exception as error:
            words = str(error) if isinstance(error, LikesetError) else f"internal error ({type(error).__name__})"
            together.troubles[sync.store.address] = words
    return together


def serve(
    syncs: Sequence[Sync],
    *,
    stop: Stop,
    tell: Callable[[str], None],  # with one line for a person
    synced: Callable[[Synced], None] = lambda _: None,
    shortest: float = SHORTEST,
    longest: float = LONGEST,
    clock: Clock = utc_now,
) -> None:
    """Sync until told to stop; a sync that has begun is completed first.

    Pauses grow while nothing happens, start anew when something did, and end at deadlines. Trouble is told in one line
    when it begins and when it is over.
    """
    if any(sync.store.address.startswith("courier:") for sync in syncs):
        shortest, longest = min(shortest, LIVE_SHORTEST), min(longest, LIVE_LONGEST)
    troubles, pause = dict[str, str](), shortest
    while not stop.is_set():
        together = sync_once(syncs, stop=stop)
        before, troubles = troubles, together.troubles
        for address, words in troubles.items():
            if before.get(address) != words:
                tell(Note(f"{words}; trying again"))
        if before.keys() - troubles.keys() and not stop.is_set():
            tell("the mailbox can be used again")
        for note in together.notes:
            tell(note)
        synced(together)
        pause = shortest if together.something_happened else min(pause * _GROWTH, longest)
        until = pause
        if together.next_deadline is not None:  # a deadline that has passed does not make it busy
            until = min(pause, max(shortest, (together.next_deadline - clock()).total_seconds()))
        stop.wait(until)
