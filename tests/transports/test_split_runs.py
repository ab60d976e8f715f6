"""Split runs by mailbox: only the buyer reads rows, and nothing is opened twice. Computed in the clear."""

import dataclasses
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from between_world import OWNERS
from home_world import CONSUMER, secret_of, write_policy
from shared_run_world import clear_picks
from split_homes import COMPUTING, SplitHomes, written_slots
from test_sync import leave, outgoing

from likeset.errors import HomeRestored, InvalidArgument, LedgerUnavailable, PartyFailed
from likeset.homes.compute import ComputeHandler, reach_document
from likeset.homes.consumer import PartyState
from likeset.homes.review import rehearse, rows_in_letters, verify
from likeset.homes.runs import Ending, ending_document
from likeset.ledger.ledger import Ledger
from likeset.protocol.party import CURATOR
from likeset.protocol.split import ComputeInputs, ComputeParty, OpenedSlots
from likeset.protocol.terms import WITNESS
from likeset.protocol.wire import PicksOpened
from likeset.run import between
from likeset.split.links import RunCertificate, TunnelPeer
from likeset.tables.records import DeclaredRecords
from likeset.trust import shares
from likeset.trust.letters import Post, letter_in, pair_of
from likeset.trust.shares import ComputeRole, Words, split_words

OTHERS = (CURATOR, WITNESS)
both = pytest.mark.parametrize("party", OTHERS)


@pytest.fixture
def homes(tmp_path: Path) -> Iterator[SplitHomes]:
    with SplitHomes(tmp_path) as made:
        yield made


def posts(homes: SplitHomes, writer: str, reader: str) -> dict[Path, Post]:
    opened = pair_of(secret_of(writer), secret_of(reader).card).outgoing.unwrap
    return {path: opened(path.read_bytes()) for path in sorted(outgoing(homes, writer, reader).iterdir())}


def leave_ending(homes: SplitHomes, writer: str) -> None:
    words = ending_document(Ending.NOT_COMPUTED, "it failed")
    leave(homes, writer, CONSUMER, Post("ending", bytes.fromhex(homes.digest), words))


class TestWholeRuns:
    def test_the_consumer_gets_rows_and_owners_get_receipts(self, homes: SplitHomes) -> None:
        homes.finish()
        slots = homes.terms.rows_per_owner
        assert len(homes.summary.rows) == 6
        assert homes.summary.rows_seen == 2 * slots
        for owner in OWNERS:
            receipt = homes.owner(owner).mail.receipt(homes.run_at(owner))
            assert receipt is not None
            assert receipt.rows == slots
        assert {homes.run_at(party).state for party in homes.roles} == {"closed"}
        for party in COMPUTING:
            assert homes.files(party).has_only_record

    def test_every_process_is_new_at_every_look_and_picks_are_opened_once(self, homes: SplitHomes) -> None:
        for _ in range(9):
            for party in homes.roles:
                homes.turn(party)
                homes.drop(party)
        homes.finish()
        assert len(homes.summary.rows) == 6

    def test_a_steward_sees_the_rows_in_letters_as_shares_and_those_of_a_dry_run(self, homes: SplitHomes) -> None:
        homes.finish()
        summary, schema = homes.summary, homes.consumer.folder("run-1").schema(homes.terms)
        bought = DeclaredRecords(schema).unpack(summary.records.tobytes(), rows=len(summary.rows))
        for place, name in enumerate(homes.terms.owners):
            left, tried = rows_in_letters(homes.owner(name), "run-1"), rehearse(homes.owner(name), homes.terms)
            assert left.table is not None
            assert tried.rows.table is not None
            assert (left.count, left.held_back) == (homes.terms.rows_per_owner, 0)
            in_order = [("dose", "ascending")]
            assert left.table.sort_by(in_order).equals(tried.rows.table.sort_by(in_order))
            doses = [
                dose
                for dose, owner in zip(bought.column("dose").to_pylist(), summary.owners, strict=True)
                if owner == place
            ]
            assert set(doses) <= set(left.table.column("dose").to_pylist())

    def test_letters_that_come_before_the_one_that_introduces_everybody_wait_for_it(self, homes: SplitHomes) -> None:
        """A mailbox has no order: the consumer's second letter may be found before its first."""
        homes.begin_run()
        homes.settle(*OWNERS, CONSUMER)
        found = {path: post.document for path, post in posts(homes, CONSUMER, WITNESS).items() if post.kind == "letter"}
        letters = {letter_in(data, most_bytes=len(data)).header.number: path for path, data in found.items()}
        first = letters[0]
        data = first.read_bytes()
        first.unlink()
        assert homes.turn(WITNESS).left == len(letters) - 1 == 1
        first.write_bytes(data)
        homes.finish()


