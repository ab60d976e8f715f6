"""What every home does at a mailbox: read what others left, leave what is for them, and put right what is missing.

Bounds come before anything is opened: how large a file is, how old, how many there are. A file that does not open was
not written by the peer whose folder it lies in: it is counted, remembered and never looked at again. Half a file is
left, and read again when the place says that it changed.
"""

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from likeset.errors import BadDocument, PostTrouble
from likeset.homes.mail import OUT, Identity, check_remembered
from likeset.transports.mailbox.looks import Look
from likeset.transports.mailbox.memory import Fate, MailMemory, PostedFile
from likeset.transports.sites import SiteSettings
from likeset.transports.stores import Store, StoredFile
from likeset.trust.cards import Card
from likeset.trust.letters import PairKeys, Post, PostKind, file_name, is_post_size, size_of_post

MOST_UNREAD = 512
"""Posts that one sender may leave unread; what is newer is left alone until those are read."""

MOST_OPENED = 128
"""Posts of one sender that one look opens."""

OLDEST = timedelta(days=3650)
"""Nothing older is opened: no terms last so long."""

_MOST_STRANGERS = 10_000  # files of strangers that are remembered in one folder
_MOST_OWN_OPENED = 16  # files in this home's own folder that it does not remember, in one look
_MOST_PUT_BACK = 3

Wanted = Callable[[PostKind, bytes], bool]
"""Whether a post of this kind, under the terms of this digest, can be dealt with now."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A post that lies there.

    Attributes:
        folder: where.
        name: of its file.
        post: itself.
    """

    folder: str
    name: str
    post: Post


@dataclass
class Tally:
    """What happens during one look."""

    taken: int = 0
    left: int = 0
    sent: int = 0
    put_back: int = 0
    strangers: int = 0
    refused: int = 0
    notes: list[str] = field(default_factory=list)

    def look(self, next_deadline: datetime | None) -> Look:
        counts = (self.taken, self.left, self.sent, self.put_back, self.strangers, self.refused)
        return Look(*counts, tuple(self.notes), next_deadline)


@dataclass(frozen=True, slots=True)
class _Label:
    """What is known of a file that was opened and left."""

    kind: PostKind
    terms: bytes


