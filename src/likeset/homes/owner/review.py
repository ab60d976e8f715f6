"""Everything about a run in plain words, for the person who decides."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from likeset.homes.network_trust import LEFT_TO_TRUST
from likeset.homes.owner import budgets, kept_receipts, outbox
from likeset.homes.owner.asking_cards import AskingCard
from likeset.homes.owner.datasets import DataSet
from likeset.homes.owner.node import OwnerNode
from likeset.homes.owner.past_runs import PastRun, past_runs
from likeset.homes.owner.policy import Accounts, Policy, Verdict
from likeset.homes.owner.readers import Reader, other_trust, readers_of
from likeset.homes.owner.run_records import UNREADABLE
from likeset.privacy.events import ROW, NoRelease
from likeset.privacy.guarantee import bound_in_words
from likeset.protocol.plans import PlannedView
from likeset.protocol.term_parts import MOST_SHOWN
from likeset.protocol.terms import Terms
from likeset.tables.identifiers import Suspicion, suspicion_documents, suspicion_of
from likeset.text import harmless
from likeset.trust.pins import Role

__all__ = ["Review", "budget_document", "budget_lines", "review", "status_of", "unit_of", "who_lines"]

_WHO: dict[Role, str] = {"consumer": "Who asks?", "curator": "Who curates?", "witness": "Who witnesses?"}


@dataclass(frozen=True, eq=False)
class Review:
    """A run as the steward should see it.

    Attributes:
        terms: of the run.
        asking: whom it would be with, by their cards.
        status: where it stands.
        lines: (question, answer) in the order in which one would ask.
        accounts: both budgets before and after.
        verdict: of the policy.
        suspicions: columns that would leave and may identify people.
        columns: that would leave: name, declared kind (empty where no data set fits), and why it may identify people.
        past: what happened with this consumer before, newest first.
        others: what other owners may learn.
        rows_to_consumer: that the consumer gets in all, from all owners.
        readers: who may read how many of this owner's rows.
    """

    terms: Terms
    asking: tuple[AskingCard, ...]
    status: str
    lines: tuple[tuple[str, str], ...]
    accounts: Accounts
    verdict: Verdict
    suspicions: tuple[Suspicion, ...]
    columns: tuple[tuple[str, str, str], ...]
    past: tuple[PastRun, ...]
    others: PlannedView
    rows_to_consumer: int
    readers: tuple[Reader, ...]

    def document(self) -> dict[str, Any]:
        """For machines."""
        return {
            "run": self.terms.run,
            "digest": self.terms.digest,
            "status": self.status,
            "parties": [card.document() for card in self.asking],
            "answers": dict(self.lines),
            "budgets": budget_document(self.accounts),
            "accepted": self.verdict.accepted,
            "reasons": list(self.verdict.reasons),
            "suspected_identifiers": suspicion_documents(self.suspicions),
            "readers": [reader.document() for reader in self.readers],
            "history": [asdict(run) for run in self.past],
        }


def review(node: OwnerNode, run: str) -> Review:
    """The terms of a run that came last, in words."""
    record = node.record_of(run)
    terms, policy = record.latest, node.policy
    decision = record.decided(terms.digest)
    judged = node.judge(terms, data=decision.data if decision is not None else "")
    accounts = budgets.accounts_for(node.ledger, terms, policy)
    others, curator, consumer = budgets.costs_of(terms, node.name)
    fitting, asking = node.registry.for_terms(terms), node.asking(terms)
    lines = [
        *who_lines(asking),
        ("Who else is asked?", f"{_others(terms, node.name)}."),
        ("What for?", _short(terms.purpose) or "It does not say."),
        ("Until when?", _short(terms.expires) or "The terms have no end."),
        (
            "From which data?",
            ", ".join(data.name for data in fitting) or "No data set of yours is declared as the terms say.",
        ),
        ("Which columns?", ", ".join(_short(name) for name in terms.columns) or "The terms do not say."),
        ("How many rows at most?", _rows(terms, curator)),
        ("Who reads your rows?", _readers(terms)),
        other_trust(terms),
        ("What does the curator see?", _seen_by_curator(terms)),
        ("What does the consumer get?", _seen_by_consumer(terms, consumer)),
        ("What may other owners learn about your rows?", _learned(terms, others)),
        ("What must you still believe of the network?", f"This: {LEFT_TO_TRUST}."),
        ("What is paid?", _payment(terms)),
        *budget_lines(policy, accounts),
    ]
    past = past_runs(node, terms)
    lines.append(("What happened with this consumer before?", _history(past)))
    if len(record.versions) > 1:
        lines.insert(
            0, ("Careful:", f"these are version {len(record.versions)} of the terms; earlier ones were different.")
        )
    if said := kept_receipts.in_words(node, run):
        lines.append((f"Did the {'curator' if terms.split is None else 'consumer'} acknowledge what left?", said))
    if held_back := sum(message.rows for message in outbox.messages_that_left(node, run) if not message.sent):
        words = f"{held_back:,} rows, which are charged: a withdrawal, the end of the terms or a crash came first."
        lines.append(("What was held back?", words))
    suspicions = _suspicions(terms, fitting)
    return Review(
        terms,
        asking,
        status_of(node, run, asking=asking, verdict=judged),
        tuple(lines),
        accounts,
        judged,
        suspicions,
        columns=_columns(terms, fitting, suspicions),
        past=past,
        others=others,
        rows_to_consumer=terms.size if terms.split is not None else consumer.rows,
        readers=readers_of(terms),
    )


def _columns(
    terms: Terms, fitting: Sequence[DataSet], suspicions: Sequence[Suspicion]
) -> tuple[tuple[str, str, str], ...]:
    why = {suspicion.column: suspicion.why for suspicion in suspicions}
    kinds: dict[str, str] = {}
    for data in fitting:
        kinds = {name: str(column.kind) for name, column in data.schema.declaration.columns.items()} | kinds
        kinds |= {data.schema.label_column: "label"} if data.schema.label_column else {}
    return tuple((name, kinds.get(name, ""), why.get(name, "")) for name in terms.columns)


def _history(past: Sequence[PastRun]) -> str:
    if not past:
        return "Nothing: it never asked here."
    rows, last = sum(run.rows for run in past), past[0]
    refused = sum(run.what == "denied" for run in past)
    words = f"{len(past):,} other run{'' if len(past) == 1 else 's'}, {refused:,} of them denied; {rows:,} rows left."
    return f"{words} The last one was {_short(last.run)}, {last.what}, {last.at[:10]}."


def who_lines(asking: Sequence[AskingCard]) -> list[tuple[str, str]]:
    """Who asks, who curates and who witnesses, in words, with their cards: what a steward reads first."""
    return [(_WHO[card.role], f"{_short(card.name) or 'Somebody'}, {card.in_words()}.") for card in asking]


def _suspicions(terms: Terms, fitting: Sequence[DataSet]) -> tuple[Suspicion, ...]:
    """Columns that would leave and may identify people: by names alone where no data set is declared so."""
    if not fitting:
        named = (suspicion_of(name) for name in terms.columns)
        return tuple(suspicion for suspicion in named if suspicion is not None)
    suspected = dict.fromkeys(suspicion for data in fitting for suspicion in data.suspicions)
    return tuple(suspicion for suspicion in suspected if suspicion.column in terms.columns)


_BECAME = {
    "not pinned": "not pinned",
    "pinned": "not allowed by owner.yaml, or pinned for another role",
    "replaced": "replaced: the run has ended",
    "revoked": "revoked: the run has ended",
}


def status_of(
    node: OwnerNode, run: str, *, asking: Sequence[AskingCard] | None = None, verdict: Verdict | None = None
) -> str:
    """Where a run stands, in a word or two.

    Args:
        node: of the steward.
        run: its name.
        asking: whom it would be with, where that is known already.
        verdict: of the policy, likewise.
    """
    record = node.record_of(run)
    if record.withdrawn is not None:
        return "withdrawn"
    decision = record.decided(record.latest_digest)
    if record.readable(record.latest_digest) is None and (decision is None or decision.what == "approved"):
        return UNREADABLE
    if decision is None or decision.what == "approved":
        faulty = [card for card in (node.asking(record.latest) if asking is None else asking) if card.fault]
        if faulty and not (record.began and faulty[0].state == "pinned"):  # owner.yaml counts for what is to begin
            return f"the {faulty[0].role}'s card is {_BECAME[faulty[0].state]}"
    if decision is None:
        if not (verdict or node.judge(record.latest)).accepted:
            return "owner.yaml refuses it"
        return "changed after a decision, waiting" if record.decision is not None else "waiting"
    if decision.what == "denied":
        return "denied"
    if not record.began:
        return "approved"
    return "rows left" if any(replies.rows for replies in record.sent.values()) else "began"


def budget_lines(policy: Policy, accounts: Accounts) -> list[tuple[str, str]]:
    """Both budgets in words."""
    rows, total = policy.total.rows, policy.total
    most = rows if total.readable is None else total.readable
    verb = "cost" if accounts.charged else "costs"
    epsilon_cost = accounts.epsilon_of_run
    cost = "without a bound" if math.isinf(epsilon_cost) else f"epsilon {epsilon_cost:.4g}"
    return [
        (
            "Budget of rows:",
            f"this run {verb} up to {accounts.rows_of_run:,}; {accounts.rows_spent:,} of {rows:,} are spent, "
            f"{max(0, rows - accounts.rows_after):,} remain after it.",
        ),
        (
            "Rows that one party may read:",
            f"in this run up to {accounts.read_of_run:,}; {accounts.read_spent:,} of {most:,} so far, "
            f"{max(0, most - accounts.read_after):,} remain after it.",
        ),
        (
            "Budget toward other owners:",
            f"this run {verb} {cost}; {accounts.epsilon_spent:.4g} of {total.epsilon:.4g} is spent "
            f"(at delta {accounts.delta:g}), {max(0.0, total.epsilon - accounts.epsilon_after):.4g} remains after it.",
        ),
    ]


def budget_document(accounts: Accounts) -> dict[str, Any]:
    """Both budgets for machines; null where there is no bound."""
    bounded = not math.isinf(accounts.epsilon_of_run)
    return {
        "rows": {"spent": accounts.rows_spent, "run": accounts.rows_of_run, "after": accounts.rows_after},
        "readable": {"spent": accounts.read_spent, "run": accounts.read_of_run, "after": accounts.read_after},
        "epsilon": {
            "spent": accounts.epsilon_spent,
            "run": accounts.epsilon_of_run if bounded else None,
            "after": accounts.epsilon_after,
        },
        "charged": accounts.charged,
    }


def _short(text: str) -> str:
    """A stranger's words, short and without characters that could do something to a screen."""
    return harmless(text, most=MOST_SHOWN)


