"""The consumer's report: everything that it may see, which is more than any owner may."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from likeset.app.report.figures import draw_images, draw_marginal, draw_picks, draw_projection
from likeset.app.report.markup import (
    Column,
    badge,
    banner,
    bar,
    definitions,
    document,
    figure,
    glossary,
    legend,
    note,
    section,
    table,
    text,
)
from likeset.app.report.plain_words import (
    DASH,
    TIMES,
    amount,
    bytes_in_words,
    count,
    number,
    percent,
    setting,
    title_of,
    trimmed,
)
from likeset.app.report.story import checked, closeness, is_simulated, owners_learn_nothing, promises, protection

__all__ = ["guarantee_table", "render", "schema_table", "simulation_banner"]

_MOST_OWNERS = 40
_MOST_COLUMNS = 60
_MOST_MARGINALS = 6
_COLOURS = (("target", "your target"), ("summary", "the summary"))
_POOL = ("pool", "everything that was offered")


def render(result: Mapping[str, Any], pictures: Mapping[str, Any]) -> str:
    """The report of a run as one HTML page.

    Args:
        result: the content of ``result.json``.
        pictures: the content of ``pictures.json``; whatever is missing in it is left out.
    """
    checked(result)
    who, match, value, comparison = closeness(result)
    body = [
        simulation_banner(result),
        _header(result, "report of the consumer"),
        f"<h1>{text(who)} {text(match)} <em>MMD² {text(value)}</em>{text(comparison)}</h1>",
        f"<p>{text(protection(result))}</p>",
        definitions(_cards(result), kind="cards"),
        _warnings(result),
        _question(result),
        _match(result),
        _looks(pictures),
        _contributions(result),
        _guarantees(result),
        _premises(result),
        _terms(result),
        schema_table(result),
        glossary(),
    ]
    footer = (
        "This page is the consumer's: it shows shares and counts that no owner may hear. For an owner, run "
        f"<code>likeset report DIR --for-owner NAME</code>. Written by likeset {text(result.get('version', ''))}."
    )
    return document(title=f"likeset: {result.get('run', '')}", kind="consumer", body=body, footer=footer)


def simulation_banner(result: Mapping[str, Any]) -> str:
    """On top of everything where the noise was not secret; nothing otherwise."""
    if is_simulated(result):
        seed = result.get("seed")
        known = "" if seed is None else f" (seed {seed})"
        return banner(
            "Simulated, not private.",
            f"The noise of this run can be computed again{known}. It is for trying out and for studies only.",
        )
    if result.get("private") is False:
        return banner("Not private.", "This run gives no guarantee to at least one party: see the guarantees below.")
    return ""


def _header(result: Mapping[str, Any], kind: str) -> str:
    when = str(result.get("created") or "").replace("T", " ")[:16]
    return (
        f"<header><b>likeset</b><span>{text(kind)}</span><span>run {text(result.get('run', ''))}</span>"
        f'<span class="when">{text(when)}</span></header>'
    )


def _cards(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The numbers that people ask for first."""
    yield "MMD² to your target", f"{text(number(result.get('squared_mmd')))}<small>0 would be alike</small>"
    if result.get("accuracy") is not None:
        yield "accuracy of a model", f"{text(percent(result['accuracy']))}<small>on held-out target rows</small>"
    owners = result.get("owners") or ()
    names = {one.get("name") for one in owners}
    for one in result.get("guarantees") or ():
        if one.get("observer") == "owners" and one.get("protects") not in names:
            bounded = one.get("epsilon") is not None and not is_simulated(result)
            shown = f"ε = {trimmed(one['epsilon'])}" if bounded else "no bound"
            below = f"δ = {number(one.get('delta'))}, {one.get('relation', '')}" if bounded else "not private"
            yield "owners about your target", f"{text(shown)}<small>{text(below)}</small>"
            break
    if result.get("rows_seen") is not None:
        held = sum(one.get("rows") or 0 for one in owners)
        of_all = f"of {count(held, 'row')} that owners hold" if held else ""
        yield "rows the curator saw", f"{text(number(result['rows_seen']))}<small>{text(of_all)}</small>"
    total = (result.get("seconds") or {}).get("total")
    if total is not None:
        yield "time", f"{text(number(total))} s<small>from files to result</small>"


