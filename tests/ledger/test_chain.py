"""Whatever is done to the entries behind the ledger's back is found."""

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from ledger_world import CURATOR, ROWS, TARGET, commit, gaussian, laplace, limit, opened, reserve

from chance import examples
from likeset.errors import InvalidArgument, LedgerError, LedgerTampered, LedgerUnreadable
from likeset.ledger.budget import Charge, Limit
from likeset.ledger.ledger import Entry, Head, Ledger, Request, Verification
from likeset.privacy.events import Release

ENTRIES = 7
COLUMNS = ("number", "kind", "key", "body", "previous", "hash")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Opened, two limits, two reservations, one commit, one purge."""
    path = tmp_path_factory.mktemp("chain") / "ledger.sqlite"
    with opened(Ledger(path)) as ledger:
        reservation = reserve(ledger, TARGET, gaussian(), request=Request("run", 0, "mean"))
        commit(ledger, reservation, b"message", release=Release([0.5, 1.5], gaussian()))
        reserve(ledger, CURATOR, ROWS, request=Request("run", 0, "rows"), rows=3)
        ledger.purge(run="run")
        assert ledger.head().number == ENTRIES
    return path


def changed(original: Path, change: Callable[[sqlite3.Connection], object]) -> Path:
    """A copy of which somebody who can write the file has changed something."""
    copy = original.with_name("copy.sqlite")
    shutil.copy(original, copy)
    connection = sqlite3.connect(copy)
    triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    change(connection)
    for _, sql in triggers:  # as somebody who wants to go unnoticed would
        connection.execute(sql)
    connection.commit()
    connection.close()
    return copy


def untouched(_: sqlite3.Connection) -> None:
    """Changes nothing."""


def verified(path: Path, head: Head | None = None) -> Verification:
    with Ledger(path, read_only=True) as ledger:
        return ledger.verify(head=head)


def head_of(path: Path) -> Head:
    with Ledger(path, read_only=True) as ledger:
        return ledger.head()


def test_an_untouched_copy_verifies(original: Path) -> None:
    copy = changed(original, untouched)
    assert verified(copy, head_of(original)).ok


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    number=st.integers(1, ENTRIES),
    column=st.sampled_from(COLUMNS),
    place=st.integers(0, 10**6),
    bit=st.integers(0, 7),
)
def test_a_flipped_bit_in_any_column_of_any_entry_is_found(
    original: Path, number: int, column: str, place: int, bit: int
) -> None:
    def flip(connection: sqlite3.Connection) -> None:
        select = f"SELECT {column} FROM log WHERE number = ?"  # noqa: S608 - a column of ours
        (value,) = connection.execute(select, (number,)).fetchone()
        if column == "number":
            new: object = value ^ (1 << bit) if value ^ (1 << bit) > ENTRIES else value + 1000
        else:
            content = bytearray(value.encode() if isinstance(value, str) else value)
            if not content:  # the key of an entry that has none: put something there
                content = bytearray(b"\x00")
            content[place % len(content)] ^= 1 << bit
            new = content.decode("latin-1") if isinstance(value, str) else bytes(content)
        update = f"UPDATE log SET {column} = ? WHERE number = ?"  # noqa: S608
        connection.execute(update, (new, number))

    copy = changed(original, flip)
    assert not verified(copy).ok
    with Ledger(copy) as ledger, pytest.raises(LedgerTampered):
        reserve(ledger, CURATOR, ROWS, request=Request("later", 0, "rows"), rows=1)


@pytest.mark.parametrize("column", COLUMNS[1:])
@pytest.mark.parametrize("number", range(1, ENTRIES + 1))
def test_the_same_bytes_under_another_type_are_found(original: Path, number: int, column: str) -> None:
    kind = "TEXT" if column in ("previous", "hash") else "BLOB"
    change = f"UPDATE log SET {column} = CAST({column} AS {kind}) WHERE number = {number}"  # noqa: S608
    assert not verified(changed(original, lambda connection: connection.execute(change))).ok


@pytest.mark.parametrize("number", range(1, ENTRIES))
def test_a_removed_entry_is_found(original: Path, number: int) -> None:
    copy = changed(original, lambda file: file.execute("DELETE FROM log WHERE number = ?", (number,)))
    first = verified(copy).problems[0]
    assert (first.number, "is missing" in first.what) == (number, True)


@pytest.mark.parametrize(
    "statements",
    [
        ("DELETE FROM log WHERE number = :n", "UPDATE log SET number = number - 1 WHERE number > :n"),
        (
            "UPDATE log SET number = 999 WHERE number = :n",
            "UPDATE log SET number = :n WHERE number = :n + 1",
            "UPDATE log SET number = :n + 1 WHERE number = 999",
        ),
        ("INSERT INTO log SELECT 8, kind, key, body, previous, hash FROM log WHERE number = 7",),
    ],
    ids=["removed and renumbered", "exchanged", "doubled"],
)
def test_removed_exchanged_and_doubled_entries_are_found(original: Path, statements: tuple[str, ...]) -> None:
    for number in range(1, ENTRIES):

        def change(connection: sqlite3.Connection, number: int = number) -> None:
            for statement in statements:
                connection.execute(statement, {"n": number})

        assert not verified(changed(original, change)).ok


def test_an_altered_entry_whose_own_hash_fits_does_not_fit_the_next_one(original: Path) -> None:
    """Entry 6 reserves three rows; somebody writes one, with the hash that one has, and leaves the entries after it."""

    def alter(connection: sqlite3.Connection) -> None:
        number, kind, key, old, previous, _ = connection.execute("SELECT * FROM log WHERE number = 6").fetchone()
        body = old.replace('"rows":3', '"rows":1')
        assert body != old
        entry = Entry(number, kind, key, body, previous, b"")
        connection.execute("UPDATE log SET body = ?, hash = ? WHERE number = 6", (body, entry.expected_hash()))

    found = verified(changed(original, alter))
    assert [str(problem) for problem in found.problems] == ["entry 7: does not follow the entry before it"]


@pytest.mark.parametrize("wrong", [bytes(32), b"\xff" * 32])
def test_another_link_or_hash_is_found_whether_smaller_or_larger(original: Path, wrong: bytes) -> None:
    def relink(connection: sqlite3.Connection) -> None:
        number, kind, key, body, _, _ = connection.execute("SELECT * FROM log WHERE number = 7").fetchone()
        fits = Entry(number, kind, key, body, wrong, b"").expected_hash()
        connection.execute("UPDATE log SET previous = ?, hash = ? WHERE number = 7", (wrong, fits))

    def rehash(connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE log SET hash = ? WHERE number = 7", (wrong,))

    for change, said in ((relink, "does not follow"), (rehash, "was altered")):
        (problem,) = verified(changed(original, change)).problems
        assert (problem.number, said in problem.what) == (7, True)
    assert not verified(original, Head(ENTRIES, wrong)).ok


@pytest.mark.parametrize("wrong", [bytes(32), b"\xff" * 32])
def test_a_last_entry_that_changes_under_a_running_process_is_found(original: Path, wrong: bytes) -> None:
    copy = changed(original, untouched)
    with Ledger(copy) as ledger:
        ledger.refresh()
        connection = sqlite3.connect(copy)
        connection.execute("DROP TRIGGER log_keeps")
        connection.execute("UPDATE log SET hash = ? WHERE number = 7", (wrong,))
        connection.commit()
        connection.close()
        with pytest.raises(LedgerTampered, match="entry 7 is not what it was"):
            ledger.refresh()


def test_only_a_head_kept_elsewhere_shows_that_the_end_was_cut_off(original: Path) -> None:
    head = head_of(original)
    copy = changed(original, lambda file: file.execute("DELETE FROM log WHERE number >= 5"))
    assert verified(copy).ok
    assert not verified(copy, head).ok


def test_only_a_head_kept_elsewhere_shows_that_everything_was_written_anew(original: Path) -> None:
    """The unkeyed chain cannot show this by itself, and the documentation says so."""
    copy = rewritten(original, lambda entry: entry.body.replace('"rows":3', '"rows":1'))
    assert verified(copy).ok
    assert not verified(copy, head_of(original)).ok


@pytest.mark.parametrize("later", [None, limit(5.0)])
def test_a_charge_beyond_the_limit_is_found(tmp_path: Path, later: Limit | None) -> None:
    """Written by a program that does not check: the chain holds, the sum does not; a later raise hides nothing."""
    with opened(Ledger(tmp_path / "ledger.sqlite")) as ledger:
        charge = Charge(((TARGET, laplace(1.5)),), 0)
        with ledger.deciding() as transaction:
            words = {"charge": charge.to_json(), "fingerprint": ""}
            transaction.append("reserve", Request("run", 0, "mean").key, words)
        if later is not None:
            ledger.set_limit(TARGET, later)
        assert [problem.number for problem in ledger.verify().problems] == [4]


def rewritten(original: Path, change: Callable[[Entry], str]) -> Path:
    """A copy with other bodies and hashes that fit: as another program, or another version, would have written it."""

    def rewrite(file: sqlite3.Connection) -> None:
        rows = file.execute("SELECT number, kind, key, body, previous, hash FROM log ORDER BY number").fetchall()
        previous = bytes(32)
        for entry in (Entry(*row) for row in rows):
            body = change(entry)
            digest = Entry(entry.number, entry.kind, entry.key, body, previous, b"").expected_hash()
            file.execute(
                "UPDATE log SET body = ?, previous = ?, hash = ? WHERE number = ?",
                (body, previous, digest, entry.number),
            )
            previous = digest

    return changed(original, rewrite)


def test_a_charge_under_another_relation_is_found_and_named(original: Path) -> None:
    """The account's relation is another one, by a program that does not compare: half of what was lost is counted."""
    copy = rewritten(
        original,
        lambda entry: entry.body.replace("replace-one", "add-or-remove") if entry.kind == "limit" else entry.body,
    )
    first, *_ = verified(copy).problems
    assert first.number == 4
    assert "planned under replace-one on an account under add-or-remove" in first.what


