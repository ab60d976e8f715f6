"""What ``owner.yaml`` says about runs: read as it is now, and put in force where it must count.

Reading it changes nothing, so whoever only looks at a node leaves no trace there. A change is written into the audit
log, and its totals into the ledger, before anything is decided or answered by it.
"""

import hashlib
from collections.abc import Callable
from datetime import datetime

from likeset.errors import BadDocument, IllegalMessage, InvalidArgument, LikesetError
from likeset.homes.owner import budgets
from likeset.homes.owner.asking_cards import AskingCard, asking_cards, own_card_fault
from likeset.homes.owner.datasets import DataSet, Registry
from likeset.homes.owner.home import Home
from likeset.homes.owner.policy import History, Policy, Verdict, verdict
from likeset.homes.owner.run_records import Runs
from likeset.homes.signed_invitation import unpinned
from likeset.ledger import Head, Ledger
from likeset.protocol.terms import Terms

__all__ = ["Judge"]


class Judge:
    """The policy of a node, and its verdicts.

    Args:
        home: the node's directory.
        ledger: with what is spent, and the audit log in it.
        runs: what that says.
        clock: tells the time.
    """

    def __init__(self, home: Home, *, ledger: Ledger, runs: Runs, clock: Callable[[], datetime]) -> None:
        self.registry = Registry(home.data)
        self.pins = home.pins()
        self._home = home
        self._path = home.policy
        self._ledger = ledger
        self._runs = runs
        self._clock = clock
        self._read: tuple[bytes, Policy] | None = None
        self._counted: tuple[Policy, Head] | None = None
        self.name = runs.name or Policy.load(home.policy).name

    def policy(self) -> Policy:
        """The policy as it stands in its file; nothing is written.

        Raises:
            BadDocument: it cannot be read, or does not fit what this node was before.
        """
        return self.fitting(self._as_written())

    def fitting(self, policy: Policy) -> Policy:
        """A policy that this node may have; raises as ``policy`` if it does not fit what the node was before."""
        for name in (self.name, self._runs.name or self.name):  # another process may have been faster
            if policy.name != name:
                # Budgets are kept by name: under another one they would start anew.
                reason = f"was {name}, and a node keeps its name; put it back, or make another node"
                raise BadDocument(str(self._path), reason, field="name")
        counted = policy, self._ledger.head()
        if self._counted != counted:  # lists judge many runs
            budgets.accounts_under(self._ledger, policy, path=self._path)  # raises if they cannot be counted
            self._counted = counted
        return policy

    def _as_written(self) -> Policy:
        """What stands in the file; the same text is parsed once, for lists judge many runs."""
        try:
            text = self._path.read_bytes()
        except OSError:
            return Policy.load(self._path)  # says why it cannot be read
        if self._read is None or self._read[0] != text:
            self._read = text, Policy.load(self._path)
        return self._read[1]

    def policy_in_force(self, *, by: str = "") -> Policy:
        """The same; a change, and who made it, is in the audit log, its totals in the ledger, before this returns."""
        policy = self.policy()
        digest = hashlib.sha256(policy.model_dump_json().encode()).hexdigest()
        if digest != self._runs.policy:
            words = {"digest": digest, "name": policy.name, "policy": policy.model_dump(mode="json")}
            self._ledger.log.append("policy", "", words | ({"by": by} if by else {}))
        budgets.set_limits(self._ledger, policy)
        return policy

    def judge(self, policy: Policy, terms: Terms, *, data: str = "") -> Verdict:
        """Whether a policy allows a run, with every reason against it; nothing is written.

        Args:
            policy: as it is, or as it is in force.
            terms: of the run.
            data: the data set to use; the one that fits if empty.
        """
        if policy.name not in terms.owners:
            return Verdict.of([f"{policy.name} is not among the owners that the terms invite"])
        try:
            accounts = budgets.accounts_for(self._ledger, terms, policy)
        except (LikesetError, ArithmeticError, ValueError) as error:  # a stranger's numbers, which may be odd together
            return Verdict.of([f"what it costs cannot be computed ({type(error).__name__})"])
        history = History(budgets.began(self._ledger), self._clock())
        reasons = [*self._about_cards(policy, terms), *self._about_data(terms, data)]
        return Verdict.of([*reasons, *verdict(policy, terms, accounts, history).reasons])

    def asking(self, policy: Policy, terms: Terms) -> tuple[AskingCard, ...]:
        """Those of the parties whom this owner must know, and whether it does."""
        return asking_cards(policy, terms, self.pins)

    def check_cards(self, terms: Terms) -> None:
        """Raise unless all cards that a run is under count here, whatever owner.yaml says: also if it has begun.

        Raises:
            IllegalMessage: one of them is not pinned (any more), or the terms name another card than this node's.
        """
        own = own_card_fault(self._home, self.name, terms)
        faults = [*([own] if own else []), *unpinned(terms, self.name, self.pins)]
        if faults:
            raise IllegalMessage(f"run {terms.run}: {'; '.join(faults)}")

    def _about_cards(self, policy: Policy, terms: Terms) -> list[str]:
        faults = (own_card_fault(self._home, self.name, terms), *(card.fault for card in self.asking(policy, terms)))
        return [fault for fault in faults if fault]

    def data_for(self, terms: Terms, *, data: str = "") -> DataSet:
        """The data set that a run uses.

        Raises:
            InvalidArgument: none fits, or the choice is not clear.
        """
        problems = self._about_data(terms, data)
        if problems:
            raise InvalidArgument("data set", data or "none", problems[0])
        return self.registry.get(data) if data else self.registry.for_terms(terms)[0]

    def _about_data(self, terms: Terms, name: str) -> list[str]:
        fitting = [data for data in self.registry.for_terms(terms) if name in ("", data.name)]
        if not fitting:
            which = f"data set {name} does not have" if name else "no registered data set has"
            return [f"{which} the schema of the terms"]
        if len(fitting) > 1:
            names = ", ".join(data.name for data in fitting)
            return [f"several data sets have the schema of the terms ({names}): say which, with --data"]
        return fitting[0].misfits(terms)
