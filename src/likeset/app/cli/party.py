"""What the commands of all homes share; ``likeset curator``, ``likeset witness`` and ``likeset split``."""

import getpass
import os
import select
import signal
import sys
import webbrowser
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from likeset.app.lazy import lazy_imports
from likeset.display import JsonFlag, complain, emit, literal, show_notes, stderr, stdout
from likeset.errors import InvalidArgument, LikesetError, missing_extra

with lazy_imports():
    from likeset.homes import compute, curator_home, witness_home
    from likeset.homes import home as homes
    from likeset.homes import mail as home_mail
    from likeset.split import host
    from likeset.tables import schema as schemas
    from likeset.transports import desks, posts
    from likeset.transports import sync as mailboxes
    from likeset.trust import cards

if TYPE_CHECKING:
    from likeset.app.console.server import RunningConsole
    from likeset.transports.stores import Store

    PartyHome = curator_home.CuratorHome | witness_home.WitnessHome


HERE = Path()
NOUN: dict[str, Any] = {"no_args_is_help": True, "rich_markup_mode": "markdown"}
_PLACES = "file:///FOLDER, sftp://USER@HOST/FOLDER or s3://BUCKET/FOLDER"

NewFolder = Annotated[Path, typer.Argument(metavar="DIR", help="A new directory.", show_default=False)]
MailboxOption = Annotated[
    list[str] | None,
    typer.Option("--mailbox", metavar="ADDRESS", help=f"Where letters come and go: {_PLACES}; repeatable."),
]
EveryOption = Annotated[
    float,
    typer.Option("--every", min=0.1, metavar="SECONDS", help="The longest pause between two checks of a mailbox."),
]
ListenOption = Annotated[
    str, typer.Option("--listen", metavar="HOST:PORT", help="In split runs: where its tunnels listen.")
]
ReachOption = Annotated[
    str, typer.Option("--reach-at", metavar="HOST:PORT", help="Where others reach them, if elsewhere.")
]
PortOption = Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes one that is free.")]
LinkFlag = Annotated[bool, typer.Option("--link", help="Only make a new link into the console that runs already.")]
OpenFlag = Annotated[bool, typer.Option("--open", help="Open the link in this machine's browser.")]


def home_option(whose: str, *, or_node: bool = False) -> Any:
    """``--home``, which the environment may give, too; with ``or_node`` by the variable of owners as well."""
    variables = ["LIKESET_HOME", *(["LIKESET_NODE"] if or_node else [])]
    return typer.Option("--home", envvar=variables, help=f"{whose}; by default the current one.")


def at_home(home: Path, *command: str, option: str = "--home") -> tuple[str, ...]:
    """A command for people to type, with the option that names the home if it is not the current directory."""
    return command if home == HERE else (*command, option, str(home))


def login() -> str:
    """Who is at the keyboard, as far as the system knows."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container without a list of users
        return "unknown"


def findings_document(findings: "Sequence[homes.Finding]") -> list[dict[str, Any]]:
    return [{"what": finding.what, "ok": finding.ok, "words": finding.words} for finding in findings]


def addresses_to_use(given: Sequence[str] | None, settled: Sequence[str], *, file: str) -> tuple[str, ...]:
    """The mailboxes that were given, or else those of the settings.

    Raises:
        InvalidArgument: there are none, or one has a password in it.
    """
    addresses = homes.checked_addresses(given or settled)
    if not addresses:
        raise InvalidArgument("--mailbox", "none", f"no mailbox is named: give {_PLACES}, or mailboxes: in {file}")
    return addresses


def show_fingerprint(fingerprint: str) -> None:
    """Two lines of four numbered groups, so that two people can find their way in it."""
    groups = fingerprint.split("-")
    half = len(groups) // 2
    for start in (0, half):
        line = "   ".join(
            f"[dim]{number}[/] [bold]{group}[/]" for number, group in enumerate(groups[start:][:half], start + 1)
        )
        stdout.print(f"  {line}", soft_wrap=True)


def no_pins_note(home: Path) -> tuple[str, ...]:
    """A note if no card is pinned in a home: then nobody's letters are looked for, and no mailbox is tried."""
    if any(pin.state == "pinned" for pin in cards.Pins(home / home_mail.CARDS_FOLDER).all()):
        return ()
    command = " ".join(at_home(home, "likeset card pin FILE --as ROLE"))
    return (f"no card is pinned here, so no mailbox is tried; compare cards by telephone, then: {command}",)


