"""What commands share that look into mailboxes: ``sync`` looks once, ``serve`` stays."""

import os
import select
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from likeset.app.cli.card import show_fingerprint
from likeset.display.screen import complain, literal, show_json, show_notes, stderr, stdout
from likeset.errors import InvalidArgument, LikesetError
from likeset.homes.compute import ComputeRoom, compute_room
from likeset.homes.curator_home import CuratorHome
from likeset.homes.home import checked_addresses
from likeset.homes.mail import CARDS_FOLDER, utc_now
from likeset.homes.witness_home import WitnessHome
from likeset.transports.posts import NOTHING_NEW, Desk, Look
from likeset.transports.stores import Store
from likeset.transports.sync import SHORTEST, desks_at, look_once, serve
from likeset.trust.cards import Pins

__all__ = [
    "EveryOption",
    "ListenOption",
    "MailboxOption",
    "ReachOption",
    "SignalStop",
    "addresses_to_use",
    "computing_desks",
    "end_if_troubled",
    "look_document",
    "nobody_known",
    "serve_and_show",
    "show_card_to_give",
    "stopping_by_signals",
    "sync_and_show",
]

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