def test_a_ledger_of_an_older_format_is_not_read_and_verify_says_why(original: Path) -> None:
    """Its events do not say for which unit of privacy they were planned, so nobody can count them here."""
    copy = rewritten(
        original,
        lambda entry: (
            entry.body.replace('"format":3', '"format":2')
            if entry.kind == "open"
            else entry.body.replace('"unit":{"column":"","kind":"unit","rows":1}', '"rows":1')
        ),
    )
    (problem,) = verified(copy).problems
    assert problem.number == 1
    assert "has format 2, this version reads 3" in problem.what
    with pytest.raises(LedgerTampered, match="has format 2"), Ledger(copy) as ledger:
        ledger.accounts()


def test_a_limit_that_was_lowered_below_what_was_spent_is_no_problem(tmp_path: Path) -> None:
    with opened(Ledger(tmp_path / "ledger.sqlite")) as ledger:
        reserve(ledger, TARGET, laplace(0.5), request=Request("run", 0, "mean"))
        ledger.set_limit(TARGET, limit(0.1))
        assert ledger.verify().ok


def test_a_head_from_the_past_still_holds_after_more_entries(original: Path) -> None:
    head = head_of(original)
    copy = changed(original, untouched)
    with Ledger(copy) as ledger:
        reserve(ledger, CURATOR, ROWS, request=Request("later", 0, "rows"), rows=1)
        assert ledger.verify(head=str(head)).ok
        assert ledger.verify(head=Head(0, bytes(32))).ok


