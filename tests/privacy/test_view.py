"""Who hears what, and which bound covers whom."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from likeset.errors import InvalidArgument
from likeset.privacy.guarantee import View, checked_name

coalitions = st.frozensets(st.sampled_from("abcd"), max_size=4)


@given(first=coalitions, second=coalitions)
def test_coalitions_are_sets_and_no_name_means_everybody(first: frozenset[str], second: frozenset[str]) -> None:
    """Against plain sets, where the empty coalition stands for all owners, one more than are ever named."""
    everybody = frozenset("abcde")
    a, b = View.owners("target", among=first), View.owners("target", among=second)
    assert a.covers(b) == ((second or everybody) <= (first or everybody))
    assert a.hears(b) == bool((first or everybody) & (second or everybody))
    assert a.hears(b) == b.hears(a)
    assert not a.covers(b) or a.hears(b)


def test_roles_and_data_sets_keep_apart() -> None:
    views = [View.owners("x"), View.curator("x"), View.consumer("x"), View.owners("y")]
    for first, second in product(views, views):
        assert first.covers(second) == first.hears(second) == (first is second)


@given(among=coalitions)
def test_a_view_survives_json(among: frozenset[str]) -> None:
    view = View.owners("target", among=among)
    assert View.from_json(view.to_json()) == view


def test_a_view_reads_as_a_sentence() -> None:
    assert str(View.owners("target")) == "any owners see target"
    assert str(View.owners("target", among=["b"])) == "b sees target"
    assert str(View.owners("target", among=["b", "a"])) == "a + b see target"
    assert str(View.curator("clinic-a")) == "curator sees clinic-a"


@pytest.mark.parametrize(
    "arguments",
    [
        ("owner", "target"),
        ("owners", ""),
        ("owners", "two words"),
        ("owners", "target", ("b", "a")),
        ("owners", "target", ("a", "a")),
        ("curator", "target", ("a",)),
    ],
)
def test_what_is_no_view_is_refused(arguments: tuple[str, ...]) -> None:
    with pytest.raises(InvalidArgument):
        View(*arguments)  # type: ignore[arg-type]


def test_a_refused_name_is_not_shown() -> None:
    with pytest.raises(InvalidArgument) as refused:
        checked_name("run", "Jane Doe 1971")
    assert "Jane" not in str(refused.value)
