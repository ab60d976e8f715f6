"""What a notebook shows: a bar while a run goes on, and afterwards its story in one screen."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likeset.protocol.notices import Notice
from likeset.run.plan import guarantee_documents, is_private
from likeset.run.result import Result
from likeset.run.result_words import closeness, guarantee_lines, guarantee_meanings
from likeset.transports.local import Progress

__all__ = ["notebook_progress", "story"]

_MOST_LABELS = 12
_MOST_NOTES = 5
_CELL = "padding:2px 10px 2px 0;text-align:{}"
_BAR = '<span style="display:inline-block;background:#2a6fb0;height:.7em;width:{:.0f}px"></span> {:.0%}'


@contextmanager
def notebook_progress(given: Progress | None) -> Iterator[Progress | None]:
    """Whoever is told of the progress: as given, or a bar where this is a notebook; the bar goes when all is done."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if given is not None or getattr(shell, "kernel", None) is None:  # a terminal's shell has no kernel
        yield given
        return
    from IPython.display import HTML, display  # type: ignore[import-not-found,unused-ignore]  # it is loaded already

    handle = display(HTML(""), display_id=True)

    def show(what: str, done: int, total: int) -> None:
        handle.update(HTML(f'<progress value="{done}" max="{total}"></progress> {escape(what)}: {done:,} of {total:,}'))

    try:
        yield show
    finally:
        handle.update(HTML(""))


def story(
    result: Result,
    *,
    labels: NDArray[Any] | None,
    warnings: Iterable[Notice],
    shown_names: Mapping[str, str],
    simulated: bool,
) -> str:
    """A result as HTML that fits on a screen: how close, who gave what, which labels, who learned what.

    Args:
        result: of the run.
        labels: of the selected rows; None for none.
        warnings: what the user should know.
        shown_names: how owners are called toward the user, by their name in the terms.
        simulated: whether the noise is.
    """
    outcome = result.outcome
    close = closeness(
        result.likeness,
        in_sample=result.in_sample_squared_mmd,
        target_rows=len(result.target),
        rows=len(result.rows),
    )
    givers = sum(1 for owner in result.owners if owner.contribution.rows_selected)
    private = is_private(outcome.guarantees, simulated=simulated)
    why = "simulated, not private" if simulated else "not private: a part of it has no proof"
    parts = [
        "" if private else f'<p style="color:#b00020"><b>{why}</b></p>',
        f"<p><b>{len(result.rows):,} rows</b> of {givers:,} {'owner' if givers == 1 else 'owners'} match "
        f"{escape(close.before)}<b>{escape(close.number)}</b>{escape(close.after)}.</p>",
        _owners(result, shown_names),
        "" if labels is None else _labels(labels),
        _guarantees(result, simulated=simulated),
        _notes([warning.text for warning in warnings]),
    ]
    return f'<div style="font-size:.95em;line-height:1.35">{"".join(parts)}</div>'


def _owners(result: Result, shown_names: Mapping[str, str]) -> str:
    rows = [
        [
            escape(shown_names[owner.contribution.owner]),
            f"{owner.facts.rows or 0:,}",
            f"{owner.contribution.rows_disclosed:,}",
            f"{owner.contribution.rows_selected:,}",
            _BAR.format(60 * owner.contribution.share, owner.contribution.share),
        ]
        for owner in result.owners
    ]
    return _table(("owner", "rows", "disclosed", "selected", "share"), rows)


def _labels(labels: NDArray[Any]) -> str:
    """How often each class is there; of numbers their range."""
    if labels.dtype.kind == "f" and len(np.unique(labels)) > _MOST_LABELS:
        return f"<p>Labels: from {labels.min():g} to {labels.max():g}, half of them up to {np.median(labels):g}.</p>"
    values, counts = np.unique(labels, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    told = [f"{escape(str(values[place]))}: {counts[place]:,}" for place in order[:_MOST_LABELS]]
    rest = f" and {len(values) - _MOST_LABELS:,} more" if len(values) > _MOST_LABELS else ""
    return f"<p>Labels: {', '.join(told)}{rest}.</p>"


def _guarantees(result: Result, *, simulated: bool) -> str:
    terms = result.outcome.terms
    documents = guarantee_documents(result.outcome.guarantees, simulated=simulated, unit=terms.unit)
    lines = guarantee_lines(documents, owners=terms.owners)
    cells = [[escape(cell) for cell in line] for line in lines]
    told = "".join(f"<p>{escape(words)}</p>" for words in guarantee_meanings(documents, owners=terms.owners))
    return _table(("who may learn about whose rows", "at most", "delta", "basis"), cells) + told


def _notes(notes: list[str]) -> str:
    if not notes:
        return ""
    shown = [f"<li>{escape(note)}</li>" for note in notes[:_MOST_NOTES]]
    if len(notes) > _MOST_NOTES:
        shown.append(f"<li>and {len(notes) - _MOST_NOTES:,} more, in <code>warnings_</code></li>")
    return f"<ul>{''.join(shown)}</ul>"


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    def line(cells: Iterable[str], tag: str) -> str:
        sides = ("left" if not place else "right" for place, _ in enumerate(heads))
        joined = (
            f'<{tag} style="{_CELL.format(side)}">{cell}</{tag}>' for cell, side in zip(cells, sides, strict=True)
        )
        return f"<tr>{''.join(joined)}</tr>"

    heads = tuple(heads)
    return f"<table>{line(heads, 'th')}{''.join(line(row, 'td') for row in rows)}</table>"
