"""The home of a witness, which computes on shares and holds no data."""

import contextlib
import os
import socket
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final, Literal, get_args

import yaml
from pydantic import Field

from likeset import documents
from likeset.documents import Document
from likeset.errors import IllegalMessage, InvalidArgument, NotCurated
from likeset.files import make_home_folder
from likeset.homes.compute import ComputeRun, compute_run
from likeset.homes.home import (
    Finding,
    MailboxAddress,
    PartyHome,
    TunnelPlace,
    TunnelPorts,
    TunnelText,
    check_tunnels,
    checked_addresses,
    guarded,
    tunnel_lines,
)
from likeset.homes.mail import Identity, Invitation, LetterBook, unpinned
from likeset.protocol.terms import WITNESS, Terms
from likeset.split.host import environment_folder, program_digest, split_python, try_worker, worker_python
from likeset.trust.cards import CardSecret, Role

PROMISES: Final = (
    "to compute, with the curator and the consumer, what the terms name by digest, and nothing else",
    "to show nobody the shares that it gets, neither the curator nor the consumer above all: two of the three together "
    "could read every row that was offered",
    "to be no owner of the run, nor the curator or the consumer under another name",
    "to sign for what it got, to open its shares to nobody, and to forget all shares when the terms end",
)
"""It reads no row and no target: what it gets is random numbers as long as it keeps these."""


SETTINGS_FILE = "witness.yaml"
_MOST_HOURS = 24 * 3650
_Hours = Annotated[float, Field(ge=0.0, le=_MOST_HOURS, allow_inf_nan=False)]


class WitnessSettings(Document):
    """What stands in ``witness.yaml``.

    Attributes:
        name: on its card.
        mailboxes: addresses.
        listen: where its tunnels listen.
        reach_at: where others reach them, if elsewhere.
        patience_hours: how long it waits for an owner's shares after the consumer said that it has them.
    """

    likeset: Literal["witness"] = "witness"
    version: Literal[1] = 1
    name: str
    mailboxes: tuple[MailboxAddress, ...] = ()
    listen: TunnelText = ""
    reach_at: TunnelText = ""
    patience_hours: _Hours = 72.0

    @property
    def patience(self) -> timedelta:
        return timedelta(hours=self.patience_hours)


def starting_settings(name: str, *, mailboxes: Sequence[str], listen: str, reach_at: str) -> str:
    """The ``witness.yaml`` of a new home."""
    listed = yaml.safe_dump(list(mailboxes), default_flow_style=True, width=1000).strip()
    named = yaml.safe_dump({"name": name}, width=1000).strip()
    return f"""\
likeset: witness
version: 1
{named}

# Where letters come and go, as agreed with the others: file:///mnt/share, sftp://user@host/folder or s3://bucket/folder,
# never with a password in it.
mailboxes: {listed}

{tunnel_lines(listen, reach_at)}
# How many hours it waits for an owner's shares when the consumer has them; then the run goes on without that owner, if
# enough are left. It never goes on after the end of the terms.
patience_hours: 72
"""


@dataclass(frozen=True, slots=True)
class WitnessHome(PartyHome):
    """The directory of a witness.

    Args:
        folder: where it is.
    """

    @property
    def usual_name(self) -> str:
        return self.settings.name

    @property
    def settings(self) -> WitnessSettings:
        path = self.folder / SETTINGS_FILE
        if not path.is_file():
            reason = "is not the directory of a witness; make one with `likeset witness init`"
            raise InvalidArgument("--home", self.folder, reason)
        return documents.read(path, WitnessSettings)

    @property
    def tunnels(self) -> TunnelPlace:
        """Where its tunnels listen.

        Raises:
            InvalidArgument: ``witness.yaml`` does not say, or nobody could call there.
        """
        settings = self.settings
        return TunnelPlace.of(settings.listen, settings.reach_at, file=SETTINGS_FILE)

    def check_knows(self, terms: Terms) -> None:
        """Raise unless these terms are for this witness, from a consumer and with a curator whom a person here knows.

        Raises:
            NotCurated: they are not; in fixed words, which whoever asked for the run reads.
        """
        if terms.cards.get(WITNESS) != self.card().fingerprint:
            raise NotCurated("the terms name another card than the witness's; pin the card that it has now")
        if unpinned(terms, WITNESS, self.pins()):
            raise NotCurated("the witness has not pinned the cards of consumer and curator; give them to its people")

    def check(self) -> None:
        _ = self.settings


