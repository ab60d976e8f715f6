"""Whether messages of a run may be answered now, and whether somebody may still decide about it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from likeset.errors import DecidedMeanwhile, IllegalMessage, InvalidArgument
from likeset.homes.expiry import check_not_expired
from likeset.homes.owner import budgets
from likeset.homes.owner.judging import Judge
from likeset.homes.owner.policy import Policy
from likeset.homes.owner.run_records import RunRecord
from likeset.ledger import Ledger
from likeset.protocol.terms import Terms

__all__ = ["Permits"]


@dataclass(frozen=True, eq=False)
class Permits:
    """What a node asks before it answers.

    Args:
        judge: knows the policy and the pinned cards.
        ledger: knows which runs have begun.
        check_running: raises if the node was put back from an old copy.
        clock: tells the time.
    """

    judge: Judge
    ledger: Ledger
    check_running: Callable[[], None]
    clock: Callable[[], datetime]

    def check_not_ended(self, record: RunRecord, terms: Terms) -> None:
        """Raise if nothing may be said under these terms (any more), whatever was decided.

        Raises:
            LikesetError: the run was withdrawn, its terms or its cards count no longer, or the node is an old copy.
        """
        self.check_running()
        if record.withdrawn is not None:
            raise IllegalMessage(f"run {record.run} was withdrawn")
        check_not_expired(terms, self.clock())
        self.judge.check_cards(terms)

    def check_open(self, record: RunRecord, terms: Terms) -> None:
        """Raise unless messages under these terms may be answered."""
        self.check_not_ended(record, terms)
        decision = record.decided(terms.digest)
        if decision is None and record.decision is not None:
            raise IllegalMessage(f"run {record.run}: other terms than these were decided about")
        if decision is None:
            raise IllegalMessage(f"run {record.run}: nobody has approved these terms")
        if decision.what == "denied":
            raise IllegalMessage(f"run {record.run} was denied")

    def check_undecidable(self, record: RunRecord, digest: str, *, seen: str | None = None) -> None:
        """Raise if nobody can decide about these terms any more, or somebody did since they were ``seen``."""
        self.check_seen(record, seen)
        if record.withdrawn is not None:
            raise InvalidArgument("RUN", record.run, "was withdrawn; that stays so")
        if record.decided(digest) is None and self.has_begun(record):
            raise InvalidArgument("RUN", record.run, "has begun under other terms")

    def check_seen(self, record: RunRecord, seen: str | None) -> None:
        """Raise if a run is not as somebody saw it who decides now.

        Raises:
            DecidedMeanwhile: somebody else decided since, or other terms came.
        """
        if seen is not None and seen != record.decision_mark:
            raise DecidedMeanwhile(record.run, record.last_word)

    def has_begun(self, record: RunRecord) -> bool:
        """Whether a run was charged; where a crash came between the charge and the log, the ledger knows."""
        return record.began or record.run in budgets.began(self.ledger)

    def permit(self, record: RunRecord, terms: Terms) -> Policy:
        """The policy that a run is under; raises if it may not begin, and did not."""
        policy, decision = self.judge.policy_in_force(), record.decided(terms.digest)
        if terms.run not in budgets.began(self.ledger):
            self.check_allowed(policy, terms, data=decision.data if decision else "")
        return policy

    def check_allowed(self, policy: Policy, terms: Terms, *, data: str) -> None:
        """Raise unless a policy allows a run, with every reason against it."""
        verdict = self.judge.judge(policy, terms, data=data)
        if not verdict.accepted:
            raise IllegalMessage("; ".join(verdict.reasons))
