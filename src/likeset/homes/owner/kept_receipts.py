"""The curator's receipts at an owner: taken in, kept, and held against what the owner itself knows.

A receipt counts if the curator's card signed it: the one that the terms of its run name, which a person here has
pinned. It is evidence against the curator, so it is never lost to a weaker one. It binds by what this node knows, too:
lines about letters that never came here cost the curator nothing, and neither keep a receipt in its place nor out of
it. What the curator signed and what this node received may differ; that is the curator's contradiction, and no damage
to the node's own record. In the node's directory

- ``receipts/RUN.json`` is the receipt of a run that acknowledges most of what this node wrote and received;
- ``receipts/aside/RUN`` holds what the curator signed for this owner and what contradicts this node, or that receipt.

What is kept stands in the audit log; so does what is refused, and why.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn

from likeset.documents import make_folder
from likeset.errors import BadDocument, IllegalMessage, LedgerUnavailable
from likeset.homes.owner.node import OwnerNode
from likeset.homes.owner.run_records import RunRecord
from likeset.homes.receipts import Receipt, file_name, read_receipt, receipt_in, write_receipt
from likeset.homes.transcripts import (
    FROM_OWNER,
    THE_CURATOR,
    TO_OWNER,
    Line,
    Transcript,
    acknowledging_party,
    compare,
    differences,
    signer_in_words,
)
from likeset.protocol.terms import Terms

__all__ = [
    "ReceiptVerdict",
    "acknowledged_letters",
    "check",
    "check_all",
    "fault_under",
    "in_words",
    "kept_receipt",
    "receipt_path",
    "take",
]

_MOST_ASIDE = 8  # of one run; a flood must not fill the disk


def receipt_path(node: OwnerNode, run: str) -> Path:
    """Where the receipt of a run is kept."""
    return _folder(node) / f"{file_name(run)}.json"


def kept_receipt(node: OwnerNode, run: str) -> Receipt | None:
    """The receipt of a run that acknowledges most; None if there is none.

    Raises:
        BadDocument: its file cannot be read.
    """
    path = receipt_path(node, run)
    return read_receipt(path) if path.exists() else None


# Taking a receipt in.


def take(node: OwnerNode, terms: Terms, data: bytes) -> bool:
    """Look at a receipt that came from the curator; keep it if it is good, and return whether it is the one now kept.

    Reasons are in words that do not vary with what the curator writes: the audit log counts refusals by them.

    Raises:
        IllegalMessage: it is refused.
        LikesetError: it cannot be looked at or kept.
    """
    try:
        receipt = receipt_in("receipt", data)
    except BadDocument:
        _refuse("it is none, or of another version", terms)
    _check_owner(node, receipt, terms)
    signed = receipt.transcript
    if (signed.run, signed.run_id, signed.terms) != (terms.run, terms.run_id, terms.digest):
        _refuse("it is about another run, or other terms", terms)
    return _take(node, receipt, terms)


def _check_owner(node: OwnerNode, receipt: Receipt, terms: Terms) -> None:
    if receipt.transcript.owner != node.name:
        _refuse("it is for another owner", terms)


def _take(node: OwnerNode, receipt: Receipt, terms: Terms) -> bool:
    if fault_under(receipt, terms) is not None:
        _refuse(f"{signer_in_words(terms)}'s card did not sign it as it is", terms)
    run = receipt.transcript.run
    with _alone(node):
        record, before, own = node.record_of(run), kept_receipt(node, run), node.transcript(run)
        if compare(own, receipt.transcript)[0]:
            _set_aside(node, receipt)
            _refuse("it contradicts what this node wrote and received; see receipts/aside", terms)
        if before is not None:
            if not _covers(receipt, before, own):
                _set_aside(node, receipt)
                _refuse("it acknowledges less than one that is kept, or something else; see receipts/aside", terms)
            if _covers(before, receipt, own):
                receipt = before  # nothing new, and the earlier time is the better evidence
            elif _contradictions(own, before.transcript, terms):
                _set_aside(node, before, always=True)  # at most once for each line that this node knows
        if receipt is not before:
            _write(receipt_path(node, run), receipt)
        if receipt.digest != _last_kept(record):
            letters, rows = len(receipt.transcript.lines), receipt.transcript.rows
            node.note("acknowledged", run, digest=receipt.digest, rows=rows, letters=letters)
            return True
        return False


def fault_under(receipt: Receipt, terms: Terms) -> str | None:
    """What is wrong with who signed a receipt under these terms; None if nothing is."""
    who = acknowledging_party(terms)
    signer, reader = receipt.card.fingerprint, terms.cards.get(who)
    if signer != reader:
        return f"it is signed by the card {signer}, and {signer_in_words(terms)}'s in this run is {reader}"
    return receipt.fault()


def _last_kept(record: RunRecord) -> str:
    """The digest of the receipt that the audit log knows as the last one; empty if it knows none."""
    return record.receipts[-1] if record.receipts else ""


def _covers(receipt: Receipt, other: Receipt, own: Transcript) -> bool:
    """Whether a receipt acknowledges all that another does of what this node knows."""
    return _known_lines(other, own) <= _known_lines(receipt, own)


def _known_lines(receipt: Receipt, own: Transcript) -> set[Line]:
    """What a receipt says about what this node knows; about what never came here, anything could be written."""
    return set(receipt.transcript.lines) & set(own.lines)


def _contradictions(own: Transcript, signed: Transcript, terms: Terms) -> list[str]:
    """What the signer claims to have said and what this node heard otherwise, or under other terms."""
    signer = signer_in_words(terms)
    if own.terms != signed.terms:
        return [f"terms: they are {own.terms} here, and {signer} signed {signed.terms}"]
    return [
        f"{difference.line}: {signer} signed something else than what came"
        for difference in differences(own, signed)
        if difference.kind == "another letter" and difference.line.way == TO_OWNER
    ]


def _refuse(reason: str, terms: Terms) -> NoReturn:
    raise IllegalMessage(f"a receipt of {signer_in_words(terms)} is refused: {reason}")


def _folder(node: OwnerNode) -> Path:
    return node.home.folder / "receipts"


def _aside_folder(node: OwnerNode, run: str) -> Path:
    return _folder(node) / "aside" / file_name(run)


def _aside(node: OwnerNode, run: str) -> tuple[Path, ...]:
    return tuple(sorted(_aside_folder(node, run).glob("*.json")))


def _set_aside(node: OwnerNode, receipt: Receipt, *, always: bool = False) -> None:
    """Signed words of the curator are kept also where they are not believed; each once, and not without end."""
    run = receipt.transcript.run
    known = [read_receipt(path) for path in _aside(node, run)]
    is_new = all(receipt.transcript != other.transcript for other in known)
    if is_new and (always or len(known) < _MOST_ASIDE):
        _write(_aside_folder(node, run) / f"{receipt.digest[:16]}.json", receipt)


def _write(path: Path, receipt: Receipt) -> None:
    make_folder(path.parent)
    write_receipt(path, receipt)


@contextmanager
def _alone(node: OwnerNode) -> Iterator[None]:
    """One process at a time; a lock that ends with the process that holds it."""
    make_folder(_folder(node))
    path = _folder(node) / ".lock"
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        connection = sqlite3.connect(path, isolation_level=None, timeout=30.0)
    except (OSError, sqlite3.Error) as error:
        raise LedgerUnavailable(f"{path} cannot be opened; no receipt is kept") from error
    with closing(connection):
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise LedgerUnavailable(f"{path} cannot be locked; no receipt is kept") from error
        yield


# Looking at what is kept.


_Finding = tuple[Literal["problem", "contradiction", "note"], str]


@dataclass(frozen=True, slots=True)
class ReceiptVerdict:
    """What there is to say about the receipt of one run.

    Attributes:
        run: its name.
        receipt: the one that acknowledges most; None if there is none, or it cannot be read.
        findings: in words, by their weight.
        aside: files with what the curator signed, too, and what contradicts the rest.
    """

    run: str
    receipt: Receipt | None
    findings: tuple[_Finding, ...]
    aside: tuple[Path, ...]
    signer: str = THE_CURATOR

    @property
    def problems(self) -> tuple[str, ...]:
        """What does not hold; somebody or something changed what this node kept."""
        return tuple(words for weight, words in self.findings if weight == "problem")

    @property
    def contradictions(self) -> tuple[str, ...]:
        """What the curator signed and what is not so by this node's record, which holds."""
        return tuple(words for weight, words in self.findings if weight == "contradiction")

    @property
    def notes(self) -> tuple[str, ...]:
        """What is worth knowing."""
        return tuple(words for weight, words in self.findings if weight == "note")


