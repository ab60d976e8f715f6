"""The report: one page that loads nothing, says what it must and, for an owner, nothing that it must not."""

import copy
import html
import pickle
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from report_sample import OWNERS, Page, guarantee, line, sample_pictures, sample_result, warning

from likeset.app.report import figures, render, render_for_owner
from likeset.app.report.page import _contributions
from likeset.app.report.plain_words import DASH, bytes_in_words, cost, enumeration, guess, number, percent, plain
from likeset.errors import InvalidArgument

HOSTILE = '<script>alert("x")</script>$\\frac{&\'--> id="figure_1" #0072b2 \x1b[31m\u202e'
EMPTY_PICTURES: dict[str, Any] = {"projection": None, "marginals": [], "images": None}


@pytest.fixture(autouse=True, scope="module")
def each_figure_is_drawn_once() -> Iterator[None]:
    """Most tests change a word or a number of the same result, and its figures are the same again."""
    drawn: dict[bytes, str] = {}

    def once(draw: Callable[..., str]) -> Callable[..., str]:
        def draw_once(*given: Any, **options: Any) -> str:
            key = pickle.dumps((draw.__name__, given, options))
            if key not in drawn:
                drawn[key] = draw(*given, **options)
            return drawn[key]

        return draw_once

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("likeset.app.report.match_section.draw_picks", once(figures.draw_picks))
        for draw in (figures.draw_images, figures.draw_marginal, figures.draw_projection):
            patched.setattr(f"likeset.app.report.looks_section.{draw.__name__}", once(draw))
        yield


def headline(page: str) -> str:
    """The first heading and the sentence after it, as plain text."""
    found = re.search(r"<h1>(.*?)</h1>\s*<p>(.*?)</p>", page, re.DOTALL)
    assert found is not None
    return html.unescape(re.sub(r"<[^>]+>", "", f"{found[1]} {found[2]}"))


def test_the_answer_is_one_sentence_with_its_comparison_and_its_protection() -> None:
    """Four of five owners gave a selected row; the interval ends at 0.00501, below 0.00514."""
    assert headline(render(sample_result(), sample_pictures())) == (
        "100 rows from 4 owners match rows like your 70 rows with MMD² 0.0042 (0.0032 to 0.0050): closer than 100 "
        "fresh rows of your own kind would be (0.0051); random rows among those offered would give 0.021. Owners "
        "learned at most ε = 1, δ = 10⁻⁵ about any row of your target and nothing in this run "
        "about any row of one another. "
        "A coin-flip guess about one row of your target becomes correct at most 55.4% of the time."
    )


def headline_beside_fresh_rows(fresh: float) -> str:
    result = sample_result()
    result["comparison"]["lines"][1:] = [line("fresh rows of the target", fresh, "", kind="fresh")]
    return headline(render(result, EMPTY_PICTURES))


@pytest.mark.parametrize(("fresh", "words"), [(0.0082, "closer than"), (0.0021, "not as close as")])
def test_a_difference_from_fresh_rows_is_claimed_where_the_interval_shows_one(fresh: float, words: str) -> None:
    assert f": {words} 100 fresh rows of your own kind would be" in headline_beside_fresh_rows(fresh)


@pytest.mark.parametrize("fresh", [0.0033, 0.00421, 0.005])
def test_no_verdict_is_given_where_the_interval_includes_fresh_rows(fresh: float) -> None:
    """0.0042 is 1.3 times 0.0033, and the interval from 0.0032 to 0.0050 cannot tell them apart."""
    words = headline_beside_fresh_rows(fresh)
    assert "; the interval includes what 100 fresh rows of your own kind would give (0.00" in words
    assert "as close as" not in words
    assert "closer" not in words


def test_an_alternative_is_known_by_its_kind_whatever_it_is_called() -> None:
    result = sample_result()
    result["comparison"]["lines"][1:] = [line("Fresh start, random forest", 0.5, ""), line("Random walk", 0.6, "")]
    assert headline(render(result, EMPTY_PICTURES)).startswith(
        "100 rows from 4 owners match rows like your 70 rows with MMD² 0.0042 (0.0032 to 0.0050)."
    )


