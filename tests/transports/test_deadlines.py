"""Until when owners answer, why a run is closed to one of them, and clocks that are wrong."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from home_world import CONSUMER, NOON, Network, logged, terms, write_policy

from likeset.errors import InvalidArgument
from likeset.homes import review
from likeset.protocol.party import CURATOR
from likeset.transports.sync import check_mailboxes

ANSWER_BY = NOON + timedelta(days=10)
AGREED = terms(answer_by=ANSWER_BY.isoformat())
FAR = timedelta(days=40)


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    with Network(tmp_path) as made:
        yield made


def set_clock(network: Network, name: str, *, ahead: timedelta = timedelta()) -> None:
    """Move the clock of one home; those of the mailbox and of the others stay."""
    network.sync(name).home.clock = lambda: network.clock() + ahead


def in_inbox(network: Network, name: str) -> tuple[list[str], str]:
    """The runs that wait for a decision, and the status of the only run there is."""
    owner = network.owner(name)
    waiting = [run.name for run in owner.waiting()]
    (document,) = (review.inbox_run(owner, run) for run in owner.runs())
    return waiting, document["status"]


class TestClosed:
    def test_the_deadline_is_in_the_terms_and_a_late_approval_is_refused(self, network: Network) -> None:
        run = network.approved(AGREED, "a")
        network.settle()
        owner = network.owner("b")
        assert in_inbox(network, "b") == (["run-1"], "waiting")
        assert review.inbox_run(owner, owner.run("run-1"))["answer_by"] == ANSWER_BY.isoformat()
        assert network.consumer.progress(run).answer_by == ANSWER_BY
        network.clock.now = ANSWER_BY
        with pytest.raises(InvalidArgument, match="is closed: your deadline passed, 2029-03-15 12:00 UTC; this"):
            owner.approve("run-1", AGREED.digest, by="Ada")
        assert in_inbox(network, "b") == ([], "closed: your deadline passed")
        network.settle()
        assert network.consumer.progress(run).done
        assert owner.run("run-1").state == "expired"
        with pytest.raises(InvalidArgument, match=r"is closed: your deadline passed$"):
            owner.approve("run-1", AGREED.digest, by="Ada")
        assert review.open_decisions(owner, owner.run("run-1")) == ()
        assert network.consumer.progress(run).unanswered == {"b": "no answer"}
        assert network.consumer.progress(run).parties["b"] == "did not answer"
        assert review.review(owner, "run-1").outcome == "Nothing was sent: your deadline passed."

    def test_an_owner_whose_rules_refuse_has_not_answered_and_may_change_them(self, network: Network) -> None:
        folder = network.owner("b").home.folder
        write_policy(folder, consumers=["other"])
        run = network.approved(AGREED, "a")
        network.settle()
        progress = network.consumer.progress(run)
        assert (progress.parties["b"], progress.began) == ("has not answered", False)
        assert in_inbox(network, "b") == (["run-1"], "your rules refuse it")
        write_policy(folder)
        network.settle()
        assert in_inbox(network, "b") == (["run-1"], "waiting")
        assert network.consumer.progress(run).parties["b"] == "decides"
        network.owner("b").approve("run-1", AGREED.digest, by="Ada")
        network.settle()
        progress = network.consumer.progress(run)
        assert (progress.done, progress.parties["b"]) == (True, "takes part")

    def test_a_cancelled_run_stays_open_for_the_receipt_of_rows_in_letters(self, network: Network) -> None:
        run = network.approved(AGREED)
        network.turn("a", "b", CURATOR, CONSUMER, "a")
        network.consumer.cancel(network.consumer.run(run.name))
        network.turn(CONSUMER, "a", "b")
        assert in_inbox(network, "a") == ([], "rows sent")
        assert network.owner("a").run("run-1").state == "answered"
        assert in_inbox(network, "b") == ([], "closed: the consumer cancelled before any offer")


class TestClocks:
    @pytest.mark.parametrize(("ahead", "way"), [(1, "40 days ahead of"), (-1, "40 days behind")])
    def test_check_compares_the_clock_with_the_mailbox(self, tmp_path: Path, ahead: int, way: str) -> None:
        with Network(tmp_path):
            pass
        folder, address = tmp_path / "a", f"file://{tmp_path / 'mailbox'}"
        (agrees,) = check_mailboxes(folder, [address])
        far = ahead * (FAR + timedelta(hours=2))
        (wrong,) = check_mailboxes(folder, [address], clock=lambda: datetime.now(UTC) + far)
        (gone,) = check_mailboxes(folder, [f"file://{tmp_path / 'gone'}"])
        assert (agrees.ok, wrong.ok, gone.ok) == (True, False, False)
        assert f"the clock is {way} the mailbox" in wrong.detail

    @pytest.mark.parametrize(("mode", "is_good"), [(0o1770, False), (0o770, False), (0o2770, True), (0o1733, True)])
    def test_check_names_a_group_that_keeps_others_from_reading(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, is_good: bool
    ) -> None:
        with Network(tmp_path):
            pass
        (tmp_path / "mailbox").chmod(mode)
        private = (tmp_path / "mailbox").stat().st_gid + 1
        monkeypatch.setattr("os.getegid", lambda: private)  # as of a user who has a group of his own
        found = {one.check: one for one in check_mailboxes(tmp_path / "a", [f"file://{tmp_path / 'mailbox'}"])}
        assert all(one.ok for one in found.values()) == is_good
        assert is_good or "chmod 2770" in found[f"mailbox file://{tmp_path / 'mailbox'}"].detail

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
    def test_check_names_folders_that_were_made_before_the_mode_was_repaired(self, tmp_path: Path) -> None:
        with Network(tmp_path):
            pass
        (tmp_path / "mailbox").chmod(0o2770)
        (tmp_path / "mailbox" / "earlier").mkdir()
        os.chown(tmp_path / "mailbox" / "earlier", -1, 12345)
        found = [one.ok for one in check_mailboxes(tmp_path / "a", [f"file://{tmp_path / 'mailbox'}"])]
        assert found == [False, True]

    def test_a_consumer_whose_clock_is_ahead_waits_for_owners(self, network: Network) -> None:
        run = network.approved(AGREED, "a")
        network.settle()
        set_clock(network, CONSUMER, ahead=FAR)
        notes = network.turn(CONSUMER).notes
        assert any("the clock is 40 days ahead of all letters" in note for note in notes)
        assert not network.consumer.progress(run).began
        set_clock(network, CONSUMER)
        network.owner("b").approve("run-1", AGREED.digest, by="Ada")
        network.settle()
        assert network.consumer.progress(run).done
        assert network.consumer.folder("run-1").summary(AGREED).absent.tolist() == []

    def test_a_curator_whose_clock_is_ahead_gives_up_nobody(self, network: Network) -> None:
        run = network.approved(AGREED)
        network.turn("a", "b", CONSUMER, CURATOR, "a", CURATOR)
        set_clock(network, CURATOR, ahead=FAR)
        assert any("40 days ahead" in note for note in network.turn(CURATOR).notes)
        set_clock(network, CURATOR)
        network.settle()
        assert network.consumer.progress(run).done
        assert network.consumer.folder("run-1").summary(AGREED).absent.tolist() == []

    def test_an_owner_whose_clock_is_ahead_keeps_its_run_its_key_and_its_letters(self, network: Network) -> None:
        run = network.approved(AGREED)
        network.turn("a", "b", CURATOR, CONSUMER)  # the release is in the mailbox
        set_clock(network, "a", ahead=timedelta(days=900))
        look = network.turn("a")
        assert (look.refused, look.left) == (0, 1)
        owner = network.owner("a")
        assert owner.home.run_key(run.digest) is not None
        assert [logged(owner.home, kind) for kind in ("expired", "refused", "withheld")] == [[], [], []]
        set_clock(network, "a")
        network.settle()
        assert network.consumer.progress(run).done
        assert network.consumer.folder("run-1").summary(AGREED).absent.tolist() == []

    def test_terms_that_come_while_the_clock_is_ahead_are_read_later(self, network: Network) -> None:
        set_clock(network, "a", ahead=timedelta(days=900))
        network.ask(AGREED)
        network.turn(CONSUMER, "a")
        assert network.owner("a").mail.runs() == []
        set_clock(network, "a")
        network.turn("a")
        assert in_inbox(network, "a") == (["run-1"], "waiting")

    def test_a_curator_whose_clock_was_behind_gives_up_nobody_when_it_is_set(self, network: Network) -> None:
        """It counts its patience from when its letters were posted, by the mailbox."""
        run = network.approved(AGREED)
        network.turn("a", "b", CURATOR)
        set_clock(network, CURATOR, ahead=-FAR)
        notes = network.turn(CONSUMER, CURATOR, CURATOR).notes
        assert any("the clock is 40 days behind the mailbox" in note for note in notes)
        set_clock(network, CURATOR)
        network.turn(CURATOR)
        network.settle()
        assert network.consumer.progress(run).done
        assert network.consumer.folder("run-1").summary(AGREED).absent.tolist() == []
