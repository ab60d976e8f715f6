"""Commands for any home: ``init``, ``up``, ``sync``, ``check``, ``backup``, ``restore``; ``curator`` and ``split``."""

import getpass
import json
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast

import typer

from likeset.app.lazy import lazy_imports
from likeset.display import answering_in_json, complain, emit, in_json, literal, show_notes, stdout
from likeset.errors import InvalidArgument

with lazy_imports():
    from likeset.app.console import home as console_pages
    from likeset.app.console import server
    from likeset.homes import backup as backups
    from likeset.homes import compute
    from likeset.homes import curator as curators
    from likeset.homes import home as homes
    from likeset.homes import mail as letters
    from likeset.homes import notify as notifications
    from likeset.homes import owner as owners
    from likeset.split import host
    from likeset.tables import profile
    from likeset.tables import schema as schemas
    from likeset.transports import sync as mailboxes
    from likeset.trust import cards

HERE = Path()
NOUN: dict[str, Any] = {"no_args_is_help": True, "rich_markup_mode": "markdown"}
_PLACES = "file:///FOLDER, sftp://USER@HOST/FOLDER or s3://BUCKET/FOLDER"

NewFolder = Annotated[Path, typer.Argument(metavar="DIR", help="A new directory.", show_default=False)]
MailboxOption = Annotated[
    list[str] | None,
    typer.Option("--mailbox", metavar="ADDRESS", help=f"Where letters come and go: {_PLACES}; repeatable."),
]
ListenOption = Annotated[
    str, typer.Option("--listen", metavar="HOST:PORT", help="In split runs: the address where this party listens.")
]
ReachOption = Annotated[
    str, typer.Option("--reach-at", metavar="HOST:PORT", help="The address that others use, if it differs.")
]
Answer = TypeVar("Answer")
By = Annotated[str | None, typer.Option("--by", help="The person who does it, for the log; by default the login name.")]


def _log_in_json(context: typer.Context, log: str) -> str:
    context.with_resource(answering_in_json(log == "json"))
    return log


LogFormat = Annotated[
    Literal["text", "json"],
    typer.Option(help="Write lines for people, or as JSON with run and party.", callback=_log_in_json),
]


def at_home(home: Path, *command: str) -> tuple[str, ...]:
    """A command for people to type, with --home if that is not the current directory."""
    return command if home == HERE else (*command, "--home", str(home))


def login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container without a list of users
        return "unknown"


def addresses_to_use(given: Sequence[str] | None, home: "homes.Home", *, needed: bool = True) -> tuple[str, ...]:
    """The mailboxes that were given, or else those of home.yaml and of the consumer's runs."""
    in_use = [run.mailbox for run in letters.Mail(home).runs() if run.mailbox and not run.is_over]
    addresses = homes.checked_addresses(given or [*home.settings.mailboxes, *in_use])
    if needed and not addresses:
        raise InvalidArgument("--mailbox", "none", f"no mailbox is named: give {_PLACES}, or mailboxes: in home.yaml")
    return addresses


def at_terminal() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty() and stdout.is_terminal and not in_json()


def ask(question: str, take: Callable[[str], Answer]) -> Answer | None:
    """Ask until ``take`` accepts the answer, and return its result; None for Enter alone."""
    while typed := typer.prompt(question, default="", show_default=False).strip():
        try:
            return take(typed)
        except InvalidArgument as error:
            complain(str(error))
    return None


def show_fingerprint(fingerprint: str) -> None:
    """Two lines of four numbered groups, so that two people can find their way in it."""
    groups = fingerprint.split("-")
    half = len(groups) // 2
    for start in (0, half):
        line = "   ".join(
            f"[dim]{number}[/] [bold]{group}[/]" for number, group in enumerate(groups[start:][:half], start + 1)
        )
        stdout.print(f"  {line}", soft_wrap=True)


def warning_documents(warnings: "Sequence[profile.ColumnWarning]") -> dict[str, list[dict[str, str]]]:
    dead = [one for one in warnings if one.reason is profile.Reason.DEAD]
    suspected = [one for one in warnings if one not in dead]
    return {"suspected_identifiers": profile.documents_of(suspected), "dead_columns": profile.documents_of(dead)}


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
        select.select([self._reader], [], [], timeout)
        return self._set

    def close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)


