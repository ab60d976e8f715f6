"""The exceptions that likeset raises on purpose, all of them ``LikesetError``.

A user's mistake raises one of these, and the command line prints its message alone. A message shows settings (a size,
an epsilon) and places (row 17, column 3), never the content of a data row: messages end up in logs.
"""

import os
from typing import ClassVar, Literal

from likeset.text import harmless, short_query, without_secrets

_MOST_SHOWN = 1000
_MOST_OF_QUERY = 64


Fault = Literal["caller", "peer", "machine", "budget"]


class LikesetError(Exception):
    """Base class of all exceptions that likeset raises on purpose.

    Attributes:
        fault: the origin: the caller or a file that a person wrote, a peer, this machine or what it needs, a budget.
        retry: whether the same attempt may succeed later, once the obstacle is gone or the mistake is corrected.
    """

    fault: ClassVar[Fault] = "caller"
    retry: ClassVar[bool] = True

    def __init_subclass__(cls, *, fault: Fault | None = None, retry: bool | None = None) -> None:
        cls.fault = fault or cls.fault
        cls.retry = cls.retry if retry is None else retry


def is_final(error: Exception) -> bool:
    """Whether no later attempt helps. Another exception than ``LikesetError`` is a fault of this machine."""
    return isinstance(error, LikesetError) and not error.retry


class InvalidArgument(LikesetError, ValueError):
    """An argument has a value that cannot be used.

    Attributes:
        argument: the argument's name, as the caller wrote it.
        value: the offending value without passwords, or a description of it if the value is data.
        reason: the problem and the remedy.
        row: number of the invalid row, counted from 0; None if the error concerns no single row.
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
        line: the line, counted from 1; None if the error concerns the whole file.
        field: the field, such as ``columns.age.bounds``; empty if the error concerns no single field.
        reason: the problem and the remedy.
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
        reason: the problem and the remedy; never quotes a value.
        place: ``line 17``, ``row group 3`` or ``row 1204``; empty if the error concerns the whole table.
        column: the column; empty if the error concerns no single column.
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
    """The remedy if the packages of an optional part are not installed."""
    return f"needs packages of the extra {extra}, which are not installed: see docs/deploying.md, Installation"


class DecidedMeanwhile(LikesetError):
    """Another person decided or changed something after the user read it; nothing was written.

    Attributes:
        what: the run or the file.
        last_word: the last decision, its author and its time.
    """

    def __init__(self, what: str, last_word: str) -> None:
        self.what, self.last_word = harmless(what, most=128), harmless(last_word, most=300)
        super().__init__(
            f"{self.what} was {self.last_word} while you looked at it; nothing was written: look at it again"
        )


class BudgetExceeded(LikesetError, fault="budget", retry=False):
    """A charge would exceed an account's limit; nothing was charged.

    Attributes:
        view: the account, in words.
        spent: the sum of the charges so far.
        requested: the price of the refused charge.
        limit: the limit of the sum.
        unit: the unit of the three numbers: rows, or epsilon with its delta and relation.
    """

    def __init__(self, view: str, *, spent: float, requested: float, limit: float, unit: str) -> None:
        super().__init__(view, spent, requested, limit, unit)
        self.view, self.spent, self.requested, self.limit, self.unit = view, spent, requested, limit, unit

    def __str__(self) -> str:
        return (
            f"budget exceeded ({self.view}): {self.requested:.4g} requested, "
            f"{self.spent:.4g} of {self.limit:.4g} already spent, counted in {self.unit}; nothing was charged"
        )


class LedgerError(LikesetError, fault="machine"):
    """Base class of errors of the ledger; nothing was charged."""


class LedgerUnreadable(LedgerError):
    """The file is not a ledger, is damaged, or was written by a newer version."""


class LedgerTampered(LedgerError):
    """The chain of entries is broken: an entry was altered, removed or reordered."""


class LedgerUnavailable(LedgerError):
    """The file cannot be opened, locked or written right now."""


class ChargeRefused(LedgerError, fault="budget", retry=False):
    """There is no account for the view, the account does not accept this kind of charge, or the rules do not."""


class OtherRelation(ChargeRefused):
    """The charge and the account have different neighbouring relations; nothing was charged.

    Attributes:
        view: the account, in words.
        account: the relation of the account's limit.
        planned: the relation of the charge.
    """

    def __init__(self, view: str, *, account: str, planned: str) -> None:
        super().__init__(view, account, planned)
        self.view, self.account, self.planned = view, account, planned

    def __str__(self) -> str:
        return (
            f"account ({self.view}): the account counts under {self.account} and this charge was priced under "
            f"{self.planned}; the two cannot be added; ask for relation {self.account}, or keep runs under "
            f"{self.planned} in a ledger of their own; nothing was charged"
        )


class OtherUnit(OtherRelation):
    """The charge and the account have different units of privacy; nothing was charged."""

    def __str__(self) -> str:
        return (
            f"account ({self.view}): earlier runs protected one {self.account}, and this one protects one "
            f"{self.planned}, so their prices do not add up; declare the id in its schema as in those of the earlier "
            "runs, or give it a ledger of its own, whose sum does not include the earlier runs; nothing was charged"
        )


class DifferentRequest(LedgerError, retry=False):
    """Another request has the same run, round and kind. ``kind`` names the kind if it is a single one."""

    def __init__(self, reason: str, *, kind: str = "") -> None:
        super().__init__(reason)
        self.kind = kind


class UnfinishedRequest(LedgerError, retry=False):
    """The request was charged, and interrupted before its answer was stored; the charge stays spent."""


class MessagePurged(LedgerError, retry=False):
    """The request was answered before, and its stored answer was purged; noise is never drawn twice."""


class UnknownEvent(LikesetError):
    """A record of a release is not in the vocabulary: it has no price, so it is refused."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(what, reason)

    def __str__(self) -> str:
        return ": ".join(self.args)


