"""How long a job takes, from a made-up machine: every second can be counted by hand. No clock is looked at."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import job_world
from job_world import World, rows, write
from likeset.protocol.planned_terms import PlannedTerms
from likeset.run.expected_time import Calibration, PassCost, expected_time
from likeset.run.job import Job
from likeset.run.job_plan import JobPlan, plan_job
from likeset.tables.sources.file_sizes import expected_rows, file_kind

NOTHING = Calibration(
    piece=0.0,
    pair=0.0,
    pick=0.0,
    pick_row=0.0,
    cubic=0.0,
    write=0.0,
    passes={"csv": PassCost(0.0, 0.0, 0.0)},
    cores=1,
)
PASSES = "passing over owners' rows"


@pytest.fixture(autouse=True)
def little_calibration() -> None:
    """Here this machine is measured in full."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World.make(tmp_path_factory.mktemp("market"))


def planned(world: World, **changed: Any) -> JobPlan:
    given: dict[str, Any] = {
        "schema": str(world.folder / "schema.yaml"),
        "target": str(world.folder / "target.csv"),
        "owners": {name: str(world.place(name)) for name in job_world.OWNERS},
        "size": job_world.SIZE,
        "epsilon": float(job_world.EPSILON),
        "out": str(world.out),
    }
    return plan_job(Job.of(**(given | changed)))


@pytest.fixture(scope="module")
def terms(world: World) -> PlannedTerms:
    return replace(
        planned(world).terms, owners=("a", "b"), quorum=2, size=100, target_size=60, offer_factor=10.0, thinning=True
    )


def parts(terms: PlannedTerms, calibration: Calibration, count: int = 10_000, **changed: Any) -> dict[str, float]:
    given: dict[str, Any] = {"folds": 0, "classes": False, **changed}
    files = dict.fromkeys(terms.owners, ("csv", count))
    told = expected_time(terms, files, calibration, **given)
    return {name: seconds for name, seconds in told.parts.items() if seconds is not None}


def test_rows_are_read_and_checked_once_and_read_and_scored_once(terms: PlannedTerms) -> None:
    """Two owners of 10,000 rows: 2e4 * (1 + 10) microseconds for the first pass, 2e4 * (1 + 100) for the second."""
    slow = replace(NOTHING, passes={"csv": PassCost(1e-6, 1e-5, 1e-4)})
    assert parts(terms, slow)[PASSES] == pytest.approx(2e4 * (11e-6 + 101e-6))
    assert parts(terms, slow, count=20_000)[PASSES] == pytest.approx(4e4 * (11e-6 + 101e-6))


def test_cores_share_the_second_pass_as_far_as_reading_allows(terms: PlannedTerms) -> None:
    """The file is read by one at a time: with very many cores the second pass takes what reading takes."""
    slow = replace(NOTHING, passes={"csv": PassCost(1e-6, 1e-5, 1e-4)})
    assert parts(terms, replace(slow, cores=2))[PASSES] == pytest.approx(2e4 * (11e-6 + 101e-6 / 2))
    assert parts(terms, replace(slow, cores=1000))[PASSES] == pytest.approx(2e4 * (11e-6 + 1e-6))


def test_uniform_offers_score_nothing(terms: PlannedTerms) -> None:
    slow = replace(NOTHING, passes={"csv": PassCost(1e-6, 1e-5, 1e-4)})
    uniform = replace(terms, offers="uniform")
    assert parts(uniform, slow)[PASSES] == pytest.approx(2e4 * (11e-6 + 11e-6))
    assert "drawing offers" not in parts(uniform, slow)


def test_a_selection_costs_pairs_and_picks_and_as_much_again_for_every_fold(terms: PlannedTerms) -> None:
    """A pool of 1,000 rows: 1,000 * 60 pairs, and 100 picks, each of which looks at 1,000 rows."""
    pool = 2 * terms.rows_per_owner
    slow = replace(NOTHING, pair=1e-6, pick=1e-2, pick_row=1e-5)
    alone = pool * 60 * 1e-6 + 100 * (1e-2 + pool * 1e-5)
    assert parts(terms, slow)["selecting"] == pytest.approx(alone)
    assert parts(terms, slow, folds=5)["selecting"] == pytest.approx(6 * alone)


def test_labels_cost_one_regression_for_all_folds(terms: PlannedTerms) -> None:
    slow = replace(NOTHING, cubic=1e-9)
    assert parts(terms, slow)["selecting"] == 0.0
    once = parts(terms, slow, classes=True)["selecting"]
    assert once is not None
    assert parts(terms, slow, classes=True, folds=5)["selecting"] == once > 0.0


