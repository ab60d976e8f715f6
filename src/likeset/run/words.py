"""Numbers, distances and guarantees in words, for the report, the terminal, the console and notebooks; templates.

All functions return plain text; the templates escape it.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from likeset.privacy.accounting import bound_in_words, guess_in_words
from likeset.text import harmless, is_query, short_query

if TYPE_CHECKING:
    from jinja2 import Environment

DASH, MINUS, TIMES, NO_BREAK = "\u2013", "\u2212", "\u00d7", "\u00a0"

SHARE = (
    "An owner's share is its Shapley value as a fraction of the total: how much its selected rows reduce the distance "
    "to the target, averaged over all orders of the owners."
)

MEASURES = {"balanced_accuracy": "balanced accuracy", "accuracy": "accuracy", "auc": "AUC", "r2": "R²"}
"""How models are judged, by the names in ``evaluation.json``."""

GAINS = "Score of the summary minus the score of the alternative"

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_LEAST_PLAIN, _MOST_PLAIN = 1e-4, 1e6
_KILO = 1000.0
_FAR, _TIMES_FRESH = 0.1, 4.0
_SURPRISING = 0.1  # of all shares
_DILUTED = 0.2  # of the distance, and of the largest contribution of one row
_OBSERVERS = {"owners": "any owners", "curator": "the curator", "consumer": "the consumer"}


@cache
def environment(package: str, *, most: int | None = None) -> "Environment":
    """The templates of a package; they escape all texts, without control characters and not longer than ``most``."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # the command line's help needs none

    def finalize(value: Any) -> Any:
        if hasattr(value, "__html__") or not isinstance(value, str):
            return value
        if most is not None and len(value) > most:
            return harmless(value, most=most)
        return NO_BREAK.join(map(harmless, value.split(NO_BREAK)))

    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=finalize,
    )


# Numbers and names


def number(value: float | None, digits: int = 2) -> str:
    """With this many significant digits; a power of ten below 0.0001 and above a million; a dash for no number."""
    if value is None or math.isnan(value):
        return DASH
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    if value == 0:
        return "0"
    size = abs(value)
    if isinstance(value, int) or (size >= 10**digits and size < _MOST_PLAIN):
        text = f"{value:,.0f}"
    elif _LEAST_PLAIN <= size < _MOST_PLAIN:
        decimals = max(0, digits - 1 - math.floor(math.log10(size)))
        text = f"{value:.{decimals}f}"
        text = text.rstrip("0").rstrip(".") if "." in text and size >= 1 else text
    else:
        head, power = f"{value:.{digits - 1}e}".split("e")
        head = head.rstrip("0").rstrip(".") if "." in head else head
        raised = f"10{str(int(power)).translate(_SUPERSCRIPTS)}"
        text = raised if head == "1" else f"{head}{NO_BREAK}{TIMES}{NO_BREAK}{raised}"
    return text.replace("-", MINUS)


def quantity(value: float | None, noun: str) -> str:
    return f"{number(value)} {noun if value == 1 else noun + 's'}"


def percent(value: float | None) -> str:
    if value is None:
        return DASH
    of_hundred = 100 * value
    return f"{of_hundred:.1f}%" if abs(of_hundred) < 10 and of_hundred != round(of_hundred) else f"{of_hundred:.0f}%"


def amount(value: float | None) -> str:
    return DASH if value is None else f"{value:,.2f}" if value else "0"


def owed_in_words(result: Mapping[str, Any]) -> str:
    terms = result["terms"]["summary"]
    price, unit = terms["price_per_row"], f" {terms['currency']}" if "currency" in terms else ""
    if not price:
        return ""
    rows, bound = result["rows_seen"], "" if terms["split"] is None else "at most "
    each = f"{price:g}{unit} for each of {bound}{rows:,} rows offered"
    return f"You owe {bound}{amount(price * rows)}{unit} in all: {each}."


def bytes_in_words(size: float | None) -> str:
    if size is None:
        return DASH
    for unit in ("bytes", "kB", "MB"):
        if size < _KILO:
            return f"{size:.0f}{NO_BREAK}{unit}" if unit == "bytes" or size >= 100 else f"{size:.1f}{NO_BREAK}{unit}"
        size /= _KILO
    return f"{size:,.1f}{NO_BREAK}GB"


