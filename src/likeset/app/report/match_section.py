"""The report's section on how close the summary is."""

from collections.abc import Mapping, Sequence
from typing import Any

from likeset.app.report.figures import draw_picks
from likeset.app.report.markup import TableColumn, definitions, figure, html_text, note, section, table
from likeset.app.report.plain_words import number
from likeset.app.report.story import likeness_in_words
from likeset.run.result_words import MEASURES, measure_in_words

__all__ = ["match_section"]

_FEW = 2  # alternatives whose meanings fit below them, beside the curve


def match_section(result: Mapping[str, Any]) -> str:
    """The curve, and the summary beside its alternatives."""
    comparison = result.get("comparison") or {}
    lines = list(comparison.get("lines") or ())
    meanings, few = _meanings(lines), len(lines) <= _FEW + 1
    return section(
        "How close the summary is",
        '<div class="columns">',
        figure(draw_picks(comparison), caption="After each pick. Dashed: the alternatives."),
        f"<div>{_table(comparison, lines)}{meanings if few else ''}</div>",
        "</div>",
        "" if few else meanings,
        lead="MMD² measures how unlike the summary and your target are, all columns together. Smaller is better. "
        + likeness_in_words(result),
        anchor="match",
    )


def _meanings(lines: Sequence[Mapping[str, Any]]) -> str:
    """What each alternative is. Many of them stand below table and curve: beside them they would reach far down."""
    told = [(str(line.get("name", "")), html_text(line["meaning"])) for line in lines if line.get("meaning")]
    return definitions(told, kind="facts meanings")


def _table(comparison: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> str:
    if not lines:
        return ""
    head, sentence = measure_in_words(comparison)
    scores = list(lines[0].get("scores") or ())
    heads = (head, *(MEASURES.get(score, score) for score in scores))
    rows = []
    for line in sorted(lines, key=lambda line: float(line.get("squared_mmd") or 0.0)):
        name, judged = html_text(line.get("name", "")), line.get("scores") or {}
        rows.append(
            [
                f'<span class="mine">{name}</span>' if line is lines[0] else name,
                html_text(number(line.get("squared_mmd"))),
                *(html_text(f"{judged[score]:.3f}" if score in judged else "") for score in scores),
            ]
        )
    columns = [TableColumn("rows"), *(TableColumn(title, numeric=True) for title in heads)]
    return table(columns, rows, caption="MMD² of this summary and of its alternatives") + note(sentence)