def test_the_headline_takes_nothing_from_a_table_with_another_measure() -> None:
    result = sample_result()
    result["comparison"]["measure"] = "held-out"
    assert headline(render(result, EMPTY_PICTURES)).startswith(
        "100 rows from 4 owners match rows like your 70 rows with MMD² 0.0042 (0.0032 to 0.0050). Owners"
    )


def test_where_nothing_was_held_out_the_page_calls_its_number_in_sample() -> None:
    """The summary was fitted to these rows, so nothing is said about fresh ones."""
    result = sample_result() | {"likeness": None}
    result["comparison"]["measure"] = "in-sample"
    page = render(result, sample_pictures())
    assert headline(page).startswith("100 rows from 4 owners match your 70 rows with in-sample MMD² 0.0030; random")
    assert "is not known" in page


def test_the_in_sample_number_never_stands_beside_the_estimate() -> None:
    result = sample_result() | {"in_sample_squared_mmd": 0.00717}
    assert "0.0072" not in Page(render(result, sample_pictures())).text


def test_between_organisations_there_is_no_curve() -> None:
    """Only the estimate is known there; an in-sample curve would be another measure than the table beside it."""
    result = sample_result()
    assert 'id="picks' in render(result, {})
    result["comparison"]["curve"] = []
    page = render(result, {})
    assert 'id="picks' not in page
    assert headline(page).startswith("100 rows from 4 owners match rows like your 70 rows with MMD² 0.0042")


def test_a_summary_far_from_its_target_is_called_that() -> None:
    result = sample_result()
    assert "That is far" not in render(result, sample_pictures())
    result["likeness"] |= {"squared_mmd": 0.43, "low": 0.40, "high": 0.46}
    page = render(result, sample_pictures())
    assert "That is far: few rows like yours were offered." in page


@pytest.mark.parametrize("name", ["consumer", "owners", "any owners", "the curator"])
def test_an_owner_that_is_called_like_a_role_is_an_owner(name: str) -> None:
    """Alone in a coalition: what it may learn counts as what owners learn, and others' reports do not show it."""
    owners = (*OWNERS[:4], name)
    result = sample_result(owners)
    for one in result["guarantees"]:
        one["protects"] = "new-clinic" if one["protects"] == "consumer" else one["protects"]
    result["guarantees"].append(guarantee("owners", owners[0], 0.7, "proven", "", coalition=[name]))
    assert "at most ε = 0.7, δ = 10⁻⁵ about any row of one another" in headline(render(result, {}))
    assert "0.7" not in Page(render_for_owner(result, owners[0])).text


def test_the_worst_guarantee_is_the_one_in_the_headline() -> None:
    result = sample_result()
    assert "No owner saw another owner" in render(result, {})
    result["guarantees"].append(guarantee("owners", OWNERS[2], 0.7, "proven", ""))
    assert "No owner saw another owner" not in render(result, {})
    assert "at most ε = 0.7, δ = 10⁻⁵ about any row of one another" in headline(render(result, {}))
    result["guarantees"].append(guarantee("owners", OWNERS[3], None, "none", ""))
    assert "we cannot say how much about any row of one another" in headline(render(result, {}))


def test_fewer_rows_than_asked_for_are_not_passed_over() -> None:
    result = sample_result() | {"rows_selected": 87}
    assert headline(render(result, {})).startswith("87 of the 100 rows asked for, from 4 owners match")


def test_every_section_is_there_and_every_figure_has_words() -> None:
    page = Page(render(sample_result() | {"warnings": [warning("mind the gap")]}, sample_pictures(images=True)))
    sections = [attributes.get("id") for tag, attributes in page.tags if tag == "section"]
    assert sections == [
        "warnings", "question", "match", "looks", "contributions", "guarantees", "premises", "terms",
        "columns", "words",
    ]  # fmt: skip
    drawings = [attributes for tag, attributes in page.tags if tag == "svg"]
    assert len(drawings) == 3 + 6  # picks, projection, images, and six of the seven columns
    assert all(one.get("role") == "img" and one.get("aria-label") for one in drawings)


