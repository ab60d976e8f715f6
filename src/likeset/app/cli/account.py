"""``likeset account``: what releases cost."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from likeset.display.screen import JsonFlag, show_json, show_table
from likeset.errors import InvalidArgument, UnknownEvent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from likeset.privacy.events import Event
    from likeset.privacy.guarantee import Guarantee
    from likeset.simulation.paper_comparison import PriceComparison

__all__ = ["account"]

_EXAMPLE_DELTA = 1e-5


def account(
    *,
    events: Annotated[
        Path | None,
        typer.Option(help='A file of releases: {"version": 3, "events": [...]}, or a single "event".'),
    ] = None,
    paper: Annotated[
        bool, typer.Option("--paper", help="The paper's own settings: its count beside what is proven.")
    ] = False,
    delta: Annotated[
        list[float] | None, typer.Option(help=f"With --events, repeatable. Default: {_EXAMPLE_DELTA:g}.")
    ] = None,
    exact: Annotated[
        bool,
        typer.Option("--exact", help="Add the exact worst case of exponential choices; takes some seconds."),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Say what releases cost: epsilon at a delta, under a neighbouring relation.

    With `--events`, for releases recorded in a file, under the relation that they were planned under; with
    `--paper`, for the paper's settings, what it claims beside what is proven, and the preconditions of its
    theorem at its own parameters.

    Example: `likeset account --paper`, then `likeset account --events releases.json --delta
        1e-6`
    """
    if (events is not None) == paper:
        raise InvalidArgument("--events, --paper", "both" if paper else "neither", "give exactly one of them")
    if paper:
        if delta is not None:
            raise InvalidArgument("--delta", delta, "goes with --events; --paper has deltas of its own")
        _paper(exact=exact, as_json=as_json)
    elif events is not None:
        _events(events, [_EXAMPLE_DELTA] if delta is None else delta, exact=exact, as_json=as_json)


def _paper(*, exact: bool, as_json: bool) -> None:
    # Imported late, here and below: the accountant takes seconds to load, and no other command should wait.
    from likeset.simulation.paper_comparison import paper_preconditions, price_comparisons

    lines = price_comparisons(exact_choices=exact)
    conditions = paper_preconditions()
    if as_json:
        rows: list[dict[str, Any]] = [
            {
                "what": line.what,
                "observer": line.observer,
                "protected": line.protected,
                **_price_document(line.proven),
                "claimed": None if line.claimed is None else line.claimed.epsilon,
                "tightest": None if line.tightest is None else line.tightest.epsilon,
            }
            for line in lines
        ]
        asked = [
            {
                "what": f"precondition of the main theorem: {condition.what}",
                "delta": 1e-4,
                "relation": None,
                "claimed": None,
                "proven": None,
                "needed": condition.needed,
                "used": condition.used,
            }
            for condition in conditions
        ]
        show_json(rows + asked)
        return
    show_table(
        "The paper's settings: as it counts, and as proven",
        ["what owners hear, and what that protects", "delta", "claimed", "proven,\nreplace", "proven,\nadd"],
        _paper_table(lines, exact=exact),
        caption="claimed: the paper's count. proven: under replace-one, and under add-or-remove; none: no epsilon is.",
    )
    show_table(
        "Preconditions of the paper's main theorem, at its own parameters (d = 140, p = 500, delta = 1e-4)",
        ["quantity", "at least", "used"],
        [[condition.what, f"{condition.needed:.3g}", f"{condition.used:g}"] for condition in conditions],
    )


def _paper_table(lines: "Sequence[PriceComparison]", *, exact: bool) -> list[list[str | Text]]:
    """One line for each release, protected row and delta; the two relations side by side."""
    table: dict[tuple[str, str, float], dict[str, str]] = {}
    for line in lines:
        cells = table.setdefault(
            (line.what, line.protected, line.proven.delta), {"claimed": _epsilon_cell(line.claimed)}
        )
        cells[line.proven.relation] = _epsilon_cell(line.tightest if exact and line.tightest else line.proven)
    return [
        [
            Text.assemble(what, (f"\nprotects {protected}", "dim")),
            f"{delta:g}",
            cells["claimed"],
            cells.get("replace-one", "-"),
            cells.get("add-or-remove", "-"),
        ]
        for (what, protected, delta), cells in table.items()
    ]


def _events(path: Path, deltas: list[float], *, exact: bool, as_json: bool) -> None:
    from likeset.privacy.accounting import Filter, guarantee
    from likeset.privacy.events import Composition, Relation, relation_of

    recorded = _read_events(path)
    together = Composition(tuple(recorded))
    planned = relation_of(together)
    rows: list[dict[str, Any]] = []
    for delta in deltas:
        for relation in Relation if planned is None else [planned]:
            answers = [(f"release {number}: {_name(event)}", event) for number, event in enumerate(recorded, start=1)]
            answers.append(("all, as a plan fixed in advance", together))
            chosen = Filter.empty(relation=relation, delta=delta)
            for event in recorded:
                chosen = chosen.add(event)
            rows += [
                {
                    "what": what,
                    **_price_document(guarantee(event, relation=relation, delta=delta, exact_choices=exact)),
                }
                for what, event in answers
            ]
            adaptive = chosen.epsilon
            rows.append(
                {
                    **rows[-1],
                    "what": "all, each chosen after seeing the last",
                    "proven": adaptive if math.isfinite(adaptive) else None,
                    "note": rows[-1]["note"] if math.isinf(adaptive) else "filter",
                }
            )
    if as_json:
        show_json(rows)
        return
    shown = [
        [
            row["what"],
            f"{row['delta']:g}",
            row["relation"],
            "none" if row["proven"] is None else f"{row['proven']:.4g}",
            row["note"],
        ]
        for row in rows
    ]
    show_table("What the releases cost", ["releases", "delta", "relation", "epsilon", "note"], shown)


def _read_events(path: Path) -> "list[Event]":
    from likeset.privacy.events import VERSION, from_json

    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidArgument("--events", path, f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InvalidArgument("--events", path, "is not JSON") from error
    if not isinstance(document, dict) or document.get("version") != VERSION:
        raise UnknownEvent(str(path), f'must be an object with "version": {VERSION}')
    if set(document) == {"version", "event"}:
        return [from_json(document["event"])]
    if set(document) == {"version", "events"} and isinstance(document["events"], list):
        return [from_json(event) for event in document["events"]]
    raise UnknownEvent(str(path), 'must have, besides "version", exactly "event" or a list "events"')


def _price_document(answer: "Guarantee") -> dict[str, Any]:
    return {
        "delta": answer.delta,
        "relation": str(answer.relation),
        "claimed": None,
        "proven": answer.epsilon if math.isfinite(answer.epsilon) else None,
        "basis": str(answer.basis),
        "note": answer.note,
    }


def _epsilon_cell(answer: "Guarantee | None") -> str:
    if answer is None:
        return "-"
    return "none" if math.isinf(answer.epsilon) else f"{answer.epsilon:.4g}"


def _name(event: "Event") -> str:
    from likeset.privacy.events import as_json

    return str(as_json(event)["kind"])
