"""Following a run by mailbox: on a terminal a table that changes, elsewhere a line for each change."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import typer
from rich.live import Live
from rich.table import Table

from likeset.app.cli.mailbox import stopping_by_signals
from likeset.display.screen import complain, literal, show_json, show_notes, show_table, stderr, stdout
from likeset.homes.compute import compute_room
from likeset.homes.consumer_home import ConsumerHome, KeptRun
from likeset.run.runs import whereabouts
from likeset.transports.desks import RunProgress, consumer_desk
from likeset.transports.posts import Desk, Look
from likeset.transports.sync import desks_at, serve

__all__ = ["consumer_desks", "show_progress", "watch_mail"]

_LONGEST_PAUSE = 10.0  # somebody looks at the screen
_SHOWN = {
    "has not got the terms": "[dim]○[/]",
    "decides": "[yellow]●[/]",
    "takes part": "[green]✓[/]",
    "has answered": "[green]✓[/]",
    "does not take part": "[dim]○[/]",
}


def watch_mail(home: ConsumerHome, run: KeptRun, *, once: bool, as_json: bool) -> None:
    """Look, and show what changes, until the run has ended, or once.

    Exit code 1 if it ended without a summary, or if the one look met a mailbox in trouble.
    """
    last: list[RunProgress] = [whereabouts(home, run)]
    live, troubles = stdout.is_terminal and not once, list[str]()
    if run.travel is not None and last[0].ended is None and not run.cancelled:
        with (
            consumer_desks(home, run.travel.mailbox, stays=not once) as desks,
            stopping_by_signals() as stop,
            _screen(last[0], live=live, quiet=as_json) as show,
        ):

            def looked(_: Look) -> None:
                progress = whereabouts(home, run)
                if progress != last[0]:
                    show(progress)
                last[0] = progress
                if once or progress.ended is not None:
                    stop.set()

            tell = _tell_machines if as_json else _tell_people
            serve(desks, stop=stop, tell=tell, looked=looked, troubled=troubles.append, longest=_LONGEST_PAUSE)
    _tell_end(run, last[0], as_json=as_json, troubles=troubles if once else ())


@contextmanager
def consumer_desks(home: ConsumerHome, *addresses: str, stays: bool = False) -> Iterator[list[Desk]]:
    """A consumer's desks at mailboxes; who stays computes split runs beside the looks."""
    room = compute_room(home) if stays else None
    with desks_at(addresses, lambda store: consumer_desk(home.folder, store, room=room)) as desks:
        yield desks


def _tell_people(line: str) -> None:
    show_notes([line])


def _tell_machines(line: str) -> None:
    stderr.print(literal(line), soft_wrap=True)


def _tell_end(run: KeptRun, progress: RunProgress, *, as_json: bool, troubles: Sequence[str]) -> None:
    failed = run.cancelled or (progress.ended is not None and not progress.done)
    if as_json:
        show_json({**progress.document(), "cancelled": run.cancelled, "troubles": list(troubles)})
    elif progress.done:
        stdout.print(f"See it with: likeset run report {literal(run.name)}", soft_wrap=True)
    elif run.cancelled:
        complain(f"run {run.name} was cancelled here; give the job another name to ask again")
    elif failed:
        complain(f"run {run.name}: {progress.headline}")
    else:
        stdout.print(f"It goes on with the next look: likeset run watch {literal(run.name)}", soft_wrap=True)
    if failed or troubles:
        raise typer.Exit(1)


def show_progress(progress: RunProgress) -> None:
    """Where a run is: a table on a terminal, a line elsewhere."""
    if stdout.is_terminal:
        rows = [[name, progress.stands(name)] for name in progress.parties]
        show_table(f"Run {progress.run}: {progress.headline}", ["who", "where it stands"], rows)
        stdout.print(literal(progress.outlook), soft_wrap=True)
    else:
        _print_line(progress)


@contextmanager
def _screen(first: RunProgress, *, live: bool, quiet: bool) -> Iterator[Callable[[RunProgress], None]]:
    if quiet:
        yield lambda _: None
    elif not live:
        _print_line(first)
        yield _print_line
    else:
        shown = [first]
        with Live(get_renderable=lambda: _table(shown[0]), console=stdout, refresh_per_second=1):
            yield lambda progress: shown.__setitem__(0, progress)


def _print_line(progress: RunProgress) -> None:
    words = ", ".join(f"{literal(name)}: {literal(progress.stands(name))}" for name in progress.parties)
    more = progress.outlook
    stdout.print(f"[bold]{literal(progress.headline)}[/]  {words}{'; ' if more else ''}{literal(more)}", soft_wrap=True)
    stdout.file.flush()


def _table(progress: RunProgress) -> Table:
    title = f"Run {literal(progress.run)}: {literal(progress.headline)}"
    table = Table(title=title, title_style="bold", title_justify="left", min_width=60)
    table.caption, table.caption_style, table.caption_justify = literal(progress.outlook), "dim", "left"
    table.add_column("who")
    table.add_column("where it stands")
    for name in progress.parties:
        words = progress.stands(name)
        table.add_row(literal(name), f"{_SHOWN.get(words, '[cyan]●[/]')} {literal(words)}")
    return table
