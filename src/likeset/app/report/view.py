"""The pages: ``result.json``, ``pictures.json`` and ``evaluation.json`` as plain data, and templates that show it.

Each page is one HTML file without scripts that loads nothing.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from likeset.app.lazy import lazy_imports
from likeset.errors import InvalidArgument
from likeset.run.words import (
    DASH,
    GAINS,
    MEASURES,
    NO_BREAK,
    TIMES,
    GuaranteeLine,
    amount,
    bytes_in_words,
    distance_notes,
    environment,
    epsilon_of,
    guarantee_lines,
    guess,
    headline,
    labels_in_words,
    learned,
    measure_in_words,
    number,
    or_bound,
    owed_in_words,
    percent,
    quantity,
    score_in_words,
    setting,
    share_in_words,
    short_address,
    test_in_words,
    title_of,
)
from likeset.text import harmless

with lazy_imports():  # matplotlib takes a third of a second
    from likeset.app.report import figures

_MOST_OWNERS = 40
_MOST_COLUMNS = 60
_MOST_MARGINALS = 6
_AROUND = 5  # columns that fit around a drawing of all of them
_UNNAMED = "run"  # the default name of a run

_PUBLIC_TERMS = frozenset({
    "protocol", "consumer", "purpose", "quorum", "size", "target_size", "rows_per_owner", "offers", "auction",
    "target_budget", "owner_budget", "relation", "rows_per_unit", "summary_release", "price_per_row", "accept_unproven",
})  # fmt: skip
"""The terms on an owner's page, besides the number of owners."""

Result = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table; ``below`` is small print with the tooltip ``title``, ``bar`` a length from 0 to 1."""

    text: str
    below: str = ""
    bar: float | None = None
    kind: str = ""
    title: str = ""


Row = Sequence[str | Cell]


@dataclass(frozen=True, slots=True)
class Table:
    """A table; the first column names the rows, and the columns in ``numeric`` are aligned right."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[Row]
    numeric: frozenset[str] = frozenset()


def render(result: Mapping[str, Any], pictures: Mapping[str, Any], evaluation: Mapping[str, Any] | None = None) -> str:
    """The consumer's report, from ``result.json``, ``pictures.json`` and, if there is one, ``evaluation.json``."""
    return _page("report.html", report_view(result, pictures, evaluation))


def render_for_owner(result: Mapping[str, Any], owner: str) -> str:
    return _page("owner.html", owner_view(result, owner))


def _page(template: str, view: Mapping[str, Any]) -> str:
    return environment("likeset.app.report").get_template(template).render(view)


def report_view(result: Result, pictures: Mapping[str, Any], evaluation: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "result": result,
        "title": f"likeset: {result['run']}",
        "version": result["version"],
        "banner": _banner(result, seed=result["seed"]),
        "run": _shown_run(result),
        "headline": headline(result),
        "verdict": _verdict(result),
        "protection": protection(result),
        "target": short_address(result["target"]["name"]),
        "request": _request(result),
        "distance_notes": distance_notes(result),
        "picks": figures.draw_picks(result["comparison"]),
        "comparison": comparison_table(result["comparison"]),
        "measure": measure_in_words(result["comparison"])[1],
        "meanings": [(line["name"], line["meaning"]) for line in result["comparison"]["lines"] if line["meaning"]],
        "models": None if evaluation is None else models_view(evaluation),
        "scores": None if evaluation is None else figures.draw_scores(evaluation["models"]),
        "pictures": _pictures(pictures, columns=len(result["schema"]["columns"])),
        "labels": _labels(pictures.get("labels")),
        "share_meaning": share_in_words(result["owners"]),
        "contributions": contributions(result["owners"], most=_MOST_OWNERS),
        "owed": owed_in_words(result),
        "owners_left_out": max(0, len(result["owners"]) - _MOST_OWNERS),
        "guarantees": _guarantee_table(
            guarantee_lines(result["guarantees"], owners=_names(result), unit=_unit(result))
        ),
        "owners_learn_nothing": _owners_learn_nothing(result),
        "terms": [(title_of(key), setting(value)) for key, value in result["terms"]["summary"].items()],
        **_schema(result["schema"], result["schema"]["digest"]),
    }


