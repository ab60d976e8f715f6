"""What the commands of all homes share; ``likeset curator``, ``likeset witness`` and ``likeset split``."""

import getpass
import os
import select
import signal
import sys
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from likeset.display import JsonFlag, complain, emit, literal, show_json, show_notes, show_table, stderr, stdout
from likeset.errors import InvalidArgument, LikesetError, missing_extra
from likeset.homes.compute import ComputeRoom, compute_room
from likeset.homes.curator_home import SETTINGS_FILE as CURATOR_FILE
from likeset.homes.curator_home import CuratorHome, make_curator_home
from likeset.homes.home import checked_addresses
from likeset.homes.mail import CARDS_FOLDER, utc_now
from likeset.homes.witness_home import PROMISES, WitnessHome, checkup, make_witness_home
from likeset.homes.witness_home import SETTINGS_FILE as WITNESS_FILE
from likeset.split.host import environment_folder, make_environment, program_digest, try_worker, worker_python
from likeset.tables.schema import Schema
from likeset.transports.desks import curator_desk, witness_desk
from likeset.transports.posts import NOTHING_NEW, Desk, Look
from likeset.transports.stores import Store
from likeset.transports.sync import SHORTEST, desks_at, look_once, serve
from likeset.trust.cards import Card, Pins

if TYPE_CHECKING:
    from likeset.app.console.server import RunningConsole


HERE = Path()


def home_option(whose: str, *, or_node: bool = False) -> Any:
    """``--home``, which the environment may give, too.

    Args:
        whose: directory it is, in words.
        or_node: whether an owner's node is such a home, so that its own variable counts as well.
    """
    variables = ["LIKESET_HOME", *(["LIKESET_NODE"] if or_node else [])]
    return typer.Option("--home", envvar=variables, help=f"{whose}; by default the current one.")


def login() -> str:
    """Who is at the keyboard, as far as the system knows."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container without a list of users
        return "unknown"


_PLACES = "file:///FOLDER, sftp://USER@HOST/FOLDER or s3://BUCKET/FOLDER"
MailboxOption = Annotated[
    list[str] | None,
    typer.Option("--mailbox", metavar="ADDRESS", help=f"Where letters come and go: {_PLACES}; repeatable."),
]
EveryOption = Annotated[
    float, typer.Option("--every", min=0.1, metavar="SECONDS", help="The longest pause between two looks.")
]
ListenOption = Annotated[
    str, typer.Option("--listen", metavar="HOST:PORT", help="In split runs: where its tunnels listen.")
]
ReachOption = Annotated[
    str, typer.Option("--reach-at", metavar="HOST:PORT", help="Where others reach them, if elsewhere.")
]


def addresses_to_use(given: Sequence[str] | None, settled: Sequence[str], *, file: str) -> tuple[str, ...]:
    """The mailboxes of a command: those that were given, or else those of the settings.

    Raises:
        InvalidArgument: there are none, or one has a password in it.
    """
    addresses = checked_addresses(given or settled)
    if not addresses:
        raise InvalidArgument("--mailbox", "none", f"no mailbox is named: give {_PLACES}, or mailboxes: in {file}")
    return addresses


@contextmanager
def computing_desks(
    home: CuratorHome | WitnessHome,
    given: Sequence[str] | None,
    desk: Callable[[Path, Store, ComputeRoom | None], Desk],
    *,
    file: str,
    stays: bool,
) -> Iterator[list[Desk]]:
    """Desks of a party that computes in split runs, where it stays.

    Args:
        home: the party's.
        given: mailboxes; those of the settings if none.
        desk: makes one, of the home's directory, the mailbox, and the room to compute in.
        file: of the settings, by name.
        stays: whether it computes; who looks only once does not.
    """
    addresses = addresses_to_use(given, home.settings.mailboxes, file=file)
    room = compute_room(home) if stays else None
    with desks_at(addresses, lambda store: desk(home.folder, store, room)) as desks:
        yield desks


def show_fingerprint(shown: Card) -> None:
    """A card's fingerprint in two lines of four groups, numbered, so that two people can find their way in it."""
    groups = shown.fingerprint.split("-")
    half = len(groups) // 2
    for start in (0, half):
        line = "   ".join(
            f"[dim]{number}[/] [bold]{group}[/]" for number, group in enumerate(groups[start:][:half], start + 1)
        )
        stdout.print(f"  {line}", soft_wrap=True)


