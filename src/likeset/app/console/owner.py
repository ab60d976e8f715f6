"""The steward's console: inbox, runs, decisions, budgets, data sets, what left, log, rules and cards."""

import contextlib
import io
import json
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast, get_args

from starlette.responses import Response

from likeset import documents
from likeset.app.console import drawings
from likeset.app.console.server import (
    FOLDER,
    UPLOAD,
    Listen,
    Pages,
    RunningConsole,
    Site,
    Visit,
    download,
    link,
    serving,
)
from likeset.errors import BadDocument, HomeRestored, IllegalMessage, InvalidArgument, LikesetError
from likeset.files import PRIVATE_FOLDER
from likeset.homes import owner_node
from likeset.homes import review as reviews
from likeset.homes.home import checked_addresses
from likeset.homes.mail import Invitation
from likeset.homes.owner_node import OwnerNode, RunRecord, accounts_for
from likeset.homes.pinning import check_not_own, pins_to_change
from likeset.homes.policy import Policy, policy_text
from likeset.homes.review import Choice, DataLook, Rehearsal, Review
from likeset.ledger.ledger import Head
from likeset.transports.desks import owner_desk
from likeset.transports.sync import desks_at, look_once
from likeset.trust.cards import Role, card_in

_MENU = (
    ("/", "Inbox"),
    ("/budgets", "Budgets"),
    ("/data", "Data sets"),
    ("/left", "What left"),
    ("/log", "Log"),
    ("/rules", "Rules"),
    ("/cards", "Cards"),
    ("/check", "Check"),
)
_EXAMPLES = 5
_ROWS_SHOWN = 50
_MOST_TEXT = 200_000
_DONE: dict[Choice, str] = {"approve": "approved", "deny": "denied", "withdraw": "withdrawn"}
_LISTS = ("consumers", "purposes", "columns", "curators", "witnesses", "mailboxes", "accept_unproven")
_NUMBERS = ("smallest_group", "runs_per_month", "price_at_least")
_LIMITS = ("epsilon", "delta", "rows", "readable")


@contextmanager
def owner_console(folder: Path, listen: Listen) -> Iterator[RunningConsole]:
    """The console of an owner's home until the block ends."""
    with contextlib.closing(OwnerNode(folder)) as node, serving(owner_site(node), listen) as running:
        yield running


def owner_site(node: OwnerNode) -> Site:
    def stopped() -> str:
        try:
            node.check_running()
        except HomeRestored as error:
            return str(error)
        return ""

    def bound(pages: Mapping[str, Callable[[OwnerNode, Visit], Response]]) -> dict[str, Callable[[Visit], Response]]:
        return {path: partial(page, node) for path, page in pages.items()}

    return Site(Path(node.home.folder), node.name, _MENU, bound(PAGES), bound(ACTIONS), stopped)


@contextmanager
def _uploaded(node: OwnerNode, ending: str = ".yaml", /, **files: bytes | None) -> Iterator[dict[str, Path]]:
    """Write uploaded files under names of our own while the block runs; errors name them without the folder."""
    place = node.home.folder / FOLDER
    place.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=UPLOAD, dir=place))
    try:
        paths = {name: folder / f"{name}{ending}" for name, content in files.items() if content is not None}
        for name, path in paths.items():
            path.write_bytes(files[name] or b"")
        yield paths
    except LikesetError as error:
        raise InvalidArgument("file", "that you chose", str(error).replace(f"{folder}/", "")) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# ---- runs


def inbox(node: OwnerNode, visit: Visit) -> Response:
    every = visit.query.get("show") == "all"
    records = reviews.inbox_records(node, every=every)
    pages = Pages.of(len(records), visit.number("page", 1))
    runs = [reviews.inbox_run(node, record) for record in pages.part(list(reversed(records)) if every else records)]
    words: dict[str, Any] = {"steps": reviews.steps_left(node), "mailboxes": len(node.policy.mailboxes)}
    return visit.render("inbox.html", runs=runs, every=every, pages=pages, **words)


