"""The report: one page that loads nothing, and for an owner one that depends on nothing the owner must not learn."""

import base64
import re
from typing import Any

import pytest
from report_sample import OWNERS, Page, guarantee, line, sample_pictures, sample_result, warning

from likeset.app.report import render, render_for_owner
from likeset.app.report.figures import Image, draw_marginal
from likeset.app.report.view import Cell, Table, report_view
from likeset.errors import InvalidArgument
from screens import Screens, visible

HOSTILE = '<script>alert("x")</script>$\\frac{&\'--> id="figure_1" \x1b[31m\u202e'


def text_of(table: Table, head: str) -> list[str]:
    cells = [row[list(table.heads).index(head)] for row in table.rows]
    return [cell.text if isinstance(cell, Cell) else cell for cell in cells]


def svg(image: Image | None) -> str:
    assert image is not None
    return base64.b64decode(image.src.removeprefix("data:image/svg+xml;base64,")).decode()


def drawn(marginal: dict[str, Any]) -> str:
    return " ".join(re.findall(r">([^<>]+)</text>", svg(draw_marginal(marginal))))


def view(changed: dict[str, Any] | None = None, pictures: dict[str, Any] | None = None) -> dict[str, Any]:
    return report_view(sample_result() | (changed or {}), pictures or {}, None)


@pytest.mark.usefixtures("without_figures")
def test_the_text_of_the_pages(screens: Screens) -> None:
    result = sample_result() | {"warnings": [warning("mind the gap")], "labels": {"weight": 0.3, "skill": 0.42}}
    counted = {
        "column": "ill",
        "values": ["yes", "no"],
        "rows": [60, 30],
        "offers": [0.25, 0.5],
        "others": {"count": 2, "rows": 10},
    }
    whole = visible(render(result, sample_pictures() | {"labels": counted}))
    screens.check("report", whole)
    screens.check("page of an owner", visible(render_for_owner(result, OWNERS[0])), beside=whole)
    result["guarantees"][0] |= {"epsilon": None, "basis": "none"}
    result["schema"]["id"] = {"column": "patient", "rows_per_id": 10, "keep": 3}
    result["terms"]["summary"]["rows_per_unit"] = 3
    screens.check("report without a bound for persons", visible(render(result, {})), beside=whole)
    result |= {"noise": "simulated", "private": False, "seed": 2019, "distance": None, "rows_selected": 87}
    result["comparison"] |= {"measure": "in-sample"}
    unknown = {"rows": None, "disclosed": None, "disclosed_at_most": 200, "payment": None, "payment_at_most": 87.5}
    result["owners"] = [owner | unknown for owner in result["owners"]]
    screens.check("report of a simulation", visible(render(result, {})), beside=whole)


@pytest.mark.usefixtures("without_figures")
class TestWhatThePageSays:
    @pytest.mark.parametrize(
        ("fresh", "verdict"),
        [(0.0082, "closer than"), (0.0021, "not as close as"), (0.0033, "interval includes"), (0.005, "interval incl")],
    )
    def test_fresh_rows_are_compared_by_the_interval(self, fresh: float, verdict: str) -> None:
        """0.0042 is 1.3 times 0.0033, and the interval from 0.0032 to 0.0050 includes both."""
        result = sample_result()
        result["comparison"]["lines"][1:] = [line("fresh rows of the target", fresh, "", kind="fresh")]
        assert verdict in report_view(result, {}, None)["verdict"]

    def test_the_in_sample_distance_is_never_beside_the_estimate(self) -> None:
        result = sample_result() | {"in_sample_squared_mmd": 0.00717}
        assert "0.0072" not in (words := Page(render(result, {})).text)
        assert "0.00717" not in words

    @pytest.mark.parametrize("name", ["consumer", "owners", "any owners", "the curator"])
    def test_an_owner_that_is_called_like_a_role_is_an_owner(self, name: str) -> None:
        owners = (*OWNERS[:4], name)
        result = sample_result(owners)
        for one in result["guarantees"]:
            one["protects"] = "new-clinic" if one["protects"] == "consumer" else one["protects"]
        result["guarantees"].append(guarantee("owners", name, 0.7, "proven", ""))
        assert "epsilon = 0.7" in report_view(result, {}, None)["protection"]
        assert "0.7" not in Page(render_for_owner(result, owners[0])).text

    def test_a_page_has_a_bounded_number_of_owners(self) -> None:
        result = sample_result()
        result["owners"] = [result["owners"][0] | {"name": f"owner-{place}"} for place in range(3000)]
        page = render(result, {})
        assert "2,960 more owners" in page
        assert len(page) < 200_000

    @pytest.mark.parametrize("owner", [None, OWNERS[0]])
    def test_simulated_noise_is_said_on_top(self, owner: str | None) -> None:
        result = sample_result() | {"noise": "simulated", "private": False, "seed": 2019}
        page = render_for_owner(result, owner) if owner else render(result, {})
        assert page.index("Simulated, not private.") < page.index("<h1>")
        assert ("2019" in page) == (owner is None)  # with the seed, an owner could remove the noise
        private = render_for_owner(sample_result(), owner) if owner else render(sample_result(), {})
        assert "not private" not in Page(private).text.lower()


