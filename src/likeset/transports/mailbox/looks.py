"""What came of one look at a mailbox, and who can look: a desk, one for each home and mailbox."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, Self

NOTHING_NEW = "nothing new"


@dataclass(frozen=True, slots=True)
class Look:
    """What came of one look.

    Attributes:
        taken: posts that came and were dealt with, once and for all.
        left: posts that are there and cannot be dealt with yet; the next look tries again.
        sent: posts that were written.
        put_back: of these, posts that somebody else had removed.
        strangers: files that nobody whom this home knows wrote; they are left alone.
        refused: of those taken, posts that were refused; an owner's audit log says why.
        notes: what a person should know, in words; each stands in one look only, until it happens again.
        next_deadline: when this home must look again although nothing comes; None if there is no such time.
    """

    taken: int = 0
    left: int = 0
    sent: int = 0
    put_back: int = 0
    strangers: int = 0
    refused: int = 0
    notes: tuple[str, ...] = ()
    next_deadline: datetime | None = None

    @property
    def something_happened(self) -> bool:
        """Whether anything came or went: then more may follow soon."""
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

    @classmethod
    def all_of(cls, looks: Iterable["Look"]) -> "Look":
        listed = list(looks)
        deadlines = [look.next_deadline for look in listed if look.next_deadline is not None]
        return cls(
            taken=sum(look.taken for look in listed),
            left=sum(look.left for look in listed),
            sent=sum(look.sent for look in listed),
            put_back=sum(look.put_back for look in listed),
            strangers=sum(look.strangers for look in listed),
            refused=sum(look.refused for look in listed),
            notes=tuple(note for look in listed for note in look.notes),
            next_deadline=min(deadlines, default=None),
        )


def _letters(count: int) -> str:
    return f"{count} letter{'' if count == 1 else 's'}"


class Desk(Protocol):
    """A home at one mailbox. One thread at a time; several processes of one home take turns."""

    def look(self) -> Look:
        """Take what came, answer it, and put right what is missing.

        Whatever stops it, the next look goes on where it was: nothing is charged twice, and what was not written yet
        is written then.

        Raises:
            MailboxTrouble: the mailbox cannot be used now; try again later.
            HomeRestored: this home was put back from an old copy, and does nothing more.
            LikesetError: this home cannot be used: its keys, its files, its settings.
        """

    def close(self) -> None:
        """Let go of the home's files; the store is whoever's who opened it."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