def share_in_words(owners: Sequence[Mapping[str, Any]]) -> str:
    """What a share is, and the owner with the largest share for its rows."""
    whole = max(1, sum(owner["selected"] for owner in owners))
    odd = max(owners, key=lambda owner: float(owner["share"]) - owner["selected"] / whole)
    if odd["share"] < _SURPRISING + odd["selected"] / whole:
        return SHARE
    few = f"{odd['name']} has {percent(odd['share'])} with {odd['selected']:,} of {whole:,} rows"
    return f"{SHARE} {few}, since the first rows of a kind count most and similar rows add little."


def or_bound(known: float | None, most: float | None, form: Callable[[Any], str] = number) -> str:
    return f"at most {form(most)}" if known is None and most is not None else form(known)


def enumeration(names: Sequence[str]) -> str:
    """``a, b and c``; beyond six names, how many more."""
    if len(names) > 6:
        return f"{', '.join(names[:6])} and {len(names) - 6} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""


def short_address(address: object) -> str:
    """The name of a file, or the beginning of a query or an address."""
    text = harmless(str(address))
    return short_query(text) if is_query(text) else re.split(r"[\\/]", text.rstrip("\\/"))[-1] or text


def title_of(key: object) -> str:
    return re.sub(r"[_\s]+", " ", str(key)).strip()


def setting(value: str | float | None) -> str:
    if value is None or value == "":
        return DASH
    if isinstance(value, str):
        return value
    shown = number(value, 3)
    return shown.rstrip("0").rstrip(".") if "." in shown and TIMES not in shown else shown


# The distance to the target


@dataclass(frozen=True, slots=True)
class Headline:
    rows: str
    relation: str
    distance: str
    interval: str


def is_between(result: Mapping[str, Any]) -> bool:
    """Whether the run was between organisations: then only an owner knows how many rows it has."""
    return any(owner.get("rows") is None for owner in result["owners"])


def headline(result: Mapping[str, Any]) -> Headline:
    """Reports the estimate for new rows with its interval, or the in-sample distance; never both.

    The in-sample distance includes the sampling error of the target's rows; the estimate does not.
    """
    selected, size, distance = result["rows_selected"], result["size"], result["distance"]
    givers = sum(1 for owner in result["owners"] if owner["selected"])
    rows = quantity(selected, "row")
    if selected < size:
        rows = f"{number(selected)} of the {quantity(size, 'row')} requested"
    relation = f"from {quantity(givers, 'owner')} {'matches' if selected == 1 else 'match'}"
    target = result["target"]["rows"]
    if not distance:
        in_sample = f"in-sample MMD² {number(result['in_sample_squared_mmd'], 3)}"
        return Headline(rows, f"{relation} your {quantity(target, 'row')} with", in_sample, "")
    digits = 2 if is_between(result) else 3  # a curator tells two at most
    return Headline(
        rows,
        f"{relation} rows like your {number(target)} with",
        f"MMD² {number(max(0.0, distance['squared_mmd']), digits)}",
        f" ({number(distance['low'], digits)} to {number(distance['high'], digits)})",
    )


def distance_notes(result: Mapping[str, Any]) -> list[str]:
    # Where a curator elsewhere made the estimate, the consumer knows the distances to its own rows alone.
    closer = closer_rows(result["comparison"]["curve"] or [pick["squared_mmd"] for pick in result["history"]])
    if not result["distance"]:
        return ["The distance to new rows like the target's is not known.", *closer]
    far = "This is a large distance: few rows like the target's were offered. The report shows the columns that differ."
    # Fresh rows of the target's kind have (1 - mean kernel) / rows on average, which is at most 1 / rows.
    is_far = result["distance"]["low"] > max(_FAR, _TIMES_FRESH / result["rows_selected"])
    equal = "The estimate is for rows of equal weight, not for the weights of this result."
    return [*([equal] if result["weighted"] else []), *([far] if is_far else []), *closer]


