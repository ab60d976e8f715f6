"""A site's own side of a run between organisations: what it lets in, what it says, what it keeps to itself.

Letters come in and letters go out; who wrote them is found out at the site's home (``homes.site_run``). The site's own
configuration, never the job, says where that is: ``likeset_site.json`` in the site's own folder of settings. In a
start-up kit it names the socket of the home's own process, and the home's user (``home_socket``):

    {"socket": "/run/likeset-st-mary/home.sock", "home_user": "likeset"}

NVFlare's simulator, in which all sites are one user's, makes the sites' sides of a run in its own processes:

    {"factory": "package.module:function", "folder": "/var/lib/likeset/{site}"}

Whatever goes wrong here, the other side hears one word out of a fixed set; the reason is written into a file of the
site. An error text, a traceback or a different word for a different reason would be a release that nobody priced.

Where the module of the factory also has a function ``refused(folder, reason)``, it is told what was refused before the
home was reached: an owner's node writes that into its audit log, beside what it refuses itself.
"""

import contextlib
import importlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from likeset.errors import (
    BadDocument,
    BadMessage,
    IllegalMessage,
    InvalidArgument,
    LikesetError,
    TermsExpired,
)
from likeset.homes.home import ABSTAINS, READY, WAITING, Abstains, Standing
from likeset.homes.mail import (
    ConsumerRun,
    Factory,
    Invitation,
    OwnerRun,
    SiteRun,
    check_not_expired,
    most_bytes_to_owner,
    utc_now,
)
from likeset.protocol.terms import Terms
from likeset.protocol.wire import MOST_BYTES
from likeset.transports.site_reasons import note_reason
from likeset.trust.letters import (
    MOST_ACCEPTANCE_BYTES,
    MOST_TERMS_BYTES,
    Acceptance,
    Stub,
    is_acceptance,
    is_stub,
    letter_in,
)

SETTINGS_FILE = "likeset_site.json"

_Answer = TypeVar("_Answer")

MOST_RUNS = 100
"""Runs in one job."""

CALLS_AFTER_AUCTION = 3.0
"""How many calls' time a run with an auction lasts after it, unless a site's settings say otherwise."""

_SOCKET = frozenset({"socket", "home_user"})
_WHERE = (_SOCKET, frozenset({"factory", "folder"}))


@dataclass(frozen=True, kw_only=True)
class SiteLimits:
    """How long and how large, as a site's own configuration says.

    Attributes:
        seconds_per_call: at the curator: how long an owner may take for one answer.
        seconds_for_decisions: at the curator: how long it waits for people to decide whether they take part.
        seconds_after_auction: at the curator: a run with an auction ends no sooner after owners heard whether they are
            asked, whoever was. All sites see when a job ends. Three times ``seconds_per_call`` where settings
            do not say.
        most_bytes: no letter to this site may be larger; NVFlare keeps to it where the site was settled.
    """

    seconds_per_call: float = 60.0
    seconds_for_decisions: float = 0.0
    seconds_after_auction: float = CALLS_AFTER_AUCTION * 60.0
    most_bytes: int = 1 << 28


@dataclass(frozen=True)
class SiteSettings(SiteLimits):
    """Of a site that makes its side of a run in this process.

    Attributes:
        factory: makes its side of a run.
        folder: the site's own, for its ledger, its rows, its reasons.
        refused: told what was refused before the home was reached; None where nobody wants to know.
    """

    factory: Factory
    folder: Path
    refused: Callable[[Path, str], None] | None = None


@dataclass(frozen=True)
class SocketSettings(SiteLimits):
    """Of a site whose home has a process of its own.

    Attributes:
        socket: where that listens.
        home_user: whose process it is, by name or number; nobody else is spoken to.
    """

    socket: Path
    home_user: str | int


