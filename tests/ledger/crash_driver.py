"""Kills processes that use a ledger, and looks at what they leave behind: a program, prints one JSON line.

A program of its own because it forks: it has one thread, and everything slow is imported before the first
fork, so that a life costs milliseconds and hundreds of them can end, one at every single system call.
"""

import ctypes
import hashlib
import json
import multiprocessing
import os
import platform
import shutil
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ledger_world import CURATOR, ROWS, TARGET, charge, gaussian, opened, reserve

from likeset.errors import BudgetExceeded, UnfinishedRequest
from likeset.ledger.budget import Charge, Request
from likeset.ledger.ledger import Ledger
from likeset.privacy.accounting import Filter
from likeset.privacy.events import NoRelease, Relation, Release

_TRACEME, _SYSCALL, _GETSYSCALLINFO, _SETOPTIONS = 0, 24, 0x420E, 0x4200
_MARK_SYSCALLS, _KILL_WITH_TRACER = 0x1, 0x100000
_SYNCS = {"x86_64": {74, 75}, "aarch64": {82, 83}}.get(platform.machine(), set())
_WRITES = {"x86_64": {1, 18, 77}, "aarch64": {64, 68, 46}}.get(platform.machine(), set())
_libc = ctypes.CDLL(None, use_errno=True)
TABLES = {"letters": "CREATE TABLE letters (name TEXT PRIMARY KEY, data BLOB)"}
ASKED: dict[str, tuple[Charge, bool]] = {  # and whether it is repeatable
    "mean": (charge(TARGET, gaussian()), False),
    "rows": (charge(CURATOR, ROWS, rows=7), True),
    "bid": (charge(CURATOR, NoRelease()), True),
}