def add_invitation(node: OwnerNode, visit: Visit) -> Response:
    invitation = Invitation.read(visit.file("invitation"))
    is_new = node.add_invitation(invitation)
    run = invitation.terms.run
    return visit.redirect(link("/run", name=run), f"Run {run} {'is in the inbox' if is_new else 'was known already'}.")


def look_into_mailboxes(node: OwnerNode, visit: Visit) -> Response:
    addresses = checked_addresses(node.policy.mailboxes)
    if not addresses:
        raise InvalidArgument("mailboxes", "none", "the rules name no mailbox; add one there")
    with desks_at(addresses, lambda store: owner_desk(Path(node.home.folder), store)) as desks:
        look, troubles = look_once(desks)
    told = f"Looked into the mailboxes: {look.words}."
    return visit.redirect("/", told, *look.notes, *(f"Trouble: {trouble}" for trouble in troubles))


def show_run(node: OwnerNode, visit: Visit) -> Response:
    return _run_page(node, visit, node.record_of(visit.query.get("name", "")))


def try_run(node: OwnerNode, visit: Visit) -> Response:
    """Show rows as they would leave; nothing is sent or charged."""
    record = node.record_of(visit.text("run"))
    terms, content, by = record.latest, visit.files.get("release"), visit.by
    ending = ".npy" if content is not None and content.startswith(b"\x93NUMPY") else ".txt"
    with _uploaded(node, ending, release=content) as paths:
        release = reviews.read_release(paths["release"], terms) if paths else None
    rehearsed = reviews.rehearse(node, terms, release=release, data=visit.text("data"))
    words: dict[str, str] = {"digest": terms.digest, "by": by, "basis": rehearsed.basis}
    node.note("rehearsed", record.run, **words)
    return _run_page(node, visit, record, rehearsed=rehearsed)


def decide(node: OwnerNode, visit: Visit) -> Response:
    """Show a decision once more, then make it unless somebody else decided meanwhile."""
    record = node.record_of(visit.text("run"))
    choice, by, reason = _choice(visit), visit.by, visit.text("reason")
    digest, seen = visit.text("digest"), visit.text("seen")
    if choice == "deny" and not reason:
        raise InvalidArgument("reason", "nothing", "say why; it stays in this house")
    if visit.text("sure") != "yes":
        return _second_look(node, visit, record, choice, by=by, reason=reason)
    if choice == "approve":
        verdict = node.approve(record.run, digest, by=by, data=visit.text("data"), seen=seen)
        if not verdict.accepted:
            return visit.render("refused.html", status=409, run=record.run, reasons=verdict.reasons)
    elif choice == "deny":
        node.deny(record.run, by=by, reason=reason, seen=seen)
    else:
        node.withdraw(record.run, by=by, seen=seen)
    return visit.redirect(link("/run", name=record.run), f"Run {record.run} is {_DONE[choice]}, by {by}.")


def _choice(visit: Visit) -> Choice:
    if visit.text("choice") not in get_args(Choice):
        raise InvalidArgument("choice", "another one", "must be approve, deny or withdraw")
    return cast("Choice", visit.text("choice"))


def _second_look(node: OwnerNode, visit: Visit, record: RunRecord, choice: Choice, *, by: str, reason: str) -> Response:
    reviewed = _review(node, record)
    if reviewed is not None and choice == "approve":
        node.note("reviewed", record.run, digest=reviewed.terms.digest, by=by)
    sent = {name: visit.text(name) for name in ("digest", "seen", "data")}
    if sent["digest"] != record.latest_digest:
        raise InvalidArgument("terms", sent["digest"][:12], "other terms came meanwhile; look at the run again")
    words: dict[str, Any] = {"choice": choice, "by": by, "reason": reason, "sent": sent, "review": reviewed}
    return visit.render("second_look.html", record=record, **words)


