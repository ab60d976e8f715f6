"""Following a run between organisations: on a terminal a table that changes, elsewhere a line for each change."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.live import Live
from rich.table import Table

from likeset.display.screen import literal, stdout
from likeset.errors import NoAnswer
from likeset.homes.consumer_home import KeptRun
from likeset.run.submission import Engine, Stage, Whereabouts, look
from likeset.transports.outcomes import SiteState

__all__ = ["follow"]

_SECONDS_WITHOUT_SERVER = 300.0
_SECONDS_BETWEEN_LOOKS = 1.5
_SHOWN = {
    SiteState.READY: "[cyan]●[/] ready",
    SiteState.WAITING: "[yellow]●[/] waits for a decision",
    SiteState.WORKING: "[cyan]●[/] working",
    SiteState.DONE: "[green]✓[/] done",
    SiteState.ABSTAINS: "[dim]○ does not take part[/]",
    SiteState.NO_ANSWER: "[red]✗[/] gives no answer",
    SiteState.REFUSED: "[red]✗[/] its message was refused",
}

_Show = Callable[[Whereabouts], None]


def follow(made: KeptRun, engine: Engine, *, once: bool, quiet: bool) -> Whereabouts:
    """Look at a run until it has ended, and show what changes; a server that is away for a while may come back."""
    last: Whereabouts | None = None
    heard = time.monotonic()
    with _screen(made.name, live=stdout.is_terminal and not once, quiet=quiet) as show:
        while True:
            try:
                whereabouts = look(made, engine)
                heard = time.monotonic()
            except NoAnswer:
                if once or time.monotonic() - heard > _SECONDS_WITHOUT_SERVER:
                    raise
                whereabouts = Whereabouts(Stage.AWAY, {} if last is None else last.sites)
            if (
                whereabouts.stage is Stage.STARTING
                and last is not None
                and last.stage not in (Stage.STARTING, Stage.AWAY)
            ):
                whereabouts = Whereabouts(Stage.CLOSING, last.sites)
            if whereabouts != last:
                show(whereabouts)
            last = whereabouts
            if once or not whereabouts.is_open:
                return whereabouts
            time.sleep(_SECONDS_BETWEEN_LOOKS)


@contextmanager
def _screen(name: str, *, live: bool, quiet: bool) -> Iterator[_Show]:
    if quiet:
        yield lambda _: None
    elif not live:
        yield _print_line
    else:
        shown = _Table(name)
        with Live(get_renderable=shown.table, console=stdout, refresh_per_second=2) as screen:

            def show(whereabouts: Whereabouts) -> None:
                shown.take(whereabouts)
                screen.refresh()

            yield show


def _print_line(whereabouts: Whereabouts) -> None:
    words = "  ".join(f"{literal(site)}: {said}" for site, said in whereabouts.sites.items())
    stdout.print(f"[bold]{literal(whereabouts.text)}[/]  {words}", soft_wrap=True)


class _Table:
    """All sites of a run, with the time that it takes."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._began = time.monotonic()
        self._whereabouts = Whereabouts(Stage.STARTING)

    def take(self, whereabouts: Whereabouts) -> None:
        self._whereabouts = whereabouts

    def table(self) -> Table:
        seconds = int(time.monotonic() - self._began)
        title = f"Run {literal(self._name)}: {literal(self._whereabouts.text)}"
        table = Table(title=title, title_style="bold", title_justify="left", min_width=60)
        table.caption, table.caption_style = f"{seconds // 60}:{seconds % 60:02d}", "dim"
        table.add_column("site")
        table.add_column("where it is")
        for site, said in self._whereabouts.sites.items():
            table.add_row(literal(site), _SHOWN[said])
        return table
