"""Split runs by mailbox: nobody reads a row but the buyer, whoever is killed, late or away."""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
import split_homes
from kill_world import CONSUMER
from shared_run_world import clear_picks
from split_homes import SplitHomes, split_homes_in

from likeset.errors import InvalidArgument
from likeset.homes import compute, owner_node
from likeset.homes import review as outbox
from likeset.homes.mail import Correspondence, KeptLetter
from likeset.homes.owner_node import OwnerNode
from likeset.homes.review import rehearse, review
from likeset.protocol.party import CURATOR
from likeset.protocol.split_run import ComputeInputs, OpenedSlots
from likeset.protocol.terms import WITNESS
from likeset.run.runs import collect
from likeset.tables.records import DeclaredRecords
from likeset.transports.desks import PartyState
from likeset.transports.posts import Ending
from likeset.trust.letters import letter_in
from likeset.trust.shares import ComputeRole


@pytest.fixture
def homes(tmp_path: Path) -> Iterator[SplitHomes]:
    made = split_homes_in(tmp_path)
    yield made
    made.drop()


def test_a_split_run_gives_the_consumer_rows_and_owners_receipts(homes: SplitHomes) -> None:
    homes.hold()
    assert homes.progress.ended is Ending.DONE
    summary = homes.summary
    assert len(summary.rows) == 6
    assert summary.rows_seen == 2 * homes.run.terms.rows_per_owner
    for owner in homes.owners:
        with OwnerNode(homes.folder(owner), clock=homes.clock) as node:
            verdict = owner_node.check(node, "run-1")
            assert verdict.receipt is not None
            assert verdict.problems == verdict.contradictions == ()
            assert verdict.receipt.transcript.rows == homes.run.terms.rows_per_owner
    for party in homes.computing:
        assert not any((homes.folder(party) / "split").glob("*"))


def notes_of(homes: SplitHomes, *parties: str) -> str:
    """All notes of a round of looks, in one text."""
    return "\n".join(homes.look(*parties).notes)


def begun(homes: SplitHomes) -> None:
    """Everybody has accepted, the consumer's first letters are written, and nobody has read them."""
    homes.settle()
    homes.approve()
    homes.look(*homes.owners)
    homes.look(CONSUMER)
    assert homes.progress.began


def test_every_process_is_new_at_every_look_and_the_rows_are_the_same(homes: SplitHomes) -> None:
    """Compute parties are rebuilt from their letters at each look, until they compute."""
    homes.settle()
    homes.approve()
    for _ in range(12):
        for party in homes.parties:
            homes.look(party)
            homes.drop(party)
    homes.until(homes.over)
    homes.settle()
    assert homes.progress.ended is Ending.DONE
    assert len(homes.summary.rows) == 6
    assert list(homes.meeting.opened.values()) == [1]


def test_an_owner_who_says_nothing_is_given_up_by_all_when_its_time_is_over(homes: SplitHomes) -> None:
    begun(homes)
    homes.settle(CONSUMER, CURATOR, WITNESS, "a")
    assert homes.progress.waited_for == ("b",)
    homes.clock.pass_by(hours=73)
    homes.until(homes.over, CONSUMER, CURATOR, WITNESS, "a")
    homes.settle()
    assert homes.progress.ended is Ending.DONE
    assert homes.summary.absent.tolist() == [1]
    assert set(homes.summary.owners.tolist()) == {0}


def test_an_owner_who_gave_its_part_to_two_of_three_is_left_out_when_the_third_has_waited(homes: SplitHomes) -> None:
    begun(homes)
    homes.settle(*homes.owners)
    homes.folder_between("b", WITNESS).clear()
    homes.drop("b")
    homes.settle(CONSUMER, CURATOR, WITNESS, "a")
    assert not homes.over()
    homes.clock.pass_by(hours=73)
    homes.until(homes.over, CONSUMER, CURATOR, WITNESS, "a")
    assert homes.progress.ended is Ending.DONE
    assert homes.summary.flagged.tolist() == [1]
    assert homes.summary.reasons.tolist() == ["its offer is not computed on: witness acknowledged no part of it"]
    assert set(homes.summary.owners.tolist()) == {0}