@dataclass(eq=False)
class Postman:
    """Reads and writes posts for a home.

    Args:
        identity: the home's.
        store: the mailbox.
        memory: what the home remembers of it.
        clock: tells the time.

    Attributes:
        tally: of the look that is under way.
    """

    identity: Identity
    store: Store
    memory: MailMemory
    clock: Callable[[], datetime]
    tally: Tally = field(default_factory=Tally, init=False)
    _labels: dict[tuple[str, str], _Label] = field(default_factory=dict, init=False)
    _halves: dict[tuple[str, str], StoredFile] = field(default_factory=dict, init=False)
    _said: set[str] = field(default_factory=set, init=False)
    _checked: set[str] = field(default_factory=set, init=False)  # outgoing folders, once in each process

    def pair(self, card: Card) -> PairKeys:
        return PairKeys.between(self.identity.secret, card)

    def note(self, words: str) -> None:
        if words not in self._said:
            self._said.add(words)
            self.tally.notes.append(words)

    # What came.

    def arrivals(self, card: Card, *, most_bytes: int, in_one_look: int, wanted: Wanted) -> Iterator[Arrived]:
        """The posts of somebody that can be dealt with now, the oldest first.

        Args:
            card: whose.
            most_bytes: the longest document that may come from there.
            in_one_look: how many bytes of files one look reads; the rest is left for the next one.
            wanted: asked of each that opens; the others are left.
        """
        folder = self.pair(card).incoming_folder
        opened, left = 0, in_one_look
        for file in self._unread(card, folder, size_of_post(most_bytes)):
            label = self._labels.get((folder, file.name))
            is_half = self._halves.get((folder, file.name)) == file
            if is_half or (label is not None and not wanted(label.kind, label.terms)):
                self.tally.left += 1
                continue
            left -= file.size  # also of those after it: letters are heard in their order
            if left < 0 or opened == MOST_OPENED:
                self.tally.left += 1
                continue
            opened += 1
            post = self._opened(card, folder, file)
            if post is None:
                continue
            if wanted(post.kind, post.terms):
                yield Arrived(folder, file.name, post)
            else:
                self._labels[folder, file.name] = _Label(post.kind, post.terms)
                self.tally.left += 1

    def has_invalid_files(self, card: Card) -> bool:
        """Whether somebody's folder has files that are no posts of theirs, as far as was looked."""
        folder = self.pair(card).incoming_folder
        return any(place == folder for place, _ in self._halves) or self.memory.count_strangers(folder) > 0

    def _unread(self, card: Card, folder: str, most_bytes: int) -> list[StoredFile]:
        try:
            listed = self.store.list(folder)
        except PostTrouble as error:  # whoever spoils its own folder keeps no other from being heard
            self.note(f"nothing from {card.name} can be read: {error}")
            return []
        taken = self.memory.taken(folder) if listed else {}
        self._forget_gone(folder, taken, listed)
        oldest, unread = self.clock() - OLDEST, list[StoredFile]()
        large = old = 0
        for file in listed:
            if taken.get(file.name) == "stranger":
                self.tally.strangers += 1
            elif file.name in taken:
                continue
            elif file.size > most_bytes:
                large += 1
            elif file.modified < oldest:
                old += 1
            elif not is_post_size(file.size):
                self.tally.strangers += 1
            else:
                unread.append(file)
        self._count(card, large, "larger than anything that may come from there")
        self._count(card, old, f"older than {OLDEST.days} days")
        unread.sort(key=lambda file: (file.modified, file.name))
        self._count(card, len(unread) - MOST_UNREAD, f"more than the {MOST_UNREAD} that one sender may leave unread")
        return unread[:MOST_UNREAD]

    def _forget_gone(self, folder: str, taken: dict[str, Fate], listed: Iterable[StoredFile]) -> None:
        """Of what was refused only what still lies there is remembered: a flood has an end, and so has this memory."""
        names = {file.name for file in listed}
        self._halves = {place: half for place, half in self._halves.items() if place[0] != folder or place[1] in names}
        gone = {name for name, fate in taken.items() if fate != "heard"} - names
        if gone:
            self.memory.forget_files(folder, gone)

    def _count(self, card: Card, count: int, what: str) -> None:
        if count > 0:
            self.tally.left += count
            files = "a file" if count == 1 else f"{count} files"
            self.note(f"{files} from {card.name}: {what}; left alone")

    def _opened(self, card: Card, folder: str, file: StoredFile) -> Post | None:
        try:
            data = self.store.read(folder, file.name, most_bytes=file.size)
        except PostTrouble:
            self.tally.left += 1  # it is gone, or not to be read now
            return None
        if file_name(data) != file.name:
            self._halves[folder, file.name] = file
            self.tally.left += 1
            self.note(f"half a file from {card.name}, or one that was changed; it is read again when it changes")
            return None
        self._halves.pop((folder, file.name), None)
        try:
            return self.pair(card).unwrap(data)
        except BadDocument:
            self.tally.strangers += 1
            if self.memory.count_strangers(folder) < _MOST_STRANGERS:
                self.memory.take(folder, file.name, terms=b"", fate="stranger")
            self.note(f"files of strangers lie where only {card.name} should write; they are left alone")
            return None

    def read_again(self, card: Card, name: str, *, most_bytes: int) -> Post | None:
        folder = self.pair(card).incoming_folder
        try:
            data = self.store.read(folder, name, most_bytes=size_of_post(most_bytes))
            return self.pair(card).unwrap(data) if file_name(data) == name else None
        except (PostTrouble, BadDocument):
            return None

    def take(self, arrived: Arrived, fate: Fate) -> None:
        self.memory.take(arrived.folder, arrived.name, terms=arrived.post.terms, fate=fate)
        self._labels.pop((arrived.folder, arrived.name), None)
        self.tally.taken += 1
        self.tally.refused += fate == "refused"

    # What is left.

    def send(self, card: Card, post: Post, *, party: str, number: int = -1, paper: bytes = b"") -> bool:
        """Leave a post, once; returns whether it was not left before.

        Args:
            card: for whom.
            post: what.
            party: for whom, by the name in the terms.
            number: of a letter that this home's book keeps.
            paper: its digest.
        """
        folder, data = self.pair(card).outgoing_folder, self.pair(card).wrap(post)
        name = file_name(data)
        if self.memory.was_posted(folder, name):
            return False
        self.store.write(folder, name, data)
        document = None if number >= 0 else post.document
        digest = paper or hashlib.sha256(post.document).digest()
        place = (folder, name, post.terms, post.kind, party, number, digest, document)
        self.memory.post(PostedFile(*place, self.clock().timestamp()))
        self.tally.sent += 1
        return True

    def remove(self, files: Iterable[PostedFile]) -> None:
        """Take away what this home left."""
        for file in files:
            self.memory.unpost(file.folder, file.name)
            with contextlib.suppress(PostTrouble):  # removed when the folder can be used again
                self.store.remove(file.folder, file.name)

    def look_after(self, card: Card) -> None:
        """See that what this home left for somebody is still there, and put back what somebody else removed.

        Raises:
            HomeRestored: something of this home's own lies there that it does not remember.
        """
        try:
            self._look_after(card)
        except PostTrouble as error:
            self.note(f"what was left for {card.name} cannot be looked after: {error}")

    def _look_after(self, card: Card) -> None:
        folder = self.pair(card).outgoing_folder
        posted = {file.name: file for file in self.memory.posted(folder=folder)}
        if not posted and folder in self._checked:
            return
        listed = {file.name: file for file in self.store.list(folder)}
        self._check_own(card, folder, [file for name, file in listed.items() if name not in posted])
        self._checked.add(folder)
        missing = [file for name, file in posted.items() if name not in listed]
        if missing:
            self._put_back(card, missing)

    def _put_back(self, card: Card, missing: list[PostedFile]) -> None:
        count = 0
        for file in missing:
            document = self._document(file)
            if document is None:
                self.memory.unpost(file.folder, file.name)  # the run is settled: nobody needs it any more
            elif file.put_back >= _MOST_PUT_BACK:
                self.note(
                    f"posts to {card.name} were removed {_MOST_PUT_BACK} times by somebody else; they are not put "
                    "back any more: ask whoever keeps the mailbox"
                )
            else:
                data = self.pair(card).wrap(Post(file.kind, file.terms, document))
                self.store.write(file.folder, file.name, data)
                self.memory.put_back(file.folder, file.name)
                count += 1
        if count:
            self.tally.sent += count
            self.tally.put_back += count
            posts = "a post was" if count == 1 else f"{count} posts were"
            self.tally.notes.append(f"to {card.name}: {posts} removed from the mailbox by somebody else; put back")

    def _document(self, file: PostedFile) -> bytes | None:
        if file.number < 0:
            return file.document
        return self.identity.book.letter_data(file.terms, file.party, OUT, file.number)

    def _check_own(self, card: Card, folder: str, files: Iterable[StoredFile]) -> None:
        """What lies where this home writes and is not known to be there: is it this home's own?"""
        taken, opened, left = self.memory.taken(folder), 0, size_of_post(SiteSettings.most_bytes)
        for file in files:
            if file.name in taken or not is_post_size(file.size) or opened == _MOST_OWN_OPENED:
                continue
            if file.size > left:
                continue  # this home leaves nothing that large, or enough was read in this look
            if self.memory.was_posted(folder, file.name):
                self.store.remove(folder, file.name)  # it was taken away, and somebody brought it back
                continue
            opened, left = opened + 1, left - file.size
            try:
                data = self.store.read(folder, file.name, most_bytes=file.size)
                post = self.pair(card).unwrap_own(data)
            except PostTrouble:
                continue
            except BadDocument:
                self.memory.take(folder, file.name, terms=b"", fate="stranger")
                continue
            check_remembered(self.identity, post.document)
            self.memory.take(folder, file.name, terms=post.terms, fate="heard")
