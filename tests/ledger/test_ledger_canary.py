"""A value from a data row may be in a stored message, and nowhere else: not in an entry, a log or an error."""

import logging
import traceback
from pathlib import Path

import pytest
from ledger_world import AUCTION, CURATOR, ROWS, TARGET, commit, gaussian, limit, opened, reserve

from likeset.errors import LikesetError
from likeset.ledger.ledger import Ledger, Request
from likeset.privacy.events import Release

CANARY = "CANARY-7391.25"
ROW = b'{"patient": "' + CANARY.encode() + b'"}'


def test_no_data_value_leaves_the_stored_messages(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    path = tmp_path / "ledger.sqlite"
    said = []
    with opened(Ledger(path)) as ledger:
        ledger.set_limit(TARGET, limit(accept_unproven=("paper-auction",)))
        rows = Request("run", 0, "rows", ROW)
        reservation = reserve(ledger, CURATOR, ROWS, request=rows, rows=1)
        assert commit(ledger, reservation, ROW, release=Release(CANARY, ROWS)) == ROW
        auction = reserve(ledger, TARGET, AUCTION, request=Request("run", 0, "auction", ROW))
        commit(ledger, auction, ROW, release=Release([CANARY], AUCTION))
        again = reserve(ledger, CURATOR, ROWS, request=rows, rows=1)
        assert again.answer == ROW
        said += [
            repr(reservation),
            repr(again),
            str(again),
            repr(rows),
            repr(ledger.messages()),
            repr(ledger.accounts()),
        ]
        pending = reserve(ledger, TARGET, gaussian(), request=Request("run", 1, "mean", ROW))

        def refused(call: object, *arguments: object, **options: object) -> None:
            assert callable(call)
            with pytest.raises(LikesetError) as error:
                call(*arguments, **options)
            said.append("".join(traceback.format_exception(error.value)))

        refused(commit, ledger, reservation, ROW + b" ")
        refused(commit, ledger, pending, ROW, release=Release(object_with_canary(), gaussian()))
        refused(commit, ledger, pending, ROW, release=Release(CANARY, gaussian(sigma=20.0)))
        refused(reserve, ledger, CURATOR, ROWS, request=Request("run", 0, "rows", ROW + b"?"), rows=1)
        refused(reserve, ledger, TARGET, gaussian(), request=Request("run", 1, "mean", ROW))
        refused(reserve, ledger, CURATOR, ROWS, request=Request("run", 2, "rows", ROW), rows=10**6)
        refused(Request, CANARY + " is not a name", 0, "rows")
        with ledger.deciding() as transaction:
            transaction.connection.execute("UPDATE drawn SET message = message || x'00'")
        refused(reserve, ledger, CURATOR, ROWS, request=rows, rows=1)
        ledger.purge(run="run")
        assert not [file.name for file in tmp_path.iterdir() if CANARY.encode() in file.read_bytes()]
    out, err = capfd.readouterr()
    said += [out, err, caplog.text]
    assert not [text for text in said if CANARY in text]


def object_with_canary() -> object:
    """Something that shows its content whenever it is printed."""

    class Telling:
        def __repr__(self) -> str:
            return CANARY

    return Telling()
