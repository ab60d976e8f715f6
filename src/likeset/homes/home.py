"""The directory of a party: its card, its pins, its letters and its addresses."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator

from likeset.errors import BadDocument, InvalidArgument, LikesetError
from likeset.homes.mail import BOOK_FILE, CARDS_FOLDER, Identity, utc_now
from likeset.tables.profile import DeadColumn, Suspicion
from likeset.text import without_secrets
from likeset.trust.cards import CARD_FILE, SECRET_FILE, Card, CardSecret, Pin, Pins, read_card


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        what: was looked at.
        ok: whether it is in order.
        words: what was found, and what to do about it; never a value of a row.
        suspicion: a column that may identify people, where that is what was found: a warning, not a failure.
        dead: a column that hardly counts, where that is it: a warning as well.
        to_do: nothing is wrong, but this part of the home is not set up yet.
    """

    what: str
    ok: bool
    words: str
    suspicion: Suspicion | None = None
    dead: DeadColumn | None = None
    to_do: bool = False

    @property
    def is_warning(self) -> bool:
        return self.ok and (self.suspicion is not None or self.dead is not None)


def guarded(what: str, look: Callable[[], Iterator[Finding]]) -> list[Finding]:
    try:
        return list(look())
    except LikesetError as error:
        return [Finding(what, ok=False, words=str(error))]


NETWORK_CAN = (
    "Nobody on the way can read or forge a letter. Whoever keeps the mailbox, or runs NVFlare's server, can delay or "
    "suppress letters, and sees their sizes and times (docs/threat-model.md)."
)


ABSTAINS: Final = "abstains"
WAITING: Final = "waiting"
READY: Final = "ready"
Abstains = Literal["abstains"]
Standing = Literal["abstains", "waiting", "ready"]


_REASON = (
    "has a password in it, and settings are copied and shown; take it out: the key of the login that looks is used "
    "(~/.ssh for sftp, the usual files and variables for s3)"
)


def _checked(address: str) -> str:
    if not address.strip():
        raise ValueError("is empty; write file:///folder, sftp://user@host/folder or s3://bucket/folder")
    if without_secrets(address) != address:
        raise ValueError(_REASON)
    return address


MailboxAddress = Annotated[str, AfterValidator(_checked)]
"""Where a mailbox is, such as ``file:///mnt/share``."""


def checked_addresses(addresses: Iterable[str], *, argument: str = "--mailbox") -> tuple[str, ...]:
    """The addresses, each one once.

    Raises:
        InvalidArgument: one of them is empty, or has a password in it.
    """
    checked = []
    for address in addresses:
        try:
            checked.append(_checked(address))
        except ValueError as error:
            raise InvalidArgument(argument, without_secrets(address), str(error)) from None
    return tuple(dict.fromkeys(checked))


_FORM = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<first>\d{1,5})(-(?P<last>\d{1,5}))?")
_HOW = "must be HOST:PORT, or HOST:FIRST-LAST for several runs at a time, such as 0.0.0.0:7301"
_MOST_PORT = 65535
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - what must not be told to others


@dataclass(frozen=True, slots=True)
class TunnelPorts:
    """A host and its ports, one for each run that is computed at the same time.

    Attributes:
        host: its name or number.
        first: of the ports; 0 for any that is free.
        last: of the ports.
    """

    host: str
    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """What ``HOST:PORT`` or ``HOST:FIRST-LAST`` says.

        Raises:
            ValueError: it is something else.
        """
        match = _FORM.fullmatch(text)
        if match is None:
            raise ValueError(_HOW)
        first = int(match["first"])
        last = int(match["last"] or first)
        if not 0 <= first <= last <= _MOST_PORT or (first == 0 and last != 0):
            raise ValueError(_HOW)
        return cls(match["host"].strip("[]"), first, last)

    @property
    def ports(self) -> range:
        return range(self.first, self.last + 1)


def _checked_tunnel(text: str) -> str:
    if text:
        TunnelPorts.parse(text)
    return text


TunnelText = Annotated[str, AfterValidator(_checked_tunnel)]
"""``HOST:PORT``, ``HOST:FIRST-LAST``, or nothing."""


