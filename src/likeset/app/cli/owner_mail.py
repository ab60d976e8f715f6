"""``likeset owner sync`` and ``serve``: an owner's letters by mailbox."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from likeset.app.cli.consoles import ConsoleFlag, PortOption, console_beside
from likeset.app.cli.mailbox import (
    EveryOption,
    MailboxOption,
    addresses_to_use,
    nobody_known,
    serve_and_show,
    sync_and_show,
)
from likeset.app.cli.owner_setup import HERE, NodePath
from likeset.display.screen import JsonFlag
from likeset.homes.owner_node import Home
from likeset.homes.policy import Policy
from likeset.transports.desks import owner_desk
from likeset.transports.posts import Desk
from likeset.transports.sync import desks_at

__all__ = ["serve", "sync"]


def sync(*, mailbox: MailboxOption = None, node: NodePath = HERE, as_json: JsonFlag = False) -> None:
    """Look into the mailboxes once: take what came, send what is due. Exit code 1 if one cannot be used now.

    Without --mailbox those that owner.yaml names. Terms that come wait in the inbox for a decision, as always; what was
    decided goes out with the next look. Made for cron.

    Example: `likeset owner sync --mailbox file:///mnt/share --node st-mary`
    """
    with _desks(node, mailbox) as desks:
        sync_and_show(desks, as_json=as_json, notes=nobody_known(node))


def serve(
    *,
    mailbox: MailboxOption = None,
    every: EveryOption = 60.0,
    console: ConsoleFlag = False,
    port: PortOption = 0,
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Stay, and look into the mailboxes again and again, with pauses that grow while nothing comes.

    SIGTERM and Ctrl-C end it between two letters, with exit code 0. A mailbox that is away is tried again. With
    --console, a steward decides in a browser meanwhile; --port is the console's.

    Example: `likeset owner serve --mailbox file:///mnt/share --node st-mary`
    """
    with (
        _desks(node, mailbox) as desks,
        console_beside(node, port=port, wanted=console, as_json=as_json),
    ):
        serve_and_show(desks, every=every, as_json=as_json, notes=nobody_known(node))


@contextmanager
def _desks(node: Path, given: list[str] | None) -> Iterator[list[Desk]]:

    home = Home(node)
    home.check()
    addresses = addresses_to_use(given, Policy.load(home.policy).mailboxes, file="owner.yaml")
    with desks_at(addresses, lambda store: owner_desk(node, store)) as desks:
        yield desks