def load_settings(place: Path, site: str) -> SiteSettings | SocketSettings:
    path = place / SETTINGS_FILE
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadDocument(str(path), "cannot be read; this site has no likeset settings") from error
    except ValueError as error:
        raise BadDocument(str(path), "is not JSON") from error
    limits = {limit.name for limit in fields(SiteLimits)}
    said = set(document) if isinstance(document, dict) else set()
    where = next((names for names in _WHERE if names == said - limits), None)
    if where is None:
        reason = f"must name socket and home_user, or factory and folder, and nothing but {', '.join(sorted(limits))}"
        raise BadDocument(str(path), reason)
    numbers = {name: _number(path, name, document[name]) for name in sorted(said & limits)}
    per_call = numbers.get("seconds_per_call", SiteSettings.seconds_per_call)
    numbers.setdefault("seconds_after_auction", CALLS_AFTER_AUCTION * per_call)
    if "most_bytes" in numbers:
        numbers["most_bytes"] = min(int(numbers["most_bytes"]), MOST_BYTES)
    for name in sorted(where - {"home_user", "factory"}):
        if not isinstance(document[name], str):
            raise BadDocument(str(path), "must be text", field=name)
    if where == _SOCKET:
        if not isinstance(document["home_user"], str | int):
            raise BadDocument(str(path), "must be the name or the number of a user", field="home_user")
        return SocketSettings(Path(document["socket"]), document["home_user"], **numbers)  # type: ignore[arg-type]
    if (place.parent / "startup" / "start.sh").exists():
        reason = "lets NVFlare's process into the home, as older versions did; call `likeset site` for this kit again"
        raise BadDocument(str(path), reason, field="factory")
    factory, refused = site_functions(path, document["factory"])
    folder = Path(document["folder"].replace("{site}", site))
    return SiteSettings(factory, folder, refused, **numbers)  # type: ignore[arg-type]


def _number(path: Path, name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise BadDocument(str(path), "must be a number, 0 or larger", field=name)
    return value


def site_functions(path: Path, name: object) -> tuple[Factory, Callable[[Path, str], None] | None]:
    """What makes a site's side of a run, and what is told of refusals, by ``package.module:function`` in a file."""
    module, _, function = name.partition(":") if isinstance(name, str) else ("", "", "")
    try:
        named = importlib.import_module(module)
        factory: Factory = getattr(named, function)
    except (ImportError, AttributeError, ValueError) as error:
        raise BadDocument(str(path), "must be package.module:function, installed at this site", field="factory") from (
            error
        )
    return factory, getattr(named, "refused", None)


def file_of_invitation(digest: str) -> str:
    """What the file of signed terms is called in a job, by the digest of the terms."""
    return f"invitation-{digest}.bin"


def invitation_files(folder: Path) -> list[tuple[str, bytes]]:
    """The files of signed terms that came with a job, by name; nothing in them is looked at.

    Raises:
        InvalidArgument: there are none or too many.
    """
    paths = sorted(folder.glob(file_of_invitation("*")))
    if not 0 < len(paths) <= MOST_RUNS:
        raise InvalidArgument("invitations", f"to {len(paths)} runs", f"a job has 1 to {MOST_RUNS}")
    return [(path.name, _beginning(path)) for path in paths]


def open_invitations(files: Sequence[tuple[str, bytes]]) -> dict[str, Invitation]:
    """The signed terms in the files of a job, by the digests of the terms as computed here.

    Raises:
        InvalidArgument: there are none or too many, or one of them cannot be used.
    """
    if not 0 < len(files) <= MOST_RUNS:
        raise InvalidArgument("invitations", f"to {len(files)} runs", f"a job has 1 to {MOST_RUNS}")
    invited = {}
    for name, data in files:
        try:
            invitation = Invitation.read(data)
        except LikesetError as error:
            raise InvalidArgument("invitation", name, f"cannot be used: {error}") from error
        if name != file_of_invitation(invitation.terms.digest):
            raise InvalidArgument("invitation", name, "holds other terms than those with that digest")
        invited[invitation.terms.digest] = invitation
    if len({invitation.terms.run_id for invitation in invited.values()}) < len(invited):
        raise InvalidArgument("invitations", "several of one run id", "a letter would not tell to which it belongs")
    return invited


def load_invitations(folder: Path) -> dict[str, Invitation]:
    """The signed terms that came with a job; see ``open_invitations``."""
    return open_invitations(invitation_files(folder))


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MOST_TERMS_BYTES + 1)