def _others(terms: Terms, name: str) -> str:
    others = [owner for owner in terms.owners if owner != name]
    if not others:
        return "no other owner"
    shown = ", ".join(map(_short, others[:5])) + (f" and {len(others) - 5} more" if len(others) > 5 else "")
    return f"{len(others)} other owner{'s' if len(others) > 1 else ''} ({shown})"


def _rows(terms: Terms, curator: PlannedView) -> str:
    if terms.split is not None:
        return (
            f"{curator.rows:,} of your rows are offered, as shares: each is cut into 3 parts, one for each "
            "party that computes. How many of them you have is hidden: empty ones fill the rest."
        )
    when = "in one message" if terms.protocol == "sealed" else f"one by one, in up to {terms.size} rounds"
    unless = "" if terms.auction == "everyone" else "; perhaps none, for not everyone is asked"
    return f"{curator.rows:,} of your rows leave, {when}{unless}."


def _readers(terms: Terms) -> str:
    """Who could read what, by the trust that the run asks for."""
    if terms.split is None:
        return f"The curator reads every row that you offer, and {_short(terms.consumer)} those that it buys."
    return (
        f"Nobody but {_short(terms.consumer)}, which buys them, and at most {terms.rows_readable:,} of yours, if all "
        "parties follow the protocol. Curator, consumer and witness compute on parts that tell nothing alone, as long "
        "as no two of them work together: two of them together could read all that you offer. One of them that "
        "deviates from the protocol can steer which rows are bought, and nobody notices. Nobody can see whether one "
        "organisation stands behind two cards: ask who they are."
    )


