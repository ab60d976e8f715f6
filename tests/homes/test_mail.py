"""Letters to an owner: one entry point, one transaction, the same bytes for the same letter."""

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from home_world import (
    CONSUMER,
    NOON,
    Clock,
    Outside,
    answer,
    answered,
    approve,
    approved_script,
    charged,
    heard,
    invite,
    logged,
    make_owner,
    opened,
    release_to,
    secret_of,
    signed_terms,
    signed_text,
    terms,
    write_policy,
)

from likeset import documents
from likeset.errors import (
    ChargeRefused,
    DataChanged,
    HomeRestored,
    IllegalMessage,
    LedgerUnavailable,
    LetterRefused,
    LikesetError,
    TermsExpired,
    TryLater,
)
from likeset.homes import review
from likeset.homes.owner import Owner
from likeset.homes.runs import MOVES, Run, State, rows_in
from likeset.ledger.budget import Charge, Request
from likeset.ledger.ledger import Ledger
from likeset.privacy.events import NoRelease, View
from likeset.protocol.party import CURATOR, Step
from likeset.protocol.wire import Asked, Message, Offer, TargetRelease
from likeset.trust.letters import letter_in

TERMS = terms()


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    with opened(make_owner(tmp_path)) as owner:
        approve(owner, TERMS)
        yield owner


@pytest.fixture
def outside(owner: Owner) -> Outside:
    return Outside(owner, TERMS)


def rows_left(owner: Owner) -> int:
    (account,) = [account for account in owner.ledger.accounts() if account.view.observer == "curator"]
    return account.rows


