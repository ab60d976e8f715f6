"""``owner.yaml``: what an owner lets others do, and the one function that decides about a run."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field

from likeset import documents
from likeset.documents import Document
from likeset.ledger.budget import Limit
from likeset.privacy.events import Relation, View
from likeset.protocol.terms import Terms, clock_words

_ROUNDING = 1e-9
_UNBOUNDED = "unbounded"  # how the ledger calls a part that has no price

Epsilon = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Delta = Annotated[float, Field(ge=0.0, lt=1.0)]
Count = Annotated[int, Field(ge=0)]


BUDGETS = {
    "epsilon": "epsilon toward other owners",
    "rows": "rows that leave",
    "readable": "rows that one party may read",
}
"""What is counted in each run and over all runs."""


class RunLimit(Document):
    epsilon: Epsilon = 0.0
    delta: Delta = 1e-5
    rows: Count = 0
    readable: Count | None = None


class TotalLimit(RunLimit):
    relation: Literal["replace-one", "add-or-remove"] = "replace-one"


class Policy(Document):
    likeset: Literal["owner"]
    version: Literal[1]
    consumers: tuple[str, ...] = ()  # who may ask, by the very name in the terms; ``*`` stands for any letters
    # who may curate, by the names of cards that are pinned as a curator's; ``*`` likewise
    curators: tuple[str, ...] = ("*",)
    witnesses: tuple[str, ...] = ("*",)  # who may witness, likewise
    purposes: tuple[str, ...] = ()  # what for; likewise, but capital or small letters
    columns: tuple[str, ...] = ()  # that may ever leave
    # rows with a category value that fewer rows have are not offered; 1 offers all
    smallest_group: Annotated[int, Field(ge=1)] = 10
    per_run: RunLimit = RunLimit()  # limits of a single run
    total: TotalLimit = TotalLimit()  # limits over all runs
    runs_per_month: Count = 4  # how many runs may begin in a calendar month (UTC)
    accept_unproven: tuple[str, ...] = ()  # parts without a proof that are accepted all the same, by name
    manual_approval: bool = True  # whether a person decides about each run
    price_at_least: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] = 0.0  # the least price for a row disclosed

    @classmethod
    def load(cls, path: Path) -> Self:
        return documents.read(path, cls)

    def limits(self, owner: str) -> dict[View, Limit]:
        """Of the accounts of an owner over all runs: toward other owners, and toward a curator that sees rows."""
        accepted = (*self.accept_unproven, _UNBOUNDED) if self.accept_unproven else ()
        total = self.total
        return {
            View.owners(owner): Limit(total.epsilon, total.delta, Relation(total.relation), accept_unproven=accepted),
            View.curator(owner): Limit.rows_only(total.rows, readable=total.readable),
        }


NO_RULES = Policy(likeset="owner", version=1)
"""Of a new home: nobody may do anything until somebody fills them in."""


class Spending(NamedTuple):
    spent: float  # so far
    run: float  # by this run alone, at most; infinite where there is no bound
    after: float  # the sum


@dataclass(frozen=True, slots=True)
class Accounts:
    epsilon: Spending  # toward the other owners, at the delta of its terms
    rows: Spending  # that leave
    readable: Spending  # rows that one party may read
    delta: float = 0.0  # at which what is spent toward the other owners holds over all runs
    charged: bool = False  # whether this run is among what is spent already
    other_unit: str | None = None  # the unit of privacy of earlier runs, where it is another one than that of this run


def runs_this_month(began: Mapping[str, datetime], now: datetime) -> int:
    month = f"{now.astimezone(UTC):%Y-%m}"
    return sum(f"{at.astimezone(UTC):%Y-%m}" == month for at in began.values())


@dataclass(frozen=True, slots=True)
class Verdict:
    reasons: tuple[str, ...]  # all that speak against it, in words

    @property
    def accepted(self) -> bool:
        return not self.reasons


def verdict(
    policy: Policy, terms: Terms, accounts: Accounts, *, began: Mapping[str, datetime], now: datetime
) -> Verdict:
    """Whether the policy allows a run under these terms, and if not, every reason."""
    reasons = [*_about_who(policy, terms), *_about_what(policy, terms), *_about_one_run(policy, terms, accounts)]
    if not accounts.charged:
        reasons += [*_about_totals(policy, accounts), *about_month(policy, began, now)]
    return Verdict((*reasons, *_about_end(terms, now)))


def about_month(policy: Policy, began: Mapping[str, datetime], now: datetime) -> list[str]:
    count = runs_this_month(began, now)
    if count + 1 <= policy.runs_per_month:
        return []
    return [f"runs_per_month: {count} began already, {policy.runs_per_month} are allowed"]


def _about_end(terms: Terms, now: datetime) -> list[str]:
    if terms.end is None or now < terms.end:
        return []
    return [f"the terms ended on {terms.expires}, and this machine's clock says {clock_words(now)}"]


def amount(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _is_over(value: float, limit: float | None) -> bool:
    return limit is not None and value > (limit if isinstance(value, int) else limit * (1 + _ROUNDING))


def _over_in_one_run(policy: Policy, **asked: float) -> list[str]:
    limits = {name: getattr(policy.per_run, name) for name in asked}
    return [
        f"per_run.{name}: {BUDGETS[name]}: {amount(value)} in this run, {amount(limits[name])} allowed in one"
        for name, value in asked.items()
        if _is_over(value, limits[name])
    ]


def _about_who(policy: Policy, terms: Terms) -> list[str]:
    reasons = []
    if not any(fnmatchcase(terms.consumer, pattern) for pattern in policy.consumers):
        reasons.append(f"consumers: {terms.consumer} is not among them")
    if not any(fnmatchcase(terms.purpose.casefold(), pattern.casefold()) for pattern in policy.purposes):
        reasons.append("purposes: that of the terms is not among them")
    if terms.price_per_row < policy.price_at_least:
        reasons.append(f"price_at_least: {terms.price_per_row:g} is offered, {policy.price_at_least:g} is asked")
    return reasons


def _about_what(policy: Policy, terms: Terms) -> list[str]:
    reasons = []
    if not terms.schema_digest or not terms.columns:
        reasons.append("columns: the terms do not say which leave")
    if terms.relation != policy.total.relation:
        reasons.append(
            f"total.relation: the terms count under {terms.relation}; ask for terms under {policy.total.relation}"
        )
    forbidden = [name for name in terms.columns if name not in policy.columns]
    if forbidden:
        reasons.append(f"columns: not among them are {', '.join(map(repr, forbidden))}")
    for name, why in terms.unproven_parts():
        if name not in policy.accept_unproven:
            reasons.append(f"accept_unproven: not among them is {name}, which is not proven private ({why})")
    if terms.summary_release != "none" and policy.smallest_group > 1:
        # One row more or less can let a whole group in or out, and the price is made for a single row.
        reasons.append(
            "smallest_group: releases about the summary are priced for one row, but above 1 one row can change several "
            "that are offered; set it to 1 for such runs, or decline them"
        )
    return reasons


def _about_one_run(policy: Policy, terms: Terms, accounts: Accounts) -> list[str]:
    is_bounded = accounts.epsilon.run < math.inf
    epsilon = {"epsilon": accounts.epsilon.run} if is_bounded else {}
    reasons = _over_in_one_run(policy, rows=accounts.rows.run, readable=accounts.readable.run, **epsilon)
    if accounts.other_unit is not None:
        reasons.append(
            f"unit of privacy: earlier runs protected one {accounts.other_unit}, and the terms protect one "
            f"{terms.unit}; ask for terms whose schema declares the same id"
        )
    if not is_bounded and not policy.accept_unproven:
        reasons.append("accept_unproven: is empty, and no bound is known on what other owners may learn")
    delta, most = terms.owner_budget.delta, policy.per_run.delta
    if accounts.epsilon.run > 0 and _is_over(delta, most):
        reasons.append(f"per_run.delta: toward other owners {delta:g} in this run, {most:g} allowed in one")
    return reasons


def _about_totals(policy: Policy, accounts: Accounts) -> list[str]:
    reasons = []
    for name, what in BUDGETS.items():
        budget, limit = getattr(accounts, name), getattr(policy.total, name)
        if _is_over(budget.after, limit):
            spent = f"{amount(budget.spent)} of {amount(limit)} are spent"
            after = f"and it would be {amount(budget.after)} with this run"
            reasons.append(f"total.{name}: {what}: {spent} over all runs, {after}")
    return reasons


def policy_changes(before: Policy, after: Policy) -> list[dict[str, str]]:
    """The rules that differ, with their values as JSON."""
    old, new = _flat(before), _flat(after)
    return [{"rule": name, "before": old[name], "after": new[name]} for name in new if old[name] != new[name]]


def _flat(policy: Policy) -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in policy.model_dump(mode="json").items():
        parts = {f"{name}.{part}": inner for part, inner in value.items()} if isinstance(value, dict) else {name: value}
        flat |= {part: json.dumps(inner, ensure_ascii=False) for part, inner in parts.items()}
    return flat


def policy_text(policy: Policy) -> str:
    run, total = policy.per_run, policy.total
    per_run = f"{{epsilon: {_number(run.epsilon)}, delta: {_number(run.delta)}, rows: {run.rows}{_readable(run)}}}"
    all_runs = f"epsilon: {_number(total.epsilon)}, delta: {_number(total.delta)}, rows: {total.rows}{_readable(total)}"
    return f"""\
