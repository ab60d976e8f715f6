"""A party's directory: settings with roles, its card, the cards it pinned, one database, the keys of its runs."""

import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self, get_args
from urllib.parse import unquote

import yaml
from pydantic import AfterValidator, Field

from likeset import documents
from likeset.arguments import checked_name, one_of
from likeset.documents import Document
from likeset.errors import BadDocument, HomeRestored, InvalidArgument, LedgerUnavailable, LikesetError
from likeset.files import (
    keep_private_bytes,
    locked,
    make_home_folder,
    make_private_folder,
)
from likeset.homes.policy import NO_RULES, policy_text
from likeset.homes.runs import HAS_BYTES
from likeset.ledger.ledger import Ledger, Transaction
from likeset.text import near_miss, without_secrets
from likeset.trust.cards import (
    CARD_FILE,
    SECRET_FILE,
    Card,
    CardSecret,
    Pin,
    Role,
    SealingSecret,
    check_fingerprint,
    read_card,
    typed,
)

SETTINGS_FILE = "home.yaml"
POLICY_FILE = "owner.yaml"
DATABASE_FILE = "home.sqlite"
KEY_FILE = "key"
CURATOR_FOLDER = "curator"
KEYS_FOLDER = "keys"  # of runs, one file each; each is deleted when the terms of its run end
SPLIT_FOLDER = "split"  # shares of split runs
CONSOLE_FOLDER = "console"  # unused links and the address
UP_FILE = "up.lock"  # held by `likeset up`; contains its process number
RESERVE_FILE = "reserve"
RESERVE_BYTES = 1 << 19  # suffices to open the database and to record some decisions

TABLES = {
    # One row for each run. ``state`` moves as runs.MOVES says.
    "runs": """CREATE TABLE runs (
        digest BLOB PRIMARY KEY NOT NULL, party TEXT NOT NULL, name TEXT NOT NULL, role TEXT NOT NULL,
        mailbox TEXT NOT NULL, signed BLOB NOT NULL, acceptance BLOB NOT NULL, ends REAL NOT NULL, at TEXT NOT NULL,
        state TEXT NOT NULL, reason TEXT NOT NULL, ended TEXT NOT NULL, progress TEXT NOT NULL, due REAL,
        reviewed INTEGER NOT NULL, data TEXT NOT NULL, smallest_group INTEGER
    )""",
    # What was decided about a run at an owner; the last row of a run counts.
    "decisions": """CREATE TABLE decisions (
        number INTEGER PRIMARY KEY, run BLOB NOT NULL, what TEXT NOT NULL, who TEXT NOT NULL, how TEXT NOT NULL,
        made TEXT NOT NULL, why TEXT NOT NULL
    )""",
    "decisions_by_run": "CREATE INDEX decisions_by_run ON decisions (run)",
    "runs_by_name": "CREATE INDEX runs_by_name ON runs (name)",
    "runs_by_end": "CREATE INDEX runs_by_end ON runs (ends, state, digest)",
    "runs_by_state": "CREATE INDEX runs_by_state ON runs (state, due, ends)",
    # Everything that came, was decided here, or leaves, in order. ``post`` is the kind of document (a ``PostKind``),
    # ``kind`` that of the message in a letter. ``input`` numbers the inputs of a party: letters and the home's own
    # decisions (way 'own'). ``answers`` is the input that an outgoing letter answers.
    "letters": """CREATE TABLE letters (
        id INTEGER PRIMARY KEY, digest BLOB NOT NULL, peer TEXT NOT NULL, way TEXT NOT NULL, post TEXT NOT NULL,
        kind TEXT NOT NULL, round INTEGER NOT NULL DEFAULT 0, number INTEGER, letter BLOB, content BLOB,
        rows INTEGER NOT NULL DEFAULT 0, bytes INTEGER NOT NULL DEFAULT 0, at TEXT NOT NULL, input INTEGER,
        answers INTEGER, data BLOB, state TEXT NOT NULL, folder TEXT NOT NULL DEFAULT '', name TEXT NOT NULL DEFAULT ''
    )""",
    "letters_by_run": "CREATE INDEX letters_by_run ON letters (digest, way, peer, number, post, state, rows)",
    "letters_by_input": "CREATE INDEX letters_by_input ON letters (digest, input, content)",
    "letters_by_file": "CREATE INDEX letters_by_file ON letters (folder, name)",
    "letters_to_post": "CREATE INDEX letters_to_post ON letters (state, digest, peer, folder, name) WHERE way = 'out'",
    "letters_with_bytes": f"""CREATE INDEX letters_with_bytes ON letters (digest) WHERE {HAS_BYTES}""",
    # What waits because of a fault of this machine: see ``troubles.Trouble``.
    "troubles": """CREATE TABLE troubles (
        digest BLOB NOT NULL, folder TEXT NOT NULL, name TEXT NOT NULL, at TEXT NOT NULL, tries INTEGER NOT NULL,
        again REAL NOT NULL, reason TEXT NOT NULL, PRIMARY KEY (folder, name, digest)
    )""",
    "log_by_kind": "CREATE INDEX log_by_kind ON log (kind, key)",
    "pins": """CREATE TABLE pins (
        fingerprint TEXT PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, card BLOB NOT NULL, at TEXT NOT NULL,
        state TEXT NOT NULL, by TEXT NOT NULL, reason TEXT NOT NULL
    )""",
}

