"""Whole runs by mailbox among real homes: who knows what at which time, and what it is time for."""

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kill_world import CONSUMER
from mail_homes import NOON, RUN, MailHomes, homes_in, posts_of

from chance import pinned_coins
from likeset.homes.curator_home import CuratorHome
from likeset.homes.mail import RECEIPT, Identity
from likeset.homes.owner_node import OwnerNode, kept_receipt
from likeset.protocol.party import CURATOR
from likeset.transports.desks import PartyState
from likeset.transports.posts import Ending

STATES = PartyState.UNHEARD, PartyState.DECIDES, PartyState.TAKES_PART, PartyState.ABSTAINS
UNHEARD, DECIDES, TAKES_PART, ABSTAINS = STATES
NOTHING = {CONSUMER: 1, "a": 0, "b": 0, "rows of a": 0, "rows of b": 0}
"""What is paid when terms are signed: the consumer draws a seed, and nobody hears of it."""


def began(homes: MailHomes) -> bool:
    """Whether the consumer has written its first letters."""
    return homes.progress.began


def check_done(homes: MailHomes, *absent: str) -> None:
    """The consumer has its summary, everybody who took part paid once and has a receipt, and its files are gone."""
    assert homes.progress.done
    assert len(homes.summary.rows) == homes.run.terms.size
    paid = homes.charges()
    assert paid[CONSUMER] == NOTHING[CONSUMER] + 1
    for owner in homes.owners:
        with OwnerNode(homes.folder(owner), clock=homes.clock) as node:
            receipt = kept_receipt(node, RUN)
            assert (receipt is None) == (owner in absent)
        assert paid[f"rows of {owner}"] == (0 if owner in absent else homes.run.terms.rows_per_owner)
        assert not homes.lying(owner, CURATOR) or owner in absent
        assert not homes.lying(CONSUMER, owner)


def test_a_run_from_the_terms_to_the_receipts(tmp_path: Path) -> None:
    homes = homes_in(tmp_path)
    assert homes.progress.parties == {CURATOR: UNHEARD, "a": UNHEARD, "b": UNHEARD}
    homes.look(CONSUMER)
    assert posts_of(homes.lying(CONSUMER, "a")) == ["terms"]
    homes.look("a", CURATOR, CONSUMER)
    assert homes.progress.parties == {CURATOR: TAKES_PART, "a": DECIDES, "b": UNHEARD}
    assert not homes.lying(CONSUMER, CURATOR)  # who accepted has the terms
    homes.approve("a")  # by a steward, in another process
    homes.look("a", CONSUMER)
    assert homes.progress.parties == {CURATOR: TAKES_PART, "a": TAKES_PART, "b": UNHEARD}
    assert (homes.progress.began, homes.charges()) == (False, NOTHING)
    homes.look("b")
    homes.approve("b")
    homes.look("b", CONSUMER)
    assert began(homes) is True
    homes.look(CURATOR, CONSUMER)
    progress = homes.progress
    assert (progress.waited_for, progress.until) == (("a", "b"), NOON + timedelta(hours=72))
    homes.look("a", CURATOR, CONSUMER)
    assert homes.progress.waited_for == ("b",)
    homes.settle()
    check_done(homes)
    assert not homes.store.files[homes.pair("a", CURATOR).outgoing_folder]
    document = homes.progress.document()
    assert (document["ended"], document["parties"]["a"]) == ("done", "takes part")


def test_an_approval_counts_although_its_ledger_was_written_before_the_last_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit is in the ledger's files before readers see it; a look between the two must not be the last to ask."""
    monkeypatch.setattr("likeset.transports.desks._stamp", lambda path: path.name)  # as after that write
    homes = homes_in(tmp_path)
    homes.look(CONSUMER, "a")
    homes.look("a")
    homes.approve("a")
    homes.look("a", CONSUMER)
    assert homes.progress.parties["a"] == TAKES_PART


@pytest.mark.parametrize("job", [{}, {"auction": "threshold", "auction_epsilon": 30.0}], ids=["sealed", "auction"])
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
def test_any_order_of_looks_by_processes_of_any_length_comes_to_an_end(
    tmp_path: Path, seed: int, job: dict[str, Any]
) -> None:
    """After half of the looks a process ends: the next one begins anew, from what the home and the mailbox have."""
    homes, coins = homes_in(tmp_path, **job), pinned_coins(seed)
    homes.options = {"after_auction": timedelta(0)}
    homes.look()
    homes.approve()
    for _ in range(200):
        party = homes.parties[coins.integers(len(homes.parties))]
        homes.look(party)
        if coins.random() < 0.5:
            homes.drop(party)
    homes.settle()
    assert homes.progress.ended in (Ending.DONE, Ending.QUORUM_MISSED)  # an auction may ask nobody
    if not job:
        check_done(homes)


