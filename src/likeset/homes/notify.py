"""Tells people by ``notify:`` of ``home.yaml`` that a run waits, a deadline or a limit is near, or a mailbox is away.

A notification contains the names of home and run, the event and its deadline: nothing of rows or targets, and no path.
"""

import json
import subprocess
import time
from collections.abc import Callable, Collection, Iterator
from datetime import timedelta

from likeset.homes.home import Home, reason_for_log
from likeset.homes.mail import Mail
from likeset.homes.owner import Owner
from likeset.homes.policy import BUDGETS
from likeset.homes.review import budget_overview
from likeset.homes.runs import Run, State

DAY_AHEAD = timedelta(days=1)
BUDGET_SHARE = 0.8
_SECONDS = 10.0  # that one notification may take; mailboxes wait for it
_REST = 300.0  # seconds until a command that failed is called again

Event = dict[str, str]
"""Its kind (``event``), ``run`` and ``deadline`` if it has one, and a sentence (``text``)."""


def events_of(owner: Owner | None, mail: Mail, unreachable: Collection[str]) -> Iterator[tuple[str, Event]]:
    """All events that hold now, each with a key; ``unreachable`` are the addresses of mailboxes."""
    soon = mail.home.clock() + DAY_AHEAD
    if owner is not None:
        for run in owner.waiting():
            if run.state == State.WAITING or run.reason:
                refused = "" if run.state == State.WAITING else ", which your rules refuse,"
                yield _about_run("waiting", run, f"{refused} waits for your decision")
                if run.deadline <= soon:
                    yield _about_run("deadline", run, f"{refused} still waits for your decision")
        for run in owner.open_runs():
            if run.decided == "approved" and run.reason:  # a limit, or the data changed
                yield _about_run("stopped", run, " does not continue here: its page or `likeset owner review` says why")
        overview = budget_overview(owner)
        for name, what in BUDGETS.items():
            if overview[name]["limit"] and overview[name]["spent"] >= BUDGET_SHARE * overview[name]["limit"]:
                yield f"budget {what}", _event("budget", f"{BUDGET_SHARE:.0%} of a budget is spent: {what}")
    for run in mail.open_runs():
        if (run.role, run.state) == ("consumer", State.INVITED) and mail.home.clock() < run.deadline <= soon:
            yield _about_run("deadline", run, " waits for answers")
    waiting = {trouble.digest for trouble in mail.troubles.all()}
    for run in mail.open_runs() if waiting else ():
        if run.digest in waiting:
            yield _about_run("trouble", run, " waits for this machine to be repaired (`likeset check` says what)")
    for address in unreachable:
        text = "a mailbox is unreachable; the log of `likeset up` says why"
        yield f"mailbox {address}", _event("mailbox", text)


def _event(kind: str, text: str, run: str = "", deadline: str = "") -> Event:
    return {"event": kind, "run": run, "deadline": deadline, "text": text}


def _about_run(kind: str, run: Run, text: str) -> tuple[str, Event]:
    until = f"{run.deadline:%Y-%m-%d %H:%M} UTC"
    text = f"run {run.name}{text} until {until}"
    return f"{kind} {run.digest.hex()}", _event(kind, text, run.name, run.deadline.isoformat())


class Notifier:
    """Tells each event once, until ``up`` is restarted; again if it ended and came back."""

    def __init__(self, home: Home, tell: Callable[[str], None]) -> None:
        """``tell`` is called with a line when the command begins to fail."""
        self._home, self._tell = home, tell
        self._mail = Mail(home)
        self._owner = Owner(self._mail) if "owner" in home.settings.roles else None
        self._command = home.settings.notify.command
        self._told: set[str] = set()
        self._failed = ""  # what did
        self._again = 0.0  # when the command may be tried again

    def __call__(self, unreachable: Collection[str] = ()) -> None:
        """Tell what is new. Whatever fails is one line for ``tell``: the mailboxes must be checked nevertheless."""
        if not self._command:
            return
        what = "notify"
        try:
            events = dict(events_of(self._owner, self._mail, unreachable))
            self._told.intersection_update(events)
            if time.monotonic() < self._again:
                return
            what = "command"
            for key in [key for key in events if key not in self._told]:
                text = f"likeset {self._home.name}: {events[key]['text']}"
                _call(self._command, {"home": self._home.name, **events[key], "text": text})
                self._told.add(key)
            self._failed = ""
        except Exception as error:  # of a program that is not ours, too
            if self._failed != what:
                self._tell(f"{what} failed and notified nobody ({reason_for_log(error)}); trying again")
            self._failed = what
            self._again = time.monotonic() + (_REST if what == "command" else 0.0)


def _call(command: tuple[str, ...], event: Event) -> None:
    quiet, text = subprocess.DEVNULL, json.dumps(event)
    subprocess.run(command, input=text, text=True, stdout=quiet, stderr=quiet, timeout=_SECONDS, check=True)  # noqa: S603
