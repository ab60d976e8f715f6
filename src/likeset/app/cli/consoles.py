"""``likeset owner console`` and ``likeset run console``: pages in a browser, for a steward and for a consumer."""

import webbrowser
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from likeset.app.cli.mailbox import stopping_by_signals
from likeset.app.cli.owner_setup import HERE, NodePath
from likeset.app.cli.run_setup import HomePath, opened_home
from likeset.display.screen import JsonFlag, literal, show_json, stdout
from likeset.errors import InvalidArgument, missing_extra

if TYPE_CHECKING:
    from likeset.app.console.server import RunningConsole

__all__ = ["ConsoleFlag", "PortOption", "console_beside", "of_consumer", "of_owner"]

PortOption = Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes one that is free.")]
ConsoleFlag = Annotated[bool, typer.Option("--console", help="Also open the steward's console, on this machine alone.")]
_Listen = Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen; others than loopback need --public.")]
_Public = Annotated[str, typer.Option(metavar="URL", help="The address that people type, of a proxy before it.")]
_Link = Annotated[bool, typer.Option("--link", help="Only make a new link into the console that runs already.")]
_Open = Annotated[bool, typer.Option("--open", help="Open the link in this machine's browser.")]


def of_owner(
    *,
    port: PortOption = 0,
    listen: _Listen = "127.0.0.1",
    public: _Public = "",
    link: _Link = False,
    open_it: _Open = False,
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Everything that a steward does, in a browser: inbox, review, decisions, budgets, data sets, log, rules.

    It listens on this machine alone, and prints a link that signs in once. SIGTERM and Ctrl-C end it, with exit code 0.

    Example: `likeset owner console --node st-mary`
    """
    with _needing_extra():
        from likeset.app.console import owner, server
    if link:
        _show_link(server.new_link(node), as_json=as_json)
        return
    where = server.Listen(listen, port, public.rstrip("/"))
    _run(owner.owner_console(node, where), open_it=open_it, as_json=as_json)


def of_consumer(
    *,
    port: PortOption = 0,
    link: _Link = False,
    open_it: _Open = False,
    home: HomePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """The runs of this consumer in a browser: who has answered, and plan, report and evaluation of each.

    Example: `likeset run console --home clinic`
    """
    with _needing_extra():
        from likeset.app.console import consumer, server
    if link:
        _show_link(server.new_link(home), as_json=as_json)
        return
    where = server.Listen(port=port)
    _run(consumer.consumer_console(opened_home(home), where), open_it=open_it, as_json=as_json)


@contextmanager
def console_beside(node: Path, *, port: int, wanted: bool, as_json: bool) -> "Iterator[None]":
    """A steward's console while something else goes on."""
    if not wanted:
        yield
        return
    with _needing_extra():
        from likeset.app.console import owner, server
    with owner.owner_console(node, server.Listen(port=port)) as started:
        if not as_json:
            _tell(started)
        yield


def _run(console: "AbstractContextManager[RunningConsole]", *, open_it: bool, as_json: bool) -> None:
    with stopping_by_signals() as stop, console as started:
        if as_json:
            show_json({"address": started.address, "link": started.link})
        else:
            _tell(started)
            stdout.print("Ctrl-C ends it.")
        stdout.file.flush()
        if open_it:
            webbrowser.open(started.page_to_open())
        while started.is_running and not stop.wait(1.0):
            pass


def _tell(started: "RunningConsole") -> None:
    stdout.print("This link signs in once, within a quarter of an hour:")
    stdout.print(f"[bold]{literal(started.link)}[/]", soft_wrap=True)


def _show_link(link: str, *, as_json: bool) -> None:
    if as_json:
        show_json({"link": link})
    else:
        stdout.print(f"[bold]{literal(link)}[/]", soft_wrap=True)


@contextmanager
def _needing_extra() -> Iterator[None]:
    """Name the extra if its packages are missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        reason = missing_extra("console")
        raise InvalidArgument("console", str(error.name), reason) from error
