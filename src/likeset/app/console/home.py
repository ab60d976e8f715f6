"""The console of a home: the pages of its roles, a check of the whole home, and what a monitor may read."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from starlette.responses import JSONResponse, Response

from likeset.app.console import consumer, owner
from likeset.app.console.server import Console, Listen, LoopState, Page, PageRequest, RunningConsole, serving
from likeset.homes import checkup
from likeset.homes.checkup import Check
from likeset.homes.consumer import Consumer
from likeset.homes.home import Home
from likeset.homes.mail import Mail
from likeset.homes.owner import Owner
from likeset.transports.sync import check_mailboxes

_Pages = Mapping[str, Callable[[Any, PageRequest], Response]]


@contextmanager
def home_console(folder: Path, listen: Listen, loop: LoopState | None = None) -> Iterator[RunningConsole]:
    with Home(folder) as home, serving(console_of(home, loop), listen) as running:
        yield running


def console_of(home: Home, loop: LoopState | None = None) -> Console:
    mail, roles = Mail(home), home.settings.roles
    menu: list[tuple[str, str]] = []
    pages: dict[str, Page] = {}
    actions: dict[str, Page] = {}

    def add(part: object, entries: Iterable[tuple[str, str]], shown: _Pages, done: _Pages) -> None:
        menu.extend(entries)
        pages.update({path: partial(page, part) for path, page in shown.items()})
        actions.update({path: partial(page, part) for path, page in done.items()})

    if "owner" in roles:
        add(Owner(mail), owner.MENU, owner.PAGES, owner.ACTIONS)
    if "consumer" in roles:
        add(Consumer(mail), consumer.MENU, consumer.PAGES, {})
    add(home, [("/check", "Check")], {"/check": check}, {"/check": check_all})
    first = pages[menu[0][0]]
    loop = loop or LoopState()
    open_pages = {"/healthz": partial(_health, home, loop), "/metrics": partial(_metrics, home, loop)}
    return Console(home.folder, home.name, menu, {"/": first, **pages}, actions, lambda: home.stopped, open_pages, loop)


def check(_: Home, request: PageRequest) -> Response:
    return request.render("check.html", checks=None)


def check_all(home: Home, request: PageRequest) -> Response:
    return request.render("check.html", checks=checks_of(home))


def checks_of(home: Home) -> list[Check]:
    """Check rules, files, cards, every row of every data set, disk, clock and mailboxes; also of its own curator."""
    checks = [*checkup.checkup(home), *check_mailboxes(home.folder, home.settings.mailboxes, clock=home.clock)]
    if home.own_curator is not None:
        with Home(home.own_curator) as curator:
            checks += [replace(one, check=f"curator: {one.check}") for one in checkup.checkup(curator)]
    return checks


def _health(home: Home, loop: LoopState) -> Response:
    stuck = "the home was stopped" if home.stopped else ""
    if not loop.is_running:
        stuck = "the mailboxes are not checked"
    document = {"ok": not stuck, "trouble": stuck, "unreachable_mailboxes": len(loop.troubles)}
    return JSONResponse(document, 503 if stuck else 200)


def _metrics(home: Home, loop: LoopState) -> Response:
    registry = CollectorRegistry()
    registry.register(_Figures(home, loop))
    return Response(generate_latest(registry), media_type="text/plain; version=0.0.4; charset=utf-8")


@dataclass(frozen=True, eq=False)
class _Figures:
    """Counts and times only: no name of a run or a party, and nothing that depends on rows."""

    home: Home
    loop: LoopState

    def collect(self) -> Iterator[Metric]:
        with self.home.database.snapshot() as connection:
            states = connection.execute("SELECT state, count(*) FROM runs GROUP BY state").fetchall()
        loop = self.loop
        yield CounterMetricFamily("likeset_checks", "Checks of all mailboxes.", value=loop.checks)
        letters = CounterMetricFamily("likeset_letters", "Letters that came, went or were refused.", labels=["way"])
        for way in ("in", "out", "refused"):
            letters.add_metric([way], loop.letters[way])
        yield letters
        yield GaugeMetricFamily("likeset_last_check_timestamp_seconds", "The last check.", value=loop.last_check)
        yield GaugeMetricFamily("likeset_mailboxes", "Mailboxes of this home.", value=loop.mailboxes)
        away = len(loop.troubles)
        yield GaugeMetricFamily("likeset_mailboxes_unreachable", "Those that failed at the last check.", value=away)
        runs = GaugeMetricFamily("likeset_runs", "Runs at this home, by state.", labels=["state"])
        for state, count in states:
            runs.add_metric([state], count)
        yield runs
