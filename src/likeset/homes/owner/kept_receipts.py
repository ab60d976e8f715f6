"""The curator's receipts at an owner: taken in, kept, and held against what the owner itself knows.

A receipt is evidence against the curator, so it is never lost to a weaker one. It binds by what this node knows, too:
lines about messages that the node never heard cost the curator nothing, and neither keep a receipt in its place nor out
of it. What the curator signed and what this node heard may differ; that is the curator's contradiction, and no damage
to the node's own record. In the node's directory

- ``curator.pub`` is the curator's public key, which somebody pinned (``likeset owner trust``). The key in a receipt is
  not taken for the curator's because it came first: while none is pinned, receipts are kept and count as signed with an
  unknown key;
- ``receipts/RUN.json`` is the receipt of a run that acknowledges most of what this node sent and heard;
- ``receipts/aside/RUN`` holds what the curator signed for this owner and what contradicts this node, or that receipt.

What is kept stands in the audit log; so does what is refused, and why.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from likeset import documents
from likeset.errors import BadDocument, IllegalMessage, InvalidArgument, LedgerUnavailable
from likeset.homes.owner.node import OwnerNode
from likeset.homes.receipts import Receipt, file_name, has_cryptography, key_in, read_receipt, receipt_in, write_receipt
from likeset.homes.transcripts import FromOwner, Line, Place, ToOwner, Transcript, compare, of_node, own_side
from likeset.private_files import make_private_folder
from likeset.protocol.terms import Terms

__all__ = [
    "Checked",
    "acknowledged_messages",
    "check",
    "check_all",
    "held",
    "in_words",
    "pin",
    "pinned_key",
    "receipt_path",
    "take",
    "take_file",
]

_KEY_FILE = "curator.pub"
_MOST_ASIDE = 8  # of one run; a flood must not fill the disk


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found about the receipt of one run.

    Attributes:
        run: its name.
        receipt: the one that acknowledges most; None if there is none, or it cannot be read.
        pinned: whether it is signed with the key that is, or then was, pinned.
        problems: what does not hold; somebody or something changed what this node kept.
        contradictions: what the curator signed and what is not so by this node's record, which holds.
        notes: what is worth knowing.
        aside: files with what the curator signed, too, and what contradicts the rest.
    """

    run: str
    receipt: Receipt | None
    pinned: bool
    problems: tuple[str, ...]
    contradictions: tuple[str, ...]
    notes: tuple[str, ...]
    aside: tuple[Path, ...]


def receipt_path(node: OwnerNode, run: str) -> Path:
    """Where the receipt of a run is kept."""
    return _folder(node) / f"{file_name(run)}.json"


def held(node: OwnerNode, run: str) -> Receipt | None:
    """The receipt of a run that acknowledges most; None if there is none.

    Raises:
        BadDocument: its file cannot be read.
    """
    path = receipt_path(node, run)
    return read_receipt(path) if path.exists() else None


# The curator's key.


def pinned_key(node: OwnerNode) -> str | None:
    """The curator's public key, as somebody here pinned it; None if nobody did.

    Raises:
        BadDocument: the file holds no key.
    """
    path = node.home.folder / _KEY_FILE
    return key_in(path) if path.exists() else None


def pin(node: OwnerNode, key: Path, *, by: str, replace: bool = False) -> str:
    """Take a public key for the curator's; returns it.

    Args:
        node: the node.
        key: a file with it.
        by: who says so.
        replace: also if another one is pinned; receipts that were checked with that one stay good.

    Raises:
        InvalidArgument: another one is pinned.
    """
    found, before = key_in(key), pinned_key(node)
    if before is not None and before != found and not replace:
        raise InvalidArgument(
            "KEY", key, f"another key is pinned ({before[:16]}...); if the curator told you of a new one, add --replace"
        )
    if found != before:
        node.note("trusted", "", key=found, by=by, instead=before or "")
        documents.write_text(node.home.folder / _KEY_FILE, found + "\n")
    return found


# Taking a receipt in.


def take(node: OwnerNode, terms: Terms, data: bytes) -> None:
    """Look at a receipt that came from the curator; keep it if it is good.

    Reasons are in words that do not vary with what the curator writes: the audit log counts refusals by them.

    Raises:
        IllegalMessage: it is refused.
        LikesetError: it cannot be looked at or kept.
    """
    try:
        receipt = receipt_in("receipt", data)
    except BadDocument:
        _refuse("it is none, or of another version")
    found = receipt.transcript
    if found.owner != node.name:
        _refuse("it is for another owner")
    if (found.run, found.terms) != (terms.run, terms.digest):
        _refuse("it is about another run, or other terms")
    _take(node, receipt)