_MOST_HOURS = 24 * 3650
_Hours = Annotated[float, Field(ge=0.0, le=_MOST_HOURS, allow_inf_nan=False)]
Clock = Callable[[], datetime]


def utc_now() -> datetime:
    return datetime.now(UTC)


def reason_for_log(error: Exception) -> str:
    """What the log says about an error: texts of foreign exceptions may quote rows, so only their type."""
    return str(error) if isinstance(error, LikesetError) else type(error).__name__


def stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds")


# Addresses in settings.

_NO_SECRETS = (
    "contains a password, and settings are copied and shown; remove it: the keys of the login are used "
    "(~/.ssh for sftp, the usual files and variables for s3)"
)


def _checked_address(address: str) -> str:
    if not address.strip():
        raise ValueError("is empty; write file:///folder, sftp://user@host/folder or s3://bucket/folder")
    if without_secrets(address) != address:
        raise ValueError(_NO_SECRETS)
    if not unquote(address).isprintable():
        raise ValueError("contains a line break or another character that cannot be shown")
    return address


MailboxAddress = Annotated[str, AfterValidator(_checked_address)]


def checked_addresses(addresses: Iterable[str]) -> tuple[str, ...]:
    """The addresses, each once; an empty address or one with a password is refused."""
    checked = []
    for address in addresses:
        try:
            checked.append(_checked_address(address))
        except ValueError as error:
            raise InvalidArgument("--mailbox", without_secrets(address), str(error)) from None
    return tuple(dict.fromkeys(checked))


_FORM = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<first>\d{1,5})(-(?P<last>\d{1,5}))?")
_MOST_PORT = 65535
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - what must not be told to others


class TunnelPorts(NamedTuple):
    """A host and its ports, one for each run that is computed at the same time; port 0 is any that is free."""

    host: str  # its name or number
    ports: range

    @classmethod
    def parse(cls, setting: str, text: str) -> Self:
        match = _FORM.fullmatch(text)
        first = int(match["first"]) if match else 0
        last = int(match["last"] or first) if match else 0
        if match is None or not first <= last <= _MOST_PORT or (first == 0 and last != 0):
            reason = f"a split run needs HOST:PORT, or HOST:FIRST-LAST for several at a time, in {SETTINGS_FILE}"
            raise InvalidArgument(setting, text or "nothing", reason)
        return cls(match["host"].strip("[]"), range(first, last + 1))


class TunnelPlace(NamedTuple):
    """Where a home's tunnels listen, and where others reach them."""

    listen: TunnelPorts
    reach_at: TunnelPorts  # as many ports, in the same order

    def reached_at(self, port: int) -> tuple[str, int]:
        first, reached = self.listen.ports[0], self.reach_at.ports[0]
        return self.reach_at.host, reached + port - first if first and reached else reached or port


class Notify(Document):
    command: tuple[str, ...] = ()  # a program and its arguments; reads the event as JSON from standard input


PartyName = Annotated[str, AfterValidator(partial(checked_name, "name"))]