def closer_rows(curve: Sequence[float]) -> list[str]:
    """The sentence for a summary of which the first rows look closer than all: beyond right rows, others dilute it.

    A range, because the minimum of new rows is up to a third away from the minimum of the target's own.
    """
    excess = curve[-1] - min(curve) if curve else 0.0
    if not curve or not excess > _DILUTED * max(curve[-1], 1.0 / len(curve)):
        return []
    near = [rows for rows, value in enumerate(curve, start=1) if value <= min(curve) + excess / 10.0]
    low, high = (f"{float(f'{rows:.1g}' if rows < 10 else f'{rows:.2g}'):,.0f}" for rows in (near[0], near[-1]))
    return [
        f"About the first {low} to {high} of the {len(curve):,} rows look closer than all of them (measured on your "
        "own target). More rows can make a model worse: compare with likeset evaluate."
    ]


def measure_in_words(comparison: Mapping[str, Any]) -> tuple[str, str]:
    rows = f"{comparison['rows']:,}"
    if comparison["measure"] == "held-out":
        return (
            "held-out MMD²",
            f"All lines: MMD² to the same {rows} rows, which no selection used; it includes their sampling error. "
            "Scores: a linear SVM trained on the rows of each line.",
        )
    if comparison["measure"] == "estimate":
        return "estimated MMD²", f"All lines: estimates for new rows like the target's, from its {rows} rows."
    return "in-sample MMD²", f"All lines: MMD² to the target's {rows} rows, which the selection used."


def labels_in_words(labels: Mapping[str, float]) -> str:
    if labels["skill"] <= 0.0:
        return ""
    explained = f"rows near the target explain {percent(labels['skill'])} of the variance of the labels"
    if labels["weight"] <= 0.0:
        weak = "Selection may not help a model: compare with random rows (likeset evaluate --owner)"
        return f"not matched: {explained}, too little to use. {weak}"
    return f"matched together with the rows: {explained}. MMD² and shares do not include labels"


# Models


def test_in_words(evaluation: Mapping[str, Any]) -> str:
    persons = evaluation["test_ids"]
    of_persons = "" if persons is None else f" of {quantity(persons, 'person')}"
    unit = "rows" if persons is None else "persons"
    return (
        f"Tested on {quantity(evaluation['test_rows'], 'labelled row')}{of_persons}. The 95% intervals resample "
        f"the {unit} of the test and not the models. If a training set was drawn several times, the table has the "
        "mean, and the interval is for one draw."
    )


def score_in_words(score: Mapping[str, Any]) -> str:
    if score["value"] is None:
        return DASH
    return f"{score['value']:.3f} ({score['low']:.3f} to {score['high']:.3f})"


# Guarantees


@dataclass(frozen=True, slots=True)
class GuaranteeLine:
    observer: str
    protected: str
    bound: str
    delta: str
    relation: str
    basis: str
    meaning: str

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """As in a table with the heads "who may learn about whose rows", "at most", "delta" and "basis"."""
        return f"{self.observer} about {self.protected}", self.bound, self.delta, self.basis


def not_private(noise: object) -> str:
    return "simulated, not private" if noise == "simulated" else "not private: at least one part has no proof"


def bound(guarantee: Mapping[str, Any]) -> str:
    """The largest epsilon, or how many rows an observer reads."""
    if guarantee["epsilon"] is None:
        if guarantee["observer"] == "owners":
            return "no bound"
        form = "in secret shares" if guarantee["shared"] else "in the clear"
        return f"{quantity(guarantee['rows'], 'row')} {form}"
    return f"epsilon = {guarantee['epsilon']:.3g}" if guarantee["epsilon"] else "nothing in this run"


def epsilon_of(guarantee: Mapping[str, Any]) -> float:
    """Infinite where there is no bound, so that the worst is the largest."""
    return math.inf if guarantee["epsilon"] is None else float(guarantee["epsilon"])


