"""Homes at a mailbox: whole runs, deadlines, files that are lost, forged, repeated or in the wrong place."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from home_world import (
    CONSUMER,
    NOON,
    Network,
    cards_of,
    logged,
    pin,
    run_key_of,
    secret_of,
    signed_terms,
    signed_text,
    terms,
)

from likeset.errors import (
    HomeRestored,
    InvalidArgument,
    LikesetError,
    MailboxTrouble,
    PostTrouble,
    TryLater,
    UnfinishedRequest,
)
from likeset.homes import review
from likeset.homes.consumer import Consumer
from likeset.homes.home import Home, make_party
from likeset.homes.mail import Decision
from likeset.homes.runs import Run
from likeset.protocol import interactive, sealed
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Budget, Terms
from likeset.transports import stores, sync
from likeset.transports.stores import DirectoryStore
from likeset.transports.sync import Sync, Synced, opened_syncs, serve, sync_once
from likeset.trust.cards import CardSecret
from likeset.trust.letters import Post, SignedTerms, file_name, pair_of, size_of_post

_UNPROVEN = {"accept_unproven": ["unbounded"], "total": {"epsilon": 99, "delta": 1e-4, "rows": 999}}
_UNPROVEN |= {"per_run": {"epsilon": 99, "delta": 1e-4, "rows": 999}}
POLICIES = {"a": _UNPROVEN, "b": _UNPROVEN}
AUCTION: dict[str, Any] = {
    "auction": "threshold",
    "auction_epsilon": 1.0,
    "owner_budget": Budget(9.0, 1e-5),
    "auction_offset": 5,
}
ROUNDS: dict[str, Any] = {"protocol": "interactive", "size": 3}


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    with Network(tmp_path) as made:
        yield made


def box(network: Network) -> list[Path]:
    return sorted(path for path in (network.place / "mailbox").rglob("*") if path.is_file())


def outgoing(network: Network, writer: str, reader: str) -> Path:
    pair = pair_of(secret_of(writer), secret_of(reader).card)
    return network.place / "mailbox" / pair.outgoing.folder


def leave(network: Network, writer: str, reader: str, post: Post) -> None:
    data, folder = (
        pair_of(secret_of(writer), secret_of(reader).card).outgoing.wrap(post),
        outgoing(network, writer, reader),
    )
    folder.mkdir(exist_ok=True)
    (folder / file_name(data)).write_bytes(data)


def _off_by(compute: Callable[..., Any], process: int, *arguments: Any, **named: Any) -> Any:
    computed = compute(*arguments, **named)
    if isinstance(computed, sealed.Weighing):
        return replace(computed, misfit=computed.misfit * (1.0 + 1e-12 * process))
    return computed + np.float32(process % 2)  # one step of the lattice


class TestWholeRuns:
    @pytest.mark.parametrize("changes", [{}, AUCTION, ROUNDS], ids=["sealed", "auction", "interactive"])
    def test_a_run_ends_with_a_summary_and_receipts(self, tmp_path: Path, changes: dict[str, Any]) -> None:
        with Network(tmp_path, policies=POLICIES) as network:
            agreed = terms(**changes)
            run = network.held(agreed)
            if changes is AUCTION:
                assert network.sync(CURATOR).mail.runs()[0].state == "answered"
                assert network.owner("a").mail.receipt(network.owner("a").mail.runs()[0]) is None, "receipts wait"
                network.clock.now += timedelta(hours=100)
                network.settle()
            assert (run.state, run.ended) == ("closed", "done"), network.consumer.progress(run)
            summary = network.consumer.folder("run-1").summary(agreed)
            assert 0 < len(summary.rows) <= agreed.size
            for name in network.owners:
                owner = network.owner(name)
                (mine,) = owner.mail.runs()
                sent = sum(row.rows for row in owner.mail.letters(mine) if row.way == "out")
                receipt = owner.mail.receipt(mine)
                assert receipt is not None
                assert receipt.rows == sent
                assert owner.ledger.verify().ok

    @pytest.mark.parametrize("changes", [AUCTION, ROUNDS], ids=["auction", "rounds"])
    def test_a_run_ends_although_each_process_computes_other_last_bits(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
    ) -> None:
        """As other processors do: what was said before is said again, and what follows from it fits."""
        processes = count(1)
        with Network(tmp_path, policies=POLICIES) as network:
            run = network.approved(terms(**changes))
            for _ in range(12):
                for name in ("a", "b", CONSUMER, CURATOR):
                    network.drop()
                    with monkeypatch.context() as patched:
                        patched.setattr(sealed, "weigh", partial(_off_by, sealed.weigh, next(processes)))
                        lattice = interactive.features_on_lattice
                        patched.setattr(interactive, "features_on_lattice", partial(_off_by, lattice, next(processes)))
                        network.turn(name)
                if network.consumer.mail.reload(run).state == "closed":
                    break
            summary = network.consumer.folder(run.name).summary(run.terms)
            assert not summary.flagged.size
            assert not summary.absent.size
            assert len(summary.rows) == run.terms.size or changes is AUCTION
            assert {network.owner(name).run(run.name).state for name in ("a", "b")} <= {"answered", "closed"}

    def test_nothing_is_left_in_the_mailbox_after_the_terms_end(self, network: Network) -> None:
        network.held(terms())
        assert box(network)
        network.clock.now = NOON + timedelta(days=900)
        network.turn()
        assert box(network) == []
        mail = network.sync(CURATOR).mail
        came = [row for row in mail.letters(mail.runs()[0]) if row.way == "in"]
        assert not any(row.content for row in came), "digests of few possible contents could be tried"
        assert not list(network.place.glob("*/keys/*"))

    def test_a_quiet_look_lists_each_folder_and_writes_nothing(
        self, network: Network, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        network.held(terms())
        network.settle()
        home = network.sync("a").home
        before, writes = home.database.head(), []
        monkeypatch.setattr(type(network.sync("a").store), "write", lambda *_a, **_k: writes.append(1))
        look = network.sync("a").once()
        assert (look.taken, look.sent, writes) == (0, 0, [])
        assert home.database.head() == before

    def test_closed_runs_cost_a_quiet_look_nothing(self, network: Network) -> None:
        """Not one call of a function, in homes of all roles; and all their files are found."""
        network.held(terms())
        network.settle()

        def calls(name: str) -> int:
            count = 0

            def note(_frame: object, event: str, _: object) -> None:
                nonlocal count
                count += event == "call"

            sys.setprofile(note)
            try:
                network.turn(name)
            finally:
                sys.setprofile(None)
            return count

        for name in (CONSUMER, CURATOR, "a"):
            network.turn(name)
            before, database = calls(name), network.sync(name).home.database
            assert before == calls(name)
            columns = ", ".join(column.name for column in fields(Run)[:-1])
            other = columns.replace("digest", "randomblob(32)", 1).replace(" name", " name || value", 1)
            many = "WITH RECURSIVE many(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM many LIMIT 300) "
            with database.deciding() as t:
                t.connection.execute(f"{many} INSERT INTO runs ({columns}) SELECT {other} FROM runs, many")  # noqa: S608
            assert len(network.sync(name).mail.runs()) == 301
            assert calls(name) == before


class TestDeciding:
    def test_terms_wait_for_a_decision_and_the_consumer_sees_who_decides(self, network: Network) -> None:
        agreed = terms()
        run = network.ask(agreed)
        network.settle()
        stands = network.consumer.progress(run).parties
        assert {name: str(state) for name, state in stands.items()} == {
            "curator": "takes part",
            "a": "decides",
            "b": "decides",
        }
        assert "waiting for answers" in network.consumer.progress(run).headline

    @pytest.mark.parametrize("quorum", [1, 2])
    def test_a_denial_is_told_and_not_waited_for(self, network: Network, quorum: int) -> None:
        """If too few owners are left, the run ends before anything is charged."""
        agreed = terms(quorum=quorum)
        run = network.ask(agreed)
        network.settle()
        network.owner("b").deny("run-1", by="Ada", reason="no contract")
        network.approve(agreed, "a")
        network.settle()
        progress = network.consumer.progress(run)
        assert progress.ended == ("done" if quorum == 1 else "quorum missed")
        assert progress.unanswered == {"b": "abstains"}
        assert not any(b"no contract" in path.read_bytes() for path in box(network))
        charged = any(entry.kind == "reserve" for entry in network.consumer.home.database.entries())
        assert charged == (quorum == 1)

    def test_a_withdrawal_before_the_run_begins_is_told_and_not_waited_for(self, network: Network) -> None:
        agreed = terms(quorum=2)
        run = network.ask(agreed)
        network.settle()
        network.approve(agreed, "b")
        network.settle()
        with pytest.raises(InvalidArgument, match="owner withdraw"):
            network.owner("b").deny("run-1", by="Ada", reason="no contract")
        network.owner("b").withdraw("run-1", by="Ada")
        network.settle()
        assert network.consumer.progress(run).stands("b") == "does not take part"
        network.approve(agreed, "a")
        network.settle()
        assert network.consumer.progress(run).ended == "quorum missed"

    def test_an_older_word_that_the_mailbox_shows_after_an_acceptance_counts_no_more(self, network: Network) -> None:
        agreed = terms(quorum=2)
        run = network.ask(agreed)
        network.settle()
        network.owner("a").deny(agreed.run, by="Ada", reason="no contract")
        network.turn("a")
        folder = outgoing(network, "a", CONSUMER)
        words = {path: path.read_bytes() for path in folder.iterdir()}
        network.approve(agreed, "a")
        network.turn("a", CONSUMER)
        assert network.consumer.progress(run).stands("a") == "takes part"
        for path, data in words.items():
            path.write_bytes(data)
        network.turn(CONSUMER)
        assert network.consumer.progress(run).stands("a") == "takes part"
        network.approve(agreed, "b")
        network.settle()
        assert network.consumer.progress(run).done

    def test_a_word_that_is_said_again_is_heard_again(self, network: Network) -> None:
        """It denies, which is heard, approves, and withdraws: the run need not wait for it."""
        agreed = terms(quorum=2)
        run = network.ask(agreed)
        network.settle()
        network.owner("a").deny(agreed.run, by="Ada", reason="no contract")
        network.turn("a", CONSUMER)
        assert network.consumer.progress(run).stands("a") == "does not take part"
        network.approve(agreed, "a")
        network.turn("a", CONSUMER)
        assert network.consumer.progress(run).stands("a") == "takes part"
        network.owner("a").withdraw(agreed.run, by="Ada")
        network.turn("a", CONSUMER)
        assert network.consumer.progress(run).stands("a") == "does not take part"

    @pytest.mark.parametrize(
        "word", [b"abstains", b"leaves", b"leaves -1", b"leaves 01", b"leaves 1 ", b"leaves " + b"9" * 19]
    )
    def test_a_word_without_its_number_is_refused(self, network: Network, word: bytes) -> None:
        run = network.ask(terms())
        network.settle()
        leave(network, "a", CONSUMER, Post("participation", run.digest, word))
        assert network.turn(CONSUMER).refused == 1
        assert network.consumer.progress(run).stands("a") == "decides"

    def test_words_that_come_in_another_order_count_by_their_numbers(self, network: Network) -> None:
        """Even a word after the acceptance that comes before it."""
        run = network.ask(terms())
        network.turn(CONSUMER, CURATOR)
        leave(network, "b", CONSUMER, Post("participation", run.digest, b"leaves 2"))
        for number, word in ((2, "waiting"), (1, "abstains")):
            leave(network, "a", CONSUMER, Post("participation", run.digest, f"{word} {number}".encode()))
            network.turn(CONSUMER)
        assert network.consumer.progress(run).stands("a") == "decides"
        network.turn("a", "b")
        network.approve(terms(), "b")
        network.turn("b", CONSUMER)
        assert network.consumer.progress(run).stands("b") == "does not take part"

    def test_the_curator_says_what_it_lacks_and_can_make_it_good(self, network: Network) -> None:
        schemas = network.place / CURATOR / "schemas"
        shutil.move(schemas, network.place / "aside")
        agreed = terms()
        run = network.ask(agreed)
        network.settle()
        progress = network.consumer.progress(run)
        assert "does not know the schema" in progress.detail
        shutil.move(network.place / "aside", schemas)
        network.approve(agreed)
        network.settle()
        assert network.consumer.progress(run).done

    def test_a_curator_whose_schema_was_edited_takes_no_part_and_no_row_leaves(self, network: Network) -> None:
        (schema,) = (network.place / CURATOR / "schemas").iterdir()
        schema.write_text(schema.read_text(encoding="utf-8").replace("[0, 120]", "[0, 121]"), encoding="utf-8")
        run = network.ask(terms())
        network.settle()
        network.approve(terms())
        network.settle()
        assert "is not what it was" in network.consumer.progress(run).detail
        assert not network.consumer.progress(run).began


class TestDeadlines:
    @pytest.mark.parametrize("last_day", [False, True])
    def test_a_silent_owner_is_given_up_after_the_curators_patience(self, network: Network, *, last_day: bool) -> None:
        """On the last day of the terms at once."""
        agreed = terms()
        run = network.approved(agreed)
        network.turn("a", "b", CONSUMER, CURATOR, "a", CURATOR)
        network.turn(CONSUMER)
        progress = network.consumer.progress(run)
        assert progress.waited_for == ("b",)
        assert progress.until is not None
        patience = progress.until + timedelta(minutes=1)
        network.clock.now = datetime(2029, 12, 31, 12, tzinfo=UTC) if last_day else patience
        network.turn(CURATOR, CONSUMER, "a")
        assert network.consumer.progress(run).done
        assert network.owner("a").mail.receipt(network.owner("a").mail.runs()[0]) is not None
        network.turn("b", CURATOR)  # its late answer is not used
        assert len(network.consumer.folder("run-1").summary(agreed).absent) == 1

    def test_terms_that_end_before_the_run_begins_cost_nothing(self, network: Network) -> None:
        run = network.ask(terms())
        network.settle()
        network.clock.now = NOON + timedelta(days=900)
        network.turn()
        assert network.consumer.progress(run).ended == "terms expired"
        for name in (CONSUMER, CURATOR, *network.owners):
            assert network.sync(name).mail.runs()[-1].state == "expired"
        assert box(network) == []

    def test_an_owner_that_abstains_in_the_middle_is_not_waited_for(self, network: Network) -> None:
        agreed = terms()
        network.approved(agreed)
        network.turn("a", "b", CONSUMER)
        network.owner("b").withdraw("run-1", by="Ada")
        network.settle()
        assert network.consumer.run("run-1").state == "closed"
        assert len(network.consumer.folder("run-1").summary(agreed).absent) == 1
        assert network.turn("b").left == 0, "a receipt of a curator of which b never heard"


class TestFiles:
    def test_a_removed_file_is_put_back_and_named(self, network: Network) -> None:
        run = network.ask(terms())
        network.turn(CONSUMER)
        for path in box(network):
            path.unlink()
        look = network.turn(CONSUMER)
        assert look.put_back == 3
        assert any("put back" in note for note in look.notes)
        network.settle()
        network.approve(terms())
        network.settle()
        assert network.consumer.progress(run).done

    def test_a_removed_file_of_a_run_that_is_over_is_put_back_by_the_next_process(self, network: Network) -> None:
        network.held(terms())
        network.settle()
        receipts = outgoing(network, CURATOR, "a")
        shutil.rmtree(receipts)
        assert network.turn(CURATOR).put_back == 0
        network.drop()
        assert network.turn(CURATOR).put_back == 1
        assert len(list(receipts.iterdir())) == 1

    def test_an_offer_that_somebody_removed_does_not_leave_again_after_a_withdrawal(self, network: Network) -> None:
        agreed = terms()
        network.approved(agreed)
        for name in ("a", "b", CURATOR, CONSUMER, "a"):
            network.turn(name)
        folder = outgoing(network, "a", CURATOR)
        (offer,) = folder.iterdir()
        offer.unlink()  # before the curator has seen it
        network.owner("a").withdraw(agreed.run, by="Ada")
        assert network.turn("a").put_back == 0
        assert not offer.exists()
        sent = review.rows_sent(review.out_rows(network.owner("a"), network.owner("a").run(agreed.run)))
        assert sent == agreed.rows_per_owner, "somebody may have read it before"

    def test_a_bad_folder_keeps_no_other_from_its_letters(
        self, network: Network, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Neither from being put back nor from being read."""
        network.ask(terms())
        network.turn(CONSUMER)
        for path in box(network):
            path.unlink()
        store, bad = network.sync(CONSUMER).store, {outgoing(network, CONSUMER, "b").name}
        network.sync("a")

        def broken(work: Callable[..., Any], folder: str, *words: Any) -> Any:
            if folder in bad:
                raise PostTrouble(store.address, "it is broken")
            return work(folder, *words)

        for name in ("list", "write"):
            monkeypatch.setattr(store, name, partial(broken, getattr(store, name)))
        assert network.turn(CONSUMER).put_back == 2
        bad.add(outgoing(network, CURATOR, "a").name)
        assert network.turn("a").taken == 1

    def test_a_document_that_is_taken_back_while_its_file_is_written_is_removed(self, network: Network) -> None:
        run = network.ask(terms())
        mail, store = network.sync(CONSUMER).mail, network.sync(CONSUMER).store
        write, taken_back = store.write, list[bool]()

        def cancel_first(folder: str, name: str, data: bytes) -> None:
            if not taken_back:
                taken_back.append(True)
                network.consumer.cancel(mail.reload(run))
            write(folder, name, data)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store, "write", cancel_first)
            network.turn(CONSUMER)
        network.turn(CONSUMER)
        assert len(box(network)) == len(network.owners)  # an ending for each, since its terms may have been there
        network.turn("a", "b")
        assert network.owner("a").mail.runs() == network.owner("b").mail.runs() == []

    def test_documents_in_a_run_that_is_over_leave_no_rows(
        self, network: Network, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sync, "_MOST_GONE", 0)
        run = network.held(terms())
        mail = network.sync("a").mail
        before = mail.letters(mail.runs()[0])
        for number in range(3):
            leave(network, CONSUMER, "a", Post("ending", run.digest, b"junk %d" % number))
        assert network.turn("a").taken == 3
        shutil.rmtree(outgoing(network, CONSUMER, "a"))
        leave(network, CONSUMER, "a", Post("participation", run.digest, b"abstains"))
        network.turn("a")
        assert mail.letters(mail.runs()[0]) == before
        assert list(mail.files(outgoing(network, CONSUMER, "a").name).values()).count("read") == 1

    def test_a_flood_of_files_that_say_nothing_new_leaves_no_rows(
        self, network: Network, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Endings of unknown terms, a letter that was heard, terms that are known."""
        monkeypatch.setattr(sync, "_MOST_GONE", 0)
        agreed = terms()
        network.held(agreed)
        mail, folder = network.sync("a").mail, outgoing(network, CONSUMER, "a")
        (letter,) = [row for row in mail.letters(mail.runs()[0]) if row.way == "in" and row.peer == CONSUMER]
        before = mail.files(folder.name).keys() - {path.name for path in folder.iterdir()}
        other_key = SignedTerms(
            agreed.to_json(), secret_of(CONSUMER).card, run_key_of("other", agreed.run_id).public, (7,)
        )
        for number in range(3):
            leave(network, CONSUMER, "a", Post("ending", bytes([number] * 32), b"junk"))
            leave(network, CONSUMER, "a", Post("letter", bytes([number] * 32), mail.data_of(letter) or b""))
        known = other_key.signed_by(secret_of(CONSUMER)).to_bytes()
        leave(network, CONSUMER, "a", Post("terms", bytes.fromhex(agreed.digest), known))
        assert network.turn("a").taken == 7
        shutil.rmtree(folder)
        network.turn("a")
        assert mail.files(folder.name).keys() == before | {letter.name}

    def test_a_flood_of_files_in_a_homes_own_folder_leaves_no_rows(
        self, network: Network, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Who keeps the mailbox, or the other of the two, can write there."""
        monkeypatch.setattr(sync, "_MOST_GONE", 0)
        network.approved(terms())
        for name in ("a", "b", CURATOR, CONSUMER, "a"):
            network.turn(name)
        folder, files = outgoing(network, "a", CURATOR), network.sync("a").mail.files
        before, known = set(folder.iterdir()), files(folder.name)
        for number in range(3):
            leave(network, "a", CURATOR, Post("participation", bytes([number] * 32), b"waiting"))
        network.turn("a")
        assert len(files(folder.name)) == len(known) + 3
        for path in set(folder.iterdir()) - before:
            path.unlink()
        network.turn("a")
        assert files(folder.name) == known

    def test_a_time_in_the_future_does_not_move_a_posted_letter(self, network: Network) -> None:
        """Deadlines are counted from letters, and who keeps the mailbox sets the times of files."""
        network.ask(terms())
        network.turn(CONSUMER)
        for path in box(network):
            os.utime(path, (0, (NOON + timedelta(days=300)).timestamp()))
        notes = network.turn(CONSUMER).notes
        mail = network.sync(CONSUMER).mail
        assert {row.time for row in mail.letters(mail.runs()[0])} == {NOON}
        assert any("behind the mailbox" in note for note in notes)

    def test_an_owner_reads_no_folder_of_another_owner(self, network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
        pin(network.sync("a").home, "b", "owner")
        network.ask(terms())
        network.turn(CONSUMER, "a")
        store, listed = network.sync("a").store, list[str]()

        def nothing(folder: str) -> stores.Listing:
            listed.append(folder)
            return stores.Listing()

        monkeypatch.setattr(store, "list", nothing)
        network.turn("a")
        assert outgoing(network, CURATOR, "a").name in listed
        assert outgoing(network, "b", "a").name not in listed

    def test_a_run_that_cannot_be_read_keeps_no_other_from_its_letters(self, network: Network) -> None:
        """Its own are removed from the mailbox when its terms end."""
        network.held(terms())
        with network.sync(CURATOR).home.deciding() as t:
            t.connection.execute("UPDATE runs SET signed = ?", (signed_text("{}"),))
        network.ask(terms(run="run-2"))
        network.turn(CONSUMER)
        assert network.turn(CURATOR).taken == 1
        assert list(outgoing(network, CURATOR, "a").iterdir())
        network.clock.now = NOON + timedelta(days=900)
        network.turn(CURATOR)
        assert not list(outgoing(network, CURATOR, "a").iterdir())

    def test_a_letter_that_cannot_be_opened_is_in_the_log(self, network: Network) -> None:
        run = network.held(terms())
        leave(network, CONSUMER, "a", Post("letter", run.digest, b"no letter"))
        assert network.turn("a").refused == 1
        assert len(logged(network.sync("a").home, "refused")) == 1

    @pytest.mark.parametrize("document", [b"", b"{}", b"no terms"])
    def test_terms_that_a_peer_wrote_wrongly_are_refused(self, network: Network, document: bytes) -> None:
        leave(network, CONSUMER, "a", Post("terms", bytes(32), document))
        assert network.turn("a").refused == 1
        assert network.turn("a").left == 0

    def test_a_consumer_cannot_fill_a_curators_disk_with_terms(self, network: Network) -> None:
        for number in range(60):
            agreed = terms(run=f"run-{number}")
            leave(network, CONSUMER, CURATOR, Post("terms", bytes.fromhex(agreed.digest), signed_terms(agreed)))
        network.turn(CURATOR)
        assert len(network.sync(CURATOR).mail.runs()) == 50

    def test_a_file_that_was_taken_back_and_appears_again_is_removed_again(self, network: Network) -> None:
        run = network.ask(terms())
        network.turn(CONSUMER)
        kept = {path: path.read_bytes() for path in box(network)}
        network.consumer.cancel(run)
        network.turn(CONSUMER)
        for path, data in kept.items():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
        network._syncs.clear()
        network.turn(CONSUMER)
        assert not kept.keys() & set(box(network))

    def test_what_a_long_listing_does_not_show_is_not_taken_for_removed(
        self, network: Network, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        network.approved(terms())
        network.turn("a", CONSUMER)
        own, read = outgoing(network, "a", CONSUMER), outgoing(network, CONSUMER, "a")
        posted = {path.name for path in own.iterdir()}
        for number in range(150):
            data = number.to_bytes(size_of_post(0))
            for folder in (own, read):
                (folder / file_name(data)).write_bytes(data)
        for _ in range(40):  # each looks at some
            network.turn("a")
        mail = network.owner().mail
        known = set(mail.files(read.name))
        monkeypatch.setattr(stores, "MOST_LISTED", 1)
        looked = network.turn("a")
        assert (looked.put_back, looked.left) == (0, 0)
        assert any("not whole" in note for note in looked.notes)
        assert set(mail.files(read.name)) == known
        assert len(known) > 150
        assert {path.name for path in own.iterdir()} > posted

    def test_an_incomplete_file_is_read_when_it_is_whole(self, network: Network) -> None:
        network.ask(terms())
        network.turn(CONSUMER)
        (path,) = outgoing(network, CONSUMER, "a").iterdir()
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2] + bytes(len(whole) - len(whole) // 2))
        assert (look := network.turn("a")).left == 1
        assert any("incomplete" in note for note in look.notes)
        path.write_bytes(whole)
        os.utime(path, (1, 2_000_000_000))
        assert network.turn("a").taken == 1

    def test_a_file_by_somebody_else_is_refused_once_and_left_alone(self, network: Network) -> None:
        folder = outgoing(network, CONSUMER, "a")
        folder.mkdir()
        data = os.urandom(4096 + 16)
        (folder / file_name(data)).write_bytes(data)
        assert [network.turn("a").refused for _ in range(2)] == [1, 0]
        assert (folder / file_name(data)).exists()

    def test_a_file_in_another_pairs_folder_opens_nowhere(self, network: Network) -> None:
        network.ask(terms())
        network.turn(CONSUMER)
        (path,) = outgoing(network, CONSUMER, "a").iterdir()
        other = outgoing(network, CONSUMER, "b")
        shutil.copy(path, other / path.name)
        look = network.turn("b")
        assert (look.taken, look.refused) == (2, 1)

    def test_a_file_that_is_too_large_or_no_letter_is_not_opened(self, network: Network) -> None:
        folder = outgoing(network, CONSUMER, "a")
        folder.mkdir()
        (folder / ("0" * 64)).write_bytes(bytes((1 << 21) + 16))
        (folder / ("1" * 64)).write_bytes(bytes(4096 + 15))
        look = network.turn("a")
        assert (look.left, look.taken) == (0, 0), "no later look would read them"

    def test_files_without_content_cost_little_however_many_runs_a_sender_was_in(
        self, network: Network, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """They take no room and no upload, and are read again with each sync."""
        curator = network.sync(CURATOR)
        pin(curator.home, "a", "owner")
        for number in range(12):
            curator.mail.invited(signed_terms(terms(run=f"run-{number}")), mailbox=network.address)
        most = size_of_post(curator.mail.most_bytes(curator.mail.runs()[0], "a"))
        folder, sizes, read = outgoing(network, "a", CURATOR), list[int](), curator.store.read
        folder.mkdir()
        for number in range(12):
            with (folder / f"{number:064x}").open("wb") as file:
                file.truncate(most)

        def counted(folder: str, name: str, *, most_bytes: int) -> bytes:
            sizes.append(most_bytes)
            return read(folder, name, most_bytes=most_bytes)

        monkeypatch.setattr(curator.store, "read", counted)
        assert network.turn(CURATOR).left == 12
        assert len(sizes) == 8

    def test_terms_that_another_party_signed_are_refused(self, network: Network) -> None:
        agreed = terms()
        pair = pair_of(secret_of(CURATOR), secret_of("a").card)
        data = pair.outgoing.wrap(Post("terms", bytes.fromhex(agreed.digest), signed_terms(agreed)))
        network.ask(terms(run="run-2"))
        network.turn(CONSUMER, "a")  # now the curator's folder is read, too
        folder = network.place / "mailbox" / pair.outgoing.folder
        folder.mkdir()
        (folder / file_name(data)).write_bytes(data)
        assert network.turn("a").refused == 1
        assert [run.name for run in network.owner("a").mail.runs()] == ["run-2"]

    def test_a_card_that_copies_a_homes_sealing_key_keeps_no_other_from_being_heard(self, network: Network) -> None:
        copied = CardSecret("mallory", Ed25519PrivateKey.generate(), secret_of(CURATOR).sealing).card
        network.sync(CURATOR).home.pins.pin(copied, "consumer")
        assert network.held(terms()).state == "closed"

    def test_a_home_that_meets_its_own_unknown_letter_stops(self, network: Network, tmp_path: Path) -> None:
        agreed = terms()
        network.ask(agreed)
        network.settle()
        shutil.copytree(network.place / "a", tmp_path / "backup")
        network.approve(agreed)
        network.settle()
        network.drop()
        shutil.rmtree(network.place / "a")
        shutil.copytree(tmp_path / "backup", network.place / "a")
        with pytest.raises(HomeRestored):
            network.settle()
        with pytest.raises(HomeRestored):
            network.turn("a")

    @pytest.mark.parametrize("fault", ["listing", "flood", "reading"])
    def test_a_restored_home_writes_nothing_before_it_has_looked(
        self, network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
    ) -> None:
        """A copy of a whole machine has the keys of runs: it would draw again, under the numbers of other letters."""
        network.approved(terms())
        network.turn("a", "b")
        network.drop()
        shutil.copytree(network.place / CONSUMER, tmp_path / "copy")
        network.turn(CONSUMER)
        network.drop()
        shutil.rmtree(network.place / CONSUMER)
        shutil.copytree(tmp_path / "copy", network.place / CONSUMER)
        own = [outgoing(network, CONSUMER, reader) for reader in ("a", "b", CURATOR)]
        if fault == "flood":
            for number, folder in ((number, folder) for number in range(40) for folder in own):
                (folder / f"{number:064x}").write_bytes(bytes(4096 + 16))
        before, store, names = box(network), network.store, {folder.name for folder in own}

        def broken(work: Callable[..., Any], folder: str, *words: Any, **options: Any) -> Any:
            if folder in names:
                raise PostTrouble(store.address, "it is broken")
            return work(folder, *words, **options)

        for name in {"listing": ("list",), "reading": ("read",), "flood": ()}[fault]:
            monkeypatch.setattr(store, name, partial(broken, getattr(store, name)))
        network.turn(CONSUMER)
        assert box(network) == before
        monkeypatch.undo()
        with pytest.raises(HomeRestored):
            network.turn(*[CONSUMER] * 4)
        assert box(network) == before

    def test_a_curator_looks_for_unknown_letters_before_it_writes_to_an_owner(self, tmp_path: Path) -> None:
        """Owners are not pinned there; a copy of a whole machine has the keys of runs, and would draw again."""
        with Network(tmp_path / "now", policies=POLICIES) as network:
            answers = _until_offers(network, terms(**AUCTION))
            assert answers
            network.sync(CURATOR).close()
            shutil.copytree(network.place / CURATOR, tmp_path / "copy")
            network.turn(CURATOR)
            asked = {path: path.read_bytes() for path in outgoing(network, CURATOR, "a").iterdir()}
            assert asked
            network.drop()
            shutil.rmtree(network.place / CURATOR)
            shutil.copytree(tmp_path / "copy", network.place / CURATOR)
            with pytest.raises(HomeRestored):
                network.turn(CURATOR)
            assert {path: path.read_bytes() for path in outgoing(network, CURATOR, "a").iterdir()} == asked

    def test_a_trusted_curator_stores_neither_offers_nor_the_target(self, network: Network) -> None:
        """They would be beside the key that opens them."""
        network.held(terms())
        mail = network.sync(CURATOR).mail
        came = [row for row in mail.letters(mail.runs()[0]) if row.way == "in" and row.post == "letter"]
        assert sorted(row.kind for row in came) == ["offer", "offer", "target"]
        assert all(mail.data_of(row) is None and row.name for row in came)

    def test_a_curator_that_begins_anew_waits_for_an_offer_that_was_removed(self, network: Network) -> None:
        agreed = terms()
        network.approved(agreed)
        network.turn("a", "b", CONSUMER, CURATOR, "a", CURATOR)
        (path,) = outgoing(network, "a", CURATOR).iterdir()
        kept = path.read_bytes()
        path.unlink()
        network.sync(CURATOR).mail.close()  # as a new process
        network.turn("b")
        assert any("was removed" in note for note in network.turn(CURATOR).notes)
        path.write_bytes(kept)
        network.settle()
        assert network.consumer.run("run-1").state == "closed"

    def test_an_unusable_mailbox_shows_before_a_card_is_pinned(self, tmp_path: Path) -> None:
        make_party(tmp_path / "b", name="b", roles=["owner"]).close()
        a_file = tmp_path / "file"
        a_file.touch()
        for address in (str(tmp_path), str(a_file), "not a url"):
            with opened_syncs(tmp_path / "b", [address]) as opened:
                assert bool(sync_once(opened).troubles) == (address != str(tmp_path))

    def test_a_mailbox_that_breaks_after_a_few_files_gets_all_of_them_in_the_end(
        self, network: Network, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(4):
            network.ask(terms(run=f"run-{number}"))
        store, written, write = network.store, list[str](), network.store._write

        def breaks(folder: str, name: str, data: bytes) -> None:
            if len(written) % 5 == 4:
                written.append("")
                raise MailboxTrouble(store.address, "the connection broke")
            written.append(name)
            write(folder, name, data)

        monkeypatch.setattr(store, "_write", breaks)
        looks = [sync_once([network.sync(CONSUMER)]) for _ in range(4)]
        assert [bool(look.troubles) for look in looks] == [True, True, False, False]
        files = [name for name in written if name]
        assert sorted(files) == sorted(path.name for path in box(network)), "none was written twice"
        assert len(files) == 12

    def test_terms_wait_if_another_process_of_the_home_removes_the_file_that_shows_the_time(
        self, network: Network, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        network.ask(terms())
        network.turn(CONSUMER)
        store, listed, folders = (
            network.store,
            network.store.list,
            {path.name for path in network.place.rglob("mailbox/*")},
        )
        others = iter([True, True])

        def after_the_other(folder: str) -> Any:
            files = listed(folder)
            if folder not in folders and files and next(others, False):
                store.remove(folder, files[0].name)
                return []
            return files

        monkeypatch.setattr(store, "list", after_the_other)
        ahead = network.clock.now + timedelta(days=900)
        with Home(network.place / "a", clock=lambda: ahead) as home, Sync(home, store) as wrong:
            assert wrong.once().left == 1
        assert next(others, None) is None
        assert network.turn("a").taken == 1
        assert [run.state for run in network.owner("a").mail.runs()] == ["waiting"]

    @pytest.mark.parametrize("at", ["replace", "sign"])
    def test_a_process_that_is_killed_while_it_makes_a_key_leaves_none(self, network: Network, at: str) -> None:
        network.drop()
        child = os.fork()
        if not child:
            try:
                place = {"replace": (Path, "replace"), "sign": (SignedTerms, "signed_by")}[at]
                setattr(*place, lambda *_: os._exit(9))
                with Home(network.place / CONSUMER, clock=network.clock) as home, Sync(home, network.store) as killed:
                    part = killed.mail.handlers["consumer"]
                    assert isinstance(part, Consumer)
                    part.sign(terms())
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        keys = network.place / CONSUMER / "keys"
        assert len(list(keys.iterdir())) == 1
        network.turn(CONSUMER)
        assert not list(keys.iterdir())
        assert network.held(terms()).state == "closed"

    def test_a_run_goes_on_when_the_mailbox_is_back(self, network: Network) -> None:
        agreed = terms()
        network.approved(agreed)
        aside = network.place / "aside"
        (network.place / "mailbox").rename(aside)
        look = sync_once([network.sync("a")])
        assert len(look.troubles) == 1
        aside.rename(network.place / "mailbox")
        network.settle()
        assert network.consumer.run("run-1").state == "closed"
        assert look.taken == 0


def _until_offers(network: Network, agreed: Terms) -> dict[str, bytes]:
    network.approved(agreed)
    network.turn("a", "b", CONSUMER, CURATOR, "a", "b")
    answers = {}
    for name in network.owners:
        mail = network.owner(name).mail
        (row,) = [row for row in mail.letters(mail.runs()[0]) if row.way == "out" and row.post == "letter"]
        answers[name] = mail.data_of(row) or b""
    return answers


def _inputs(network: Network, name: str = CURATOR) -> list[int]:
    mail = network.sync(name).mail
    return [row.input for row in mail.letters(mail.runs()[0]) if row.input is not None]


class TestCurator:
    def test_folds_are_drawn_with_a_secret_of_the_run_that_a_new_process_has_again(self, network: Network) -> None:
        for name in ("run-1", "run-2"):
            network.ask(terms(run=name))
        network.settle()
        keys = []
        for _ in range(2):
            mail = network.sync(CURATOR).mail
            keys.append([mail.party(run)._fold_key for run in mail.runs()])  # type: ignore[attr-defined]
            network.drop()
        assert keys[0] == keys[1]
        assert len(set(keys[0])) == 2
        assert min(keys[0]) > 1 << 128

    def test_runs_of_two_consumers_may_have_one_name(self, network: Network) -> None:
        mail = network.sync(CURATOR).mail
        pin(mail.home, "other", "consumer")
        network.held(terms())
        same = [mail.consider(mail.invited(signed_terms(terms(consumer="other", **more)))) for more in ({}, AUCTION)]
        assert [run.state for run in same] == ["accepted", "accepted"]
        assert len({run.name for run in mail.runs()}) == 3

    def test_a_new_process_reads_no_offer_again_as_long_as_nothing_comes(
        self, network: Network, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As under cron. Who is waited for is on record; after the patience the others' offers are read."""
        read = list[str]()
        whole = DirectoryStore.read
        network.approved(terms())
        network.turn("a", "b", CONSUMER, CURATOR, "a", CURATOR)

        def reading(store: DirectoryStore, folder: str, name: str, *, most_bytes: int) -> bytes:
            read.append(name)
            return whole(store, folder, name, most_bytes=most_bytes)

        monkeypatch.setattr(DirectoryStore, "read", reading)
        for _ in range(3):
            network.drop()
            network.turn(CURATOR)
        assert not read
        assert _inputs(network) == [1, 2]
        network.clock.now += timedelta(days=9)
        network.turn(CURATOR, CONSUMER)
        assert read
        assert network.consumer.run("run-1").state == "closed"
        assert list(network.consumer.folder("run-1").summary(terms()).absent) == [1]

    def test_offers_of_many_open_runs_are_not_held_at_once(
        self, network: Network, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("likeset.homes.mail._MOST_HELD", 1)
        names, most = ("run-1", "run-2", "run-3"), 0
        for name in names:
            network.approved(terms(run=name))
        network.turn("a", "b", CONSUMER, CURATOR, "a")
        for _ in range(3):
            network.turn(CURATOR)
            most = max(most, len(network.sync(CURATOR).mail._parties))
        assert most == 1
        network.settle()
        assert {network.consumer.run(name).state for name in names} == {"closed"}

    def test_an_owner_whose_card_was_revoked_here_is_not_heard(self, network: Network) -> None:
        """A curator needs no pin of an owner, but may have one."""
        answers, curator = _until_offers(network, terms()), network.sync(CURATOR)
        curator.home.pins.pin(secret_of("a").card, "owner", by="Ada")
        curator.home.pins.revoke("a", "keys stolen")
        with pytest.raises(LikesetError, match="revoked here"):
            curator.mail.hear(answers["a"])
        assert _inputs(network) == [1]

    def test_the_letter_with_which_a_run_fails_is_acknowledged_and_leaves_no_bytes(
        self, network: Network, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        agreed = terms()
        answers, mail = _until_offers(network, agreed), network.sync(CURATOR).mail
        mail.hear(answers["a"])

        def fail(*_: object) -> None:
            raise UnfinishedRequest("noise was charged, and not stored")

        monkeypatch.setattr(mail, "_draw_noise", fail)
        with pytest.raises(UnfinishedRequest):
            mail.hear(answers["b"])
        (refused,) = [row for row in mail.letters(mail.runs()[0]) if row.state == "refused"]
        assert mail.data_of(refused) is None
        network.settle()
        for name in network.owners:
            receipt = network.owner(name).mail.receipt(network.owner(name).mail.runs()[0])
            assert receipt is not None
            assert receipt.rows == agreed.rows_per_owner


class _Killed(BaseException):
    """Not an error that the code could handle."""


def _killed(*_: object, **__: object) -> None:
    raise _Killed


class TestTwoProcesses:
    def test_two_letters_that_come_at_once_are_heard_one_after_the_other(
        self, network: Network, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The step of the first is computed again from both."""
        agreed = terms()
        answers, curator = _until_offers(network, agreed), network.sync(CURATOR)
        drawn, busy = curator.mail._draw_noise, iter([True])
        with Home(network.place / CURATOR, clock=network.clock) as home, Sync(home, curator.store) as other:

            def draw(*arguments: Any) -> Any:
                step = drawn(*arguments)
                if next(busy, False):
                    other.mail.hear(answers["b"])
                return step

            monkeypatch.setattr(curator.mail, "_draw_noise", draw)
            fetch = curator._fetch

            def again(run: Run, peer: str, folder: str, name: str) -> bytes | None:
                return answers[peer] if peer in answers else fetch(run, peer, folder, name)

            curator.mail.fetch = other.mail.fetch = again
            curator.mail.hear(answers["a"])
        assert _inputs(network) == [1, 2, 3]
        network.settle()
        assert network.consumer.run("run-1").state == "closed"
        assert not network.consumer.folder("run-1").summary(agreed).absent.size

    def test_a_draw_that_a_crash_left_is_not_used_after_other_inputs(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The auction was drawn with the bid of b, and b is given up: the draw must not say who is asked."""
        with Network(tmp_path, policies=POLICIES) as network:
            answers, mail = _until_offers(network, terms(**AUCTION)), network.sync(CURATOR).mail
            (file,) = outgoing(network, "a", CURATOR).iterdir()
            mail.hear(answers["a"], place=(file.parent.name, file.name))
            drawn = mail._draw_noise

            def die(*arguments: Any) -> Any:
                drawn(*arguments)
                raise KeyboardInterrupt

            monkeypatch.setattr(mail, "_draw_noise", die)
            with pytest.raises(KeyboardInterrupt):
                mail.hear(answers["b"])
            monkeypatch.undo()
            network.clock.now += timedelta(days=30)
            for path in outgoing(network, "b", CURATOR).iterdir():
                path.unlink()
            network.sync(CURATOR).once()
            (run,) = mail.runs()
            assert not [row for row in mail.letters(run) if row.way == "out" and row.kind == "asked"]

    @pytest.mark.parametrize("by", ["a letter", "a decision"])
    def test_an_interrupted_draw_is_finished_before_another_letter_is_heard(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
    ) -> None:
        """The curator dies between an auction's draw and its record; then a letter comes that it waited for no more."""
        names = ("a", "b", "c")
        with Network(tmp_path, owners=names, policies=dict.fromkeys(names, _UNPROVEN)) as network:
            network.approved(terms(**AUCTION, owners=names, cards=cards_of("curator", CONSUMER, *names)))
            network.turn(*names, CONSUMER, CURATOR, "a", CURATOR)
            mail, last = network.sync(CURATOR).mail, Decision("give-up", "c")
            (run,) = mail.runs()
            mail.decide(run, Decision("give-up", "b"))
            if by == "a letter":
                network.turn("c")
            monkeypatch.setattr(mail, "_record", _killed)
            with pytest.raises(_Killed):
                network.turn(CURATOR) if by == "a letter" else mail.decide(run, last)
            network.drop()
            network.turn("b")
            if by == "a decision":
                assert network.turn(CURATOR).left == 1
                assert _inputs(network) == [1, 2, 3]
                network.clock.now += timedelta(days=9)
            network.settle()
            drawn = [entry.kind for entry in network.sync(CURATOR).home.database.entries() if "/auction" in entry.key]
            assert drawn == ["reserve", "commit"]
            asked = [row for row in network.sync(CURATOR).mail.letters(run) if row.kind == "asked"]
            assert len(asked) == len(names)

    def test_a_letter_that_comes_while_another_process_draws_waits(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with Network(tmp_path, policies=POLICIES) as network:
            answers, curator = _until_offers(network, terms(**AUCTION)), network.sync(CURATOR)
            mail, drawn = curator.mail, curator.mail._draw_noise
            mail.decide(mail.runs()[0], Decision("give-up", "a"))
            with Home(network.place / CURATOR, clock=network.clock) as home, Sync(home, curator.store) as other:

                def draw(*arguments: Any) -> Any:
                    step = drawn(*arguments)
                    with pytest.raises(TryLater):
                        other.mail.hear(answers["a"])
                    return step

                monkeypatch.setattr(mail, "_draw_noise", draw)
                mail.hear(answers["b"])
            assert _inputs(network) == [1, 2, 3]

    def test_nothing_is_charged_for_a_run_that_was_cancelled_meanwhile(
        self, network: Network, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        agreed = terms()
        run = network.approved(agreed)
        network.turn("a", "b")
        consumer = network.consumer
        make = consumer.make

        def slow(*arguments: Any) -> Any:
            consumer.cancel(consumer.mail.reload(run))
            return make(*arguments)

        monkeypatch.setattr(consumer, "make", slow)
        network.turn(CONSUMER)
        assert consumer.run("run-1").state == "cancelled"
        assert not any(entry.kind == "reserve" for entry in consumer.home.database.entries())

    def test_a_consumer_without_the_key_of_a_run_draws_nothing(self, network: Network) -> None:
        """A home restored from a backup has no keys of runs; it may have drawn and sent a release before."""
        agreed = terms()
        run = network.approved(agreed)
        network.turn("a", "b")
        consumer = network.consumer
        consumer.home.delete_run_key(run.digest)
        network.turn(CONSUMER)
        assert not any(entry.kind == "reserve" for entry in consumer.home.database.entries())


class _Stop:
    def __init__(self, looks: int) -> None:
        self.left, self.waited = looks, list[float]()

    def is_set(self) -> bool:
        return self.left <= 0

    def wait(self, timeout: float | None = None) -> bool:
        self.left -= 1
        self.waited.append(timeout or 0.0)
        return self.is_set()


class _Scripted:
    """In place of a home at a mailbox: what each look gives, or raises."""

    def __init__(self, *looks: Synced | Exception, live: bool = False) -> None:
        self.looks, self.store = list(looks), SimpleNamespace(address="courier:///x" if live else "file:///x")

    def once(self) -> Synced:
        one = self.looks.pop(0) if self.looks else Synced()
        if isinstance(one, Exception):
            raise one
        return one


def served(*syncs: _Scripted, looks: int, **options: Any) -> tuple[list[float], list[str]]:
    stop, told = _Stop(looks), list[str]()
    serve(syncs, stop=stop, tell=told.append, clock=lambda: NOON, **options)  # type: ignore[arg-type]
    return stop.waited, told


class TestServing:
    def test_pauses_grow_while_nothing_comes_and_start_anew_when_something_does(self) -> None:
        waited, _ = served(_Scripted(Synced(), Synced(), Synced(taken=1), Synced()), looks=4)
        assert waited == [1.5, 2.25, 1.0, 1.5]

    def test_a_deadline_ends_a_pause_and_a_past_one_makes_nobody_busy(self) -> None:
        looks = [Synced(next_deadline=NOON + timedelta(seconds=1.2)), Synced(next_deadline=NOON - timedelta(days=1))]
        assert served(_Scripted(*looks), looks=2)[0] == [1.2, 1.0]

    def test_a_live_mailbox_is_looked_at_often(self) -> None:
        assert max(served(_Scripted(live=True), looks=20)[0]) == sync.LIVE_LONGEST

    def test_trouble_is_told_once_and_once_more_when_it_is_over(self) -> None:
        trouble = MailboxTrouble("file:///x", "it is gone")
        _, told = served(_Scripted(trouble, trouble, Synced(), RuntimeError("secret row"), Synced()), looks=5)
        first, second, ours, _ = told
        assert "trying again" in first
        assert "can be used again" in second
        assert "RuntimeError" in ours
        assert "secret" not in ours

    def test_a_restored_home_ends_it(self) -> None:
        with pytest.raises(HomeRestored):
            served(_Scripted(HomeRestored("2029-01-01")), looks=3)

    def test_a_failure_in_one_run_keeps_no_other_from_its_turn(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with Network(tmp_path) as network:
            network.ask(terms())
            network.ask(terms(run="run-2"))
            part, due = network.consumer, network.consumer.due

            def fail_once(run: Run) -> None:
                if run.name == "run-1":
                    raise RuntimeError("secret row")
                due(run)

            monkeypatch.setattr(part, "due", fail_once)
            look = network.turn(CONSUMER)
            assert look.sent == 3
            assert look.notes == [f"run run-1 waits: {network.consumer.mail.troubles.all()[0].reason}"]
            assert "secret row" not in look.notes[0]
            assert isinstance(network.sync(CONSUMER), Sync)