def sync_and_show(
    desks: "Sequence[posts.Desk]",
    *,
    as_json: bool,
    notes: Sequence[str] = (),
    more: Callable[[], dict[str, Any]] = dict,
    shown_after: Callable[[], None] = lambda: None,
) -> None:
    """Look into the mailboxes once; exit code 1 if one could not be used.

    Args:
        desks: where to look.
        as_json: for machines.
        notes: what a person should know besides.
        more: what else the document contains, asked after the look.
        shown_after: shows people the same.
    """
    look, troubles = mailboxes.look_once(desks)
    look = replace(look, notes=(*notes, *look.notes))

    def view() -> None:
        if look.words != posts.NOTHING_NEW or not troubles:  # whether something is new there, nobody knows
            stdout.print(literal(look.words), soft_wrap=True)
        show_notes(look.notes)
        shown_after()
        for trouble in troubles:
            complain(str(trouble))

    emit({**look_document(look, troubles), **more()}, as_json=as_json, view=view, ok=not troubles)


def look_document(look: "posts.Look", troubles: Sequence[LikesetError] = ()) -> dict[str, Any]:
    deadline = None if look.next_deadline is None else look.next_deadline.isoformat()
    told = {**asdict(look), "notes": list(look.notes), "next_deadline": deadline}
    return {**told, "troubles": [str(trouble) for trouble in troubles]}


class SignalStop:
    """Set by a signal, and waited for without a lock: a handler may run at any moment."""

    def __init__(self) -> None:
        self._set = False
        self._reader, self._writer = os.pipe()

    def set(self, *_: object) -> None:
        """Stop; as a handler of signals, a second one ends the program at once."""
        if not self._set:
            self._set = True
            os.write(self._writer, b".")
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.default_int_handler)

    def is_set(self) -> bool:
        return self._set

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, or so many seconds."""
        select.select([self._reader], [], [], timeout)
        return self._set

    def close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)


@contextmanager
def stopping_by_signals() -> Iterator[SignalStop]:
    """SIGTERM and Ctrl-C set what this gives, and end nothing else; a second one does. Only in the main thread."""
    stop = SignalStop()
    before = {number: signal.signal(number, stop.set) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        stop.close()


def serve_and_show(desks: "Sequence[posts.Desk]", *, every: float, as_json: bool, notes: Sequence[str] = ()) -> None:
    """Look until a signal comes: a line for everything that happens, and one at the end."""
    counts = Counter(looks=0, taken=0, sent=0, refused=0)

    def looked(look: "posts.Look") -> None:
        counts.update(looks=1, taken=look.taken, sent=look.sent, refused=look.refused)
        if look.something_happened and not as_json:
            tell(look.words)

    def tell(line: str) -> None:
        screen = stderr if as_json else stdout
        screen.print(f"[dim]{home_mail.utc_now():%Y-%m-%d %H:%M:%S}Z[/]  {literal(line)}", soft_wrap=True)
        screen.file.flush()  # whoever reads it in a file reads it now

    with stopping_by_signals() as stop:
        if not as_json:
            tell(f"looking into {len(desks)} mailbox{'' if len(desks) == 1 else 'es'}; Ctrl-C ends it")
        for note in notes:
            tell(note)
        shortest = min(mailboxes.SHORTEST, every)
        mailboxes.serve(desks, stop=stop, tell=tell, looked=looked, shortest=shortest, longest=every)
    last = "stopped between two letters; the next look goes on from here"
    emit(dict(counts), as_json=as_json, view=lambda: tell(last))


def serve_console(console: "AbstractContextManager[RunningConsole]", *, open_it: bool, as_json: bool) -> None:
    with stopping_by_signals() as stop, console as started:
        emit(
            {"link": started.link, "address": started.address},
            as_json=as_json,
            notes=["the link signs in once, within a quarter of an hour; Ctrl-C ends the console"],
        )
        stdout.file.flush()
        if open_it:
            webbrowser.open(started.page_to_open())
        while started.is_running and not stop.wait(1.0):
            pass


@contextmanager
def needing_console() -> Iterator[None]:
    """Name the extra if its packages are missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise InvalidArgument("console", str(error.name), missing_extra("console")) from error


split = typer.Typer(name="split", **NOUN)
AtOption = Annotated[
    Path | None, typer.Option("--at", metavar="DIR", help="Where it is; by default the place that likeset looks at.")
]