class UnprovenPart(LikesetError):
    """A run needs a part without a privacy proof that was not accepted by name.

    Attributes:
        part: the name to put into ``accept_unproven``.
        reason: the claim that is not proven.
    """

    def __init__(self, part: str, reason: str) -> None:
        super().__init__(part, reason)
        self.part, self.reason = part, reason

    def __str__(self) -> str:
        return f"{self.part} is not proven private: {self.reason}; to run it anyway, name it in accept_unproven"


class NoiseUnavailable(LikesetError, fault="machine"):
    """This machine has no secure generator, or rounds differently than a proof assumes; nothing was drawn."""


class MailboxTrouble(LikesetError, fault="machine"):
    """A mailbox cannot be used now: it is full, missing, read-only, closed to this user or does not answer.

    Attributes:
        mailbox: its address, without secrets.
        reason: the problem and the remedy, in one line.
    """

    def __init__(self, mailbox: str, reason: str) -> None:
        mailbox, reason = without_secrets(mailbox), harmless(without_secrets(reason), most=_MOST_SHOWN)
        super().__init__(mailbox, reason)
        self.mailbox, self.reason = mailbox, reason

    def __str__(self) -> str:
        return f"mailbox {harmless(self.mailbox, most=_MOST_SHOWN)}: {self.reason}"


class PostTrouble(MailboxTrouble):
    """One file or folder of a mailbox cannot be used; it is skipped."""


class ProtocolError(LikesetError, fault="peer", retry=False):
    """A party received a message that the terms do not allow; its state did not change."""


class BadMessage(ProtocolError, ValueError):
    """Bytes are not exactly one message of the closed set."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"not a message: {reason}")


class LetterRefused(ProtocolError, ValueError):
    """Bytes are not a letter from the expected sender to this reader; their content is ignored.

    Attributes:
        reason: a word of ``likeset.trust.letters.Refusal``; never content of the letter.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"letter refused: {reason}")
        self.reason = reason


class HomeRestored(LikesetError, fault="machine"):
    """This home signed a letter that its database does not contain; it answers and charges nothing more."""

    def __init__(self, since: str) -> None:
        when = since[:16].replace("T", " ")
        super().__init__(
            f"this home was restored from an old backup: at {when} UTC a letter of this home was found that this copy "
            "does not contain. It sends nothing more. Restore a newer backup, or make a new home with a new card"
        )
        self.since = since


class NotReady(LikesetError, fault="machine"):
    """The user must first correct this home, such as its clock; until then it decides nothing."""


class TryLater(LikesetError, fault="peer"):
    """A letter cannot be heard yet; it stays in the mailbox."""


class IllegalMessage(ProtocolError):
    """A well-formed message is not allowed now, from this sender, or with this content."""


class PartyFailed(LikesetError, fault="machine", retry=False):
    """A step failed: the party answers nothing more, and must be rebuilt."""


class QuorumMissed(LikesetError, retry=False):
    """Fewer owners took part than the terms require; there is no summary."""


class NotCurated(LikesetError, fault="machine"):
    """The curator lacks a public document that the terms name, such as the schema; no owner was asked."""


class NoAnswer(LikesetError, fault="machine"):
    """The server between the parties cannot be reached, or failed; a repeated request may succeed."""


class DataChanged(LikesetError, fault="machine", retry=False):
    """A data set is no longer the one with which a run began; its steward has to decide again."""


class TermsExpired(ProtocolError):
    """The terms of a run may no longer be used; nothing was released."""
