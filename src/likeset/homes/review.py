"""What a steward reads: inbox, review, outbox, budgets, log, data sets and dry runs."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from likeset.errors import InvalidArgument
from likeset.files import keep_private_bytes, make_home_folder
from likeset.homes.data import DataSet
from likeset.homes.mail import Mail
from likeset.homes.owner import AskingCard, Owner, costs_of
from likeset.homes.policy import BUDGETS, Accounts, Policy, Verdict, amount, runs_this_month
from likeset.homes.runs import (
    CLOSED,
    RECEIPT,
    Ending,
    LetterState,
    Run,
    StoredLetter,
    acknowledging_party,
    rows_in,
)
from likeset.ledger.ledger import Entry, Head, Problem
from likeset.privacy.accounting import bound_in_words
from likeset.privacy.events import ROW, NoRelease
from likeset.protocol.party import CURATOR, RELEASE_ROUND
from likeset.protocol.prices import PlannedView
from likeset.protocol.sealed import Owner as OwnerParty
from likeset.protocol.sealed import row_handles
from likeset.protocol.split import is_kept_offer, records_in, shared_replies
from likeset.protocol.terms import MOST_SHOWN, Terms
from likeset.protocol.wire import (
    Asked,
    Body,
    Delivery,
    Message,
    Offer,
    OfferShare,
    SummaryRelease,
    TargetRelease,
    decode,
)
from likeset.tables.profile import ColumnWarning, documents_of, identifying_column, identifying_columns
from likeset.tables.records import DeclaredRecords, EnvelopeRecords
from likeset.tables.schema import Schema
from likeset.text import harmless, without_secrets
from likeset.trust.cards import Role

UNREADABLE = "cannot be read here"
STOPPED = "did not continue here"
WAITS = "waits: this machine must be repaired"
REFUSED = "your rules refuse it"


# Data sets.


def register(owner: Owner, name: str, source: str, *, schema: Path, by: str) -> DataSet:
    data = owner.registry.add(name, source, schema=schema)
    entry = {"source": without_secrets(data.source), "schema": data.schema.digest}
    owner.home.note("data", name, **entry, by=by)
    return data


def remove(owner: Owner, name: str, *, by: str) -> None:
    """Forget a data set that no run uses; its rows stay where they are."""
    owner.registry.get(name)
    if used := _used_by(owner, name):
        raise InvalidArgument("data set", name, f"is used by {', '.join(used[:5])}; withdraw from these runs first")
    owner.home.note("data", name, removed=True, by=by)
    owner.registry.remove(name)


def listed_data(owner: Owner) -> list[dict[str, Any]]:
    return [_listed(owner, owner.registry.get(name)) for name in owner.registry.names()]


def _listed(owner: Owner, data: DataSet) -> dict[str, Any]:
    return {
        "data": data.name,
        "source": without_secrets(data.source),
        "schema": data.schema.digest,
        "columns": _kinds(data.schema),
        "suspected_identifiers": documents_of(identifying_columns(data.schema)),
        "used_by": _used_by(owner, data.name),
    }


def _kinds(schema: Schema) -> dict[str, str]:
    declared, label = schema.declaration.columns, schema.label_column
    return {name: "label" if name == label else str(declared[name].kind) for name in schema.record_columns}


def _used_by(owner: Owner, name: str) -> list[str]:
    now = owner.now().timestamp()
    used = (run for run in owner.runs() if (run.decided, run.data) == ("approved", name) and not run.is_over)
    return [run.name for run in used if run.ends > now]


# Runs in lists.

Choice = Literal["approve", "deny", "withdraw"]

_BECAME = {
    "not pinned": "not pinned",
    "pinned": "not allowed by owner.yaml, or pinned for another role",
    "revoked": "revoked: the run has ended",
}


def inbox_run(owner: Owner, run: Run) -> dict[str, Any]:
    """A run as a list shows it; None for everything that terms say that cannot be read here.

    This judges the run, so a long list is made page by page.
    """
    terms, status = run.readable, status_of(owner, run)
    asking = () if terms is None else owner.asking(terms)
    consumers = (f"{card.state} since {card.since[:10]}" if card.since else card.state for card in asking)
    return {
        "run": run.name,
        "digest": run.digest.hex(),
        "consumer": run.consumer,
        "consumer_card": next(consumers, "no card"),  # the consumer comes first
        "purpose": None if terms is None else terms.purpose,
        "came": run.at,
        "answer_by": run.deadline.isoformat(),
        "expires": None if terms is None else terms.expires,
        "closed": owner.closed_because(run) or None,
        "rows": None if terms is None else terms.rows_per_owner,
        "readable": None if terms is None else terms.rows_readable,
        "parties": [asdict(card) for card in asking],
        "status": status,
        "reasons": list(owner.judge(terms, data=run.data).reasons) if terms and status == REFUSED else [],
    }


def status_of(owner: Owner, run: Run) -> str:
    """Where a run stands, in a word or two."""
    has_begun = run.has_begun
    if run.decided == "withdrawn":
        return f"closed: {CLOSED[Ending.WITHDRAWN]}"
    if run.decided == "denied":
        return "denied"
    has_sent = has_begun and rows_sent(out_rows(owner, run)) > 0
    if not has_sent and (closed := owner.closed_because(run)):
        return f"closed: {closed}"
    terms = run.readable
    if terms is None:
        return UNREADABLE
    faulty = [] if run.is_over else [card for card in owner.asking(terms) if card.fault]
    if faulty and not (has_begun and faulty[0].state == "pinned"):  # owner.yaml counts for what is to begin
        return f"the {faulty[0].role}'s card is {_BECAME[faulty[0].state]}"
    if run.is_stopped and not has_sent:
        return STOPPED
    if owner.mail.troubles.of(run.digest):
        return WAITS
    if has_begun:
        return "rows sent" if has_sent else "began"
    if run.decided:
        return "approved" if owner.now() < run.deadline else "approved, but nothing came by the deadline"
    return "waiting" if owner.judge(terms).accepted else REFUSED


def open_decisions(owner: Owner, run: Run) -> tuple[Choice, ...]:
    if run.is_over or (run.decided == "approved" and owner.ended_because(run)):
        return ()
    if run.has_begun or run.is_stopped or (run.acceptance and not owner.closed_because(run)):
        return ("withdraw",)
    if owner.closed_because(run):
        return ()
    choices: dict[str, tuple[Choice, ...]] = {"approved": ("withdraw",), "denied": ("approve",)}
    return choices.get(run.decided, ("approve", "deny"))


def last_word(run: Run) -> str:
    """The last decision about a run: what, by whom, how and when; empty before."""
    return "" if run.decision is None else run.decision.in_words()


def past_runs(owner: Owner, terms: Terms) -> list[dict[str, Any]]:
    past = [
        {
            "run": run.name,
            "what": run.decided or "not decided",
            "at": run.at if run.decision is None else run.decision.made,
            "rows": rows_sent(out_rows(owner, run)),
        }
        for run in owner.runs()
        if run.consumer == terms.consumer and run.digest.hex() != terms.digest
    ]
    return sorted(past, key=lambda run: str(run["at"]), reverse=True)


# Budgets.


def budget_overview(owner: Owner) -> dict[str, Any]:
    """What is spent of each budget, its limit in ``owner.yaml``, and every charge; nothing is written.

    ``delta``, at which epsilon holds over all runs, is the sum of the deltas of the limits that were in force.
    """
    policy = owner.policy
    accounts = owner.accounts(policy)
    spent = {name: sum(getattr(account, name) or 0 for account in accounts) for name in BUDGETS}
    limits = _limits_of(policy)
    return {
        **{name: {"spent": spent[name], "limit": limits[name]} for name in BUDGETS},
        "delta": sum(account.delta or 0.0 for account in accounts),
        "runs_this_month": {
            "spent": runs_this_month(owner.began(), owner.now()),
            "limit": policy.runs_per_month,
        },
        "history": owner.spent_by_run(),
    }


def _limits_of(policy: Policy) -> dict[str, float]:
    total = policy.total
    readable = total.rows if total.readable is None else total.readable
    return {"epsilon": total.epsilon, "rows": total.rows, "readable": readable}


def budgets_of_run(policy: Policy, accounts: Accounts) -> dict[str, dict[str, float | None]]:
    limits = _limits_of(policy)
    budgets: dict[str, dict[str, float | None]] = {
        name: {**getattr(accounts, name)._asdict(), "limit": limits[name]} for name in BUDGETS
    }
    if accounts.epsilon.run == math.inf:
        budgets["epsilon"]["run"] = None
    return budgets


def _budget_lines(budgets: dict[str, dict[str, float | None]], accounts: Accounts) -> Iterator[tuple[str, str]]:
    verb = "cost" if accounts.charged else "costs"
    for name, what in BUDGETS.items():
        spent, run, after, limit = (budgets[name][part] or 0 for part in ("spent", "run", "after", "limit"))
        cost = "without a bound" if budgets[name]["run"] is None else f"up to {amount(run)}"
        remaining = amount(max(0, limit - after))
        line = f"this run {verb} {cost}; {amount(spent)} of {amount(limit)} are spent, {remaining} remain after it"
        if name == "epsilon" and after == limit == 0:
            line = f"this run {verb} nothing: other owners learn nothing about your rows, and your rules allow no more"
        elif name == "epsilon":
            line += f" (at delta {accounts.delta:g})"
        yield f"Budget of {what}:", f"{line}."


# The log.

_LEFT_OUT = frozenset({"at", "charge", "fingerprint", "release", "policy", "account"})


def log_page(owner: Owner, *, before: int | None = None, count: int = 50, about: str = "") -> dict[str, Any]:
    newest = owner.ledger.head().number
    end = newest + 1 if before is None else min(before, newest + 1)
    if about:
        entries: Sequence[Entry] = owner.ledger.entries_about(about, before=end, most=count + 1)
    else:
        entries = owner.ledger.entries(first=max(1, end - count - 1), last=end - 1)[::-1]
    older = entries[count - 1].number if len(entries) > count else None
    return {"entries": [_entry_document(entry) for entry in entries[:count]], "newest": newest, "older": older}


def _entry_document(entry: Entry) -> dict[str, Any]:
    document = entry.document()
    words = {name: value for name, value in document.items() if name not in _LEFT_OUT}
    if entry.kind == "reserve":
        words["rows"] = document["charge"]["rows"]
    about = str(json.loads(entry.key)[0]) if entry.kind in ("reserve", "commit") else entry.key
    return {"entry": entry.number, "at": document["at"], "kind": entry.kind, "about": about, "words": words}


# What was sent.


def out_rows(owner: Owner, run: Run) -> list[StoredLetter]:
    return [row for row in owner.mail.letters(run) if (row.way, row.post) == ("out", "letter")]


_STATES_SHOWN = {LetterState.READY: "not posted yet", LetterState.WITHHELD: "held back"}


def is_sent(row: StoredLetter) -> bool:
    """Whether a letter was posted: others wait to be posted, or were held back."""
    return row.state not in (LetterState.READY, LetterState.WITHHELD)


def rows_sent(rows: Iterable[StoredLetter], *, held_back: bool = False) -> int:
    """The rows in letters that were sent, or held back; the parts of one offer are the same rows."""
    chosen = [row for row in rows if (row.state == LetterState.WITHHELD if held_back else is_sent(row))]
    shared = max((row.rows for row in chosen if row.kind == OfferShare.kind), default=0)
    return shared + sum(row.rows for row in chosen if row.kind != OfferShare.kind)


@dataclass(frozen=True, slots=True)
class OutLetter:
    run: str
    row: StoredLetter  # of the database
    acknowledged: bool  # whether a receipt names it
    # as it was stored when it was charged; None for a message without rows, or after a purge
    message: bytes | None = field(repr=False)

    @property
    def sent(self) -> bool:
        return is_sent(self.row)

    def document(self) -> dict[str, Any]:
        row = self.row
        return {
            "run": self.run,
            "letter": row.id,
            "at": row.at,
            "to": row.peer,
            "round": row.round,
            "kind": row.kind,
            "rows": row.rows,
            "bytes": row.bytes,
            "sha256": row.content.hex(),
            "state": _STATES_SHOWN.get(row.state, "sent"),
            "receipt": "yes" if self.acknowledged else "no",
        }


def letters_out(owner: Owner, name: str) -> list[OutLetter]:
    """All letters of this owner in a run, oldest first: sent, waiting to be posted, or held back."""
    run = owner.run(name)
    receipt, rows = owner.mail.receipt(run), out_rows(owner, run)
    stored = _stored_messages(owner, run) if rows else {}
    named = frozenset() if receipt is None else frozenset(receipt.letters)
    return [OutLetter(name, row, row.letter in named, stored.get(row.content)) for row in rows]


def _stored_messages(owner: Owner, run: Run) -> dict[bytes, bytes]:
    """The messages with rows that were stored with their charges, by digest."""
    messages: list[bytes] = []
    terms = run.readable
    for stored in owner.ledger.messages(run=run.name):
        if is_kept_offer(stored.message):
            if terms is None:
                continue
            heard = Message(terms.run, terms.digest, terms.consumer, owner.name, 1, Asked(asked=True))
            messages += [reply.data for reply in shared_replies(heard, stored.message, owner.mail.versions(run))]
        elif stored.kind.startswith(f"{owner.name}/"):
            messages.append(stored.message)
    return {hashlib.sha256(message).digest(): message for message in messages}


def runs_that_sent(owner: Owner) -> list[str]:
    return [run.name for run in owner.runs() if any(map(is_sent, out_rows(owner, run)))]


def sent_run(owner: Owner, name: str) -> dict[str, Any]:
    sent = [letter for letter in letters_out(owner, name) if letter.sent]
    acknowledged = sum(letter.acknowledged for letter in sent)
    return {
        "run": name,
        "consumer": owner.run(name).consumer,
        "first": sent[0].row.at,
        "last": sent[-1].row.at,
        "messages": len(sent),
        "rows": rows_sent(letter.row for letter in sent),
        "receipt": "yes" if acknowledged == len(sent) else "in part" if acknowledged else "no",
    }


@dataclass(frozen=True, eq=False)
class SentRows:
    table: pa.Table | None  # in declared columns, with the label; None if they cannot be shown
    count: int  # how many rows
    held_back: int = 0  # further rows that were charged and not sent


def rows_in_letters(owner: Owner, name: str) -> SentRows:
    """The rows that were sent in a run; of those that were held back only the number."""
    letters, run = letters_out(owner, name), owner.run(name)
    sent = [letter for letter in letters if letter.sent and letter.row.rows]
    count = rows_sent(letter.row for letter in sent)
    held_back = rows_sent((letter.row for letter in letters), held_back=True)
    messages = tuple(letter.message for letter in sent if letter.message is not None)
    known = run.data in owner.registry.names()  # the data set may have been removed since
    if not known or len(messages) < len(sent) or run.readable is None:
        return SentRows(None, count, held_back)
    schema = owner.registry.get(run.data).schema
    rows = rows_of(messages, schema, labelled=schema.label_column in run.terms.columns)
    return SentRows(rows.table, count, held_back)


def rows_of(messages: tuple[bytes, ...], schema: Schema, *, labelled: bool) -> SentRows:
    """The rows in messages; ``labelled`` says whether labels leave with rows in this run."""
    bodies = [decode(data).body for data in messages]
    if shared := [body for body in bodies if isinstance(body, OfferShare)]:
        packed = records_in(shared)  # the owner has everything that opens the envelopes
        read = EnvelopeRecords(schema, labelled=labelled).read(packed)
        return SentRows(_with_labels(read.table, read.labels, schema) if read.sound.all() else None, len(packed))
    offers = [body for body in bodies if isinstance(body, Offer | Delivery)]
    count = sum(len(body.rows) for body in offers)
    if not offers or any(not len(body.records) for body in offers):
        return SentRows(None, count)
    declared = DeclaredRecords(schema)
    tables = [
        _with_labels(declared.unpack(body.records.tobytes(), rows=len(body.rows)), body.labels, schema)
        for body in offers
    ]
    return SentRows(pa.concat_tables(tables), count)


def _with_labels(table: pa.Table, labels: Any, schema: Schema) -> pa.Table:
    if not len(labels):
        return table
    name = schema.label_column or "label"
    if name in table.column_names:
        name = f"{name} (label)"
    return table.append_column(name, pa.array(np.asarray(labels).tolist()))


def verify(owner: Owner, *, head: Head | None = None) -> tuple[list[Problem], list[str]]:
    """Whether the log and the stored messages are intact, and all rows that were sent were charged; and remarks.

    ``head`` is the head of the log at an earlier time, saved elsewhere.
    """
    problems = list(owner.ledger.verify(head=head).problems)
    if problems:
        return problems, []  # what does not hold says nothing about the rest
    remarks = []
    spent: Counter[str] = Counter()
    for charge in owner.spent_by_run():
        spent[charge["run"]] += charge["rows"]
    for run in owner.runs():
        rows, receipt = out_rows(owner, run), owner.mail.receipt(run)
        if rows_sent(rows) > spent[run.name]:
            problem = f"run {run.name}: {rows_sent(rows)} rows were sent, and {spent[run.name]} were charged"
            problems.append(Problem(0, problem))
        if receipt is not None:
            terms, written = run.readable, {row.letter for row in rows}
            by_other = terms is not None and receipt.card.fingerprint != terms.cards[acknowledging_party(terms)]
            if by_other or receipt.terms != run.digest or set(receipt.letters) - written:
                problem = "is not for what this home wrote, or not by the card of the terms"
                problems.append(Problem(0, f"the receipt of run {run.name} {problem}"))
        if held_back := rows_sent(rows, held_back=True):
            remarks.append(f"{held_back:,} rows of run {run.name} were charged and held back")
    return problems, remarks


def find_row(owner: Owner, name: str, handle: int) -> dict[str, Any]:
    """The row that was sent in a run under a handle: its place, what was sent of it, and its id, which was not sent."""
    run = owner.run(name)
    if not rows_sent(out_rows(owner, run)):
        raise InvalidArgument("RUN", name, "no row was sent in it")
    data, key = owner.registry.get(run.data), owner.key_in(run.terms)
    with owner.opened_data(data, run.terms) as (source, opened):
        if owner.fingerprint_of(name) != opened.fingerprint:
            reason = f"data set {data.name} changed since the run began, or the run's messages were purged"
            raise InvalidArgument("RUN", name, f"{reason}: nobody can tell which row it was")
        handles = enumerate(row_handles(key, run.terms.run, range(opened.scan.row_count)))
        number = next((number for number, named in handles if named == handle), None)
        if number is None:
            raise InvalidArgument("HANDLE", handle, f"names no row sent in run {name}; it may be another owner's")
        place = int(opened.scan.numbers_in_source(np.array([number]))[0])
        rows = opened.scan.fetch(np.array([number]))
        record = {} if rows.table is None else dict(rows.table.to_pylist()[0])
        if len(rows.labels) and data.schema.label_column is not None:
            record.setdefault(data.schema.label_column, np.asarray(rows.labels).tolist()[0])
        whose = data.schema.id_column
        return {
            "handle": str(handle),  # an identifier, not an amount
            "run": name,
            "consumer": run.terms.consumer,
            "data": data.name,
            "source": without_secrets(data.source),
            "place": source.place(place),
            "number": place,
            "id": {whose: source.fetch([place], [whose]).column(0)[0].as_py()} if whose else {},
            "record": record,
        }


# Review of a run.

_WHO: dict[Role, str] = {"consumer": "Who asks?", "curator": "Who curates?", "witness": "Who witnesses?"}


@dataclass(frozen=True, eq=False)
class Review:
    run: Run
    asking: tuple[AskingCard, ...]  # the parties it would be with, by their cards
    status: str  # where it stands
    outcome: str  # what came of it, if rows were sent or it is closed here
    lines: tuple[tuple[str, str], ...]  # (question, answer) in the order in which one would ask
    budgets: dict[str, dict[str, float | None]]  # what it spends of each
    verdict: Verdict  # of the policy
    identifying_columns: tuple[ColumnWarning, ...]  # columns that would leave and may identify people
    # that would leave: name, declared kind (empty if no data set fits), and why it may identify people
    columns: tuple[tuple[str, str, str], ...]
    past: list[dict[str, Any]]  # earlier runs of this consumer, newest first
    learned: str  # what other owners may learn
    readers: tuple[tuple[str, int, str], ...]  # role, number of this owner's rows that it may read at most, and which

    @property
    def terms(self) -> Terms:
        return self.run.terms

    def document(self) -> dict[str, Any]:
        return {
            "run": self.run.name,
            "digest": self.run.digest.hex(),
            "status": self.status,
            "parties": [asdict(card) for card in self.asking],
            "answers": dict(self.lines),
            "budgets": self.budgets,
            "accepted": self.verdict.accepted,
            "reasons": list(self.verdict.reasons),
            "suspected_identifiers": documents_of(self.identifying_columns),
            "readers": [{"role": role, "rows": rows, "words": words} for role, rows, words in self.readers],
            "history": self.past,
        }


def review(owner: Owner, name: str) -> Review:
    """The terms of a run in words; raises if they cannot be read here."""
    run, policy = owner.run(name), owner.policy
    terms = run.terms
    judged = owner.judge(terms, data=run.data)
    accounts = owner.accounts_for(terms, policy)
    budgets = budgets_of_run(policy, accounts)
    others, curator, _ = costs_of(terms, owner.name)
    fitting, asking, past = owner.registry.for_terms(terms), owner.asking(terms), past_runs(owner, terms)
    letters = letters_out(owner, name)
    learned, outcome = _learned(terms, others), _outcome(owner, run, letters)
    readers = _readers(terms, one_organisation=any(card.belongs_to == terms.consumer for card in asking))
    lines = [
        *((_WHO[card.role], f"{_short(card.name) or 'Somebody'}, {card.in_words()}.") for card in asking),
        ("Who else is asked?", f"{_others(terms, owner.name)}."),
        ("What for?", _short(terms.purpose) or "The terms state no purpose."),
        ("Answer by when?", _answer_by(owner, run)),
        ("Until when?", f"{terms.end:%Y-%m-%d %H:%M} UTC." if terms.end else "The terms have no end."),
        (
            "From which data?",
            ", ".join(data.name for data in fitting) or "None of your data sets has the schema of the terms.",
        ),
        ("Which columns?", ", ".join(_short(name) for name in terms.columns) or "The terms do not say."),
        ("How many rows at most?", _rows(terms, curator)),
        ("Who reads your rows?", _reading(terms, readers)),
        ("What may other owners learn about your rows?", learned),
        ("What is paid?", _payment(terms)),
        *_budget_lines(budgets, accounts),
        *([("What is not understood here?", _not_understood(terms))] if terms.extensions else []),
        ("What happened with this consumer before?", _history(past)),
    ]
    if outcome:
        lines.insert(0, ("What happened?", outcome))
    if troubles := owner.mail.troubles.of(run.digest):
        lines.insert(0, ("What must be repaired here?", f"{'; '.join(troubles)}. The run waits, and is tried again."))
    if run.is_stopped:
        lines.insert(0, ("Why did it not continue here?", _stopped(run, letters)))
    if acknowledged := _acknowledged(terms, letters):
        reader = "curator" if terms.split is None else "consumer"
        lines.append((f"Did the {reader} acknowledge what was sent?", acknowledged))
    if held_back := rows_sent((letter.row for letter in letters), held_back=True):
        detail = f"{held_back:,} rows, which are charged: a withdrawal or the end of the terms came first."
        lines.append(("What was held back?", detail))
    schema = fitting[0].schema if fitting else None  # they all have the schema of the terms
    identifying = _identifying_columns(terms, schema)
    return Review(
        run=run,
        asking=asking,
        status=status_of(owner, run),
        outcome=outcome,
        lines=tuple(lines),
        budgets=budgets,
        verdict=judged,
        identifying_columns=identifying,
        columns=_columns(terms, schema, identifying),
        past=past,
        learned=learned,
        readers=readers,
    )


def _answer_by(owner: Owner, run: Run) -> str:
    words = "" if run.decided else " The run may then begin without you, or there is none."
    if closed := owner.closed_because(run):
        words = f" This run is closed: {closed}."
    return f"{run.deadline.astimezone(UTC):%Y-%m-%d %H:%M} UTC.{words}"


def _outcome(owner: Owner, run: Run, letters: Sequence[OutLetter]) -> str:
    """What came of a run in which rows were sent, or that is closed here; empty if it can still be decided."""
    sent = [letter for letter in letters if letter.sent]
    if rows := rows_sent(letter.row for letter in sent):
        named = sum(letter.acknowledged for letter in sent)
        receipt = f"a receipt names {named} of {len(sent)} letters" if named else "no receipt came yet"
        return f"{rows:,} rows were sent, the last at {sent[-1].row.at[:16].replace('T', ' ')} UTC; {receipt}."
    closed = owner.closed_because(run)
    return f"Nothing was sent: {closed}." if closed else ""


def _stopped(run: Run, letters: Sequence[OutLetter]) -> str:
    rows = rows_sent(letter.row for letter in letters)
    sent = f"{rows:,} rows were sent before" if rows else "No row was sent"
    reason = run.reason + ("" if run.reason.endswith((".", "?")) else ".")
    return (
        f"{reason} {sent}. The other parties learn only that you do not take part. This run cannot be resumed: "
        "fix the cause (`likeset check`), then ask the consumer for a new run."
    )


def _acknowledged(terms: Terms, letters: Sequence[OutLetter]) -> str:
    sent = [letter for letter in letters if letter.sent and letter.row.peer == acknowledging_party(terms)]
    named = sum(letter.acknowledged for letter in sent)
    return f"{named} of {len(sent)} letters that were sent are in its receipt, which comes at the end." if sent else ""


def _readers(terms: Terms, *, one_organisation: bool) -> tuple[tuple[str, int, str], ...]:
    """All parties, those who may read most first: role, rows that it may read at most, and which.

    ``one_organisation`` says whether the curator is known to be the consumer's own.
    """
    offered, most = "every row that you offer", terms.rows_per_owner
    bought = f"those that it buys; it gets {terms.size:,} rows of all owners, some, all or none of them yours"
    shares = "random numbers and sealed envelopes, which tell nothing alone"
    nobody = ("other owners", 0, "none")
    if terms.split is not None:
        return ("consumer", terms.rows_readable, bought), ("curator", 0, shares), ("witness", 0, shares), nobody
    if one_organisation:
        return ("curator", most, offered), ("consumer", most, f"{offered}, because the curator belongs to it"), nobody
    return ("curator", most, offered), ("consumer", min(most, terms.size), bought), nobody


def _columns(
    terms: Terms, schema: Schema | None, identifying: Sequence[ColumnWarning]
) -> tuple[tuple[str, str, str], ...]:
    why = {warning.column: warning.why for warning in identifying}
    kinds = {} if schema is None else _kinds(schema)
    return tuple((name, kinds.get(name, ""), why.get(name, "")) for name in terms.columns)


def _history(past: Sequence[dict[str, Any]]) -> str:
    what = Counter(run["what"] for run in past)
    listed = ", ".join(f"{count:,} {outcome}" for outcome, count in what.items())
    return f"Other runs: {listed or 'none'}; {sum(run['rows'] for run in past):,} rows sent."


def _identifying_columns(terms: Terms, schema: Schema | None) -> tuple[ColumnWarning, ...]:
    """Columns that would leave and may identify people; by their names alone if no data set fits."""
    if schema is None:
        warnings: Iterable[ColumnWarning | None] = map(identifying_column, terms.columns)
    else:
        warnings = identifying_columns(schema)
    return tuple(warning for warning in warnings if warning is not None and warning.column in terms.columns)


def _short(text: str) -> str:
    """A stranger's words, short and without characters that could steer a screen."""
    return harmless(text, most=MOST_SHOWN)