@split.command("setup")
def split_setup(
    *,
    at: AtOption = None,
    python: Annotated[
        str, typer.Option(metavar="PATH", help="A Python 3.10 or 3.11; by default the one that runs likeset.")
    ] = "",
    as_json: JsonFlag = False,
) -> None:
    """Make the environment of workers from the lock file, every package checked by its hash.

    It lies apart from likeset's own, and takes about 1 GB. What an interrupted call left is made anew; what is whole
    stays as it is. With `--at` other than the usual place, LIKESET_SPLIT_PYTHON must name its interpreter.

    Example: `likeset split setup`
    """
    folder = host.environment_folder() if at is None else at
    made = False
    try:
        path = host.worker_python(folder)
    except InvalidArgument:
        path = host.make_environment(folder, python=python or sys.executable)
        made = True
    emit({"environment": str(folder), "python": str(path), "made": made}, as_json=as_json)


@split.command("check")
def split_check(*, at: AtOption = None, as_json: JsonFlag = False) -> None:
    """Start a worker and see that it is made of what the lock file says; show the program that terms name.

    Example: `likeset split check`
    """
    folder = host.environment_folder() if at is None else at
    versions = host.try_worker(host.worker_python(folder))
    program = host.program_digest()
    emit({"environment": str(folder), "versions": versions, "program": program}, as_json=as_json)


PartyPath = Annotated[Path, home_option("The party's directory")]


@dataclass(frozen=True)
class _Role:
    """What differs between the parties that compute in split runs: a curator and a witness."""

    noun: typer.Typer
    home: "Callable[[Path], PartyHome]"
    desk: "Callable[[Path, Store, compute.ComputeRoom | None], posts.Desk]"
    sync_help: str
    serve_help: str

    def opened(self, folder: Path) -> "PartyHome":
        home = self.home(folder)
        home.check()
        return home

    @contextmanager
    def desks(self, folder: Path, given: Sequence[str] | None, *, stays: bool) -> "Iterator[list[posts.Desk]]":
        """Who looks only once does not compute."""
        home = self.opened(folder)
        addresses = addresses_to_use(given, home.settings.mailboxes, file=f"{self.noun.info.name}.yaml")
        room = compute.compute_room(home) if stays else None
        with mailboxes.desks_at(addresses, lambda store: self.desk(home.folder, store, room)) as opened:
            yield opened

    def add_commands(self) -> None:
        @self.noun.command(help=self.sync_help)
        def sync(*, mailbox: MailboxOption = None, home: PartyPath = HERE, as_json: JsonFlag = False) -> None:
            with self.desks(home, mailbox, stays=False) as opened:
                sync_and_show(opened, as_json=as_json, notes=no_pins_note(home))

        @self.noun.command(help=self.serve_help)
        def serve(
            *,
            mailbox: MailboxOption = None,
            every: EveryOption = 60.0,
            home: PartyPath = HERE,
            as_json: JsonFlag = False,
        ) -> None:
            with self.desks(home, mailbox, stays=True) as opened:
                serve_and_show(opened, every=every, as_json=as_json, notes=no_pins_note(home))

    def emit_made(self, home: "PartyHome", name: str, more: dict[str, Any], *, to: str, as_json: bool) -> None:
        fingerprint = home.card().fingerprint
        note = f"give {to} its card, {home.card_file}; they compare the fingerprint by telephone, and pin it with:"
        emit(
            {"home": str(home.folder), "name": name, "card": fingerprint, **more},
            as_json=as_json,
            notes=[f"{note} likeset card pin FILE --as {self.noun.info.name}"],
        )


