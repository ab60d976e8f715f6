"""The steward's console: inbox, runs, decisions, budgets, data sets, what was sent, log, rules and cards."""

import json
from collections.abc import Callable
from typing import Any, cast, get_args

from starlette.responses import Response

from likeset.app.console.server import PageRequest, Pages, link
from likeset.errors import BadDocument, InvalidArgument
from likeset.homes import checkup
from likeset.homes import owner as owners
from likeset.homes import review as reviews
from likeset.homes.checkup import DataCheck
from likeset.homes.owner import Owner
from likeset.homes.policy import BUDGETS, Verdict
from likeset.homes.review import Choice, Rehearsal, Review
from likeset.homes.runs import Run
from likeset.ledger.ledger import Head

MENU = (
    ("/", "Inbox"),
    ("/budgets", "Budgets"),
    ("/data", "Data sets"),
    ("/sent", "What was sent"),
    ("/log", "Log"),
    ("/rules", "Rules"),
    ("/cards", "Cards"),
)
_EXAMPLES = 5
_ROWS_SHOWN = 50
_NUMBERS_SHOWN = 4  # of a list
_MOST_TEXT = 200_000
_DONE: dict[Choice, str] = {"approve": "approved", "deny": "denied", "withdraw": "withdrawn"}
_CONFIRM: dict[Choice, tuple[str, ...]] = {
    "approve": ("Approve", "Yes, approve it"),
    "deny": ("Deny", "Yes, deny it", "The consumer learns only that you do not take part."),
    "withdraw": (
        "Withdraw from",
        "Yes, withdraw",
        "A withdrawal is final: this home sends nothing more in this run.",
        "What was sent cannot be taken back and stays charged.",
    ),
}


# ---- runs


def inbox(owner: Owner, request: PageRequest) -> Response:
    every = request.query.get("show") == "all"
    found = owner.runs() if every else owner.waiting()
    pages = Pages.of(len(found), request.number("page", 1))
    runs = [reviews.inbox_run(owner, run) for run in pages.part(found[::-1] if every else found)]
    return request.render("inbox.html", runs=runs, every=every, pages=pages, steps=checkup.steps_left(owner))


def show_run(owner: Owner, request: PageRequest) -> Response:
    return _run_page(owner, request, owner.run(request.query.get("name", "")))


def try_run(owner: Owner, request: PageRequest) -> Response:
    run = owner.run(request.text("run"))
    terms, by = run.terms, request.by
    rehearsed = reviews.rehearse(owner, terms, data=request.text("data"))
    owner.home.note("rehearsed", run.name, digest=terms.digest, by=by, basis=rehearsed.basis)
    return _run_page(owner, request, run, rehearsed=rehearsed)


def decide(owner: Owner, request: PageRequest) -> Response:
    """Show a decision once more, then make it unless somebody else decided meanwhile."""
    run = owner.run(request.text("run"))
    choice, by, reason = _choice(request), request.by, request.text("reason")
    digest, seen = request.text("digest"), request.text("seen")
    if choice == "deny" and not reason:
        raise InvalidArgument("reason", "nothing", "give a reason; it stays in this home")
    if request.text("sure") != "yes":
        return _confirm(owner, request, run, choice)
    if choice == "approve":
        verdict = owner.approve(run.name, digest, by=by, how="console", data=request.text("data"), seen=seen)
        if not verdict.accepted:
            return _refused(request, run, verdict)
    elif choice == "deny":
        owner.deny(run.name, by=by, reason=reason, how="console", seen=seen)
    else:
        owner.withdraw(run.name, by=by, how="console", seen=seen)
    return request.redirect(link("/run", name=run.name), f"Run {run.name} is {_DONE[choice]}, by {by}.")


def _refused(request: PageRequest, run: Run, verdict: Verdict) -> Response:
    reasons = f"Your rules refuse run {run.name}: {'; '.join(verdict.reasons)}"
    return request.render("trouble.html", status=409, words=reasons, back=link("/run", name=run.name))


def _choice(request: PageRequest) -> Choice:
    if request.text("choice") not in get_args(Choice):
        raise InvalidArgument("choice", "another one", "must be approve, deny or withdraw")
    return cast("Choice", request.text("choice"))


def _confirm(owner: Owner, request: PageRequest, run: Run, choice: Choice) -> Response:
    reviewed = _review(owner, run) if choice == "approve" else None
    if reviewed is not None:
        judged = owner.judge(run.terms, data=request.text("data"))
        if not judged.accepted:
            return _refused(request, run, judged)
        owner.note_review(run, by=request.by)
    verb, yes, *points = _CONFIRM[choice]
    if choice == "deny":
        points.append(f"Your reason stays in this home: {request.text('reason')}")
    words: dict[str, Any] = {
        "question": f"{verb} run {run.name}?",
        "points": points,
        "yes": yes,
        "back": link("/run", name=run.name),
    }
    sent = {name: value for name, value in request.fields.items() if name != "sure"}
    return request.render("confirm.html", action=request.path, sent=sent, review=reviewed, **words)


def _run_page(owner: Owner, request: PageRequest, run: Run, *, rehearsed: Rehearsal | None = None) -> Response:
    reviewed = _review(owner, run)
    choices = reviews.open_decisions(owner, run)
    words: dict[str, Any] = {
        "run": run.name,
        "digest": run.digest.hex(),
        "mark": owner.mark(run),
        "last_word": reviews.last_word(run),
        "has_begun": run.has_begun,
        "review": reviewed,
        "rehearsed": rehearsed,
        "fitting": [],
    }
    if reviewed is None:
        words |= {"state": reviews.status_of(owner, run), "choices": [one for one in choices if one != "approve"]}
        return request.render("run.html", **words)
    fitting = [data.name for data in owner.registry.for_terms(reviewed.terms)]
    words |= {
        "state": reviewed.status,
        # Of several data sets a person chooses one, which is judged then.
        "choices": [one for one in choices if one != "approve" or reviewed.verdict.accepted or len(fitting) > 1],
        "fitting": fitting,
        "examples": {} if rehearsed is None else _examples(rehearsed),
        "bars": [(what, reviewed.budgets[name]) for name, what in BUDGETS.items()],
    }
    return request.render("run.html", **words)