class TestFigures:
    def marginal(self, **changed: Any) -> dict[str, Any]:
        values = [f"diagnosis code {place:02d}" for place in range(6)]
        shares = {"target": [0.1] * 6, "summary": [0.1] * 6, "others": {"count": 3, "target": 0.4, "summary": 0.4}}
        known = {"column": "d", "kind": "category", "edges": None, "values": values, "missing": None}
        return known | shares | changed

    def test_ticks_are_dates_years_or_numbers(self) -> None:
        """Day 0 is the first of 1970, day 7305 that of 1990."""
        halves = {"values": None, "target": [0.5, 0.5], "summary": [0.4, 0.6]}
        days = drawn(self.marginal(**halves, kind="date", edges=[0.0, 3652.0, 7305.0]))
        assert {"1970", "1983"} & set(days.split())
        years = {**halves, "kind": "numeric", "edges": [1979.5, 1983.5, 1987.5]}
        assert "1982" in drawn(self.marginal(**years, column="birth_year"))
        assert "1,982" in drawn(self.marginal(**years, column="steps"))


class TestPages:
    def test_every_section_is_there_and_every_figure_has_words(self) -> None:
        result = sample_result() | {"warnings": [warning("mind the gap")]}
        page = Page(render(result, sample_pictures(images=True)))
        assert [attributes.get("id") for tag, attributes in page.tags if tag == "section"] == [
            "warnings", "request", "distance", "distributions", "contributions", "guarantees", "terms",
            "columns", "glossary",
        ]  # fmt: skip
        images = [attributes for tag, attributes in page.tags if tag == "img"]
        assert len(images) == 3 + 6  # picks, projection, images, and six of the seven columns
        assert all(image.get("alt") for image in images)
        ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
        assert len(ids) == len(set(ids))
        assert {attributes["aria-labelledby"] for _, attributes in page.tags if "aria-labelledby" in attributes} <= set(
            ids
        )

    @pytest.mark.parametrize("owner", [None, OWNERS[0]])
    def test_nothing_is_loaded_and_nothing_is_run(self, owner: str | None) -> None:
        whole = render_for_owner(sample_result(), owner) if owner else render(sample_result(), sample_pictures())
        assert re.findall(r"https?:|//\w|@import|javascript:", re.sub(r"base64,[^\"]*", "", whole)) == []
        page = Page(whole)
        assert not {"script", "link", "iframe", "object", "a"} & {tag for tag, _ in page.tags}
        for _, attributes in page.tags:
            assert not any(name.startswith("on") or name == "href" for name in attributes)
            assert (attributes.get("src") or "data:image/svg+xml;base64,").startswith("data:image/svg+xml;base64,")

    def test_hostile_text_is_only_text(self) -> None:
        """In every place where text from outside stands: names, columns, values, warnings, words, terms."""
        owners = [f"{HOSTILE}{place}" for place in range(5)]
        result = sample_result(owners, [HOSTILE, "age"])
        for key in ("run", "version", "created", "protocol"):
            result[key] = HOSTILE
        result["warnings"] = [warning(HOSTILE)]
        result["target"]["name"] = HOSTILE
        result["comparison"]["lines"].append(line(HOSTILE, 0.03, HOSTILE))
        result["guarantees"].append(guarantee("owners", HOSTILE, 1.0, HOSTILE, HOSTILE))
        result["guarantees"].append(guarantee("owners", owners[0], 1.0, "proven", HOSTILE))
        result["terms"]["digest"] = HOSTILE
        result["terms"]["summary"] |= {HOSTILE: HOSTILE, "purpose": HOSTILE}
        result["owners"][0] |= {"problem": HOSTILE, "table": HOSTILE}
        result["budget"] = {"in_words": HOSTILE}
        pictures = sample_pictures(["sex", HOSTILE])
        pictures["marginals"][0]["values"] = [HOSTILE, "血液"]
        pictures["labels"] = {
            "column": HOSTILE,
            "values": [HOSTILE],
            "rows": [3],
            "offers": None,
            "others": {"count": 0, "rows": 0},
        }
        clean_labels = {"column": "x", "values": ["y"], "rows": [3], "offers": None, "others": {"count": 0, "rows": 0}}
        clean = sample_result(), sample_pictures(["sex", "age"]) | {"labels": clean_labels}
        known = {tag for tag, _ in Page(render(*clean)).tags} | {"ol", "li", "ul", "b"}
        for whole in (render(result, pictures), render_for_owner(result, owners[0])):
            page = Page(whole)
            assert {tag for tag, _ in page.tags} <= known
            assert not any(letter in whole for letter in ("<script", "\x1b", "\u202e"))
            assert '<script>alert("x")</script>' in page.text
        assert "<script" not in svg(draw_marginal(pictures["marginals"][0]))