# What this owner allows. Everything else is refused. Changes count for runs that have not begun.
likeset: owner
version: 1

# Who may ask (capital letters count: it is a name), and what for; * stands for any letters, such as "clinic-*".
consumers: {_words(policy.consumers)}
purposes: {_words(policy.purposes)}

# Who may curate and who may witness, by the names on their cards. Only cards pinned in that role are accepted
# (likeset card pin), so "*" means all of those.
curators: {_words(policy.curators)}
witnesses: {_words(policy.witnesses)}

# Columns that may leave this home.
columns: {_words(policy.columns)}

# Rows with a category value that occurs in fewer rows than this are never offered. A change counts for runs that have
# not begun; withdraw those that have if it must count at once.
smallest_group: {policy.smallest_group}

# Limits of one run, and of all runs together. Rows are counted when they are shown to a curator; epsilon and delta
# bound what other owners may learn about any one row of yours (0: nothing in a run).
per_run: {per_run}
total: {{{all_runs}, relation: {total.relation}}}
runs_per_month: {policy.runs_per_month}

# Parts of runs that have no privacy proof, by name, if you accept any.
accept_unproven: {_words(policy.accept_unproven)}

# Whether a person decides about each run.
manual_approval: {"true" if policy.manual_approval else "false"}

# The least price for a row.
price_at_least: {_number(policy.price_at_least)}
"""


def _words(words: Sequence[str]) -> str:
    return json.dumps(list(words), ensure_ascii=False)


def _number(value: float) -> str:
    plain = f"{value:.12f}".rstrip("0").rstrip(".")
    return plain if float(plain) == value else repr(value)


def _readable(limit: RunLimit | TotalLimit) -> str:
    return "" if limit.readable is None else f", readable: {limit.readable}"