@pytest.mark.parametrize("owner", [None, OWNERS[0]])
def test_nothing_is_loaded_and_nothing_is_run(owner: str | None) -> None:
    result, pictures = sample_result(), sample_pictures(images=True)
    whole = render_for_owner(result, owner) if owner else render(result, pictures)
    assert re.findall(r"https?:|//\w|@import|javascript:", re.sub(r"base64,[^\"]*", "", whole)) == []
    page = Page(whole)
    assert not {"script", "link", "iframe", "object", "img", "a"} & {tag for tag, _ in page.tags}
    for _, attributes in page.tags:
        assert not any(name.startswith("on") or name == "src" for name in attributes)
        assert (attributes.get("href") or "#").startswith(("#", "data:image/png;base64,"))


def test_ids_are_unique_and_every_reference_has_its_id() -> None:
    whole = render(sample_result(), sample_pictures(images=True))
    ids = [attributes["id"] for _, attributes in Page(whole).tags if "id" in attributes]
    assert len(ids) == len(set(ids)) > 50
    used = set(re.findall(r"url\(#([^)]+)\)|href=\"#([^\"]+)\"", whole))
    assert used
    assert {first or second for first, second in used} <= set(ids)


def test_equal_runs_give_equal_bytes() -> None:
    first = render(sample_result(), sample_pictures(images=True))
    assert render(copy.deepcopy(sample_result()), sample_pictures(images=True)) == first
    assert render_for_owner(sample_result(), OWNERS[1]) == render_for_owner(sample_result(), OWNERS[1])


def test_rendering_leaves_what_it_was_given() -> None:
    result, pictures = sample_result(), sample_pictures()
    render(result, pictures)
    assert (result, pictures) == (sample_result(), sample_pictures())


def test_hostile_names_are_only_names() -> None:
    """In every place where text from outside stands: names, columns, values, warnings, words, terms."""
    owners = [f"{HOSTILE}{place}" for place in range(5)]
    result = sample_result(owners, [HOSTILE, "age"])
    for key in ("run", "version", "created", "protocol"):
        result[key] = HOSTILE
    result["warnings"] = [warning(HOSTILE)]
    result["target"]["name"] = HOSTILE
    result["comparison"]["lines"].append(line(HOSTILE, 0.03, HOSTILE))
    result["guarantees"].append(guarantee(HOSTILE, HOSTILE, 1.0, HOSTILE, HOSTILE))
    result["terms"] = {"digest": HOSTILE, "summary": {HOSTILE: HOSTILE, "purpose": [HOSTILE, {HOSTILE: HOSTILE}]}}
    result["owners"][0] |= {"problem": HOSTILE, "table": HOSTILE}
    pictures = sample_pictures(["sex", HOSTILE])
    pictures["marginals"][0]["values"] = [HOSTILE, "血液"]
    clean = Page(render(sample_result(), sample_pictures(["sex", "age"])))
    for whole in (render(result, pictures), render_for_owner(result, owners[0])):
        page = Page(whole)
        assert {tag for tag, _ in page.tags} <= {tag for tag, _ in clean.tags} | {"ol", "li", "ul", "p", "b"}
        assert "<script" not in whole
        assert "\x1b" not in whole
        assert "\u202e" not in whole
        assert '<script>alert("x")</script>' in page.text


@pytest.mark.parametrize(
    "missing", ["comparison", "history", "terms", "schema", "seconds", "warnings", "guarantees", "owners", "target"]
)
def test_a_missing_part_is_left_out(missing: str) -> None:
    without = {key: value for key, value in sample_result().items() if key != missing}
    Page(render(without, sample_pictures()))
    Page(render(sample_result() | {missing: None}, {}))