def test_many_offers_are_projected_on_landmarks_so_that_time_grows_with_their_number(terms: PlannedTerms) -> None:
    many, more = (replace(terms, offer_factor=factor) for factor in (100.0, 200.0))
    slow = replace(NOTHING, cubic=1e-9)
    fixed = 1e-9 * 500**3
    first, second = (parts(each, slow, classes=True)["selecting"] - fixed for each in (many, more))
    assert second == pytest.approx(first * more.rows_per_owner / many.rows_per_owner)


def test_owners_thin_only_what_they_have_more_of_than_they_offer(terms: PlannedTerms) -> None:
    """Six candidates for each offered row, held against 2,500 rows that stand for the table, and one another."""
    slow = replace(NOTHING, pair=1e-6)
    offered = terms.rows_per_owner
    candidates = 6 * offered
    thinned = candidates * (2500 + candidates) + offered * candidates
    assert parts(terms, slow)["drawing offers"] == pytest.approx(2e-6 * thinned)
    assert parts(terms, slow, count=terms.rows_per_owner)["drawing offers"] == 0.0
    assert parts(replace(terms, thinning=False), slow)["drawing offers"] == 0.0


def test_interactive_rounds_cost_durable_writes_of_every_owner(world: World) -> None:
    """Three owners, five rounds, three and a half writes each."""
    rounds = planned(world, protocol="interactive", size=5).terms
    told = parts(rounds, replace(NOTHING, write=0.01))
    assert told["rounds"] == pytest.approx(3 * 5 * 3.5 * 0.01)
    assert "selecting" not in told


def test_what_is_not_known_has_no_number_and_says_why(terms: PlannedTerms) -> None:
    files: dict[str, tuple[str, int | None]] = {"a": ("csv", 10), "b": ("", None)}
    told = expected_time(terms, files, replace(NOTHING, pick=1e-2), folds=0, classes=False, unknown=("b is a query",))
    assert told.seconds is None
    assert told.parts[PASSES] is None
    assert "not known: b is a query. The rest takes about 1 s, for this machine" in told.words
    assert told.document()["seconds_by_part"]["selecting"] == pytest.approx(1.0)


def test_a_known_time_names_what_takes_most_of_it(terms: PlannedTerms) -> None:
    few = dict.fromkeys("ab", ("csv", 10))
    told = expected_time(terms, few, replace(NOTHING, pick=1e-2), folds=0, classes=False)
    assert told.seconds == pytest.approx(sum(part or 0.0 for part in told.parts.values()), abs=0.1)
    assert "selecting takes most of it" in told.words


def test_this_machine_is_measured_for_every_kind_of_file_and_column(world: World) -> None:
    """A CSV file and a Parquet file: each part is there and has a number."""
    document = planned(world).document()
    assert document["seconds"] > 0
    assert set(document["seconds_by_part"]) == {
        "starting and reporting", PASSES, "drawing offers", "selecting",
    }  # fmt: skip
    assert "for this machine" in document["seconds_in_words"]


def test_a_split_curator_is_told_by_a_rule_that_says_so(world: World) -> None:
    document = planned(world, curator="split").document()
    assert document["seconds_by_part"]["computing on shares"] == document["split_seconds"]
    assert "a rule set by hand" in document["seconds_in_words"]


def test_rows_of_a_file_are_told_by_its_size_or_its_footer(tmp_path: Path) -> None:
    """A text of 100 lines of 8 bytes, packed and not; a footer that says 60; a directory of two such files."""
    text = b"number,a\n" + b"1234,ab\n" * 100
    (tmp_path / "rows.csv").write_bytes(text)
    assert expected_rows(str(tmp_path / "rows.csv"), row_bytes=8.0) == pytest.approx(100, abs=1)
    import gzip

    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(text))
    assert expected_rows(str(tmp_path / "rows.csv.gz"), row_bytes=8.0) == pytest.approx(100, abs=1)
    many = tmp_path / "many"
    many.mkdir()
    for name in ("one.parquet", "two.parquet"):
        write(many / name, rows(60, seed=1, age=60.0, whose=name))
    assert expected_rows(str(many / "one.parquet"), row_bytes=0.0) == 60
    assert expected_rows(str(many), row_bytes=0.0) == 120


@pytest.mark.parametrize("address", ["sql:SELECT 1", "sqlite:a.db?table=b", "postgres://h/d?table=t", "gone.csv"])
def test_what_is_no_file_has_no_kind_and_no_number_of_rows(address: str) -> None:
    assert file_kind(address) is None
    assert expected_rows(address, row_bytes=8.0) is None


def test_a_damaged_file_has_no_number_of_rows(tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").write_bytes(b"PAR1 and no more")
    assert expected_rows(str(tmp_path / "rows.parquet"), row_bytes=0.0) is None
    with pa.OSFile(str(tmp_path / "rows.arrow"), "wb") as file:
        file.write(b"")
    assert file_kind(str(tmp_path / "rows.arrow")) is None
