"""Events, views and quantities: a closed vocabulary that survives JSON, and sensitivities under one relation."""

import functools
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chance import public_coins
from likeset.arguments import checked_name
from likeset.errors import InvalidArgument, UnknownEvent
from likeset.privacy import events as ev
from likeset.privacy.events import ROW, NearPairs, Norm, PrivacyUnit, Relation, RowSum, SelectionSum, View

_sizes = st.integers(1, 10**6)
_positive = st.floats(1e-9, 1e9)


_units = st.builds(PrivacyUnit, rows=_sizes, column=st.just("patient"))


def _bounded(kind: type[RowSum | SelectionSum], norm: Norm, relation: Relation) -> st.SearchStrategy[Any]:
    return st.builds(kind, norm=st.just(norm), radius=_positive, unit=_units, relation=st.just(relation))


def _leaves(relation: Relation) -> st.SearchStrategy[ev.Event]:
    sums, selections = (_bounded(kind, Norm.COORDINATE, relation) for kind in (RowSum, SelectionSum))
    only_replaced = [
        st.just(ev.PublicSize()),
        st.builds(ev.ExponentialChoice, rate=_positive, quantity=st.builds(NearPairs, unit=_units)),
    ]
    return st.one_of(
        st.just(ev.NoRelease()),
        st.builds(ev.Unbounded, reason=st.text(max_size=20)),
        st.builds(ev.Laplace, scale=_positive, quantity=sums),
        st.builds(ev.ExponentialChoice, rate=_positive, quantity=sums | selections),
        st.builds(
            ev.Gaussian,
            sigma=_positive,
            quantity=_bounded(RowSum, Norm.EUCLIDEAN, relation),
            coordinates=_sizes,
            spacing=_positive,
        ),
        st.builds(
            ev.ThresholdAuction,
            epsilon=_positive,
            observer=st.sampled_from(ev.Observer),
            rounds=_sizes,
            summary_released=st.booleans(),
        ),
        st.builds(ev.PaperAuction, epsilon=_positive, owners=_sizes, rounds=_sizes, patience=_sizes),
        *(only_replaced if relation is Relation.REPLACE_ONE else ()),
    )


@functools.cache  # it takes longer to make than to draw from
def _planned(relation: Relation) -> st.SearchStrategy[ev.Event]:
    return st.recursive(
        _leaves(relation),
        lambda inner: st.one_of(
            st.builds(ev.Repeated, event=inner, times=_sizes),
            st.builds(ev.Composition, events=st.lists(inner, max_size=3).map(tuple)),
            st.builds(ev.Simulated, event=inner),
        ),
        max_leaves=5,
    )


events: st.SearchStrategy[ev.Event] = st.sampled_from(Relation).flatmap(_planned)


@given(relation=st.sampled_from(Relation), data=st.data())
def test_an_event_is_planned_under_the_relation_of_its_parts_or_under_none(
    relation: Relation, data: st.DataObject
) -> None:
    event = data.draw(_planned(relation))
    assert ev.relation_of(event) in (relation, None)
    (other,) = set(Relation) - {relation}
    mean = ev.Gaussian(1.0, RowSum(Norm.EUCLIDEAN, 1.0, ROW, other), 2, 0.1)
    if ev.relation_of(event) is None:
        assert ev.relation_of(ev.Composition((event, mean))) is other
    else:
        with pytest.raises(InvalidArgument, match="one relation"):
            ev.Composition((mean, event))


@given(event=events)
def test_an_event_is_planned_for_the_unit_of_its_parts_or_for_any(event: ev.Event) -> None:
    """Ids of one column are one unit, however many of their rows take part; a row is another one."""
    assert ev.unit_of(event) in ("id in column 'patient'", None)
    of_rows = ev.ExponentialChoice(rate=1.0, quantity=NearPairs(ROW))
    if ev.relation_of(event) is Relation.ADD_OR_REMOVE:
        return
    if ev.unit_of(event) is None:
        assert ev.unit_of(ev.Composition((event, of_rows))) == "row"
    else:
        with pytest.raises(InvalidArgument, match="one unit"):
            ev.Composition((of_rows, event))