def test_pictures_may_lack_anything() -> None:
    pictures = sample_pictures()
    pictures["projection"]["pool"] = None
    for one in pictures["marginals"]:
        one["pool"] = one["difference_before"] = None
    page = render(sample_result(), pictures)
    assert "everything that was offered" not in page
    assert page.count("<svg") == 2 + 5  # the curve and all columns together, with five around them
    without_curve = sample_result()
    without_curve["comparison"]["curve"] = []
    bare = render(without_curve, EMPTY_PICTURES)
    assert "<svg" not in bare
    assert "fresh rows of the target" in bare  # the table has it still


@pytest.mark.parametrize("owner", [None, OWNERS[0]])
def test_simulated_noise_is_said_on_top(owner: str | None) -> None:
    def page_of(result: dict[str, Any]) -> str:
        return render_for_owner(result, owner) if owner else render(result, sample_pictures())

    result = sample_result() | {"noise": "simulated", "private": False, "seed": 2019}
    for one in result["guarantees"]:
        one["basis"] = "simulated" if one["epsilon"] else one["basis"]
    page = page_of(result)
    assert page.index("Simulated, not private.") < page.index("<h1>")
    assert "at most ε" not in headline(page)
    assert "not private" not in Page(page_of(sample_result())).text.lower()


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
    result["guarantees"].append(
        guarantee("owners", OWNERS[0], 9.191, "proven", "canary-coalition", coalition=OWNERS[1:3])
    )
    result["terms"]["summary"] |= {"purpose": f"for {OWNERS[3]}", "canary_term": "canary-term-value"}
    return result


def test_what_only_an_owner_knows_is_told_as_a_bound() -> None:
    """Between organisations a consumer knows how many rows may leave an owner, and not how many did."""
    result = sample_result()
    known = Page(render(result, sample_pictures())).text
    assert "at most 200" not in known
    for owner in result["owners"]:
        owner |= {"rows": None, "disclosed": None, "disclosed_at_most": 200, "payment": None, "payment_at_most": 87.5}
    page = Page(render(result, sample_pictures())).text
    assert page.count("at most 200") == 2 * len(OWNERS)  # offered, and left the premises
    assert page.count("at most 87.50") == len(OWNERS)
    own = Page(render_for_owner(result, OWNERS[0])).text
    assert f"{OWNERS[0]} sent at most 200 to the curator" in own
    assert "at most 200 rows" in own


def test_an_owner_sees_its_own_transcript_only() -> None:
    page = Page(render_for_owner(canary_result(), OWNERS[0]))
    everything = page.text + " ".join(str(value) for _, attributes in page.tags for value in attributes.values())
    for name in OWNERS[1:]:
        assert name not in everything
    assert "canary" not in everything
    digits = re.sub(r"(?<=\d)[\s.](?=\d)", "", everything.replace("04be71d2", "").replace("9f3c0a51", ""))
    for number_of in range(71, 92):
        assert str(number_of) * 2 not in digits
    for own in (OWNERS[0], "200", "of its 303 rows", "52.3 kB", "1.2 kB", "2 messages", "9f3c0a51" * 8):
        assert own in page.text
    assert "owners invited 5" in page.text


def test_an_owners_page_does_not_depend_on_what_it_must_not_hear() -> None:
    """Stronger than any list of canaries: the two pages are the same bytes."""
    plain_run, other = sample_result(), canary_result()
    other["terms"] = plain_run["terms"]
    assert render_for_owner(other, OWNERS[0]) == render_for_owner(plain_run, OWNERS[0])


def test_an_owner_is_paid_by_the_rows_that_left_whatever_the_run_says() -> None:
    """0.5 a row, 200 rows."""
    assert "100.00" in render_for_owner(canary_result(), OWNERS[0])


def test_an_owner_who_is_not_there_and_a_result_of_another_format_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"owner = nobody: took no part"):
        render_for_owner(sample_result(), "nobody")
    newer = sample_result() | {"format": 4}
    with pytest.raises(InvalidArgument, match=r"result\.format = 4: this version reads format 3"):
        render(newer, {})
    with pytest.raises(InvalidArgument, match=r"result\.format = 4: this version reads format 3"):
        render_for_owner(newer, OWNERS[0])


