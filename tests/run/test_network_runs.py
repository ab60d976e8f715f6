"""A consumer's runs between organisations: terms once, a result from what came, and nothing drawn twice."""

import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from remote_world import CONSUMER, OWNERS, hold, make_world, write_job

from likeset.app.report import render
from likeset.errors import BadDocument, IllegalMessage, InvalidArgument
from likeset.homes.consumer_home import ConsumerHome, KeptRun, consumer_run, make_consumer_home
from likeset.homes.mail import Invitation
from likeset.ledger.ledger import Ledger
from likeset.privacy.guarantee import View
from likeset.protocol.terms import Terms
from likeset.protocol.wire import Message, Summary
from likeset.run.job import Job
from likeset.run.runs import FinishedJob, collect, expiry, invite, job_of, publish
from likeset.tables.records import DeclaredRecords
from likeset.tables.schema import Schema

pytestmark = pytest.mark.usefixtures("without_figures")

UNTIL = "2099-01-01"


@pytest.fixture
def home(tmp_path: Path) -> ConsumerHome:
    return make_world(tmp_path)


def invited(home: ConsumerHome, **changes: Any) -> KeptRun:
    return invite(home, Job.load(write_job(home.folder.parent, **changes)), expires=UNTIL)


def published(run: KeptRun) -> FinishedJob:
    return publish(collect(run), run.result, render=render)


def spent(home: ConsumerHome) -> float:
    with Ledger(home.ledger) as ledger:
        (account,) = [one for one in ledger.accounts() if one.view == View.owners("new-clinic")]
        return account.epsilon or 0.0


def test_terms_are_drafted_once_and_the_choice_of_the_width_is_charged_once(home: ConsumerHome) -> None:
    first = invited(home)
    charged = spent(home)
    assert 0.0 < charged < 8.0
    assert first.terms.owners == OWNERS
    assert first.terms.end is not None
    assert invited(home).invitation_path.read_bytes() == first.invitation.to_bytes()
    first.invitation_path.unlink()  # a crash before they were written
    again = invited(home).terms
    assert again.run_id != first.terms.run_id
    assert replace(again, run_id=first.terms.run_id) == first.terms
    assert spent(home) == charged


def test_a_run_comes_to_a_result_that_says_only_what_the_consumer_knows(home: ConsumerHome) -> None:
    """Six rows are wanted with four offers for each: each of two owners discloses at most twelve, for 2 each."""
    run = invited(home, price_per_row=2.0)
    assert hold(home.folder.parent).ended == "done"
    done = published(run)
    result = done.result
    assert (result["rows_selected"], result["rows_seen"], result["private"]) == (6, 24, True)
    assert [(one["disclosed"], one["disclosed_at_most"]) for one in result["owners"]] == [(None, 12)] * 2
    assert [(one["payment"], one["payment_at_most"]) for one in result["owners"]] == [(None, 24.0)] * 2
    assert sum(one["selected"] for one in result["owners"]) == 6
    assert all(one["rows"] is None and one["heard_bytes"] is None for one in result["owners"])
    assert result["budget"]["shared"]
    table = pq.read_table(run.result / "summary.parquet")
    assert table.num_rows == 6
    assert set(table.column("owner").to_pylist()) <= set(OWNERS)
    assert spent(home) == pytest.approx(8.0, rel=1e-3)
    assert result["guarantees"][0]["epsilon"] == pytest.approx(8.0, rel=1e-3)


def test_a_run_that_is_held_again_draws_nothing_anew(home: ConsumerHome) -> None:
    run = invited(home)
    with pytest.raises(InvalidArgument, match="has no summary yet"):
        published(run)
    hold(home.folder.parent)
    first, charged = (run.folder / "summary.bin").read_bytes(), spent(home)
    hold(home.folder.parent)
    assert (run.folder / "summary.bin").read_bytes() == first
    assert spent(home) == charged


def test_an_owner_that_gave_no_answer_is_named(home: ConsumerHome) -> None:
    run = invited(home)
    assert hold(home.folder.parent, absent=["b"]).ended == "done"
    result = published(run).result
    assert [(one["owner"], one["text"]) for one in result["warnings"]] == [("b", "b did not take part (no answer)")]
    assert [one["disclosed_at_most"] for one in result["owners"]] == [12, 12]  # its answer may have been lost


def _signed(home: ConsumerHome, terms: Terms) -> Invitation:
    return Invitation.sign(replace(terms, run_id=secrets.token_hex(16)), home.identity)


