"""Pages of runs: the inbox, one run with everything about it, and the decision with its second look."""

from pathlib import Path
from typing import Any, get_args

from starlette.responses import Response

from likeset.app.console import drawings
from likeset.app.console.paging import Pages
from likeset.app.console.rendering import link
from likeset.app.console.visits import Visit, see_other
from likeset.errors import IllegalMessage, InvalidArgument
from likeset.homes.home import checked_addresses
from likeset.homes.mail import Invitation
from likeset.homes.owner_node import OwnerNode, RunRecord
from likeset.homes.review import (
    Choice,
    LeftRows,
    Rehearsal,
    Review,
    inbox_records,
    inbox_run,
    open_decisions,
    other_trust,
    read_release,
    rehearse,
    review,
    status_of,
    steps_left,
    unit_of,
)
from likeset.transports.mailbox.owner_desk import owner_desk
from likeset.transports.mailbox.serving import desks_at, look_once

__all__ = ["add", "decide", "inbox", "mail", "run", "trial"]

_NUMPY = b"\x93NUMPY"
_EXAMPLES = 5
_MOST_REASON = 1000
_DONE: dict[Choice, str] = {"approve": "approved", "deny": "denied", "withdraw": "withdrawn"}


def inbox(visit: Visit) -> Response:
    """What waits for a decision, and until when; with ``every``, all that came."""
    node: OwnerNode = visit.desk.node
    every = visit.query.get("show") == "all"
    records = inbox_records(node, every=every)
    pages = Pages.of(len(records), visit.number("page", 1))
    newest = list(reversed(records)) if every else records
    runs = [inbox_run(node, record) for record in pages.part(newest)]
    words: dict[str, Any] = {"steps": steps_left(node), "mailboxes": len(node.policy.mailboxes)}
    return _rendered(visit, "inbox.html", runs=runs, every=every, pages=pages, **words)


def add(visit: Visit) -> Response:
    """Put a signed invitation that came by another way into the inbox."""
    node: OwnerNode = visit.desk.node
    data = visit.form.files.get("invitation")
    if data is None:
        raise InvalidArgument("invitation", "nothing", "no file was chosen")
    invitation = Invitation.read(data)
    new = node.add_invitation(invitation)
    name = invitation.terms.run
    return see_other(visit, link("/run", name=name), f"Run {name} {'is in the inbox' if new else 'was known already'}.")


def run(visit: Visit) -> Response:
    """Everything about a run."""
    return _run_page(visit, visit.desk.node.record_of(visit.query.get("name", "")))


def trial(visit: Visit) -> Response:
    """The same, with rows as they would leave: computed here, nothing is sent or charged."""
    node: OwnerNode = visit.desk.node
    record = node.record_of(visit.form.text("run"))
    terms, content = record.latest, visit.form.files.get("release")
    ending = ".npy" if content is not None and content.startswith(_NUMPY) else ".txt"
    with visit.desk.kept_files(ending, release=content) as paths:
        release = read_release(paths["release"], terms) if paths else None
    rehearsed = rehearse(node, terms, release=release, data=visit.form.text("data"))
    words: dict[str, str] = {"digest": terms.digest, "by": visit.by, "basis": rehearsed.basis}
    node.note("rehearsed", record.run, **words)
    return _run_page(visit, record, rehearsed=rehearsed)


def mail(visit: Visit) -> Response:
    """Look into the mailboxes of the rules once: take what came, send what is due."""
    node: OwnerNode = visit.desk.node
    addresses = checked_addresses(node.policy.mailboxes)
    if not addresses:
        raise InvalidArgument("mailboxes", "none", "the rules name no mailbox; add one there")
    with desks_at(addresses, lambda store: owner_desk(Path(node.home.folder), store)) as desks:
        look, troubles = look_once(desks)
    words = [f"Looked into the mailboxes: {look.words}.", *look.notes, *(f"Trouble: {trouble}" for trouble in troubles)]
    visit.session.notices.extend(words)
    return see_other(visit, "/")


