"""The report's section on models trained on the summary."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from likeset.app.report.markup import TableColumn, figure, html_text, note, section, small, table
from likeset.app.report.plain_words import DASH, quantity
from likeset.app.report.svg import PALETTE, SUMMARY, drawing_in_page, inline
from likeset.run.result_words import MEASURES

__all__ = ["GAINS", "evaluation_section", "score_in_words", "test_in_words"]

GAINS = "The summary's score less that of others"

_MOST_OWNERS = 40


def test_in_words(evaluation: Mapping[str, Any]) -> str:
    """What models were judged on, and what intervals mean."""
    persons = evaluation.get("test_ids")
    of_persons = "" if persons is None else f" of {quantity(persons, 'person')}"
    drawn = "rows" if persons is None else "persons"
    return (
        f"Judged on {quantity(evaluation.get('test_rows'), 'labelled test row')}{of_persons}. Intervals are for 95 of "
        f"100 tests: {drawn} of the test were resampled, the models stayed. Of several draws: the mean, and the "
        "interval for one draw."
    )


def score_in_words(score: Mapping[str, Any]) -> str:
    """A number and its interval."""
    if score.get("value") is None:
        return DASH
    return f"{score['value']:.3f} ({score['low']:.3f} to {score['high']:.3f})"


def evaluation_section(evaluation: Mapping[str, Any] | None) -> str:
    """Empty where nobody evaluated."""
    lines = list((evaluation or {}).get("models") or ())
    if not lines or evaluation is None:
        return ""
    measures = list(lines[0]["scores"])
    gains = [line for line in lines if line.get("summary_gains")]
    return section(
        "What models learn from it",
        figure(_draw(lines, measures[0]), kind="only"),
        _scores(lines, "scores", measures, caption="Models by what they were trained on"),
        f"<h3>{GAINS}</h3>" + _scores(gains, "summary_gains", measures, caption=GAINS) if gains else "",
        *(note(words) for words in evaluation.get("notes") or ()),
        _owners(evaluation, measures[0]),
        lead=test_in_words(evaluation),
        anchor="models",
    )


def _scores(lines: list[Mapping[str, Any]], kind: str, measures: list[str], *, caption: str) -> str:
    columns = [TableColumn("trained on"), TableColumn("model")]
    columns += [TableColumn(MEASURES.get(measure, measure), numeric=True) for measure in measures]
    rows = [
        [
            html_text(line["training_set"]) + small(quantity(line["rows"], "row")),
            html_text(line["model"]),
            *(html_text(score_in_words(line[kind][measure])) for measure in measures),
        ]
        for line in lines
    ]
    return table(columns, rows, caption=caption)


def _owners(evaluation: Mapping[str, Any], measure: str) -> str:
    lines = list(evaluation.get("owners") or ())
    if not lines:
        return ""
    models = list(dict.fromkeys(line["model"] for line in lines))
    losses = {(line["owner"], line["model"]): line for line in lines}
    owners = list(dict.fromkeys(line["owner"] for line in lines))[:_MOST_OWNERS]
    columns = [TableColumn("without"), *(TableColumn(f"{model} loses", numeric=True) for model in models)]
    rows = [
        [
            html_text(owner) + small(quantity(losses[owner, models[0]]["rows"], "row")),
            *(html_text(score_in_words(losses[owner, model]["loss"])) for model in models),
        ]
        for owner in owners
    ]
    caption = "What models lose without an owner's rows"
    below = note(f"In {MEASURES.get(measure, measure)}. Below 0, a model is better without.")
    return f"<h3>{caption}</h3>" + table(columns, rows, caption=caption) + below


def _draw(lines: list[Mapping[str, Any]], measure: str) -> str:
    """A dot and an interval for each line, the training sets below one another."""
    shown = [line for line in lines if line["scores"][measure].get("value") is not None]
    if not shown:
        return ""
    sets = list(dict.fromkeys(line["training_set"] for line in lines))
    with drawing_in_page():
        chart = Figure(figsize=(5.2, 0.6 + 0.27 * len(shown)))
        axes = chart.add_axes((0.42, 0.5 / (0.6 + 0.27 * len(shown)), 0.55, 0.92 - 0.5 / (0.6 + 0.27 * len(shown))))
        places = np.arange(len(shown))[::-1]
        for place, line in zip(places, shown, strict=True):
            score, number = line["scores"][measure], sets.index(line["training_set"])
            colour = SUMMARY if number == 0 else PALETTE[(number - 1) % len(PALETTE)]
            axes.plot([score["low"], score["high"]], [place, place], color=colour, linewidth=1.6)
            axes.plot([score["value"]], [place], "o", color=colour, markersize=5)
        axes.set_yticks(places, [f"{line['training_set']}: {line['model']}" for line in shown])
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(-0.6, len(shown) - 0.4)
        axes.set_xlabel(MEASURES.get(measure, measure))
        axes.grid(axis="x")
        told = "; ".join(
            f"{line['training_set']}, {line['model']}: {score_in_words(line['scores'][measure])}" for line in shown
        )
        return inline(chart, name="models", label=f"{MEASURES.get(measure, measure)}. {told}.")
