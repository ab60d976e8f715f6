"""What is given to the Summarizer: scales, and bad input, which is refused by name before anything is spent."""

import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from likeset import Interactive, LikesetWarning, Summarizer
from likeset.errors import InvalidArgument
from likeset.simulation import digits_market
from likeset.tables.frames import MarketArrays
from summarizer_world import LABELS, OWNERS, PAPER, PAPER_PARTS, TARGET, rows, simulated

Tables = tuple[NDArray[Any], dict[str, NDArray[Any]]]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_rows_come_back_as_the_kind_of_table_that_was_given(make: Any) -> None:
    tables = {name: make({"a": table[:, 0], "b": table[:, 1]}) for name, table in OWNERS.items()}
    found = simulated(4).fit(make({"a": TARGET[:, 0], "b": TARGET[:, 1]}), tables)
    assert type(found.summary_) is type(next(iter(tables.values())))
    for place, name in enumerate("ab"):
        expected = [OWNERS[owner][row, place] for owner, row in found.indices_]
        np.testing.assert_array_equal(found.summary_[name], expected)


class TestScales:
    @pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler()])
    def test_a_scaler_that_saw_the_target_only_is_noticed(self, scaler: Any) -> None:
        market = digits_market(coins=np.random.default_rng(3))
        raw = {name: 16.0 * table for name, table in market.owners.items()}
        options: dict[str, Any] = {"offers": "uniform", "noise": "simulated", "random_state": 1, "release_gamma": 0.05}
        pipeline = make_pipeline(scaler, Summarizer(20, **options)).fit(16.0 * market.target, raw)
        (told,) = [one for one in pipeline[-1].warnings_ if one.kind == "different-scales"]
        assert len(told.details["columns"]) > 30
        alike = {name: scaler.transform(table) for name, table in raw.items()}
        for target, owners in (
            (market.target, market.owners),
            (16.0 * market.target, raw),
            (scaler.transform(16.0 * market.target), alike),
        ):
            assert Summarizer(20, **options).fit(target, owners).warnings_ == ()

    @pytest.mark.parametrize("side", ["target", "north clinic", "all owners"])
    @pytest.mark.parametrize("change", [lambda x: 20.0 * x, lambda x: x / 10.0, lambda x: x + 30.0])
    def test_one_column_in_another_unit_is_named(self, side: str, change: Any) -> None:
        """A shift is seen only if it takes all owners away from the target: one owner may be elsewhere."""
        sides = ["target"] if side == "target" else [side] if side in OWNERS else [*OWNERS]
        tables = {name: table.copy() for name, table in {"target": TARGET, **OWNERS}.items()}
        for name in sides:
            tables[name][:, 1] = change(tables[name][:, 1])
        target = tables.pop("target")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = simulated(3, offers="uniform").fit(target, tables).warnings_
        told = [one for one in found if one.kind == "different-scales"]
        if side == "north clinic" and change(0.0) == 30.0:
            assert told == []
            return
        assert told[0].details["columns"] == ("1",)
        named = [name for name in OWNERS if name in told[0].text]
        assert named == (sides if side == "north clinic" else [*OWNERS])


def test_very_many_whole_numbers_as_labels_are_announced() -> None:
    starts = np.cumsum([0, *map(len, OWNERS.values())])
    whole = {name: start + np.arange(len(table)) for start, (name, table) in zip(starts, OWNERS.items(), strict=False)}
    assert starts[-1] > 100
    classes = {name: labels % 100 for name, labels in whole.items()}
    for labels, told in (
        (whole, ["labels-are-classes"]),
        (classes, []),
        ({name: values + 0.5 for name, values in whole.items()}, []),
    ):
        found = simulated(3, offers="uniform").fit(TARGET, OWNERS, labels)
        assert [notice.kind for notice in found.warnings_ if notice.kind.startswith("labels")] == told
    ignored = simulated(3, offers="uniform", labels="ignore").fit(TARGET, OWNERS, whole)
    assert not [notice for notice in ignored.warnings_ if notice.kind == "labels-are-classes"]


