"""A look at a data set counts small groups as a naive count does; what is spent grows with each charge."""

import csv
import io
from collections import Counter
from pathlib import Path

from home_world import CANARY, make_owner, opened, rows_text, write_policy

from likeset.homes.checkup import check_data
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
