"""``likeset account``: what releases cost."""

import json
import math
from pathlib import Path
from typing import Annotated, Any

import typer

from likeset.display.screen import JsonFlag, show_json, show_table
from likeset.errors import InvalidArgument, UnknownEvent
from likeset.privacy.accounting import Filter, guarantee
from likeset.privacy.events import VERSION, Composition, Event, Relation, as_json, from_json, relation_of
from likeset.privacy.guarantee import Guarantee

_EXAMPLE_DELTA = 1e-5


def account(
    *,
    events: Annotated[
        Path, typer.Option(help='A file of releases: {"version": 3, "events": [...]}, or a single "event".')
    ],
    delta: Annotated[list[float] | None, typer.Option(help=f"Repeatable. Default: {_EXAMPLE_DELTA:g}.")] = None,
    exact: Annotated[
        bool,
        typer.Option("--exact", help="Add the exact worst case of exponential choices; takes some seconds."),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Say what releases recorded in a file cost: epsilon at a delta, under the relation that they were planned under.

    Example: `likeset account --events releases.json --delta 1e-6`
    """
    _events(events, [_EXAMPLE_DELTA] if delta is None else delta, exact=exact, as_json=as_json)


def _events(path: Path, deltas: list[float], *, exact: bool, as_json: bool) -> None:

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


def _read_events(path: Path) -> list[Event]:

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


def _price_document(answer: Guarantee) -> dict[str, Any]:
    return {
        "delta": answer.delta,
        "relation": str(answer.relation),
        "claimed": None,
        "proven": answer.epsilon if math.isfinite(answer.epsilon) else None,
        "basis": str(answer.basis),
        "note": answer.note,
    }


def _name(event: Event) -> str:

    return str(as_json(event)["kind"])