def _show_made(home: CuratorHome | WitnessHome, *, to: str, role: str) -> None:
    stdout.print(f"[bold green]made[/]  {literal(str(home.folder))}", soft_wrap=True)
    show_card_to_give(home, to=to, role=role)


def show_card_to_give(home: CuratorHome | WitnessHome, *, to: str, role: str) -> None:
    """The card of a home, who gets it, and what they do with it."""
    stdout.print(f"Its card, for {to}: {literal(str(home.card_file))}", soft_wrap=True)
    show_fingerprint(home.card())
    compare = "They compare the fingerprint by telephone, and then call"
    stdout.print(f"{compare}: likeset card pin FILE --as {role}", soft_wrap=True)


def nobody_known(home: Path) -> tuple[str, ...]:
    """A note if no card is pinned in a home: then nobody's letters are looked for, and no mailbox is tried."""
    if any(pin.state == "pinned" for pin in Pins(home / CARDS_FOLDER).all()):
        return ()
    return ("no card is pinned here, so no mailbox is tried: compare cards by telephone, and call likeset card pin",)


def sync_and_show(
    desks: Sequence[Desk],
    *,
    as_json: bool,
    notes: Sequence[str] = (),
    more: Callable[[], dict[str, Any]] = dict,
) -> None:
    """One look, and what came of it; exit code 1 if a mailbox could not be used.

    Args:
        desks: where to look.
        as_json: for machines.
        notes: what a person should know beside what the look says.
        more: what else the document says, asked after the look.
    """
    look, troubles = look_once(desks)
    look = replace(look, notes=(*notes, *look.notes))
    if as_json:
        show_json({**look_document(look, troubles), **more()})
    else:
        words = look.words
        if words != NOTHING_NEW or not troubles:  # of a mailbox that could not be used nobody knows what is new
            stdout.print(literal(words), soft_wrap=True)
        show_notes(look.notes)
    end_if_troubled(troubles, as_json=as_json)


def end_if_troubled(troubles: Sequence[LikesetError], *, as_json: bool = False) -> None:
    """Say what was wrong, a line for each, and end with exit code 1; nothing if nothing was."""
    for trouble in () if as_json else troubles:
        complain(str(trouble))
    if troubles:
        raise typer.Exit(1)