def test_the_same_is_said_once_for_all_owners() -> None:
    page = render(sample_result(), {})
    table = page[page.index('id="guarantees"') : page.index('id="premises"')]
    assert table.count('<tr role="row">') == 1 + 5  # the head; target: owners, curator; owners' rows: three observers
    assert table.count("every owner&#x27;s rows") == 3
    assert table.count('class="badge proven"') == 2
    assert table.count('class="badge none"') == 3


def test_thousands_of_owners_do_not_make_a_page_of_thousands_of_lines() -> None:
    result = sample_result()
    result["owners"] = [result["owners"][0] | {"name": f"owner-{place}"} for place in range(3000)]
    page = render(result, {})
    assert "2,960 more owners: see result.json." in page
    assert len(page) < 200_000


@pytest.mark.parametrize(
    ("value", "digits", "words"),
    [
        (0.00419, 2, "0.0042"), (1e-5, 2, "10⁻⁵"),
        (1.3e-5, 2, "1.3\u00a0\u00d7\u00a010⁻⁵"), (0, 2, "0"), (0.0, 2, "0"), (1000, 2, "1,000"),
        (12345.6, 2, "12,346"),
        (1.0, 3, "1"), (12.34, 2, "12"), (6.29, 2, "6.3"), (-0.5, 1, "\u22120.5"), (None, 2, DASH),
        (float("nan"), 2, DASH),
        (float("inf"), 2, "∞"), (True, 2, DASH), ("7", 2, DASH), (0.1, 2, "0.10"),
    ],
)  # fmt: skip
def test_numbers_have_the_digits_that_matter(value: object, digits: int, words: str) -> None:
    assert number(value, digits) == words


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (
            {"weight": 0.88, "skill": 0.88},
            "matched together with rows: rows near the target explain 88% of the variance",
        ),
        (
            {"weight": 0.0, "skill": 0.31},
            "not matched: rows near the target explain 31% of the variance of labels, too little to use",
        ),
    ],
)
def test_the_page_says_how_labels_counted(labels: dict[str, float], words: str) -> None:
    assert words in Page(render(sample_result() | {"labels": labels}, sample_pictures())).text


@pytest.mark.parametrize("labels", [None, "much", {}, {"weight": 0.0, "skill": 0.0}, {"weight": "x", "skill": None}])
def test_the_page_says_nothing_about_labels_that_nobody_looked_at(labels: object) -> None:
    pictures = sample_pictures()
    assert render(sample_result() | {"labels": labels}, pictures) == render(sample_result(), pictures)


def test_other_words() -> None:
    assert (bytes_in_words(999), bytes_in_words(52311), bytes_in_words(1.5e9)) == tuple(
        f"{amount}\u00a0{unit}" for amount, unit in (("999", "bytes"), ("52.3", "kB"), ("1.5", "GB"))
    )
    assert (percent(0.041), percent(0.41), percent(0.0), percent(None)) == ("4.1%", "41%", "0%", DASH)
    assert (enumeration(["a"]), enumeration(["a", "b", "c"]), enumeration(list("abc"), 2)) == (
        "a",
        "a, b and c",
        "a, b and 1 more",
    )
    assert plain("a\x00b\nc\u202ed") == r"a\x00b\nc\u202ed"
    known = {"guess": 0.55329}
    assert "55.4% of the time" in guess(guarantee("owners", "c", 1.0, "proven", "") | known, "row")
    for basis, right in (("claimed", 0.6), ("simulated", 0.6), ("proven", None)):
        assert guess(guarantee("owners", "c", 1.0, basis, "") | {"guess": right}, "row") == ""
    assert cost(guarantee("owners", "c", None, "none", "")) == "no bound"
    assert cost(guarantee("owners", "c", 1.0, "simulated", "")) == "no bound"


def test_one_share_of_each_owner_is_shown() -> None:
    owners = [{"name": "a", "share": 0.75, "shapley": 0.3}, {"name": "b", "share": 0.25, "shapley": 0.1}]
    assert re.findall(r"(\d+)%<", _contributions({"owners": owners})) == ["75", "25"]
