"""Numbers, distances and guarantees in words."""

from typing import Any

import numpy as np
import pytest

from likeset.run.words import (
    DASH,
    closer_rows,
    distance_notes,
    guarantee_lines,
    guess,
    headline,
    labels_in_words,
    learned,
    number,
    share_in_words,
)

OWNERS = ("north", "south", "west")


def guarantee(observer: str, protects: str, epsilon: float | None, **changed: Any) -> dict[str, Any]:
    basis = "none" if epsilon is None else "proven"
    known: dict[str, Any] = {"observer": observer, "protects": protects, "epsilon": epsilon}
    known |= {"basis": basis, "note": ""}
    return known | {"delta": 1e-5, "guess": 0.6, "relation": "replace-one", "rows": 9, "shared": False} | changed


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.00419, 2, "0.0042"), (1e-5, 2, "10⁻⁵"), (1.3e-5, 2, "1.3\u00a0\u00d7\u00a010⁻⁵"), (0, 2, "0"), (0.0, 2, "0"),
        (1000, 2, "1,000"), (12345.6, 2, "12,346"), (1.0, 3, "1"), (12.34, 2, "12"), (6.29, 2, "6.3"),
        (-0.5, 1, "\u22120.5"), (None, 2, DASH), (float("nan"), 2, DASH), (float("inf"), 2, "∞"), (0.1, 2, "0.10"),
    ],
)  # fmt: skip
def test_numbers_have_their_significant_digits(value: float | None, digits: int, text: str) -> None:
    assert number(value, digits) == text


def test_the_headline_has_the_estimate_or_the_in_sample_distance_and_never_both() -> None:
    run = {"in_sample_squared_mmd": 0.00298, "target": {"rows": 70}, "rows_selected": 87, "size": 100, "owners": []}
    estimate = headline(run | {"distance": {"squared_mmd": -0.001, "low": 0.0, "high": 0.0052}})
    assert (estimate.distance, estimate.interval) == ("MMD² 0", " (0 to 0.00520)")
    assert estimate.rows == "87 of the 100 rows requested"
    in_sample = headline(run | {"distance": None})
    assert (in_sample.distance, in_sample.interval) == ("in-sample MMD² 0.00298", "")
    far_off = {"comparison": {"curve": [0.1]}, "history": [], "weighted": False}
    assert distance_notes(far_off | {"distance": None})
    near = {"distance": {"low": 0.0}, "rows_selected": 100, "comparison": {"curve": [0.1]}, "history": []}
    assert ["equal weight" in " ".join(distance_notes(near | {"weighted": one})) for one in (False, True)] == [
        False,
        True,
    ]
    # Large is what lies above 0.1, and above what so few fresh rows of the target's kind may have: five may have 1/5.
    lows = [(0.09, 100), (0.11, 100), (0.75, 5), (0.85, 5)]
    found = [bool(distance_notes(far_off | {"distance": {"low": low}, "rows_selected": rows})) for low, rows in lows]
    assert found == [False, True, False, True]


def test_a_summary_that_later_rows_dilute_is_said_to_be_closer_by_its_first_rows() -> None:
    """Right rows end after 160 of 500: the distance falls, then rises to .012; a curve that only falls is fine."""
    falling = [0.004 + 0.4 / rows for rows in range(1, 161)]
    diluted = [*falling, *np.linspace(falling[-1], 0.012, 340).tolist()]
    (words,) = closer_rows(diluted)
    low, high = (int(number) for number in words.split("About the first ")[1].split(" of ")[0].split(" to "))
    assert 100 <= low <= 160 <= high <= 270
    assert "measured on your own target" in words
    between = {"comparison": {"curve": []}, "history": [{"squared_mmd": value} for value in diluted]}
    said = {"distance": {"low": 0.0}, "rows_selected": 500, "weighted": False}
    assert distance_notes(said | between) == [words]  # the estimate came without its curve
    for fine in ([], [0.3], falling, [*falling, *[0.0067] * 40], [0.5, 0.01, -0.0004, 0.0003]):
        assert closer_rows(fine) == []


def test_a_share_that_surprises_is_explained_by_name() -> None:
    owners = [{"name": "a", "share": 0.75, "selected": 99}, {"name": "b", "share": 0.25, "selected": 1}]
    assert "b has 25% with 1 of 100 rows" in share_in_words(owners)
    alike = [{"name": "a", "share": 0.52, "selected": 50}, {"name": "b", "share": 0.48, "selected": 50}]
    assert "%" not in share_in_words(alike)


def test_labels_that_rows_hardly_predict_are_a_reason_to_compare_with_random_rows() -> None:
    words = labels_in_words({"skill": 0.04, "weight": 0.0})
    assert "explain 4%" in words
    assert "compare with random rows" in words


def test_one_line_for_all_owners_with_equal_guarantees() -> None:
    lines = guarantee_lines([guarantee("owners", name, 0.0) for name in OWNERS], owners=OWNERS)
    assert [line.cells for line in lines] == [("any owners about each owner", "nothing in this run", "", "proven")]
    different = [guarantee("curator", name, None, rows=rows) for name, rows in zip(OWNERS, (5, 7, 5), strict=True)]
    lines = guarantee_lines([guarantee("owners", "new-clinic", 1.0), *different], owners=OWNERS)
    assert [line.cells for line in lines] == [
        ("any owners about the target", "epsilon = 1", "1e-05", "proven"),
        ("the curator about north and west", "5 rows in the clear", "", "none"),
        ("the curator about south", "7 rows in the clear", "", "none"),
    ]


def test_an_owner_is_addressed_and_hears_no_text_of_the_run() -> None:
    found = guarantee_lines([guarantee("owners", "north", 0.7, note="of south")], owners=OWNERS, own="north")
    assert [(line.protected, "south" in line.meaning) for line in found] == [("your rows", False)]


def test_the_worst_guarantee_counts() -> None:
    some = [guarantee("owners", "north", 0.0)]
    assert learned(some) == "nothing in this run"
    assert "epsilon = 0.7, delta = 1e-05" in learned([*some, guarantee("owners", "south", 0.7)])
    assert "unbounded" in learned([*some, guarantee("owners", "south", 0.7), guarantee("owners", "west", None)])


def test_a_guess_is_explained_for_proven_bounds_only() -> None:
    assert "55.4%" in guess(guarantee("owners", "c", 1.0, guess=0.55329), "one row")
    for changed in ({"basis": "claimed"}, {"guess": None}, {"epsilon": 0.0}):
        assert guess(guarantee("owners", "c", 1.0) | changed, "one row") == ""
