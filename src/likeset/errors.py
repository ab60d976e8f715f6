"""Every exception that likeset raises on purpose, all of them ``LikesetError``.

A user's mistake always ends in one of these, and the command line prints its message alone. A message shows settings (a
size, an epsilon) and places (row 17, column 3), never the content of a data row: messages end up in logs.
"""

import os

from likeset.text import harmless, short_query, without_secrets

_MOST_SHOWN = 1000
_MOST_OF_QUERY = 64


class LikesetError(Exception):
    """Base of everything that likeset raises on purpose."""


class InvalidArgument(LikesetError, ValueError):
    """An argument has a value that cannot be used.

    Attributes:
        argument: the argument's name, as the caller wrote it.
        value: the offending value, or a description of it where the value itself is data; no password is in it.
        reason: what is wrong with it and what to do about it.
        row: number of the row that is wrong, counted from 0; None if it is no single one.
        column: number of its column, likewise.
    """

    def __init__(
        self, argument: str, value: object, reason: str, *, row: int | None = None, column: int | None = None
    ) -> None:
        if isinstance(value, str | os.PathLike):
            value = without_secrets(os.fspath(value))
        super().__init__(argument, value, reason)
        self.argument, self.value, self.reason = argument, value, reason
        self.row, self.column = row, column

    def __str__(self) -> str:
        words = {"missing": " is missing", "none": "", "nothing": ""}  # nothing was given
        shown = words.get(str(self.value), f" = {harmless(str(self.value), most=_MOST_SHOWN)}")
        return f"{self.argument}{shown}: {self.reason}"


class BadDocument(LikesetError, ValueError):
    """A file that a person wrote (schema, job, policy, terms) cannot be used.

    Attributes:
        document: the file, as the user named it.
        line: where in it, counted from 1; None if the place is the whole file.
        field: the field, such as ``columns.age.bounds``; empty if the place is no field.
        reason: what is wrong there and what to do about it.
    """

    def __init__(self, document: str, reason: str, *, line: int | None = None, field: str = "") -> None:
        document, reason = without_secrets(document), without_secrets(reason)
        super().__init__(document, reason, line, field)
        self.document, self.reason, self.line, self.field = document, reason, line, field

    def __str__(self) -> str:
        where = self.document if self.line is None else f"{self.document}, line {self.line}"
        return f"{where}: {self.field}: {self.reason}" if self.field else f"{where}: {self.reason}"


class BadTable(LikesetError, ValueError):
    """Rows of a file, database or data frame cannot be used.

    Attributes:
        table: the file or table, as the user named it, without passwords.
        reason: what is wrong and what to do about it; never quotes a value.
        place: where in it: ``line 17``, ``row group 3``, ``row 1204``; empty if the place is the whole table.
        column: the column; empty if it is no single one.
    """

    def __init__(self, table: str, reason: str, *, place: str = "", column: str = "") -> None:
        table, reason = without_secrets(table), without_secrets(reason)
        super().__init__(table, reason, place, column)
        self.table, self.reason, self.place, self.column = table, reason, place, column

    def __str__(self) -> str:
        words = (
            short_query(self.table, most=_MOST_OF_QUERY),
            self.place,
            f"column {self.column!r}" if self.column else "",
        )
        return f"{', '.join(word for word in words if word)}: {self.reason}"


def missing_extra(extra: str) -> str:
    """What to do where packages of an optional part are not installed."""
    return f"needs packages that are not installed: pip install 'likeset[{extra}]'"


class DecidedMeanwhile(LikesetError):
    """Somebody else decided, or changed something, since it was looked at; nothing was written.

    Attributes:
        what: the run or the file.
        last_word: what was decided last, by whom and when; empty where other terms came.
    """

    def __init__(self, what: str, last_word: str) -> None:
        self.what, self.last_word = harmless(what, most=128), harmless(last_word, most=300)
        since = f"was {self.last_word}" if last_word else "changed"
        super().__init__(f"{self.what} {since} while you looked at it; nothing was written: look at it again")


class BudgetExceeded(LikesetError):
    """A charge would pass an account's limit; nothing was charged.

    Attributes:
        view: the account, in words.
        spent: what the account has spent so far.
        requested: what the refused charge costs on its own.
        limit: what the account may spend in total.
        unit: what the three numbers count: rows, or epsilon at which delta and relation.
    """

    def __init__(self, view: str, *, spent: float, requested: float, limit: float, unit: str) -> None:
        super().__init__(view, spent, requested, limit, unit)
        self.view, self.spent, self.requested, self.limit, self.unit = view, spent, requested, limit, unit

    def __str__(self) -> str:
        return (
            f"budget exceeded ({self.view}): {self.requested:.4g} requested, "
            f"{self.spent:.4g} of {self.limit:.4g} already spent, counted in {self.unit}; nothing was charged"
        )


class LedgerError(LikesetError):
    """The ledger cannot do what was asked; nothing was charged."""


class LedgerUnreadable(LedgerError):
    """The file is not a ledger, is damaged, or was written by a newer version."""


class LedgerTampered(LedgerError):
    """The chain of entries does not hold: something was altered, removed or reordered."""


class LedgerUnavailable(LedgerError):
    """The file cannot be opened, locked or written right now."""


class ChargeRefused(LedgerError):
    """There is no account for the view, or the account does not accept this kind of charge."""


