"""Data frames with columns of all kinds, by a schema: pandas, polars and Arrow in, the same out."""

import pickle
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa
import pytest

from chance import pinned_coins
from likeset import LikesetWarning, Schema, Summarizer, evaluate
from likeset.errors import InvalidArgument

DECLARED = """
likeset: schema
version: 1
columns:
  age: {kind: numeric, bounds: [0, 100], missing: indicator}
  sex: {kind: category, values: [f, m]}
label: {column: ill, kind: category, values: [0, 1]}
id: {column: who, rows_per_id: 2}
"""
SCHEMA = Schema.from_text(DECLARED)
NOTES = """
likeset: schema
version: 1
columns:
  note: {kind: text, width: 8}
text_bytes: 5
"""

Convert = Callable[[pd.DataFrame], Any]
KINDS: dict[str, Convert] = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
}


def frame(seed: int, rows: int, ages: tuple[int, int], *, labelled: bool = True) -> pd.DataFrame:
    coins = pinned_coins(seed)
    columns = {
        "note": ["not declared"] * rows,
        "age": coins.integers(*ages, rows).astype(float),
        "sex": coins.choice(["f", "m"], rows),
        "who": np.arange(rows) // 2,
    }
    return pd.DataFrame(columns | ({"ill": coins.integers(0, 2, rows)} if labelled else {}))


TARGET = frame(0, 30, (60, 90), labelled=False)
OWNERS = {"north": frame(1, 120, (20, 95)), "south clinic": frame(2, 80, (10, 50))}


def fitted(convert: Convert = KINDS["pandas"], **settings: Any) -> Summarizer:
    kept = {"schema": SCHEMA, "offers": "uniform", "random_state": 5, "noise": "simulated", **settings}
    return Summarizer(20, **kept).fit(convert(TARGET), {name: convert(table) for name, table in OWNERS.items()})


def records(summary: Any) -> list[dict[str, Any]]:
    if isinstance(summary, pd.DataFrame):
        return list(summary.to_dict("records"))
    return list(summary.to_pylist() if isinstance(summary, pa.Table) else summary.to_dicts())


@pytest.mark.parametrize("kind", KINDS)
def test_the_selected_rows_come_back_as_the_kind_that_was_given(kind: str) -> None:
    """In declared columns only, each as in its owner's frame, with label, owner and weight; without the id."""
    matched = fitted(KINDS[kind])
    assert type(matched.summary_).__module__.split(".")[0] == kind
    rows = records(matched.summary_)
    assert len(rows) == 20
    assert matched.labels_ is not None
    for row, (owner, number), label in zip(rows, matched.indices_, matched.labels_, strict=True):
        own = OWNERS[owner].iloc[number]
        assert row == {**{name: own[name] for name in ("age", "sex", "ill")}, "owner": owner, "weight": 0.05}
        assert row["ill"] == label


@pytest.mark.parametrize("kind", ["pandas", "pyarrow"])
def test_nothing_undeclared_leaves_beside_the_cells_of_the_rows_bought(kind: str) -> None:
    """Not an index, not metadata, not the words of rows that stay in a categorical column or a dictionary."""
    schema = Schema.from_text(
        "{likeset: schema, version: 1, columns: {age: {kind: numeric, bounds: [0, 100]}, note: {kind: text, width: 8}}}"
    )
    owner = pd.DataFrame({"age": [*range(40), *[90.0] * 10], "note": ["well"] * 40 + ["CANARY"] * 10})
    owner = owner.astype({"note": "category"}).set_index(
        pd.Index([f"CANARY-{row}" for row in range(50)], name="CANARY")
    )
    owner.attrs["CANARY"] = "CANARY"
    given: Any = owner if kind == "pandas" else pa.Table.from_pandas(owner)
    target = given[:20] if kind == "pandas" else given.slice(0, 20)
    matched = Summarizer(5, schema=schema, offers="uniform").fit(target, {"north": given})
    left = matched.summary_
    assert [row["note"] for row in records(left)] == ["well"] * 5
    stored = pa.BufferOutputStream()
    as_table = pa.Table.from_pandas(left) if kind == "pandas" else left
    with pa.ipc.new_stream(stored, as_table.schema) as writer:
        writer.write_table(as_table)
    assert b"CANARY" not in stored.getvalue().to_pybytes()
    assert b"CANARY" not in pickle.dumps(left)