def _not_understood(terms: Terms) -> str:
    words = "; ".join(f"{name}: {_short(text)}" for name, text in terms.extensions.items())
    # Words of this program come first: a stranger's could pass for what follows them.
    return (
        f"Neither prices nor the rows that leave depend on what the consumer adds, and nothing here checks it: {words}"
    )


def _others(terms: Terms, name: str) -> str:
    others = [owner for owner in terms.owners if owner != name]
    if not others:
        return "no other owner"
    shown = ", ".join(map(_short, others[:5])) + (f" and {len(others) - 5} more" if len(others) > 5 else "")
    return f"{len(others)} other owner{'s' if len(others) > 1 else ''} ({shown})"


def _rows(terms: Terms, curator: PlannedView) -> str:
    if terms.split is not None:
        return (
            f"{curator.rows:,} of your rows are offered, as shares: each is cut into 3 parts, one for each "
            "party that computes. How many of them you have is hidden: empty ones fill the rest."
        )
    when = "in one message" if terms.protocol == "sealed" else f"one by one, in up to {terms.size} rounds"
    unless = "" if terms.auction == "everyone" else "; perhaps none, for not everyone is asked"
    return f"{curator.rows:,} of your rows leave, {when}{unless}."


def _reading(terms: Terms, readers: Sequence[tuple[str, int, str]]) -> str:
    parties = "; ".join(
        f"{role}: at most {rows:,} in the clear, with all columns above ({words})" if rows else f"{role}: {words}"
        for role, rows, words in readers
    )
    if terms.split is None:
        return f"{parties}. Under terms with a split curator, nobody but the consumer would read a row."
    return (
        f"{parties}. This holds if all parties follow the protocol and no two of curator, consumer and witness work "
        "together: two of them together could read all that you offer. One of them that deviates from the protocol "
        "can steer which rows are bought, and nobody notices. Nobody can see whether one organisation stands behind "
        "two cards: ask who they are."
    )