def _run_page(node: OwnerNode, visit: Visit, record: RunRecord, *, rehearsed: Rehearsal | None = None) -> Response:
    reviewed = _review(node, record)
    choices = reviews.open_decisions(node, record)
    words: dict[str, Any] = {"record": record, "review": reviewed, "rehearsed": rehearsed, "fitting": []}
    if reviewed is None:
        words |= {"state": reviews.status_of(node, record.run), "choices": [one for one in choices if one != "approve"]}
        return visit.render("run.html", **words)
    words |= {
        "state": reviewed.status,
        "choices": choices,
        "fitting": [data.name for data in node.registry.for_terms(reviewed.terms)],
        "other": reviews.other_trust(reviewed.terms),
        "examples": {} if rehearsed is None else _examples(rehearsed),
        "bars": drawings.budget_bars(reviewed.accounts, node.policy.total),
        "learned": drawings.learned(reviewed.others, unit=reviews.unit_of(reviewed.terms)),
    }
    return visit.render("run.html", **words)


def _review(node: OwnerNode, record: RunRecord) -> Review | None:
    try:
        return reviews.review(node, record.run)
    except IllegalMessage:
        return None


def _examples(rehearsed: Rehearsal) -> dict[str, list[str]]:
    if rehearsed.rows.table is None:
        return {}
    few = rehearsed.rows.table.slice(0, _EXAMPLES).to_pydict()
    return {name: ["" if value is None else str(value) for value in values] for name, values in few.items()}


# ---- records


def budgets(node: OwnerNode, visit: Visit) -> Response:
    overview = reviews.budget_overview(node)
    history = list(reversed(overview.history))
    pages = Pages.of(len(history), visit.number("page", 1))
    curves = {
        overview.epsilon: [(point.at, point.epsilon) for point in overview.course],
        overview.rows: [(point.at, float(point.rows)) for point in overview.course],
        overview.readable: [(point.at, float(point.readable)) for point in overview.course],
    }
    if (curves[overview.readable], overview.readable.limit) == (curves[overview.rows], overview.rows.limit):
        del curves[overview.readable]  # so far every curator read all rows
    charts = [drawings.over_time(line.what, course, line.limit) for line, course in curves.items()]
    words: dict[str, Any] = {
        "bars": [drawings.budget_bar(line.what, line.spent, line.spent, line.limit) for line in overview.lines],
        "charts": [chart for chart in charts if chart is not None],
    }
    return visit.render("budgets.html", overview=overview, history=pages.part(history), pages=pages, **words)


def left(node: OwnerNode, visit: Visit) -> Response:
    """What left, by run; of one run its messages and rows."""
    run = visit.query.get("run", "")
    if run:
        node.record_of(run)
        rows = reviews.rows_that_left(node, run)
        shown = [] if rows.table is None else rows.table.slice(0, _ROWS_SHOWN).to_pylist()
        messages = reviews.messages_with_receipts(node, run)
        return visit.render("left_run.html", run=run, messages=messages, rows=rows, shown=shown)
    records = list(reversed(reviews.left_records(node)))
    pages = Pages.of(len(records), visit.number("page", 1))
    return visit.render(
        "left.html", runs=[reviews.left_run(node, record) for record in pages.part(records)], pages=pages
    )


def literal_bytes(node: OwnerNode, visit: Visit) -> Response:
    run = node.record_of(visit.query.get("run", "")).run
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for message in reviews.messages_that_left(node, run):
            archive.writestr(zipfile.ZipInfo(message.file_name), message.data)
    return download(packed.getvalue(), f"{run}.zip", kind="application/zip")


def row_by_handle(node: OwnerNode, visit: Visit) -> Response:
    handle = reviews.handle_in(visit.text("handle", most=40))
    return visit.render("left_row.html", found=reviews.find_row(node, handle, run=visit.text("run", most=200) or None))


def log(node: OwnerNode, visit: Visit, **words: Any) -> Response:
    about, before = visit.query.get("about", "").strip(), visit.number("before", 0)
    page = reviews.log_page(node, before=before or None, run=about)
    words = {"checked": False, "problems": [], "remarks": [], **words}
    return visit.render("log.html", page=page, about=about, head=str(node.ledger.head()), **words)


def verify_log(node: OwnerNode, visit: Visit) -> Response:
    """Check the chain, what left and the receipts, and the head that the steward saved elsewhere."""
    head = visit.text("head", most=100)
    problems, notes = reviews.verify(node, head=Head.parse(head) if head else None)
    return log(node, visit, checked=True, problems=[str(problem) for problem in problems], remarks=notes)