def owner_view(result: Result, owner: str) -> dict[str, Any]:
    """An owner's page: its own messages and the public terms, and nothing that depends on others' rows.

    Every field is named here; a field that is added to ``result.json`` does not appear by itself. The time at which the
    run ended, its duration, its warnings and its seed are left out: they depend on others' rows, or undo the noise.
    """
    names = _names(result)
    if owner not in names:
        raise InvalidArgument(
            "owner", harmless(owner, most=128), "took no part in this run; result.json lists the owners"
        )
    own = next(entry for entry in result["owners"] if entry["name"] == owner)
    others = [name for name in names if name != owner]
    terms = result["terms"]["summary"]
    about_owner = [
        one
        for one in result["guarantees"]
        if one["observer"] in ("owners", "curator", "consumer")
        and (one["protects"] == owner or (one["protects"] not in names and one["observer"] == "owners"))
    ]
    columns = [{key: column[key] for key in ("name", "kind", "unit")} for column in result["schema"]["columns"]]
    return {
        "title": f"likeset: {owner}",
        "version": result["version"],
        "banner": _banner(result, seed=None),
        "run": _unless_named(_shown_run(result), others, empty=""),
        "owner": owner,
        "left": _rows_left(own),
        "held": own["rows"],
        "messages": _messages(result, own),
        "message_count": own["messages"],
        "guarantees": _guarantee_table(guarantee_lines(about_owner, owners=names, own=owner, unit=_unit(result))),
        "terms": _owner_terms(terms, others),
        **_schema({"columns": columns}, result["schema"]["digest"]),
    }


def protection(result: Result) -> str:
    if result["noise"] == "simulated":
        return "The noise was simulated: this run was not private."
    names, most, parts, meaning = set(_names(result)), _rows_per_person(result), [], ""
    heard = [one for one in result["guarantees"] if one["observer"] == "owners"]
    about_target = [one for one in heard if one["protects"] not in names]
    about_owners = [one for one in heard if one["protects"] in names]
    who = "any row of" if most is None else "any person in"
    if about_target:
        each = "" if most is None else f" (at most {quantity(most, 'row')} per person)"
        parts.append(f"{learned(about_target)} about {who} your target{each}")
        unit = "one row of your target" if most is None else "one person in your target"
        meaning = guess(max(about_target, key=epsilon_of), unit)
    if about_owners:
        parts.append(f"{learned(about_owners)} about {who} other owners' data")
    return f"Owners learned {' and '.join(parts)}. {meaning}".strip() if parts else ""


def _names(result: Result) -> list[str]:
    return [owner["name"] for owner in result["owners"]]


def _rows_per_person(result: Result) -> int | None:
    most: int = result["terms"]["summary"]["rows_per_unit"]
    return most if result["schema"]["id"] else None


def _unit(result: Result) -> str:
    return "row" if _rows_per_person(result) is None else "person"


def _banner(result: Result, *, seed: int | None) -> tuple[str, str] | None:
    if result["noise"] == "simulated":
        known = "" if seed is None else f" (seed {seed})"
        return (
            "Simulated, not private.",
            f"The noise of this run can be recomputed{known}. It is for tests and studies.",
        )
    if result["private"] is False:
        return "Not private.", "At least one party has no guarantee in this run: see the privacy guarantees below."
    return None


def _verdict(result: Result) -> str:
    """The distance compared with fresh rows of the target's kind, and with random rows."""
    distance, parts = result["distance"], []
    comparison = result["comparison"]
    same_measure = comparison["measure"] == ("estimate" if distance else "in-sample")
    known = {line["kind"]: line["squared_mmd"] for line in comparison["lines"]}
    fresh, chance = (known.get(kind) if same_measure else None for kind in ("fresh", "random"))
    if distance and fresh is not None:
        rows = f"{number(result['rows_selected'])} fresh rows of the target's kind"
        if distance["low"] <= fresh <= distance["high"]:
            parts.append(f"The interval includes the distance of {rows} ({number(fresh)}).")
        else:
            closer = "closer" if distance["high"] < fresh else "not as close"
            parts.append(f"This is {closer} {'than' if closer == 'closer' else 'as'} {rows} ({number(fresh)}).")
    if chance is not None:
        parts.append(f"Random rows among those offered have {number(chance)}.")
    return " ".join(parts)


def _request(result: Result) -> list[tuple[str, str, str]]:
    owners = result["owners"]
    held, who = sum(owner["rows"] or 0 for owner in owners), quantity(len(owners), "owner")
    labels = labels_in_words(result["labels"])
    return [
        ("from", f"{quantity(held, 'row')} of {who}" if held else who, ""),
        ("rows offered", number(result["rows_seen"]), ""),
        ("noise", "simulated, not private" if result["noise"] == "simulated" else "secret", ""),
        ("gamma of the kernel", number(result["gamma"], 3), "larger: more local"),
        ("access ratio", number(result["access_ratio"]), "(rows seen + target) / (size + target)"),
        ("time", f"{number(result['seconds']['total'])}{NO_BREAK}s", "from files to result"),
        *([("labels", labels, "")] if labels else []),
    ]