@dataclass(frozen=True, slots=True)
class TunnelPlace:
    """Where a home's tunnels listen, and where others reach them.

    Attributes:
        listen: here.
        reach_at: by others; as many ports, in the same order.
    """

    listen: TunnelPorts
    reach_at: TunnelPorts

    @classmethod
    def of(cls, listen: str, reach_at: str, *, file: str) -> Self:
        """From a home's settings.

        Args:
            listen: as they say.
            reach_at: likewise; empty where others reach it at the same place.
            file: that says so, for errors.

        Raises:
            InvalidArgument: a compute party needs a place, and these say none that others can use.
        """
        if not listen:
            raise InvalidArgument("listen", "nothing", f"a split run needs listen: HOST:PORT in {file}")
        here = TunnelPorts.parse(listen)
        there = TunnelPorts.parse(reach_at or listen)
        if there.host in _EVERYWHERE:
            raise InvalidArgument("reach_at", there.host, f"is where nobody can call; write reach_at: in {file}")
        if len(there.ports) != len(here.ports):
            reason = f"must have as many ports as listen ({len(here.ports)}), in the same order; see {file}"
            raise InvalidArgument("reach_at", reach_at, reason)
        return cls(here, there)

    def told(self, port: int) -> tuple[str, int]:
        if self.reach_at.first == 0 or self.listen.first == 0:
            return self.reach_at.host, self.reach_at.first or port
        return self.reach_at.host, self.reach_at.first + port - self.listen.first


def tunnel_lines(listen: str = "", reach_at: str = "") -> str:
    """The lines of a new home's settings."""
    return f"""\
# For runs with a split curator: where this party listens for the two other compute parties (HOST:PORT, or
# HOST:FIRST-LAST for several runs at a time), and where they reach it, if that is elsewhere. Nobody else is let in.
listen: "{listen}"
reach_at: "{reach_at}"
"""


def check_tunnels(listen: str, reach_at: str, *, file: str) -> None:
    """Look at what a new home is to be told; nothing is fine, and may be written into its settings later.

    Raises:
        InvalidArgument: others could not call there, or it is no place.
    """
    for option, text in (("--listen", listen), ("--reach-at", reach_at)):
        try:
            _checked_tunnel(text)
        except ValueError as error:
            raise InvalidArgument(option, text, str(error)) from None
    if listen or reach_at:
        TunnelPlace.of(listen, reach_at, file=file)


@dataclass(frozen=True, slots=True)
class PartyHome(ABC):
    """The directory of a party.

    Args:
        folder: where it is.
    """

    folder: Path

    @property
    @abstractmethod
    def usual_name(self) -> str: ...

    @abstractmethod
    def check(self) -> None:
        """Raise unless this is the directory of such a party."""

    @property
    def card_file(self) -> Path:
        return self.folder / CARD_FILE

    @property
    def cards(self) -> Path:
        return self.folder / CARDS_FOLDER

    @property
    def book_file(self) -> Path:
        """The file of its letters; in an owner's node it is made with the first one."""
        return self.folder / BOOK_FILE

    @property
    def identity(self) -> Identity:
        return Identity.of(self.folder)

    def card(self) -> Card:
        """Its own card, which it has the keys of.

        Raises:
            BadDocument: there are no keys, others can read them, or they are damaged.
        """
        return self.card_secret().card

    def card_secret(self) -> CardSecret:
        return CardSecret.load(self.folder)

    def pins(self, *, note: Callable[[Pin], None] | None = None) -> Pins:
        """The pinned cards; ``note`` is told of each change before it is written."""
        return Pins(self.cards, note=note)

    def check_no_card(self) -> None:
        """Raise if there is a card, or what is left of one: keys are never overwritten."""
        for path in (self.card_file, self.folder / SECRET_FILE):
            if path.exists():
                reason = "is there already, and keys are never overwritten; if they were stolen or lost, add --new"
                raise InvalidArgument("card", path, reason)

    def name_of_card(self) -> str:
        """What its card is called, or would be; keys that cannot be used do no harm."""
        try:
            return read_card(self.card_file).name
        except BadDocument:
            return self.usual_name

    def set_card_aside(self, now: datetime | None = None) -> list[Path]:
        """Give the card up: both of its files get the time into their names; returns where they are.

        Whatever a crash leaves of it, calling it again goes on.

        Raises:
            InvalidArgument: another one was given up in this very second.
            BadDocument: the files cannot be renamed.
        """
        marked = f"until-{(now or utc_now()).astimezone(UTC):%Y%m%dT%H%M%SZ}"
        files = [path for path in (self.folder / SECRET_FILE, self.card_file) if path.exists()]
        aside = [path.with_name(f"{path.name}.{marked}") for path in files]
        for path in aside:
            if path.exists():
                raise InvalidArgument("card", path, "is there already; try again in a second")
        for path, place in zip(files, aside, strict=True):
            try:
                path.rename(place)
            except OSError as error:
                raise BadDocument(str(path), f"cannot be renamed: {error.strerror}") from error
        return aside
