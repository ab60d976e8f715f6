"""Running a home: what a monitor reads."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from console_world import ADDRESS, Browser, signed_in, signed_in_at
from home_world import CANARY, invite, make_owner, terms

from likeset.app.console.home import home_site
from likeset.app.console.server import LoopState, application
from likeset.homes.owner import Owner, open_owner
from likeset.transports.sync import Look

RUN = terms(expires="2099-01-01")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Owner]:
    with open_owner(make_owner(tmp_path)) as opened:
        invite(opened, RUN)
        yield opened


# What a monitor reads.


def test_a_monitor_reads_counts_without_signing_in_and_no_names(node: Owner) -> None:
    loop = LoopState(mailboxes=1)
    loop.add(Look(taken=2, sent=1, troubles={"file:///away": "is away"}))
    browser = Browser(application(home_site(node.home, loop), ADDRESS))
    health, metrics = browser.get("/healthz"), browser.get("/metrics")
    assert (health.status, json.loads(health.body)["unreachable_mailboxes"]) == (200, 1)
    assert metrics.status == 200
    assert 'likeset_letters_total{way="in"} 2.0' in metrics.text
    assert 'likeset_runs{state="waiting"} 1.0' in metrics.text
    for secret in ("run-1", RUN.consumer, CANARY, "away"):
        assert secret not in metrics.text + health.text
    loop.last_check = 0.0
    assert browser.get("/healthz").status == 503
    assert browser.get("/").status == 401


def test_the_public_address_shows_a_monitor_nothing(node: Owner) -> None:
    app = application(home_site(node.home), ADDRESS, "https://console.example.org")
    for path in ("/healthz", "/metrics"):
        assert Browser(app).get(path, host="console.example.org").status == 404
        assert Browser(app).get(path).status == 200


def test_a_home_that_was_stopped_is_not_healthy(node: Owner) -> None:
    node.home.note("stopped", "", reason="a test")
    answer = signed_in(node).get("/healthz")
    assert (answer.status, json.loads(answer.body)["trouble"]) == (503, "the home was stopped")


def test_each_page_says_whether_the_mailboxes_are_checked_and_which_cannot_be_used(node: Owner) -> None:
    site = home_site(node.home, loop := LoopState(mailboxes=1))
    browser = signed_in_at(application(site, ADDRESS), site)
    loop.add(Look(troubles={"file:///shared": "is away"}))
    assert "file:///shared: is away" in browser.get("/").words
    loop.add(Look())
    assert "is away" not in browser.get("/").words
    assert "The mailboxes are not checked." not in browser.get("/").words
    loop.last_check = 0.0
    assert "The mailboxes are not checked." in browser.get("/").words
