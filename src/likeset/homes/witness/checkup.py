"""Before the first run: can this witness do what it promises? Verdicts that a person understands."""

import contextlib
import os
import socket
import stat
from collections import Counter
from collections.abc import Iterator
from typing import get_args

from likeset.homes.findings import Finding, guarded
from likeset.homes.tunnel_address import TunnelPorts
from likeset.homes.witness.home import WitnessHome
from likeset.split.digest import program_digest
from likeset.split.environment import environment_folder, worker_python
from likeset.split.worker_process import try_worker
from likeset.trust.pins import Role

__all__ = ["checkup"]

_SECONDS = 3.0


def checkup(home: WitnessHome) -> list[Finding]:
    """Look at everything: keys, cards, mailboxes, the workers' environment, the place where tunnels listen."""
    return [
        *guarded("home", lambda: _home(home)),
        *guarded("card", lambda: _card(home)),
        *guarded("pinned cards", lambda: _pinned_cards(home)),
        *guarded("mailboxes", lambda: _mailboxes(home)),
        *guarded("workers", _workers),
        *guarded("tunnels", lambda: _tunnels(home)),
    ]


def _home(home: WitnessHome) -> Iterator[Finding]:
    with home.identity.book as book:
        book.check_running()  # raises where it was put back from an old copy
    mode = stat.S_IMODE(home.folder.stat().st_mode)
    if os.name == "posix" and mode & 0o077:
        yield Finding("home", ok=False, words=f"other users may look into it (mode {mode:04o}); chmod 700 it")
    else:
        yield Finding("home", ok=True, words="private, and not known to be an old copy")


def _card(home: WitnessHome) -> Iterator[Finding]:
    card = home.card()
    yield Finding("card", ok=True, words=f"{card.name}, {card.fingerprint}; nobody else can read its keys")


def _pinned_cards(home: WitnessHome) -> Iterator[Finding]:
    counts = Counter(pin.role for pin in home.pins().all() if pin.state == "pinned")
    needed: tuple[Role, ...] = ("consumer", "curator")
    missing = [f"no {role}" for role in needed if not counts[role]]
    listed = ", ".join(f"{counts[role]} as {role}" for role in get_args(Role) if counts[role])
    how = f"{' and '.join(missing)} yet, so no run can begin: compare cards by telephone, and call `likeset card pin`"
    yield Finding("pinned cards", ok=not missing, words="; ".join(filter(None, [listed, how if missing else ""])))


def _mailboxes(home: WitnessHome) -> Iterator[Finding]:
    addresses = home.settings.mailboxes
    words = ", ".join(addresses) or "none is named: write mailboxes: into witness.yaml"
    yield Finding("mailboxes", ok=bool(addresses), words=words)


def _workers() -> Iterator[Finding]:
    folder = environment_folder()
    versions = try_worker(worker_python(folder))
    words = f"start, with spu {versions['spu']} and Python {versions['python']} ({folder})"
    yield Finding("workers", ok=True, words=words)
    yield Finding("program", ok=True, words=f"{program_digest()}, which terms must name")


def _tunnels(home: WitnessHome) -> Iterator[Finding]:
    place = home.tunnels
    try:
        listening = [_listening(place.listen.host, port) for port in place.listen.ports]
    except OSError as error:
        words = f"nothing can listen at {home.settings.listen}: {error.strerror or type(error).__name__}"
        yield Finding("tunnels", ok=False, words=words)
        return
    with contextlib.ExitStack() as stack:
        for server in listening:
            stack.enter_context(server)
        reached = _reached(place.reach_at, listening[0].getsockname()[1])
    shown = home.settings.reach_at or home.settings.listen
    words = f"{len(listening)} port{'' if len(listening) == 1 else 's'} at {home.settings.listen}"
    far = f"{shown} answers" if reached else f"{shown} does not answer from here: let the others try it"
    yield Finding("tunnels", ok=True, words=f"{words}, free; {far}")


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)


def _reached(place: TunnelPorts, port: int) -> bool:
    try:
        socket.create_connection((place.host, place.first or port), timeout=_SECONDS).close()
    except OSError:
        return False
    return True