def _learned(terms: Terms, others: PlannedView) -> str:
    if others.event == NoRelease():
        return "Nothing in this run, by the protocol: whatever another owner hears in it does not depend on your rows."
    cost = others.guarantee
    if others.guess is None:
        return f"Nobody can say: there is no proof ({cost.note})."
    bound = {"epsilon": cost.epsilon, "delta": cost.delta, "relation": cost.relation, "unit": unit_of(terms)}
    guess = bound_in_words(others.guess, **bound)  # type: ignore[arg-type]
    when = " This counts what they hear, not when: by the clock an owner may see whether others were asked for rows."
    return f"Little: by what they hear in this run, {guess}.{'' if terms.auction == 'everyone' else when}"


def unit_of(terms: Terms) -> str:
    most = terms.rows_per_unit
    return "one of your rows" if terms.unit == ROW else f"one id of yours (up to {most} row{'s'[: most - 1]})"


def _payment(terms: Terms) -> str:
    if not terms.price_per_row:
        return "Nothing."
    most = terms.price_per_row * terms.rows_per_owner
    unit = f" {terms.currency}" if terms.currency else ""
    return f"{terms.price_per_row:g}{unit} for each row that leaves, so at most {most:g}{unit}."


# Dry runs.

Basis = Literal["the release that was heard", "no release is needed", "an example"]