# ---- rules


def rules(node: OwnerNode, visit: Visit, **words: Any) -> Response:
    written = owner_node.written_policy(node)
    shown: dict[str, Any] = {
        "policy": written.policy,
        "text": written.text,
        "mark": written.mark,
        "wrong": "",
        "filled": {},
    }
    return visit.render("rules.html", **(shown | words))


def put_rules(node: OwnerNode, visit: Visit) -> Response:
    """Check the form or the text, show what would change, and put it in force when the steward confirms."""
    by, seen, is_form = visit.by, visit.text("seen"), visit.text("how") == "form"
    text = "" if is_form else visit.text("text", most=_MOST_TEXT) + "\n"
    try:
        if is_form:
            text = policy_text(_policy(visit, owner_node.written_policy(node).policy))
        draft = owner_node.draft_of(node, text)
    except BadDocument as error:
        words: dict[str, Any] = {"mark": seen, "filled": visit.fields} if is_form else {"mark": seen, "text": text}
        return rules(node, visit, wrong=str(error), status=400, **words)
    if visit.text("sure") != "yes":
        return visit.render("rules_look.html", draft=draft, seen=seen, by=by)
    owner_node.put(node, text, by=by, seen=seen)
    return visit.redirect("/rules", f"The rules are in force, as {by} wrote them.")


def _policy(visit: Visit, before: Policy) -> Policy:
    """The policy that the form describes; the policy itself checks the values."""
    content: dict[str, Any] = before.model_dump(mode="json")
    for name in _LISTS:
        if name in visit.fields:
            content[name] = [line.strip() for line in visit.fields[name].splitlines() if line.strip()]
    for name in _NUMBERS:
        if name in visit.fields:
            content[name] = _number(visit.text(name, most=40))
    for part in ("per_run", "total"):
        for name in _LIMITS:
            if f"{part}.{name}" in visit.fields:
                words = visit.text(f"{part}.{name}", most=40)
                content[part][name] = None if name == "readable" and not words else _number(words)
    content["manual_approval"] = visit.text("manual_approval") == "yes"
    return documents.read_text(json.dumps(content), Policy, name="the form")


def _number(text: str) -> Any:
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def try_rules(node: OwnerNode, visit: Visit) -> Response:
    """Whether the rules would allow an invitation, and what it would cost; nothing is written."""
    terms = Invitation.read(visit.file("invitation")).terms
    words: dict[str, Any] = {"terms": terms, "verdict": node.judge(terms), "bars": [], "lines": []}
    if node.name in terms.owners:
        accounts = accounts_for(node.ledger, terms, node.policy)
        words["bars"] = drawings.budget_bars(accounts, node.policy.total)
        words["lines"] = reviews.budget_lines(node.policy, accounts)
    return visit.render("rules_try.html", **words)


# ---- data sets


def data(node: OwnerNode, visit: Visit, looked: DataLook | None = None) -> Response:
    policy = node.policy
    words: dict[str, Any] = {"allowed": policy.columns, "smallest": policy.smallest_group, "looked": looked}
    return visit.render("data.html", listed=reviews.listed_data(node), **words)


def add_data(node: OwnerNode, visit: Visit) -> Response:
    """Register a data set: schema and mapping are uploaded, rows stay where they are."""
    by, name, source = visit.by, visit.text("name", most=128), visit.text("source", most=4000)
    if not name or not source:
        raise InvalidArgument("data set", name or "without a name", "needs a name and a source")
    with _uploaded(node, schema=visit.file("schema"), mapping=visit.files.get("mapping")) as paths:
        reviews.register(node, name, source, schema=paths["schema"], mapping=paths.get("mapping"), by=by)
    return visit.redirect("/data", f"Data set {name} was added, by {by}.")


def check_data(node: OwnerNode, visit: Visit) -> Response:
    return data(node, visit, reviews.look_at_data(node, visit.text("name", most=128)))


def remove_data(node: OwnerNode, visit: Visit) -> Response:
    name, by = visit.text("name", most=128), visit.by
    node.registry.get(name)
    if visit.text("sure") != "yes":
        return visit.render("data_look.html", name=name, by=by)
    reviews.remove(node, name, by=by)
    return visit.redirect("/data", f"Data set {name} was removed, by {by}; its rows stay where they are.")