@given(event=events)
def test_every_event_survives_a_round_trip_as_text(event: ev.Event) -> None:
    text = json.dumps(ev.as_json(event), allow_nan=False)
    assert ev.from_json(json.loads(text)) == event


@given(event=events, other=events)
def test_equal_documents_mean_equal_events(event: ev.Event, other: ev.Event) -> None:
    assert (ev.as_json(event) == ev.as_json(other)) == (event == other)


def test_every_kind_of_the_vocabulary_has_a_name_in_json() -> None:
    assert {kind.__name__ for kind in ev._KINDS.values()} == {kind.__name__ for kind in ev.Event.__args__}


_UNIT = {"kind": "unit", "rows": 1, "column": ""}
_QUANTITY = {"kind": "row-sum", "norm": "euclidean", "radius": 1.0, "unit": _UNIT, "relation": "replace-one"}
_GAUSSIAN = {"kind": "gaussian", "sigma": 8.0, "quantity": _QUANTITY, "coordinates": 280, "spacing": 1e-6}


def _changed(**changes: Any) -> dict[str, Any]:
    return {**_GAUSSIAN, **changes}


def test_the_json_of_a_gaussian_is_what_ledgers_hold() -> None:
    assert ev.as_json(ev.from_json(_GAUSSIAN)) == _GAUSSIAN


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"kind": "free"},
        {"kind": ["gaussian"]},
        _changed(kind="laplace"),
        _changed(extra=1),
        {key: value for key, value in _GAUSSIAN.items() if key != "spacing"},
        _changed(sigma="8"),
        _changed(sigma=True),
        _changed(sigma=0.0),
        _changed(coordinates=2.0),
        _changed(quantity=8.0),
        _changed(quantity={**_QUANTITY, "norm": "manhattan"}),
        _changed(quantity={**_QUANTITY, "norm": "coordinate"}),
        _changed(quantity={**_QUANTITY, "relation": "both"}),
        _changed(quantity={key: value for key, value in _QUANTITY.items() if key != "relation"}),
        {"kind": "repeated", "times": 2, "event": {"kind": "free"}},
        {"kind": "composition", "events": {"kind": "none"}},
    ],
)
def test_what_is_not_in_the_vocabulary_is_refused(document: object) -> None:
    with pytest.raises(UnknownEvent):
        ev.from_json(document)


def test_gaussian_noise_needs_a_euclidean_bound() -> None:
    """A bound on each coordinate says nothing about the length of a vector of d such (sqrt(d) times it)."""
    with pytest.raises(InvalidArgument, match="euclidean"):
        ev.Gaussian(1.0, RowSum(Norm.COORDINATE, 1.0, ROW, Relation.REPLACE_ONE), 2, 0.1)


def test_a_release_carries_an_event_and_nothing_else_will_do() -> None:
    assert not ev.Release(1.0, ev.NoRelease()).simulated
    assert ev.Release(1.0, ev.Simulated(ev.NoRelease())).simulated
    with pytest.raises(UnknownEvent):
        ev.Release(1.0, "gaussian")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rows", "relation", "expected"),
    [
        (1, Relation.REPLACE_ONE, 2.0),
        (1, Relation.ADD_OR_REMOVE, 1.0),
        (3, Relation.REPLACE_ONE, 6.0),
        (3, Relation.ADD_OR_REMOVE, 3.0),
    ],
)
def test_sum_of_unit_vectors(rows: int, relation: Relation, expected: float) -> None:
    """One id with r rows in the unit ball: removing takes away r at most, replacing moves each by 2."""
    assert (
        RowSum(norm=Norm.EUCLIDEAN, radius=1.0, unit=PrivacyUnit(rows, ""), relation=relation).sensitivity == expected
    )