def guarantee_lines(
    guarantees: Iterable[Mapping[str, Any]], *, owners: Sequence[str], own: str = "", unit: str = "row"
) -> list[GuaranteeLine]:
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for guarantee in guarantees:
        epsilon = guarantee["epsilon"]
        key = (
            guarantee["observer"],
            guarantee["protects"] in owners,
            bound(guarantee),
            f"{guarantee['delta']:g}" if epsilon else "",
            "" if epsilon is None else guarantee["relation"],
            guarantee["basis"],
        )
        groups.setdefault(key, []).append(guarantee)
    lines = []
    for (observer, of_owner, most, delta, relation, basis), members in groups.items():
        lines.append(
            GuaranteeLine(
                observer=_observer_in_words(members[0], own=own, of_owner=of_owner),
                protected=_protected_in_words([member["protects"] for member in members], owners, own=own),
                bound=most,
                delta=delta,
                relation=relation,
                basis=basis,
                meaning=_meaning(observer, members[0], of_owner=of_owner, unit=unit),
            )
        )
    return lines


def guarantee_meanings(guarantees: Iterable[Mapping[str, Any]], *, owners: Sequence[str]) -> list[str]:
    """What each epsilon in ``guarantee_lines`` means, to be shown below a table without this column."""
    bounded = (one for one in guarantees if one["epsilon"] and one["guess"] is not None)
    whose = (("each owner" if one["protects"] in owners else "the target", one) for one in bounded)
    return list(dict.fromkeys(guess_sentences(one, who=_OBSERVERS[one["observer"]], whose=rows) for rows, one in whose))


def guess_sentences(guarantee: Mapping[str, Any], *, who: str, whose: str) -> str:
    """What a proven bound means for a guess about one unit."""
    meaning = bound_in_words(
        guarantee["guess"],
        epsilon=guarantee["epsilon"],
        delta=guarantee["delta"],
        relation=guarantee["relation"],
        unit=f"{guarantee['protected_unit']} of {whose}",
    )
    return f"With all that {who} receive in this run, {meaning}."


def guess(guarantee: Mapping[str, Any], unit: str) -> str:
    if guarantee["basis"] != "proven" or not guarantee["epsilon"] or guarantee["guess"] is None:
        return ""
    text = guess_in_words(guarantee["guess"], relation=guarantee["relation"], unit=unit)
    return f"{text[0].upper()}{text[1:]}."


def learned(guarantees: Sequence[Mapping[str, Any]]) -> str:
    """The worst of several guarantees, after "Owners learned"."""
    worst = max(guarantees, key=epsilon_of)
    if math.isinf(epsilon_of(worst)):
        return "an unbounded amount"
    if epsilon_of(worst) == 0:
        return "nothing in this run"
    claimed = " (claimed by the paper)" if any(one["basis"] == "claimed" for one in guarantees) else ""
    delta = f", delta = {worst['delta']:g}" if worst["delta"] else ""
    return f"at most {bound(worst)}{delta}{claimed}"


def _observer_in_words(guarantee: Mapping[str, Any], *, own: str, of_owner: bool) -> str:
    if own and guarantee["observer"] == "owners":
        return "the other owners together" if of_owner else "you and all owners together"
    return _OBSERVERS[guarantee["observer"]] + (" (it owns the curator)" if guarantee.get("owns_curator") else "")


def _protected_in_words(protects: Sequence[str], owners: Sequence[str], *, own: str) -> str:
    if own:
        return "your rows" if own in protects else "the target"
    found = list(dict.fromkeys(name for name in protects if name in owners))
    if not found:
        return "the target"
    return "each owner" if len(found) == len(set(owners)) else enumeration(found)


def _meaning(observer: str, guarantee: Mapping[str, Any], *, of_owner: bool, unit: str) -> str:
    if guarantee["shared"]:
        return (
            "Computes on secret shares and reads no row, as long as no two compute parties work together and all "
            "follow the protocol."
        )
    if observer == "curator" or guarantee.get("owns_curator"):
        return "Reads the rows that were offered." if of_owner else "Reads the target."
    if observer == "consumer":
        return "Receives the rows that were selected."
    if epsilon_of(guarantee) == 0:
        return "Nothing: no message to an owner depends on these rows."
    if math.isinf(epsilon_of(guarantee)):
        return f"There is no bound: {guarantee['note']}." if guarantee["note"] else "There is no bound."
    return guess(guarantee, f"one {unit}") or f"A bounded amount about any single {unit}."