def test_a_home_answers_only_in_runs_that_its_consumer_signed(home: ConsumerHome) -> None:
    invitation = invited(home).invitation
    terms = invitation.terms
    assert consumer_run(invitation, CONSUMER, home.folder).resident.name == CONSUMER
    with pytest.raises(IllegalMessage, match="signed other terms"):
        consumer_run(_signed(home, terms), CONSUMER, home.folder)
    with pytest.raises(InvalidArgument, match="is not known here"):
        consumer_run(_signed(home, replace(terms, run="run-2")), CONSUMER, home.folder)
    with pytest.raises(IllegalMessage, match="is new-clinic, not other"):
        consumer_run(invitation, "other", home.folder)


def test_a_consumer_holds_labels_against_the_schema_of_the_terms(home: ConsumerHome) -> None:
    run = invited(home)
    path = run.schema_path
    text = path.read_text()
    path.write_text(text.replace("[0, 120]", "[0, 121]"))
    with pytest.raises(BadDocument, match="is not the schema of run"):
        consumer_run(run.invitation, CONSUMER, home.folder)
    path.write_text(text)
    made = consumer_run(run.invitation, CONSUMER, home.folder).resident
    declared = DeclaredRecords(Schema.load(path))
    table = declared.of(pa_csv.read_csv(job_of(run).target).slice(0, 1))
    rows, packed = declared.rows_of(table)[0], np.frombuffer(declared.pack(table), dtype=np.uint8)
    place, one, none = np.zeros(1, dtype=np.int64), np.zeros(1), np.empty(0, dtype=np.int64)
    labels, handles, reasons = np.array(["undeclared"]), place.astype(np.uint64), np.empty(0, dtype=np.str_)
    body = Summary(rows, labels, place, handles, one, one, one, 1, none, none, reasons, packed)
    with pytest.raises(IllegalMessage, match="none of the declared values"):
        made.take(Message(run.terms.run, run.terms.digest, "curator", "new-clinic", 0, body))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"run": None}, "needs a name"),
        ({"run": "a/b"}, "names a folder"),
        ({"consumer": "other"}, "must be new-clinic"),
        ({"noise": "simulated"}, "noise is secret"),
        ({"weights": True, "protocol": "interactive"}, "go with the sealed protocol"),
        ({"gamma": -0.5}, "gamma"),
        ({"gamma_scale": 1e300}, "is too large for these rows"),
        ({"purpose": "x" * 501}, "purpose"),
        ({"owners": {f"o{place}": f"network:o{place}" for place in range(1025)}}, "more than anybody can mean"),
        ({"protocol": "interactive", "size": 10_001}, "more than anybody can mean"),
    ],
)
def test_what_cannot_be_carried_is_refused_before_anything_is_spent(
    home: ConsumerHome, changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        invited(home, **changes)
    with Ledger(home.ledger) as ledger:
        assert not [entry for entry in ledger.entries() if entry.kind == "reserve"]
    assert home.runs() == []


def test_a_name_stands_for_one_job(home: ConsumerHome) -> None:
    invited(home)
    with pytest.raises(InvalidArgument, match="is known under another job"):
        invited(home, size=7)
    assert [one.name for one in home.runs()] == ["run-1"]


def test_another_runs_summary_is_not_taken_for_this_one(home: ConsumerHome) -> None:
    run = invited(home)
    hold(home.folder.parent)
    other = invited(home, run="run-2", epsilon=0.0, offers="uniform")
    (other.folder / "summary.bin").write_bytes((run.folder / "summary.bin").read_bytes())
    with pytest.raises(BadDocument, match="is not the summary of this run"):
        collect(other)


def test_files_of_a_run_are_the_consumers_own(home: ConsumerHome) -> None:
    run = invited(home)
    assert np.load(run.folder / "target.npy").shape == (30, run.terms.kernel.columns)
    assert (run.folder / "target.npy").stat().st_mode & 0o077 == 0
    assert run.folder.stat().st_mode & 0o077 == 0
    assert run.invitation_path.name == "run-1.invitation"
    assert run.invitation_path.stat().st_mode & 0o077 == 0


def test_days_are_counted_from_today() -> None:
    from datetime import UTC, datetime

    assert expiry(30, now=datetime(2028, 2, 1, 23, tzinfo=UTC)) == "2028-03-02"


def test_a_directory_of_something_else_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgument, match="holds something already"):
        make_consumer_home(tmp_path, name="x")
    with pytest.raises(InvalidArgument, match="is not the directory of a consumer"):
        _ = ConsumerHome(tmp_path).connection