class Settings(Document):
    """``home.yaml``."""

    likeset: Literal["home"] = "home"
    version: Literal[1] = 1
    name: PartyName  # on its card and in terms
    roles: tuple[Role, ...] = Field(min_length=1)  # what this home does in runs
    mailboxes: tuple[MailboxAddress, ...] = ()  # addresses where letters come and go
    patience_hours: _Hours = 72.0  # how long a curator, or a party of a split run, waits for an owner's answer
    after_auction_hours: _Hours = 72.0  # after an auction, how long a curator delays receipts at least
    listen: str = ""  # in split runs, where this party listens for the two other compute parties
    reach_at: str = ""  # where they reach it, if that differs
    notify: Notify = Notify()  # whom to tell about events

    @property
    def patience(self) -> timedelta:
        return timedelta(hours=self.patience_hours)

    @property
    def tunnels(self) -> TunnelPlace:
        """Where this party listens in split runs; raises ``InvalidArgument`` if the settings do not say."""
        here = TunnelPorts.parse("listen", self.listen)
        there = TunnelPorts.parse("reach_at", self.reach_at or self.listen)
        if there.host in _EVERYWHERE or len(there.ports) != len(here.ports):
            reason = f"must name a host that others can call, with as many ports as listen; see {SETTINGS_FILE}"
            raise InvalidArgument("reach_at", self.reach_at, reason)
        return TunnelPlace(here, there)


def _settings_text(settings: Settings) -> str:
    def as_yaml(value: object) -> str:
        return yaml.safe_dump(value, default_flow_style=True, width=1000).strip().removesuffix("...").strip()

    return f"""\
likeset: home
version: 1
name: {as_yaml(settings.name)}
roles: {as_yaml(list(settings.roles))}

# Where letters come and go, as agreed with the others: file:///mnt/share, sftp://user@host/folder or s3://bucket/folder,
# never with a password in it.
mailboxes: {as_yaml(list(settings.mailboxes))}

# How many hours a curator, or a party of a split run, waits for an owner's answer. The run then goes on without that
# owner, if enough are left. It never goes on after the end of the terms.
patience_hours: {settings.patience_hours:g}

# After an auction, for how many hours a curator sends no receipt. Use at least patience_hours: otherwise the time
# of a receipt shows owners whether anybody was asked.
after_auction_hours: {settings.after_auction_hours:g}

# In runs with a split curator: where this party listens for the two other compute parties (HOST:PORT, or
# HOST:FIRST-LAST for several runs at a time), and where they reach it, if that differs. Nobody else is let in.
listen: "{settings.listen}"
reach_at: "{settings.reach_at}"

# The program that `likeset up` calls when a run waits, a deadline is a day away, a budget is at 80%, or a mailbox is
# unreachable: {{command: [PROGRAM, ARGUMENT, ...]}}.
notify: {as_yaml(settings.notify.model_dump(mode="json", by_alias=True, exclude_defaults=True))}
"""


_MOST_REFUSED = 100  # refusals that the log records for one run and day; further ones are dropped
_MOST_REASON = 600