@contextmanager
def stopping_by_signals() -> Iterator[SignalStop]:
    """Yield an event that SIGTERM or Ctrl-C sets; a second signal ends the program. Only in the main thread."""
    stop = SignalStop()
    before = {number: signal.signal(number, stop.set) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        stop.close()


HomePath = Annotated[
    Path, typer.Option("--home", envvar="LIKESET_HOME", help="The home; by default the current directory.")
]


def _no_pins(home: "homes.Home", folder: Path) -> list[str]:
    if home.pins.pinned():
        return []
    command = " ".join(at_home(folder, "likeset card pin FILE --as ROLE"))
    return [f"no card is pinned here, so no letter can come; compare cards by telephone, then: {command}"]


def sync_document(done: "mailboxes.Synced") -> dict[str, Any]:
    deadline = None if done.next_deadline is None else done.next_deadline.isoformat()
    return {**asdict(done), "next_deadline": deadline, "troubles": list(done.troubles.values())}


@contextmanager
def syncs_of(
    folder: Path, given: Sequence[str] | None, *, stays: bool = False, needed: bool = True
) -> "Iterator[list[mailboxes.Sync]]":
    with homes.Home(folder) as home:
        addresses = addresses_to_use(given, home, needed=needed)
    with mailboxes.opened_syncs(folder, addresses, stays=stays) as opened:
        yield opened


def init(
    folder: NewFolder,
    *,
    name: Annotated[str, typer.Option(help="The party's name, on its card and in terms.", show_default=False)],
    role: Annotated[
        list[str], typer.Option("--role", help="owner, consumer, curator or witness; repeatable.", show_default=False)
    ],
    mailbox: MailboxOption = None,
    schema: Annotated[list[Path] | None, typer.Option(help="For a curator: a schema that runs may use.")] = None,
    listen: ListenOption = "",
    reach_at: ReachOption = "",
) -> None:
    """Make a home: the directory of a party, with its settings, its card, its database and its keys.

    An owner's home allows nothing until owner.yaml is filled in. Back the directory up, and let nobody else read it.
    A consumer that curates its own runs names both roles; the curator is then in DIR/curator, with its own card.

    Example: `likeset init st-mary --name st-mary --role owner --mailbox file:///mnt/share`
    """
    for path in schema or []:
        schemas.Schema.load(path)  # before anything is made
    roles = cast("list[cards.Role]", role)
    names: dict[str, Any] = {"mailboxes": mailbox or (), "listen": listen, "reach_at": reach_at, "by": login()}
    with ExitStack() as stack:
        home = stack.enter_context(homes.make_party(folder, name=name, roles=roles, **names))
        if "owner" in roles:
            owners.Owner(letters.Mail(home)).put_policy_in_force(by=login())
        digests = []
        if "curator" in roles:
            curating = home if home.own_curator is None else stack.enter_context(homes.Home(home.own_curator))
            part = curators.Curator(letters.Mail(curating))
            digests = [part.add_schema(path).digest for path in schema or []]
        document: dict[str, Any] = {"home": str(folder), "name": name, "roles": role, "card": home.card.fingerprint}
        notes = [f"give others its card, {home.card_file}; they compare its fingerprint by telephone and pin it"]
        if "consumer" in roles:
            notes = ["invite owners: " + " ".join(at_home(folder, "likeset", "invite", "NAME"))]
    if "owner" in roles:
        document["policy"] = str(home.policy_file)
        notes.append(f"fill in {home.policy_file}: it allows nothing yet")
    if "curator" in roles:
        document["schemas"] = digests
    if "witness" in roles:
        document["promises"] = list(compute.PROMISES)
    emit(document, notes=notes)


def sync(*, mailbox: MailboxOption = None, home: HomePath = HERE) -> None:
    """Check the mailboxes of a home once: receive letters and send those that are due.

    Without --mailbox, it uses the mailboxes in home.yaml. Exit code 1 if one is not reachable. Suitable for cron.
    Split runs need `likeset up`.

    Example: `likeset sync --home st-mary`
    """
    with syncs_of(home, mailbox) as opened:
        done = mailboxes.sync_once(opened)
        done.notes[:0] = _no_pins(opened[0].home, home) if opened else []

    def view() -> None:
        if done.words != mailboxes.NOTHING_NEW or not done.troubles:
            stdout.print(literal(done.words), soft_wrap=True)
        show_notes(done.notes)
        for trouble in done.troubles.values():
            complain(trouble)

    emit(sync_document(done), view=view, ok=not done.troubles)


def up(
    home: Annotated[
        Path,
        typer.Argument(
            metavar="[HOME]",
            envvar="LIKESET_HOME",
            help="The home; by default the current directory.",
            show_default=False,
        ),
    ] = HERE,
    *,
    mailbox: MailboxOption = None,
    every: Annotated[
        float,
        typer.Option("--every", min=0.1, metavar="SECONDS", help="The longest pause between two checks of a mailbox."),
    ] = 60.0,
    console: Annotated[bool, typer.Option("--console/--no-console", help="Serve the console.")] = True,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The console's port; 0 takes one that is free.")] = 0,
    listen: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where the console listens; all but loopback need --public.")
    ] = "127.0.0.1",
    public: Annotated[
        str, typer.Option(metavar="URL", help="The public address of a proxy in front of the console.")
    ] = "",
    link: Annotated[bool, typer.Option("--link", help="Only make a new link to the console that is running.")] = False,
    log: LogFormat = "text",  # noqa: ARG001 - its callback sets how lines are written
) -> None:
    """Run a home: check its mailboxes, compute its split runs, and serve its console, until it is stopped.

    The console listens on this machine alone; the link that is printed signs in once. Pauses grow while nothing
    arrives. An unreachable mailbox is tried again. SIGTERM and Ctrl-C end it between two letters, with exit code 0.

    Example: `likeset up st-mary`
    """
    if link:
        emit({"link": server.new_link(home)})
        return
    where = server.Listen(listen, port, public.rstrip("/"))
    with ExitStack() as stack:
        opened = stack.enter_context(homes.Home(home))
        stack.enter_context(opened.held_by_up())
        syncs = stack.enter_context(syncs_of(home, mailbox, stays=True, needed=not console))
        stop = stack.enter_context(stopping_by_signals())
        tell = Log(opened.name)
        loop = server.LoopState(len(syncs), every)
        if console:
            running = stack.enter_context(console_pages.home_console(home, where, loop))
            if "JOURNAL_STREAM" in os.environ:  # systemd's journal, which more people read than may decide here
                tell(f"the console: {running.address}; likeset up {home} --link prints a link that signs in")
            else:
                tell(f"the console: {running.link} (signs in once, within a quarter of an hour)", link=running.link)
        mailboxes_named = f"checking {len(syncs)} mailbox{'' if len(syncs) == 1 else 'es'}"
        tell(f"{mailboxes_named if syncs else 'home.yaml names no mailbox: nothing comes or goes'}; Ctrl-C ends it")
        for note in _no_pins(opened, home):
            tell(note)
        notify = notifications.Notifier(opened, lambda line: tell(mailboxes.Note(line)))

        def synced(done: "mailboxes.Synced") -> None:
            loop.add(done)
            if done.something_happened:
                tell(done.words, run=", ".join(done.runs))
            if not stop.is_set():  # otherwise not all mailboxes were checked
                notify(done.troubles)

        shortest = min(mailboxes.SHORTEST, every)
        mailboxes.serve(syncs, stop=stop, tell=tell, synced=synced, shortest=shortest, longest=every)
        tell("stopped between two letters; the next sync continues")


