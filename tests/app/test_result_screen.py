"""What the terminal shows of a result."""

from typing import Any

import pytest
from report_sample import sample_result
from syrupy.assertion import SnapshotAssertion

from likeset.app.cli.match import show_result
from likeset.display import emit, stdout

_REST = {"budget": {"in_words": ""}, "terms": {"summary": {"split": False}}, "warnings": []}


@pytest.fixture(autouse=True)
def _plain_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdout, "_color_system", None)
    monkeypatch.setattr(stdout, "width", 100)


@pytest.mark.parametrize(
    "labels", [{"weight": 0.3, "skill": 0.42}, {"weight": 0.0, "skill": 0.0}], ids=["labels matched", "no labels"]
)
def test_a_result(labels: Any, snapshot: SnapshotAssertion) -> None:
    with stdout.capture() as captured:
        show_result(sample_result() | {"labels": labels, "owners": [], "guarantees": []} | _REST)
    assert captured.get() == snapshot


@pytest.mark.parametrize(("seen", "few"), [(110, True), (300, False)])
def test_offers_that_leave_no_choice_are_called_so(seen: int, few: bool) -> None:
    owners = {"owners": [], "guarantees": [], "rows_seen": seen, "rows_selected": 100}
    with stdout.capture() as captured:
        show_result(sample_result() | {"labels": {"weight": 0.0, "skill": 0.0}} | owners | _REST)
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
