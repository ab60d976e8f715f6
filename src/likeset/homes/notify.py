"""Tells people by ``notify:`` of ``home.yaml`` that a run waits, a deadline or a limit is near, or a mailbox is away.

A notification contains the names of home and run, the event and its deadline: nothing of rows or targets, and no path.
"""

import json
import smtplib
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Callable, Collection, Iterator
from datetime import timedelta
from email.message import EmailMessage
from email.utils import localtime
from functools import partial
from pathlib import Path
from urllib.error import HTTPError, URLError

from likeset import documents
from likeset.errors import LikesetError
from likeset.homes.home import Home, Smtp
from likeset.homes.mail import Mail
from likeset.homes.owner import Owner
from likeset.homes.policy import BUDGETS
from likeset.homes.review import budget_overview
from likeset.homes.runs import Run

DAY_AHEAD = timedelta(days=1)
BUDGET_SHARE = 0.8
_SECONDS = 10.0  # that one notification may take; mailboxes wait for it
_REST = 300.0  # seconds until a channel that failed is tried again
_MOST_PASSWORD = 1000

Event = dict[str, str]
"""Its kind (``event``), ``run`` and ``deadline`` if it has one, and a sentence (``text``)."""


def events_of(owner: Owner | None, mail: Mail, unreachable: Collection[str]) -> Iterator[tuple[str, Event]]:
    """All events that hold now, each with a key; ``unreachable`` are the addresses of mailboxes."""
    soon = mail.home.clock() + DAY_AHEAD
    if owner is not None:
        for run in owner.waiting():
            if run.state == "waiting" or run.detail:
                refused = "" if run.state == "waiting" else ", which your rules refuse,"
                yield _about_run("waiting", run, f"{refused} waits for your decision")
                if run.deadline <= soon:
                    yield _about_run("deadline", run, f"{refused} still waits for your decision")
        overview = budget_overview(owner)
        for name, what in BUDGETS.items():
            if overview[name]["limit"] and overview[name]["spent"] >= BUDGET_SHARE * overview[name]["limit"]:
                yield f"budget {what}", _event("budget", f"{BUDGET_SHARE:.0%} of a budget is spent: {what}")
    for run in mail.open_runs():
        if (run.role, run.state) == ("consumer", "invited") and mail.home.clock() < run.deadline <= soon:
            yield _about_run("deadline", run, " waits for answers")
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
    """Tells each event once by each channel, until ``up`` is restarted; again if it ended and came back."""

    def __init__(self, home: Home, tell: Callable[[str], None]) -> None:
        """``tell`` is called with a line when a channel begins to fail."""
        self._home, self._tell = home, tell
        self._mail = Mail(home)
        self._owner = Owner(self._mail) if "owner" in home.settings.roles else None
        chosen = home.settings.notify
        self._channels: dict[str, Callable[[Event], None]] = {}
        if chosen.webhook is not None:
            self._channels["webhook"] = partial(_post, chosen.webhook)
        if chosen.smtp is not None:
            self._channels["smtp"] = partial(_send_mail, chosen.smtp, home.folder)
        if chosen.command:
            self._channels["command"] = partial(_call, chosen.command)
        self._told: dict[str, set[str]] = {channel: set() for channel in self._channels}
        self._failed: dict[str, float] = {}  # when a channel may be tried again

    def __call__(self, unreachable: Collection[str] = ()) -> None:
        """Tell what is new. Whatever fails is one line for ``tell``: the mailboxes must be checked nevertheless."""
        if not self._channels:
            return
        try:
            events = dict(events_of(self._owner, self._mail, unreachable))
        except Exception as error:
            self._note("notify", error)
            return
        self._failed.pop("notify", None)
        for channel, send in self._channels.items():
            told = self._told[channel]
            told.intersection_update(events)
            if time.monotonic() < self._failed.get(channel, 0.0):
                continue
            try:
                for key in [key for key in events if key not in told]:
                    text = f"likeset {self._home.name}: {events[key]['text']}"
                    send({"home": self._home.name, **events[key], "text": text})
                    told.add(key)
                self._failed.pop(channel, None)
            except Exception as error:  # of a server or program that is not ours
                self._note(channel, error)

    def _note(self, channel: str, error: Exception) -> None:
        if channel not in self._failed:
            self._tell(f"{channel} failed and notified nobody ({_reason(error)}); trying again")
        self._failed[channel] = time.monotonic() + _REST


def _reason(error: Exception) -> str:
    """Why, without texts of others: they may quote an address, an argument or a password."""
    if isinstance(error, LikesetError):
        return str(error)
    if isinstance(error, HTTPError):
        return f"HTTP status {error.code}"
    if isinstance(error, URLError) and isinstance(error.reason, Exception):
        error = error.reason
    return type(error).__name__


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A POST that is redirected would become a GET without its content."""

    def redirect_request(self, *_: object) -> None:
        return None


def _post(url: str, event: Event) -> None:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(event).encode(), headers)  # noqa: S310 (home.yaml: http only)
    with urllib.request.build_opener(_NoRedirect).open(request, timeout=_SECONDS):
        pass


def _send_mail(smtp: Smtp, folder: Path, event: Event) -> None:
    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = event["text"], smtp.sender, ", ".join(smtp.to)
    message["Date"] = localtime()
    message.set_content("\n".join(f"{name}: {value}" for name, value in event.items() if value))
    with smtplib.SMTP(smtp.host, smtp.port, timeout=_SECONDS) as server:
        if smtp.starttls:
            server.starttls(context=ssl.create_default_context())
        if smtp.user:
            password = documents.bytes_in(folder / smtp.password_file, most=_MOST_PASSWORD, secret=True)
            server.login(smtp.user, password.decode("utf-8").rstrip("\r\n"))
        server.send_message(message)


def _call(command: tuple[str, ...], event: Event) -> None:
    quiet, text = subprocess.DEVNULL, json.dumps(event)
    subprocess.run(command, input=text, text=True, stdout=quiet, stderr=quiet, timeout=_SECONDS, check=True)  # noqa: S603
