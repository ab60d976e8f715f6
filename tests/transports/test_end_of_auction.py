"""All sites see when a run ends; after an auction that must not tell them who was asked."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from called_sites import Clock, curated, needs_nvflare, sites_of
from engine_scenarios import settle_sites
from protocol_world import CONSUMER, THRESHOLD, terms

from likeset.privacy.noise import Integers
from likeset.protocol.terms import Terms
from likeset.transports.nvflare.run_report import RunReport

pytestmark = needs_nvflare

AFTER = 90.0
ROUNDS: dict[str, Any] = {"protocol": "interactive", "size": 2, **THRESHOLD}


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
    sites = sites_of(invited, folder, clock)
    report, end = curated(invited, folder, sites, aborted=lambda: aborted(clock.now), seconds_after_auction=AFTER)
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