_CURATOR = _Role(
    typer.Typer(name="curator", **NOUN),
    lambda folder: curator_home.CuratorHome(folder),
    lambda at, store, room: desks.curator_desk(at, store, room=room),
    sync_help="""Check the mailboxes once: receive letters and send those due. Exit code 1 if one is not reachable.

    Without --mailbox, the mailboxes in curator.yaml. Suitable for cron.

    Example: `likeset curator sync --mailbox file:///mnt/share --home curator`
    """,
    serve_help="""Keep checking the mailboxes, with pauses that grow while nothing arrives.

    SIGTERM and Ctrl-C end it between two letters, with exit code 0. An unreachable mailbox is tried
    again. Split runs are computed at the same time, if curator.yaml says where to listen.

    Example: `likeset curator serve --mailbox file:///mnt/share --home curator`
    """,
)
_WITNESS = _Role(
    typer.Typer(name="witness", **NOUN),
    lambda folder: witness_home.WitnessHome(folder),
    lambda at, store, room: desks.witness_desk(at, store, room=room),
    sync_help="""Check the mailboxes once: receive letters and send those due. Exit code 1 if one is not reachable.

    Nothing is computed: that needs `serve`, here and at the two other compute parties.

    Example: `likeset witness sync --home uni`
    """,
    serve_help="""Keep checking the mailboxes, and compute when all three compute parties are ready.

    SIGTERM and Ctrl-C end it between two letters, with exit code 0; what was computed so far is kept, and goes on with
    the next call. An unreachable mailbox is tried again.

    Example: `likeset witness serve --home uni`
    """,
)
curator, witness = _CURATOR.noun, _WITNESS.noun


@curator.command("init")
def curator_init(
    folder: NewFolder,
    *,
    name: Annotated[str, typer.Option(help="The name on its card.")] = "curator",
    schema: Annotated[list[Path] | None, typer.Option(help="A schema that runs may use; repeatable.")] = None,
    mailbox: MailboxOption = None,
    listen: ListenOption = "",
    reach_at: ReachOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Make the directory of a curator: its card, its letters, the schemas that it knows.

    Give consumers and owners its card, to be pinned, and pin the cards of consumers. A run is curated only if the card
    of its consumer is pinned here: `likeset card pin FILE --as consumer`.

    Example: `likeset curator init curator --schema schema.yaml --mailbox file:///mnt/share`
    """
    for path in schema or []:
        schemas.Schema.load(path)  # before anything is made
    home = curator_home.make_curator_home(folder, name=name, mailboxes=mailbox or (), listen=listen, reach_at=reach_at)
    digests = [home.add_schema(path).digest for path in schema or []]
    _CURATOR.emit_made(home, name, {"schemas": digests}, to="consumers and owners", as_json=as_json)


@curator.command("schema")
def curator_schema(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[SCHEMA.yaml]...", help="Schemas that runs may use from now on.")
    ] = None,
    *,
    seed_rows: Annotated[
        list[Path] | None, typer.Option(help="Public rows that runs may start from, on those schemas; repeatable.")
    ] = None,
    home: PartyPath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Know schemas, and list all that are known. A run on another one ends before anybody is asked for rows.

    Example: `likeset curator schema schema.yaml --home curator`
    """
    opened = curator_home.CuratorHome(home)
    opened.check()
    for path in files or []:
        opened.add_schema(path)
    digests = [digest for path in seed_rows or [] for digest in opened.add_seed_rows(str(path))]
    known = opened.schemas_known()
    documents = [{"schema": declared.digest, "columns": list(declared.record_columns)} for declared in known]
    emit({"schemas": documents, "seed_rows_added": digests}, as_json=as_json)


@witness.command("init")
def witness_init(
    folder: NewFolder,
    *,
    name: Annotated[str, typer.Option(help="The name on its card.", show_default=False)],
    mailbox: MailboxOption = None,
    listen: ListenOption = "",
    reach_at: ReachOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Make the directory of a witness: its card, its settings, its letters. It needs no data.

    Give consumers, curators and owners its card, and pin the cards of consumers and curators. Workers need an
    environment of their own: `likeset split setup`.

    Example: `likeset witness init uni --name university --mailbox file:///mnt/share --listen 0.0.0.0:7301
    --reach-at uni.example:7301`
    """
    home = witness_home.make_witness_home(folder, name=name, mailboxes=mailbox or (), listen=listen, reach_at=reach_at)
    promises = {"promises": list(witness_home.PROMISES)}
    _WITNESS.emit_made(home, name, promises, to="consumers, curators and owners", as_json=as_json)


@witness.command("check")
def witness_check(*, home: PartyPath = HERE, as_json: JsonFlag = False) -> None:
    """Say what this witness promises, and whether it can: keys, cards, workers, ports. Exit code 1 if something fails.

    Example: `likeset witness check --home uni`
    """
    opened = witness_home.WitnessHome(home)
    opened.check()
    findings = witness_home.checkup(opened)
    document = {"promises": list(witness_home.PROMISES), "findings": findings_document(findings)}
    emit(document, as_json=as_json, ok=all(finding.ok for finding in findings))


for _role in (_CURATOR, _WITNESS):
    _role.add_commands()
