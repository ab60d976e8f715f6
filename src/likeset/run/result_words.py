"""What came of a run in a few words, alike on a terminal and in a notebook."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from likeset.run.plan import guess_sentences
from likeset.run.result import Likeness

SHARE_IN_WORDS = (
    "An owner's share is how much its selected rows add to the match, averaged over every order in which owners could "
    "come (its Shapley value, as a part of all); similar rows add little to one another, so few rows can have a large "
    "share."
)
"""What "share" means on every screen."""

MEASURES = {"balanced_accuracy": "balanced accuracy", "accuracy": "accuracy", "auc": "AUC", "r2": "R²"}
"""How models are judged, by the names in ``evaluation.json``."""

_FAR, _TIMES_FRESH = 0.1, 4.0
_OBSERVERS = {"owners": "any owners", "curator": "the curator", "consumer": "the consumer"}


class Closeness(NamedTuple):
    """How close a summary is, as a part of a sentence: what stands before the number, the number, and the rest."""

    before: str
    number: str
    after: str


def closeness(likeness: Likeness | None, *, in_sample: float, target_rows: int, rows: int) -> Closeness:
    """How close a summary of so many rows is to new rows like the target's, with an interval; or in-sample.

    Never both: the in-sample number includes the sampling spread of the target's rows, the estimate does not.
    """
    if likeness is None:
        before = f"your {target_rows:,} rows with in-sample "
        return Closeness(before, f"MMD² {in_sample:.5f}", "; to new rows of their kind: not known")
    far = "; that is far: few rows like yours were offered, and the report shows in which columns they differ"
    after = f" ({likeness.low:.5f} to {likeness.high:.5f})"
    return Closeness(
        f"rows like your {target_rows:,} with ",
        f"MMD² {max(0.0, likeness.squared_mmd):.5f}",
        after + far if is_far(likeness.low, rows=rows) else after,
    )


def measure_in_words(comparison: Mapping[str, Any]) -> tuple[str, str]:
    """What all numbers of a comparison are: as the head of a column, and in sentences."""
    rows = f"{comparison.get('rows') or 0:,}"
    if comparison.get("measure") == "held-out":
        spread = "It includes the sampling spread of these rows. Scores: of a linear SVM trained on the line's rows."
        return "held-out MMD²", f"All lines: MMD² to the same {rows} rows, which no selection used. {spread}"
    if comparison.get("measure") == "estimate":
        return "estimated MMD²", f"All lines: estimates for new rows like the target's, from its {rows} rows."
    return "in-sample MMD²", f"All lines: MMD² to the target's {rows} rows, by which the summary was selected."


def is_far(low: float, *, rows: int) -> bool:
    """Whether a summary is far from the target, by the lower end of its interval: by much, for so many rows.

    As many fresh rows of the target's kind come to ``(1 - mean kernel) / rows`` on average, so to at most 1 / rows.
    """
    return low > max(_FAR, _TIMES_FRESH / rows)


def guarantee_lines(
    guarantees: Sequence[Mapping[str, Any]], *, owners: Sequence[str]
) -> list[tuple[str, str, str, str]]:
    """Who may learn what, how much at most, the delta and its basis; owners' views that say the same are one."""
    lines: dict[tuple[str, str, str, str], None] = {}
    for guarantee in guarantees:
        if guarantee["epsilon"] is None:
            what = "rows in shares, which alone tell nothing" if guarantee["shared"] else "rows in the open"
            cost = f"{guarantee['rows']:,} {what}" if guarantee["observer"] != "owners" else "no bound"
        else:
            cost = f"epsilon = {guarantee['epsilon']:.3g}" if guarantee["epsilon"] else "nothing in this run"
        delta = f"{guarantee['delta']:g}" if guarantee["epsilon"] else ""
        basis = guarantee["basis"] if guarantee["epsilon"] is not None else ""
        lines[f"{_who(guarantee)} about {_whose(guarantee, owners)}", cost, delta, basis] = None
    return list(lines)


def guarantee_meanings(guarantees: Sequence[Mapping[str, Any]], *, owners: Sequence[str]) -> list[str]:
    """What each epsilon in ``guarantee_lines`` means, and what it consists of: to be read below the table."""
    bounded = (one for one in guarantees if one["epsilon"] and one.get("guess") is not None)
    told = (guess_sentences(one, who=_who(one), whose=_whose(one, owners)) for one in bounded)
    return list(dict.fromkeys(told))


def _who(guarantee: Mapping[str, Any]) -> str:
    return " + ".join(guarantee["coalition"]) or _OBSERVERS[guarantee["observer"]]


def _whose(guarantee: Mapping[str, Any], owners: Sequence[str]) -> str:
    return "each owner" if guarantee["protects"] in owners else "the target"