def _review(owner: Owner, run: Run) -> Review | None:
    return None if run.readable is None else reviews.review(owner, run.name)


def _examples(rehearsed: Rehearsal) -> dict[str, list[str]]:
    if rehearsed.rows.table is None:
        return {}
    few = rehearsed.rows.table.slice(0, _EXAMPLES).to_pydict()
    return {name: [_cell(value) for value in values] for name, values in few.items()}


def _cell(value: Any) -> str:
    """A cell for people: of a long list of numbers, such as an image, the first few."""
    if isinstance(value, list) and len(value) > _NUMBERS_SHOWN:
        return f"{', '.join(f'{number:.4g}' for number in value[:_NUMBERS_SHOWN])}, … ({len(value):,} numbers)"
    return "" if value is None else str(value)


# ---- records


def budgets(owner: Owner, request: PageRequest) -> Response:
    overview = reviews.budget_overview(owner)
    history = overview["history"][::-1]
    pages = Pages.of(len(history), request.number("page", 1))
    bars = [(what, {**overview[name], "after": overview[name]["spent"]}) for name, what in BUDGETS.items()]
    return request.render("budgets.html", overview=overview, history=pages.part(history), pages=pages, bars=bars)


def sent(owner: Owner, request: PageRequest) -> Response:
    run = request.query.get("run", "")
    if run:
        letters = [letter.document() for letter in reviews.letters_out(owner, run)]
        rows = reviews.rows_in_letters(owner, run)
        shown = [] if rows.table is None else rows.table.slice(0, _ROWS_SHOWN).to_pylist()
        shown = [{name: _cell(value) for name, value in row.items()} for row in shown]
        return request.render("sent_run.html", run=run, letters=letters, rows=rows, shown=shown)
    names = reviews.runs_that_sent(owner)[::-1]
    pages = Pages.of(len(names), request.number("page", 1))
    return request.render("sent.html", runs=[reviews.sent_run(owner, name) for name in pages.part(names)], pages=pages)


def log(owner: Owner, request: PageRequest, **words: Any) -> Response:
    about, before = request.query.get("about", "").strip(), request.number("before", 0)
    page = reviews.log_page(owner, before=before or None, about=about)
    words = {"checked": False, "problems": [], "remarks": [], **words}
    lines = [{**entry, "text": _entry_text(entry["words"])} for entry in page["entries"]]
    return request.render("log.html", page=page, lines=lines, about=about, head=str(owner.ledger.head()), **words)


def _entry_text(words: dict[str, Any]) -> str:
    """The words of an entry on one line, without those that say nothing."""

    def shown(value: Any) -> str:
        if isinstance(value, dict):
            return f"({_entry_text(value)})"
        return value if isinstance(value, str) else json.dumps(value)

    return ", ".join(f"{name}: {shown(value)}" for name, value in words.items() if value not in (None, []))


def verify_log(owner: Owner, request: PageRequest) -> Response:
    head = request.text("head", most=100)
    problems, notes = reviews.verify(owner, head=Head.parse(head) if head else None)
    return log(owner, request, checked=True, problems=[str(problem) for problem in problems], remarks=notes)


# ---- rules


def rules(owner: Owner, request: PageRequest, **words: Any) -> Response:
    text, mark = owners.written_policy(owner)
    return request.render("rules.html", **({"text": text, "mark": mark, "wrong": ""} | words))


def put_rules(owner: Owner, request: PageRequest) -> Response:
    """Check the text, show what would change, and put it in force when the steward confirms."""
    by, seen, text = request.by, request.text("seen"), request.text("text", most=_MOST_TEXT) + "\n"
    try:
        changes = owners.changes_to(owner, text)
    except BadDocument as error:
        return rules(owner, request, wrong=str(error), status=400, mark=seen, text=text)
    if request.text("sure") != "yes":
        return request.render("rules_confirm.html", changes=changes, text=text, seen=seen, by=by)
    owners.put(owner, text, by=by, seen=seen)
    return request.redirect("/rules", f"The rules are in force, by {by}.")


# ---- data sets


def data(owner: Owner, request: PageRequest, checked: DataCheck | None = None) -> Response:
    policy = owner.policy
    words: dict[str, Any] = {"allowed": policy.columns, "smallest": policy.smallest_group, "checked": checked}
    return request.render("data.html", listed=reviews.listed_data(owner), **words)


def check_data(owner: Owner, request: PageRequest) -> Response:
    return data(owner, request, checkup.check_data(owner, request.text("name", most=128)))


# ---- cards


def cards(owner: Owner, request: PageRequest) -> Response:
    return request.render("cards.html", own=owner.home.card, pins=owner.home.pins.all())


PAGES: dict[str, Callable[[Owner, PageRequest], Response]] = {
    "/": inbox,
    "/run": show_run,
    "/budgets": budgets,
    "/sent": sent,
    "/log": log,
    "/data": data,
    "/rules": rules,
    "/cards": cards,
}
ACTIONS: dict[str, Callable[[Owner, PageRequest], Response]] = {
    "/trial": try_run,
    "/decide": decide,
    "/log": verify_log,
    "/data/check": check_data,
    "/rules": put_rules,
}
