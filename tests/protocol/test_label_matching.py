"""The curator matches rows together with their labels, where these are classes that rows tell."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from protocol_world import CONSUMER, Outcome, carry, terms, world

from chance import pinned_coins
from likeset.errors import IllegalMessage
from likeset.geometry.kernels import squared_mmd
from likeset.geometry.selection import Selected, Selection
from likeset.protocol.wire import decode

Rows32 = NDArray[np.float32]

GAMMA = 0.1
SELECTION = Selection(gamma=GAMMA)


def _pool(rows: int = 240) -> tuple[Rows32, NDArray[np.int64]]:
    """Three classes in a line, each 3 standard deviations from the next; half of the rows are of the middle one."""
    coins = pinned_coins("classes in a line")
    codes = np.resize(np.array([0, 2, 1, 1]), rows)
    drawn = coins.normal(size=(rows, 3)) + 3.0 * codes[:, None] * np.array([1.0, 0.0, 0.0])
    return drawn.astype(np.float32), codes


def _target(rows: int = 60) -> Rows32:
    """The outer two of the classes; of its rows one in 15 lies nearest to the class between."""
    coins = pinned_coins("a target of two classes")
    codes = 2 * (np.arange(rows) % 2)
    drawn = coins.normal(size=(rows, 3)) + 3.0 * codes[:, None] * np.array([1.0, 0.0, 0.0])
    return np.asarray(drawn, dtype=np.float32)


def _select(labels: NDArray[Any] | None, *, pool: Rows32 | None = None, selection: Selection = SELECTION) -> Selected:
    return selection.select(_pool()[0] if pool is None else pool, _target(), 30, labels=labels)


def test_rows_of_a_class_that_the_target_lacks_are_no_longer_picked() -> None:
    codes = _pool()[1]
    matched, ignored = (int((codes[_select(labels).indices] == 1).sum()) for labels in (codes, None))
    assert ignored >= 6
    assert matched <= ignored // 2


@pytest.mark.parametrize("kind", [str, object, np.int64])
def test_words_and_whole_numbers_are_categories(kind: type) -> None:
    codes = _pool()[1]
    plain, other = _select(codes), _select(codes.astype(str).astype(kind))
    assert 0.0 < plain.label_weight <= plain.label_skill < 1.0
    assert other.label_weight == pytest.approx(plain.label_weight, abs=1e-6)
    np.testing.assert_array_equal(other.indices, plain.indices)


@pytest.mark.parametrize("labels", ["numbers", "nothing", "one class", "a class of few"])
def test_labels_that_tell_nothing_apart_change_nothing(labels: str) -> None:
    given: dict[str, NDArray[Any]] = {
        "numbers": _pool()[0][:, 0].astype(np.float64),
        "nothing": np.empty(0, dtype=np.int64),
        "one class": np.zeros(240, dtype=np.int64),
        "a class of few": (np.arange(240) < 4).astype(np.int64),
    }
    selected = _select(given[labels])
    np.testing.assert_array_equal(selected.indices, _select(None).indices)
    assert (selected.label_weight, selected.label_skill) == (0.0, 0.0)


def test_labels_that_rows_do_not_tell_change_nothing_and_that_is_said() -> None:
    shuffled = pinned_coins("shuffled").permutation(_pool()[1])
    selected = _select(shuffled)
    np.testing.assert_array_equal(selected.indices, _select(None).indices)
    assert selected.label_weight == 0.0
    assert selected.label_skill < 0.1


def test_few_offers_are_matched_by_rows_alone() -> None:
    rows, codes = _pool(49)
    selected = SELECTION.select(rows, _target(), 10, labels=codes)
    np.testing.assert_array_equal(selected.indices, SELECTION.select(rows, _target(), 10).indices)
    assert selected.label_skill == 0.0


def test_an_owner_who_invents_labels_does_not_end_the_matching() -> None:
    """80 far rows, each with a class of its own: they count as one, and the others are told as before."""
    rows, codes = _pool()
    far = rows[:80] + np.float32(50.0)
    invented = np.array([*codes.astype(str), *(f"invented {number}" for number in range(80))])
    selected = _select(invented, pool=np.concatenate([rows, far]))
    assert selected.label_weight > 0.0
    assert selected.indices.max() < 240
    honest = _select(codes)
    assert (codes[selected.indices] == 1).sum() <= 1 + (codes[honest.indices] == 1).sum()


def test_a_rare_class_gets_more_rows_than_where_labels_are_ignored() -> None:
    """Eight of 200 rows are of the rare class; models need more of its rows than its share, not fewer."""
    coins, centres = pinned_coins("a rare class"), 4.0 * np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]])

    def draw(*counts: int) -> Rows32:
        return np.asarray(np.repeat(centres, counts, axis=0) + coins.normal(size=(sum(counts), 3)), dtype=np.float32)

    pool, target, codes = draw(150, 150, 150), draw(150, 42, 8), np.repeat([0, 1, 2], 150)
    matched, ignored = (SELECTION.select(pool, target, 100, labels=labels) for labels in (codes, None))
    assert matched.label_weight > 0.0
    assert (codes[matched.indices] == 2).sum() >= 2 + (codes[ignored.indices] == 2).sum()


@pytest.mark.parametrize("apart", [1.2, 3.0, 5.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_class_that_is_there_but_rare_is_never_dropped(seed: int, apart: float) -> None:
    """Eleven of 360 rows, whose class lies half a standard deviation further in the target than among the offers."""
    coins, codes = pinned_coins(f"rare {seed}"), np.repeat([0, 1, 2], [200, 200, 100])
    centres = apart * np.array([[0.0, 0, 0, 0], [1, 0, 0, 0], [0.5, 0.9, 0, 0]])
    moved = centres + np.array([[0.0], [0.0], [1.0]]) * np.array([0.0, 0, 0.5, 0])
    truth = np.repeat([0, 1, 2], [200, 149, 11])
    pool, target = (
        np.asarray(places[drawn] + coins.normal(size=(len(drawn), 4)), dtype=np.float32)
        for places, drawn in ((centres, codes), (moved, truth))
    )
    matched, ignored = (
        int((codes[Selection().select(pool, target, 100, labels=labels).indices] == 2).sum())
        for labels in (codes, None)
    )
    assert matched >= 3
    assert matched >= 0.5 * ignored


def test_where_right_rows_run_out_the_others_are_the_nearest_ones() -> None:
    """54 rows are of the target's classes (with labels of the rest told as well), and 60 are wanted."""
    rows, codes = _pool()
    right = np.flatnonzero(codes != 1)[:54]
    near = np.flatnonzero(codes == 1)
    far = rows[near] + np.array([0.0, 9.0, 0.0], dtype=np.float32)
    pool, labels = np.concatenate([rows[right], rows[near], far]), np.repeat([0, 1, 2], [54, len(near), len(near)])
    labels[:54] = np.where(codes[right] == 0, 3, 4)
    selected, alone = (SELECTION.select(pool, _target(), 60, labels=given) for given in (labels, None))
    assert 0.0 < selected.label_weight < 0.6 * selected.label_skill
    assert selected.squared_mmds[-1] < 1.3 * alone.squared_mmds[-1]