@dataclass(frozen=True, eq=False)
class Rehearsal:
    basis: Basis  # the release it rests on; unless that is an example, exactly these rows leave
    rows: SentRows  # that would leave
    row_count: int  # rows in the data set
    withheld: int  # rows that are never offered, because of small groups
    too_long: int  # rows with a cell that is longer than the schema declares: no rows of any run
    sent: bool  # these rows were sent already, in this run and from this data set

    @property
    def exact(self) -> bool:
        return self.basis != "an example"

    @property
    def words(self) -> str:
        if not self.exact:
            return "These rows are an example of what would leave"
        return "Exactly these rows were sent" if self.sent else "Exactly these rows would leave"


def rehearse(owner: Owner, terms: Terms, *, data: str = "") -> Rehearsal:
    """Do what a run would do; nothing leaves, and nothing is charged."""
    run = owner.mail.run(bytes.fromhex(terms.digest))
    data_set = owner.data_for(terms, data=data or ("" if run is None else run.data))
    basis, values, used = _release(owner, run, terms)
    if terms.auction != "everyone" or terms.summary_release != "none":
        basis = "an example"  # other owners' rows have a part in which of these leave
    with owner.opened_data(data_set, terms) as (_, opened):
        party = owner.party(used, data_set, opened)
        replies = [reply for call in _calls(used, values) for reply in _replies(party, call)]
        leaving = tuple(reply.data for reply in replies if rows_in([reply]))
        return Rehearsal(
            basis=basis,
            rows=rows_of(leaving, data_set.schema, labelled=data_set.schema.label_column in terms.columns),
            row_count=opened.row_count,
            withheld=opened.withheld,
            too_long=opened.too_long,
            sent=run is not None
            and opened.fingerprint == owner.fingerprint_of(run.name)
            and rows_sent(out_rows(owner, run)) > 0,
        )