class TestOwners:
    def test_an_owner_that_a_person_decided_for_is_not_taken_for_absent(self, homes: SplitHomes) -> None:
        """It said that it waits, then it accepted; and who abstains later is given up at once."""
        policy = dict(homes.policies["a"], manual_approval=True)
        for owner in OWNERS:
            homes.drop(owner)
            write_policy(homes.place / owner, **policy)
            homes.owner(owner).put_policy_in_force(by="Ada")
        homes.settle()
        assert homes.progress_now.parties["a"] is PartyState.DECIDES
        for owner in OWNERS:
            assert homes.owner(owner).approve("run-1", homes.digest, by="Ada").accepted
        homes.begin_run()
        homes.turn(CONSUMER)
        assert homes.progress_now.waited_for == OWNERS
        homes.owner("b").withdraw("run-1", by="Ada")
        homes.finish()
        assert homes.summary.absent.tolist() == [1]

    def test_an_owner_that_gave_its_part_to_two_of_three_is_left_out_and_named(self, homes: SplitHomes) -> None:
        homes.begin_run()
        homes.turn(*OWNERS)
        shutil.rmtree(outgoing(homes, "b", WITNESS))
        homes.settle(*COMPUTING, "a")
        assert not homes.over
        homes.clock.now += timedelta(hours=73)
        homes.finish(*COMPUTING, "a")
        assert homes.summary.flagged.tolist() == [1]
        assert homes.summary.reasons.tolist() == ["its offer is not computed on: witness acknowledged no part of it"]
        assert any("b its offer is not computed on" in note for note in homes.notes)

    def test_picks_that_do_not_open_are_omitted_and_counted_and_name_their_owner_as_unopened(
        self, homes: SplitHomes
    ) -> None:
        """The computation opens a wrong r for two picks of honest owners."""

        def spoiled(inputs: Mapping[ComputeRole, ComputeInputs]) -> OpenedSlots:
            picks = clear_picks(inputs)
            secrets = picks.secrets.copy()
            secrets[:2] ^= 1
            return dataclasses.replace(picks, secrets=secrets)

        homes.meeting.pick = spoiled
        homes.finish()
        assert homes.meeting.last is not None
        places = Counter((homes.meeting.last.numbers[:2] // homes.terms.rows_per_owner).tolist())
        assert len(homes.summary.rows) == 4
        assert homes.summary.flagged.tolist() == sorted(places)
        for place, reason in zip(sorted(places), homes.summary.reasons.tolist(), strict=True):
            assert reason.startswith(f"{places[place]} rows that were picked were left out")
            words = f"{places[place]} rows picked from {homes.terms.owners[place]} did not open"
            assert [note for note in homes.notes if words in note and "does not show who caused it" in note]
        named = between.collect(homes.consumer, homes.run_at(CONSUMER)).warnings
        assert [note.owner for note in named if note.kind == "left-out"] == [OWNERS[place] for place in sorted(places)]

    def test_an_owner_keeps_what_it_shared_until_the_terms_end_and_its_record_for_good(self, homes: SplitHomes) -> None:
        homes.finish()

        def stored() -> tuple[int, int]:
            homes.turn("a")
            owner, run = homes.owner("a"), homes.run_at("a")
            assert verify(owner)[0] == []
            out = [row for row in owner.mail.letters(run) if (row.way, row.post) == ("out", "letter")]
            left = sum(len(owner.mail.data_of(row) or b"") for row in out)
            left += sum(len(message.message) for message in owner.ledger.messages(run="run-1"))
            return left, max(row.rows for row in out)

        slots = homes.terms.rows_per_owner
        homes.clock.now = homes.run_at("a").end - timedelta(minutes=1)
        before, rows = stored()
        assert before > 3 * 64 * slots
        assert rows == slots
        homes.clock.now += timedelta(minutes=1)
        assert stored() == (0, slots)
        assert stored() == (0, slots), "asked again, nothing more happens"

    def test_an_owner_that_was_stopped_at_the_end_of_the_terms_deletes_its_shares_later(
        self, homes: SplitHomes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        homes.finish()
        homes.clock.now = homes.run_at("a").end
        with monkeypatch.context() as stopped:
            stopped.setattr(Ledger, "purge", lambda *_, **__: (_ for _ in ()).throw(LedgerUnavailable("stopped")))
            homes.turn("a")
        homes.turn("a")
        assert homes.owner("a").ledger.messages(run="run-1") == ()


class TestComputing:
    @both
    def test_a_party_without_workers_or_a_place_to_listen_says_so_before_anything_begins(
        self, homes: SplitHomes, party: str
    ) -> None:
        def missing() -> None:
            raise InvalidArgument("environment", "none", "is not an environment for workers")

        homes.turn(CONSUMER)
        homes.check_workers = missing
        homes.turn(party, CONSUMER)
        assert homes.progress_now.detail == (
            f"the {party} has no environment for workers; make it with `likeset split setup`"
        )
        assert homes.progress_now.parties[party] is PartyState.ABSTAINS
        homes.check_workers = lambda: None
        settings = homes.place / party / "home.yaml"
        text = settings.read_text()
        settings.write_text(text.replace("127.0.0.1:0", ""))
        homes.drop(party)
        homes.turn(party, CONSUMER)
        assert "listen: and reach_at: in its home.yaml do not say where" in homes.progress_now.detail
        settings.write_text(text)
        homes.turn(party, CONSUMER)
        assert homes.progress_now.parties[party] is PartyState.TAKES_PART
        assert homes.progress_now.detail == ""

    def test_another_program_is_refused_before_anything_begins(
        self, homes: SplitHomes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("likeset.homes.compute.program_digest", lambda: "0" * 64)
        homes.turn(CONSUMER, CURATOR, CONSUMER)
        assert "another version of the public program" in homes.progress_now.detail

    def test_two_processes_of_one_home_do_not_compute_at_once(self, homes: SplitHomes) -> None:
        homes.agree()
        with homes.files(CURATOR).alone() as is_alone:
            assert is_alone
            homes.turn(CURATOR)
            homes.until(lambda: homes.run_at(CURATOR).progress == "another process of this home computes", CURATOR)
            assert not homes.meeting.here
        homes.finish()


def later_certificate() -> bytes:
    """A certificate of a version that does not exist: reading it fails otherwise than reading garbage."""
    made = RunCertificate.generate().certificate
    third, tenth = bytes.fromhex("a003020102"), bytes.fromhex("a003020109")
    assert made.count(third) == 1
    return made.replace(third, tenth)


class TestEndings:
    def test_too_few_owners_end_the_run_everywhere(self, tmp_path: Path) -> None:
        with SplitHomes(tmp_path, quorum=2) as homes:
            homes.begin_run()
            present = (*COMPUTING, "a")
            homes.settle(*present)
            homes.clock.now += timedelta(hours=73)
            homes.finish(*present, ending=Ending.QUORUM_MISSED)
            for party in OTHERS:
                assert homes.run_at(party).ended == Ending.QUORUM_MISSED
                assert not homes.has_shares(party)
                assert not homes.files(party).exists

    def test_a_party_that_never_comes_ends_the_run_before_the_terms_do(self, homes: SplitHomes) -> None:
        homes.begin_run()
        present = (CONSUMER, CURATOR, *OWNERS)
        homes.settle(*present)
        homes.clock.now = homes.run_at(CONSUMER).end - timedelta(hours=3)
        homes.finish(*present, ending=Ending.NOT_COMPUTED)
        assert "waiting for the other compute parties" in homes.progress_now.detail
        assert not homes.has_shares(CURATOR)

    @pytest.mark.parametrize("told", [True, False])
    def test_shares_stay_until_the_terms_end_and_are_deleted_then(self, homes: SplitHomes, *, told: bool) -> None:
        homes.until(lambda: homes.over, *OTHERS, *OWNERS, CONSUMER)
        if told:
            homes.settle()
        else:  # the consumer's last letter reaches nobody
            for party in OTHERS:
                shutil.rmtree(outgoing(homes, CONSUMER, party))
        homes.drop()
        homes.only_syncs = set(COMPUTING)
        homes.clock.now = homes.run_at(CONSUMER).end - timedelta(minutes=1)
        homes.turn(*OTHERS)
        for party in COMPUTING:
            assert homes.has_shares(party)
            assert homes.files(party).opening.began
            assert homes.files(party).has_only_record == (told or party == CONSUMER)
        homes.clock.now += timedelta(minutes=1)
        homes.turn()
        for party in COMPUTING:
            assert not homes.has_shares(party)
            assert not homes.files(party).exists

    @pytest.mark.parametrize(
        ("reach", "words"),
        [
            (b"nowhere", "does not say where a compute party listens"),
            (b'{"host": "a", "port": 1e999, "certificate": ""}', "does not say where a compute party listens"),
            (b'{"host": "a\\u0000b", "port": 7301, "certificate": ""}', "does not say where a compute party listens"),
            (reach_document(TunnelPeer("127.0.0.1", 7301, later_certificate())), "certificate"),
        ],
        ids=["nowhere", "infinite port", "unprintable host", "odd certificate"],
    )
    def test_a_party_that_names_no_usable_place_ends_its_run_and_stops_nobody(
        self, homes: SplitHomes, monkeypatch: pytest.MonkeyPatch, reach: bytes, words: str
    ) -> None:
        honest = ComputeParty.__init__

        def lie(party: ComputeParty, terms: Any, role: Any, **more: Any) -> None:
            honest(party, terms, role, **(more | ({"reach": reach} if role == "curator" else {})))

        monkeypatch.setattr(ComputeParty, "__init__", lie)
        homes.finish(ending=Ending.NOT_COMPUTED)
        assert words in homes.progress_now.detail

    @pytest.mark.parametrize("liar", OTHERS)
    def test_nobody_takes_opened_rows_from_the_consumer(
        self, homes: SplitHomes, monkeypatch: pytest.MonkeyPatch, liar: str
    ) -> None:
        """Its computation is done, it has not stored the summary, and another party says that the run failed."""
        with monkeypatch.context() as patched:
            patched.setattr(ComputeHandler, "_open", lambda *_: None)
            homes.until(lambda: homes.computations(CONSUMER).opened(homes.digest) is not None)
        leave_ending(homes, liar)
        homes.finish()
        assert len(homes.summary.rows) == 6

    def test_before_that_another_party_that_cannot_compute_ends_it_in_its_own_name(self, homes: SplitHomes) -> None:
        homes.agree()
        leave_ending(homes, CURATOR)
        homes.settle(CONSUMER)
        assert homes.ended is Ending.NOT_COMPUTED
        assert homes.progress_now.detail == "curator says so: it failed"

    def test_curator_and_witness_hear_the_same_whether_any_picked_row_opened(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Otherwise owners who lie about all rows would learn, through a curator, whether all picks fell on them."""
        told = []
        for lie in (False, True):
            (tmp_path / str(lie)).mkdir()
            with SplitHomes(tmp_path / str(lie)) as homes, monkeypatch.context() as patched:
                if lie:
                    patched.setattr(shares, "split_words", _of_other_rows)
                homes.finish(ending=Ending.NOT_COMPUTED if lie else Ending.DONE)
                assert ("none of the rows that were picked" in homes.progress_now.detail) == lie
                ended = [(homes.run_at(party).state, homes.run_at(party).ending) for party in OTHERS]
                heard = [
                    sorted((post.kind, len(post.document)) for post in posts(homes, CONSUMER, party).values())
                    for party in OTHERS
                ]
                told.append((ended, heard))
        assert told[0] == told[1]

    @both
    def test_a_look_that_ends_a_run_leaves_its_files_to_the_process_that_computes(
        self, homes: SplitHomes, party: str
    ) -> None:
        """That process may open picks in this moment, and its record must not be removed."""
        homes.agree()
        homes.only_syncs = set(COMPUTING)
        files = homes.files(party)
        homes.consumer.cancel(homes.run_at(CONSUMER))
        with files.alone():
            before = {path.name for path in files.folder.iterdir()}
            homes.settle()
            assert {path.name for path in files.folder.iterdir()} == before
            files.opening.store(b"share")
        homes.settle()
        assert files.has_only_record

    @both
    def test_the_record_of_an_opening_stays_until_the_terms_end_whatever_the_consumer_says(
        self, homes: SplitHomes, party: str
    ) -> None:
        """A consumer that has its rows cancels and brings the run back: nothing is opened again."""
        homes.agree()
        homes.only_syncs = set(COMPUTING)
        files = homes.files(party)
        files.opening.store(b"share")
        homes.consumer.cancel(homes.run_at(CONSUMER))
        homes.settle()
        assert homes.run_at(party).state == "cancelled"
        assert list(files.folder.rglob("*")) == [files.opening.record]
        assert files.opening.record.read_bytes() == b""
        with pytest.raises(PartyFailed, match="opened already"):
            files.opening.share()
        with pytest.raises(PartyFailed, match="opened already"):
            files.opening.store(b"another share")
        homes.clock.now = homes.run_at(CONSUMER).end
        homes.settle()
        assert not files.exists


def _of_other_rows(words: Words) -> tuple[Words, ...]:
    return split_words(words + np.eye(1, words.shape[1], dtype=np.uint64))


def given(homes: SplitHomes) -> bytes:
    """What is opened to the consumer, whose process has not looked at it yet."""
    slots = homes.computations(CONSUMER).opened(homes.digest)
    return b"" if slots is None else written_slots(slots)


def opened_to_consumer(homes: SplitHomes, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Picks are opened to the consumer, and all processes end before it looks at them; returns them."""
    with monkeypatch.context() as patched:
        patched.setattr(ComputeHandler, "_open", lambda *_: None)
        homes.until(lambda: bool(given(homes)))
        homes.turn()
        picks = given(homes)
        homes.drop()
    return picks


class TestRestoredHomes:
    def put_aside(self, homes: SplitHomes, party: str) -> Path:
        homes.drop(party)
        return Path(shutil.copytree(homes.place / party, homes.place / f"old-{party}"))

    def restore(self, homes: SplitHomes, party: str) -> None:
        homes.drop(party)
        shutil.rmtree(homes.place / party)
        (homes.place / f"old-{party}").rename(homes.place / party)

    @pytest.mark.parametrize("party", [*OTHERS, "a"])
    def test_a_home_from_before_it_accepted_stops(self, homes: SplitHomes, party: str) -> None:
        homes.turn(CONSUMER)
        self.put_aside(homes, party)
        homes.finish()
        bought = homes.consumer.folder("run-1").summary_path.read_bytes()
        self.restore(homes, party)
        with pytest.raises(HomeRestored):
            homes.settle(party, CONSUMER)
        with pytest.raises(HomeRestored):
            homes.turn(party)
        assert list(homes.meeting.opened.values()) == [1]
        assert homes.consumer.folder("run-1").summary_path.read_bytes() == bought

    @both
    def test_a_home_from_before_picks_were_opened_opens_nothing_again(self, homes: SplitHomes, party: str) -> None:
        """The consumer's last letter is still in the mailbox."""
        homes.agree()
        self.put_aside(homes, party)
        homes.finish()
        self.restore(homes, party)
        homes.settle()
        assert homes.run_at(party).state == "closed"
        assert list(homes.meeting.opened.values()) == [1]

    def test_a_consumer_from_before_it_began_stops(self, homes: SplitHomes) -> None:
        homes.settle(*homes.owners, CURATOR, WITNESS)
        homes.turn(CONSUMER, *homes.owners, CURATOR, WITNESS)
        self.put_aside(homes, CONSUMER)
        homes.finish()
        opened = dict(homes.meeting.opened)
        self.restore(homes, CONSUMER)
        with pytest.raises(HomeRestored):
            homes.settle()
        assert homes.meeting.opened == opened
        assert not (homes.place / CONSUMER / "runs" / "run-1" / "summary.bin").exists()

    def test_a_consumer_that_comes_back_with_another_target_gets_nothing(self, homes: SplitHomes) -> None:
        homes.agree()
        path = homes.place / CONSUMER / "runs" / "run-1" / "target.npy"
        first = path.read_bytes()
        np.save(path, np.load(path) + np.float32(0.25))
        for _ in range(3):
            homes.turn()
        assert any("another one than this run began with" in note for note in homes.notes)
        assert not homes.meeting.opened
        homes.drop()
        path.write_bytes(first)
        homes.clock.now += timedelta(minutes=1)  # it is tried again after a pause
        homes.finish()


class TestOpenedOnce:
    def test_a_consumer_that_edits_its_state_and_asks_again_gets_what_was_opened_before(
        self, homes: SplitHomes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It denies that anything was opened, and puts in another share of the target: that selects other rows."""
        picks = opened_to_consumer(homes, monkeypatch)
        before = [homes.files(party).opening.share() for party in OTHERS]
        homes.files(CONSUMER).opening.record.unlink()
        honest = ComputeParty.inputs

        def edited(party: ComputeParty) -> ComputeInputs:
            inputs = honest(party)
            return (
                dataclasses.replace(inputs, target_words=-inputs.target_words) if party.role == "consumer" else inputs
            )

        monkeypatch.setattr(ComputeParty, "inputs", edited)
        assert opened_to_consumer(homes, monkeypatch) == picks
        assert [homes.files(party).opening.share() for party in OTHERS] == before
        assert any("asked again for its picks" in note for note in homes.notes)
        homes.finish()

    @both
    def test_a_record_without_its_share_ends_the_run(
        self, homes: SplitHomes, monkeypatch: pytest.MonkeyPatch, party: str
    ) -> None:
        opened_to_consumer(homes, monkeypatch)
        homes.files(party).opening.forget_share()
        homes.finish(ending=Ending.NOT_COMPUTED)
        assert "no longer has its share" in homes.progress_now.detail
        assert not homes.consumer.folder("run-1").summary_path.exists()

    def test_the_summary_is_stored_before_anybody_hears_that_the_run_is_over(
        self, homes: SplitHomes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A consumer that dies between both asks again, gets the same bytes and ends the run."""
        ended = ComputeHandler.end

        def killed(computing: ComputeHandler, t: Any, run: Any, ending: Ending, *more: Any, **words: Any) -> None:
            if run.role == "consumer":
                raise KeyboardInterrupt
            ended(computing, t, run, ending, *more, **words)

        with monkeypatch.context() as patched:
            patched.setattr(ComputeHandler, "end", killed)
            with pytest.raises(KeyboardInterrupt):
                homes.finish()
        bought = homes.consumer.folder("run-1").summary_path.read_bytes()
        homes.drop()
        assert not [row for row in sent(homes) if row == PicksOpened.kind]
        homes.finish()
        assert homes.consumer.folder("run-1").summary_path.read_bytes() == bought
        assert sent(homes).count(PicksOpened.kind) == 2


def sent(homes: SplitHomes) -> list[str]:
    return [row.kind for row in homes.consumer.mail.letters(homes.run_at(CONSUMER)) if row.way == "out"]
