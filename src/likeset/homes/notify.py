"""Tells people by ``notify:`` of ``home.yaml`` that a run waits, a deadline or a limit is near, or a mailbox is away.

A notification contains the names of home and run, the event and its deadline: nothing of rows or targets, and no path.
"""

import json
import os
import smtplib
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import timedelta
from email.message import EmailMessage
from email.utils import localtime
from functools import partial
from pathlib import Path
from typing import Literal
from urllib.error import HTTPError, URLError

from likeset import documents
from likeset.errors import InvalidArgument, LikesetError
from likeset.files import keep_private_bytes
from likeset.homes.home import Home, Smtp
from likeset.homes.mail import Mail
from likeset.homes.owner import Owner
from likeset.homes.review import BUDGETS, budget_overview
from likeset.homes.runs import Run

NOTIFIED_FILE = "notified.json"
DAY_AHEAD = timedelta(days=1)
BUDGET_SHARE = 0.8
_SECONDS = 10.0  # that one notification may take; mailboxes wait for it
_REST = 300.0  # seconds until a channel that failed is tried again
_MOST = 10  # notifications by one channel after one check of the mailboxes
_MOST_PASSWORD = 1000


@dataclass(frozen=True, slots=True)
class Event:
    """Something that a person should know while it holds."""

    key: str  # tells it apart from others of its kind
    event: Literal["waiting", "deadline", "budget", "mailbox"]
    text: str
    run: str = ""
    deadline: str = ""

    def document(self, home: str) -> dict[str, str]:
        text = f"likeset {home}: {self.text}"
        return {"home": home, "event": self.event, "run": self.run, "deadline": self.deadline, "text": text}


def events_of(owner: Owner | None, mail: Mail, unreachable: Collection[str]) -> Iterator[Event]:
    """All events that hold now; ``unreachable`` are the addresses of mailboxes."""
    soon = mail.home.clock() + DAY_AHEAD
    if owner is not None:
        for run in owner.waiting():
            if run.state == "waiting":
                yield _about_run("waiting", run, "waits for your decision")
                if run.deadline <= soon:
                    yield _about_run("deadline", run, "still waits for your decision")
        overview = budget_overview(owner)
        for name, what in BUDGETS.items():
            if overview[name]["limit"] and overview[name]["spent"] >= BUDGET_SHARE * overview[name]["limit"]:
                yield Event(f"budget {what}", "budget", f"{BUDGET_SHARE:.0%} of a budget is spent: {what}")
    for run in mail.runs(role="consumer"):
        if run.state == "invited" and mail.home.clock() < run.deadline <= soon:
            yield _about_run("deadline", run, "waits for answers")
    for address in unreachable:
        yield Event(f"mailbox {address}", "mailbox", "a mailbox is unreachable; the log of `likeset up` says why")


def _about_run(event: Literal["waiting", "deadline"], run: Run, text: str) -> Event:
    until = f"{run.deadline:%Y-%m-%d %H:%M} UTC"
    key = f"{event} {run.digest.hex()}"
    return Event(key, event, f"run {run.name} {text} until {until}", run.name, run.deadline.isoformat())


class Notifier:
    """Tells each event once by each channel, also after a restart; again if it ended and came back."""

    def __init__(self, home: Home, tell: Callable[[str], None]) -> None:
        """``tell`` is called with a line when a channel begins to fail."""
        self._home, self._tell = home, tell
        self._mail = Mail(home)
        self._owner = Owner(self._mail) if "owner" in home.settings.roles else None
        chosen = home.settings.notify
        self._channels: dict[str, Callable[[dict[str, str]], None]] = {}
        if chosen.webhook is not None:
            self._channels["webhook"] = partial(_post, chosen.webhook)
        if chosen.smtp is not None:
            self._channels["smtp"] = partial(_send_mail, chosen.smtp, home.folder)
        if chosen.command:
            self._channels["command"] = partial(_call, chosen.command)
        self._told = self._read() if self._channels else {}
        self._failed: dict[str, float] = {}  # when a channel may be tried again

    def __call__(self, unreachable: Collection[str] = ()) -> None:
        """Tell what is new. Whatever fails is one line for ``tell``: the mailboxes must be checked nevertheless."""
        if not self._channels:
            return
        try:
            events = {event.key: event for event in events_of(self._owner, self._mail, unreachable)}
            before = self._told
            self._told = {channel: self._tell_by(channel, events) for channel in self._channels}
            if self._told != before:
                keep_private_bytes(self._home.folder / NOTIFIED_FILE, json.dumps(self._told).encode())
            self._failed.pop("", None)
        except Exception as error:  # as below
            self._note("", error)

    def _tell_by(self, channel: str, events: dict[str, Event]) -> list[str]:
        """The keys of all events that hold and were told by a channel."""
        told = [key for key in self._told.get(channel, ()) if key in events]
        if time.monotonic() < self._failed.get(channel, 0.0):
            return told
        for key in [key for key in events if key not in told][:_MOST]:
            try:
                self._channels[channel](events[key].document(self._home.name))
            except Exception as error:  # of a server or program that is not ours
                self._note(channel, error)
                return told
            self._failed.pop(channel, None)
            told.append(key)
        return told

    def _note(self, channel: str, error: Exception) -> None:
        if channel not in self._failed:
            self._tell(f"{channel or 'notify'}: nobody can be notified ({_reason(error)}); trying again")
        self._failed[channel] = time.monotonic() + _REST

    def _read(self) -> dict[str, list[str]]:
        try:
            told = json.loads((self._home.folder / NOTIFIED_FILE).read_bytes())
            return {str(channel): list(map(str, keys)) for channel, keys in told.items()}
        except (OSError, ValueError, AttributeError, TypeError):  # none yet, or damaged: all are told again
            return {}


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


def _post(url: str, document: dict[str, str]) -> None:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(document).encode(), headers)  # noqa: S310 (home.yaml: http only)
    with urllib.request.build_opener(_NoRedirect).open(request, timeout=_SECONDS):
        pass


def _send_mail(smtp: Smtp, folder: Path, document: dict[str, str]) -> None:
    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = document["text"], smtp.sender, ", ".join(smtp.to)
    message["Date"] = localtime()
    message.set_content("\n".join(f"{name}: {value}" for name, value in document.items() if value))
    with smtplib.SMTP(smtp.host, smtp.port, timeout=_SECONDS) as server:
        if smtp.starttls:
            server.starttls(context=ssl.create_default_context())
        if smtp.user:
            server.login(smtp.user, _password(smtp, folder))
        server.send_message(message)


def _password(smtp: Smtp, folder: Path) -> str:
    if smtp.password_file:
        content = documents.bytes_in(folder / smtp.password_file, most=_MOST_PASSWORD, secret=True)
        return content.decode("utf-8").rstrip("\r\n")
    try:
        return os.environ[smtp.password_variable]
    except KeyError:
        raise InvalidArgument("password_variable", smtp.password_variable, "is not set") from None


def _call(command: tuple[str, ...], document: dict[str, str]) -> None:
    quiet, text = subprocess.DEVNULL, json.dumps(document)
    subprocess.run(command, input=text, text=True, stdout=quiet, stderr=quiet, timeout=_SECONDS, check=True)  # noqa: S603
