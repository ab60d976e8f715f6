"""A site's own side of a run between organisations: what it lets in, what it says, what it keeps to itself.

The site's own configuration, never the job, names the function that makes its party: ``likeset_site.json`` in the
site's own folder of settings,

    {"factory": "package.module:function", "folder": "/var/lib/likeset/{site}"}

Whatever goes wrong here, the other side hears one word out of a fixed set; the reason is written into a file of the
site. An error text, a traceback or a different word for a different reason would be a release that nobody priced.

Where the module of the factory also has a function ``refused(folder, reason)``, it is told what was refused before the
party was reached: an owner's node writes that into its audit log, beside what it refuses itself.
"""

import contextlib
import importlib
import json
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from likeset.errors import BadDocument, BadMessage, IllegalMessage, InvalidArgument, LikesetError
from likeset.homes.expiry import check_not_expired, utc_now
from likeset.homes.shell import ConsumerShell
from likeset.homes.site_party import ABSTAINS, NOTED, READY, WAITING, Abstains, Noted, SiteParty, Standing
from likeset.private_files import make_private_folder
from likeset.protocol.foreign_terms import MOST_TEXT, read_foreign_canonical
from likeset.protocol.messages import MOST_BYTES, Summary, decode
from likeset.protocol.terms import Terms

__all__ = [
    "CALLS_AFTER_AUCTION",
    "MOST_RUNS",
    "REASONS_FILE",
    "SETTINGS_FILE",
    "Factory",
    "SiteParties",
    "SiteSettings",
    "load_settings",
    "load_terms",
    "most_receipt_bytes",
]

SETTINGS_FILE = "likeset_site.json"
REASONS_FILE = "abstentions.jsonl"

_Answer = TypeVar("_Answer")

MOST_RUNS = 100
"""Runs in one job."""

CALLS_AFTER_AUCTION = 3.0
"""How many calls' time a run with an auction lasts after it, unless a site's settings say otherwise."""

_MOST_REASONS = 1 << 23  # bytes in the file of reasons and in the one before it: a flood must not fill the disk
_HEAD = 1 << 21
_PER_COORDINATE = 64  # bytes of a release, with its coordinates, and room to spare
_RECEIPT_HEAD, _RECEIPT_PER_ROUND, _LARGEST_RECEIPT = 1 << 14, 1 << 11, 1 << 25


Factory = Callable[[Terms, str, Path], SiteParty | None]
"""Makes a site's party from the terms, the party's name in them, and the site's own folder. None while somebody at the
site has still to decide; an error of likeset where the site does not take part. An owner's party must know, also after
a restart, what it answered, and refuse another message in its place, as an owner's home does by its ledger."""


@dataclass(frozen=True)
class SiteSettings:
    """What a site's own configuration says.

    Attributes:
        factory: makes its party.
        folder: the site's own, for its ledger, its rows, its reasons.
        refused: told what was refused before the party was reached; None where nobody wants to know.
        seconds_per_call: at the curator: how long an owner may take for one answer.
        seconds_for_decisions: at the curator: how long it waits for people to decide whether they take part.
        seconds_after_auction: at the curator: a run with an auction ends no sooner after owners heard whether they are
            asked, whoever was. All sites see when a job ends. Three times ``seconds_per_call`` where settings
            do not say.
        most_bytes: no message to this site may be larger; NVFlare keeps to it where the site was settled.
    """

    factory: Factory
    folder: Path
    refused: Callable[[Path, str], None] | None = None
    seconds_per_call: float = 60.0
    seconds_for_decisions: float = 0.0
    seconds_after_auction: float = CALLS_AFTER_AUCTION * 60.0
    most_bytes: int = 1 << 28