class Log:
    """Lines of a process that stays: for people, or as JSON documents with the party and the run."""

    def __init__(self, party: str) -> None:
        self._party, self._as_json = party, in_json()

    def __call__(self, line: str, *, run: str = "", **more: str) -> None:
        at = homes.utc_now()
        if self._as_json:
            level = "warning" if isinstance(line, mailboxes.Note) else "info"
            about = {"party": self._party, "run": run or getattr(line, "run", "")}
            words = {"at": homes.stamp(at), "level": level, **about, "message": line, **more}
            stdout.file.write(json.dumps(words) + "\n")
        else:
            stdout.print(f"[dim]{at:%Y-%m-%d %H:%M:%S}Z[/]  {literal(line)}", soft_wrap=True)
        stdout.file.flush()


def check(*, home: HomePath = HERE) -> None:
    """Check a home before its first run: card, pinned cards, mailboxes, clock, disk, policy, data.

    Exit code 1 unless ready. The state is `ready`, `not set up yet` (nothing is wrong, but a step is missing) or
    `not ready`.

    Example: `likeset check --home st-mary`
    """
    with homes.Home(home) as opened:
        checks = console_pages.checks_of(opened)
    faults = [one for one in checks if not one.ok]
    state = "ready" if not faults else "not set up yet" if all(fault.to_do for fault in faults) else "not ready"
    document = {
        "ok": not faults,
        "state": state,
        "checks": [{"check": one.check, "ok": one.ok, "detail": one.detail} for one in checks],
        **warning_documents([one.column for one in checks if one.column is not None]),
    }
    add_data = at_home(home, "likeset", "owner", "data", "add", "NAME", "FILE", "--schema", "SCHEMA.yaml")
    missing = {fault.check for fault in faults if fault.to_do}
    emit(document, next_step=add_data if "data sets" in missing else (), ok=not faults)


