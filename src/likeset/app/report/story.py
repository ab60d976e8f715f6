"""What a run comes to, in sentences: the answer, and who could learn what about whose rows."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from likeset.app.report.plain_words import cost, enumeration, guess, number, plain, quantity
from likeset.errors import InvalidArgument
from likeset.run.result_words import is_far

__all__ = [
    "Promise",
    "check_format",
    "closeness",
    "is_simulated",
    "likeness_in_words",
    "own_squared_mmd",
    "owner_names",
    "owners_learn_nothing",
    "promises",
    "protection",
    "rows_per_person",
]

_FORMAT = 3
_OBSERVERS = {"owners": "Owners, even all together", "curator": "The curator", "consumer": "You, the consumer"}
_ORDER = list(_OBSERVERS)


@dataclass(frozen=True, slots=True)
class Promise:
    """One line of the table of guarantees.

    Attributes:
        observer: who looks.
        protected: at whose rows.
        words: what can be learned.
        cost: the numbers.
        relation: what neighbouring data are.
        basis: on whose word.
    """

    observer: str
    protected: str
    words: str
    cost: str
    relation: str
    basis: str


def check_format(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """The result of a run, if it has the form that this report knows."""
    if not isinstance(result, Mapping) or result.get("format") != _FORMAT:
        shown = result.get("format") if isinstance(result, Mapping) else type(result).__name__
        raise InvalidArgument(
            "result.format", plain(shown)[:40], f"this version reads format {_FORMAT}; use the version that wrote it"
        )
    return result


def owner_names(result: Mapping[str, Any]) -> list[str]:
    """Everybody who was invited."""
    return [str(owner.get("name", "")) for owner in result.get("owners") or ()]


def is_simulated(result: Mapping[str, Any]) -> bool:
    """Whether the noise could be computed again by anybody who knows the seed."""
    return result.get("noise") == "simulated"


def closeness(result: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """The answer: rows and owners, the target, the number, and how that compares."""
    selected, size = result.get("rows_selected"), result.get("size")
    givers = sum(1 for owner in result.get("owners") or () if owner.get("selected"))
    rows = quantity(selected, "row")
    if isinstance(selected, int) and isinstance(size, int) and selected < size:
        rows = f"{number(selected)} of the {quantity(size, 'row')} asked for,"
    who = f"{rows} from {quantity(givers, 'owner')}"
    target = quantity((result.get("target") or {}).get("rows"), "row")
    match = "matches" if selected == 1 else "match"
    likeness = result.get("likeness")
    if not likeness:
        return who, f"{match} your {target} with in-sample", number(own_squared_mmd(result)), _comparison(result)
    interval = f" ({number(likeness['low'])} to {number(likeness['high'])})"
    return who, f"{match} rows like your {target} with", number(own_squared_mmd(result)), interval + _comparison(result)


def own_squared_mmd(result: Mapping[str, Any]) -> Any:
    """MMD² to the target's population; in-sample where nobody estimated it. An estimate below zero is no distance."""
    likeness = result.get("likeness")
    return max(0.0, likeness["squared_mmd"]) if likeness else result.get("in_sample_squared_mmd")


def likeness_in_words(result: Mapping[str, Any]) -> str:
    """What the number says, and what it does not."""
    likeness = result.get("likeness")
    if not likeness:
        return (
            "In-sample: measured on the very rows that the summary was fitted to. How alike it is to new rows of that "
            "kind is not known: the selection was not repeated without parts of the target."
        )
    is_away = is_far(likeness["low"], rows=result["rows_selected"])
    far = " That is far: few rows like yours were offered. The columns below show where they differ." if is_away else ""
    return (
        f"Your summary has MMD² {number(own_squared_mmd(result))} ({number(likeness['low'])} to "
        f"{number(likeness['high'])}), estimated for new rows like your target's: selections without a fold of it, "
        f"measured on that fold; in brackets a 95% interval.{far}"
    )


def _comparison(result: Mapping[str, Any]) -> str:
    """Against rows of the target's own kind, then against chance; nothing where neither is known."""
    likeness, words = result.get("likeness"), ""
    fresh, chance = _alternative(result, "fresh"), _alternative(result, "random")
    if likeness and fresh is not None:
        kind = f"{number(result.get('rows_selected'))} fresh rows of your own kind"
        if likeness["low"] <= fresh <= likeness["high"]:
            words = f"; the interval includes what {kind} would give ({number(fresh)})"
        else:
            how = "closer than" if likeness["high"] < fresh else "not as close as"
            words = f": {how} {kind} would be ({number(fresh)})"
    if chance is not None:
        words += f"; random rows among those offered would give {number(chance)}"
    return f"{words}."


def _alternative(result: Mapping[str, Any], kind: str) -> float | None:
    """An alternative by the measure of the headline; None where the lines have another one."""
    comparison = result.get("comparison") or {}
    if comparison.get("measure") != ("estimate" if result.get("likeness") else "in-sample"):
        return None
    for line in comparison.get("lines") or ():
        if line.get("kind") == kind and _is_number(line.get("squared_mmd")):
            return float(line["squared_mmd"])
    return None


def rows_per_person(result: Mapping[str, Any]) -> int | None:
    """How many rows of one person take part at most; None where the schema does not declare whose rows they are."""
    if not (result.get("schema") or {}).get("id"):
        return None
    most = ((result.get("terms") or {}).get("summary") or {}).get("rows_per_unit")
    return most if isinstance(most, int) else None