class Home:
    """One party's directory. Several processes may use it at once; the database decides between them."""

    def __init__(self, folder: Path, *, clock: Clock = utc_now) -> None:
        self.folder, self.clock = folder, clock
        if not (folder / SETTINGS_FILE).is_file():
            reason = "is not a home; give --home DIR or LIKESET_HOME (new: `likeset init DIR --name NAME --role ROLE`)"
            raise InvalidArgument("--home", str(folder), reason)

    # Files.

    @property
    def settings(self) -> Settings:
        return documents.read(self.folder / SETTINGS_FILE, Settings)

    @cached_property
    def name(self) -> str:
        return self.settings.name

    @property
    def own_curator(self) -> Path | None:
        """The home of the curator of the same organisation, inside a consumer's; it has a card of its own."""
        folder = self.folder / CURATOR_FOLDER
        return folder if (folder / SETTINGS_FILE).is_file() else None

    @property
    def policy_file(self) -> Path:
        return self.folder / POLICY_FILE

    @property
    def card_file(self) -> Path:
        return self.folder / CARD_FILE

    @property
    def database_file(self) -> Path:
        return self.folder / DATABASE_FILE

    def set_mailboxes(self, addresses: Sequence[str]) -> None:
        """Write ``home.yaml`` anew; its comments are those of a new home."""
        changed = self.settings.model_copy(update={"mailboxes": checked_addresses(addresses)})
        documents.write_text(self.folder / SETTINGS_FILE, _settings_text(changed))

    def check_role(self, role: Role) -> None:
        if role not in self.settings.roles:
            roles = ", ".join(self.settings.roles)
            raise InvalidArgument("--home", str(self.folder), f"has no role {role}; home.yaml names {roles}")

    def sampling_key(self) -> int:
        """The owner's secret key; it decides which rows are drawn and how they are named toward others."""
        path = self.folder / KEY_FILE
        try:
            content = documents.bytes_in(path, most=100, missing="is missing; restore it from a copy", secret=True)
        except BadDocument as error:
            raise LedgerUnavailable(str(error)) from error
        if re.fullmatch(rb"[0-9a-f]{64}\s*", content) is None:  # a new one would draw other rows than before
            raise LedgerUnavailable(f"{path}: does not hold a key; restore it from a copy")
        return int(content, 16)

    # The card.

    @property
    def secret(self) -> CardSecret:
        """The keys of this home, read again if their file changed."""
        path = self.folder / SECRET_FILE
        files = [file.stat() for file in (path, self.card_file) if file.exists()]
        mark = [(file.st_ino, file.st_ctime_ns) for file in files]
        if self._loaded is None or self._loaded[0] != mark:
            self._loaded = mark, CardSecret.load(self.folder)
        return self._loaded[1]

    _loaded: tuple[object, CardSecret] | None = None

    @property
    def card(self) -> Card:
        return self.secret.card

    def make_card(self, *, by: str, new: bool = False) -> tuple[Card, tuple[Path, ...]]:
        """Make the card of this home; with ``new`` in place of one that was stolen or lost, whose files are kept."""
        if not new:
            for path in (self.card_file, self.folder / SECRET_FILE):
                if path.exists():
                    reason = "exists, and keys are never overwritten; if they were stolen or lost, add --new"
                    raise InvalidArgument("card", path, reason)
        secret, old = CardSecret.generate(self.name), ""
        with suppress(BadDocument):  # lost
            old = read_card(self.card_file).fingerprint
        self.note("card", "", state="own", name=secret.card.name, fingerprint=secret.card.fingerprint, by=by)
        before = self._set_card_aside() if new else ()
        secret.write(self.folder)
        self._renew_own_pin(secret.card, old, by=by)
        return secret.card, before

    def _renew_own_pin(self, card: Card, old: str, *, by: str) -> None:
        """Pin the new card in the other home of this organisation: a consumer's, or that of its own curator."""
        role: Role = "consumer"
        partner, place = self.own_curator, self.folder.absolute()
        if partner is None:
            if place.name != CURATOR_FOLDER or not (place.parent / SETTINGS_FILE).is_file():
                return
            role, partner = "curator", place.parent
        with Home(partner, clock=self.clock) as other:
            for pin in other.pins.pinned():
                if pin.card.name == card.name or pin.card.fingerprint == old:  # home.yaml may have another name now
                    other.pins.revoke(pin.card.fingerprint, "it has a new card", by=by)
            other.pins.pin(card, role, by=by)

    def _set_card_aside(self) -> tuple[Path, ...]:
        """Rename both files of the card; a crash in between leaves a state from which calling it again goes on."""
        marked = f"until-{self.clock().astimezone(UTC):%Y%m%dT%H%M%SZ}"
        files = [path for path in (self.folder / SECRET_FILE, self.card_file) if path.exists()]
        aside = [path.with_name(f"{path.name}.{marked}") for path in files]
        for path, place in zip(files, aside, strict=True):
            if place.exists():
                raise InvalidArgument("card", place, "exists; try again in a second")
            path.rename(place)
        return tuple(aside)

    # The database.

    @cached_property
    def database(self) -> Ledger:
        if not self.database_file.exists():
            raise InvalidArgument("--home", str(self.folder), f"has no {DATABASE_FILE}; restore it from a backup")
        return Ledger(self.database_file, tables=TABLES, clock=self.clock)

    def deciding(self) -> AbstractContextManager[Transaction]:
        """One write transaction; everything that is decided in it is still true when it ends."""
        return self.database.deciding()

    def note(self, kind: str, about: str, **values: Any) -> None:
        self.database.append(kind, about, values)

    def refused(self, about: str, error: Exception | str) -> None:
        """Log why something was refused; never raises, since that could sound different to the other side."""
        reason = reason_for_log(error) if isinstance(error, Exception) else error
        try:
            latest = self._last_entries("refused", about[:100], most=_MOST_REFUSED)
            count = sum(entry["at"][:10] == stamp(self.clock())[:10] for entry in latest)
            if count < _MOST_REFUSED:
                more = {"more": "further refusals of this day are not logged"} if count == _MOST_REFUSED - 1 else {}
                self.note("refused", about[:100], reason=reason[:_MOST_REASON], **more)
        except (LikesetError, OSError):
            pass

    def _last_entries(self, kind: str, about: str = "", *, most: int = 1) -> list[Any]:
        """The last entries of a kind in the log, newest first."""
        query = "SELECT body FROM log WHERE kind = ? AND key = ? ORDER BY number DESC LIMIT ?"
        with self.database.snapshot() as connection:
            return [json.loads(body) for (body,) in connection.execute(query, (kind, about, most))]

    @property
    def policy_in_log(self) -> tuple[str, str] | None:
        """Digest of the policy that is in force, and the owner's name with it."""
        return next(((entry["digest"], entry["name"]) for entry in self._last_entries("policy")), None)

    def check_running(self) -> None:
        """Raise ``HomeRestored`` if this home was found to be restored from an old backup."""
        for entry in self._last_entries("stopped"):
            raise HomeRestored(entry["at"])

    @property
    def stopped(self) -> str:
        """Why this home was stopped; empty if it works."""
        try:
            self.check_running()
        except HomeRestored as error:
            return str(error)
        return ""

    def stop(self, reason: str) -> None:
        self.note("stopped", "", reason=reason)
        self.check_running()

    @contextmanager
    def held_by_up(self) -> Iterator[None]:
        """Hold the lock of the one process that runs this home permanently; raises if another one holds it."""
        path = self.folder / UP_FILE
        with locked(path) as descriptor:
            if descriptor is None:
                number = path.read_text(encoding="ascii", errors="replace")
                reason = f"`likeset up` runs it already, as process {number}; stop that first, or use `likeset sync`"
                raise InvalidArgument("HOME", self.folder, reason)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode("ascii"), 0)
            yield

    # Room on the disk: a steward denies and withdraws when there is none left.

    @property
    def full_disk(self) -> str:
        """Which disk is full, in words; empty if there is room."""
        free = shutil.disk_usage(self.folder).free
        full = f"the disk of {self.folder} is full ({free / 1e6:.1f} MB free): make room there"
        return full if free < RESERVE_BYTES else ""

    def keep_reserve(self) -> None:
        path, free = self.folder / RESERVE_FILE, shutil.disk_usage(self.folder).free
        with suppress(OSError):
            if not path.exists():
                keep_private_bytes(path, bytes(min(RESERVE_BYTES, free)))

    def make_room(self) -> None:
        """On a full disk, give up the reserve until this home is closed."""
        if self.full_disk:
            self._gave_reserve = True
            (self.folder / RESERVE_FILE).unlink(missing_ok=True)

    _gave_reserve = False

    def close(self) -> None:
        if "database" in self.__dict__:
            self.database.close()
            del self.__dict__["database"]
        if self._gave_reserve:
            self.keep_reserve()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Keys of runs.

    def _key_path(self, digest: bytes) -> Path:
        return self.folder / KEYS_FOLDER / digest.hex()

    def run_key(self, digest: bytes) -> SealingSecret | None:
        """The key that opens letters of a run; None once it was deleted."""
        try:
            return SealingSecret.from_bytes(self._key_path(digest).read_bytes())
        except FileNotFoundError:
            return None

    def make_run_key(self, digest: bytes) -> SealingSecret:
        """The key of a run, durable before anything is signed with it; the first one that was made counts."""
        known = self.run_key(digest)
        if known is None:
            make_private_folder(self.folder / KEYS_FOLDER)
            known = SealingSecret.generate()
            keep_private_bytes(self._key_path(digest), known.to_bytes())
        return known

    def run_keys(self) -> set[str]:
        """The names of all files of keys: digests of terms, and files that were not finished."""
        folder = self.folder / KEYS_FOLDER
        return {path.name for path in folder.iterdir()} if folder.exists() else set()

    def delete_run_key(self, digest: bytes | str) -> None:
        name = digest if isinstance(digest, str) else digest.hex()
        (self.folder / KEYS_FOLDER / name).unlink(missing_ok=True)

    # Pinned cards.

    @cached_property
    def pins(self) -> "Pins":
        return Pins(self)


