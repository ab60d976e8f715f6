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
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ledger_world import CURATOR, ROWS, TARGET, answer, gaussian, limit, opened, reserve

from likeset.errors import BudgetExceeded
from likeset.ledger.budget import Limit
from likeset.ledger.ledger import Ledger, Request
from likeset.privacy.accounting import Filter
from likeset.privacy.events import Event, NoRelease, Relation, Release
from likeset.privacy.guarantee import View

_TRACEME, _SYSCALL, _GETSYSCALLINFO, _SETOPTIONS = 0, 24, 0x420E, 0x4200
_MARK_SYSCALLS, _KILL_WITH_TRACER = 0x1, 0x100000
_SYNCS = {"x86_64": {74, 75}, "aarch64": {82, 83}}.get(platform.machine(), set())
_WRITES = {"x86_64": {1, 18, 77}, "aarch64": {64, 68, 46}}.get(platform.machine(), set())
_libc = ctypes.CDLL(None, use_errno=True)
AGAIN: dict[str, Any] = {"unfinished": "resume"}
ASKED: dict[str, tuple[View, Event, int]] = {
    "mean": (TARGET, gaussian(), 0),
    "rows": (CURATOR, ROWS, 7),
    "bid": (CURATOR, NoRelease(), 0),
}


class World:
    """One ledger, and a wire on which everything that was sent can be read."""

    def __init__(self, directory: Path) -> None:
        self.ledger = directory / "ledger.sqlite"
        self.wire = directory / "wire"

    def send(self, name: str, message: bytes) -> None:
        """One line on the wire, in one write."""
        handle = os.open(self.wire, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(handle, name.encode() + b" " + message.hex().encode() + b"\n")
        os.close(handle)

    def sent(self) -> dict[str, set[str]]:
        """What was sent under each name."""
        found: dict[str, set[str]] = {}
        for line in self.wire.read_text().splitlines() if self.wire.exists() else []:
            name, message = line.split()
            found.setdefault(name, set()).add(message)
        return found


def draw() -> tuple[bytes, Release[Any] | None]:
    """A fresh draw: never twice the same."""
    message = os.urandom(24)
    return message, Release(list(message), gaussian())


def one_release(world: World, ledger: Ledger, place: int) -> None:
    """Reserve, run, commit, send: a private release to the owners; rows to the curator; a bid that costs nothing.

    The release is drawn with fresh coins, and charged as often as it is drawn; rows and bid follow from a key. The rows
    leave as from an owner's shell: two charges and the note that the run began are one write, both answers and the note
    that they left another.
    """
    mean = answer(ledger, TARGET, gaussian(), draw, request=Request("run", place, "mean"), unfinished="charge")
    world.send(f"mean-{place}", mean)
    world.send(f"rows-{place}", rows_with_audit(ledger, place))
    request, bid = Request("run", place, "bid"), hashlib.sha256(b"bid %d" % place).digest()
    world.send(f"bid-{place}", answer(ledger, CURATOR, NoRelease(), lambda: (bid, None), request=request, **AGAIN))


def rows_with_audit(ledger: Ledger, place: int) -> bytes:
    """Rows, charged and answered together with what an owner's shell writes beside them."""
    with ledger.deciding() as transaction:
        data = reserve(transaction, CURATOR, NoRelease(), request=Request("run", place, "data"), **AGAIN)
        rows = reserve(transaction, CURATOR, ROWS, request=Request("run", place, "rows"), rows=7, **AGAIN)
        if data.answer is None and f"run-{place}" not in noted(ledger, "began"):
            transaction.append("began", f"run-{place}", {})
        if rows.answer is not None and f"run-{place}" not in noted(ledger, "sent"):
            # A death came between journal and ledger: the answer has just been put on record, and the note with it.
            transaction.append("sent", f"run-{place}", {"entry": rows.number})
    if rows.answer is not None:
        return rows.answer
    with ledger.deciding() as transaction:
        transaction.commit(data, b"fingerprint")
        answer = transaction.commit(rows, hashlib.sha256(b"key %d" % place).digest())
        transaction.append("sent", f"run-{place}", {"entry": rows.number})
    return answer


def noted(ledger: Ledger, kind: str) -> list[str]:
    """What the entries of audit of a kind are about."""
    return [entry.key for entry in ledger.entries() if entry.kind == kind]


def faults(world: World) -> list[str]:
    """What must never be, after any death: empty if all is well."""
    found = []
    with Ledger(world.ledger) as ledger:
        verification = ledger.verify()
        found += [str(problem) for problem in verification.problems]
        accounts = {account.view: account for account in ledger.accounts()}
        sent = world.sent()
        # A release is charged at least as often as something new was sent for it; so with rows.
        means = sum(len(messages) for name, messages in sent.items() if name.startswith("mean"))
        rows = 7 * sum(len(messages) for name, messages in sent.items() if name.startswith("rows"))
        if accounts and accounts[TARGET].charges < means:
            found.append(f"{means} means were sent, {accounts[TARGET].charges} charged")
        if accounts and accounts[CURATOR].rows < rows:
            found.append(f"{rows} rows were sent, {accounts[CURATOR].rows} charged")
        found += together(ledger, sent)
        asked = [entry.key for entry in ledger.entries() if entry.kind == "reserve" and 'rows"' in entry.key]
        if len(set(asked)) < len(asked):
            found.append("rows that follow from a key were charged twice")
        found += [f"{name} was sent with two contents" for name, messages in sent.items() if len(messages) > 1]
        for name, messages in sent.items():
            kind, place = name.split("-")
            view, event, count = ASKED[kind]
            again = reserve(ledger, view, event, request=Request("run", int(place), kind), rows=count)
            if again.answer is None or {again.answer.hex()} != messages:
                found.append(f"{name} was not answered again with the same bytes")
    return found


def together(ledger: Ledger, sent: dict[str, set[str]]) -> list[str]:
    """What was written apart although it is to be written together, and what left without a note of it."""
    began, left = noted(ledger, "began"), noted(ledger, "sent")
    charged = [json.loads(key) for key in noted(ledger, "reserve")]
    answered = [json.loads(key) for key in noted(ledger, "commit")]
    found = []
    for kind in ("rows", "data"):
        if sorted(f"run-{place}" for _, place, name in charged if name == kind) != sorted(began):
            found.append(f"{kind} were charged without the note that the run began, or the other way round")
        if sorted(f"run-{place}" for _, place, name in answered if name == kind) != sorted(left):
            found.append(f"{kind} are on record without the note that they left, or the other way round")
    bids = [[key for key in keys if key[2] == "bid"] for keys in (charged, answered)]
    if bids[0] != bids[1]:
        found.append("a bid was charged and not answered")
    unnoted = [name for name in sent if name.startswith("rows") and f"run-{name.split('-')[1]}" not in left]
    return [*found, *(f"{name} left without a note of it" for name in unnoted)]


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
    """Kill at system calls all through a release, each time from the same start; resume; look."""
    template = directory / "template"
    template.mkdir()
    with opened(Ledger(World(template).ledger)) as ledger:
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
            open_ledgers.append(Ledger(world.ledger))
            open_ledgers[0].messages()

        def life(world: World = world, open_ledgers: list[Ledger] = open_ledgers) -> None:
            one_release(world, open_ledgers[0], 1)

        if not killed_at(deaths * stride + 1, life, prepare):
            return {"deaths": deaths, "faults": found, "sent_at_death": sorted(sent_at_death)}
        deaths += 1
        sent_at_death.add(len(world.sent()))
        found += [f"death {deaths}: {fault}" for fault in faults(world)]
        with Ledger(world.ledger) as ledger:
            one_release(world, ledger, 1)
        found += [f"death {deaths}, resumed: {fault}" for fault in faults(world)]
        if len(world.sent()) != 6:
            found.append(f"death {deaths}: the resumed life did not finish")
        shutil.rmtree(place)


def creation(directory: Path, stride: int = 7) -> dict[str, Any]:
    """Kill at system calls all through the making of a ledger; whoever comes next must be able to use it."""
    deaths = 0
    found: list[str] = []
    while True:
        place = directory / f"life-{deaths + 1}"
        place.mkdir()
        world = World(place)

        def life(world: World = world) -> None:
            with opened(Ledger(world.ledger)) as ledger:
                reserve(ledger, CURATOR, ROWS, request=Request("run", 0, "first-rows"), rows=1, **AGAIN)

        if not killed_at(deaths * stride + 1, life):
            return {"deaths": deaths, "faults": found}
        deaths += 1
        life()
        found += [f"death {deaths}: {fault}" for fault in faults(world)]
        shutil.rmtree(place)


def any_moment(directory: Path, deaths: int = 40) -> dict[str, Any]:
    """Kill at random moments, many times, on one ledger that goes on living."""
    world = World(directory)
    with Ledger(world.ledger) as ledger:
        ledger.set_limit(TARGET, limit(1000.0))
        ledger.set_limit(CURATOR, Limit.rows_only(10**6))
    coins = random.Random(7)  # noqa: S311 - only chooses moments
    found, unfinished = [], 0

    def live(releases: int) -> int:
        child = os.fork()
        if child == 0:
            with Ledger(world.ledger) as ledger:
                done = world.sent()
                for place in [place for place in range(10**4) if f"bid-{place}" not in done][:releases]:
                    one_release(world, ledger, place)
            os._exit(0)
        return child

    started = time.monotonic()
    os.waitpid(live(2), 0)
    pace = time.monotonic() - started  # of this machine, as busy as it is now
    for death in range(deaths):
        before = len(world.sent())
        child = live(10**4)
        while death % 2 and len(world.sent()) == before:  # however busy the machine is, some come to something
            time.sleep(0.01)
        time.sleep(coins.uniform(0.1, 2.0) * pace)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if death % 10 == 9:
            found += [f"death {death}: {fault}" for fault in faults(world)]
    with Ledger(world.ledger, read_only=True) as ledger:
        kinds = [entry.kind for entry in ledger.entries()]
        unfinished = kinds.count("reserve") - kinds.count("commit")
    return {"deaths": deaths, "faults": found, "sent": len(world.sent()), "unfinished": unfinished}


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
                ledger.messages()
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
    """The order of writes and syncs while a charge is made: what is returned from must have been synced."""
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
    scenario = {function.__name__: function for function in (every_step, creation, any_moment, hammer, calls)}
    started = time.monotonic()
    try:
        report = scenario[sys.argv[1]](Path(sys.argv[2]), *map(int, sys.argv[3:]))
    except NoTracing:
        report = {"unavailable": "this system does not let a process trace its child"}
    sys.stdout.write(json.dumps({**report, "seconds": round(time.monotonic() - started, 2)}) + "\n")
