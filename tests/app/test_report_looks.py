"""What the report's page shows of rows and labels, and how it writes numbers, names and addresses."""

import html
import re
from typing import Any

import pytest
from report_sample import Page, sample_pictures, sample_result

from likeset.app.report import render
from likeset.app.report.figures import draw_marginal
from likeset.app.report.markup import html_text
from likeset.app.report.page import _contributions


def test_a_bar_of_shares_is_drawn_on_a_scale_of_all_of_it() -> None:
    shown = _contributions({"owners": [{"name": "a", "share": 0.4}, {"name": "b", "share": 0.2}]})
    assert re.findall(r"width:([\d.]+)%", shown) == ["40.0", "20.0"]


def test_numbers_are_not_broken_over_lines() -> None:
    page = html.unescape(render(sample_result() | {"gamma": 1.3e-5, "rows_seen": 12345}, {}))
    assert "1.3\u00a0\u00d7\u00a010⁻⁵" in page
    assert "12,345" in page
    assert "12 345" not in page


def test_a_run_without_a_name_of_its_own_is_not_called_run_run() -> None:
    assert "run heart-2031" in Page(render(sample_result(), {})).text
    assert "run run" not in Page(render(sample_result() | {"run": "run"}, {})).text


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("/somewhere/deep/target.csv", "target.csv"),
        ("C:\\rows\\target.csv", "target.csv"),
        ("target.csv", "target.csv"),
        ("sql:SELECT age, sex FROM 'a very long name of a file.csv'", "sql:SELECT age, sex FROM 'a very…"),
        ("sqlite:rows.db?table=a", "sqlite:rows.db?table=a"),
    ],
)
def test_a_long_address_is_a_short_one_and_a_tooltip(address: str, shown: str) -> None:
    result = sample_result() | {"target": {"name": address, "rows": 7}}
    assert f'<span title="{html_text(address)}">{html_text(shown)}</span>, 7 rows' in render(result, {})


def test_columns_that_are_not_drawn_are_counted() -> None:
    pictures = sample_pictures()
    drawn = len(pictures["marginals"])
    columns = [{"name": f"c{place}", "kind": "numeric", "unit": "1"} for place in range(drawn + 1200)]
    wide = sample_result() | {"schema": {"digest": "d", "columns": columns}}
    assert (
        f"of {drawn + 1200:,} columns: those in which target and offers differ most"
        in Page(render(wide, pictures)).text
    )
    few = sample_result() | {"schema": {"digest": "d", "columns": columns[:1]}}
    assert "Shown are" not in Page(render(few, pictures)).text


def test_gamma_is_not_called_a_width() -> None:
    assert "width" not in Page(render(sample_result(), sample_pictures())).text.lower()


def test_with_an_id_the_page_speaks_of_persons() -> None:
    def page(declared: dict[str, Any] | None, most: int) -> str:
        result = sample_result() | {"schema": {"columns": [], "id": declared}}
        result["terms"] = result["terms"] | {"summary": result["terms"]["summary"] | {"rows_per_unit": most}}
        return Page(render(result, {})).text

    rows, persons = page(None, 1), page({"column": "patient", "rows_per_id": 3}, 3)
    kept = page({"column": "patient", "rows_per_id": 10, "keep": 1}, 1)
    assert "about any row of your target and nothing in this run about any row of one another" in rows
    assert "about any person in your target, of whose rows at most 3 take part," in persons
    assert "about any person in your target, of whose rows at most 1 takes part," in kept
    assert ("guess about one row of your target" in rows, "guess about one person in it" in persons) == (True, True)
    assert "patient" not in persons


class TestLooks:
    VALUES = tuple(f"diagnosis {place:02d}" for place in range(9))

    def marginal(self, **changed: Any) -> dict[str, Any]:
        shares = [0.2, 0.2, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05]
        known = {"column": "d", "kind": "category", "edges": None, "values": list(self.VALUES), "pool": None}
        return known | {"target": shares, "summary": shares[::-1]} | changed

    def words(self, marginal: dict[str, Any]) -> str:
        return Page(draw_marginal(marginal, 0)).text

    def test_a_long_word_is_cut_and_not_lost(self) -> None:
        names = ["Business_and_Repair_Service", "Craftsmen, Foremen_and_kindred", "Trade"]
        shown = self.words(self.marginal(values=names, target=[0.5, 0.3, 0.2], summary=[0.5, 0.3, 0.2]))
        assert "Business_and_…" in shown
        assert "Craftsmen,…" in shown
        assert "Trade" in shown

    def test_years_have_no_mark_for_thousands(self) -> None:
        edges = [1979.5 + place for place in range(9)]
        bars = {"edges": edges, "values": None, "kind": "numeric", "target": [0.125] * 8, "summary": [0.125] * 8}
        assert "1982" in self.words(self.marginal(column="birth_year", **bars))
        assert "1,982" in self.words(self.marginal(column="steps", **bars))

    def test_values_that_are_cut_off_are_counted(self) -> None:
        """Five of nine are drawn, and three more were never among the nine."""
        assert "4 others" in self.words(self.marginal())
        others = {"count": 3, "target": 0.1, "summary": 0.0}
        assert "7 others" in self.words(self.marginal(others=others))

    def test_all_are_drawn_where_only_one_would_be_left(self) -> None:
        few = self.marginal(values=list("abcdef"), target=[0.2] * 6, summary=[0.2] * 6)
        assert "others" not in self.words(few)

    def test_missing_values_have_a_line_or_words(self) -> None:
        missing = {"target": 0.25, "summary": 0.1}
        assert "missing" in self.words(self.marginal(missing=missing))
        assert "missing" not in self.words(self.marginal())
        pictures = sample_pictures()
        pictures["marginals"][0]["missing"] = missing
        assert "missing: 25% of the target, 10% of the summary" in Page(render(sample_result(), pictures)).text

    def test_names_that_begin_alike_are_told_apart(self) -> None:
        values = [f"diagnosis code of the book {place}" for place in range(5)]
        words = self.words(self.marginal(values=values, target=[0.2] * 5, summary=[0.2] * 5))
        assert all(f"…{place}" in words for place in range(5))

    def test_days_are_shown_as_dates(self) -> None:
        """Day 0 is the first of 1970, day 7305 that of 1990."""
        days = {"kind": "date", "edges": [0.0, 3652.0, 7305.0], "values": None}
        words = self.words(self.marginal(**days, target=[0.5, 0.5], summary=[0.4, 0.6]))
        assert {"1970", "1983"} & set(words.split())
        assert "7,305" not in words


class TestLabels:
    def test_the_distribution_of_classes_is_shown(self) -> None:
        labels = {"column": "ill", "values": ["yes", "no"], "rows": [60, 30], "others": {"count": 2, "rows": 10}}
        page = render(sample_result(), {"labels": labels})
        words = Page(page).text
        assert all(word in words for word in ("The labels that you get", "60%", "30%", "2 other labels", "10%"))
        assert "width:60.0%" in page

    def test_numbers_are_drawn(self) -> None:
        labels = {"column": "cost", "edges": [0.0, 10.0, 20.0], "rows": [3, 4]}
        assert 'aria-label="Labels from 0 to 20."' in render(sample_result(), {"labels": labels})

    def test_without_labels_there_is_no_such_section(self) -> None:
        assert "The labels that you get" not in render(sample_result(), {"labels": None})
        assert "The labels that you get" not in render(sample_result(), {})