_COLUMNS = "card, role, at, state, by, reason"
_card = lru_cache(maxsize=4096)(Card.from_bytes)  # parsing one verifies a signature


class Pins:
    """The cards that a person pinned in a home; each change is in the log, in the same transaction."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def all(self) -> tuple[Pin, ...]:
        return self._select("ORDER BY name, at, fingerprint")

    def by_fingerprint(self, fingerprint: str) -> Pin | None:
        """The card of a fingerprint, whatever became of it; None if it was never pinned."""
        return next(iter(self._select("WHERE fingerprint = ?", typed(fingerprint))), None)

    def get(self, name: str) -> Pin | None:
        return next(iter(self._select("WHERE name = ? AND state = 'pinned'", name)), None)

    def pinned(self, *roles: Role) -> list[Pin]:
        return [pin for pin in self.all() if pin.state == "pinned" and (not roles or pin.role in roles)]

    def chosen(self, role: Role, name: str | None, *, setting: str) -> Card:
        """The card that is pinned in a role: that of a name, or the only one; ``setting`` is where one is named."""
        how = f"invite it (likeset invite NAME --as {role}), or after a call: likeset card pin FILE --as {role}"
        if name is None:
            pins = self.pinned(role)
            if len(pins) != 1:
                names = ", ".join(pin.card.name for pin in pins)
                reason = (
                    f"several {role}s are pinned here; name one of them: {names}" if pins else f"none is pinned; {how}"
                )
                raise InvalidArgument(setting, "none", reason)
            return pins[0].card
        pin = self.get(name)
        if pin is None:
            hint = near_miss(name, {other.card.name for other in self.pinned(role)})
            raise InvalidArgument(setting, name, f"no card of that name is pinned here{hint}; {how}")
        if role != pin.role:
            third = (
                "; a witness is a third organisation, which has no other part in the run" if role == "witness" else ""
            )
            raise InvalidArgument(setting, name, f"its card is pinned here with the role {pin.role}, not {role}{third}")
        return pin.card

    def pin(
        self,
        card: Card,
        role: Role,
        *,
        fingerprint: str | None = None,
        by: str = "",
        introduced_by: str = "",
        belongs_to: str = "",
    ) -> Pin:
        """Pin a card; ``fingerprint`` as its party read it out, None if a person compared it already.

        ``introduced_by`` names the party on whose word it is pinned, if nobody here talked to its holder;
        ``belongs_to`` the consumer whose own curator it is.
        """
        if fingerprint is not None:
            check_fingerprint(fingerprint, card)
        with self._home.deciding() as t:
            if known := self.check_pin(card, role):
                return known
            # A new card of a consumer's own curator belongs to that consumer, too.
            before = [pin.by for pin in self.all() if (pin.card.name, pin.role) == (card.name, role)]
            owner = belongs_to or next(filter(None, before), "")
            return self._write(t, Pin(card, role, stamp(self._home.clock()), by=owner, reason=introduced_by), by)

    def check_pin(self, card: Card, role: Role) -> Pin | None:
        """Raise unless a card may be pinned, before a person compares it; its pin if that was done already."""
        one_of("role", role, get_args(Role))
        self._check_not_own(card)
        known, holder = self.by_fingerprint(card.fingerprint), self.get(card.name)
        if known is not None and known.state != "pinned":
            reason = f"was revoked on {known.at} and never counts again; ask {card.name} for a new card"
        elif known is not None and known.role != role:
            reason = f"is pinned as {known.role}; a card has one role here: let {card.name} make another for {role}"
        elif known is None and holder is not None:
            reason = (
                f"has the name of a pinned {holder.role}'s card {holder.card.fingerprint}; if this card follows it, "
                "revoke that one first, and if it is another party, let it choose another name"
            )
        else:
            return None if known is None or known.introduced_by else known
        raise InvalidArgument("card", card.fingerprint, reason)

    def revoke(self, name_or_fingerprint: str, reason: str, *, by: str = "") -> Pin:
        """Mark a pinned card of a name, or any card of a fingerprint: it never counts again."""
        if not reason.strip():
            raise InvalidArgument("reason", reason, "must say why")
        with self._home.deciding() as t:
            pin = self.get(name_or_fingerprint)
            with suppress(InvalidArgument):  # no fingerprint
                pin = pin or self.by_fingerprint(name_or_fingerprint)
            if pin is None:
                hint = near_miss(name_or_fingerprint, {pin.card.name for pin in self.pinned()})
                raise InvalidArgument("card", name_or_fingerprint, f"no card of that name is pinned{hint}")
            at = stamp(self._home.clock())
            return self._write(t, Pin(pin.card, pin.role, at, "revoked", by=pin.by, reason=reason), by)

    def fault(self, role: Role, fingerprint: str) -> str:
        """Why a card does not count here in a role, with the remedy; empty if it does."""
        pin = self.by_fingerprint(fingerprint)
        if pin is None:
            return (
                f"the card of the {role} is not pinned here ({fingerprint}): compare the fingerprint with them by "
                "telephone, then pin it with `likeset card pin`"
            )
        if pin.state != "pinned":
            return f"the card of the {role} was {pin.state} here ({fingerprint})"
        if pin.role != role:
            return f"the card of the {role} is pinned here with the role {pin.role} ({fingerprint})"
        return ""

    def is_given_up(self, fingerprint: str) -> bool:
        """Whether a card was pinned here and is no longer: whatever the terms say, it is not heard."""
        pin = self.by_fingerprint(fingerprint)
        return pin is not None and pin.state != "pinned"

    def _check_not_own(self, card: Card) -> None:
        """Refuse this home's own card, and others of its name: terms that speak of a name mean one card."""
        own = self._home.card if self._home.card_file.exists() else None
        if own is not None and own.name == card.name:
            reason = "is this home's own name; ask the other party for its card, with another name on it"
            raise InvalidArgument("card", card.name, reason)

    def _select(self, which: str, *values: str) -> tuple[Pin, ...]:
        with self._home.database.snapshot() as connection:
            rows = connection.execute(f"SELECT {_COLUMNS} FROM pins {which}", values).fetchall()  # noqa: S608
        return tuple(Pin(_card(row[0]), *row[1:]) for row in rows)

    def _write(self, t: Transaction, pin: Pin, by: str) -> Pin:
        entry = {"state": pin.state, "name": pin.card.name, "role": pin.role, "fingerprint": pin.card.fingerprint}
        why = "introduced_by" if pin.introduced_by else "reason"
        more = {word: value for word, value in (("belongs_to", pin.by), (why, pin.reason), ("by", by)) if value}
        t.append("card", "", entry | more)
        card = pin.card
        row = (card.fingerprint, card.name, pin.role, card.to_bytes(), pin.at, pin.state, pin.by, pin.reason)
        t.connection.execute("INSERT OR REPLACE INTO pins VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        return pin


def make_home(
    folder: Path,
    *,
    name: str,
    roles: Sequence[Role],
    mailboxes: Sequence[str] = (),
    listen: str = "",
    reach_at: str = "",
    by: str = "",
) -> Home:
    """Make a home: settings, a card, an empty database; for an owner also a sampling key and ``owner.yaml``."""
    for role in roles:
        one_of("--role", role, get_args(Role))
    checked_name("name", name)
    addresses = checked_addresses(mailboxes)
    settings = Settings(name=name, roles=tuple(roles), mailboxes=addresses, listen=listen, reach_at=reach_at)
    if listen or reach_at:
        _ = settings.tunnels
    make_home_folder(folder)
    card = CardSecret.generate(name)
    card.write(folder)
    if "owner" in roles:
        keep_private_bytes(folder / KEY_FILE, f"{secrets.randbits(256):064x}\n".encode())
        documents.write_text(folder / POLICY_FILE, policy_text(NO_RULES))
    with Ledger(folder / DATABASE_FILE, tables=TABLES) as database:
        entry = {"state": "own", "name": name, "fingerprint": card.card.fingerprint, **({"by": by} if by else {})}
        database.append("card", "", entry)
    documents.write_text(folder / SETTINGS_FILE, _settings_text(settings))  # last: with it the home is there
    return Home(folder)


def make_party(folder: Path, *, name: str, roles: Sequence[Role], **settings: Any) -> Home:
    """Make the home of an organisation. One that is consumer and curator gets two, since a card has one role elsewhere.

    The curator's lies in the consumer's, and each has pinned the other's card.
    """
    if not {"consumer", "curator"} <= set(roles):
        return make_home(folder, name=name, roles=roles, **settings)
    outer = [role for role in roles if role != "curator"]
    checked_name("name", f"{name}-curator")
    home = make_home(folder, name=name, roles=outer, **settings)
    with make_home(folder / CURATOR_FOLDER, name=f"{name}-curator", roles=["curator"], **settings) as curator:
        home.pins.pin(curator.card, "curator", by=settings.get("by", ""))
        curator.pins.pin(home.card, "consumer", by=settings.get("by", ""))
    return home