def load_settings(place: Path, site: str) -> SiteSettings:
    """The settings of a site, from ``likeset_site.json`` in its own folder of settings."""
    path = place / SETTINGS_FILE
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadDocument(str(path), "cannot be read; this site has no likeset settings") from error
    except ValueError as error:
        raise BadDocument(str(path), "is not JSON") from error
    known = {"factory", "folder", "seconds_per_call", "seconds_for_decisions", "seconds_after_auction", "most_bytes"}
    if not isinstance(document, dict) or not {"factory", "folder"} <= set(document) <= known:
        raise BadDocument(str(path), f"must name factory and folder, and nothing but {', '.join(sorted(known))}")
    numbers = {name: _number(path, name, document[name]) for name in sorted(set(document) - {"factory", "folder"})}
    per_call = numbers.get("seconds_per_call", SiteSettings.seconds_per_call)
    numbers.setdefault("seconds_after_auction", CALLS_AFTER_AUCTION * per_call)
    if "most_bytes" in numbers:
        numbers["most_bytes"] = min(int(numbers["most_bytes"]), MOST_BYTES)
    if not isinstance(document["folder"], str):
        raise BadDocument(str(path), "must be text", field="folder")
    folder = Path(document["folder"].replace("{site}", site))
    factory, refused = _functions(path, document["factory"])
    return SiteSettings(factory, folder, refused, **numbers)  # type: ignore[arg-type]


