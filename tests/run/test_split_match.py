"""A split curator in one process: the same result, and what is lost is said; workers are stood in for."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow.parquet as pq
import pytest
from shared_run_world import clear_picks
from sklearn.datasets import load_digits
from split_world import needs_engine

from job_world import OWNERS as OWNERS_OF_FILES
from job_world import SIZE, World, call
from likeset import Schema, Summarizer
from likeset.errors import InvalidArgument
from likeset.run import here
from likeset.split.host import PYTHON_VARIABLE
from summarizer_world import OWNERS as OWNERS_OF_ARRAYS
from summarizer_world import TARGET as TARGET_OF_ARRAYS
from summarizer_world import simulated as simulated_of_arrays

GAMMA = 0.3
SCHEMA = Schema.from_text("""
likeset: schema
version: 1
columns:
  a: {kind: numeric, bounds: [-4, 4], outside: clip}
  b: {kind: numeric, bounds: [-4, 4], outside: clip}
  c: {kind: numeric, bounds: [-4, 4], outside: clip}
""")
DIGITS = Schema.from_text("""
likeset: schema
version: 1
columns:
  image: {kind: vector, width: 64, bounds: [0, 16], weight: 8}
""")
TARGET = pd.DataFrame(TARGET_OF_ARRAYS, columns=["a", "b", "c"])
OWNERS = {name: pd.DataFrame(rows, columns=["a", "b", "c"]) for name, rows in OWNERS_OF_ARRAYS.items()}


def simulated(**settings: Any) -> Summarizer:
    return simulated_of_arrays(schema=SCHEMA, **settings)


@pytest.fixture
def without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The public program in the clear, in this process."""
    monkeypatch.setattr(here, "compute_here", lambda inputs, **_: clear_picks(inputs))
    monkeypatch.setattr(here, "split_python", lambda: Path("nowhere"))


@pytest.mark.usefixtures("without_workers")
def test_a_split_curator_selects_as_well_as_a_trusted_one() -> None:
    """The same coins give the same offers; both swap after greedy, each in its own order."""
    split = simulated(gamma=GAMMA, curator="split", labels="ignore", folds=0)
    trusted = simulated(gamma=GAMMA, labels="ignore", folds=0)
    split.fit(TARGET, OWNERS)
    trusted.fit(TARGET, OWNERS)
    assert split.in_sample_squared_mmd_ <= 1.03 * trusted.in_sample_squared_mmd_
    assert split.gamma_ == GAMMA
    assert split.terms_.split is not None
    assert set(split.terms_.cards) == {*split.terms_.owners, "consumer", "curator", "witness"}


@pytest.mark.usefixtures("without_workers")
def test_what_a_split_curator_loses_is_said() -> None:
    fitted = simulated(curator="split").fit(TARGET, OWNERS)
    assert [note.kind for note in fitted.warnings_][1:] == [
        "split-curator",
        "labels-not-matched",
        "distance-in-sample",
        "public-width",
    ]
    assert fitted.distance_ is None
    assert fitted.label_weight_ == 0.0
    assert fitted.gamma_ == pytest.approx(0.1)  # of the release's width, and not of the target's distances
    shared = [planned for planned in fitted.guarantees_ if planned.shared]
    assert {planned.view.observer for planned in shared} == {"curator"}
    assert len(shared) == len(OWNERS) + 1


@pytest.mark.usefixtures("without_workers")
def test_a_run_goes_on_with_the_cards_and_shares_that_it_began_with(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.sqlite"
    settings: dict[str, Any] = {"curator": "split", "gamma": GAMMA, "ledger": ledger, "noise": "secret"}
    settings |= {"random_state": None, "epsilon": 4.0}
    first = simulated(**settings).fit(TARGET, OWNERS)
    again = simulated(**settings).fit(TARGET, OWNERS)
    assert first.terms_ == again.terms_
    assert first.indices_ == again.indices_


@pytest.mark.usefixtures("without_workers")
def test_match_writes_the_records_of_the_rows_that_were_bought(tmp_path: Path) -> None:
    """Columns, missing cells and labels as their owners have them: they went through compact records and envelopes."""
    world = World.make(tmp_path)
    assert call("match", world.options(curator="split")) == 0
    table = pq.read_table(world.out / "summary.parquet")
    assert table.num_rows == SIZE
    bought = set(zip(*(table.column(name).to_pylist() for name in table.column_names[:5]), strict=True))
    assert bought <= set().union(*map(world.cells, OWNERS_OF_FILES))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"protocol": "interactive"}, "need a trusted curator"),
        ({"auction": "threshold"}, "need a trusted curator"),
        ({"offers": "uniform", "release_gamma": None}, "gamma"),
        ({"gamma": 1e4}, "too large for a split curator"),
        ({"curator": "both"}, "curator"),
        ({"schema": None}, "needs a schema"),
    ],
)
def test_what_a_split_curator_cannot_do_is_said_before_anything_is_spent(options: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgument, match=named):
        simulated_of_arrays(**{"curator": "split", "schema": SCHEMA, **options}).fit(TARGET, OWNERS)


def test_without_an_environment_for_workers_nothing_is_spent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PYTHON_VARIABLE, str(tmp_path / "bin" / "python"))
    ledger = tmp_path / "ledger.sqlite"
    with pytest.raises(InvalidArgument, match="likeset split setup"):
        simulated(curator="split", ledger=ledger).fit(TARGET, OWNERS)
    assert not ledger.exists()


def test_the_plan_tells_who_reads_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = World.make(tmp_path)
    assert call("plan", world.options(curator="split", out=None)) == 0
    assert "that nobody reads" in " ".join(capsys.readouterr().out.split())
    assert call("plan", world.options(curator="split", out=None, json=True)) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["curator"] == "split"
    assert {note["kind"] for note in document["notes"]} >= {"split-curator", "public-width"}


@pytest.mark.soak
@needs_engine
def test_with_real_workers_digits_are_matched_as_well_as_by_a_trusted_curator() -> None:
    """At most 1.03 times its MMD², with the trusted curator's swaps."""
    rows, classes = load_digits(return_X_y=True)
    coins = np.random.default_rng(0)
    wanted = coins.permutation(np.flatnonzero(np.isin(classes, (3, 4))))[:100]
    rest = coins.permutation(np.setdiff1d(np.arange(len(rows)), wanted))
    owners = {f"owner-{place}": pd.DataFrame({"image": list(rows[rest[place::4]])}) for place in range(4)}
    found = {}
    for who in ("trusted", "split"):
        options: dict[str, Any] = {"noise": "simulated", "random_state": 3, "curator": who, "schema": DIGITS}
        fitted = Summarizer(30, gamma=0.08, labels="ignore", folds=0, epsilon=4.0, **options)
        fitted.fit(pd.DataFrame({"image": list(rows[wanted])}), owners)
        found[who] = fitted.in_sample_squared_mmd_
    assert found["split"] <= 1.03 * found["trusted"]