def test_a_roll_back_under_a_running_process_is_found(original: Path) -> None:
    copy = changed(original, untouched)
    with Ledger(copy) as ledger:
        ledger.head()
        changed(original, lambda file: file.execute("DELETE FROM log WHERE number = 7")).touch()
        with pytest.raises(LedgerError):
            reserve(ledger, CURATOR, ROWS, request=Request("later", 0, "rows"), rows=1)


def test_missing_triggers_are_found(original: Path) -> None:
    copy = changed(original, untouched)
    connection = sqlite3.connect(copy)
    connection.execute("DROP TRIGGER log_stays")
    connection.commit()
    connection.close()
    assert not verified(copy).ok


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE log SET body = '{}' WHERE number = 3",
        "DELETE FROM log WHERE number = 7",
        "INSERT OR REPLACE INTO log SELECT * FROM log WHERE number = 3",
        "INSERT INTO log VALUES (9, 'purge', '', '{}', x'00', x'00')",
        "INSERT INTO log VALUES (8, 'purge', '', '{}', x'00', x'00')",
    ],
)
def test_honest_code_cannot_change_entries_by_mistake(original: Path, statement: str) -> None:
    copy = changed(original, untouched)
    connection = sqlite3.connect(copy)
    with pytest.raises(sqlite3.IntegrityError, match="entr"):
        connection.execute(statement)
    connection.close()


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 10**9), bit=st.integers(0, 7))
@example(place=479001589, bit=7)  # in a name that SQLite quotes when it complains
def test_a_flipped_bit_anywhere_in_the_file_is_found_or_changes_nothing(original: Path, place: int, bit: int) -> None:
    """Unused bytes of a page hold nothing; whatever changes what is read is found."""
    with Ledger(original, read_only=True) as ledger:
        before = ledger.entries()
    copy = original.with_name("flipped.sqlite")
    content = bytearray(original.read_bytes())
    content[place % len(content)] ^= 1 << bit
    copy.write_bytes(content)
    copy.chmod(0o600)
    try:
        with Ledger(copy, read_only=True) as ledger:
            verification = ledger.verify()
            if verification.ok:
                assert ledger.entries() == before
    except LedgerError:
        pass