def canary_result() -> dict[str, Any]:
    """A run in which everything that an owner must not hear has a number or word of its own."""
    result = sample_result()
    result |= {
        "in_sample_squared_mmd": 0.7171,
        "rows_selected": 7272,
        "rows_seen": 7373,
        "access_ratio": 74.74,
        "gamma": 0.7575,
    }
    result |= {"created": "2076-12-31T07:07:07", "seconds": {"total": 7777.0}, "warnings": [warning("canary-warning")]}
    result |= {"target": {"name": "canary-target.csv", "rows": 7979}, "seed": 80808}
    result["labels"] = {"weight": 0.9393, "skill": 0.9494}
    result["comparison"] = {
        "measure": "held-out",
        "rows": 7070,
        "lines": [line("canary-line", 0.8181, "canary-meaning") | {"scores": {"accuracy": 0.7878}}],
        "curve": [0.9595, 0.8181],
    }
    result["later_field"] = "canary-later"
    for place, one in enumerate(result["owners"]):
        own = place == 0
        one |= {"selected": 8282, "share": 0.8383, "shapley": 0.8484, "payment": 8585.0, "problem": "canary-problem"}
        one |= {} if own else {"rows": 8686, "disclosed": 8787, "sent_bytes": 88, "heard_bytes": 89, "messages": 9090}
        one["later_field"] = "canary-owner-later"
    result["guarantees"].append(guarantee("owners", OWNERS[1], 7.6, "proven", "canary-other"))
    result["terms"]["summary"] |= {"purpose": f"for {OWNERS[3]}", "canary_term": "canary-term-value"}
    return result


@pytest.mark.usefixtures("without_figures")
class TestOwnersPage:
    def test_an_owner_sees_its_own_messages_only(self) -> None:
        page = Page(render_for_owner(canary_result(), OWNERS[0]))
        everything = page.text + " ".join(str(value) for _, attributes in page.tags for value in attributes.values())
        for name in OWNERS[1:]:
            assert name not in everything
        assert "canary" not in everything
        digits = re.sub(r"(?<=\d)[\s.](?=\d)", "", everything.replace("04be71d2", "").replace("9f3c0a51", ""))
        for number_of in range(71, 92):
            assert str(number_of) * 2 not in digits
        for own in (OWNERS[0], "200", "303", "52.3 kB", "1.2 kB", "2 messages", "9f3c0a51" * 8, "owners invited 5"):
            assert own in page.text

    def test_an_owners_page_does_not_depend_on_what_it_must_not_hear(self) -> None:
        """Stronger than any list of canaries: the two pages are the same bytes."""
        plain_run, other = sample_result(), canary_result()
        other["terms"] = plain_run["terms"]
        assert render_for_owner(other, OWNERS[0]) == render_for_owner(plain_run, OWNERS[0])

    def test_an_owner_who_took_no_part_has_no_page(self) -> None:
        with pytest.raises(InvalidArgument, match=r"owner = nobody"):
            render_for_owner(sample_result(), "nobody")
