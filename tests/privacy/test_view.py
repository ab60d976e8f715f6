"""Who hears what, and which bound covers whom."""

import pytest

from likeset.arguments import checked_name
from likeset.errors import InvalidArgument
from likeset.privacy.events import View


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
