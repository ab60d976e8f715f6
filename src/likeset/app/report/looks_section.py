"""The report's section on how target and summary look: all columns together, the columns that differed most, labels."""

from collections.abc import Mapping, Sequence
from typing import Any

from likeset.app.report.figures import draw_images, draw_label_numbers, draw_marginal, draw_projection
from likeset.app.report.markup import TableColumn, bar, figure, html_text, legend, section, table
from likeset.app.report.plain_words import number, percent, quantity

__all__ = ["labels_section", "looks_section"]

_MOST_MARGINALS = 6
_AROUND = 5  # columns that fit around a picture of all of them
_COLOURS = (("target", "your target"), ("summary", "the summary"))
_POOL = ("pool", "everything that was offered")


def looks_section(pictures: Mapping[str, Any], *, columns: int = 0) -> str:
    """Empty where there is nothing to draw.

    Args:
        pictures: what to draw.
        columns: how many the schema declares; 0 if that is not known.
    """
    projection, images = pictures.get("projection") or {}, pictures.get("images") or {}
    marginals = [marginal for marginal in pictures.get("marginals") or () if marginal.get("target")]
    marginals.sort(key=lambda marginal: -float(marginal.get("difference_before") or 0.0))
    shown = marginals[:_MOST_MARGINALS]
    drawn = [(marginal, draw_marginal(marginal, index)) for index, marginal in enumerate(shown)]
    small = [
        figure(svg, title=str(marginal.get("column", "")), caption=_caption(marginal)) for marginal, svg in drawn if svg
    ]
    large = [
        figure(
            draw_projection(projection),
            title="All columns together",
            caption="The two directions in which rows differ most. Crosses should lie where the circles lie."
            + (" Rows that were offered but not bought are shown as well." if projection.get("pool") else ""),
        ),
        figure(draw_images(images), title="Rows as pictures", caption="Spread evenly over the rows of each."),
    ]
    large = [picture for picture in large if picture]
    if not large and not small:
        return ""
    with_pool = bool(projection.get("pool")) or any(marginal.get("pool") for marginal in shown)
    if len(large) == 1:  # it fills its card together with columns beside and below it
        small = small[:_AROUND]
        parts = [f'<div class="small around">{large[0]}{"".join(small)}</div>']
    else:
        below = f'<h3>Columns that differed most</h3><div class="small">{"".join(small)}</div>' if small else ""
        parts = [f'<div class="columns">{"".join(large)}</div>' if large else "", below]
    colours = legend([*_COLOURS, _POOL] if with_pool else _COLOURS)
    return section("How it looks", colours, *parts, lead=_lead(shown[: len(small)], columns), anchor="looks")


def _lead(shown: Sequence[Mapping[str, Any]], columns: int) -> str:
    """Which columns are shown, and what stands below them."""
    told = []
    if 0 < len(shown) < columns:
        told.append(f"Shown are {len(shown)} of {columns:,} columns: those in which target and offers differ most.")
    if any(marginal.get("difference_before") is not None for marginal in shown):
        told.append("The arrow goes from all that was offered to the summary; 0 would be alike.")
    return html_text(" ".join(told))


def _caption(marginal: Mapping[str, Any]) -> str:
    """How far apart target and summary are, and what the drawing cannot show."""
    before, after = marginal.get("difference_before"), marginal.get("difference_after")
    told = []
    if after is not None:
        start = "" if before is None else f"{html_text(number(before))} → "
        change = f'<span class="cost">{start}<strong>{html_text(number(after))}</strong></span>'
        told.append(f"difference from the target: {change}")
    missing = marginal.get("missing")
    if missing and marginal.get("edges") is not None:
        shares = f"{percent(missing.get('target'))} of the target, {percent(missing.get('summary'))} of the summary"
        told.append(f"missing: {html_text(shares)}")
    return "<br>".join(told)


def labels_section(labels: Mapping[str, Any] | None) -> str:
    """What a model would learn from: how often each label is there; empty where there are none."""
    rows = list((labels or {}).get("rows") or ())
    total = sum(rows) + ((labels or {}).get("others") or {}).get("rows", 0)
    if labels is None or not total:
        return ""
    lead = f"The column {html_text(labels.get('column', ''))} of the {html_text(quantity(total, 'selected row'))}."
    if labels.get("edges") is not None:
        picture = figure(draw_label_numbers(labels), caption="How many rows have a label in each range.", kind="only")
        return section("The labels that you get", picture, lead=lead, anchor="labels")
    lines = list(zip(labels.get("values") or (), rows, strict=False))
    others = labels.get("others") or {}
    if others.get("count"):
        lines.append((quantity(others["count"], "other label"), others["rows"]))
    cells = [
        [html_text(value), f"{bar(count / total)}{html_text(percent(count / total))}", html_text(number(count))]
        for value, count in lines
    ]
    columns = [TableColumn("label"), TableColumn("share of the rows"), TableColumn("rows", numeric=True)]
    return section(
        "The labels that you get", table(columns, cells, caption="Labels of the summary"), lead=lead, anchor="labels"
    )