class TestAnswering:
    def test_an_approved_run_is_answered_once_and_charged_once(self, owner: Owner) -> None:
        outside, (letter,) = answer(owner, TERMS)
        offer = outside.read(letter)
        assert isinstance(offer.body, Offer)
        assert len(offer.body.rows) == TERMS.rows_per_owner
        assert rows_left(owner) == TERMS.rows_per_owner
        assert [entry["rows"] for entry in logged(owner.home, "sent")] == [TERMS.rows_per_owner]
        assert outside.run.state == "answered"

    def test_a_repeated_letter_gets_the_same_bytes_and_writes_nothing(self, tmp_path: Path) -> None:
        folder, agreed = make_owner(tmp_path), terms()
        with opened(folder) as owner:
            approve(owner, agreed)
            outside = Outside(owner, agreed)
            letter = outside.release()
            first, before = heard(owner, letter), owner.ledger.head()
            assert heard(owner, letter) == first
            assert owner.ledger.head() == before
        with opened(folder) as again:
            assert heard(again, letter) == first
            assert again.ledger.head() == before
            outside.owner = again
            again.mail.hear(outside.receipt(first, agreed.rows_per_owner))
            assert outside.run.state == "closed"
            assert heard(again, letter) == first

    def test_no_row_leaves_without_an_approval(self, tmp_path: Path) -> None:
        with opened(make_owner(tmp_path)) as owner:
            run = invite(owner, terms())
            assert (run.state, run.acceptance) == ("waiting", b"")
            assert owner.home.run_key(run.digest) is None  # nobody can seal a letter to this home

    def test_more_rows_than_the_terms_say_never_leave(self, owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("likeset.homes.mail.rows_in", lambda replies: 1 + rows_in(replies))
        with pytest.raises(IllegalMessage, match="more rows would leave"):
            owner.mail.hear(Outside(owner, TERMS).release())
        assert rows_left(owner) == 0

    def test_noise_is_not_drawn_in_the_transaction_of_its_charge(
        self, owner: Owner, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def with_noise(_run: Run, _playing: object, step: Step) -> Step:
            assert step.charge is not None
            return replace(step, charge=replace(step.charge, repeatable=False))

        monkeypatch.setattr(owner.mail, "_draw_noise", with_noise)
        with pytest.raises(ChargeRefused, match="noise after a keyed draw"):
            owner.mail.hear(Outside(owner, TERMS).release())
        assert rows_left(owner) == 0

    def test_a_run_does_not_continue_with_other_data(self, tmp_path: Path) -> None:
        agreed = terms(protocol="interactive", size=3)
        folder = make_owner(tmp_path, accept_unproven=["unbounded"])
        script = approved_script(folder, agreed)
        with opened(folder) as owner:
            owner.mail.hear(script[0])
        source = tmp_path / "a.csv"
        source.write_text(source.read_text().replace("300.4242", "301.4242"))
        with opened(folder) as owner, pytest.raises(DataChanged, match="changed since the run began"):
            owner.mail.hear(script[1])

    def test_a_party_whose_step_is_not_on_record_is_rebuilt(
        self, owner: Owner, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        letter = Outside(owner, TERMS).release()

        def full(*_: object) -> None:
            raise LedgerUnavailable("the disk is full")

        monkeypatch.setattr(owner, "after", full)
        with pytest.raises(LedgerUnavailable):
            owner.mail.hear(letter)
        monkeypatch.undo()
        assert rows_left(owner) == 0
        assert len(heard(owner, letter)) == 1
        assert rows_left(owner) == TERMS.rows_per_owner

    @pytest.mark.parametrize(("purged", "reason"), [(False, "different bytes"), (True, "purged")])
    def test_a_replay_that_lacks_an_answer_or_gives_another_is_refused(
        self, tmp_path: Path, *, purged: bool, reason: str
    ) -> None:
        agreed = terms(protocol="interactive", size=3)
        folder = make_owner(tmp_path, accept_unproven=["unbounded"])
        script = approved_script(folder, agreed)
        with opened(folder) as owner:
            for letter in script[:3]:
                owner.mail.hear(letter)
            if purged:
                owner.ledger.purge(run="run-1")
            else:
                with owner.home.deciding() as t:
                    t.connection.execute("UPDATE letters SET content = zeroblob(32) WHERE way = 'out' AND kind = 'bid'")
        with opened(folder) as owner, pytest.raises(IllegalMessage, match=reason):
            owner.mail.hear(script[3])

    def test_an_answered_run_keeps_no_copy_of_its_table(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = make_owner(tmp_path)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        lines = [line.split(",") for line in (tmp_path / "a.csv").read_text().splitlines()]
        with closing(sqlite3.connect(tmp_path / "table.db")) as database, database:
            database.execute("CREATE TABLE t (age REAL, dose REAL, sex TEXT, ill TEXT)")
            database.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", lines[1:])
        source = folder / "data" / "patients" / "source.yaml"
        documents.write(source, {"likeset": "data", "version": 1, "source": f"sqlite:{tmp_path}/table.db?table=t"})
        with opened(folder) as owner:
            agreed = terms()
            approve(owner, agreed)
            outside = Outside(owner, agreed)
            assert len(heard(owner, outside.release())) == 1
            assert outside.run.state == "answered"
            assert not list(tmp_path.glob("likeset-*"))


class TestRefusing:
    """What is refused costs nothing, is in the log with its reason, and stays refused."""

    def refused(self, owner: Owner, letter: bytes) -> str:
        before = charged(owner)
        with pytest.raises(LikesetError) as caught:
            owner.mail.hear(letter)
        assert charged(owner) == before
        return str(caught.value)

    def test_a_release_of_the_curator(self, owner: Owner, outside: Outside) -> None:
        owner.mail.hear(outside.release())
        message = replace(release_to(terms()), sender=CURATOR)
        assert "expected" in self.refused(owner, outside.letter(message)) or logged(owner.home, "refused")
        assert len(logged(owner.home, "refused")) == 1

    def test_a_curator_whom_the_consumer_did_not_introduce_is_not_heard(self, owner: Owner, outside: Outside) -> None:
        with pytest.raises(TryLater, match="not introduced"):
            owner.mail.hear(outside.ask(2))
        assert not logged(owner.home, "refused")

    def test_a_message_that_its_letter_does_not_name(self, owner: Owner, outside: Outside) -> None:
        for name, value in {"receiver": "b", "run": "run-2", "terms": "0" * 64, "sender": CURATOR}.items():
            message = replace(release_to(terms()), **{name: value})  # type: ignore[arg-type]
            letter = outside.letter(message, writer=CONSUMER, enclosures=(outside.acceptance(CURATOR),))
            assert "is not the one that its letter names" in self.refused(owner, letter)
            assert (outside.run.state, "not the one" in outside.run.reason) == ("stopped", True)
        assert "stopped here" in self.refused(owner, outside.release()), "a refusal is final for the whole run"
        owner.withdraw("run-1", by="Ada")
        assert outside.run.state == "cancelled"

    def test_a_letter_of_another_run_or_recipient(self, owner: Owner, outside: Outside) -> None:
        other = outside.letter(release_to(terms()), terms=bytes(32))
        with pytest.raises(TryLater):
            owner.mail.hear(other)
        for_b = Outside(owner, terms()).letter(release_to(terms()), recipient=secret_of("b").card)
        with pytest.raises(LetterRefused):
            owner.mail.hear(for_b)

    def test_a_changed_byte(self, owner: Owner, outside: Outside) -> None:
        letter = bytearray(outside.release())
        letter[-1] ^= 1
        with pytest.raises(LetterRefused):
            owner.mail.hear(bytes(letter))
        letter[-1] ^= 1
        assert heard(owner, bytes(letter))

    def test_an_acceptance_by_another_card_or_for_other_terms(self, owner: Owner) -> None:
        """The owner would seal its rows to the key of the card that signed."""
        outside = Outside(owner, terms())
        by_another = outside.acceptance_by(secret_of("c"), "curator", CURATOR)
        for enclosed in (by_another, Outside(owner, terms(size=5)).acceptance(CURATOR)):
            letter = outside.letter(release_to(terms()), enclosures=(enclosed,))
            assert "an enclosed acceptance does not hold" in self.refused(owner, letter)

    def test_only_the_consumer_introduces(self, owner: Owner, outside: Outside) -> None:
        owner.mail.hear(outside.release())
        message = Message("run-1", terms().digest, CURATOR, "a", 2, Asked(asked=True))
        letter = outside.letter(message, enclosures=(outside.acceptance("b"),))
        assert "with enclosures" in self.refused(owner, letter)

    def test_another_letter_under_the_number_of_one_that_was_heard(self, owner: Owner, outside: Outside) -> None:
        first = outside.release()
        answers = heard(owner, first)
        again = Outside(owner, terms()).release(release_to(terms(), values=np.zeros(16)))
        assert "another letter" in self.refused(owner, again)
        assert heard(owner, first) == answers

    def test_the_same_words_under_another_number(self, owner: Owner, outside: Outside) -> None:
        owner.mail.hear(outside.release())
        assert "repeats" in self.refused(owner, outside.release())

    def test_a_second_release(self, owner: Owner, outside: Outside) -> None:
        owner.mail.hear(outside.release())
        other = outside.letter(release_to(terms(), values=np.zeros(16)))
        self.refused(owner, other)
        assert rows_left(owner) == terms().rows_per_owner

    def test_a_letter_whose_number_skips_one_waits(self, owner: Owner, outside: Outside) -> None:
        first, second = outside.release(), outside.letter(release_to(terms(), values=np.zeros(16)))
        with pytest.raises(TryLater):
            owner.mail.hear(second)
        assert heard(owner, first)

    def test_a_release_of_another_shape(self, owner: Owner, outside: Outside) -> None:
        letter = outside.release(replace(release_to(terms()), body=TargetRelease(release=np.zeros(3))))
        assert "shape" in self.refused(owner, letter)

    def test_a_refusal_stays_although_the_limit_is_raised(self, tmp_path: Path) -> None:
        folder, agreed = make_owner(tmp_path), terms()
        with opened(folder) as owner:
            approve(owner, agreed)
            write_policy(folder, per_run={"epsilon": 0, "delta": 1e-5, "rows": 3})
            outside = Outside(owner, agreed)
            letter = outside.release()
            assert "rows that leave: " in self.refused(owner, letter)
            said = [owner.mail.data_of(row) for row in owner.mail.claim(outside.run) if row.post == "participation"]
            assert said == [b"leaves 0"], "the consumer hears no reason"
            write_policy(folder)
            assert "refused before" in self.refused(owner, letter)
        with opened(folder) as owner:
            assert "refused before" in self.refused(owner, letter)
            assert rows_left(owner) == 0

    def test_limits_are_checked_before_a_row_is_read(self, tmp_path: Path) -> None:
        folder, agreed = make_owner(tmp_path), terms()
        with opened(folder) as owner:
            approve(owner, agreed)
            write_policy(folder, total={"epsilon": 0, "delta": 1e-5, "rows": 3})
            (tmp_path / "a.csv").unlink()
            assert "over all runs" in self.refused(owner, Outside(owner, agreed).release())


class TestDeciding:
    @pytest.mark.parametrize("claimed", [False, True])
    def test_a_withdrawal_keeps_an_answer_that_was_not_posted_from_leaving(
        self, owner: Owner, outside: Outside, *, claimed: bool
    ) -> None:
        """Or that the process that died was about to post: then it counts as sent."""
        owner.mail.hear(outside.release())
        assert not claimed or "offer" in [row.kind for row in owner.mail.claim(outside.run)]
        owner.withdraw("run-1", by="Ada")
        (offer,) = [row for row in owner.mail.letters(outside.run) if row.kind == "offer"]
        assert claimed or offer.state == "withheld"
        assert "offer" not in [row.kind for row in owner.mail.claim(outside.run)]
        assert review.rows_sent(review.out_rows(owner, owner.run("run-1"))) == (TERMS.rows_per_owner if claimed else 0)
        assert rows_left(owner) == TERMS.rows_per_owner  # charged all the same

    @pytest.mark.parametrize("by_another", [False, True])
    def test_an_approval_withdrawn_while_the_reply_is_made(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, by_another: bool
    ) -> None:
        """If another process answered the letter before the withdrawal, it was not refused."""
        folder, agreed = make_owner(tmp_path), terms()
        with opened(folder) as owner, opened(folder) as steward:
            approve(owner, agreed)
            letter, drawn = Outside(owner, agreed).release(), owner.mail._draw_noise

            def draw(*arguments: object) -> object:
                step = drawn(*arguments)  # type: ignore[arg-type]
                if by_another:
                    steward.mail.hear(letter)
                steward.withdraw("run-1", by="Ada")
                return step

            monkeypatch.setattr(owner.mail, "_draw_noise", draw)
            with nullcontext() if by_another else pytest.raises(IllegalMessage, match="cancelled"):
                owner.mail.hear(letter)
            assert rows_left(owner) == by_another * agreed.rows_per_owner
            assert len(logged(owner.home, "sent")) == by_another
            assert len(logged(owner.home, "refused")) == (not by_another)

    @pytest.mark.parametrize("revoked", [CURATOR, CONSUMER])
    def test_a_revoked_card_ends_a_run_under_way(self, tmp_path: Path, revoked: str) -> None:
        """The next letter is the curator's: the card of the consumer counts although it did not write."""
        agreed = terms(protocol="interactive", size=3)
        with opened(make_owner(tmp_path, accept_unproven=["unbounded"])) as owner:
            approve(owner, agreed)
            script = list(Outside(owner, agreed).script())
            owner.mail.hear(script[0])
            owner.home.pins.revoke(revoked, "keys stolen")
            with pytest.raises(IllegalMessage, match="revoked"):
                owner.mail.hear(script[1])

    def test_every_state_is_reached_by_the_table_only(self, tmp_path: Path) -> None:
        with opened(make_owner(tmp_path)) as owner:
            run = invite(owner, terms())
            for state in MOVES:
                if state not in MOVES[State.WAITING] and state != State.WAITING:
                    with pytest.raises(IllegalMessage, match="cannot become"), owner.home.deciding() as t:
                        owner.mail.change(t, run, state=state)
            assert owner.mail.reload(run).state == "waiting"


class TestTheEnd:
    def test_keys_and_sealed_bytes_are_deleted_when_the_terms_end(self, tmp_path: Path) -> None:
        clock, agreed = Clock(), terms()
        folder = make_owner(tmp_path)
        with opened(folder, clock=clock) as owner:
            outside, (letter,) = answered(owner, agreed)
            owner.mail.hear(outside.receipt([letter], agreed.rows_per_owner))
            clock.now = NOON + timedelta(days=900)
            owner.mail.tick()
            assert owner.home.run_key(outside.run.digest) is None
            rows = owner.mail.letters(outside.run)
            left = {row.kind for row in rows if owner.mail.data_of(row) is not None}
            assert left == {"receipt"}
            assert all(row.letter for row in rows if row.way == "out" and row.post == "letter")  # digests stay
            assert owner.mail.receipt(outside.run) is not None
            sealed = letter_in(letter, most_bytes=len(letter)).ciphertext
            for path in folder.glob("home.sqlite*"):  # the write-ahead log, too
                assert bytes(sealed)[:64] not in path.read_bytes()

    def test_a_letter_that_was_not_posted_when_the_terms_end_is_never_told_as_sent(self, tmp_path: Path) -> None:
        clock, agreed = Clock(), terms()
        with opened(make_owner(tmp_path), clock=clock) as owner:
            approve(owner, agreed)
            outside = Outside(owner, agreed)
            heard(owner, outside.release())
            clock.now = NOON + timedelta(days=900)
            owner.mail.tick()
            (offer,) = [row for row in owner.mail.letters(outside.run) if row.kind == "offer"]
            assert (offer.state, owner.mail.data_of(offer)) == ("withheld", None)
            assert [entry["rows"] for entry in logged(owner.home, "withheld")] == [offer.rows]

    def test_a_run_that_never_began_takes_no_answer_from_another_of_its_name(self, tmp_path: Path) -> None:
        """In a home with several roles, where the owner's terms can no longer be read."""
        clock = Clock()
        with opened(make_owner(tmp_path), clock=clock) as owner:
            run = invite(owner, terms())
            other = Charge(((View.owners(owner.name), NoRelease()),))
            with owner.home.deciding() as t:
                t.answer(other, b"a draw", None, request=Request(run.name, 1, "other"))
                t.connection.execute("UPDATE runs SET signed = ?", (signed_text("{}"),))
            clock.now = NOON + timedelta(days=900)
            owner.mail.tick()
            assert [message.message for message in owner.ledger.messages(run=run.name)] == [b"a draw"]

    def test_a_letter_that_comes_after_the_end_is_not_answered(self, tmp_path: Path) -> None:
        clock = Clock()
        with opened(make_owner(tmp_path), clock=clock) as owner:
            approve(owner, terms())
            letter = Outside(owner, terms()).release()
            clock.now = NOON + timedelta(days=900)
            with pytest.raises(TermsExpired):
                owner.mail.hear(letter)
            assert rows_left(owner) == 0


class TestReceipts:
    def test_a_receipt_is_kept_and_closes_the_run(self, owner: Owner) -> None:
        outside, (letter,) = answer(owner, TERMS)
        receipt = outside.receipt([letter], TERMS.rows_per_owner)
        assert heard(owner, receipt) == ()
        kept = owner.mail.receipt(outside.run)
        assert kept is not None
        assert (kept.rows, kept.letters) == (TERMS.rows_per_owner, (letter_in(letter, most_bytes=1 << 28).digest,))
        assert outside.run.state == "closed"
        assert heard(owner, receipt) == ()
        with pytest.raises(IllegalMessage, match="a second receipt"):
            owner.mail.hear(outside.receipt([letter], TERMS.rows_per_owner))
        assert len(logged(owner.home, "acknowledged")) == 1

    def test_a_receipt_comes_after_a_withdrawal_too(self, owner: Owner) -> None:
        outside, (letter,) = answer(owner, TERMS)
        owner.withdraw("run-1", by="Ada")
        owner.mail.hear(outside.receipt([letter], TERMS.rows_per_owner))
        assert owner.mail.receipt(outside.run) is not None

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"owner": "b"}, "another run or owner"),
            ({"terms": bytes(32)}, "another run or owner"),
            ({"foreign": True}, "other letters or rows"),
            ({"rows": 3}, "other letters or rows"),
            ({"signer": CONSUMER}, "without a receipt"),
            ({"signer": "b", "writer": CURATOR}, "another card"),
            ({"rows": 11, "said": 12}, "receipt"),
        ],
    )
    def test_a_receipt_that_does_not_hold_is_refused(self, owner: Owner, change: dict[str, Any], reason: str) -> None:
        outside, (letter,) = answer(owner, TERMS)
        words = {"rows": TERMS.rows_per_owner, **change}
        letters = [outside.release() if words.pop("foreign", False) else letter]
        with pytest.raises(LikesetError, match=reason):
            owner.mail.hear(outside.receipt(letters, **words))
        assert owner.mail.receipt(outside.run) is None


