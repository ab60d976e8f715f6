"""What a notebook shows: a progress bar during a run, and a summary of its result."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likeset.protocol.notices import Notice
from likeset.run.pages import environment
from likeset.run.plan import guarantee_documents, is_private
from likeset.run.result import Result
from likeset.run.words import distance_notes, guarantee_lines, guarantee_meanings, headline, not_private, percent
from likeset.transports.local import Progress

_MOST_LABELS = 12


@contextmanager
def notebook_progress(given: Progress | None) -> Iterator[Progress | None]:
    """The caller's own progress, or a bar if this is a notebook; the bar is removed at the end."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if given is not None or getattr(shell, "kernel", None) is None:  # a shell in a terminal has no kernel
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
    """A result as HTML that fits on a screen."""
    terms, contributions = result.outcome.terms, [owner.contribution for owner in result.owners]
    document = {
        "distance": None if result.distance is None else asdict(result.distance),
        "in_sample_squared_mmd": result.in_sample_squared_mmd,
        "target": {"rows": len(result.target)},
        "rows_selected": len(result.rows),
        "size": terms.size,
        "owners": [{"selected": one.rows_selected} for one in contributions],
    }
    documents = guarantee_documents(result.outcome.guarantees, simulated=simulated, unit=terms.unit)
    private = is_private(result.outcome.guarantees, simulated=simulated)
    return (
        environment("likeset.run")
        .get_template("notebook.html")
        .render(
            not_private="" if private else not_private("simulated" if simulated else "secret"),
            headline=headline(document),
            notes=distance_notes(document),
            owners=[
                (
                    shown_names[one.owner],
                    f"{owner.facts.rows or 0:,}",
                    f"{one.rows_disclosed:,}",
                    f"{one.rows_selected:,}",
                    percent(one.share),
                )
                for owner, one in zip(result.owners, contributions, strict=True)
            ],
            labels="" if labels is None else _labels(labels),
            guarantees=[line.cells for line in guarantee_lines(documents, owners=terms.owners)],
            meanings=guarantee_meanings(documents, owners=terms.owners),
            warnings=[warning.text for warning in warnings],
        )
    )


def _labels(labels: NDArray[Any]) -> str:
    """The count of each class, or the range of numbers."""
    if labels.dtype.kind == "f" and len(np.unique(labels)) > _MOST_LABELS:
        return f"from {labels.min():g} to {labels.max():g}, median {np.median(labels):g}"
    values, counts = np.unique(labels, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    shown = ", ".join(f"{values[place]}: {counts[place]:,}" for place in order[:_MOST_LABELS])
    return shown + (f" and {len(values) - _MOST_LABELS:,} more" if len(values) > _MOST_LABELS else "")