def test_whole_floats_as_labels_are_matched_as_the_integers_are() -> None:
    whole = {name: (table[:, 0] > np.median(table[:, 0])).astype(int) for name, table in OWNERS.items()}
    floats = {name: labels.astype(float) for name, labels in whole.items()}
    halves = {name: labels + 0.5 for name, labels in floats.items()}
    skills = [simulated(6).fit(TARGET, OWNERS, labels).label_skill_ for labels in (whole, floats, halves)]
    assert skills[0] == skills[1] > 0.0
    assert skills[2] == 0.0


HOLED = np.array([*rows(2, 17), [0.0, 0.0, np.nan]])
BAD_DATA: list[tuple[str, dict[str, Any]]] = [
    (r"owners", {"owners": {}}),
    (r"owners", {"owners": list(OWNERS.values())}),
    (r"owners", {"owners": None}),
    (r"owners\['south'\].*2 columns where target has 3", {"owners": {**OWNERS, "south": rows(2, 9)[:, :2]}}),
    (r"owners\['south'\].*NaN in row 17, column 2", {"owners": {**OWNERS, "south": HOLED}}),
    (r"owners\['south'\].*no rows", {"owners": {**OWNERS, "south": rows(2, 9)[:0]}}),
    (r"owners\['south'\].*text", {"owners": {"south": [["a", "b", "c"]]}}),
    (r"owners", {"owners": {"a b": rows(1, 9), "a_b": rows(2, 9)}}),
    (r"owners", {"owners": {1: rows(1, 9), "1": rows(2, 9)}}),
    (r"owners.*curator", {"owners": {"curator": rows(1, 9)}}),
    (r"labels.*west/2", {"labels": {name: LABELS[name] for name in ("north clinic", "south")}}),
    (r"labels\['south'\].*50 rows", {"labels": {**LABELS, "south": LABELS["west/2"]}}),
    (r"labels", {"labels": [1, 2, 3]}),
    (r"labels\['south'\]", {"labels": {**LABELS, "south": np.array(["word"] * 50)}}),
    (r"1001 letters", {"labels": {name: ["x" * 1001] * len(LABELS[name]) for name in LABELS}}),
    (r"labels\['south'\]", {"labels": {**LABELS, "south": [[1], [2, 3]]}}),
    (r"labels\['south'\].*50 of 50 labels", {"labels": {**LABELS, "south": np.array([None] * 50)}}),
    (r"labels\['south'\].*1 of 50 labels", {"labels": {**LABELS, "south": [np.nan, *[0.0, 1.0, 0.5] * 16, 1.0]}}),
    (r"labels\['south'\].*2 of 50 labels", {"labels": {**LABELS, "south": pd.array([1, None] + [2] * 47 + [None])}}),
    (r"labels\['south'\]", {"labels": {**LABELS, "south": np.array(["word", 1] * 25, dtype=object)}}),
    (r"labels\['south'\]", {"labels": {**LABELS, "south": np.full(50, "2020-01-01", dtype="M8[D]")}}),
    (r"target", {"target": rows(0, 30)[0]}),
    (r"target.*no rows", {"target": rows(0, 30)[:0]}),
    (r"target.*two rows", {"target": rows(0, 1)}),
    (r"target.*equal", {"target": np.ones((30, 3))}),
    (r"target", {"target": None}),
    (r"public_rows.*2 columns", {"public_rows": rows(0, 30)[:, :2]}),
]


