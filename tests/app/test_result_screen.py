"""What the terminal shows of a result."""

from typing import Any

import pytest
from report_sample import sample_result, warning
from syrupy.assertion import SnapshotAssertion

from likeset.app.cli import match
from likeset.app.cli.match import show_result
from likeset.display import emit, stdout

_SCORE = {"value": 0.75, "low": 0.5, "high": 0.875}


@pytest.fixture(autouse=True)
def _plain_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdout, "_color_system", None)
    monkeypatch.setattr(stdout, "width", 100)


def test_a_result(snapshot: SnapshotAssertion) -> None:
    known = {"labels": {"weight": 0.3, "skill": 0.42}, "warnings": [warning("mind the gap")]}
    with stdout.capture() as captured:
        show_result(sample_result() | known)
    assert captured.get() == snapshot


def test_a_result_without_a_bound(snapshot: SnapshotAssertion) -> None:
    """Simulated noise, fewer rows than wanted, a distance in the sample, an owner that did not take part."""
    result = sample_result() | {
        "private": False,
        "noise": "simulated",
        "seed": 7,
        "rows_selected": 87,
        "distance": None,
    }
    result["comparison"] |= {"measure": "in-sample"}
    result["guarantees"][0] |= {"epsilon": None, "basis": "none"}
    result["owners"][4] |= {
        "rows": None,
        "disclosed": None,
        "payment": None,
        "payment_at_most": 87.5,
        "problem": "gone",
    }
    with stdout.capture() as captured:
        show_result(result)
    assert captured.get() == snapshot


def test_an_evaluation(snapshot: SnapshotAssertion) -> None:
    def line(training_set: str, gains: dict[str, Any]) -> dict[str, Any]:
        known = {
            "training_set": training_set,
            "rows": 12,
            "model": "linear",
            "scores": {"accuracy": _SCORE, "auc": _SCORE},
        }
        return known | {"summary_gains": gains}

    lines = [line("this summary", {}), line("all rows", {"accuracy": _SCORE, "auc": _SCORE | {"value": None}})]
    with stdout.capture() as captured:
        match._show({"test_rows": 40, "test_ids": 20, "models": lines, "notes": ["a note"]})
    assert captured.get() == snapshot


@pytest.mark.parametrize(("seen", "few"), [(110, True), (300, False)])
def test_offers_that_leave_no_choice_are_called_so(seen: int, few: bool) -> None:
    with stdout.capture() as captured:
        show_result(sample_result() | {"rows_seen": seen, "rows_selected": 100})
    assert ("hardly a choice; ask more owners" in captured.get()) is few


def test_a_document_without_a_view(snapshot: SnapshotAssertion) -> None:
    document = {
        "run": "sepsis",
        "digest": "ab" * 32,
        "began": False,
        "notes": ["a sentence of its own", "another one"],
        "cards": {"a": "AAAAA-BBBBB", "b": "CCCCC-DDDDD", "curator": "EEEEE-FFFFF"},
        "problems": [],
        "runs": [
            {"run": "first", "digest": "cd" * 32, "at": "2026-07-01T12:30:59.123+00:00", "rows": 1200, "by": None}
        ],
    }
    with stdout.capture() as captured:
        emit(document, notes=["all is well"], next_step=("likeset", "run", "watch", "a run"))
    assert captured.get() == snapshot