def test_a_head_that_is_none_is_refused() -> None:
    for text in ("", "7", "7:abc", "x:" + "0" * 64):
        with pytest.raises(InvalidArgument, match="NUMBER:HASH"):
            Head.parse(text)
    assert Head.parse(" 7:" + "A" * 64).hash == bytes.fromhex("a" * 64)


def test_a_damaged_file_does_not_verify(original: Path) -> None:
    copy = original.with_name("damaged.sqlite")
    content = bytearray(original.read_bytes())
    content[4096:] = bytes(len(content) - 4096)
    copy.write_bytes(content)
    copy.chmod(0o600)
    with Ledger(copy, read_only=True) as ledger:
        assert not ledger.verify().ok
        with pytest.raises(LedgerUnreadable):
            ledger.entries()


def test_a_chain_of_many_entries_verifies(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        with ledger.deciding() as transaction:
            for _ in range(300):
                transaction.append("reviewed", "run", {})
        assert ledger.verify().problems == ()
        assert len(ledger.entries()) == 301


def test_a_chain_that_begins_with_another_number_is_refused(original: Path) -> None:
    """Written anew from 0 on, with hashes that fit."""

    def renumber(connection: sqlite3.Connection) -> None:
        rows = connection.execute("SELECT kind, key, body FROM log ORDER BY number").fetchall()
        connection.execute("DELETE FROM log")
        previous = bytes(32)
        for number, (kind, key, body) in enumerate(rows):
            digest = Entry(number, kind, key, body, previous, b"").expected_hash()
            connection.execute("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", (number, kind, key, body, previous, digest))
            previous = digest

    first = verified(changed(original, renumber)).problems[0]
    assert (first.number, "out of order" in first.what) == (1, True)
