"""All sites see when a run ends; after an auction that must not tell them who was asked."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from engine_scenarios import settle_sites
from letter_wire import SERVER
from protocol_world import CONSUMER, THRESHOLD, terms
from site_factory import seat

from likeset.homes.signed_invitation import Invitation
from likeset.homes.site_run import SiteRun
from likeset.privacy.noise import Integers
from likeset.protocol.messages import Asked, Message, Summary
from likeset.protocol.terms import Terms
from likeset.transports.nvflare.job import write_settings
from likeset.transports.nvflare.run_report import News, RunReport
from likeset.transports.sites import SiteParties, SiteSettings

pytestmark = pytest.mark.skipif(importlib.util.find_spec("nvflare") is None, reason="needs likeset[nvflare]")

AFTER = 90.0
ROUNDS: dict[str, Any] = {"protocol": "interactive", "size": 2, **THRESHOLD}


class Clock:
    """Stands still but for what takes time here; in place of the module ``time``."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Site:
    """A site as the curator's server reaches it; it writes down when it heard what. A summary takes 20 seconds."""

    def __init__(self, name: str, invited: Invitation, folder: Path, clock: Clock) -> None:
        self.name, self._clock, self._receipt = name, clock, folder / f"{invited.terms.run}.receipt"
        self._table = SiteParties(name, {invited.terms.digest: invited}, SiteSettings(self._seat, folder))
        self.heard: list[tuple[str, float]] = []

    def _seat(self, invited: Invitation, name: str, folder: Path) -> SiteRun | None:
        """What is said is seen behind the letters only."""
        run = seat(invited, name, folder)
        assert run is not None
        honest = run.resident.take

        def take(message: Message) -> tuple[Message, ...]:
            if isinstance(message.body, Asked):
                self.heard.append(("yes" if message.body.asked else "no", self._clock.now))
            if isinstance(message.body, Summary):
                self._clock.now += 20.0
            return honest(message)

        run.resident.take = take  # type: ignore[method-assign]
        return run

    def __call__(self, timeout: float) -> Any:
        del timeout
        return self

    def standing(self, digest: str) -> object:
        return self._table.standing(digest)

    def start(self, digest: str, acceptances: list[bytes]) -> object:
        return self._table.start(digest, acceptances)

    def hear(self, data: bytes) -> object:
        said = self._table.hear(data)
        if self._receipt.exists():
            self.heard.append(("receipt", self._clock.now))
            self._receipt.unlink()
        return said


def ended(
    agreed: Terms,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    aborted: Callable[[float], bool] = lambda _: False,
) -> tuple[RunReport, dict[str, list[tuple[str, float]]], float]:
    """How a run ended, what owners heard and when, and when the curator let go."""
    from likeset.transports.nvflare import parts

    clock = Clock()
    monkeypatch.setattr(parts, "time", clock)
    invited = settle_sites(folder, [agreed])[agreed.run]
    place = folder / "settings"
    write_settings(place, factory="site_factory:seat", folder=folder / SERVER, seconds_after_auction=AFTER)
    sites = [Site(name, invited, folder / name, clock) for name in (*agreed.owners, CONSUMER)]
    context = SimpleNamespace(
        clients=sites,
        workspace=SimpleNamespace(get_site_config_dir=lambda: str(place)),
        is_aborted=lambda: aborted(clock.now),
    )
    report, end = parts._curate_run(invited, context, News())
    end()
    return report, {site.name: site.heard for site in sites if site.name != CONSUMER}, clock.now


def asking(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Every auction asks so many owners."""

    def drawn(self: object, scale: float, size: int) -> Integers:
        del self, scale
        return np.full(size, count - THRESHOLD["auction_offset"])

    monkeypatch.setattr("protocol_world.CountingNoise.discrete_laplace", drawn)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_the_time_of_the_end_does_not_tell_whether_anybody_was_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    asking(monkeypatch, count)
    report, heard, end = ended(terms(**THRESHOLD), tmp_path, monkeypatch)
    assert report.outcome == ("done" if count else "quorum missed")
    answers = [what for site in heard.values() for what, _ in site if what != "receipt"]
    assert sorted(answers) == sorted(["yes"] * count + ["no"] * (3 - count))
    told = max(at for site in heard.values() for what, at in site if what != "receipt")
    receipts = {at for site in heard.values() for what, at in site if what == "receipt"}
    assert receipts == {told + AFTER}
    assert end == told + AFTER


def test_with_everyone_asked_there_is_nothing_to_hide_and_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report, heard, end = ended(terms(), tmp_path, monkeypatch)
    assert report.outcome == "done"
    assert {at for site in heard.values() for _, at in site} == {end}
    assert end == 1000.0 + 20.0


def test_a_run_that_is_cancelled_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asking(monkeypatch, 0)
    _, heard, end = ended(terms(**THRESHOLD), tmp_path, monkeypatch, aborted=lambda now: now > 1030.0)
    assert {what for site in heard.values() for what, _ in site} == {"no", "receipt"}
    assert end == 1031.0


def test_in_rounds_it_is_the_last_answer_that_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asking(monkeypatch, 1)
    _, heard, end = ended(terms(**ROUNDS), tmp_path, monkeypatch)
    told = [at for site in heard.values() for what, at in site if what != "receipt"]
    assert len(told) == 2 * 3
    assert end == max(told) + AFTER
