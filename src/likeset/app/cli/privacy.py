"""``likeset account``: what releases cost. ``likeset audit``: does any mechanism give away more than it claims?"""

import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from likeset.arguments import count
from likeset.audit.broken import broken_trials
from likeset.audit.sound import sound_trials
from likeset.audit.trials import Trial, TrialVerdict, run_trial
from likeset.display import JsonFlag, show_json, show_table, stderr
from likeset.errors import InvalidArgument, UnknownEvent
from likeset.privacy.accounting import Filter, guarantee
from likeset.privacy.events import VERSION, Composition, Event, Relation, as_json, from_json, relation_of
from likeset.privacy.guarantee import Guarantee
from likeset.privacy.paper_prices import PriceComparison, paper_preconditions, price_comparisons

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

    With `--events`, for releases recorded in a file, under the relation that they were planned under; with `--paper`,
    for the paper's settings, its claim beside what is proven, and the preconditions of its theorem.

    Example: `likeset account --paper`, then `likeset account --events releases.json --delta 1e-6`
    """
    if (events is not None) == paper:
        raise InvalidArgument("--events, --paper", "both" if paper else "neither", "give exactly one of them")
    if events is not None:
        _events(events, [_EXAMPLE_DELTA] if delta is None else delta, exact=exact, as_json=as_json)
        return
    if delta is not None:
        raise InvalidArgument("--delta", delta, "goes with --events; --paper has deltas of its own")
    _paper(exact=exact, as_json=as_json)


def _paper(*, exact: bool, as_json: bool) -> None:
    lines, conditions = price_comparisons(exact_choices=exact), paper_preconditions()
    if as_json:
        show_json(
            {
                "prices": [
                    {
                        "what": line.what,
                        "observer": line.observer,
                        "protected": line.protected,
                        **_price_document(line.proven),
                        "claimed": None if line.claimed is None else line.claimed.epsilon,
                        "tightest": None if line.tightest is None else line.tightest.epsilon,
                    }
                    for line in lines
                ],
                "preconditions": [asdict(condition) for condition in conditions],
            }
        )
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


def _paper_table(lines: Sequence[PriceComparison], *, exact: bool) -> list[list[str | Text]]:
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


def _epsilon_cell(answer: Guarantee | None) -> str:
    if answer is None:
        return "-"
    return "none" if math.isinf(answer.epsilon) else f"{answer.epsilon:.4g}"


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
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Also say which event showed most and what was not looked at.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Bound every mechanism's epsilon from below by observation, and compare it with the claim.

    Each mechanism runs many times on two neighbouring inputs that are hard on it.
    A bound above the claim refutes the claim; a bound below it proves nothing.
    What would have been found stands beside it: a true epsilon, or a raw value sent now and then.

    Exit code 1 if a claim is refuted or, with --broken, if a broken mechanism is not caught.

    Example: `likeset audit`, then `likeset audit --broken --json`
    """
    if samples is not None:
        count("samples", samples, least=_FEWEST)

    verdicts = _run_all(broken_trials() if use_broken else sound_trials(), samples)
    rows = [_row(verdict, use_broken) for verdict in verdicts]
    failed = sum(row["verdict"] in ("VIOLATED", "MISSED") for row in rows)
    if as_json:
        show_json(rows)
    else:
        _show(rows, use_broken, failed, verbose)
    if failed:
        raise typer.Exit(1)


def _run_all(trials: Sequence[Trial], samples: int | None) -> Iterator[TrialVerdict]:
    """Progress goes to standard error: a moving bar on a terminal, one plain line per mechanism elsewhere."""
    if not stderr.is_terminal:
        for number, trial in enumerate(trials, start=1):
            sys.stderr.write(f"[{number}/{len(trials)}] {trial.mechanism}: {trial.pair}\n")
            yield from run_trial(trial, samples=samples)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=stderr, transient=True) as progress:
        task = progress.add_task("audit", total=len(trials))
        for trial in trials:
            progress.update(task, description=trial.mechanism)
            yield from run_trial(trial, samples=samples)
            progress.advance(task)


def _row(verdict: TrialVerdict, use_broken: bool) -> dict[str, Any]:
    trial, claim, bound, power = verdict.trial, verdict.claim, verdict.bound, verdict.power
    unrefuted, refuted = ("MISSED", "caught") if use_broken else ("holds", "VIOLATED")
    return {
        "mechanism": trial.mechanism,
        "pair": trial.pair,
        "relation": str(trial.relation),
        "channel": str(trial.channel),
        "noise": trial.noise,
        "claimed": claim.epsilon,
        "delta": claim.delta,
        "lower_bound": bound.epsilon,
        "event": bound.event,
        "samples": bound.samples,
        "error": bound.error,
        "found_from_epsilon": _finite(power.epsilon),
        "found_from_leak": _finite(power.leak),
        "unseen": trial.unseen,
        "seconds": round(verdict.seconds, 3),
        "verdict": refuted if verdict.violated else unrefuted,
    }


def _finite(value: float) -> float | None:
    """JSON has no infinity: what nothing could show is null there."""
    return value if math.isfinite(value) else None


def _show(rows: Sequence[dict[str, Any]], use_broken: bool, failed: int, verbose: bool) -> None:
    passed = f"{len(rows) - failed} of {len(rows)}"
    if use_broken:
        title, closing = "Deliberately broken mechanisms", f"{passed} caught."
    else:
        title = "Mechanisms and their claims"
        closing = f"{passed} claims not refuted. That is no proof; docs/proofs has the proofs."
    note = "Found from: the true ε, or else the share of raw answers, from which on a refutation is sure, at best."
    trials = [list(claims) for _, claims in groupby(rows, key=lambda row: _words(row, verbose=False).plain)]
    show_table(
        title,
        ["mechanism", "claimed ε", "δ", "bound", "found from", "verdict"],
        [
            [
                _words(claims[0], verbose),
                _below_one_another(f"{row['claimed']:.3f}" for row in claims),
                _below_one_another(f"{row['delta']:g}" for row in claims),
                _below_one_another(f"{row['lower_bound']:.3f}" for row in claims),
                _below_one_another(_least_found(row) for row in claims),
                _below_one_another(row["verdict"] for row in claims),
            ]
            for claims in trials
        ],
        caption=f"{closing} Each bound is too high with probability at most {rows[0]['error']:g}. {note}",
    )


def _below_one_another(lines: Iterable[str]) -> Text:
    return Text("\n".join(lines))


def _words(row: dict[str, Any], verbose: bool) -> Text:
    seen = f"{row['relation']}, {row['channel']}, {row['samples']} times, {row['noise']} noise"
    lines = [row["mechanism"], row["pair"], seen]
    if verbose:
        lines += [f"seen best in: {row['event']}", f"not looked at: {row['unseen']}"]
    return Text("\n  ".join(lines))


def _least_found(row: dict[str, Any]) -> str:
    if row["found_from_epsilon"] is None or row["found_from_leak"] is None:
        return "never"
    return f"{row['found_from_epsilon']:.2f}, {row['found_from_leak']:.3f}"