def test_rounds_are_held_by_a_curator_that_begins_anew_with_each_look(tmp_path: Path) -> None:
    homes = homes_in(tmp_path, protocol="interactive", size=3)
    homes.look()
    homes.approve()
    for _ in range(40):
        homes.look()
        homes.drop()
        if homes.progress.ended is not None:
            break
    homes.settle()
    assert homes.progress.done
    assert len(homes.summary.rows) == 3


def test_a_denial_is_told_and_not_waited_for(tmp_path: Path) -> None:
    homes = homes_in(tmp_path)
    homes.look()
    homes.approve("a")
    homes.deny("b")
    homes.settle()
    assert homes.progress.parties == {CURATOR: TAKES_PART, "a": TAKES_PART, "b": ABSTAINS}
    check_done(homes, "b")
    assert homes.clock.now == NOON


def test_who_has_not_decided_in_time_is_not_waited_for_and_comes_too_late(tmp_path: Path) -> None:
    homes = homes_in(tmp_path)
    homes.look()
    homes.approve("a")
    look = homes.settle()
    undecided = homes.progress
    assert not undecided.began
    assert look.next_deadline == undecided.decide_by == NOON + timedelta(days=7)
    homes.clock.pass_by(days=7)
    homes.look(CONSUMER)
    assert began(homes) is True
    homes.approve("b")
    homes.settle()
    check_done(homes, "b")
    assert homes.progress.parties["b"] is DECIDES


def test_after_its_time_to_decide_a_run_begins_as_soon_as_a_quorum_accepts(tmp_path: Path) -> None:
    homes = homes_in(tmp_path, quorum=2)
    homes.look()
    homes.approve("a")
    homes.settle()
    homes.clock.pass_by(days=8)
    homes.settle()
    assert began(homes) is False
    homes.approve("b")
    homes.settle()
    check_done(homes)


def test_too_few_owners_end_a_run_before_anything_is_charged(tmp_path: Path) -> None:
    homes = homes_in(tmp_path, quorum=2)
    homes.look()
    homes.approve("a")
    homes.deny("b")
    homes.settle()
    assert homes.progress.ended is Ending.QUORUM_MISSED
    assert homes.charges() == NOTHING
    assert not homes.lying(CONSUMER, "a")


def test_an_owner_who_falls_silent_is_given_up_after_the_curators_patience(tmp_path: Path) -> None:
    homes = homes_in(tmp_path)
    homes.look()
    homes.approve()
    homes.look("a", "b", CONSUMER)
    homes.settle(CONSUMER, CURATOR, "a")
    assert homes.progress.waited_for == ("b",)
    homes.clock.pass_by(hours=71)
    homes.settle(CONSUMER, CURATOR, "a")
    assert homes.progress.ended is None
    homes.drop()
    homes.clock.pass_by(hours=1)
    homes.settle(CONSUMER, CURATOR, "a")
    assert homes.progress.done
    before = homes.run.summary_path.read_bytes()
    homes.settle()  # its answer comes late, and changes nothing
    assert homes.run.summary_path.read_bytes() == before


def test_an_owner_given_up_stays_so_when_the_curator_begins_anew_beside_its_late_answer(tmp_path: Path) -> None:
    """Its answer lies there when the next process hears the others again; each owner is told once."""
    homes = homes_in(tmp_path, owners=("a", "b", "c"), auction="threshold", auction_epsilon=30.0)
    homes.look()
    homes.approve()
    homes.look("a", "b", "c", CONSUMER, "a", "c", CURATOR)
    homes.clock.pass_by(hours=73)
    homes.look(CURATOR)  # gives b up, and tells the others whether they are asked
    homes.look("b")
    for _ in range(3):
        homes.drop(CURATOR)
        homes.settle()
    assert homes.progress.ended in (Ending.DONE, Ending.QUORUM_MISSED)
    with Identity.of(homes.folder(CURATOR)).book as book:
        written = book.written(bytes.fromhex(homes.run.terms.digest))
    assert sorted(letter.peer for letter in written if letter.kind == "asked") == ["a", "b", "c"]
    assert sum(letter.kind == "summary" for letter in written) == (homes.progress.ended is Ending.DONE)


def test_terms_that_end_before_the_run_begins_cost_nothing_and_leave_nothing(tmp_path: Path) -> None:
    homes = homes_in(tmp_path)
    homes.look()
    homes.approve("a")
    homes.look()
    homes.clock.pass_by(days=31)
    homes.settle()
    assert homes.progress.ended is Ending.TERMS_EXPIRED
    assert homes.charges() == NOTHING
    assert homes.store.count == 0


def test_a_curator_waits_for_nobody_on_the_last_day_so_that_all_get_what_came_of_it(tmp_path: Path) -> None:
    homes = homes_in(tmp_path)
    homes.options = {"patience": timedelta(days=99)}
    homes.look()
    homes.approve()
    homes.look("a", "b", CONSUMER)
    homes.settle(CONSUMER, CURATOR, "a")
    assert homes.progress.until == homes.progress.terms_end - timedelta(days=1)
    homes.clock.now = homes.progress.until
    homes.settle(CONSUMER, CURATOR, "a")
    check_done(homes, "b")


