"""What the terminal says of a result."""

from typing import Any

import pytest
from report_sample import sample_result

from likeset.app.cli.match import show_result
from likeset.display import stdout

_REST = {"budget": {"in_words": ""}, "terms": {"summary": {"split": False}}, "warnings": []}


def _screen(labels: Any) -> str:
    with stdout.capture() as captured:
        show_result(sample_result() | {"labels": labels, "owners": [], "guarantees": []} | _REST)
    return captured.get()


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({"weight": 0.3, "skill": 0.42}, "Labels are matched together with the rows"),
        ({"weight": 0.0, "skill": 0.02}, "Labels are not matched"),
    ],
)
def test_the_terminal_says_how_labels_counted(labels: dict[str, float], words: str) -> None:
    assert words in _screen(labels)


@pytest.mark.parametrize("labels", [None, {"weight": 0.0, "skill": 0.0}])
def test_the_terminal_says_nothing_about_labels_that_nobody_looked_at(labels: Any) -> None:
    assert "Labels" not in _screen(labels)
