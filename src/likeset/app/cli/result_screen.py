"""The result of a run on one screen."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from likeset.display.screen import literal, show_notes, show_table, stdout

__all__ = ["known_or_bound", "show_guarantees", "show_not_private", "show_result"]


def show_result(result: Mapping[str, Any], *, all_notes: bool = True) -> None:
    """The answer, what it is worth, who gave what, and what everybody learned."""
    if not result["private"]:
        show_not_private(result["noise"])
    givers = sum(1 for owner in result["owners"] if owner["selected"])
    stdout.print(
        f"\n[bold]{result['rows_selected']:,} rows[/] of {givers} {'owner' if givers == 1 else 'owners'} "
        f"match {_closeness(result)}.\n",
        soft_wrap=True,
    )
    _show_comparison(result)
    _show_labels(result)
    _show_owners(result)
    names = [owner["name"] for owner in result["owners"]]
    show_guarantees(result["guarantees"], owners=names, title="Who learned what")
    stdout.print(literal(result["budget"]["in_words"]), soft_wrap=True)
    show_notes((warning["text"] for warning in result["warnings"]), all_of_them=all_notes)


def _closeness(result: Mapping[str, Any]) -> str:
    """As a part of a sentence, with the number in bold."""
    from likeset.run.result import Likeness
    from likeset.run.result_words import closeness

    likeness = None if result["likeness"] is None else Likeness(**result["likeness"])
    rows = result["target"]["rows"]
    in_sample, selected = result["in_sample_squared_mmd"], result["rows_selected"]
    close = closeness(likeness, in_sample=in_sample, target_rows=rows, rows=selected)
    return f"{close.before}[bold]{close.number}[/]{close.after}"


def show_not_private(noise: str) -> None:
    """In red: what stands below is no private run."""
    why = "simulated, not private" if noise == "simulated" else "not private: a part of it has no proof"
    stdout.print(f"\n[bold white on red] {why} [/]")


def _show_comparison(result: Mapping[str, Any]) -> None:
    from likeset.run.result_words import MEASURES, measure_in_words

    lines = result["comparison"]["lines"]
    scores = list(lines[0]["scores"])
    rows = []
    for line in lines:
        cells = [line["name"], f"{line['squared_mmd']:.5f}"]
        cells += [f"{line['scores'][score]:.3f}" if score in line["scores"] else "" for score in scores]
        rows.append([Text(cell, style="bold" if line is lines[0] else "") for cell in cells])
    head, sentence = measure_in_words(result["comparison"])
    heads = ["rows", head, *(MEASURES[score] for score in scores)]
    show_table("How alike?", heads, rows, caption=f"{sentence} Smaller MMD² is more alike.")


def _show_labels(result: Mapping[str, Any]) -> None:
    from likeset.app.report.plain_words import labels_in_words

    for words in labels_in_words(result.get("labels")):
        stdout.print(f"Labels are {words}.", soft_wrap=True)


def _show_owners(result: Mapping[str, Any]) -> None:
    from likeset.run.result_words import SHARE_IN_WORDS

    rows = [
        (
            owner["name"],
            "unknown" if owner["rows"] is None else f"{owner['rows']:,}",  # between organisations only the owner knows
            "unknown" if owner["heard_bytes"] is None else f"{owner['heard_bytes']:,} bytes",
            known_or_bound(owner["disclosed"], owner["disclosed_at_most"], "{:,}"),
            f"{owner['selected']:,}",
            f"{100 * owner['share']:.0f}%",
        )
        for owner in result["owners"]
    ]
    each = result["rows_seen"] / max(1, result["rows_selected"])
    seen = f"The curator saw {result['rows_seen']:,} rows, {each:.1f} for each row selected."
    if result["terms"]["summary"]["split"]:
        seen = f"{result['rows_seen']:,} rows were computed on in shares; nobody read a row but you those selected."
    show_table("Who gave what?", ("owner", "rows", "heard", "disclosed", "selected", "share"), rows, caption=seen)
    stdout.print(SHARE_IN_WORDS, soft_wrap=True)


def known_or_bound(known: float | None, most: float, form: str) -> str:
    """A number as text; where only an owner knows it, what it is at most."""
    return f"at most {form.format(most)}" if known is None else form.format(known)


def show_guarantees(guarantees: Sequence[Mapping[str, Any]], *, owners: Sequence[str], title: str) -> None:
    """One line for each kind of view: owners' views that say the same are one."""
    from likeset.run.result_words import guarantee_lines, guarantee_meanings

    lines = guarantee_lines(guarantees, owners=owners)
    show_table(title, ("who may learn about whose rows", "at most", "delta", "basis"), lines)
    for words in guarantee_meanings(guarantees, owners=owners):
        stdout.print(literal(words), soft_wrap=True)