@pytest.mark.parametrize(("words", "changes"), BAD_DATA)
def test_bad_data_are_refused_by_name(words: str, changes: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    data: dict[str, Any] = {"target": TARGET, "owners": OWNERS, "labels": None, **changes}
    with pytest.raises(InvalidArgument, match=words):
        simulated(ledger=path).fit(**data)
    assert not path.exists()


@pytest.mark.parametrize(
    ("argument", "words", "settings"),
    [
        ("size", "180 rows that all owners can", {"size": 10**6}),
        ("size", "180 rows that all owners can", {"size": 181, "protocol": "interactive", "dimension": 32}),
        ("size", "170 rows that all owners can offer, each 60 at most", {"size": 180, "offer_factor": 1.0}),
        ("offer_factor", "6 rows where 50 are wanted", {"size": 50, "offer_factor": 0.1}),
    ],
)
def test_too_few_rows_are_refused_before_anything_is_spent(
    argument: str, words: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    """70, 50 and 60 rows; 0.1 rows for each of 50 are 5, so 2 of each owner."""
    path = tmp_path / "ledger.sqlite"
    with pytest.raises(InvalidArgument, match=words) as refused:
        simulated(ledger=path, **settings).fit(TARGET, OWNERS)
    assert refused.value.argument == argument
    assert "allow_fewer" in str(refused.value)
    assert not path.exists()


BAD_SETTINGS: list[tuple[str, dict[str, Any]]] = [
    *(("size", {"size": value}) for value in (0, 2.5, "5", True, 10**30)),
    *(("epsilon", {"epsilon": value}) for value in (-1.0, float("nan"), 1e300, "x", None)),
    *((name, {name: -1.0}) for name in ("owner_epsilon", "auction_epsilon", "delta", "gamma", "release_gamma")),
    *((name, {name: "x"}) for name in ("owner_epsilon", "delta", "gamma", "gamma_scale", "release_gamma")),
    *((name, {name: 1e300}) for name in ("auction_epsilon", "gamma", "gamma_scale", "release_gamma", "offer_factor")),
    *((name, {name: 3}) for name in ("protocol", "offers", "auction", "noise", "relation", "progress")),
    *((name, {name: "unheard-of"}) for name in ("protocol", "offers", "auction", "noise", "relation", "curator")),
    *((name, {name: "no"}) for name in ("weights", "labels", "thinning", "allow_fewer")),
    *(("dimension", {"dimension": value}) for value in (0, 7, 10**9, 2.0)),
    *(("quorum", {"quorum": value}) for value in (0, 4)),
    *((name, {name: 1.5}) for name in ("rows_per_unit", "random_state", "folds", "quorum")),
    ("delta", {"delta": 0}),
    ("delta", {"delta": 1.0}),
    ("offer_factor", {"offer_factor": 0.0}),
    ("price_per_row", {"price_per_row": -1.0}),
    ("epsilon", {"epsilon": 0.0}),
    ("epsilon", {"epsilon": 0.0, "protocol": "interactive"}),
    ("owner_epsilon", {"auction": "threshold", "owner_epsilon": 0.0}),
    *((name, {"protocol": "interactive", name: "unheard-of"}) for name in ("auction", "summary_release", "schedule")),
    *(("patience", {"protocol": "interactive", "patience": value}) for value in (0, 1.5)),
    *(("promised_epsilon", {"protocol": "interactive", "promised_epsilon": value}) for value in (0.0, None)),
    *(("accept_unproven", {"protocol": "interactive", "accept_unproven": value}) for value in ("paper-auction", (1,))),
    ("auction", {"protocol": Interactive(auction="everyone"), "auction": "threshold"}),
    ("seed_rows", {"protocol": Interactive.as_published(accept_unproven=PAPER_PARTS)}),
    ("seed_rows", {"seed_rows": np.zeros((2, 4)), "protocol": "interactive"}),
    ("seed_rows", {"seed_rows": np.full((2, 3), np.nan), "protocol": "interactive"}),
    ("offers", {"offers": "uniform", "protocol": "interactive"}),
    ("protocol", {"auction": "paper"}),
    ("size", {**PAPER, "accept_unproven": PAPER_PARTS, "size": 1}),
    ("run", {"run": "two words"}),
]


@pytest.mark.parametrize(("argument", "settings"), BAD_SETTINGS)
def test_bad_settings_are_refused_by_name(argument: str, settings: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with pytest.raises(InvalidArgument) as caught:
        simulated(**{"size": 4, "ledger": path, **settings}).fit(TARGET, OWNERS)
    assert caught.value.argument == argument
    assert not path.exists()


def test_rows_that_a_release_could_not_tell_apart_are_refused_unless_a_width_is_given() -> None:
    """The public grid begins at a thousandth for each column, squared: rows of a thousandth in all are one point to it.

    Without a release, or with a width of their own, they are as good as others.
    """
    few = 1e-3 / np.abs(TARGET).max()
    target, owners = np.asarray(TARGET) * few, {name: np.asarray(rows) * few for name, rows in OWNERS.items()}
    with pytest.raises(InvalidArgument, match="within a few hundredths of a unit") as refused:
        simulated(size=4, epsilon=4.0, release_gamma=None).fit(target, owners)
    assert refused.value.argument == "target"
    for settings in ({"release_gamma": 1e6}, {"release_gamma": None, "offers": "uniform"}):
        simulated(size=4, epsilon=4.0, **settings).fit(target, owners)


_KINDS: list[dict[str, Any]] = [{}, {"weights": True}, {"offers": "uniform"}]
_KINDS += [{"protocol": "interactive", "dimension": 16}, {"release_gamma": 1e-9}]


def market(seed: int, *, rows: int = 24) -> Tables:
    coins = np.random.default_rng(seed)
    return coins.normal(size=(rows, 3)), {"a": coins.normal(size=(15, 3)), "b": coins.normal(0.5, 1.0, size=(12, 3))}


def scaled(tables: Tables, kind: str, scale: float) -> Tables:
    target, owners = tables
    if kind == "owner":
        return target, {**owners, "b": owners["b"] * scale}
    if kind == "offset":
        return target + scale, {name: rows + scale for name, rows in owners.items()}
    factors = np.array([1.0, 1.0, scale]) if kind == "column" else np.full(3, scale)
    return target * factors, {name: rows * factors for name, rows in owners.items()}


def outcome(tables: Tables, **settings: Any) -> str:
    target, owners = tables
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", LikesetWarning)  # notices are true of such scales; numpy's warnings are not
        try:
            summarizer = Summarizer(3, **{"epsilon": 8.0, "noise": "simulated", "random_state": 1, **settings})
            fitted = summarizer.fit(target, owners)
        except InvalidArgument as refused:
            return refused.argument
    assert np.isfinite([fitted.in_sample_squared_mmd_, *fitted.weights_, *fitted.shares_.values()]).all()
    return "fitted"


@pytest.mark.parametrize("kind", ["all", "owner", "column", "offset"])
@pytest.mark.parametrize("power", [-30, -8, 2, 7, 19, 30])
def test_rows_on_any_scale_give_numbers_or_a_refusal(kind: str, power: int) -> None:
    tables = scaled(market(power % 3), kind, 10.0**power)
    settings = _KINDS[(power + len(kind)) % len(_KINDS)]
    assert outcome(tables, **settings) in {"fitted", "target", "owners['a']", "owners['b']", "gamma_scale", "gamma"} | (
        {"release_gamma"} if "release_gamma" in settings else set()
    )


def test_checks_of_arrays_copy_a_small_part_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of 16 MB: their squared distances are taken in blocks, and no digest is made without a ledger to keep it."""
    owners = {"a": np.ones((40_000, 100), dtype=np.float32)}
    arrays = MarketArrays.checked(np.zeros((50, 100), dtype=np.float32), owners, None, None)
    tracemalloc.start()
    try:
        assert arrays.largest_squared_distance == 100.0
        assert tracemalloc.get_traced_memory()[1] < 8e6
    finally:
        tracemalloc.stop()
    monkeypatch.delattr(MarketArrays, "digest")
    assert len(Summarizer(4, offers="uniform").fit(TARGET, OWNERS).summary_) == 4