def _number(path: Path, name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise BadDocument(str(path), "must be a number, 0 or larger", field=name)
    return value


def _functions(path: Path, name: object) -> tuple[Factory, Callable[[Path, str], None] | None]:
    module, _, function = name.partition(":") if isinstance(name, str) else ("", "", "")
    try:
        named = importlib.import_module(module)
        found: Any = getattr(named, function)
    except (ImportError, AttributeError, ValueError) as error:
        raise BadDocument(str(path), "must be package.module:function, installed at this site", field="factory") from (
            error
        )
    factory: Factory = found
    return factory, getattr(named, "refused", None)


def load_terms(folder: Path) -> dict[str, Terms]:
    """The terms that came with a job, by their digests as computed here; a text that is not canonical is refused."""
    found: dict[str, Terms] = {}
    paths = sorted(folder.glob("terms-*.json"))
    if len(paths) > MOST_RUNS:
        raise InvalidArgument("terms", f"of {len(paths)} runs", f"a job may name at most {MOST_RUNS}")
    for path in paths:
        try:
            with path.open(encoding="utf-8") as file:
                text = file.read(MOST_TEXT + 1)
            terms = read_foreign_canonical(text)
        except (BadMessage, UnicodeDecodeError) as error:
            raise InvalidArgument("terms", path.name, "is too long, or not the canonical text of terms") from error
        if path.name != f"terms-{terms.digest}.json":
            raise InvalidArgument("terms", path.name, "is not the canonical text of the terms with that digest")
        found[terms.digest] = terms
    if not found:
        raise InvalidArgument("terms", "none", "the job names no terms")
    return found


def most_receipt_bytes(terms: Terms) -> int:
    """No receipt of a run needs more: it has a few lines for each round."""
    rounds = terms.size if terms.protocol == "interactive" else 2
    return min(_RECEIPT_HEAD + _RECEIPT_PER_ROUND * rounds, _LARGEST_RECEIPT)


@dataclass
class SiteParties:
    """All parties of a site in one job, and the only way to them.

    Args:
        site: the site's name, which is its party's name in the terms.
        terms: of the job's runs, by digest.
        settings: the site's own.
        clock: tells the time, to see whether terms have ended.
    """

    site: str
    terms: Mapping[str, Terms]
    settings: SiteSettings
    clock: Callable[[], datetime] = utc_now
    _parties: dict[str, SiteParty] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _its_own: bool = field(default=False, init=False)  # whether code of the site's own is at work

    def standing(self, digest: str) -> Standing:
        """Whether the site takes part under these terms: ready, waiting for a decision, or it abstains."""

        def look() -> Standing:
            return READY if self._party_under(digest) is not None else WAITING

        return self._quietly(look)

    def start(self, digest: str) -> list[bytes] | Abstains:
        """What the consumer says first."""

        def say() -> list[bytes]:
            consumer = self._taken(digest).party
            if not isinstance(consumer, ConsumerShell):
                raise IllegalMessage("an owner was asked to start a run")
            if consumer.terms.digest != digest:
                raise IllegalMessage("the site made a consumer under other terms")
            return [message.data for message in consumer.start()]

        return self._quietly(say)

    def hear(self, data: bytes) -> list[bytes] | Abstains:
        """The replies to a message."""

        def answer() -> list[bytes]:
            message = decode(data, most_bytes=self._most_bytes())
            at_site = self._taken(message.terms)
            replies = [reply.data for reply in self._asked(lambda: at_site.party.take(message))]
            if at_site.keep is not None and isinstance(message.body, Summary):
                at_site.keep(data)
            return replies

        return self._quietly(answer)

    def acknowledge(self, digest: str, data: bytes) -> Noted:
        """Take the curator's receipt for this owner; whatever becomes of it, the answer is the same."""

        def take() -> None:
            terms = self._agreed(digest)
            if self.site not in terms.owners:
                raise IllegalMessage(f"{self.site} is no owner in run {terms.run}, and is sent no receipts")
            if not isinstance(data, bytes) or len(data) > most_receipt_bytes(terms):
                raise IllegalMessage(f"run {terms.run}: a receipt that is too large, or none")
            # Also when the terms have ended: it is about what left before that.
            at_site = self._parties.get(digest) or self._made(terms)
            if at_site is None or at_site.keep_receipt is None:
                raise IllegalMessage(f"run {terms.run}: nobody here keeps receipts, or has decided yet")
            keep = at_site.keep_receipt
            self._asked(lambda: keep(data))

        self._quietly(take)
        return NOTED

    def refuse(self, reason: str) -> Abstains:
        """Answer with the one word, and write down why."""

        def no() -> Abstains:
            raise IllegalMessage(reason)

        return self._quietly(no)

    def _most_bytes(self) -> int:
        """An owner hears releases and yes or no; only a consumer is sent rows."""
        if any(terms.consumer == self.site for terms in self.terms.values()):
            return self.settings.most_bytes
        return _HEAD + _PER_COORDINATE * max(terms.kernel.dimension for terms in self.terms.values())

    def _taken(self, digest: str) -> SiteParty:
        at_site = self._party_under(digest)
        if at_site is None:
            raise IllegalMessage("nobody at this site has decided yet")
        return at_site

    def _party_under(self, digest: str) -> SiteParty | None:
        """The party under terms of this job; made when it is first needed, and asked for again until it is there."""
        terms = self._agreed(digest)
        check_not_expired(terms, self.clock())
        if self.site != terms.consumer and self.site not in terms.owners:
            raise IllegalMessage(f"{self.site} is no party of run {terms.run}")
        if digest in self._parties and self._parties[digest].party.failed:
            del self._parties[digest]  # made anew, from what its home has on record
        if digest not in self._parties:
            at_site = self._made(terms)
            if at_site is None:
                return None
            self._asked(lambda: _check_present(at_site, terms))
            self._parties[digest] = at_site
        return self._parties[digest]

    def _agreed(self, digest: str) -> Terms:
        if digest not in self.terms:
            raise IllegalMessage("it is under terms that did not come with this job")
        return self.terms[digest]

    def _made(self, terms: Terms) -> SiteParty | None:
        at_site = self._asked(lambda: self.settings.factory(terms, self.site, self.settings.folder))
        if at_site is not None and at_site.party.name != self.site:
            raise IllegalMessage("the site made a party of another name")
        return at_site

    def _asked(self, work: Callable[[], _Answer]) -> _Answer:
        """The result of code of the site's own; what that refuses, it writes down itself."""
        self._its_own = True
        found = work()
        self._its_own = False
        return found

    def _quietly(self, work: Callable[[], _Answer]) -> _Answer | Abstains:
        """The result of some work, or the one word; one message after the other."""
        with self._lock:
            self._its_own = False
            try:
                return work()
            except LikesetError as error:
                self._note(f"{type(error).__name__}: {error}")
            except Exception as error:
                # Texts of other errors may quote rows.
                self._note(type(error).__name__)
            return ABSTAINS

    def _note(self, reason: str) -> None:
        """Into the site's own file. Not into a log: NVFlare can be set to send those to the server."""
        if self.settings.refused is not None and not self._its_own:
            with contextlib.suppress(Exception):  # must not sound different to the other side
                self.settings.refused(self.settings.folder, reason)
        line = json.dumps({"time": self.clock().isoformat(), "reason": reason})
        try:
            make_private_folder(self.settings.folder)
            path = self.settings.folder / REASONS_FILE
            if path.exists() and path.stat().st_size > _MOST_REASONS:
                path.replace(path.with_name(path.name + ".1"))  # what is newest is there, whatever came before
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(descriptor, "a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError:
            return  # a full disk must not sound different to the other side


def _check_present(at_site: SiteParty, terms: Terms) -> None:
    if at_site.absent:
        raise IllegalMessage(f"run {terms.run}: this site does not take part; its own records say why")