BackupFile = Annotated[Path, typer.Argument(metavar="FILE", help="The backup, a tar file.", show_default=False)]
_RESTORED = (
    "runs that were open at the time of the backup cannot be continued: their keys are not in it",
    "the home stops if it finds a letter of its own in the mailbox that it does not know, written after the backup",
)


def backup(file: BackupFile, *, home: HomePath = HERE) -> None:
    """Write a backup of a home into one private file, also while the home is in use.

    It contains the secret keys of the card, a consumer's targets and results, and offers that were not purged: keep it
    as safe as the home itself. Keys of runs, the split folder, locks, console links and symbolic links are left out:
    runs that are open now cannot be continued from it. Files of registered data sets are not in the home.

    Example: `likeset backup st-mary.tar --home st-mary`
    """
    with homes.Home(home) as opened:
        manifest = backups.write_backup(opened, file)
    document = {"backup": str(file), "name": manifest.name, "at": manifest.at, "left_out": list(backups.LEFT_OUT)}
    emit(document, notes=[f"keep it as safe as {home}: it contains the keys of the card"])


def restore(file: BackupFile, folder: NewFolder) -> None:
    """Restore a home from a backup into a new directory.

    Runs that were open then cannot be continued, since their keys are not in it. Never run two copies of a home.

    Example: `likeset restore st-mary.tar st-mary`
    """
    manifest = backups.restore_backup(file, folder)
    document = {"home": str(folder), "name": manifest.name, "backup_of": manifest.at, "notes": list(_RESTORED)}
    emit(document, next_step=("likeset", "check", "--home", str(folder)))


curator = typer.Typer(name="curator", **NOUN)


@curator.callback()
def _curator() -> None: ...


@curator.command("schema")
def curator_schema(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[SCHEMA.yaml]...", help="Schemas that runs may use from now on.")
    ] = None,
    *,
    seed_rows: Annotated[
        list[Path] | None, typer.Option(help="Public rows that runs may start from, on those schemas; repeatable.")
    ] = None,
    home: HomePath = HERE,
) -> None:
    """Add schemas to the curator and list them. A run on an unknown schema ends before owners are asked.

    Example: `likeset curator schema schema.yaml --home curator`
    """
    with homes.Home(home) as outer, homes.Home(outer.own_curator or home) as opened:
        part = curators.Curator(letters.Mail(opened))
        for path in files or []:
            part.add_schema(path)
        digests = [digest for path in seed_rows or [] for digest in part.add_seed_rows(str(path))]
        known = part.schemas_known()
    documents = [{"schema": declared.digest, "columns": list(declared.record_columns)} for declared in known]
    emit({"schemas": documents, "seed_rows_added": digests})


split = typer.Typer(name="split", **NOUN)


@split.command("setup")
def split_setup(
    *,
    at: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to make it; by default where likeset looks for it.")
    ] = None,
    python: Annotated[
        str, typer.Option(metavar="PATH", help="A Python 3.10 or 3.11; by default the one that runs likeset.")
    ] = "",
) -> None:
    """Make the environment of workers from the lock file, check every package by its hash, and start a worker.

    It is separate from likeset's own, and takes about 1 GB. A complete environment is not changed, an incomplete one
    is made again. With another `--at`, LIKESET_SPLIT_PYTHON must name its interpreter.

    Example: `likeset split setup`
    """
    folder = host.environment_folder() if at is None else at
    made = False
    try:
        path = host.worker_python(folder)
    except InvalidArgument:
        path = host.make_environment(folder, python=python or sys.executable)
        made = True
    versions, program = host.try_worker(path), host.program_digest()
    document = {"environment": str(folder), "python": str(path), "made": made, "versions": versions, "program": program}
    emit(document)
