"""Bad input to the Summarizer is refused by name, before anything is spent."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from likeset import Interactive, Summarizer
from likeset.errors import (
    BudgetExceeded,
    InvalidArgument,
    LikesetError,
    QuorumMissed,
)
from summarizer_world import LABELS, OWNERS, PAPER, PAPER_PARTS, TARGET, rows, simulated


def with_nan() -> dict[str, NDArray[np.float64]]:
    spoiled = OWNERS["south"].copy()
    spoiled[17, 2] = np.nan
    return {**OWNERS, "south": spoiled}


BAD_DATA: list[tuple[str, dict[str, Any]]] = [
    (r"owners", {"owners": {}}),
    (r"owners", {"owners": list(OWNERS.values())}),
    (r"owners", {"owners": None}),
    (r"owners\['south'\].*2 columns where target has 3", {"owners": {**OWNERS, "south": rows(2, 9)[:, :2]}}),
    (r"owners\['south'\].*NaN in row 17, column 2", {"owners": with_nan()}),
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
    (r"labels\['south'\]", {"labels": {**LABELS, "south": np.array([None] * 50)}}),
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
        ("size", "180 rows that all owners have", {"size": 10**6}),
        ("size", "180 rows that all owners have", {"size": 181, "protocol": "interactive", "dimension": 32}),
        ("size", "170 rows that owners can offer, each 60 at most", {"size": 180, "offer_factor": 1.0}),
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
    assert "--allow-fewer" in str(refused.value)
    assert not path.exists()


BAD_SETTINGS: list[tuple[str, dict[str, Any]]] = [
    *(("size", {"size": value}) for value in (0, -1, 2.5, "5", None, True, 10**30)),
    *(
        (name, {name: value})
        for name in ("epsilon", "owner_epsilon", "auction_epsilon")
        for value in (-1.0, float("nan"), float("inf"), 1e300, "x", None)
        if value is not None or name == "epsilon"
    ),
    ("owner_epsilon", {"auction": "threshold", "owner_epsilon": 0.0}),
    *(("delta", {"delta": value}) for value in (1, 1.0, -0.1, 0, float("nan"), "x", None)),
    *(
        (name, {name: value})
        for name in ("protocol", "offers", "auction", "noise", "relation")
        for value in ("unheard-of", None, 3)
    ),
    *(
        (name, {"protocol": "interactive", name: value})
        for name in ("auction", "summary_release", "schedule")
        for value in ("unheard-of", None, 3)
    ),
    *(("patience", {"protocol": "interactive", "patience": value}) for value in (0, -1, 1.5, "x")),
    *(
        ("promised_epsilon", {"protocol": "interactive", "promised_epsilon": value})
        for value in (0.0, -1.0, float("nan"), 1e300, "x", None)
    ),
    ("auction", {"protocol": Interactive(auction="everyone"), "auction": "threshold"}),
    ("seed_rows", {"protocol": Interactive.as_published(accept_unproven=PAPER_PARTS)}),
    *(("quorum", {"quorum": value}) for value in (0, 4, "x")),
    *(("gamma", {"gamma": value}) for value in (0.0, -1.0, float("nan"), 1e300, "mean", None)),
    *(("gamma_scale", {"gamma_scale": value}) for value in (0.0, float("inf"), 1e300, "x")),
    *(("release_gamma", {"release_gamma": value}) for value in (0.0, -1.0, 1e300, "x")),
    *(("offer_factor", {"offer_factor": value}) for value in (0.0, -1.0, float("nan"), 1e300, "x", None)),
    *(("dimension", {"dimension": value}) for value in (0, 7, 10**9, 2.0, "x")),
    *(("rows_per_unit", {"rows_per_unit": value}) for value in (0, 1.5, "x")),
    *(("price_per_row", {"price_per_row": value}) for value in (-1.0, float("nan"), "x")),
    *(
        ("accept_unproven", {"protocol": "interactive", "accept_unproven": value})
        for value in ("paper-auction", None, (1,))
    ),
    *(("random_state", {"random_state": value}) for value in (-1, 1.5, "x")),
    *((name, {name: "no"}) for name in ("weights", "labels", "thinning", "allow_fewer")),
    ("weights", {"weights": True, "protocol": "interactive"}),
    ("seed_rows", {"seed_rows": np.zeros((2, 4)), "protocol": "interactive"}),
    ("seed_rows", {"seed_rows": np.full((2, 3), np.nan), "protocol": "interactive"}),
    ("seed_rows", {"seed_rows": np.zeros(3), "protocol": "interactive"}),
    ("offers", {"offers": "uniform", "protocol": "interactive"}),
    ("epsilon", {"epsilon": 0.0, "protocol": "interactive"}),
    ("protocol", {"auction": "paper"}),
    ("size", {**PAPER, "accept_unproven": PAPER_PARTS, "size": 1}),
    ("progress", {"progress": 3}),
    ("run", {"run": "two words"}),
    ("run", {"run": ""}),
]


@pytest.mark.parametrize(("argument", "settings"), BAD_SETTINGS)
def test_bad_settings_are_refused_by_name(argument: str, settings: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with pytest.raises(InvalidArgument) as caught:
        simulated(**{"size": 4, "ledger": path, **settings}).fit(TARGET, OWNERS)
    assert caught.value.argument == argument
    assert not path.exists()


def test_rows_that_are_far_too_small_are_not_blamed_on_a_number_that_nobody_gave() -> None:
    tiny = {name: np.asarray(rows) * 1e-30 for name, rows in OWNERS.items()}
    with pytest.raises(InvalidArgument, match=r"gamma_scale = 1: makes gamma .* scale them to about 1"):
        simulated(size=4).fit(np.asarray(TARGET) * 1e-30, tiny)


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


@pytest.mark.parametrize("place", [3, Path(), Path("no-such-folder") / "ledger.sqlite"])
def test_a_ledger_must_be_a_file(place: Any, tmp_path: Path) -> None:
    path = tmp_path / place if isinstance(place, Path) else place
    with pytest.raises(LikesetError):
        simulated(ledger=path).fit(TARGET, OWNERS)


def test_a_quorum_that_is_missed_is_an_error(tmp_path: Path) -> None:
    """One of three owners may disclose nothing more, and all three must take part."""
    path = tmp_path / "ledger.sqlite"
    Summarizer(4, offers="uniform", ledger=path, run="first").fit(TARGET, {"south": OWNERS["south"]})
    with pytest.raises((BudgetExceeded, QuorumMissed)):
        Summarizer(4, offers="uniform", ledger=path, run="second", quorum=3).fit(TARGET, OWNERS)