def test_worth_and_distance_are_judged_by_rows_alone() -> None:
    rows, codes = _pool()
    selected = _select(codes)
    judged = SELECTION.judge(rows[selected.indices], _target())
    np.testing.assert_array_equal(selected.gains, judged.gains)
    apart = squared_mmd(rows[selected.indices], _target(), gamma=GAMMA)
    assert selected.squared_mmds[-1] == pytest.approx(apart, rel=1e-5)


def test_weights_are_fitted_to_rows_and_labels_where_these_were_matched() -> None:
    rows, codes = _pool()
    weighing = replace(SELECTION, weighted=True)
    joint = _select(codes, selection=weighing)
    np.testing.assert_array_equal(joint.indices, _select(codes).indices)
    by_rows = squared_mmd(rows[joint.indices], _target(), gamma=GAMMA, weights=joint.weights)
    assert joint.weights.sum() == pytest.approx(1.0)
    assert by_rows < joint.squared_mmds[-1]
    again = weighing.select(rows[joint.indices], _target(), 30)
    fitted = squared_mmd(rows[joint.indices][again.indices], _target(), gamma=GAMMA, weights=again.weights)
    assert fitted < by_rows  # by rows alone they would come closer still


def _run(selection: Selection = SELECTION, **options: Any) -> Outcome:
    agreed = terms(owners=("a", "b"), size=10, offer_factor=24.0, target_size=60, **options)
    rows, codes = _pool()
    made = world(agreed, selection=selection)
    made.target = _target()
    made.data = {"a": rows[:120], "b": rows[120:]}
    made.labels = {"a": codes[:120], "b": codes[120:]}
    return carry(made)


def test_owners_hear_and_say_the_same_whether_distance_is_measured_and_the_same_rows_are_bought() -> None:
    plain, measured = (_run(replace(SELECTION, folds=folds)) for folds in (0, 5))
    for name in ("a", "b"):
        assert measured.heard[name] == plain.heard[name]
    assert measured.heard["curator"][1:] == plain.heard["curator"][1:]
    assert measured.summary.handles.tolist() == plain.summary.handles.tolist()
    assert math.isnan(plain.summary.held_out_error)
    assert measured.summary.held_out_error > 0.0


def test_the_consumer_is_told_how_much_labels_counted() -> None:
    matched, ignored = _run().summary, _run(labels="ignore").summary
    assert 0.0 < matched.label_weight <= matched.label_skill < 1.0
    assert (ignored.label_weight, ignored.label_skill) == (0.0, 0.0)
    assert _run(protocol="interactive").summary.label_weight == 0.0


def test_numbers_that_depend_on_all_offers_have_few_digits() -> None:
    """Weights are whole numbers of hundredths of the mean weight, divided by their sum."""
    summary = _run(replace(SELECTION, weighted=True)).summary
    assert summary.label_weight == round(summary.label_weight, 2) > 0.0
    assert summary.label_skill == round(summary.label_skill, 2) > 0.0
    hundredths = (summary.weights * total for total in range(950, 1051))  # ten weights
    assert np.ptp(summary.weights) > 0.0
    assert any(np.allclose(parts, np.round(parts), rtol=0.0, atol=1e-9) for parts in hundredths)


@pytest.mark.parametrize(
    "changes",
    [
        {"label_weight": 1.5},
        {"label_skill": -0.1},
        {"label_weight": float("nan")},
        {"held_out_error": -1.0, "held_out_squared_mmd": 0.0},
        {"held_out_error": 0.1, "held_out_squared_mmd": float("inf")},
        {"held_out_error": 0.1},
    ],
)
def test_a_summary_with_impossible_numbers_about_labels_or_distance_is_refused(changes: dict[str, Any]) -> None:
    made = world(terms())
    (sent,) = (decode(data) for data in carry(made).heard[CONSUMER])
    consumer = made.consumer()
    consumer.start()
    with pytest.raises(IllegalMessage, match="do not fit together"):
        consumer.take(replace(sent, body=replace(sent.body, **changes)))
