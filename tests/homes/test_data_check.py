"""A look at a data set counts small groups as a naive count does; what is spent grows with each charge."""

import csv
import io
from collections import Counter
from pathlib import Path

import pytest
from home_world import CANARY, make_owner, opened, rows_text, write_policy

from likeset.errors import InvalidArgument
from likeset.homes.checkup import check_data, checkup
from likeset.homes.data import SmallGroup


def test_small_groups_are_those_of_a_naive_count(tmp_path: Path) -> None:
    """Three of 60 rows have a category of their own; groups of fewer than 4, and of fewer than 40, are small."""
    folder = make_owner(tmp_path, rare=3)
    rows = list(csv.DictReader(io.StringIO(rows_text(1, rare=3))))
    counts = Counter((name, row[name]) for row in rows for name in ("sex", "ill"))
    for smallest in (4, 40):
        write_policy(folder, smallest_group=smallest)
        with opened(folder) as owner:
            look = check_data(owner, "patients")
        expected = {SmallGroup(*group, count) for group, count in counts.items() if count < smallest}
        assert set(look.small_groups) == expected
        assert SmallGroup("sex", CANARY, 3) in expected
        withheld = sum(
            any(SmallGroup(name, row[name], counts[name, row[name]]) in expected for name in ("sex", "ill"))
            for row in rows
        )
        assert (look.rows, look.smallest_group, look.withheld) == (60, smallest, withheld)
        assert [group.rows for group in look.small_groups] == sorted(group.rows for group in look.small_groups)


def test_a_look_says_what_a_check_of_everything_says_and_writes_nothing_into_the_log(tmp_path: Path) -> None:
    folder = make_owner(tmp_path, rare=3, smallest_group=4, columns=["age", "dose", "sex"])
    with opened(folder) as owner:
        before = owner.ledger.head()
        look = check_data(owner, "patients")
        assert owner.ledger.head() == before
        assert list(look.checks) == [check for check in checkup(owner.home) if check.check == "data set patients"]
        assert not look.ok, "a column may not leave"
        assert "3 rows are in groups of fewer than 4 and are never offered" in [check.detail for check in look.checks]
        assert not any(CANARY in check.detail for check in look.checks), "words never contain a value"
        with pytest.raises(InvalidArgument):
            check_data(owner, "nosuch")


@pytest.mark.parametrize(("rows_each", "warned"), [(1, False), (4, True)])
def test_a_look_warns_of_persons_with_several_rows_and_no_declared_id(
    tmp_path: Path, rows_each: int, *, warned: bool
) -> None:
    folder = make_owner(tmp_path)
    head, *lines = (tmp_path / "a.csv").read_text().splitlines()
    numbered = [f"{line},P{place // rows_each:04d}" for place, line in enumerate(lines)]
    (tmp_path / "a.csv").write_text("\n".join([f"{head},patient_id", *numbered]) + "\n")
    with opened(folder) as owner:
        look = check_data(owner, "patients")
    assert look.ok
    assert any("'patient_id'" in check.detail for check in look.checks) == warned