def look_document(look: Look, troubles: Sequence[LikesetError] = ()) -> dict[str, Any]:
    """What came of a look, as plain data."""
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
        """Whether it was set."""
        return self._set

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, or so many seconds."""
        select.select([self._reader], [], [], timeout)
        return self._set

    def close(self) -> None:
        """Let go of the pipe."""
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


@dataclass
class _Counts:
    """What came of all looks so far."""

    looks: int = 0
    taken: int = 0
    sent: int = 0
    refused: int = 0

    def add(self, look: Look) -> None:
        self.looks += 1
        self.taken += look.taken
        self.sent += look.sent
        self.refused += look.refused


def serve_and_show(desks: Sequence[Desk], *, every: float, as_json: bool, notes: Sequence[str] = ()) -> None:
    """Look until a signal comes: a line for whatever happens, and one at the end."""
    counts = _Counts()

    def looked(look: Look) -> None:
        counts.add(look)
        if look.something_happened and not as_json:
            _print_with_time(look.words)

    with stopping_by_signals() as stop:
        if not as_json:
            _print_with_time(f"looking into {len(desks)} mailbox{'' if len(desks) == 1 else 'es'}; Ctrl-C ends it")
        tell = _complain_with_time if as_json else _print_with_time
        for note in notes:
            tell(note)
        serve(desks, stop=stop, tell=tell, looked=looked, shortest=min(SHORTEST, every), longest=every)
    if as_json:
        show_json(asdict(counts))
    else:
        _print_with_time("stopped between two letters; the next look goes on from here")


def _now() -> str:
    return f"{utc_now():%Y-%m-%d %H:%M:%S}Z"


def _print_with_time(line: str) -> None:
    stdout.print(f"[dim]{_now()}[/]  {literal(line)}", soft_wrap=True)
    stdout.file.flush()  # whoever reads it in a file reads it now


def _complain_with_time(line: str) -> None:
    stderr.print(f"{_now()}  {literal(line)}", soft_wrap=True)


PortOption = Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes one that is free.")]
ConsoleFlag = Annotated[bool, typer.Option("--console", help="Also open the steward's console, on this machine alone.")]
ConsoleListenOption = Annotated[
    str, typer.Option(metavar="ADDRESS", help="Where to listen; others than loopback need --public.")
]
PublicOption = Annotated[str, typer.Option(metavar="URL", help="The address that people type, of a proxy before it.")]
LinkFlag = Annotated[bool, typer.Option("--link", help="Only make a new link into the console that runs already.")]
OpenFlag = Annotated[bool, typer.Option("--open", help="Open the link in this machine's browser.")]


def serve_console(console: "AbstractContextManager[RunningConsole]", *, open_it: bool, as_json: bool) -> None:
    with stopping_by_signals() as stop, console as started:
        if as_json:
            show_json({"address": started.address, "link": started.link})
        else:
            tell_console(started)
            stdout.print("Ctrl-C ends it.")
        stdout.file.flush()
        if open_it:
            webbrowser.open(started.page_to_open())
        while started.is_running and not stop.wait(1.0):
            pass


def tell_console(started: "RunningConsole") -> None:
    stdout.print("This link signs in once, within a quarter of an hour:")
    stdout.print(f"[bold]{literal(started.link)}[/]", soft_wrap=True)


def show_link(link: str, *, as_json: bool) -> None:
    if as_json:
        show_json({"link": link})
    else:
        stdout.print(f"[bold]{literal(link)}[/]", soft_wrap=True)


@contextmanager
def needing_console() -> Iterator[None]:
    """Name the extra if its packages are missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        reason = missing_extra("console")
        raise InvalidArgument("console", str(error.name), reason) from error