def test_picks_that_do_not_open_are_left_out_and_counted_for_each_owner(
    homes: SplitHomes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The computation opens a wrong r for two picks: honest owners are named, as unopened."""

    def spoiled(inputs: Mapping[ComputeRole, ComputeInputs]) -> OpenedSlots:
        picks = clear_picks(inputs)
        secrets = picks.secrets.copy()
        secrets[:2] ^= 1
        return dataclasses.replace(picks, secrets=secrets)

    monkeypatch.setattr(split_homes, "clear_picks", spoiled)
    begun(homes)
    notes: list[str] = []
    while not homes.over():
        notes += homes.look().notes
    assert homes.progress.ended is Ending.DONE
    (picks,) = homes.meeting.picks.values()
    places = Counter((picks.numbers[:2] // homes.run.terms.rows_per_owner).tolist())
    assert len(homes.summary.rows) == 4
    assert homes.summary.flagged.tolist() == sorted(places)
    for place, count in places.items():
        words = f"{count} rows picked from {homes.run.terms.owners[place]} did not open"
        assert len([note for note in notes if words in note]) == 1
        assert str(homes.summary.reasons[sorted(places).index(place)]).startswith(f"{count} rows that were picked")
    named = [note.owner for note in collect(homes.run).warnings if note.kind == "left-out"]
    assert named == [homes.run.terms.owners[place] for place in sorted(places)]


def test_who_only_looks_says_that_computing_needs_somebody_who_stays(homes: SplitHomes) -> None:
    homes.only_look = set(homes.computing)
    homes.settle()
    homes.approve()
    homes.settle()
    assert homes.progress.ended is None
    homes.drop()
    homes.only_look = {CURATOR}
    said = notes_of(homes, CURATOR)
    assert "all compute parties are ready: computing needs `likeset curator serve` here" in said
    assert "waiting for the other compute parties" in homes.progress.computing or homes.progress.computing
    homes.drop()
    homes.only_look = set()
    homes.until(homes.over)
    assert homes.progress.ended is Ending.DONE


@pytest.mark.parametrize("killed", ["curator", "witness", CONSUMER])
def test_a_compute_party_that_is_gone_while_the_others_wait_is_waited_for_and_goes_on(
    homes: SplitHomes, killed: str
) -> None:
    homes.only_look = {killed}
    homes.settle()
    homes.approve()
    homes.settle()
    homes.drop(killed)
    for _ in range(3):
        homes.look(*(party for party in homes.parties if party != killed))
    assert not homes.run.summary_path.exists()
    homes.only_look = set()
    homes.until(homes.over)
    assert homes.progress.ended is Ending.DONE
    assert list(homes.meeting.opened.values()) == [1]


def test_too_few_owners_end_the_run_everywhere_with_its_reason(tmp_path: Path) -> None:
    homes = split_homes_in(tmp_path, quorum=2)
    begun(homes)
    homes.settle(CONSUMER, CURATOR, WITNESS, "a")
    homes.clock.pass_by(hours=73)
    homes.until(homes.over, CONSUMER, CURATOR, WITNESS, "a")
    homes.settle(CONSUMER, CURATOR, WITNESS, "a")
    assert homes.progress.ended is Ending.QUORUM_MISSED
    for party in (CURATOR, WITNESS):
        assert [run.ended for run in homes.desk(party).memory.runs()] == [Ending.QUORUM_MISSED.value]
        assert forgotten(homes, party)
    homes.drop()


def test_a_compute_party_that_never_comes_ends_the_run_before_the_terms_do(homes: SplitHomes) -> None:
    begun(homes)
    homes.settle(CONSUMER, CURATOR, "a", "b")
    homes.clock.pass_by(days=29)
    homes.until(homes.over, CONSUMER, CURATOR)
    homes.settle(CONSUMER, CURATOR)
    assert homes.progress.ended is Ending.NOT_COMPUTED
    assert "waits for the other compute parties" in homes.progress.detail
    assert forgotten(homes, CURATOR)


def test_a_run_that_the_consumer_cancels_before_anybody_may_compute_is_forgotten_by_all(homes: SplitHomes) -> None:
    begun(homes)
    homes.settle(CONSUMER, CURATOR, "a", "b")
    homes.run.cancel()
    homes.drop(CONSUMER)
    homes.settle()
    for party in (CURATOR, WITNESS):
        assert [run.ended for run in homes.desk(party).memory.runs()] == [Ending.CANCELLED.value]
        assert forgotten(homes, party)


def forgotten(homes: SplitHomes, party: str) -> bool:
    """No share and no key of the run is left at a compute party."""
    digest = bytes.fromhex(homes.run.terms.digest)
    book = homes.desk(party).identity.book
    keys = book.run_keys(digest)
    whole = [letter for letter in book.letters(digest) if letter.way == "in" and has_data(homes, party, letter)]
    return (keys is None or keys.secret is None) and not whole and not any((homes.folder(party) / "split").glob("*"))


def has_data(homes: SplitHomes, party: str, letter: KeptLetter) -> bool:
    """Whether a home has the bytes of a letter."""
    digest = bytes.fromhex(homes.run.terms.digest)
    return homes.desk(party).identity.book.letter_data(digest, letter.peer, "in", letter.number) is not None


@pytest.mark.parametrize("told", [True, False])
def test_shares_stay_until_the_terms_end_and_are_gone_then_told_or_not(homes: SplitHomes, *, told: bool) -> None:
    """Files of a computation go when the run ends; what is left at 23:59 of the last day is gone a minute later."""
    homes.settle()
    homes.approve()
    homes.until(homes.over)
    if told:
        homes.settle()
    else:  # the consumer's last word reaches nobody
        for party in (CURATOR, WITNESS):
            homes.folder_between(CONSUMER, party).clear()
    homes.drop()
    homes.clock.now = datetime(2029, 4, 3, 23, 59, tzinfo=UTC)
    homes.settle()
    for party in homes.computing:
        assert not forgotten(homes, party)
        assert not told or not any((homes.folder(party) / "split").glob("*"))
    homes.clock.pass_by(minutes=1)
    homes.settle()
    for party in homes.computing:
        assert forgotten(homes, party)


def test_an_owner_keeps_what_it_shared_until_the_terms_end_and_its_record_for_good(homes: SplitHomes) -> None:
    """Shares, K, r and salts are in its journal: there at 23:59 of the last day, and gone a minute later."""
    homes.hold()
    homes.drop()

    def kept() -> tuple[int, int]:
        """Bytes that are kept of what left, and rows that the audit log says have left."""
        homes.look("a")
        homes.drop("a")
        with OwnerNode(homes.folder("a"), clock=homes.clock) as node:
            assert outbox.verify(node)[0] == []
            sent = sum(replies.rows for replies in node.record_of("run-1").sent.values())
            return sum(len(message.data) for message in outbox.messages_that_left(node, "run-1")), sent

    homes.clock.now = datetime(2029, 4, 3, 23, 59, tzinfo=UTC)
    slots = homes.run.terms.rows_per_owner
    before, rows = kept()
    assert before > 3 * 64 * slots
    assert rows == slots
    homes.clock.pass_by(minutes=1)
    assert kept() == (0, slots)
    assert kept() == (0, slots), "asked again, nothing more happens"


def test_a_steward_sees_the_rows_that_left_as_shares_and_those_of_a_dry_run(homes: SplitHomes) -> None:
    """The owner has all that opens its own envelopes: what lies there is what a dry run shows, and what was sold."""
    homes.hold()
    homes.drop()
    places = {name: place for place, name in enumerate(homes.run.terms.owners)}
    for owner in homes.owners:
        with OwnerNode(homes.folder(owner), clock=homes.clock) as node:
            left = outbox.rows_that_left(node, "run-1")
            tried = rehearse(node, homes.run.terms)
            assert left.table is not None
            assert tried.rows.table is not None
            assert (left.count, left.held_back) == (homes.run.terms.rows_per_owner, 0)
            in_order = [("dose", "ascending")]
            assert left.table.sort_by(in_order).equals(tried.rows.table.sort_by(in_order))
            doses = set(left.table.column("dose").to_pylist())
        assert left.table.column_names == ["age", "dose", "sex", "ill"]
        result = unpack_bought(homes)
        bought = {dose for dose, place in result if place == places[owner]}
        assert bought <= doses


def unpack_bought(homes: SplitHomes) -> list[tuple[float, int]]:
    """Dose and owner's place of each row that was bought."""
    summary = homes.summary
    table = DeclaredRecords(homes.run.schema).unpack(summary.records.tobytes(), rows=len(summary.rows))
    return list(zip(table.column("dose").to_pylist(), summary.owners.tolist(), strict=True))


def test_an_owner_has_its_receipt_before_anything_is_computed_whatever_comes_of_the_run(homes: SplitHomes) -> None:
    """The witness never comes: nothing is ever opened, and receipts say how many rows were offered all the same."""
    begun(homes)
    homes.settle("a", CONSUMER)
    assert homes.meeting.opened == {}
    with OwnerNode(homes.folder("a"), clock=homes.clock) as node:
        homes.look("a")
        early = owner_node.check(node, "run-1").receipt
        assert early is not None
        assert early.transcript.rows == homes.run.terms.rows_per_owner
        assert early.card == homes.run.invitation.signed.card
    with OwnerNode(homes.folder("b"), clock=homes.clock) as node:
        assert owner_node.check(node, "run-1").receipt is None, "its part did not come yet"
    homes.settle("b", CONSUMER, "b")
    homes.drop()
    written = homes.receipts_between(CONSUMER, "a")
    homes.until(homes.over)
    homes.settle()
    assert homes.receipts_between(CONSUMER, "a") == written == 1, "the end of a run tells owners nothing"


def test_a_consumer_that_dies_before_it_acknowledges_does_so_when_it_is_back(
    homes: SplitHomes, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(homes)
    homes.settle("a", "b")
    with monkeypatch.context() as patched:

        def killed(*_: object) -> None:
            raise KeyboardInterrupt

        patched.setattr(Correspondence, "write_receipts", killed)
        with pytest.raises(KeyboardInterrupt):
            homes.look(CONSUMER)
    homes.drop(CONSUMER)
    homes.settle(CONSUMER, "a", "b")
    for owner in homes.owners:
        with OwnerNode(homes.folder(owner), clock=homes.clock) as node:
            assert owner_node.check(node, "run-1").receipt is not None
        assert homes.receipts_between(CONSUMER, owner) == 1


@pytest.mark.parametrize("party", [CURATOR, WITNESS])
def test_a_compute_party_without_workers_or_a_place_to_listen_says_so_before_anything_begins(
    homes: SplitHomes, party: str
) -> None:
    def missing() -> None:
        raise InvalidArgument("environment", "none", "is no environment for workers")

    homes.check_workers = missing
    homes.look(CONSUMER)
    homes.look(party)
    homes.look(CONSUMER)
    assert "no environment for workers; it is made with `likeset split setup`" in homes.progress.detail
    assert homes.progress.parties[party] is PartyState.ABSTAINS
    homes.check_workers = lambda: None
    homes.drop(party)
    homes.settle()
    assert homes.progress.parties[party] is PartyState.TAKES_PART


def test_another_program_is_refused_before_anything_begins(homes: SplitHomes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute, "program_digest", lambda: "0" * 64)
    homes.look(CONSUMER)
    homes.look(WITNESS)
    homes.look(CONSUMER)
    assert "another version of the public program" in homes.progress.detail


def test_a_witness_hears_nobody_but_those_whom_the_consumer_introduced(homes: SplitHomes) -> None:
    begun(homes)
    homes.settle(*homes.owners)
    assert homes.look(WITNESS).taken == 3  # the target's share, then one part of each owner
    book = homes.desk(WITNESS).identity.book
    kinds = sorted(letter.kind for letter in book.letters(bytes.fromhex(homes.run.terms.digest)) if letter.way == "in")
    assert kinds == ["offer-share", "offer-share", "target-share"]


def test_letters_that_come_before_the_one_that_introduces_everybody_are_left_until_it_is_there(
    homes: SplitHomes,
) -> None:
    """A mailbox has no order: the consumer's second letter may be found before its first."""
    begun(homes)
    homes.settle(*homes.owners, CONSUMER)
    folder = homes.folder_between(CONSUMER, WITNESS)
    letters = {name: file for name, file in folder.items() if homes.lying(CONSUMER, WITNESS)[name].kind == "letter"}
    first = next(name for name in letters if number_of(homes.lying(CONSUMER, WITNESS)[name].document) == 0)
    kept = folder.pop(first)
    assert homes.look(WITNESS).left == len(letters) - 1 == 1
    folder[first] = kept
    homes.until(homes.over)
    assert homes.progress.ended is Ending.DONE


def number_of(data: bytes) -> int:
    """Of a letter among those of its writer to its reader."""
    return letter_in(data, most_bytes=len(data)).header.number


def test_a_steward_reads_who_could_read_what(homes: SplitHomes) -> None:
    homes.settle()
    with OwnerNode(homes.folder("a"), clock=homes.clock) as node:
        answers = dict(review(node, "run-1").lines)
    rows = homes.run.terms.rows_per_owner
    assert answers["Who reads your rows?"].startswith(f"Nobody but {CONSUMER}, which buys them, and at most 6 of yours")
    assert "if all parties follow the protocol" in answers["Who reads your rows?"]
    assert "no two of them work together" in answers["Who reads your rows?"]
    assert "can steer which rows are bought" in answers["Who reads your rows?"]
    assert answers["How many rows at most?"].startswith(
        f"{rows} of your rows are offered, as shares: each is cut into 3"
    )
    assert "Random numbers" in answers["What does the curator see?"]
    assert "university" in answers["Who witnesses?"]