def _seen_by_curator(terms: Terms) -> str:
    if terms.split is not None:
        return "Random numbers, and sealed envelopes that it cannot open; how large everything is, and when it came."
    return "Those rows, in the clear, with all columns above. Nothing is hidden from the curator about them."


def _seen_by_consumer(terms: Terms, consumer: PlannedView) -> str:
    count = terms.size if terms.split is not None else consumer.rows
    return f"{count:,} rows in the clear in all, chosen from those of all owners; some, all or none of them yours."


def _learned(terms: Terms, others: PlannedView) -> str:
    if others.event == NoRelease():
        return "Nothing in this run, by the protocol: whatever another owner hears in it does not depend on your rows."
    guarantee = others.guarantee
    if others.guess is None:
        return f"Nobody can say: there is no proof ({guarantee.note})."
    guess = bound_in_words(
        others.guess,
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        relation=guarantee.relation,
        unit=unit_of(terms),
    )
    return f"Little: by what they hear in this run, {guess}.{_by_the_clock(terms)}"


def unit_of(terms: Terms) -> str:
    """What a guarantee protects, in words for its owner."""
    most = terms.rows_per_unit
    return "one of your rows" if terms.unit == ROW else f"one id of yours (up to {most} row{'s'[: most - 1]})"


def _by_the_clock(terms: Terms) -> str:
    if terms.auction == "everyone":
        return ""
    return " This counts what they hear, not when: by the clock an owner may see whether others were asked for rows."


def _payment(terms: Terms) -> str:
    if not terms.price_per_row:
        return "Nothing."
    return (
        f"{terms.price_per_row:g} for each row that leaves, so at most {terms.price_per_row * terms.rows_per_owner:g}."
    )
