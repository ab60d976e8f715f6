"""``likeset audit``: does any mechanism give away more than it claims?"""

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from likeset.app.cli.screen import JsonFlag, show_json, show_table, stderr
from likeset.arguments import count

if TYPE_CHECKING:
    from likeset.audit.trials import Finding, Trial

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
    as_json: JsonFlag = False,
) -> None:
    """Bound every mechanism's epsilon from below by observation, and compare it with the claim.

    Each mechanism runs many times on two neighbouring inputs that are hard on it.
    A bound above the claim refutes the claim; a bound below it proves nothing.

    Exit code 1 if a claim is refuted or, with --broken, if a broken mechanism is not caught.

    Example: [bold]likeset audit[/], then [bold]likeset audit --broken --json[/]
    """
    if samples is not None:
        count("samples", samples, least=_FEWEST)
    # Imported late: the mechanisms bring OpenDP along, and no other command should wait for it.
    from likeset.audit.broken import broken
    from likeset.audit.suite import sound

    findings = list(_run_all(broken() if use_broken else sound(), samples))
    rows = [_row(finding, use_broken) for finding in findings]
    failed = sum(row["verdict"] in ("VIOLATED", "MISSED") for row in rows)
    if as_json:
        show_json(rows)
    else:
        _show(rows, use_broken, failed)
    if failed:
        raise typer.Exit(1)


def _run_all(trials: "Sequence[Trial]", samples: int | None) -> "Iterator[Finding]":
    """Progress goes to standard error: a moving bar on a terminal, one plain line per mechanism elsewhere."""
    from likeset.audit.trials import run

    if not stderr.is_terminal:
        for number, trial in enumerate(trials, start=1):
            sys.stderr.write(f"[{number}/{len(trials)}] {trial.mechanism}: {trial.pair}\n")
            yield run(trial, samples=samples)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=stderr, transient=True) as progress:
        task = progress.add_task("audit", total=len(trials))
        for trial in trials:
            progress.update(task, description=trial.mechanism)
            yield run(trial, samples=samples)
            progress.advance(task)


def _row(finding: "Finding", use_broken: bool) -> dict[str, Any]:
    trial, bound = finding.trial, finding.bound
    unrefuted, refuted = ("MISSED", "caught") if use_broken else ("holds", "VIOLATED")
    return {
        "mechanism": trial.mechanism,
        "pair": trial.pair,
        "channel": str(trial.channel),
        "noise": trial.noise,
        "claimed": trial.epsilon,
        "delta": trial.delta,
        "lower_bound": bound.epsilon,
        "event": bound.event,
        "samples": bound.samples,
        "error": bound.error,
        "seconds": round(finding.seconds, 3),
        "verdict": refuted if finding.violated else unrefuted,
    }


def _show(rows: Sequence[dict[str, Any]], use_broken: bool, failed: int) -> None:
    passed = f"{len(rows) - failed} of {len(rows)}"
    if use_broken:
        title, closing = "Deliberately broken mechanisms", f"{passed} caught."
    else:
        title = "Mechanisms and their claims"
        closing = f"{passed} claims not refuted. That is no proof; docs/proofs has the proofs."
    show_table(
        title,
        ["mechanism", "claimed ε", "δ", "lower bound", "samples", "verdict"],
        [
            [
                Text(f"{row['mechanism']}\n  {row['pair']}\n  {row['channel']}, {row['noise']} noise"),
                f"{row['claimed']:.3f}",
                f"{row['delta']:g}",
                f"{row['lower_bound']:.3f}",
                str(row["samples"]),
                row["verdict"],
            ]
            for row in rows
        ],
        caption=f"{closing} Each bound is too high with probability at most {rows[0]['error']:g}.",
    )
