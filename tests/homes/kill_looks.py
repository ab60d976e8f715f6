"""What is left behind when parties were killed and came back: ledgers, logs, transcripts, beside what really passed.

Every look returns complaints in words; none is what must come out.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kill_world import CONSUMER, OWNERS, folder_of, homes
from opened_letters import Opener

from likeset.homes import owner_node, review
from likeset.homes.mail import compare, transcript_of
from likeset.homes.owner_node import OwnerNode
from likeset.ledger.ledger import Ledger
from likeset.privacy.guarantee import View
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Terms
from likeset.protocol.wire import Asked, Delivery, Message, Offer, Summary, Target

Accounts = dict[str, dict[str, tuple[float, int]]]
"""What was charged: epsilon and rows, by ledger and view."""


@dataclass(frozen=True)
class Said:
    """A call that passed the hub, and its answer if one came."""

    site: str
    method: str
    argument: Any
    answer: Any = None


def passed(place: Path, said: Iterable[Said]) -> list[tuple[Message, bytes]]:
    """All messages that passed in letters, in their order, repeated ones too."""
    letters: dict[bytes, list[tuple[Message, bytes]]] = {}
    opener, found = Opener.of(place), []
    for one in said:
        heard = [one.argument] if one.answer is None and isinstance(one.argument, bytes) else []
        replies = one.answer if isinstance(one.answer, list) else []
        for data in (*heard, *replies):
            if data not in letters:
                letters[data] = list(opener.messages([data]))
            found += letters[data]
    return found


def accounts(place: Path, run: Terms) -> Accounts:
    """What everybody charged."""
    curator, consumer = homes(place)
    ledgers = {name: folder_of(place, name) / "ledger.sqlite" for name in OWNERS}
    ledgers |= {CURATOR: curator.ledgers / f"{run.digest}.sqlite", CONSUMER: consumer.ledger}
    found = {}
    for name, path in ledgers.items():
        if path.exists():
            with Ledger(path) as ledger:
                found[name] = {str(one.view): (one.epsilon or 0.0, one.rows) for one in ledger.accounts()}
    return found


def repeated(messages: Iterable[tuple[Message, bytes]]) -> list[str]:
    """Places in which two different messages passed; a summary may be fuller when an owner is back."""
    known: dict[tuple[str, str, int, str], set[bytes]] = {}
    for message, data in messages:
        if not isinstance(message.body, Summary):
            place = (message.sender, message.receiver, message.round, message.body.kind)
            known.setdefault(place, set()).add(data)
    return [f"{len(found)} different messages in the place {place}" for place, found in known.items() if len(found) > 1]


def charged(spent: Accounts, usual: Accounts, messages: list[tuple[Message, bytes]], run: Terms) -> list[str]:
    """Whether everything that passed is paid for, as much as in a run that nobody disturbed."""
    complaints = []

    def needs(ledger: str, view: View, *, rows: int = 0) -> None:
        epsilon, count = spent.get(ledger, {}).get(str(view), (0.0, 0))
        least = usual[ledger][str(view)]
        if epsilon < least[0] - 1e-9 or count < max(rows, 0):
            complaints.append(f"{ledger}, {view}: charged {epsilon}, {count} rows; {least} and {rows} rows left")

    for message, _ in messages:
        if isinstance(message.body, Target):
            needs(CONSUMER, View.owners(CONSUMER))
        elif isinstance(message.body, Asked) and run.auction == "threshold":
            for owner in OWNERS:
                needs(CURATOR, View.owners(owner))
        elif message.sender in OWNERS:
            needs(message.sender, View.owners(message.sender))
    for owner, handles in rows_that_left(messages).items():
        if len(handles) > run.rows_per_owner:
            complaints.append(f"{owner}: {len(handles)} different rows left, and {run.rows_per_owner} may")
        needs(owner, View.curator(owner), rows=run.rows_per_owner if handles else 0)
    return sorted(set(complaints))


def overcounted(spent: Accounts, usual: Accounts, run: Terms) -> list[str]:
    """Accounts on which a crash cost something: whatever was charged is taken up again, and not paid twice."""
    return [
        f"{ledger}, {view}: charged {epsilon}, {rows} rows; usually {usual[ledger][view]}"
        for ledger, views in spent.items()
        for view, (epsilon, rows) in views.items()
        if epsilon > usual[ledger][view][0] + 1e-9 or rows > run.rows_per_owner
    ]


def undercounted(spent: Accounts, usual: Accounts) -> list[str]:
    """Accounts on which less was charged than usual."""
    return [
        f"{ledger}, {view}: charged {spent[ledger].get(view)}, usually {least}"
        for ledger, views in usual.items()
        for view, least in views.items()
        if any(mine < theirs - 1e-9 for mine, theirs in zip(spent[ledger].get(view, (0.0, 0)), least, strict=True))
    ]


def rows_that_left(messages: Iterable[tuple[Message, bytes]]) -> dict[str, dict[int, tuple[int, str]]]:
    """By owner: the handles of the rows that really left, each with the place in which it did."""
    found: dict[str, dict[int, tuple[int, str]]] = {name: {} for name in OWNERS}
    for message, _ in messages:
        body = message.body
        handles = body.handles.tolist() if isinstance(body, Offer) else []
        handles += [body.handle] if isinstance(body, Delivery) else []
        for handle in handles:
            place = (message.round, body.kind)
            if found[message.sender].setdefault(handle, place) != place:
                raise AssertionError(f"{message.sender}: a row left in {place}, and in {found[message.sender][handle]}")
    return found


def at_owners(place: Path, run: Terms, messages: list[tuple[Message, bytes]], *, done: bool) -> list[str]:
    """Ledger, audit log and outbox of each owner, both copies of the transcript, and the receipt."""
    complaints = []
    curator, _ = homes(place)
    with curator.identity.book as book:
        copies = [transcript_of(book, run, owner=name, kept_by="curator") for name in OWNERS]
    theirs = {copy.owner: copy for copy in copies if copy.lines}
    for name in OWNERS:
        really = {data for message, data in messages if message.sender == name}
        with OwnerNode(folder_of(place, name)) as node:
            known = {one.data for one in review.messages_that_left(node, run.run) if one.sent}
            problems, notes = review.verify(node)
            complaints += [f"{name}: {problem}" for problem in problems]
            if not really <= known:
                complaints.append(f"{name}: {len(really - known)} messages left that its outbox does not know")
            if done and (notes or known != really):
                complaints.append(f"{name}: its outbox knows {len(known)} messages, {len(really)} passed; {notes}")
            mine = node.transcript(run.run)
            receipt = owner_node.check(node, run.run)
        complaints += [f"{name}: {what}" for what in (*receipt.problems, *map(str, receipt.aside))]
        if name not in theirs:
            if really:
                complaints.append(f"{name}: the curator kept no transcript of what it was sent")
            continue
        complaints += [f"{name}: {problem}" for problem in compare(mine, theirs[name])[0]]
        if done and receipt.notes:
            complaints.append(f"{name}: of its receipt: {receipt.notes}")
    return complaints


def ledgers(place: Path, run: Terms) -> list[str]:
    """What is wrong with the ledgers of curator and consumer; owners' are looked at with their logs."""
    curator, consumer = homes(place)
    complaints = []
    for path in (curator.ledgers / f"{run.digest}.sqlite", consumer.ledger):
        if path.exists():
            with Ledger(path) as ledger:
                complaints += [f"{path.name}: {one}" for one in ledger.verify(messages=True).problems]
    return complaints


def traces(place: Path) -> list[str]:
    """What processes said to a terminal; a traceback would be one."""
    return [f"{path.name}: {path.read_text()[-600:]}" for path in place.glob("stderr-*") if path.stat().st_size]