def decide(visit: Visit) -> Response:
    """A decision: shown once more before it is made, and made only if nobody else decided meanwhile."""
    node: OwnerNode = visit.desk.node
    record = node.record_of(visit.form.text("run"))
    choice = _choice(visit)
    by, reason = visit.by, visit.form.text("reason", most=_MOST_REASON)
    digest, seen = visit.form.text("digest"), visit.form.text("seen")
    if choice == "deny" and not reason:
        raise InvalidArgument("reason", "nothing", "say why; it stays in this house")
    if visit.form.text("sure") != "yes":
        return _second_look(visit, record, choice, by=by, reason=reason)
    if choice == "approve":
        verdict = node.approve(record.run, digest, by=by, data=visit.form.text("data"), seen=seen)
        if not verdict.accepted:
            return _rendered(visit, "refused.html", status=409, run=record.run, reasons=verdict.reasons)
    elif choice == "deny":
        node.deny(record.run, by=by, reason=reason, seen=seen)
    else:
        node.withdraw(record.run, by=by, seen=seen)
    return see_other(visit, link("/run", name=record.run), f"Run {record.run} is {_DONE[choice]}, by {by}.")


def _choice(visit: Visit) -> Choice:
    for choice in get_args(Choice):
        if visit.form.text("choice") == choice:
            known: Choice = choice
            return known
    raise InvalidArgument("choice", "another one", "must be approve, deny or withdraw")


def _second_look(visit: Visit, record: RunRecord, choice: Choice, *, by: str, reason: str) -> Response:
    """What is about to happen, in a few words; that somebody looked is in the log before they approve."""
    node: OwnerNode = visit.desk.node
    looked = _looked(node, record)
    if looked is not None and choice == "approve":
        node.note("reviewed", record.run, digest=looked.terms.digest, by=by)
    kept = {name: visit.form.text(name) for name in ("digest", "seen", "data")}
    if kept["digest"] != record.latest_digest:
        raise InvalidArgument("terms", kept["digest"][:12], "other terms came meanwhile; look at the run again")
    words: dict[str, Any] = {"choice": choice, "by": by, "reason": reason, "kept": kept, "review": looked}
    return _rendered(visit, "second_look.html", record=record, **words)


def _run_page(visit: Visit, record: RunRecord, *, rehearsed: Rehearsal | None = None) -> Response:
    node: OwnerNode = visit.desk.node
    looked = _looked(node, record)
    fitting = [] if looked is None else [data.name for data in node.registry.for_terms(looked.terms)]
    choices = open_decisions(node, record)
    words: dict[str, Any] = {
        "record": record,
        "review": looked,
        "standing": status_of(node, record.run) if looked is None else looked.status,
        "choices": [choice for choice in choices if looked is not None or choice != "approve"],
        "fitting": fitting,
        "other": ("", "") if looked is None else other_trust(looked.terms),
        "examples": {} if rehearsed is None else _examples(rehearsed.rows),
        "rehearsed": rehearsed,
        "bars": [] if looked is None else drawings.budget_bars(looked.accounts, node.policy.total),
        "learned": None if looked is None else drawings.learned(looked.others, unit=unit_of(looked.terms)),
    }
    return _rendered(visit, "run.html", **words)


def _looked(node: OwnerNode, record: RunRecord) -> Review | None:
    """The review; None where the terms cannot be read here."""
    try:
        return review(node, record.run)
    except IllegalMessage:
        return None


def _examples(rows: LeftRows) -> dict[str, list[str]]:
    """Values of a few rows, by column."""
    if rows.table is None:
        return {}
    few = rows.table.slice(0, _EXAMPLES)
    return {
        name: ["" if value is None else str(value) for value in few.column(name).to_pylist()]
        for name in few.column_names
    }


def _rendered(visit: Visit, template: str, **words: Any) -> Response:
    answer: Response = visit.desk.render(visit, template, **words)
    return answer