def test_terms_that_end_while_the_curator_waits_end_the_run_and_leave_nothing(tmp_path: Path) -> None:
    homes = homes_in(tmp_path)
    homes.look()
    homes.approve()
    homes.look("a", "b", CONSUMER)
    homes.settle(CONSUMER, CURATOR, "a")
    homes.drop()
    homes.clock.pass_by(days=31)
    homes.settle()
    assert homes.progress.ended is Ending.TERMS_EXPIRED
    assert homes.store.count == 0


def test_after_an_auction_receipts_come_no_sooner_than_curator_yaml_says(tmp_path: Path) -> None:
    """Whoever is asked, if anybody: that is what the time must not tell."""
    homes = homes_in(tmp_path, auction="threshold", auction_epsilon=30.0)
    homes.look()
    homes.approve()
    homes.settle()
    assert homes.progress.ended is not None
    assert receipts_written(homes) == []
    homes.clock.pass_by(hours=71)
    homes.settle()
    assert receipts_written(homes) == []
    homes.drop()
    homes.clock.pass_by(hours=1)
    assert homes.look(CURATOR).sent == 2
    assert receipts_written(homes) == ["a", "b"]


def receipts_written(homes: MailHomes) -> list[str]:
    """For whom the curator has written receipts."""
    with Identity.of(homes.folder(CURATOR)).book as book:
        written = book.written(bytes.fromhex(homes.run.terms.digest))
    return sorted(letter.peer for letter in written if letter.kind == RECEIPT)


def test_what_the_curator_lacks_is_told_and_can_be_made_good(tmp_path: Path) -> None:
    homes = homes_in(tmp_path)
    curator = CuratorHome(homes.folder(CURATOR))
    (known,) = curator.schemas.glob("*.yaml")
    aside = known.rename(tmp_path / "aside.yaml")
    homes.settle()
    assert homes.progress.parties[CURATOR] is ABSTAINS
    assert "does not know the schema" in homes.progress.detail
    assert homes.progress.ended is None
    curator.add_schema(aside)
    homes.approve()
    homes.settle()
    check_done(homes)


def test_a_look_that_finds_nothing_is_one_listing_for_each_peer_and_opens_no_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes = homes_in(tmp_path)
    homes.look()
    homes.approve()
    homes.settle()
    homes.drop()
    homes.look()  # the first look of a process also looks for what its home does not remember
    monkeypatch.setattr(OwnerNode, "__init__", None)
    for party in homes.parties:
        homes.store.calls.clear()
        assert homes.look(party).taken == 0
        left = sum(bool(homes.lying(party, other)) for other in homes.parties if other != party)  # and is looked after
        listed = {CONSUMER: 0, CURATOR: 1}.get(party, 2)  # the consumer's run is over, and so it looks nowhere
        assert homes.store.calls == ["list"] * (listed + left)


def test_an_owner_that_abstains_is_asked_again_only_when_something_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each refusal is written into the audit log: a look every minute must not fill it, nor open the node."""
    homes = homes_in(tmp_path)
    policy = homes.folder("a") / "owner.yaml"
    allowed = policy.read_text()
    policy.write_text(allowed.replace("research*", "nothing"))
    homes.look()
    homes.look("a", CONSUMER)
    assert homes.progress.parties["a"] is ABSTAINS
    refused = homes.refusals("a")
    homes.look("a")
    with monkeypatch.context() as closed:
        closed.setattr(OwnerNode, "__init__", None)
        for _ in range(3):
            homes.drop("a")
            homes.look("a")
    assert homes.refusals("a") == refused
    policy.write_text(allowed)
    homes.settle()
    homes.approve()
    homes.settle()
    check_done(homes)


def test_keys_of_a_run_are_in_one_file_of_each_home_and_nowhere_once_the_terms_end(tmp_path: Path) -> None:
    """So that a backup can leave them out."""
    homes = homes_in(tmp_path)
    homes.look()
    homes.approve()
    homes.look("a", "b", CONSUMER, CURATOR)
    homes.drop()
    keys = {}
    for party in homes.parties:
        with closing(sqlite3.connect(homes.folder(party) / "letters.sqlite")) as book:
            ((keys[party],),) = book.execute("SELECT key FROM runs")

    def holders(party: str) -> set[str]:
        files = (path for path in homes.folder(party).rglob("*") if path.is_file())
        return {path.name for path in files if keys[party][-32:] in path.read_bytes()}

    for party in homes.parties:
        assert holders(party) <= {"letters.sqlite", "letters.sqlite-wal"}
        assert holders(party)
    homes.clock.pass_by(days=31)
    homes.look()
    homes.drop()
    assert [holders(party) for party in homes.parties] == [set()] * 4
