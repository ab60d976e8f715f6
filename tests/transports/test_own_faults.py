"""A fault of a home's own machine is no verdict on a letter: it waits, is tried again, and the steward is told."""

import stat
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from home_world import CONSUMER, NOON, Network, logged, terms, write_policy

from likeset.homes import review
from likeset.homes.checkup import checkup
from likeset.homes.data import DataSet
from likeset.homes.notify import events_of
from likeset.homes.troubles import LONGEST_PAUSE
from likeset.protocol.party import CURATOR

AGREED = terms(quorum=1, answer_by=(NOON + timedelta(days=10)).isoformat())


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    """The release waits in the mailbox for both owners."""
    with Network(tmp_path) as network:
        network.approved(AGREED)
        network.turn("a", "b", CURATOR, CONSUMER)
        yield network


def absent(network: Network) -> list[int]:
    network.settle()
    run = network.consumer.run(AGREED.run)
    assert network.consumer.progress(run).done
    return list(network.consumer.folder(AGREED.run).summary(AGREED).absent)


def fail(monkeypatch: pytest.MonkeyPatch, error: Exception) -> list[int]:
    """Let each attempt to read rows fail; returns a list that gets longer with each."""
    tried: list[int] = []

    def broken(*_: object, **__: object) -> None:
        tried.append(1)
        raise error

    monkeypatch.setattr(DataSet, "guarded", broken)
    return tried


def in_trouble(network: Network, name: str = "a") -> list[str]:
    owner = network.owner(name)
    events = [event["run"] for _, event in events_of(owner, owner.mail, ()) if event["event"] == "trouble"]
    checks = [check.check.removeprefix("run ") for check in checkup(owner.home) if check.check.startswith("run ")]
    assert events == checks
    return events


def test_data_that_are_away_for_a_moment(network: Network, tmp_path: Path) -> None:
    (tmp_path / "a.csv").rename(tmp_path / "away.csv")
    looked = network.turn("a")
    assert (looked.left, looked.refused) == (1, 0)
    assert any("there is no such file" in note for note in looked.notes)
    shown, owner = review.review(network.owner("a"), AGREED.run), network.owner("a")
    assert shown.status == review.WAITS
    assert "there is no such file" in shown.lines[0][1]
    assert in_trouble(network) == [AGREED.run]
    assert (owner.run(AGREED.run).has_begun, logged(owner.home, "refused")) == (False, [])
    (tmp_path / "away.csv").rename(tmp_path / "a.csv")
    network.clock.now += LONGEST_PAUSE
    assert absent(network) == []
    assert in_trouble(network) == []
    assert owner.mail.troubles.all() == []


def test_a_mistake_in_owner_yaml_that_is_corrected(network: Network) -> None:
    owner = network.owner("a")
    rules = owner.home.policy_file.read_text()
    owner.home.policy_file.write_text(rules.replace("runs_per_month", "runs_per_moth"))
    assert any("runs_per_moth" in note for note in network.turn("a").notes)
    owner.home.policy_file.write_text(rules)
    network.clock.now += LONGEST_PAUSE
    assert absent(network) == []


def test_pauses_grow_survive_a_restart_and_end_when_the_next_look_says(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, waits = fail(monkeypatch, OSError(5, "Input/output error")), []
    for _ in range(10):
        deadline = network.turn("a").next_deadline
        assert deadline is not None
        waits.append(deadline - network.clock())
        network.drop()
        assert network.turn("a").left == 1
        network.clock.now = deadline
    assert len(tried) == 10
    assert waits[:4] == [timedelta(seconds=seconds) for seconds in (5, 10, 20, 40)]
    assert waits[-2:] == [LONGEST_PAUSE, LONGEST_PAUSE]


def test_a_clock_that_was_ahead_makes_nothing_wait_for_long(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = fail(monkeypatch, OSError(5, "Input/output error"))
    network.clock.now += timedelta(days=2)
    network.turn("a")
    network.clock.now -= timedelta(days=2)
    network.turn("a")
    assert len(tried) == 2


def test_an_internal_error_keeps_its_frames_and_no_words(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    fail(monkeypatch, RuntimeError("a row: 4711"))
    for _ in range(40):
        notes = network.turn("a").notes
        network.clock.now += LONGEST_PAUSE
        assert not any("4711" in note for note in notes)
    owner = network.owner("a")
    kept = owner.home.folder / "errors.log"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    text = kept.read_text()
    assert "RuntimeError" in text
    assert "in broken" in text
    assert "4711" not in text + str(owner.ledger.entries()) + str(owner.mail.troubles.all())
    assert len(text) <= 1 << 16
    monkeypatch.undo()
    network.clock.now += LONGEST_PAUSE
    assert absent(network) == []


def test_a_letter_that_exhausts_memory_is_tried_a_few_times(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = fail(monkeypatch, MemoryError())
    for _ in range(8):
        network.turn("a")
        network.clock.now += LONGEST_PAUSE
    assert len(tried) == 5
    assert "more memory than there is" in network.owner("a").run(AGREED.run).reason
    assert in_trouble(network) == []
    monkeypatch.undo()
    assert absent(network) == [0]


def test_a_broken_owner_delays_the_others_no_longer_than_the_curators_patience(
    network: Network, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").unlink()
    network.settle()
    assert not network.consumer.progress(network.consumer.run(AGREED.run)).done
    network.clock.now += network.sync(CURATOR).home.settings.patience
    assert absent(network) == [0]


def test_no_owner_is_charged_for_an_offer_that_comes_too_late(network: Network, tmp_path: Path) -> None:
    (tmp_path / "a.csv").rename(tmp_path / "away.csv")
    network.turn("a")
    (tmp_path / "away.csv").rename(tmp_path / "a.csv")
    owner = network.owner("a")
    network.clock.now = owner.run(AGREED.run).last_offer
    assert network.turn("a").refused == 1
    assert "too late" in owner.run(AGREED.run).reason
    assert not owner.run(AGREED.run).has_begun


def test_rules_that_refuse_a_run_after_its_approval_are_final(network: Network) -> None:
    owner = network.owner("a")
    write_policy(owner.home.folder, purposes=["billing"])
    assert network.turn("a").refused == 1
    assert [event["run"] for _, event in events_of(owner, owner.mail, ()) if event["event"] == "stopped"] == ["run-1"]


def test_a_data_set_that_is_not_registered_any_more(network: Network) -> None:
    owner = network.owner("a")
    place = owner.home.folder / "data"
    place.rename(owner.home.folder / "moved")
    assert network.turn("a").left == 1
    (owner.home.folder / "moved").rename(place)
    network.clock.now += LONGEST_PAUSE
    assert absent(network) == []


def test_a_target_that_is_missing_when_a_run_begins(tmp_path: Path) -> None:
    with Network(tmp_path) as network:
        run = network.approved(AGREED)
        folder = network.consumer.folder(run.name).folder
        away = folder.rename(tmp_path / "away")
        network.turn("a", "b", CURATOR, CONSUMER)
        assert [trouble.name for trouble in network.consumer.mail.troubles.all()] == [""]
        assert [check.ok for check in checkup(network.consumer.home) if check.check == f"run {run.name}"] == [False]
        away.rename(folder)
        network.clock.now += LONGEST_PAUSE
        assert absent(network) == []
        assert network.consumer.mail.troubles.all() == []
