"""``likeset audit``: does any mechanism give away more than it claims?"""

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from likeset.arguments import count
from likeset.audit.broken import broken_trials
from likeset.audit.sound import sound_trials
from likeset.audit.trials import Trial, TrialVerdict, run_trial
from likeset.display.screen import JsonFlag, show_json, show_table, stderr

__all__ = ["audit"]

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