def _warnings(result: Mapping[str, Any]) -> str:
    items = "".join(f"<li>{text(one.get('text', ''))}</li>" for one in result.get("warnings") or ())
    return f'<section class="warnings" id="warnings"><h2>Please note</h2><ul>{items}</ul></section>' if items else ""


def _question(result: Mapping[str, Any]) -> str:
    target = result.get("target") or {}
    owners = result.get("owners") or ()
    facts = [
        (
            "find rows that look like",
            f"{text(target.get('name', 'the target'))}, {text(count(target.get('rows'), 'row'))}",
        ),
        ("how many", text(count(result.get("size"), "row"))),
        (
            "among",
            text(_held_by(owners)),
        ),
        ("protocol", text(result.get("protocol", DASH))),
        ("noise", "simulated, not private" if is_simulated(result) else "secret"),
        ("kernel width (gamma)", text(number(result.get("gamma"), 3))),
        (
            "access ratio",
            f"{text(number(result.get('access_ratio')))} <small>(rows seen + target) / (size + target)</small>",
        ),
    ]
    return section("What was asked", definitions(facts), anchor="question")


def _held_by(owners: Sequence[Mapping[str, Any]]) -> str:
    """How many rows owners hold; a consumer of a run between organisations is not told."""
    held, who = sum(one.get("rows") or 0 for one in owners), count(len(owners), "owner")
    return f"{count(held, 'row')} of {who}" if held else f"the rows of {who}"


def _course(history: Sequence[Mapping[str, Any]]) -> str:
    """What the curve shows: whether more rows helped to the end."""
    values = [one.get("squared_mmd") for one in history]
    numbers = [float(value) for value in values if isinstance(value, int | float)]
    dashed = "Dashed: what else could be had."
    if len(numbers) < 2:
        return dashed
    best = min(range(len(numbers)), key=numbers.__getitem__)
    if numbers[-1] <= 1.1 * numbers[best]:
        return f"Rows that are picked later bring the summary closer, or keep it close. {dashed}"
    return (
        f"It is closest at {best + 1} rows, and less close at {len(numbers)}: good rows ran out. Ask for fewer, or "
        f"for weights, if closeness matters most. {dashed}"
    )


def _match(result: Mapping[str, Any]) -> str:
    baselines = list(result.get("baselines") or ())
    own = result.get("squared_mmd")
    picture = draw_picks(result.get("history") or (), baselines, own)
    return section(
        "How close the summary is",
        '<div class="columns">',
        figure(picture, caption=_course(result.get("history") or ())),
        f"<div>{_baseline_table(result, baselines)}</div>",
        "</div>",
        lead="MMD² measures how unlike the summary and your target are, all columns together. Smaller is better.",
        anchor="match",
    )


def _baseline_table(result: Mapping[str, Any], baselines: Sequence[Mapping[str, Any]]) -> str:
    own = result.get("squared_mmd")
    with_accuracy = any(one.get("accuracy") is not None for one in baselines) or result.get("accuracy") is not None
    columns = [Column("rows"), Column("MMD²", numeric=True), Column("against ours", numeric=True)]
    columns += [Column("accuracy", numeric=True)] if with_accuracy else []
    mine = {"name": "this summary", "squared_mmd": own, "accuracy": result.get("accuracy"), "own": True}
    lines = sorted([mine, *baselines], key=lambda one: float(one.get("squared_mmd") or 0.0))
    rows = []
    for one in lines:
        name = f'<span class="mine">{text(one["name"])}</span>' if one.get("own") else text(one.get("name", ""))
        meaning = f"<small>{text(one['meaning'])}</small>" if one.get("meaning") else ""
        value = one.get("squared_mmd")
        ratio = f"{TIMES} {number(value / own)}" if value is not None and own and not one.get("own") else ""
        row = [f"{name}{meaning}", text(number(value)), text(ratio)]
        rows.append([*row, text(percent(one.get("accuracy")))] if with_accuracy else row)
    return table(columns, rows, caption="MMD² of this summary and of what else could be had")


