"""The parties of a run as processes of their own, and the hub between them, which sees all that passes.

What NVFlare does between organisations is done here by pipes: every job has new processes, the curator calls the sites,
a site that is gone gives no answer. The code that answers and that curates is the one that NVFlare would call.
"""

import contextlib
import json
import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

from kill_looks import Said
from kill_world import CONSUMER, OWNERS, folder_of, note_keys, seat
from nvflare.collab.api.exceptions import CollabCallError

from likeset.homes.mail import Invitation
from likeset.protocol.party import CURATOR
from likeset.transports.nvflare import parts
from likeset.transports.nvflare.job import write_settings
from likeset.transports.nvflare.run_report import News
from likeset.transports.sites import SiteParties, SiteSettings

SITES = (CONSUMER, *OWNERS)
PARTIES = (CURATOR, *SITES)
_MOST_SECONDS = 600.0
_CHANGES = ("BEGIN IMMEDIATE", "INSERT", "COMMIT")


@dataclass(frozen=True)
class Blow:
    """When a party is killed.

    Attributes:
        victim: its name.
        at: ``step`` of its own toward something durable, ``charge`` that is on its disk and nothing drawn for it yet,
            ``message`` to or from it, or ``time`` since the job began.
        number: of the step, charge or message.
        seconds: until then, with ``time``.
    """

    victim: str
    at: Literal["step", "charge", "message", "time"]
    number: int = 0
    seconds: float = 0.0


@dataclass
class Ended:
    """How a job ended.

    Attributes:
        report: the curator's; None if it was killed.
        killed: who was.
        said: all that passed.
        steps: how many steps toward something durable each party did that lived to the end, and how many charges.
        messages: how many messages each party sent or was sent.
        seconds: how long it took.
    """

    report: dict[str, Any] | None = None
    killed: list[str] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    steps: dict[str, dict[str, int]] = field(default_factory=dict)
    messages: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0


# In the processes of the parties.


class _Steps:
    """Counts what a process does to its databases and files, step by step, and kills it at one of them."""

    def __init__(self, blow: Blow | None) -> None:
        self._blow = blow
        self.done = {"step": 0, "charge": 0}

    def __call__(self, what: str = "step") -> None:
        self.done[what] += 1
        if self._blow is not None and (self._blow.at, self._blow.number) == (what, self.done[what]):
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self) -> None:
        """From now on: before and after each statement that begins, does or ends a change, and each new file."""
        count, connect, replace = self, sqlite3.connect, Path.replace

        class Watched(sqlite3.Connection):
            charges = False

            def execute(self, statement: str, *given: Any) -> sqlite3.Cursor:
                if not statement.startswith(_CHANGES):
                    return super().execute(statement, *given)
                count()
                found = super().execute(statement, *given)
                if statement.startswith("INSERT INTO entries"):
                    self.charges = given[0][1] == "reserve"
                if statement == "COMMIT" and self.charges:
                    self.charges = False
                    count("charge")
                count()
                return found

            def __exit__(self, *given: Any) -> Literal[False]:
                count()
                found = super().__exit__(*given)
                count()
                return found

        def watched(path: Path, target: Any) -> Path:
            count()
            found = replace(path, target)
            count()
            return found

        sqlite3.connect = lambda *given, **options: connect(*given, **options, factory=Watched)  # type: ignore[assignment]
        Path.replace = watched  # type: ignore[method-assign,assignment]


def _work_as_site(line: Connection, place: Path, invitation: Invitation, name: str) -> None:
    """Answer calls until nobody calls any more."""
    site, digest = parts.Site(), invitation.terms.digest
    site._table = SiteParties(name, {digest: invitation}, SiteSettings(seat, folder_of(place, name)))
    context = SimpleNamespace(caller="server", app=SimpleNamespace(name=name))
    with contextlib.suppress(EOFError):
        while (call := line.recv()) is not None:
            method, given = call
            line.send(getattr(site, method)(*given, context=context))


class _Proxy:
    """A site as NVFlare shows it to the curator."""

    def __init__(self, name: str, line: Connection) -> None:
        self.name = name
        self._line = line

    def __call__(self, *, timeout: float) -> "_Proxy":  # noqa: ARG002 (whoever is gone is gone at once)
        return self

    def __getattr__(self, method: str) -> Callable[..., object]:
        def call(*given: object) -> object:
            self._line.send((method, given))
            came, answer = self._line.recv()
            if not came:
                raise CollabCallError(self.name, method, "gone")
            return answer

        return call