class World:
    """One ledger, and a wire on which everything that was sent can be read."""

    def __init__(self, directory: Path) -> None:
        self.ledger = directory / "ledger.sqlite"
        self.wire = directory / "wire"

    def send(self, name: str, message: bytes) -> None:
        handle = os.open(self.wire, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(handle, name.encode() + b" " + message.hex().encode() + b"\n")
        os.close(handle)

    def sent(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for line in self.wire.read_text().splitlines() if self.wire.exists() else []:
            name, message = line.split()
            found.setdefault(name, set()).add(message)
        return found


def noise() -> tuple[bytes, Release[Any] | None]:
    message = os.urandom(24)
    return message, Release(list(message), gaussian())


def one_release(world: World, ledger: Ledger, place: int) -> None:
    """A private release to the owners; rows to the curator, with a note and a letter; a bid that costs nothing.

    The release is drawn with noise: if its draw was interrupted, none is sent. Rows and bid follow from a key.
    """
    requests = {kind: Request("run", place, kind) for kind in ASKED}
    with suppress(UnfinishedRequest):
        world.send(f"mean-{place}", ledger.draw(ASKED["mean"][0], noise, request=requests["mean"]))
    with ledger.deciding() as transaction:
        new = ledger.charge_of(requests["rows"]) is None
        drawn = hashlib.sha256(b"key %d" % place).digest()
        rows = transaction.answer(ASKED["rows"][0], drawn, None, request=requests["rows"])
        if new:
            transaction.append("sent", "run", {"round": place})
            transaction.connection.execute("INSERT INTO letters VALUES (?, ?)", (f"rows-{place}", rows))
    world.send(f"rows-{place}", rows)
    bid = hashlib.sha256(b"bid %d" % place).digest()
    sent = ledger.draw(ASKED["bid"][0], lambda: (bid, None), request=requests["bid"], repeatable=True)
    world.send(f"bid-{place}", sent)


def faults(world: World) -> list[str]:
    """What must never be, after any death: empty if all is well."""
    with Ledger(world.ledger, tables=TABLES) as ledger:
        found = [str(problem) for problem in ledger.verify().problems]
        entries = ledger.entries()
        charged = [json.loads(entry.key) for entry in entries if entry.kind == "reserve"]
        answered = [json.loads(entry.key) for entry in entries if entry.kind == "commit"]
        if len({tuple(key) for key in charged}) < len(charged):
            found.append("a request was charged twice")
        if any(key not in answered for key in charged if key[2] != "mean"):
            found.append("a repeatable draw was charged and not answered in one write")
        rows = [f"rows-{place}" for _, place, kind in answered if kind == "rows"]
        notes = [f"rows-{entry.document()['round']}" for entry in entries if entry.kind == "sent"]
        with ledger.snapshot() as connection:
            letters = [name for (name,) in connection.execute("SELECT name FROM letters ORDER BY rowid")]
        if not rows == notes == letters:
            found.append("rows, the note that they left and their letter were not written together")
        for name, messages in world.sent().items():
            kind, place = name.split("-")
            cost, repeatable = ASKED[kind]
            again = ledger.draw(
                cost, lambda: (b"drawn again", None), request=Request("run", int(place), kind), repeatable=repeatable
            )
            if messages != {again.hex()}:
                found.append(f"{name} was sent with other bytes than are stored")
    return found


class NoTracing(Exception):
    """This system does not let a process trace its child."""


def traced(life: Callable[[], None], prepare: Callable[[], None] = lambda: None) -> int:
    """A child that has prepared itself and stands still before the first system call of its life."""
    child = os.fork()
    if child == 0:
        prepare()
        if _libc.ptrace(_TRACEME, 0, None, None) != 0:
            os._exit(77)
        os.kill(os.getpid(), signal.SIGSTOP)
        life()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        raise NoTracing
    _libc.ptrace(_SETOPTIONS, child, None, ctypes.c_void_p(_MARK_SYSCALLS | _KILL_WITH_TRACER))
    return child


def step(child: int) -> bool:
    """Let a traced child run to its next stop, on entry to or return from a system call; false at its end."""
    _libc.ptrace(_SYSCALL, child, None, None)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
        raise AssertionError("the life that is to be killed failed by itself")
    return not os.WIFEXITED(status)


def killed_at(call: int, life: Callable[[], None], prepare: Callable[[], None] = lambda: None) -> bool:
    """Live, and be killed on entering the system call of this number; false if life ended before."""
    child = traced(life, prepare)
    for _ in range(2 * call - 1):
        if not step(child):
            return False
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def every_step(directory: Path, stride: int = 1) -> dict[str, Any]:
    """Kill on entry to system calls all through a release, each time from the same start; then the next goes on."""
    template = directory / "template"
    template.mkdir()
    with opened(Ledger(World(template).ledger, tables=TABLES)) as ledger:
        one_release(World(template), ledger, 0)
    deaths = 0
    found: list[str] = []
    sent_at_death: set[int] = set()
    while True:
        place = directory / f"life-{deaths + 1}"
        shutil.copytree(template, place)
        world = World(place)
        open_ledgers: list[Ledger] = []

        def prepare(world: World = world, open_ledgers: list[Ledger] = open_ledgers) -> None:
            open_ledgers.append(Ledger(world.ledger, tables=TABLES))
            open_ledgers[0].refresh()

        def life(world: World = world, open_ledgers: list[Ledger] = open_ledgers) -> None:
            one_release(world, open_ledgers[0], 1)

        if not killed_at(deaths * stride + 1, life, prepare):
            return {"deaths": deaths, "faults": found, "sent_at_death": sorted(sent_at_death)}
        deaths += 1
        sent_at_death.add(len(world.sent()))
        found += [f"death {deaths}: {fault}" for fault in faults(world)]
        with Ledger(world.ledger, tables=TABLES) as ledger:
            one_release(world, ledger, 1)
            charged = ledger.accounts()
        found += [f"death {deaths}, resumed: {fault}" for fault in faults(world)]
        if [account.charges for account in charged] != [2, 4]:
            found.append(f"death {deaths}: not every request was charged exactly once")
        if not {"rows-1", "bid-1"} <= world.sent().keys():
            found.append(f"death {deaths}: the resumed life did not finish")
        shutil.rmtree(place)


def hammer(directory: Path, processes: int = 4) -> dict[str, Any]:
    """Several processes spend from one ledger as fast as they can until it is empty; each has its first charge."""
    path = directory / "ledger.sqlite"
    with opened(Ledger(path), rows=150):
        pass
    children = []
    everybody = multiprocessing.get_context("fork").Barrier(processes)
    for process in range(processes):
        child = os.fork()
        if child == 0:
            granted = {"mean": 0, "rows": 0}
            with Ledger(path) as ledger:
                everybody.wait()
                for kind, view, event, rows in (("mean", TARGET, gaussian(), 0), ("rows", CURATOR, ROWS, 7)):
                    for place in range(10**6):
                        try:
                            reserve(ledger, view, event, request=Request(f"run-{process}", place, kind), rows=rows)
                        except BudgetExceeded:
                            break
                        granted[kind] += 1
                        if granted == {"mean": 1, "rows": 0}:
                            everybody.wait()
                        time.sleep(0.01)  # SQLite lets those who wait sleep longer and longer: give them a turn
            (directory / f"granted-{process}").write_text(json.dumps(granted))
            os._exit(0)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    shares = [json.loads((directory / f"granted-{process}").read_text()) for process in range(processes)]
    with Ledger(path) as ledger:
        accounts = {account.view: account for account in ledger.accounts()}
        return {
            "codes": codes,
            "means": [one["mean"] for one in shares],
            "rows": [7 * one["rows"] for one in shares],
            "epsilon": accounts[TARGET].epsilon,
            "rows_charged": accounts[CURATOR].rows,
            "faults": [str(problem) for problem in ledger.verify().problems],
        }


def calls(directory: Path) -> dict[str, Any]:
    """The order of writes and syncs while a charge is made."""
    world = World(directory)
    open_ledgers: list[Ledger] = []
    with opened(Ledger(world.ledger)) as ledger:
        reserve(ledger, TARGET, gaussian(), request=Request("run", 0, "mean"))

    def prepare() -> None:
        open_ledgers.append(Ledger(world.ledger))
        reserve(open_ledgers[0], TARGET, gaussian(), request=Request("run", 1, "mean"))

    def life() -> None:
        reserve(open_ledgers[0], TARGET, gaussian(), request=Request("run", 2, "mean"))

    child = traced(life, prepare)
    order = []
    while step(child):
        info = (ctypes.c_uint64 * 11)()
        _libc.ptrace(_GETSYSCALLINFO, child, ctypes.c_void_p(ctypes.sizeof(info)), info)
        entering, number = info[0] & 0xFF == 1, info[3]
        if entering and number in _SYNCS | _WRITES:
            order.append("sync" if number in _SYNCS else "write")
    return {"order": order}


if __name__ == "__main__":
    # Pricing imports its library late; a fork should not have to.
    Filter.empty(relation=Relation.REPLACE_ONE, delta=1e-5).add(gaussian()).add(gaussian()).epsilon  # noqa: B018
    scenario = {function.__name__: function for function in (every_step, hammer, calls)}
    started = time.monotonic()
    try:
        report = scenario[sys.argv[1]](Path(sys.argv[2]), *map(int, sys.argv[3:]))
    except NoTracing:
        report = {"unavailable": "this system does not let a process trace its child"}
    sys.stdout.write(json.dumps({**report, "seconds": round(time.monotonic() - started, 2)}) + "\n")