def check(node: OwnerNode, run: str) -> ReceiptVerdict:
    """Whether the receipt of a run holds, and agrees with this node."""
    record, aside = node.record_of(run), _aside(node, run)
    try:
        receipt = kept_receipt(node, run)
    except BadDocument as error:
        return ReceiptVerdict(run, None, (("problem", str(error)),), aside)
    if receipt is None:
        return ReceiptVerdict(run, None, tuple(_about_its_absence(record)), aside)
    try:
        own, terms = node.transcript(run), record.version(receipt.transcript.terms)
    except IllegalMessage as error:
        return ReceiptVerdict(run, receipt, (("note", f"it cannot be compared: {error}"),), aside)
    findings = (
        *_about_signature(receipt, terms),
        *_about_log(receipt, record),
        *_about_lines(own, receipt.transcript, terms),
    )
    return ReceiptVerdict(run, receipt, findings, aside, signer_in_words(terms))


def _about_its_absence(record: RunRecord) -> Iterator[_Finding]:
    if record.receipts:
        yield "problem", "the receipt that was kept is gone"
    elif record.sent:
        yield "note", "letters left, and no receipt came yet"


def _about_signature(receipt: Receipt, terms: Terms) -> Iterator[_Finding]:
    if (fault := fault_under(receipt, terms)) is not None:
        yield "problem", fault