def _work_as_curator(control: Connection, lines: dict[str, Connection], place: Path, invitation: Invitation) -> None:
    """One job; the hub hears how it ended, and may abort it."""
    context = SimpleNamespace(
        clients=[_Proxy(name, line) for name, line in lines.items()],
        workspace=SimpleNamespace(get_site_config_dir=lambda: str(place / "settings")),
        is_aborted=control.poll,
    )
    report, end = parts._curate_run(invitation, context, News(invitation.terms.run))
    end()
    control.send(asdict(report))


# In the hub.


@dataclass
class _Life:
    pid: int
    line: Connection


@dataclass
class Hub:
    """Starts the processes of a job, carries their calls, and kills.

    Args:
        place: the folder of the network.
        invitation: the signed terms of the run.
        lasting: processes of former jobs that nobody has waited for yet.
    """

    place: Path
    invitation: Invitation
    lasting: list[tuple[str, _Life, Ended]] = field(default_factory=list)

    def job(self, *blows: Blow, abort: bool = False, linger: bool = False) -> Ended:
        """One job from its start to its end.

        Args:
            blows: whom to kill, and when.
            abort: end the job for all when the process of one site goes down, as NVFlare does.
            linger: do not wait for processes that still work when the job is over.
        """
        write_settings(
            self.place / "settings",
            factory="kill_world:seat",
            folder=folder_of(self.place, CURATOR),
            seconds_after_auction=0.0,
        )
        return _Job(self, {blow.victim: blow for blow in blows}, abort=abort).run(linger=linger)

    def fork(self, name: str, ended: Ended, work: Callable[[], None], blow: Blow | None) -> int:
        """A process of its own; what it says to a terminal goes into a file, where it should not be."""
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            with (self.place / f"stderr-{name}").open("ab") as file:
                os.dup2(file.fileno(), 2)
            steps = _Steps(blow)
            steps.watch()
            note_keys(self.place)
            work()
            (self.place / f"steps-{name}-{id(ended)}").write_text(json.dumps(steps.done))
            code = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)

    def settle(self) -> None:
        """Wait for everybody, and keep what they still say."""
        for name, life, ended in self.lasting:
            with contextlib.suppress(EOFError, OSError):
                while True:
                    ended.said.append(Said(name, "late", None, life.line.recv()))
            _reap(name, life.pid, ended)
            life.line.close()
        self.lasting.clear()

    def counted(self, ended: Ended) -> dict[str, dict[str, int]]:
        """How many steps the parties of a job did, and how many charges."""
        found: dict[str, dict[str, int]] = {}
        for name in PARTIES:
            path = self.place / f"steps-{name}-{id(ended)}"
            if path.exists():
                found[name] = json.loads(path.read_text())
                path.unlink()
        return found


def _reap(name: str, pid: int, ended: Ended) -> None:
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code == -signal.SIGKILL:
        ended.killed.append(name)
    elif code:
        raise RuntimeError(f"the process of {name} ended with {code}")