@pytest.mark.parametrize("kind", ["pandas", "pyarrow"])
def test_without_a_schema_no_value_of_a_row_that_stays_leaves_in_a_dictionary(kind: str) -> None:
    owner = pd.DataFrame({"x": [*np.linspace(0.0, 1.0, 40), 9.0], "y": [0, 1] * 20 + [7]}).astype({"y": "category"})
    owner.index = [f"CANARY-{row}" for row in range(41)]
    given: Any = owner if kind == "pandas" else pa.Table.from_pandas(owner, preserve_index=False)
    target = given[:20] if kind == "pandas" else given.slice(0, 20)
    left = Summarizer(5, offers="uniform", gamma=1.0).fit(target, {"north": given}).summary_
    as_table = pa.Table.from_pandas(left) if kind == "pandas" else left
    assert (as_table.column_names, as_table.schema.types) == (["x", "y"], [pa.float64(), pa.int64()])
    assert b"CANARY" not in pickle.dumps(left), "an index may hold names of persons"


def test_in_many_rounds_too_rows_that_are_too_long_take_no_part_and_numbers_stay_those_of_the_frame() -> None:
    owner = frame(1, 90, (20, 95)).assign(note=["much too long", "ab", "cd"] * 30)
    target = frame(0, 30, (60, 90)).assign(note="ab")
    declared = NOTES.replace("columns:", "columns:\n  age: {kind: numeric, bounds: [0, 100]}")
    settings: dict[str, Any] = {"protocol": "interactive", "epsilon": 8.0, "release_gamma": 0.5, "noise": "simulated"}
    with pytest.warns(LikesetWarning, match="rows with a text of more than 5 bytes"):
        matched = Summarizer(3, schema=Schema.from_text(declared), **settings).fit(target, {"north": owner})
    numbers = [row for _, row in matched.indices_]
    assert matched.summary_.age.tolist() == owner.age[numbers].tolist()
    assert matched.summary_.note.tolist() == owner.note[numbers].tolist()
    assert not set(matched.summary_.note) - {"ab", "cd"}


def test_rows_with_a_text_that_is_too_long_take_no_part_and_numbers_stay_those_of_the_frame() -> None:
    owner = pd.DataFrame({"note": ["much too long", "ab", "cd", "much too long", "ef"]})
    target = pd.DataFrame({"note": ["ab", "cd"]})
    with pytest.warns(LikesetWarning, match="rows with a text of more than 5 bytes"):
        matched = Summarizer(3, schema=Schema.from_text(NOTES), offers="uniform").fit(target, {"north": owner})
    assert sorted(matched.indices_) == [("north", 1), ("north", 2), ("north", 4)]
    assert sorted(matched.summary_.note) == ["ab", "cd", "ef"]


@pytest.mark.parametrize(
    ("change", "argument", "words"),
    [
        ({"labels": {"north": [0], "south clinic": [1]}}, "labels", "label"),
        ({"owners": {"north": pl.from_pandas(OWNERS["north"])}}, "owners['north']", "same kind"),
        ({"owners": {"north": np.zeros((3, 2))}}, "owners['north']", "same kind"),
        ({"target": np.zeros((3, 2))}, "target", "likeset.match"),
        ({"target": "mine.csv"}, "target", "likeset.match"),
    ],
)
def test_what_does_not_go_with_a_schema_is_refused_by_name(change: dict[str, Any], argument: str, words: str) -> None:
    given: dict[str, Any] = {"target": TARGET, "owners": OWNERS, **change}
    with pytest.raises(InvalidArgument, match=words) as caught:
        Summarizer(5, schema=SCHEMA).fit(**given)
    assert caught.value.argument == argument


@pytest.mark.parametrize(("name", "value"), [("schema", 3), ("rows_per_unit", 2)])
def test_a_setting_that_does_not_go_with_a_schema_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        fitted(**{name: value})
    assert caught.value.argument == name


ONE_EACH = Schema.from_text(DECLARED.replace("rows_per_id: 2", "keep: 1"))


@pytest.mark.parametrize("kind", KINDS)
def test_of_each_person_as_many_rows_take_part_as_the_schema_keeps(kind: str) -> None:
    """Two rows a person: 15 of the target's 30 rows, 60 and 40 of the owners' are the most that anybody may count."""
    matched = fitted(KINDS[kind], schema=ONE_EACH, offer_factor=1000.0)
    assert (matched.terms_.rows_per_unit, matched.terms_.target_size, matched.rows_seen_) == (1, 15, 100)
    people = [(owner, OWNERS[owner]["who"].iloc[row]) for owner, row in matched.indices_]
    assert len(set(people)) == len(people) == 20
    ages = [OWNERS[owner]["age"].iloc[row] for owner, row in matched.indices_]
    assert [record["age"] for record in records(matched.summary_)] == ages


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_schema_text_columns_are_named_and_the_way_to_a_schema_too(kind: str) -> None:
    convert = KINDS[kind]
    with pytest.raises(InvalidArgument, match=r"schema=.*Schema\.draft") as caught:
        Summarizer(5).fit(convert(TARGET), {name: convert(table) for name, table in OWNERS.items()})
    assert "'note'" in str(caught.value)
    assert "'sex'" in str(caught.value)
    assert "'age'" not in str(caught.value)


