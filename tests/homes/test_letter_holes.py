"""Letters by parties who take part and are hostile: whatever they sign, nobody else is harmed, and little is kept."""

import contextlib
import hashlib
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from letter_world import LetterWorld
from protocol_world import CONSUMER

from likeset.errors import IllegalMessage, LedgerUnreadable, LetterRefused, LikesetError
from likeset.homes.mail import ConsumerRun, CuratorRun, Identity, LetterBook
from likeset.ledger.ledger import Ledger
from likeset.protocol.party import CURATOR
from likeset.protocol.wire import Message, Offer
from likeset.trust.cards import LETTER_CONTEXT, fields, read_fields
from likeset.trust.letters import Acceptance, letter_in, write_letter

_NUMBER_AT = 110  # in a header, as docs/wire.md says


def _first_letters(homes: LetterWorld) -> dict[str, bytes]:
    """The consumer's, by reader, once everybody has accepted."""
    consumer, names = homes.run_at(CONSUMER), [name for name in homes.homes if name != CONSUMER]
    assert isinstance(consumer, ConsumerRun)
    return {homes.reader(data): data for data in consumer.begin([homes.run_at(name).acceptance() for name in names])}


def _signed(homes: LetterWorld, writer: str, reader: str, **changes: Any) -> bytes:
    """A letter that a party writes past its own home, sealed to the reader's key for the run."""
    options: dict[str, Any] = {
        "recipient": homes.homes[reader].secret.card,
        "recipient_key": Acceptance.from_bytes(homes.letters(reader).acceptance()).run_key,
        "run_id": bytes.fromhex(homes.agreed.run_id),
        "terms": bytes.fromhex(homes.agreed.digest),
        "round": 0,
        "number": 0,
        "message": b"",
        **changes,
    }
    return write_letter(homes.homes[writer].secret, **options).data


@pytest.mark.parametrize("number", [2**63, 2**64 - 1])
def test_a_number_that_no_letter_can_have_is_refused_and_ends_nobody_elses_run(tmp_path: Path, number: int) -> None:
    """SQLite has no numbers of 64 bits without a sign: one letter of an owner ended the curator's run for all."""
    homes = LetterWorld(tmp_path)
    first = _first_letters(homes)
    curator = homes.run_at(CURATOR)
    assert isinstance(curator, CuratorRun)
    curator.hear(first[CURATOR])
    with pytest.raises(LetterRefused, match="form"):
        curator.hear(_numbered(_signed(homes, "a", CURATOR), homes.homes["a"], number))
    curator.hear(homes.run_at("a").hear(first["a"])[0])
    assert "a" not in curator.waiting_for


def _numbered(data: bytes, writer: Identity, number: int) -> bytes:
    """The same letter with another number in its header, signed again by its writer."""
    tag, header, ciphertext, _ = read_fields(data, 4, what="letter")
    other = header[:_NUMBER_AT] + number.to_bytes(8, "big") + header[_NUMBER_AT + 8 :]
    signature = writer.secret.sign(LETTER_CONTEXT, other, hashlib.sha256(ciphertext).digest())
    return fields(tag, other, ciphertext, signature)


def test_a_letter_under_the_number_of_another_leaves_nothing_on_the_disk(tmp_path: Path) -> None:
    """A flood of them, each as large as any letter, filled the disk."""
    homes = LetterWorld(tmp_path)
    first = _first_letters(homes)
    homes.run_at("a").hear(first["a"])
    book, digest = homes.letters("a").identity.book, bytes.fromhex(homes.agreed.digest)
    before = book.letters(digest)
    other = _signed(homes, CONSUMER, "a", message=bytes(1 << 22))
    assert homes.run_at("a").hear(other) == (letter_in(first["a"], most_bytes=1 << 24).stub.to_bytes(),)
    assert book.letters(digest) == before
    assert sum(path.stat().st_size for path in (tmp_path / "a").glob("letters.sqlite*")) < 1 << 21


def test_rows_of_no_width_are_acknowledged_as_none(tmp_path: Path) -> None:
    """An owner could have the curator sign for a billion rows, in a message of a few bytes that it refused."""
    homes = LetterWorld(tmp_path)
    first = _first_letters(homes)
    curator = homes.run_at(CURATOR)
    curator.hear(first[CURATOR])
    empty = Offer(np.empty((1 << 30, 0), np.float32), np.empty(0), np.empty(0, np.uint64))
    message = Message(homes.agreed.run, homes.agreed.digest, "a", CURATOR, 1, empty)
    with suppress(LikesetError):
        curator.hear(_signed(homes, "a", CURATOR, round=1, message=message.data))
    assert homes.transcript("a").rows == 0


def test_who_is_not_shown_to_the_consumer_again_after_a_crash_is_not_written_to(tmp_path: Path) -> None:
    """Whoever carries acceptances held one back: its owner was charged, and the curator never heard of it."""
    homes = LetterWorld(tmp_path)
    accepted = {name: homes.run_at(name).acceptance() for name in homes.homes if name != CONSUMER}
    letters = homes.letters(CONSUMER)

    def crash() -> tuple[Message, ...]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        letters.begin(accepted.values(), crash)
    consumer = homes.run_at(CONSUMER)
    assert isinstance(consumer, ConsumerRun)
    written = consumer.begin([data for name, data in accepted.items() if name != "c"])
    assert {homes.reader(data) for data in written} == {"a", "b", CURATOR}


def test_a_call_that_introduces_no_curator_costs_an_owner_nothing(tmp_path: Path) -> None:
    """The answer had no reader: it was charged, written down as sent, and dropped."""
    homes = LetterWorld(tmp_path)
    first = _first_letters(homes)
    heard = homes.letters("a").read(first["a"], most_bytes=1 << 24)
    assert heard.message is not None
    said: dict[str, Any] = {"round": heard.message.round, "message": heard.message.data}
    with pytest.raises(IllegalMessage, match="curator"):
        homes.run_at("a").hear(_signed(homes, CONSUMER, "a", **said))
    assert homes.ledgers["a"].answers == {}
    assert len(homes.run_at("a").hear(first["a"])) == 1


def test_a_ledger_is_no_letter_book_and_the_other_way_round(tmp_path: Path) -> None:
    ledger, book = tmp_path / "ledger.sqlite", tmp_path / "letters.sqlite"
    Ledger(ledger).close()
    LetterBook(book).close()
    mistaken: tuple[tuple[type[LetterBook] | type[Ledger], Path], ...] = ((LetterBook, ledger), (Ledger, book))
    for open_it, path in mistaken:
        with pytest.raises(LedgerUnreadable, match="of something else"):
            open_it(path)


def test_a_letter_book_with_other_columns_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    """Version 1 has a column more: no letter could be kept in it."""
    book = tmp_path / "letters.sqlite"
    LetterBook(book).close()
    with contextlib.closing(sqlite3.connect(book)) as connection, connection:
        connection.execute("PRAGMA user_version=1")
    with pytest.raises(LedgerUnreadable, match="version"):
        LetterBook(book)