@given(radius=st.floats(0.1, 3), rows=st.integers(1, 3), seed=st.integers(0, 2**32 - 1))
def test_no_pair_of_neighbours_is_further_apart(radius: float, rows: int, seed: int) -> None:
    """Random rows on the sphere never beat the bound, and opposite rows reach it."""
    coins = public_coins(seed)
    most = {
        relation: RowSum(norm=Norm.EUCLIDEAN, radius=radius, unit=PrivacyUnit(rows, ""), relation=relation).sensitivity
        for relation in Relation
    }
    before, after = (_on_sphere(coins, rows, radius) for _ in range(2))
    replaced = np.linalg.norm(before.sum(axis=0) - after.sum(axis=0))
    assert replaced <= most[Relation.REPLACE_ONE] * (1 + 1e-12)
    assert np.linalg.norm(before.sum(axis=0)) <= most[Relation.ADD_OR_REMOVE] * (1 + 1e-12)
    pole = np.tile(before[:1], (rows, 1))
    worst = np.linalg.norm(pole.sum(axis=0) + pole.sum(axis=0))
    assert worst == pytest.approx(most[Relation.REPLACE_ONE])


def _on_sphere(
    coins: np.random.Generator, rows: int, radius: float
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    points = coins.normal(size=(rows, 4))
    scaled: np.ndarray[tuple[int, int], np.dtype[np.float64]] = (
        radius * points / np.linalg.norm(points, axis=1)[:, None]
    )
    return scaled


def test_a_count_of_pairs_is_bounded_under_replace_one_only() -> None:
    """By its type: there is no way to ask for another bound."""
    count = NearPairs(unit=PrivacyUnit(3, ""))
    assert (count.sensitivity, count.relation) == (3.0, Relation.REPLACE_ONE)
    with pytest.raises(TypeError):
        NearPairs(unit=PrivacyUnit(3, ""), relation=Relation.ADD_OR_REMOVE)  # type: ignore[call-arg]


def test_a_selection_of_fixed_size_has_rows_replaced_and_twice_as_many_if_one_is_replaced() -> None:
    """Best 2 of {0, -1} and of {0, -1, 1}: one row was added, and 1 took the place of -1, a distance of 2.

    Replacing a row is removing it and adding another: two steps of 2.
    """
    added, replaced = (
        SelectionSum(norm=Norm.COORDINATE, radius=1.0, unit=ROW, relation=relation)
        for relation in (Relation.ADD_OR_REMOVE, Relation.REPLACE_ONE)
    )
    best = [sum(sorted(rows, reverse=True)[:2]) for rows in ([0.0, -1.0], [0.0, -1.0, 1.0])]
    assert abs(best[0] - best[1]) == added.sensitivity == 2.0
    assert replaced.sensitivity == 4.0


@pytest.mark.parametrize(("radius", "rows"), [(0.0, 1), (-1.0, 1), (float("inf"), 1), (1.0, 0)])
def test_a_sum_without_a_bound_is_refused(radius: float, rows: int) -> None:
    with pytest.raises(InvalidArgument):
        RowSum(norm=Norm.EUCLIDEAN, radius=radius, unit=PrivacyUnit(rows, ""), relation=Relation.REPLACE_ONE)


def test_a_view_survives_json_and_reads_as_a_sentence() -> None:
    """Budgets are for any coalition: an entry about a named one has another meaning."""
    for view, words in ((View.owners("target"), "any owners see target"), (View.curator("a"), "curator sees a")):
        assert View.from_json(view.to_json()) == view
        assert str(view) == words
        with pytest.raises(InvalidArgument):
            View.from_json({**view.to_json(), "coalition": ["a"]})


@pytest.mark.parametrize("arguments", [("owner", "target"), ("owners", ""), ("owners", "two words")])
def test_what_is_no_view_is_refused(arguments: tuple[str, str]) -> None:
    with pytest.raises(InvalidArgument):
        View(*arguments)  # type: ignore[arg-type]


def test_a_refused_name_is_not_shown() -> None:
    with pytest.raises(InvalidArgument) as refused:
        checked_name("run", "Jane Doe 1971")
    assert "Jane" not in str(refused.value)
