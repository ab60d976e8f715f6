"""The result of a run on one screen."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from likeset.display.screen import literal, show_notes, show_table, stdout
from likeset.run.words import (
    MEASURES,
    SHARE,
    distance_notes,
    guarantee_lines,
    guarantee_meanings,
    headline,
    labels_in_words,
    measure_in_words,
    not_private,
    number,
    or_bound,
)


def show_result(result: Mapping[str, Any], *, all_notes: bool = True) -> None:
    """The distance to the target, the contributions and the guarantees."""
    if not result["private"]:
        show_not_private(result["noise"])
    _show_headline(result)
    _show_comparison(result)
    if labels := labels_in_words(result["labels"]):
        stdout.print(f"Labels are {labels}.", soft_wrap=True)
    _show_owners(result)
    names = [owner["name"] for owner in result["owners"]]
    show_guarantees(result["guarantees"], owners=names, title="Privacy guarantees")
    stdout.print(literal(result["budget"]["in_words"]), soft_wrap=True)
    show_notes((warning["text"] for warning in result["warnings"]), all_of_them=all_notes)


def _show_headline(result: Mapping[str, Any]) -> None:

    head = headline(result)
    sentence = f"[bold]{head.rows}[/] {head.relation} [bold]{head.distance}[/]{head.interval}."
    stdout.print(f"\n{' '.join([sentence, *distance_notes(result)])}\n", soft_wrap=True)


def show_not_private(noise: str) -> None:
    """In red, above a run that is not private."""
    stdout.print(f"\n[bold white on red] {not_private(noise)} [/]")


def _show_comparison(result: Mapping[str, Any]) -> None:

    lines = result["comparison"]["lines"]
    scores = list(lines[0]["scores"])
    rows = []
    for line in lines:
        cells = [line["name"], f"{line['squared_mmd']:.5f}"]
        cells += [f"{line['scores'][score]:.3f}" if score in line["scores"] else "" for score in scores]
        rows.append([Text(cell, style="bold" if line is lines[0] else "") for cell in cells])
    head, sentence = measure_in_words(result["comparison"])
    heads = ["rows", head, *(MEASURES[score] for score in scores)]
    show_table("Distance to the target", heads, rows, caption=f"{sentence} Smaller is closer.")


def _show_owners(result: Mapping[str, Any]) -> None:

    rows = [
        (
            owner["name"],
            "unknown" if owner["rows"] is None else f"{owner['rows']:,}",  # between organisations only the owner knows
            "unknown" if owner["heard_bytes"] is None else f"{owner['heard_bytes']:,} bytes",
            or_bound(owner["disclosed"], owner["disclosed_at_most"], number),
            f"{owner['selected']:,}",
            f"{100 * owner['share']:.0f}%",
        )
        for owner in result["owners"]
    ]
    each = result["rows_seen"] / max(1, result["rows_selected"])
    seen = f"The curator saw {result['rows_seen']:,} rows, {each:.1f} for each row selected."
    if result["terms"]["summary"]["split"]:
        seen = f"The curator computed on secret shares of {result['rows_seen']:,} rows and read none of them."
    show_table("Contributions", ("owner", "rows", "received", "disclosed", "selected", "share"), rows, caption=seen)
    stdout.print(SHARE, soft_wrap=True)


def show_guarantees(guarantees: Sequence[Mapping[str, Any]], *, owners: Sequence[str], title: str) -> None:
    """One line for all owners with equal guarantees."""
    lines = [line.cells for line in guarantee_lines(guarantees, owners=owners)]
    show_table(title, ("who may learn about whose rows", "at most", "delta", "basis"), lines)
    for words in guarantee_meanings(guarantees, owners=owners):
        stdout.print(literal(words), soft_wrap=True)