def comparison_table(comparison: Mapping[str, Any]) -> Table:
    """This summary and its alternatives, the closest one first."""
    lines = comparison["lines"]
    scores = list(lines[0]["scores"])
    heads = [measure_in_words(comparison)[0], *(MEASURES[score] for score in scores)]
    rows: list[Row] = [
        [
            Cell(line["name"], kind="mine" if line is lines[0] else ""),
            number(line["squared_mmd"]),
            *(f"{line['scores'][score]:.3f}" if score in line["scores"] else "" for score in scores),
        ]
        for line in sorted(lines, key=lambda line: float(line["squared_mmd"]))
    ]
    return Table("MMD² of this summary and of its alternatives", ["rows", *heads], rows, frozenset(heads))


def models_view(evaluation: Mapping[str, Any]) -> dict[str, Any]:
    """``evaluation.json`` as tables, for the page and the terminal."""
    lines = evaluation["models"]
    measures = list(lines[0]["scores"])
    heads = [MEASURES[measure] for measure in measures]

    def scores(kind: str, caption: str) -> Table:
        rows: list[Row] = [
            [
                Cell(line["training_set"], below=quantity(line["rows"], "row")),
                line["model"],
                *(score_in_words(line[kind][measure]) for measure in measures),
            ]
            for line in lines
            if line[kind]
        ]
        return Table(caption, ["trained on", "model", *heads], rows, frozenset(heads))

    return {
        "lead": test_in_words(evaluation),
        "scores": scores("scores", "Models by their training set"),
        "gains": scores("summary_gains", GAINS),
        "notes": evaluation["notes"],
    }


def _pictures(drawn: Mapping[str, Any], *, columns: int) -> dict[str, Any] | None:
    if not drawn:
        return None
    projection, images = drawn["projection"], drawn["images"]
    large = [
        {
            "title": "All columns together",
            "image": figures.draw_projection(projection),
            "caption": "The two directions with the largest variance. Crosses should lie where the circles lie."
            + (" Rows that were offered and not bought are shown as well." if projection["pool"] else ""),
        }
    ]
    if images:
        image = figures.draw_images(images)
        large.append({"title": "Rows as images", "image": image, "caption": "At even steps over the rows."})
    small = [
        {
            "title": marginal["column"],
            "image": figures.draw_marginal(marginal),
            "before": None if marginal["difference_before"] is None else number(marginal["difference_before"]),
            "after": number(marginal["difference_after"]),
            "missing": _missing(marginal),
        }
        for marginal in drawn["marginals"][: _MOST_MARGINALS if images else _AROUND]
    ]
    return {
        "large": large,
        "small": small,
        "around": not images,
        "pool": bool(projection["pool"]),
        "columns": columns,
        "before": any(figure["before"] for figure in small),
    }


def _missing(marginal: Mapping[str, Any]) -> str:
    missing = marginal["missing"]
    if not missing or marginal["edges"] is None:
        return ""
    return f"missing: {percent(missing['target'])} of the target, {percent(missing['summary'])} of the summary"


