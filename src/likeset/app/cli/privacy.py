"""``likeset account``: prices of releases. ``likeset audit``: lower bounds on the epsilon of mechanisms."""

import json
import math
from pathlib import Path
from typing import Annotated, Any

import typer

from likeset.arguments import count
from likeset.audit.auditor import TrialVerdict, run_trial
from likeset.audit.broken_trials import broken_trials
from likeset.audit.sound_trials import sound_trials
from likeset.display import Waiting, emit, show_document
from likeset.errors import InvalidArgument, UnknownEvent
from likeset.privacy.accounting import Filter, Guarantee, guarantee
from likeset.privacy.events import VERSION, Composition, Event, Relation, as_json, from_json, relation_of

_EXAMPLE_DELTA = 1e-5


def account(
    *,
    events: Annotated[
        Path, typer.Option(help='A file of releases: {"version": 3, "events": [...]}, or a single "event".')
    ],
    delta: Annotated[list[float] | None, typer.Option(help=f"Repeatable. Default: {_EXAMPLE_DELTA:g}.")] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Add the exact worst case of exponential choices; takes some seconds.")
    ] = False,
) -> None:
    """Compute what releases cost: epsilon at a delta, under a neighbouring relation.

    The relation is the one that the releases were planned under.

    Example: `likeset account --events releases.json --delta 1e-6`
    """
    _events(events, [_EXAMPLE_DELTA] if delta is None else delta, exact=exact)


def _events(path: Path, deltas: list[float], *, exact: bool) -> None:
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
                {"what": what, **_price_document(guarantee(event, relation=relation, delta=delta, exact_choices=exact))}
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
    emit(rows)


def _read_events(path: Path) -> list[Event]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidArgument("--events", path, f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidArgument("--events", path, "is not JSON, or is nested too deeply") from error
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
        "proven": answer.epsilon if math.isfinite(answer.epsilon) else None,
        "basis": str(answer.basis),
        "note": answer.note,
    }


def _name(event: Event) -> str:
    return str(as_json(event)["kind"])


_FEWEST = 1000


def audit(
    *,
    use_broken: Annotated[
        bool, typer.Option("--broken", help="Audit the deliberately broken set instead: each must be caught.")
    ] = False,
    samples: Annotated[
        int | None,
        typer.Option(help=f"Observations under each input, at least {_FEWEST}. Default: each mechanism's own."),
    ] = None,
) -> None:
    """Bound every mechanism's epsilon from below by observation, and compare it with the claim.

    Each mechanism runs many times on two neighbouring inputs, chosen to reveal most.
    A bound above the claim refutes the claim; a bound below it proves nothing.
    The table also states the smallest violations that would be detected: a true epsilon, a share of raw values.

    Exit code 1 if a claim is refuted or, with --broken, if a broken mechanism is not caught.

    Example: `likeset audit`, then `likeset audit --broken --json`
    """
    if samples is not None:
        count("samples", samples, least=_FEWEST)

    trials = broken_trials() if use_broken else sound_trials()
    verdicts: list[TrialVerdict] = []
    with Waiting() as waiting:
        for number, trial in enumerate(trials):
            waiting.step("trials run", number, len(trials))
            verdicts += run_trial(trial, samples=samples)
    rows = [_row(verdict, use_broken) for verdict in verdicts]
    failed = sum(row["verdict"] in ("VIOLATED", "MISSED") for row in rows)
    closing = f"{len(rows) - failed} of {len(rows)} claims not refuted. That is no proof; docs/proofs has the proofs."
    if use_broken:
        closing = f"{len(rows) - failed} of {len(rows)} broken mechanisms caught."
    columns = ["mechanism", "pair", "claimed", "delta", "lower_bound", "found_from_epsilon", "verdict"]

    def view() -> None:
        title = "Deliberately broken mechanisms" if use_broken else "Mechanisms and their claims"
        show_document([{name: row[name] for name in columns} for row in rows], title)

    notes = [
        closing,
        f"each bound is too high with probability at most {rows[0]['error']:g}",
        "found from epsilon: the smallest true epsilon that these observations would have refuted",
    ]
    emit(rows, view=view, notes=notes, ok=not failed)


def _row(verdict: TrialVerdict, use_broken: bool) -> dict[str, Any]:
    trial, claim, bound, power = verdict.trial, verdict.claim, verdict.bound, verdict.power
    unrefuted, refuted = ("MISSED", "caught") if use_broken else ("holds", "VIOLATED")
    return {
        "mechanism": trial.mechanism,
        "pair": trial.pair,
        "relation": str(trial.relation),
        "noise": trial.noise,
        "claimed": claim.epsilon,
        "delta": claim.delta,
        "lower_bound": bound.epsilon,
        "event": bound.event,
        "samples": bound.samples,
        "error": bound.error,
        "found_from_epsilon": _finite(power.epsilon),
        "found_from_leak": _finite(power.leak),
        "verdict": refuted if verdict.violated else unrefuted,
    }


def _finite(value: float) -> float | None:
    """A number for JSON, which has no infinity: null if no observation could show a violation."""
    return value if math.isfinite(value) else None