split = typer.Typer(
    name="split",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
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
    folder = environment_folder() if at is None else at
    made = False
    try:
        path = worker_python(folder)
    except InvalidArgument:
        path = make_environment(folder, python=python or sys.executable)
        made = True
    emit({"environment": str(folder), "python": str(path), "made": made}, as_json=as_json)


@split.command("check")
def split_check(*, at: AtOption = None, as_json: JsonFlag = False) -> None:
    """Start a worker and see that it is made of what the lock file says; show the program that terms name.

    Example: `likeset split check`
    """
    folder = environment_folder() if at is None else at
    versions = try_worker(worker_python(folder))
    program = program_digest()
    emit({"environment": str(folder), "versions": versions, "program": program}, as_json=as_json)


curator = typer.Typer(
    name="curator",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
PartyPath = Annotated[Path, home_option("The party's directory")]


@curator.command("init")
def curator_init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new directory.", show_default=False)],
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
        Schema.load(path)  # before anything is made
    home = make_curator_home(folder, name=name, mailboxes=mailbox or (), listen=listen, reach_at=reach_at)
    known = [home.add_schema(path) for path in schema or []]
    digests = [declared.digest for declared in known]
    document = {"home": str(folder), "name": name, "card": home.card().fingerprint, "schemas": digests}
    emit(document, as_json=as_json, view=lambda: _show_made(home, to="consumers and owners", role="curator"))


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
    opened = opened_curator(home)
    for path in files or []:
        opened.add_schema(path)
    digests = [digest for path in seed_rows or [] for digest in opened.add_seed_rows(str(path))]
    known = opened.schemas_known()
    documents = [{"schema": declared.digest, "columns": list(declared.record_columns)} for declared in known]
    emit({"schemas": documents, "seed_rows_added": digests}, as_json=as_json)


def _mail_commands(
    noun: typer.Typer,
    opened: Callable[[Path], CuratorHome | WitnessHome],
    desk: Callable[[Path, Store, ComputeRoom | None], Desk],
    *,
    file: str,
    sync_help: str,
    serve_help: str,
) -> None:
    """The commands ``sync`` and ``serve`` of a party that computes in split runs."""

    @noun.command(help=sync_help)
    def sync(*, mailbox: MailboxOption = None, home: PartyPath = HERE, as_json: JsonFlag = False) -> None:
        with computing_desks(opened(home), mailbox, desk, file=file, stays=False) as desks:
            sync_and_show(desks, as_json=as_json, notes=nobody_known(home))

    @noun.command(help=serve_help)
    def serve(
        *, mailbox: MailboxOption = None, every: EveryOption = 60.0, home: PartyPath = HERE, as_json: JsonFlag = False
    ) -> None:
        with computing_desks(opened(home), mailbox, desk, file=file, stays=True) as desks:
            serve_and_show(desks, every=every, as_json=as_json, notes=nobody_known(home))


def opened_curator(folder: Path) -> CuratorHome:
    """The curator's home in a directory."""
    home = CuratorHome(folder)
    home.check()
    return home


_mail_commands(
    curator,
    opened_curator,
    lambda at, store, room: curator_desk(at, store, room=room),
    file=CURATOR_FILE,
    sync_help="""Look into the mailboxes once: take what came, send what is due. Exit code 1 if one cannot be used now.

    Without --mailbox those that curator.yaml names. Made for cron.

    Example: `likeset curator sync --mailbox file:///mnt/share --home curator`
    """,
    serve_help="""Stay, and look into the mailboxes again and again, with pauses that grow while nothing comes.

    SIGTERM and Ctrl-C end it between two letters, with exit code 0. A mailbox that is away is tried again. Split runs
    are computed beside the looks, if curator.yaml says where to listen.

    Example: `likeset curator serve --mailbox file:///mnt/share --home curator`
    """,
)


witness = typer.Typer(
    name="witness",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


@witness.command("init")
def witness_init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new directory.", show_default=False)],
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
    home = make_witness_home(folder, name=name, mailboxes=mailbox or (), listen=listen, reach_at=reach_at)
    document = {"home": str(folder), "name": name, "card": home.card().fingerprint, "promises": list(PROMISES)}

    def view() -> None:
        _show_made(home, to="consumers, curators and owners", role="witness")
        _show_promises()

    emit(document, as_json=as_json, view=view)


@witness.command("check")
def witness_check(*, home: PartyPath = HERE, as_json: JsonFlag = False) -> None:
    """Say what this witness promises, and whether it can: keys, cards, workers, ports. Exit code 1 if something fails.

    Example: `likeset witness check --home uni`
    """
    findings = checkup(opened_witness(home))
    if as_json:
        documents = [{"what": finding.what, "ok": finding.ok, "words": finding.words} for finding in findings]
        show_json({"promises": list(PROMISES), "findings": documents})
    else:
        _show_promises()
        rows = [[finding.what, "ok" if finding.ok else "NOT OK", finding.words] for finding in findings]
        show_table("Check-up", ["what", "", "found"], rows)
    if not all(finding.ok for finding in findings):
        raise typer.Exit(1)


def opened_witness(folder: Path) -> WitnessHome:
    """The witness's home in a directory."""
    home = WitnessHome(folder)
    home.check()
    return home


_mail_commands(
    witness,
    opened_witness,
    lambda at, store, room: witness_desk(at, store, room=room),
    file=WITNESS_FILE,
    sync_help="""Look into the mailboxes once: take what came, send what is due. Exit code 1 if one cannot be used now.

    Nothing is computed: for that somebody must stay, here and at the two others, with `serve`.

    Example: `likeset witness sync --home uni`
    """,
    serve_help="""Stay, look into the mailboxes again and again, and compute when all three are ready.

    SIGTERM and Ctrl-C end it between two letters, with exit code 0; what was computed so far is kept, and goes on with
    the next call. A mailbox that is away is tried again.

    Example: `likeset witness serve --home uni`
    """,
)


def _show_promises() -> None:
    stdout.print("A witness promises", soft_wrap=True)
    for promise in PROMISES:
        stdout.print(f"  - {literal(promise)}", soft_wrap=True)