class TestHomes:
    def test_a_restored_home_answers_nothing(self, owner: Owner) -> None:
        with pytest.raises(HomeRestored):
            owner.home.stop("an unknown letter of this home")
        with pytest.raises(HomeRestored):
            owner.mail.hear(Outside(owner, TERMS).release())
        with pytest.raises(HomeRestored):
            owner.approve("run-1", TERMS.digest, by="Ada")

    def test_terms_without_an_end_are_not_taken(self, tmp_path: Path) -> None:
        """The key of their run would never be deleted."""
        with opened(make_owner(tmp_path)) as owner:
            with pytest.raises(LikesetError, match=r"^expires"):
                invite(owner, terms(expires=""))
            assert owner.mail.runs() == []

    def test_of_a_stranger_only_the_fingerprint_is_logged(self, tmp_path: Path) -> None:
        with opened(make_owner(tmp_path)) as owner:
            with pytest.raises(IllegalMessage, match="not pinned") as caught:
                owner.mail.invited(signed_terms(terms()))
            assert secret_of(CONSUMER).card.fingerprint in str(caught.value)
            assert owner.mail.runs() == []

    def test_a_run_key_is_made_while_no_other_process_can_write(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder, agreed = make_owner(tmp_path), terms()
        with opened(folder) as owner, Ledger(folder / "home.sqlite", patience=0.0) as other:
            make, excluded = owner.home.make_run_key, []

            def made(*words: Any) -> Any:
                with pytest.raises(LedgerUnavailable):  # two keys would replace one another
                    other.append("reviewed", "", {})
                excluded.append(True)
                return make(*words)

            monkeypatch.setattr(owner.home, "make_run_key", made)
            approve(owner, agreed)
            assert excluded