def _labels(labels: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if labels is None:
        return None
    others = labels["others"]
    total = sum(labels["rows"]) + others["rows"]
    lines = list(zip(labels["values"], labels["rows"], strict=True))
    offers = labels["offers"] or []
    if others["count"]:
        lines.append((quantity(others["count"], "other label"), others["rows"]))
        offers = [*offers, max(0.0, 1.0 - sum(offers))] if offers else []
    cells: list[Row] = [
        [value, Cell(percent(count / total), bar=count / total), number(count)] for value, count in lines
    ]
    cells = [[*row, percent(share)] for row, share in zip(cells, offers, strict=True)] if offers else cells
    heads = ["label", "share of the rows", "rows", *(["share of all offers"] if offers else [])]
    table = Table("Labels of the summary", heads, cells, frozenset(heads[2:]))
    return {"column": labels["column"], "rows": quantity(total, "selected row"), "table": table}


def contributions(owners: Iterable[Mapping[str, Any]], *, most: int | None = None) -> Table:
    """What each owner brought, sent and received; who contributes most comes first."""
    owners = sorted(owners, key=lambda owner: -float(owner["share"]))[:most]
    paid = any(owner["payment"] or owner["payment_at_most"] for owner in owners)
    rows: list[Row] = []
    for owner in owners:
        held, source = owner["rows"], owner["table"] or ""
        offered = or_bound(owner["disclosed"], owner["disclosed_at_most"])
        rows.append(
            [
                Cell(owner["name"], below=short_address(source) if source else "", title=source),
                Cell(percent(owner["share"]), bar=owner["share"]),
                number(owner["selected"]),
                Cell(f"{offered} of {number(held)}" if held else offered, below=owner["problem"] or ""),
                *([or_bound(owner["payment"], owner["payment_at_most"], amount)] if paid else []),
                bytes_in_words(owner["sent_bytes"]),
                bytes_in_words(owner["heard_bytes"]),
            ]
        )
    counts = ["selected", "offered, of rows held", *(["payment"] if paid else []), "sent", "received"]
    return Table("Contributions of the owners", ["owner", "share", *counts], rows, frozenset(counts))


def _guarantee_table(lines: Iterable[GuaranteeLine]) -> Table:
    rows: list[Row] = [
        [
            line.observer,
            line.protected,
            line.meaning,
            Cell(line.bound, below=(f"delta = {line.delta}, " if line.delta else "") + line.relation, kind="cost"),
            Cell(line.basis, kind=f"badge {line.basis if line.basis in ('proven', 'claimed') else 'none'}"),
        ]
        for line in lines
    ]
    heads = ["observer", "protected", "what the observer learns", "at most", "basis"]
    return Table("Guarantees by observer", heads, rows)


def _owners_learn_nothing(result: Result) -> bool:
    """Whether no message to an owner depends on another owner's rows."""
    names = set(_names(result))
    about = [one for one in result["guarantees"] if one["observer"] == "owners" and one["protects"] in names]
    return bool(about) and all(epsilon_of(one) == 0 for one in about)


def _schema(schema: Mapping[str, Any], digest: str) -> dict[str, Any]:
    """The columns that were compared; bounds that came from data are marked, because they may reveal something."""
    columns = schema["columns"]
    marked = any(column.get("from_data") for column in columns)
    doubt = Cell("from data: replace by public knowledge", kind="badge claimed")
    rows: list[Row] = [
        [
            column["name"],
            column["kind"],
            column["unit"] or DASH,
            *([doubt if column.get("from_data") else "declared"] if marked else []),
        ]
        for column in columns[:_MOST_COLUMNS]
    ]
    heads = ["column", "kind", "unit", *(["bounds and values"] if marked else [])]
    return {
        "columns": Table("Columns of the schema", heads, rows),
        "columns_left_out": max(0, len(columns) - _MOST_COLUMNS),
        "schema_digest": digest,
    }


def _rows_left(own: Mapping[str, Any], form: Callable[[Any], str] = number) -> str:
    return or_bound(own["disclosed"], own["disclosed_at_most"], form)


def _messages(result: Result, own: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    received, sent = bytes_in_words(own["heard_bytes"]), bytes_in_words(own["sent_bytes"])
    if result["protocol"] == "interactive":
        request = "The release of the target, and in each round whether a row was requested"
    elif result["terms"]["summary"]["offers"] == "uniform":
        request = "The request for random rows; nothing about the target was released"
    else:
        request = "One release: a noisy mean of the target's features"
    rows = _rows_left(own, lambda rows: quantity(rows, "row"))
    price, payment = result["terms"]["summary"]["price_per_row"], ""
    if price > 0:
        # Never the payment in the result: that might depend on the value of the rows.
        payment = f"; payment {_rows_left(own, lambda rows: amount(price * rows))}, price {TIMES} rows sent"
    return [
        ("received", "The terms", "", result["terms"]["digest"]),
        ("received", request, received, ""),
        ("sent", "The offer, to the curator only", f"{rows}, {sent}{payment}", ""),
    ]


def _owner_terms(terms: Mapping[str, Any], others: Sequence[str]) -> list[tuple[str, str]]:
    shown = []
    for key, value in terms.items():
        if key == "owners":
            shown.append(("owners invited", number(value)))
        elif key in _PUBLIC_TERMS:
            named = isinstance(value, str)  # a number is no name, even if an owner is called like one
            shown.append((title_of(key), _unless_named(setting(value), others) if named else setting(value)))
    return shown


def _shown_run(result: Result) -> str:
    return "" if result["run"] == _UNNAMED else result["run"]


def _unless_named(text: str, others: Sequence[str], *, empty: str = DASH) -> str:
    named = any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) for name in others if name)
    return DASH if named else text or empty