class OtherRelation(ChargeRefused):
    """What was planned under one neighbouring relation has no price on an account of another; nothing was charged.

    Attributes:
        view: the account, in words.
        account: the relation of the account's limit.
        planned: the relation that the charge was planned under.
    """

    def __init__(self, view: str, *, account: str, planned: str) -> None:
        super().__init__(view, account, planned)
        self.view, self.account, self.planned = view, account, planned

    def __str__(self) -> str:
        return (
            f"account ({self.view}): its limit is under {self.account}, and this was planned under {self.planned}, "
            f"which says nothing there; ask for relation {self.account}, or keep runs under {self.planned} in a "
            "ledger of their own; nothing was charged"
        )


class OtherUnit(OtherRelation):
    """What was planned for one unit of privacy has no price on an account of another; nothing was charged."""

    def __str__(self) -> str:
        return (
            f"account ({self.view}): earlier runs protected one {self.account}, and this one protects one "
            f"{self.planned}, so their prices do not add up; declare the id in its schema as in those of the earlier "
            "runs, or give it a ledger of its own, whose sum does not include the earlier runs; nothing was charged"
        )


class DifferentRequest(LedgerError):
    """The same run, round and kind were asked for before, but with another request; ``kind`` if it is a single one."""

    def __init__(self, reason: str, *, kind: str = "") -> None:
        super().__init__(reason)
        self.kind = kind


class UnfinishedRequest(LedgerError):
    """The request was charged before and interrupted before its answer was stored; the charge stays spent."""


class MessagePurged(LedgerError):
    """The request was answered before, but the stored answer is gone; it is never drawn a second time."""


class UnknownEvent(LikesetError):
    """A record of a release that is not in the vocabulary: it cannot be priced, so it is refused."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(what, reason)

    def __str__(self) -> str:
        return ": ".join(self.args)


class UnprovenPart(LikesetError):
    """A part without a privacy proof was asked for, but not accepted by name.

    Attributes:
        part: the name to put into ``accept_unproven``.
        reason: what is not proven about it.
    """

    def __init__(self, part: str, reason: str) -> None:
        super().__init__(part, reason)
        self.part, self.reason = part, reason

    def __str__(self) -> str:
        return f"{self.part} is not proven private: {self.reason}; to run it anyway, name it in accept_unproven"


class NoiseUnavailable(LikesetError):
    """There is no secure generator, or this machine rounds in a way that a proof does not allow; nothing was drawn."""


class MailboxTrouble(LikesetError):
    """The place where letters are left cannot be used now: it is full, gone, read-only, closed to this user or silent.

    Attributes:
        mailbox: its address, without secrets.
        reason: what is wrong and what to do about it, in one line.
    """

    def __init__(self, mailbox: str, reason: str) -> None:
        mailbox, reason = without_secrets(mailbox), harmless(without_secrets(reason), most=_MOST_SHOWN)
        super().__init__(mailbox, reason)
        self.mailbox, self.reason = mailbox, reason

    def __str__(self) -> str:
        return f"mailbox {harmless(self.mailbox, most=_MOST_SHOWN)}: {self.reason}"


class PostTrouble(MailboxTrouble):
    """One file or folder of a mailbox cannot be used; it is left, and the others may be fine."""


class ProtocolError(LikesetError):
    """A party got something that the terms do not foresee; its state is as before."""


class BadMessage(ProtocolError, ValueError):
    """Bytes that are not exactly one message of the closed set."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"not a message: {reason}")


class LetterRefused(ProtocolError, ValueError):
    """Bytes that are no letter from that sender to this reader; nothing in them was believed.

    Attributes:
        reason: a word of ``likeset.trust.letters.Refusal``; never anything that the letter says.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"letter refused: {reason}")
        self.reason = reason


class OfferRefused(ProtocolError, ValueError):
    """What an owner sent to a compute party does not belong to its signed list: the offer counts as absent.

    Attributes:
        reason: a word of ``likeset.trust.shares.OfferFault``; never anything that the offer says.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"offer refused: {reason}")
        self.reason = reason


class HomeRestored(ProtocolError):
    """This home signed something that its database does not know; it answers and charges nothing more."""

    def __init__(self, since: str) -> None:
        when = since[:16].replace("T", " ")
        super().__init__(
            f"this home was restored from an old backup: at {when} UTC a letter of this home was found that this copy "
            "does not contain. It sends nothing more. Restore a newer backup, or make a new home with a new card"
        )
        self.since = since


class NotReady(ProtocolError):
    """Something of this home must be put right first, such as its clock; until then nothing is decided."""


class TryLater(LikesetError):
    """A letter that cannot be heard yet: it stays in the mailbox."""


class IllegalMessage(ProtocolError):
    """A well-formed message that may not come now, from that sender, or with that content."""


class PartyFailed(ProtocolError):
    """A step that was begun was not carried to its end: the party says nothing more, and is to be made anew."""


class QuorumMissed(ProtocolError):
    """Fewer owners took part than the terms ask for; there is no summary."""


class NotCurated(ProtocolError):
    """The curator lacks something public that the terms name, such as the schema; nobody was asked."""


class NoAnswer(ProtocolError):
    """The server between the parties cannot be reached, or did not do what it was asked; asking again may help."""


class TermsExpired(ProtocolError):
    """The terms of a run may no longer be used; nothing was released."""
