"""Numbers, names and guarantees in words that need no training in statistics. Plain text: escaping comes later."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from likeset.privacy.guarantee import guess_in_words
from likeset.text import harmless

__all__ = [
    "DASH",
    "GLOSSARY",
    "NO_BREAK",
    "TIMES",
    "amount",
    "bytes_in_words",
    "cost",
    "enumeration",
    "guess",
    "labels_in_words",
    "number",
    "or_bound",
    "percent",
    "plain",
    "quantity",
    "setting",
    "short_address",
    "title_of",
    "trimmed_number",
]

DASH, MINUS, TIMES, NO_BREAK = "\u2013", "\u2212", "\u00d7", "\u00a0"

GLOSSARY = (
    (
        "MMD²",
        "How unlike two sets of rows are, all columns together: 0 means alike in all that the kernel can see. "
        "Smaller is better.",
    ),
    (
        "epsilon (ε)",
        "How much one row can change what an observer sees. 0: not at all; around 1: strong; above 5: weak.",
    ),
    (
        "delta (δ)",
        "Epsilon is stated at this delta: what is heard is at most e^ε times as probable as with another row, plus δ. "
        "Delta is not the probability that the bound fails.",
    ),
    (
        "coin-flip guess",
        "Somebody knows every other row and two candidates for one row, equally likely. (Under add-or-remove: the row "
        "takes part, or does not.) A coin names the right one 50% of the time. The number says how often "
        "the best guess by what was heard in this run is right at most. It follows from the noise itself, not from ε "
        "and δ alone.",
    ),
    (
        "basis",
        "What a guarantee rests on. Proven: a written proof covers what was done. Claimed: the paper says so. "
        "None: there is no guarantee.",
    ),
    (
        "replace-one, add-or-remove",
        "What one row means in a guarantee: a row replaced by any other, or a row that is there or not.",
    ),
)
"""The words of the report that a reader may not know."""

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_LEAST_PLAIN, _MOST_PLAIN = 1e-4, 1e6
_KILO = 1000.0
_LONGEST_ADDRESS = 32


def plain(value: object) -> str:
    """Text without characters that steer a terminal or a browser: controls, and marks that turn the reading order."""
    return harmless(str(value))


def labels_in_words(labels: Any) -> list[str]:
    """How labels counted in the selection; nothing where no labels were looked at."""
    weight, skill = (labels.get(name) if isinstance(labels, Mapping) else None for name in ("weight", "skill"))
    if not isinstance(weight, int | float) or not isinstance(skill, int | float) or skill <= 0.0:
        return []
    told = f"rows near the target explain {percent(skill)} of the variance of labels"
    if weight <= 0.0:
        return [f"not matched: {told}, too little to use"]
    return [f"matched together with rows: {told}; MMD² and shares are by rows alone"]


def number(value: object, digits: int = 2) -> str:
    """With so many digits that matter; powers of ten where decimals would only be zeros; a dash for none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
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


def trimmed_number(value: object) -> str:
    """A setting that somebody chose: three digits at most, and no zeros behind them."""
    shown = number(value, 3)
    return shown.rstrip("0").rstrip(".") if "." in shown and TIMES not in shown else shown


def quantity(value: object, noun: str, plural: str = "") -> str:
    """``1 row``, ``2 rows``."""
    return f"{number(value)} {noun if value == 1 else plural or noun + 's'}"


def percent(value: object) -> str:
    """Of a fraction."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return DASH
    of_hundred = 100 * value
    return f"{of_hundred:.1f}%" if abs(of_hundred) < 10 and of_hundred != round(of_hundred) else f"{of_hundred:.0f}%"


def amount(value: object) -> str:
    """Money, in whatever unit the price is in."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return DASH
    return "0" if value == 0 else f"{value:,.2f}"


def or_bound(known: object, most: object, form: Callable[[object], str]) -> str:
    """A number as text; where only an owner knows it, what it is at most."""
    return f"at most {form(most)}" if known is None and most is not None else form(known)


def short_address(address: object) -> str:
    """Where rows lie, as short as a reader needs it: a file's name, the beginning of a query."""
    text = plain(address)
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", text):
        return text if len(text) <= _LONGEST_ADDRESS else f"{text[:_LONGEST_ADDRESS].rstrip()}…"
    return re.split(r"[\\/]", text.rstrip("\\/"))[-1] or text


def bytes_in_words(value: object) -> str:
    """``1.2 kB``."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return DASH
    for unit in ("bytes", "kB", "MB"):
        if value < _KILO:
            return f"{value:.0f}{NO_BREAK}{unit}" if unit == "bytes" or value >= 100 else f"{value:.1f}{NO_BREAK}{unit}"
        value /= _KILO
    return f"{value:,.1f}{NO_BREAK}GB"


def enumeration(names: Sequence[str], most: int = 6) -> str:
    """``a, b and c``; beyond ``most`` names, how many more."""
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""


def title_of(key: str) -> str:
    """``offer_factor`` as a reader would write it."""
    return re.sub(r"[_\s]+", " ", plain(key)).strip()


def setting(value: object) -> str:
    """A term's value as text."""
    match value:
        case None | "":
            return DASH
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return trimmed_number(value)
        case Mapping():
            return ", ".join(f"{title_of(str(key))} {setting(inner)}" for key, inner in value.items()) or DASH
        case list() | tuple():
            return ", ".join(setting(inner) for inner in value) or "none"
        case _:
            return plain(value)


def cost(guarantee: Mapping[str, Any]) -> str:
    """The numbers of a guarantee."""
    epsilon, delta = guarantee.get("epsilon"), guarantee.get("delta")
    if guarantee.get("basis") in ("none", "simulated") or not isinstance(epsilon, int | float) or math.isinf(epsilon):
        return "no bound"
    if epsilon == 0:
        return "ε = 0"
    return f"ε = {trimmed_number(epsilon)}" + (f", δ = {number(delta)}" if delta else "")


def guess(guarantee: Mapping[str, Any], unit: str) -> str:
    """What a proven bound means for a guess about one row or person; empty where there is nothing to explain."""
    right = guarantee.get("guess")
    if guarantee.get("basis") != "proven" or not guarantee.get("epsilon") or not isinstance(right, int | float):
        return ""
    told = guess_in_words(right, relation=guarantee.get("relation", ""), unit=unit)
    return f"{told[0].upper()}{told[1:]}."