def _release(owner: Owner, run: Run | None, terms: Terms) -> tuple[Basis, NDArray[np.float64], Terms]:
    if terms.offers == "uniform":
        return "no release is needed", np.empty(0), terms
    for row in [] if run is None else owner.mail.letters(run):
        if run is not None and row.is_heard(TargetRelease.kind):
            message = owner.mail.message_of(run, row)
            if message is not None and isinstance(message.body, TargetRelease):
                return "the release that was heard", message.body.release, terms
    if terms.protocol == "sealed":
        # The same run with uniform offers: the same key, and all rows weigh the same.
        return "an example", np.empty(0), replace(terms, offers="uniform")
    return "an example", np.zeros(terms.kernel.dimension), terms


def _calls(terms: Terms, release: NDArray[np.float64]) -> Iterator[tuple[int, Body]]:
    """What an owner hears if all rows are asked for that may be, and nothing is released about the summary."""
    yield RELEASE_ROUND[terms.protocol], TargetRelease(release=release)
    if terms.protocol == "sealed":
        if terms.auction != "everyone":
            yield 2, Asked(asked=True)
        return
    for number in range(1, terms.size + 1):
        yield number, SummaryRelease(coordinates=np.empty(0, dtype=np.int64), values=np.empty(0))
        yield number, Asked(asked=True)