@dataclass
class SiteParties:
    """All sides that a site has in the runs of one job, and the only way to them.

    Args:
        site: the site's name, which is its party's name in the terms.
        invitations: the signed terms of the job's runs, by the digests of the terms.
        settings: the site's own.
        clock: tells the time, to see whether terms have ended.
    """

    site: str
    invitations: Mapping[str, Invitation]
    settings: SiteSettings
    clock: Callable[[], datetime] = utc_now
    _runs: dict[str, SiteRun] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _its_own: bool = field(default=False, init=False)  # whether code of the site's own is at work

    def standing(self, digest: str) -> bytes | Standing:
        """What the site signs to take part under these terms, or that it waits for a decision, or abstains.

        The consumer, who signed the terms, is ready.
        """

        def look() -> bytes | Standing:
            run = self._run_under(digest)
            if run is None:
                return WAITING
            return READY if isinstance(run, ConsumerRun) else self._asked(run.acceptance)

        return self._quietly(look)

    def start(self, digest: str, acceptances: Sequence[bytes]) -> list[bytes] | Abstains:
        def say() -> list[bytes]:
            consumer = self._taken(digest)
            if not isinstance(consumer, ConsumerRun):
                raise IllegalMessage("an owner was asked to start a run")
            _check_acceptances(acceptances, consumer.terms)
            return list(self._asked(lambda: consumer.begin(acceptances)))

        return self._quietly(say)

    def hear(self, data: bytes) -> list[bytes] | Abstains:
        def answer() -> list[bytes]:
            run = self._hearing(self._digest_of(data))
            return list(self._asked(lambda: run.hear(data)))

        return self._quietly(answer)

    def refuse(self, reason: str) -> Abstains:
        """Answer with the one word, and write down why."""

        def no() -> Abstains:
            raise IllegalMessage(reason)

        return self._quietly(no)

    def refuse_caller(self) -> Abstains:
        """Answer a call that does not come from the curator's server."""
        return self.refuse("a call that does not come from the curator's server")

    def _digest_of(self, data: bytes) -> str:
        """Under which terms a letter is, by its run id; whether it says so truly is seen where it is opened."""
        if not isinstance(data, bytes):
            raise BadMessage("no bytes")
        if is_acceptance(data):
            run_id = Acceptance.from_bytes(data).run_id
        elif is_stub(data):
            run_id = Stub.from_bytes(data).header.run_id
        else:
            run_id = letter_in(data, most_bytes=self._most_bytes()).header.run_id
        for digest, invitation in self.invitations.items():
            if bytes.fromhex(invitation.terms.run_id) == run_id:
                return digest
        raise IllegalMessage("it is of a run that did not come with this job")

    def _most_bytes(self) -> int:
        agreed = [invitation.terms for invitation in self.invitations.values()]
        if any(terms.consumer == self.site for terms in agreed):
            return self.settings.most_bytes
        return max(most_bytes_to_owner(terms) for terms in agreed)

    def _hearing(self, digest: str) -> SiteRun:
        """The site's side of a run, to hear a letter; when the terms have ended, an owner's that hears receipts."""
        try:
            return self._taken(digest)
        except TermsExpired:
            run = self._made(self.invitations[digest])
            if isinstance(run, OwnerRun) and run.absent:
                return run
            raise

    def _taken(self, digest: str) -> SiteRun:
        run = self._run_under(digest)
        if run is None:
            raise IllegalMessage("nobody at this site has decided yet")
        return run

    def _run_under(self, digest: str) -> SiteRun | None:
        """The site's side of a run of this job; made when it is first needed, and asked for again until it is there."""
        if digest not in self.invitations:
            raise IllegalMessage("it is under terms that did not come with this job")
        terms = self.invitations[digest].terms
        if self.site != terms.consumer and self.site not in terms.owners:
            raise IllegalMessage(f"{self.site} is no party of run {terms.run}")
        check_not_expired(terms, self.clock())
        if digest in self._runs and self._runs[digest].failed:
            del self._runs[digest]  # made anew, from what its home has on record
        if digest not in self._runs:
            run = self._made(self.invitations[digest])
            if run is None:
                return None
            self._runs[digest] = run
        return self._runs[digest]

    def _made(self, invitation: Invitation) -> SiteRun | None:
        run = self._asked(lambda: self.settings.factory(invitation, self.site, self.settings.folder))
        if run is not None and (run.letters.party, run.terms.digest) != (self.site, invitation.terms.digest):
            raise IllegalMessage("the site made its side of another run, or a party of another name")
        return run

    def _asked(self, work: Callable[[], _Answer]) -> _Answer:
        """The result of code of the site's own; what that refuses, it writes down itself."""
        self._its_own = True
        answer = work()
        self._its_own = False
        return answer

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
        note_reason(self.settings.folder, reason, now=self.clock())


def _check_acceptances(acceptances: Sequence[bytes], terms: Terms) -> None:
    """No more than there are parties, and none larger than one can be; what they say, the home looks at."""
    most = len(terms.owners) + 1
    if not isinstance(acceptances, list) or len(acceptances) > most:
        raise IllegalMessage(f"run {terms.run}: more acceptances than there are parties, or none")
    if any(not isinstance(data, bytes) or len(data) > MOST_ACCEPTANCE_BYTES for data in acceptances):
        raise IllegalMessage(f"run {terms.run}: something is no acceptance")