def take_file(node: OwnerNode, path: Path) -> Receipt:
    """As ``take``, for a receipt that came by another way."""
    receipt = read_receipt(path)
    node.record_of(receipt.transcript.run)
    if receipt.transcript.owner != node.name:
        _refuse("it is for another owner")
    _take(node, receipt)
    return receipt


def _take(node: OwnerNode, receipt: Receipt) -> None:
    trusted = pinned_key(node)
    if trusted is not None and trusted != receipt.key:
        _refuse(f"it is signed with another key than {_KEY_FILE}")
    if receipt.fault() is not None:
        _refuse("its signature does not hold")
    run = receipt.transcript.run
    with _alone(node):
        node.log.refresh()
        record, before = node.record_of(run), held(node, run)
        own, purged = own_side(node, run)
        if compare(own, receipt.transcript, purged=purged)[0]:
            _set_aside(node, receipt)
            _refuse("it contradicts what this node sent and heard; see receipts/aside")
        known = _Known(frozenset(own.lines), purged)
        if before is not None:
            bound = trusted is None or before.key == trusted or record.receipts.get(before.digest, False)
            if trusted is None and before.key != receipt.key:
                _set_aside(node, receipt)
                _refuse("it is signed with another key than the one before, and nobody pinned either")
            if bound and not _covers(receipt, before, known):
                _set_aside(node, receipt)
                _refuse("it acknowledges less than one that is kept, or something else; see receipts/aside")
            if before.key == receipt.key and _covers(before, receipt, known):
                receipt = before  # nothing new, and the earlier time is the better evidence
            elif before.key != receipt.key or _contradictions(own, before.transcript):
                _set_aside(node, before, always=True)  # at most once for each line that this node knows
        if receipt is not before:
            _write(receipt_path(node, run), receipt)
        if receipt.digest != next(reversed(record.receipts), ""):
            node.note(
                "acknowledged",
                run,
                digest=receipt.digest,
                rows=receipt.transcript.rows,
                messages=len(receipt.transcript.lines),
                key=receipt.key,
                pinned=trusted is not None,
            )


@dataclass(frozen=True, slots=True)
class _Known:
    """What this node sent and heard itself.

    Attributes:
        lines: of messages that are here.
        purged: places of others, whose bytes were removed.
    """

    lines: frozenset[Line]
    purged: frozenset[Place]

    def of(self, receipt: Receipt) -> set[Line]:
        """What a receipt says about it; about what never came here, anything could be written."""
        return {line for line in receipt.transcript.lines if line in self.lines or line.place in self.purged}


def _covers(one: Receipt, other: Receipt, known: _Known) -> bool:
    """Whether one acknowledges all that another does, of what is known here."""
    return known.of(other) <= known.of(one)


def _contradictions(own: Transcript, told: Transcript) -> list[str]:
    """What the curator claims to have said and what this node heard otherwise, or under other terms."""
    if own.terms != told.terms:
        return [f"terms: they are {own.terms} here, and the curator signed {told.terms}"]
    heard = {line.place: line for line in own.lines if line.way == ToOwner}
    return [
        f"{line}: the curator signed another message than the one that came"
        for line in told.lines
        if line.place in heard and heard[line.place] != line
    ]


def _refuse(reason: str) -> NoReturn:
    raise IllegalMessage(f"a receipt of the curator is refused: {reason}")


def _folder(node: OwnerNode) -> Path:
    return node.home.folder / "receipts"


def _aside(node: OwnerNode, run: str) -> list[Path]:
    return sorted((_folder(node) / "aside" / file_name(run)).glob("*.json"))


def _set_aside(node: OwnerNode, receipt: Receipt, *, always: bool = False) -> None:
    """Signed words of the curator are kept also where they are not believed; each once, and not without end."""
    run = receipt.transcript.run
    known = [read_receipt(path) for path in _aside(node, run)]
    said = {(one.key, one.transcript) for one in known}
    if (receipt.key, receipt.transcript) not in said and (always or len(known) < _MOST_ASIDE):
        _write(_folder(node) / "aside" / file_name(run) / f"{receipt.digest[:16]}.json", receipt)


def _write(path: Path, receipt: Receipt) -> None:
    _make_folder(path.parent)
    write_receipt(path, receipt)


def _make_folder(place: Path) -> None:
    try:
        make_private_folder(place)
    except OSError as error:
        raise BadDocument(str(place), f"cannot be made: {error.strerror}") from error


@contextmanager
def _alone(node: OwnerNode) -> Iterator[None]:
    """One process at a time; a lock that ends with the process that holds it."""
    _make_folder(_folder(node))
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


