"""A look at a data set counts small groups as a naive count does; what was spent over time ends at the budgets."""

import csv
import io
from collections import Counter
from pathlib import Path

import pytest
from node_world import CANARY, approve, held, make_node, rows_text, terms, write_policy

from likeset.errors import InvalidArgument
from likeset.homes.data import SmallGroup
from likeset.homes.owner_node import OwnerNode
from likeset.homes.review import budget_overview, checkup, look_at_data
from likeset.ledger.budget import Charge
from likeset.ledger.ledger import Request
from likeset.privacy.events import ROW, Laplace, Norm, Relation, RowSum
from likeset.privacy.guarantee import View


def test_small_groups_are_those_of_a_naive_count(tmp_path: Path) -> None:
    """Three of 60 rows have a category of their own; groups of fewer than 4, and of fewer than 40, are small."""
    folder = make_node(tmp_path, rare=3)
    rows = list(csv.DictReader(io.StringIO(rows_text(1, rare=3))))
    counts = Counter((name, row[name]) for row in rows for name in ("sex", "ill"))
    for smallest in (4, 40):
        write_policy(folder, "a", smallest_group=smallest)
        with OwnerNode(folder) as node:
            look = look_at_data(node, "patients")
        expected = {SmallGroup(*group, count) for group, count in counts.items() if count < smallest}
        assert set(look.groups) == expected
        assert SmallGroup("sex", CANARY, 3) in expected
        withheld = sum(
            any(SmallGroup(name, row[name], counts[name, row[name]]) in expected for name in ("sex", "ill"))
            for row in rows
        )
        assert (look.rows, look.smallest, look.withheld) == (60, smallest, withheld)
        assert [group.rows for group in look.groups] == sorted(group.rows for group in look.groups)


def test_a_look_says_what_a_check_of_everything_says_and_writes_nothing_into_the_log(tmp_path: Path) -> None:
    folder = make_node(tmp_path, rare=3, smallest_group=4, columns=["age", "dose", "sex"])
    with OwnerNode(folder) as node:
        before = node.ledger.head()
        look = look_at_data(node, "patients")
        assert node.ledger.head() == before
        assert list(look.findings) == [finding for finding in checkup(node) if finding.what == "data set patients"]
        assert not look.ok, "a column may not leave"
        assert "3 rows are in groups of fewer than 4 and are never offered" in [one.words for one in look.findings]
        assert not any(CANARY in finding.words for finding in look.findings), "words never hold a value"
        with pytest.raises(InvalidArgument):
            look_at_data(node, "nosuch")


@pytest.mark.parametrize(("rows_each", "warned"), [(1, False), (4, True)])
def test_a_look_warns_of_persons_with_several_rows_and_no_declared_id(
    tmp_path: Path, rows_each: int, *, warned: bool
) -> None:
    folder = make_node(tmp_path)
    head, *lines = (tmp_path / "a.csv").read_text().splitlines()
    numbered = [f"{line},P{place // rows_each:04d}" for place, line in enumerate(lines)]
    (tmp_path / "a.csv").write_text("\n".join([f"{head},patient_id", *numbered]) + "\n")
    with OwnerNode(folder) as node:
        look = look_at_data(node, "patients")
    assert look.ok
    assert any("'patient_id'" in finding.words for finding in look.findings) == warned


def test_what_was_spent_over_time_only_grows_and_ends_at_what_is_spent_now(tmp_path: Path) -> None:
    runs = [terms(run=f"run-{number}", expires="2099-01-01") for number in (1, 2)]
    with OwnerNode(make_node(tmp_path)) as node:
        assert budget_overview(node).course == ()
        for number, run in enumerate(runs, start=1):
            approve(node, run)
            held(run, {"a": node}, tmp_path / run.run)
            overview = budget_overview(node)
            last = overview.course[-1]
            assert (last.epsilon, last.rows, last.readable) == (
                overview.epsilon.spent,
                overview.rows.spent,
                overview.readable.spent,
            )
            assert last.rows == 12 * number
        assert [point.rows for point in overview.course] == sorted(point.rows for point in overview.course)
        assert overview.document()["course"][-1]["rows"] == 24
        write_policy(node.home.folder, "a", total={"epsilon": 3.0, "delta": 1e-6, "rows": 99})
        assert budget_overview(node).course[-1].rows == 24, "under other limits as well"
        node.put_policy_in_force()
        for number in range(3):
            event = Laplace(scale=20.0, quantity=RowSum(Norm.COORDINATE, 1.0, ROW, Relation.REPLACE_ONE))
            charge = Charge(((View.owners("a"), event),))
            node.ledger.answer(charge, lambda: (b"", None), request=Request("other", number, "drawn"))
        overview = budget_overview(node)
        grown = [point.epsilon for point in overview.course[-4:]]
        assert 0.0 == grown[0] < grown[1] < grown[2] < grown[3] == overview.epsilon.spent