def check(_: OwnerNode, visit: Visit) -> Response:
    return visit.render("check.html", findings=None)


def check_all(node: OwnerNode, visit: Visit) -> Response:
    """Check rules, files, cards, every row of every data set, disk and clock."""
    return visit.render("check.html", findings=reviews.checkup(node))


# ---- cards


def cards(node: OwnerNode, visit: Visit) -> Response:
    home = node.home
    return visit.render("cards.html", own=home.card(), pins=home.pins().all(), roles=get_args(Role))


def own_card(node: OwnerNode, _: Visit) -> Response:
    card = node.home.card()
    return download(card.to_text().encode(), f"{card.name}.card", kind="text/plain; charset=utf-8")


def compare_card(node: OwnerNode, visit: Visit) -> Response:
    """Show an uploaded card, so that a person compares its fingerprint by telephone."""
    try:
        text = visit.file("card").decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArgument("card", "the file", "is no card") from error
    card, role, by = card_in("the file that you chose", text), _role(visit), visit.by
    check_not_own(node.home, card)
    pinned = node.home.pins().get(card.name)
    replaced = pinned if pinned is not None and pinned.card != card else None
    if replaced is None:
        node.home.pins().check_pin(card, role)
    role = role if replaced is None else replaced.role
    return visit.render("card_look.html", card=card, role=role, replaced=replaced, by=by)


def pin_card(node: OwnerNode, visit: Visit) -> Response:
    card = card_in("the card", visit.text("card", most=_MOST_TEXT))
    role, by, heard = _role(visit), visit.by, visit.text("fingerprint", most=100)
    check_not_own(node.home, card)
    if not heard:
        raise InvalidArgument("fingerprint", "nothing", "type what the party read out by telephone")
    with pins_to_change(node.home, by=by, node=node) as pins:
        if visit.text("replaces") == "yes":
            pins.replace(card, fingerprint=heard)
        else:
            pins.pin(card, role, fingerprint=heard)
    return visit.redirect("/cards", f"The card of {card.name} is pinned, by {by}.")


def revoke_card(node: OwnerNode, visit: Visit) -> Response:
    fingerprint, by, reason = visit.text("fingerprint", most=100), visit.by, visit.text("reason", most=500)
    pin = node.home.pins().by_fingerprint(fingerprint)
    if pin is None:
        raise InvalidArgument("card", fingerprint, "was never pinned here")
    if not reason:
        raise InvalidArgument("reason", "nothing", "say why, for those who look later")
    if visit.text("sure") != "yes":
        return visit.render("revoke_look.html", pin=pin, reason=reason, by=by)
    with pins_to_change(node.home, by=by, node=node) as pins:
        pins.revoke(fingerprint, reason)
    return visit.redirect("/cards", f"The card of {pin.card.name} never counts again, by {by}.")


def _role(visit: Visit) -> Role:
    if visit.text("role") not in get_args(Role):
        raise InvalidArgument("role", "another one", f"must be one of {', '.join(get_args(Role))}")
    return cast("Role", visit.text("role"))


PAGES: dict[str, Callable[[OwnerNode, Visit], Response]] = {
    "/": inbox,
    "/run": show_run,
    "/budgets": budgets,
    "/left": left,
    "/left/bytes": literal_bytes,
    "/log": log,
    "/data": data,
    "/rules": rules,
    "/cards": cards,
    "/cards/own": own_card,
    "/check": check,
}
ACTIONS: dict[str, Callable[[OwnerNode, Visit], Response]] = {
    "/add": add_invitation,
    "/mail": look_into_mailboxes,
    "/trial": try_run,
    "/decide": decide,
    "/left/row": row_by_handle,
    "/log": verify_log,
    "/data/add": add_data,
    "/data/look": check_data,
    "/data/remove": remove_data,
    "/rules": put_rules,
    "/rules/try": try_rules,
    "/cards/compare": compare_card,
    "/cards/pin": pin_card,
    "/cards/revoke": revoke_card,
    "/check": check_all,
}