def make_witness_home(
    folder: Path, *, name: str, mailboxes: Sequence[str] = (), listen: str = "", reach_at: str = ""
) -> WitnessHome:
    """A new directory of a witness: a card and settings.

    Args:
        folder: where.
        name: on its card.
        mailboxes: where letters come and go.
        listen: where its tunnels listen; may be written into ``witness.yaml`` later.
        reach_at: where others reach them, if elsewhere.

    Raises:
        InvalidArgument: the directory holds something already, or cannot be made; no party may have that name; or a
            place cannot be one.
    """
    check_tunnels(listen, reach_at, file=SETTINGS_FILE)
    card, addresses = CardSecret.generate(name), checked_addresses(mailboxes)
    make_home_folder(folder)
    card.write(folder)
    home = WitnessHome(folder)
    LetterBook(home.book_file).close()  # makes the file
    text = starting_settings(name, mailboxes=addresses, listen=listen, reach_at=reach_at)
    documents.write_text(folder / SETTINGS_FILE, text)
    return home


def witness(
    invitation: Invitation,
    name: str,
    folder: Path,
    *,
    identity: Identity | None = None,
    check_workers: Callable[[], object] = split_python,
) -> ComputeRun:
    """The witness's side of a split run.

    Args:
        invitation: the signed terms.
        name: the witness's name in all runs.
        folder: its directory.
        identity: who it is, where that is open already.
        check_workers: raises where no worker can be started.

    Raises:
        LikesetError: it does not take part.
    """
    if name != WITNESS:
        raise IllegalMessage("this is a witness's directory")
    home = WitnessHome(folder)
    home.check_knows(invitation.terms)
    return compute_run(home, invitation, "witness", identity=identity or home.identity, check_workers=check_workers)


_SECONDS = 3.0


def checkup(home: WitnessHome) -> list[Finding]:
    """Look at everything: keys, cards, mailboxes, the workers' environment, the place where tunnels listen."""
    return [
        *guarded("home", lambda: _home(home)),
        *guarded("card", lambda: _card(home)),
        *guarded("pinned cards", lambda: _pinned_cards(home)),
        *guarded("mailboxes", lambda: _mailboxes(home)),
        *guarded("workers", _workers),
        *guarded("tunnels", lambda: _tunnels(home)),
    ]


def _home(home: WitnessHome) -> Iterator[Finding]:
    with home.identity.book as book:
        book.check_running()  # raises where it was put back from an old copy
    mode = stat.S_IMODE(home.folder.stat().st_mode)
    if os.name == "posix" and mode & 0o077:
        yield Finding("home", ok=False, words=f"other users may look into it (mode {mode:04o}); chmod 700 it")
    else:
        yield Finding("home", ok=True, words="private, and not known to be an old copy")


def _card(home: WitnessHome) -> Iterator[Finding]:
    card = home.card()
    yield Finding("card", ok=True, words=f"{card.name}, {card.fingerprint}; nobody else can read its keys")


def _pinned_cards(home: WitnessHome) -> Iterator[Finding]:
    counts = Counter(pin.role for pin in home.pins().all() if pin.state == "pinned")
    needed: tuple[Role, ...] = ("consumer", "curator")
    missing = [f"no {role}" for role in needed if not counts[role]]
    listed = ", ".join(f"{counts[role]} as {role}" for role in get_args(Role) if counts[role])
    how = f"{' and '.join(missing)} yet, so no run can begin: compare cards by telephone, and call `likeset card pin`"
    yield Finding("pinned cards", ok=not missing, words="; ".join(filter(None, [listed, how if missing else ""])))


def _mailboxes(home: WitnessHome) -> Iterator[Finding]:
    addresses = home.settings.mailboxes
    words = ", ".join(addresses) or "none is named: write mailboxes: into witness.yaml"
    yield Finding("mailboxes", ok=bool(addresses), words=words)


def _workers() -> Iterator[Finding]:
    folder = environment_folder()
    versions = try_worker(worker_python(folder))
    words = f"start, with spu {versions['spu']} and Python {versions['python']} ({folder})"
    yield Finding("workers", ok=True, words=words)
    yield Finding("program", ok=True, words=f"{program_digest()}, which terms must name")


def _tunnels(home: WitnessHome) -> Iterator[Finding]:
    place = home.tunnels
    try:
        listening = [_listening(place.listen.host, port) for port in place.listen.ports]
    except OSError as error:
        words = f"nothing can listen at {home.settings.listen}: {error.strerror or type(error).__name__}"
        yield Finding("tunnels", ok=False, words=words)
        return
    with contextlib.ExitStack() as stack:
        for server in listening:
            stack.enter_context(server)
        reached = _reached(place.reach_at, listening[0].getsockname()[1])
    shown = home.settings.reach_at or home.settings.listen
    words = f"{len(listening)} port{'' if len(listening) == 1 else 's'} at {home.settings.listen}"
    far = f"{shown} answers" if reached else f"{shown} does not answer from here: let the others try it"
    yield Finding("tunnels", ok=True, words=f"{words}, free; {far}")


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)


def _reached(place: TunnelPorts, port: int) -> bool:
    try:
        socket.create_connection((place.host, place.first or port), timeout=_SECONDS).close()
    except OSError:
        return False
    return True