def _about_log(receipt: Receipt, record: RunRecord) -> Iterator[_Finding]:
    if receipt.digest not in record.receipts:
        yield "note", "the audit log does not know this receipt: a crash came first, or somebody put it there"
    elif receipt.digest != _last_kept(record):
        yield "problem", "it is an older receipt than the one that was kept last"


def _about_lines(own: Transcript, signed: Transcript, terms: Terms) -> Iterator[_Finding]:
    """What this node sent was compared when the receipt came; what it heard since then cannot be in it."""
    for words in _contradictions(own, signed, terms):
        yield "contradiction", words
    for difference in differences(own, signed, signer_in_words(terms)) if own.terms == signed.terms else ():
        if difference.kind == "never said":
            yield "note", f"{difference.line}: came after the receipt"
        elif not difference.contradicts:
            yield "note", str(difference)
        elif difference.line.way == FROM_OWNER:
            yield "problem", str(difference)


def check_all(node: OwnerNode) -> list[ReceiptVerdict]:
    """The same for every run that has a receipt, or from which rows left."""
    node.log.refresh()
    return [
        check(node, run)
        for run, record in node.runs.by_name.items()
        if record.sent or record.receipts or receipt_path(node, run).exists() or _aside(node, run)
    ]


def acknowledged_letters(node: OwnerNode, run: str) -> frozenset[tuple[int, str]]:
    """Round and kind of what this node wrote in a run and the curator acknowledges; none where its receipt fails."""
    verdict = check(node, run)
    if verdict.receipt is None or verdict.problems:
        return frozenset()
    lines = verdict.receipt.transcript.lines
    return frozenset((line.round, line.kind) for line in lines if line.way == FROM_OWNER)


def in_words(node: OwnerNode, run: str) -> str:
    """Whether the curator acknowledged what left in a run, in a sentence; empty if nothing left."""
    sent = [line for line in node.transcript(run).lines if line.way == FROM_OWNER]
    verdict = check(node, run)
    if not sent and verdict.receipt is None:
        return ""
    if verdict.problems:
        return f"Its receipt does not hold: {verdict.problems[0]}."
    if verdict.receipt is None:
        is_split = (terms := node.runs.by_name[run].readable(node.transcript(run).terms)) is not None and terms.split
        when = "the consumer has taken in your rows" if is_split else "the run ends or is resumed"
        return f"No: no receipt came yet. One comes when {when}."
    missing = set(sent) - set(verdict.receipt.transcript.lines)
    how = "; it also contradicts what came here" if verdict.contradictions else ""
    if missing:
        return f"Not all: {len(missing)} of {len(sent)} letters that left are not in its receipt{how}."
    return f"Yes: {verdict.receipt.transcript.rows:,} rows, on {verdict.receipt.at[:10]}{how}."