def _looks(pictures: Mapping[str, Any]) -> str:
    projection, images = pictures.get("projection") or {}, pictures.get("images") or {}
    marginals = [one for one in pictures.get("marginals") or () if one.get("target")]
    marginals.sort(key=lambda one: -float(one.get("difference_before") or 0.0))
    shown = marginals[:_MOST_MARGINALS]
    drawn = [(one, draw_marginal(one, place)) for place, one in enumerate(shown)]
    small = "".join(figure(svg, title=str(one.get("column", "")), caption=_change(one)) for one, svg in drawn if svg)
    with_pool = bool(projection.get("pool")) or any(one.get("pool") for one in shown)
    large = figure(
        draw_projection(projection),
        title="All columns together",
        caption="The two directions in which rows differ most. Crosses should lie where the circles lie."
        + (" Rows that were offered but not bought are shown as well." if projection.get("pool") else ""),
    ) + figure(draw_images(images), title="Rows as pictures", caption="Spread evenly over the rows of each.")
    columns = f'<h3>Columns that differed most</h3><div class="small">{small}</div>' if small else ""
    if not large and not columns:
        return ""
    both = "columns" if large.count("<figure") > 1 else "only"
    return section(
        "How it looks",
        legend([*_COLOURS, _POOL] if with_pool else _COLOURS),
        f'<div class="{both}">{large}</div>' if large else "",
        columns,
        anchor="looks",
    )


def _change(marginal: Mapping[str, Any]) -> str:
    before, after = marginal.get("difference_before"), marginal.get("difference_after")
    if after is None:
        return ""
    if before is None:
        return f"difference from the target: {text(number(after))}"
    return f"difference from the target: {text(number(before))} → <strong>{text(number(after))}</strong>"


def _contributions(result: Mapping[str, Any]) -> str:
    owners = sorted(result.get("owners") or (), key=lambda one: -float(one.get("share") or 0.0))
    largest = max((float(one.get("share") or 0.0) for one in owners), default=0.0) or 1.0
    paid = any(one.get("payment") for one in owners)
    shapley = any(one.get("shapley") is not None for one in owners)
    columns = [Column("owner"), Column("share of the value"), Column("selected", True), Column("offered", True)]
    columns += [Column("Shapley value", True)] if shapley else []
    columns += [Column("payment", True)] if paid else []
    rows = []
    for one in owners[:_MOST_OWNERS]:
        share = one.get("share")
        cells = [
            text(one.get("name", "")),
            f"{bar((share or 0.0) / largest)}{text(percent(share))}",
            text(number(one.get("selected"))),
            text(number(one.get("disclosed"))),
        ]
        cells += [text(percent(one.get("shapley")))] if shapley else []
        cells += [text(amount(one.get("payment")))] if paid else []
        rows.append(cells)
    return section(
        "Who contributed what",
        table(columns, rows, caption="Contributions of the owners"),
        _left_out(len(owners)),
        note("Shares are for your eyes: telling an owner its share would say something about the others' rows."),
        lead="A share is the part of the improvement that came with an owner's rows, as they were picked."
        + (" The Shapley value does not depend on the order of picking." if shapley else ""),
        anchor="contributions",
    )


def guarantee_table(rows: Sequence[Any], *, caption: str) -> str:
    """Promises as a table."""
    return table(
        [Column("who looks"), Column("at"), Column("what can be learned"), Column("bound"), Column("basis")],
        [
            (
                text(one.observer),
                text(one.protected),
                text(one.words) + (f"<small>{text(one.odds)}</small>" if one.odds else ""),
                f'<span class="cost">{text(one.cost)}</span>'
                + (f"<small>{text(one.relation)}</small>" if one.relation else ""),
                badge(one.basis),
            )
            for one in rows
        ],
        caption=caption,
    )


