"""Following a run between organisations: on a terminal a table that changes, elsewhere a line for each change."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.live import Live
from rich.markup import escape
from rich.table import Table

from likeset.app.cli.screen import stdout
from likeset.errors import NoAnswer

if TYPE_CHECKING:
    from likeset.jobs.consumer_home import Engine, NetworkRun

__all__ = ["OPEN", "follow"]

_AWAY = "the curator's server does not answer"
OPEN = ("starting", "running", "waiting for decisions", "ending", _AWAY)
"""Words for a run that has not ended."""

_SECONDS_WITHOUT_SERVER = 300.0
_SECONDS_BETWEEN_LOOKS = 1.5
_SAID = {
    "waiting": "[yellow]●[/] waits for a decision",
    "working": "[cyan]●[/] working",
    "done": "[green]✓[/] done",
    "abstains": "[dim]○ does not take part[/]",
    "no answer": "[red]✗[/] gives no answer",
    "refused": "[red]✗[/] its message was refused",
}

_Found = tuple[str, dict[str, str]]
_Show = Callable[[_Found], None]


def follow(made: "NetworkRun", engine: "Engine", *, once: bool, quiet: bool) -> _Found:
    """Look at a run until it has ended, and show what changes; a server that is away for a while may come back."""
    last: _Found | None = None
    heard = time.monotonic()
    with _screen(made.name, live=stdout.is_terminal and not once, quiet=quiet) as show:
        while True:
            try:
                found = made.look(engine)
                heard = time.monotonic()
            except NoAnswer:
                if once or time.monotonic() - heard > _SECONDS_WITHOUT_SERVER:
                    raise
                found = (_AWAY, {} if last is None else last[1])
            if found[0] == "starting" and last is not None and last[0] not in ("starting", _AWAY):
                found = ("ending", last[1])  # the curator is gone, and NVFlare has not said so yet
            if found != last:
                show(found)
            last = found
            if once or found[0] not in OPEN:
                return found
            time.sleep(_SECONDS_BETWEEN_LOOKS)


@contextmanager
def _screen(name: str, *, live: bool, quiet: bool) -> Iterator[_Show]:
    if quiet:
        yield lambda _: None
    elif not live:
        yield _print_line
    else:
        shown = _Table(name)
        with Live(get_renderable=shown.table, console=stdout, refresh_per_second=2):
            yield shown.take


def _print_line(found: _Found) -> None:
    state, sites = found
    words = "  ".join(f"{escape(site)}: {said}" for site, said in sites.items())
    stdout.print(f"[bold]{state}[/]  {words}", soft_wrap=True)


class _Table:
    """All sites of a run, with the time that it takes."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._began = time.monotonic()
        self._found: _Found = ("starting", {})

    def take(self, found: _Found) -> None:
        self._found = found

    def table(self) -> Table:
        state, sites = self._found
        seconds = int(time.monotonic() - self._began)
        title = f"Run {escape(self._name)}: {state}"
        table = Table(title=title, title_style="bold", title_justify="left", min_width=60)
        table.caption, table.caption_style = f"{seconds // 60}:{seconds % 60:02d}", "dim"
        table.add_column("site")
        table.add_column("where it is")
        for site, said in sites.items():
            table.add_row(escape(site), _SAID.get(said, escape(said)))
        return table