def _replies(party: OwnerParty, call: tuple[int, Body]) -> tuple[Message, ...]:
    number, body = call
    sender = party.terms.consumer if isinstance(body, TargetRelease) else CURATOR
    message = Message(party.terms.run, party.terms.digest, sender, party.name, number, body)
    return party.receive(message).complete(lambda wanted: wanted.draw()[0])


def export(mail: Mail, name: str, folder: Path) -> list[Path]:
    """Write the signed terms, acceptances and receipts of a run into a new directory."""
    runs = mail.runs(name=name)
    if not runs:
        raise InvalidArgument("RUN", name, "is not known in this home")
    make_home_folder(folder)
    files: dict[str, bytes] = {}
    for run in runs:
        version = run.digest.hex()[:12]
        files[f"{version}.terms"] = run.signed
        if run.acceptance:
            files[f"{version}-{_file_name(run.party)}.acceptance"] = run.acceptance
        for row in mail.letters(run):
            data = mail.data_of(row) if (row.way, row.state) == ("in", LetterState.HEARD) else None
            if data is not None and row.post == "acceptance":
                files[f"{version}-{_file_name(row.peer)}.acceptance"] = data
            elif data is not None and row.kind == RECEIPT:
                files[f"{version}-{_file_name(row.peer)}.receipt"] = data
    for file, data in files.items():
        keep_private_bytes(folder / file, data)
    return [folder / file for file in files]


def _file_name(party: str) -> str:
    plain = quote(party, safe="@")
    return plain if len(plain) <= 150 else hashlib.sha256(party.encode()).hexdigest()