def protection(result: Mapping[str, Any]) -> str:
    """What owners learned, in one sentence."""
    if is_simulated(result):
        return "The noise was simulated: this run was not private."
    names = set(owner_names(result))
    heard = [guarantee for guarantee in result.get("guarantees") or () if _observer(guarantee) == "owners"]
    about_target = [guarantee for guarantee in heard if guarantee.get("protects") not in names]
    about_owners = [guarantee for guarantee in heard if guarantee.get("protects") in names]
    parts, most, told = [], rows_per_person(result), ""
    who = "any row of" if most is None else "any person in"
    if about_target:
        each = "" if most is None else f", of whose rows at most {most:,} take{'s' if most == 1 else ''} part,"
        parts.append(f"{_most_learned(about_target)} about {who} your target{each}")
        told = guess(max(about_target, key=_epsilon), "one row of your target" if most is None else "one person in it")
    if about_owners:
        others = "one another" if most is None else "one another's rows"
        parts.append(f"{_most_learned(about_owners)} about {who} {others}")
    sentence = f"Owners learned {' and '.join(parts)}." if parts else ""
    return f"{sentence} {told}".strip()


def owners_learn_nothing(result: Mapping[str, Any]) -> bool:
    """Whether nothing that an owner heard depends on another's rows."""
    names = set(owner_names(result))
    told = [
        guarantee
        for guarantee in result.get("guarantees") or ()
        if _observer(guarantee) == "owners" and guarantee.get("protects") in names
    ]
    return bool(told) and all(_epsilon(guarantee) == 0 for guarantee in told)


def _most_learned(guarantees: Sequence[Mapping[str, Any]]) -> str:
    """The worst of them."""
    worst = max(guarantees, key=_epsilon)
    if math.isinf(_epsilon(worst)):
        return "we cannot say how much"
    if _epsilon(worst) == 0:
        return "nothing in this run"
    claimed = ", by the paper's word," if any(guarantee.get("basis") == "claimed" for guarantee in guarantees) else ""
    return f"at most {cost(worst)}{claimed}"


def promises(result: Mapping[str, Any], guarantees: Iterable[Mapping[str, Any]], *, own: str = "") -> list[Promise]:
    """Guarantees in words, one line for all owners of whom the same is true.

    Args:
        result: of the run.
        guarantees: those to be told.
        own: set in an owner's report: its name, to be addressed as "you"; the texts then are ours alone.
    """
    names = owner_names(result)
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for guarantee in guarantees:
        of_owner = guarantee.get("protects") in names
        numbers = (
            str(guarantee.get("epsilon")),
            str(guarantee.get("delta")),
            str(guarantee.get("relation")),
            str(guarantee.get("basis")),
        )
        groups.setdefault((_observer(guarantee), _coalition(guarantee), of_owner, *numbers), []).append(guarantee)
    lines, unit = [], "row" if rows_per_person(result) is None else "person"
    for key in sorted(groups, key=lambda group: (_ORDER.index(group[0]), group[2])):
        members, (observer, coalition, of_owner, *_) = groups[key], key
        words = {plain(member.get("in_words") or "") for member in members}
        told = words.pop() if len(words) == 1 and not own else ""
        lines.append(
            Promise(
                observer=_observer_words(observer, coalition, own=own, of_owner=of_owner),
                protected=_protected_words([str(member.get("protects")) for member in members], names, own=own),
                words=told or _words(observer, of_owner=of_owner, guarantee=members[0], unit=unit),
                cost=cost(members[0]),
                relation=str(members[0].get("relation", "")) if cost(members[0]) != "no bound" else "",
                basis=str(members[0].get("basis", "none")),
            )
        )
    return lines


def _observer(guarantee: Mapping[str, Any]) -> str:
    """The role that observes; what is none of ours counts as owners, about whom most is promised."""
    role = guarantee.get("observer")
    return role if isinstance(role, str) and role in _OBSERVERS else "owners"


def _coalition(guarantee: Mapping[str, Any]) -> tuple[str, ...]:
    """The owners who pool what they hear; none where it is any owners."""
    return tuple(str(name) for name in guarantee.get("coalition") or ())


def _observer_words(observer: str, coalition: Sequence[str], *, own: str, of_owner: bool) -> str:
    if coalition:
        return plain(" + ".join(coalition))
    if own and observer == "consumer":
        return "The consumer"
    if own and observer == "owners":
        return "The other owners, even all together" if of_owner else "You, and all owners together"
    return _OBSERVERS[observer]


def _protected_words(protects: Sequence[str], names: Sequence[str], *, own: str) -> str:
    if own:
        return "your rows" if own in protects else "the target"
    owners = [name for name in protects if name in names]
    if not owners:
        return "your target"
    return (
        "every owner's rows"
        if len(owners) == len(names) > 1
        else f"rows of {enumeration([plain(name) for name in owners])}"
    )


def _words(observer: str, *, of_owner: bool, guarantee: Mapping[str, Any], unit: str) -> str:
    """Where the run says nothing that fits."""
    if observer == "curator":
        return "Sees the rows that were offered; is trusted." if of_owner else "Sees the target; is trusted."
    if observer == "consumer":
        return "Gets the rows that were selected."
    bound = _epsilon(guarantee)
    if bound == 0:
        return "Nothing in this run: no message to an owner depends on these rows."
    if math.isinf(bound):
        return "We cannot say how much."
    told = guess(guarantee, f"one {unit}")
    return told or "A bounded amount about any single row."


def _epsilon(guarantee: Mapping[str, Any]) -> float:
    """With infinity where there is no bound, so that the worst is the largest."""
    value = guarantee.get("epsilon")
    if guarantee.get("basis") in ("none", "simulated") or not isinstance(value, int | float):
        return math.inf
    return float(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
