"""The log of an owner's home: intact, or it is noticed; it agrees with what left, and contains no value of a row."""

import sqlite3
from pathlib import Path

import pytest
from home_world import CANARY, Network, Outside, answered, approve, heard, logged, make_owner, opened, rows_text, terms

from likeset.errors import ChargeRefused, InvalidArgument, LedgerTampered
from likeset.homes import review
from likeset.homes.owner import open_owner
from likeset.homes.runs import Invitation

DATABASE = "home.sqlite"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = make_owner(tmp_path)
    with opened(folder) as owner:
        answered(owner, terms())
    return folder


def problems(folder: Path) -> list[str]:
    with opened(folder) as owner:
        return [str(problem) for problem in review.verify(owner)[0]]


def altered(folder: Path, *statements: str) -> None:
    connection = sqlite3.connect(folder / DATABASE)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def test_a_home_whose_log_was_altered_does_nothing_any_more(folder: Path) -> None:
    altered(folder, "UPDATE log SET body = replace(body, 'Ada', 'Eve') WHERE kind = 'approved'")
    with pytest.raises(LedgerTampered, match="was altered"):
        open_owner(folder)


def test_an_entry_of_no_known_kind_is_not_written(folder: Path) -> None:
    with opened(folder) as owner:
        with pytest.raises(ChargeRefused, match="unknown kind"):
            owner.home.note("waved through", "run-1", by="Eve")
        assert logged(owner.home, "waved through") == []
    assert problems(folder) == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE drawn SET message = zeroblob(9) WHERE run = 'run-1' AND key LIKE '%offer%'",
        "DELETE FROM drawn WHERE run = 'run-1'",
        "UPDATE letters SET rows = 13 WHERE way = 'out'",  # one row more than was charged
        "UPDATE letters SET letter = zeroblob(32) WHERE way = 'out'",  # the receipt is for another letter
    ],
)
def test_messages_or_letters_that_were_altered_are_found(tmp_path: Path, statement: str) -> None:
    folder = make_owner(tmp_path)
    with opened(folder) as owner:
        outside, letters = answered(owner, terms())
        owner.mail.hear(outside.receipt(letters, 12))
        assert review.verify(owner)[0] == []
    altered(folder, statement)
    assert problems(folder)


def test_a_run_whose_terms_this_version_refuses_is_verified_and_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: bytes) -> Invitation:
        raise InvalidArgument("version", 1, "is not known here")

    with opened(make_owner(tmp_path)) as owner:
        outside, letters = answered(owner, terms())
        owner.mail.hear(outside.receipt(letters, 12))
        monkeypatch.setattr(Invitation, "read", refused)
        assert review.verify(owner)[0] == []
        assert review.sent_run(owner, "run-1")["receipt"] == "yes"


def test_a_purge_is_no_problem_and_rows_are_shown_no_longer(folder: Path) -> None:
    with opened(folder) as owner:
        assert review.rows_in_letters(owner, "run-1").table is not None
        owner.ledger.purge(run="run-1")
        left = review.rows_in_letters(owner, "run-1")
        assert (left.table, left.count) == (None, 12)
        assert review.verify(owner)[0] == []


def test_rows_that_were_held_back_are_told_and_are_no_problem(tmp_path: Path) -> None:
    with opened(make_owner(tmp_path)) as owner:
        approve(owner, terms())
        outside = Outside(owner, terms())
        assert heard(owner, outside.release())
        owner.withdraw("run-1", by="Ada")
        found, remarks = review.verify(owner)
        assert (found, remarks) == ([], ["12 rows of run run-1 were charged and held back"])
        left = review.rows_in_letters(owner, "run-1")
        assert (left.count, left.held_back) == (0, 12)
        assert "12 rows" in dict(review.review(owner, "run-1").lines)["What was held back?"]
        assert review.runs_that_sent(owner) == []


@pytest.mark.parametrize("protocol", ["sealed", "interactive"])
def test_no_value_of_a_row_is_in_the_log_of_a_whole_run(tmp_path: Path, protocol: str) -> None:
    """Owner b cannot answer: a value that its schema does not know came after everything was checked."""
    agreed = terms(protocol=protocol, size=3)
    with Network(tmp_path) as network:
        network.ask(agreed)
        network.turn()
        for name in "ab":
            assert network.owner(name).approve("run-1", agreed.digest, by="Ada").accepted
        (tmp_path / "b.csv").write_text(rows_text(2) + f"30,777.4242,{CANARY}-secret,no\n")
        network.settle(most=40)
        assert review.runs_that_sent(network.owner("a")) == ["run-1"]
        assert review.runs_that_sent(network.owner("b")) == []
        assert [CANARY in words for words in network.owner("b").mail.troubles.of(bytes.fromhex(agreed.digest))] == [
            False
        ]
        for name in "ab":
            assert not [word for word in ("777.4242", CANARY) if word in str(network.owner(name).ledger.entries())]


def test_no_two_parties_have_one_file_in_an_export() -> None:
    names = ["a", "a/b", "a:b", *("/" * 60 + end for end in "ab")]
    assert len({review._file_name(name) for name in names}) == len(names)
