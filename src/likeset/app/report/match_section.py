"""The report's section on how close the summary is."""

from collections.abc import Mapping, Sequence
from typing import Any

from likeset.app.report.figures import draw_picks
from likeset.app.report.markup import TableColumn, definitions, figure, html_text, section, table
from likeset.app.report.plain_words import NO_BREAK, TIMES, number, percent
from likeset.app.report.story import likeness_in_words, measure, own_squared_mmd

__all__ = ["match_section"]

_FEW = 2  # lines whose meanings fit below them, beside the curve


def _picks(result: Mapping[str, Any], baselines: Sequence[Mapping[str, Any]]) -> str:
    """The curve over all picks: held-out where it is known, in-sample between organisations."""
    if (result.get("likeness") or {}).get("curve"):
        kind, final, lines = "squared_mmd", own_squared_mmd(result), "Thick: for new rows. Thin: in-sample."
    else:
        kind = "in_sample_squared_mmd"
        final, lines = result.get(kind), "In-sample, after each pick."
    picture = draw_picks(result, baselines, measure=kind, final=final)
    return figure(picture, caption=f"{lines} Dashed: what else could be had.")


def match_section(result: Mapping[str, Any]) -> str:
    """The curve, and the summary beside what else could be had."""
    baselines = list(result.get("baselines") or ())
    meanings, few = _meanings(baselines), len(baselines) <= _FEW
    return section(
        "How close the summary is",
        '<div class="columns">',
        _picks(result, baselines),
        f"<div>{_baseline_table(result, baselines)}{meanings if few else ''}</div>",
        "</div>",
        "" if few else meanings,
        lead="MMD² measures how unlike the summary and your target are, all columns together. Smaller is better. "
        + likeness_in_words(result),
        anchor="match",
    )


def _meanings(baselines: Sequence[Mapping[str, Any]]) -> str:
    """What each of the others is: of many below table and curve, for beside the curve they would reach far down."""
    told = [(str(line.get("name", "")), html_text(line["meaning"])) for line in baselines if line.get("meaning")]
    return definitions(told, kind="facts meanings")


def _baseline_table(result: Mapping[str, Any], baselines: Sequence[Mapping[str, Any]]) -> str:
    own, kind = own_squared_mmd(result), measure(result)
    with_accuracy = (
        any(baseline.get("accuracy") is not None for baseline in baselines) or result.get("accuracy") is not None
    )
    columns = [
        TableColumn("rows"),
        TableColumn("MMD²" if kind == "squared_mmd" else "in-sample MMD²", numeric=True),
        TableColumn("against ours", numeric=True),
    ]
    columns += [TableColumn("accuracy", numeric=True)] if with_accuracy else []
    mine = {"name": "this summary", kind: own, "accuracy": result.get("accuracy"), "own": True}
    lines = sorted([mine, *baselines], key=lambda line: float(line.get(kind) or 0.0))
    rows = []
    for line in lines:
        name = html_text(line.get("name", ""))
        name = f'<span class="mine">{name}</span>' if line.get("own") else name
        value = line.get(kind)
        ratio = f"{TIMES}{NO_BREAK}{number(value / own)}" if value is not None and own and not line.get("own") else ""
        row = [name, html_text(number(value)), html_text(ratio)]
        rows.append([*row, html_text(percent(line.get("accuracy")))] if with_accuracy else row)
    return table(columns, rows, caption="MMD² of this summary and of what else could be had")