def _guarantees(result: Mapping[str, Any]) -> str:
    rows = promises(result, result.get("guarantees") or ())
    return section(
        "Who could learn what",
        guarantee_table(rows, caption="Guarantees by observer"),
        note(str(counted)) if (counted := (result.get("budget") or {}).get("in_words")) else "",
        lead="A line for each observer and the rows that it might learn about. The basis says on whose word.",
        anchor="guarantees",
    )


def _premises(result: Mapping[str, Any]) -> str:
    owners = list(result.get("owners") or ())
    columns = [
        Column("owner"),
        Column("rows that left, of those held"),
        Column("sent", numeric=True),
        Column("heard", numeric=True),
        Column("messages", numeric=True),
    ]
    rows = []
    for one in owners[:_MOST_OWNERS]:
        held, left = one.get("rows") or 0, one.get("disclosed") or 0
        where = f"<small>{text(one['table'])}</small>" if one.get("table") else ""
        problem = f"<small>{text(one['problem'])}</small>" if one.get("problem") else ""
        cells = [
            f"{text(one.get('name', ''))}{where}",
            bar(left / held if held else 0.0, colour="pool")
            + _together(f"{number(left)} of {number(held)}" if held else number(left))
            + problem,
            text(bytes_in_words(one.get("sent_bytes"))),
            text(bytes_in_words(one.get("heard_bytes"))),
            text(number(one.get("messages"))),
        ]
        rows.append(cells)
    return section(
        "What left each owner's premises",
        table(columns, rows, caption="What each owner sent and heard"),
        _left_out(len(owners)),
        lead="Rows went to the curator only. "
        + (
            "No owner saw another owner's rows, counts or results."
            if owners_learn_nothing(result)
            else "What owners heard says something about others' rows: how much stands above."
        ),
        anchor="premises",
    )


def _together(words: str) -> str:
    """Words on one line."""
    return f'<span class="cost">{text(words)}</span>'


def _left_out(owners: int) -> str:
    more = owners - _MOST_OWNERS
    return note(f"{count(more, 'more owner')}: see result.json.") if more > 0 else ""


def _terms(result: Mapping[str, Any]) -> str:
    terms = result.get("terms") or {}
    facts = [(title_of(str(key)), text(setting(value))) for key, value in (terms.get("summary") or {}).items()]
    digest = terms.get("digest")
    closing = f'<p class="note">Digest of the terms: <code>{text(digest)}</code></p>' if digest else ""
    return section(
        "Terms",
        definitions(facts),
        closing,
        lead="What all parties agreed on before any row was read. Equal terms have an equal digest.",
        anchor="terms",
    )


def schema_table(result: Mapping[str, Any]) -> str:
    """The columns that were compared; what came from data is marked, for it may say something about them."""
    schema = result.get("schema") or {}
    columns = list(schema.get("columns") or ())
    digest = schema.get("digest") or result.get("schema_digest")
    marked = any(one.get("from_data") for one in columns)
    doubt = '<span class="badge claimed">from data: replace by public knowledge</span>'
    head = [Column("column"), Column("kind"), Column("unit")] + ([Column("bounds and values")] if marked else [])
    rows = []
    for one in columns[:_MOST_COLUMNS]:
        cells = [text(one.get("name", "")), text(one.get("kind", "")), text(one.get("unit") or DASH)]
        rows.append([*cells, doubt if one.get("from_data") else "declared"] if marked else cells)
    more = len(columns) - _MOST_COLUMNS
    return section(
        "Columns",
        table(head, rows, caption="Columns of the schema"),
        note(f"{count(more, 'more column')}: see the schema.") if more > 0 else "",
        f'<p class="note">Digest of the schema: <code>{text(digest)}</code></p>' if digest else "",
        anchor="columns",
    )
