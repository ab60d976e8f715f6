"""Whatever is done to the entries behind the ledger's back is found."""

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from ledger_world import CURATOR, ROWS, TARGET, charge, commit, gaussian, laplace, limit, opened, reserve

from chance import examples
from likeset.errors import InvalidArgument, LedgerError, LedgerTampered, LedgerUnreadable
from likeset.ledger.budget import Charge, Limit, Request
from likeset.ledger.ledger import Entry, Head, Ledger, Verification, link
from likeset.privacy.events import NoRelease, Release

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
    change(connection)
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


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    number=st.integers(1, ENTRIES), column=st.sampled_from(COLUMNS), place=st.integers(0, 10**6), bit=st.integers(0, 7)
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
    found = verified(changed(original, lambda connection: connection.execute(change)))
    assert found.problems[0].number == number


@pytest.mark.parametrize(
    "statements",
    [
        ("DELETE FROM log WHERE number = :n",),
        ("DELETE FROM log WHERE number = :n", "UPDATE log SET number = number - 1 WHERE number > :n"),
        (
            "UPDATE log SET number = 999 WHERE number = :n",
            "UPDATE log SET number = :n WHERE number = :n + 1",
            "UPDATE log SET number = :n + 1 WHERE number = 999",
        ),
        ("INSERT INTO log SELECT 8, kind, key, body, previous, hash FROM log WHERE number = 7",),
    ],
    ids=["removed", "removed and renumbered", "exchanged", "doubled"],
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
def test_a_last_entry_that_changes_under_a_running_process_is_found(original: Path, wrong: bytes) -> None:
    copy = changed(original, untouched)
    with Ledger(copy) as ledger:
        ledger.refresh()
        connection = sqlite3.connect(copy)
        connection.execute("UPDATE log SET hash = ? WHERE number = 7", (wrong,))
        connection.commit()
        connection.close()
        with pytest.raises(LedgerTampered, match="entry 7 is not what it was"):
            ledger.refresh()


def test_only_a_head_kept_elsewhere_shows_that_the_end_was_cut_off(original: Path) -> None:
    head = head_of(original)
    assert verified(changed(original, untouched), head).ok
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
    assert "OtherRelation" in first.what


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
        assert ledger.verify(head=Head.parse(str(head))).ok
        assert ledger.verify(head=Head(0, bytes(32))).ok


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


NAMES = ("run", "run-1", "run-10", "run/1", "r", "run@x")


def filled(path: Path) -> Ledger:
    """Entries about runs whose names begin alike, in turn: of audit, charges and answers."""
    ledger = opened(Ledger(path))
    for name in NAMES:
        ledger.append("invited", name, {"about": name})
    for name in (*NAMES, *NAMES):
        request = Request(name, len(ledger.entries()), "heard")
        ledger.draw(charge(CURATOR, NoRelease()), lambda: (b"words", None), request=request, repeatable=True)
        ledger.append("reviewed", name, {})
    return ledger


def about(entries: tuple[Entry, ...], name: str) -> list[int]:
    """The slow way: every entry is looked at."""
    return [entry.number for entry in reversed(entries) if entry.key == name or entry.key.startswith(f'["{name}",')]


def test_entries_about_a_run_are_those_that_a_look_at_every_entry_finds(tmp_path: Path) -> None:
    with filled(tmp_path / "ledger.sqlite") as ledger:
        entries = ledger.entries()
        for name in (*NAMES, "nobody", "", '["run"', "run,"):
            expected = about(entries, name)
            found = ledger.entries_about(name, before=len(entries) + 1, most=99)
            assert [entry.number for entry in found] == expected, name
        last = about(entries, "run-1")
        assert [entry.number for entry in ledger.entries_about("run-1", before=last[2], most=2)] == last[3:5]
        for entry in ledger.entries_about("run", before=99, most=99):
            assert entry in entries


@pytest.mark.parametrize("body", ["", "{", "null null"])
def test_an_entry_that_says_nothing_readable_is_found_when_the_log_is_opened(tmp_path: Path, body: str) -> None:
    """Somebody appended it with a hash that fits; of audit, which budgets do not depend on."""
    path = tmp_path / "ledger.sqlite"
    with filled(path) as ledger:
        head = ledger.head()
    with sqlite3.connect(path) as connection:
        entry = link(Head(head.number, head.hash), kind="reviewed", key="run", body=body)
        connection.execute("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", entry)
    connection.close()
    with pytest.raises(LedgerTampered, match=f"entry {entry.number}: .*not JSON"), Ledger(path) as ledger:
        ledger.head()
    with Ledger(path) as ledger:
        assert [problem.number for problem in ledger.verify().problems] == [entry.number]