class TestWarnings:
    def test_each_is_told_as_a_warning_of_its_own_class(self) -> None:
        with pytest.warns(LikesetWarning) as told:
            matched = fitted(allow_fewer=True, offer_factor=0.5)
        notices = [warning.message.notice for warning in told if isinstance(warning.message, LikesetWarning)]
        assert tuple(notices) == matched.warnings_
        assert any(notice.kind == "few-rows" for notice in notices)
        assert {Path(warning.filename) for warning in told} != {Path(sys.modules[Summarizer.__module__].__file__ or "")}

    def test_they_can_be_made_errors_that_stop_a_run_before_it_spends(self, tmp_path: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error", LikesetWarning)
            with pytest.raises(LikesetWarning, match="simulated"):
                fitted(ledger=tmp_path / "ledger")
        assert not (tmp_path / "ledger").exists(), "nothing was spent"


class TestNotebook:
    def test_a_fitted_summarizer_tells_its_story(self) -> None:
        matched = fitted()
        for page in (matched._repr_html_(), matched._repr_mimebundle_()["text/html"]):
            assert "<b>20 rows</b> from" in page
            assert all(word in page for word in ("south clinic", "MMD²", "Labels: ", "any owners about the target"))
            assert "simulated, not private" in page

    def test_names_and_labels_are_text_and_no_markup(self) -> None:
        owner = pd.DataFrame({"x": [0.1, 0.2, 0.3, 0.4]})
        labels = {"<script>": ["<b>"] * 4}
        page = Summarizer(2, offers="uniform").fit(owner, {"<script>": owner}, labels)._repr_html_()
        assert "<script>" not in page
        assert "&lt;b&gt;: 2" in page

    def test_a_bar_shows_the_progress_and_goes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pages = notebook(monkeypatch, kernel=object())
        fitted()
        assert any("<progress" in page for page in pages)
        assert pages[-1] == ""


def notebook(monkeypatch: pytest.MonkeyPatch, *, kernel: object) -> list[str]:
    """As much of IPython as is used; returns what it is told to show."""
    shown: list[str] = []
    shell, display = ModuleType("IPython"), ModuleType("IPython.display")

    def show(page: str, *, display_id: bool) -> Any:
        assert display_id
        shown.append(page)
        return SimpleNamespace(update=shown.append)

    monkeypatch.setattr(shell, "get_ipython", lambda: SimpleNamespace(kernel=kernel), raising=False)
    monkeypatch.setattr(display, "HTML", str, raising=False)
    monkeypatch.setattr(display, "display", show, raising=False)
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return shown


@pytest.mark.usefixtures("few_trees")
class TestEvaluate:
    TEST = frame(3, 60, (60, 90))

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", KINDS)
    def test_frames_are_read_by_the_schema_with_the_labels_in_them(self, kind: str) -> None:
        bought = fitted().summary_
        summary = KINDS[kind](bought.reset_index(drop=True))
        judged = evaluate(summary, test_rows=KINDS[kind](self.TEST), schema=SCHEMA, resamples=100)
        plain = evaluate(
            SCHEMA.transformer().transform(bought),
            bought.ill.to_numpy(),
            test_rows=SCHEMA.transformer().transform(self.TEST),
            test_labels=self.TEST.ill.to_numpy(),
            test_ids=self.TEST.who.to_numpy(),
            resamples=100,
        )
        assert judged == plain

    def test_labels_must_come_from_somewhere(self) -> None:
        with pytest.raises(InvalidArgument, match="give a label"):
            evaluate(np.zeros((3, 2)), test_rows=np.zeros((3, 2)), test_labels=[0, 1, 0])
        bare = Schema.from_text("{likeset: schema, version: 1, columns: {age: {kind: numeric, bounds: [0, 100]}}}")
        with pytest.raises(InvalidArgument, match="declare the label"):
            evaluate(self.TEST, test_rows=self.TEST, schema=bare)