def check(node: OwnerNode, run: str) -> Checked:
    """Whether the receipt of a run holds, and agrees with this node."""
    record, problems, notes = node.record_of(run), list[str](), list[str]()
    aside = tuple(_aside(node, run))
    try:
        receipt = held(node, run)
    except BadDocument as error:
        return Checked(run, None, False, (str(error),), (), (), aside)
    if receipt is None:
        if record.receipts:
            problems.append("the receipt that was kept is gone")
        elif record.sent:
            notes.append("messages left, and no receipt came yet")
        return Checked(run, None, False, tuple(problems), (), tuple(notes), aside)
    contradictions = list[str]()
    pinned = _check_key(node, receipt, record.receipts.get(receipt.digest), problems, contradictions, notes)
    if receipt.digest not in record.receipts:
        notes.append("the audit log does not know this receipt: a crash came first, or somebody put it there")
    elif receipt.digest != next(reversed(record.receipts)):
        problems.append("it is an older receipt than the one that was kept last")
    own, purged = own_side(node, run)
    told = receipt.transcript
    contradictions += _contradictions(own, told)
    if own.terms == told.terms:
        # What this node sent was compared when the receipt came; what it heard since then cannot be in it.
        since = {line.place for line in own.lines if line.way == ToOwner} - {line.place for line in told.lines}
        heard = {line.place for line in own.lines if line.way == ToOwner}
        found, more = compare(_without(own, heard), _without(told, heard), purged=purged)
        problems += found
        notes += [
            *more,
            *(f"{kind} {way}, round {number}: came after the receipt" for way, number, kind in sorted(since)),
        ]
    return Checked(run, receipt, pinned, tuple(problems), tuple(contradictions), tuple(notes), aside)


def _without(found: Transcript, places: set[Place]) -> Transcript:
    return replace(found, lines=tuple(line for line in found.lines if line.place not in places))


def _check_key(
    node: OwnerNode,
    receipt: Receipt,
    then: bool | None,
    problems: list[str],
    contradictions: list[str],
    notes: list[str],
) -> bool:
    """Whether the signature is of a key that is, or was, pinned; what is wrong with it is added to what was found.

    ``then`` says whether its key was pinned when it came, as the audit log knows; None if that does not know it.
    """
    trusted = pinned_key(node)
    if not has_cryptography():
        notes.append("its signature cannot be checked here; pip install 'likeset[nvflare]'")
        return False
    if (fault := receipt.fault()) is not None:
        problems.append(fault)
        return False
    if trusted == receipt.key:
        return True
    if then:
        notes.append(f"signed with the key {receipt.key[:16]}..., which was pinned then")
    elif trusted is None:
        notes.append(f"signed with the key {receipt.key[:16]}..., which nobody pinned; see `likeset owner trust`")
    else:
        # It came while no key was pinned, and was taken for what it is; one that never came was put here.
        found = problems if then is None else contradictions
        found.append(f"signed with the key {receipt.key[:16]}..., and the curator's is {trusted[:16]}...")
    return bool(then)


def check_all(node: OwnerNode) -> list[Checked]:
    """The same for every run that has a receipt, or from which rows left."""
    node.log.refresh()
    found = []
    for run, record in node.runs.by_name.items():
        if record.sent or record.receipts or receipt_path(node, run).exists() or _aside(node, run):
            found.append(check(node, run))
    return found


def acknowledged_messages(node: OwnerNode, run: str) -> dict[str, str]:
    """Digests of the messages that the curator acknowledges in a run, with a word for how sure that is.

    ``yes`` if a pinned key signed, ``unknown key`` if another did; nothing where the receipt does not hold.
    """
    found = check(node, run)
    if found.receipt is None or found.problems:
        return {}
    return {line.digest: "yes" if found.pinned else "unknown key" for line in found.receipt.transcript.lines}


def in_words(node: OwnerNode, run: str) -> str:
    """Whether the curator acknowledged what left in a run, in a sentence; empty if nothing left."""
    sent = [line for line in of_node(node, run).lines if line.way == FromOwner]
    found = check(node, run)
    if not sent and found.receipt is None:
        return ""
    if found.problems:
        return f"Its receipt does not hold: {found.problems[0]}."
    if found.receipt is None:
        return "No: no receipt came yet. One comes when the run ends or is resumed."
    said = set(found.receipt.transcript.lines)
    missing = [line for line in sent if line not in said]
    how = "" if found.pinned else ", signed with a key that nobody here pinned"
    how += "; it also contradicts what came here" if found.contradictions else ""
    if missing:
        return f"Not all: {len(missing)} of {len(sent)} messages that left are not in its receipt{how}."
    return f"Yes: {found.receipt.transcript.rows:,} rows, on {found.receipt.at[:10]}{how}."