class _Job:
    """One job, seen from the hub."""

    def __init__(self, hub: Hub, blows: dict[str, Blow], *, abort: bool) -> None:
        self._hub = hub
        self._blows = blows
        self._abort = abort
        self._ended = Ended(messages=dict.fromkeys(PARTIES, 0))
        self._sites: dict[str, _Life] = {}
        self._calls: dict[str, Connection] = {}  # from the curator, by site
        self._open: dict[str, tuple[str, Any]] = {}  # calls that wait for their answer
        self._control: Connection
        self._curator: int
        self._began = time.monotonic()

    def run(self, *, linger: bool) -> Ended:
        self._start()
        over = False
        while not over:
            over = self._turn()
        self._ended.seconds = time.monotonic() - self._began
        for name, life in self._sites.items():
            with contextlib.suppress(OSError):
                life.line.send(None)
            self._hub.lasting.append((name, life, self._ended))
        for line in (*self._calls.values(), self._control):
            line.close()
        _reap(CURATOR, self._curator, self._ended)
        if not linger:
            self._hub.settle()
            self._ended.steps = self._hub.counted(self._ended)
        return self._ended

    def _start(self) -> None:
        hub, invitation = self._hub, self._hub.invitation
        mine: list[Connection] = [life.line for _, life, _ in hub.lasting]
        for name in SITES:
            here, there = Pipe()
            mine.append(here)

            def work(there: Connection = there, name: str = name) -> None:
                _close(mine)
                _work_as_site(there, hub.place, invitation, name)

            self._sites[name] = _Life(hub.fork(name, self._ended, work, self._blows.get(name)), here)
            there.close()
        pairs = {name: Pipe() for name in (*SITES, "control")}
        mine += [here for here, _ in pairs.values()]

        def curate() -> None:
            _close(mine)
            lines = {name: there for name, (_, there) in pairs.items()}
            _work_as_curator(lines.pop("control"), lines, hub.place, invitation)

        self._curator = hub.fork(CURATOR, self._ended, curate, self._blows.get(CURATOR))
        for _, there in pairs.values():
            there.close()
        self._control = pairs["control"][0]
        self._calls = {name: pairs[name][0] for name in SITES}

    def _turn(self) -> bool:
        """Wait for what comes next; whether the job is over."""
        now = time.monotonic() - self._began
        due = [blow for blow in self._blows.values() if blow.at == "time"]
        for blow in due:
            if blow.seconds <= now:
                self._kill(blow.victim)
                del self._blows[blow.victim]
        if now > _MOST_SECONDS:
            raise RuntimeError("a job hangs")
        patience = min([blow.seconds - now for blow in due if blow.seconds > now], default=_MOST_SECONDS)
        alive = [self._sites[name].line for name in self._open if name in self._sites]
        for line in wait([self._control, *self._calls.values(), *alive], timeout=patience):
            assert isinstance(line, Connection)
            if line is self._control:
                return self._over()
            by_curator = {id(one): name for name, one in self._calls.items()}
            if id(line) in by_curator:
                self._called(by_curator[id(line)])
            else:
                self._answered(next(name for name, life in self._sites.items() if life.line is line))
        return False

    def _over(self) -> bool:
        with contextlib.suppress(EOFError, OSError):
            self._ended.report = self._control.recv()
        return True

    def _called(self, name: str) -> None:
        """The curator calls a site; nothing comes from a curator that is gone."""
        try:
            method, given = self._calls[name].recv()
        except (EOFError, OSError):
            del self._calls[name]
            return
        self._count(CURATOR)
        self._ended.said.append(Said(name, method, given[0]))
        if name not in self._sites:
            self._give(name, (False, None))
            return
        self._open[name] = (method, given[0])
        self._count(name)
        with contextlib.suppress(OSError):
            self._sites[name].line.send((method, given))

    def _answered(self, name: str) -> None:
        """A site answers, or is gone."""
        method, argument = self._open.pop(name)
        try:
            answer = self._sites[name].line.recv()
        except (EOFError, OSError):
            life = self._sites.pop(name)
            _reap(name, life.pid, self._ended)
            life.line.close()
            if self._abort:
                with contextlib.suppress(OSError):
                    self._control.send("abort")
            self._give(name, (False, None))
            return
        self._ended.said.append(Said(name, method, argument, answer))
        self._count(name)
        self._count(CURATOR)
        self._give(name, (True, answer))

    def _give(self, name: str, answer: tuple[bool, Any]) -> None:
        if name in self._calls:
            with contextlib.suppress(OSError):
                self._calls[name].send(answer)

    def _count(self, name: str) -> None:
        self._ended.messages[name] += 1
        blow = self._blows.get(name)
        if blow is not None and blow.at == "message" and blow.number == self._ended.messages[name]:
            self._kill(name)

    def _kill(self, name: str) -> None:
        pid = self._curator if name == CURATOR else self._sites[name].pid if name in self._sites else 0
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _close(lines: list[Connection]) -> None:
    """In a new process: the hub's ends are not its own, and would keep others from noticing that it is gone."""
    for line in lines:
        line.close()


def random_blow(coins: random.Random, like: Ended) -> Blow:
    """Somebody, some time; ``like`` is a job of the same kind that nobody disturbed."""
    victim = coins.choice(PARTIES)
    at = coins.choice(("step", "step", "step", "charge", "message", "message", "time", "time"))
    if at == "time":
        return Blow(victim, "time", seconds=coins.uniform(0.0, like.seconds))
    if at == "message":
        return Blow(victim, "message", number=coins.randint(1, like.messages[victim]))
    what: Literal["step", "charge"] = "charge" if at == "charge" and like.steps[victim]["charge"] else "step"
    return Blow(victim, what, number=coins.randint(1, max(1, like.steps[victim][what])))
