"""What the audit log says about runs: invited, approved, denied, withdrawn; a fold, nothing is stored here."""

import base64
import hashlib
import json
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal

from likeset.errors import IllegalMessage, LikesetError
from likeset.homes.owner.refusals import RefusalCounts
from likeset.homes.signed_invitation import Invitation
from likeset.ledger.chain import Entry
from likeset.protocol.terms import Terms

__all__ = ["HEARD", "UNREADABLE", "Decision", "RunRecord", "Runs", "SentReplies", "ended_split_runs"]

UNREADABLE = "cannot be read here"
HEARD = "node/heard-"
"""How the kind of a request begins under which a message is kept with its answer; what follows is the message's."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What somebody decided about terms.

    Attributes:
        what: approved or denied.
        digest: of the terms that it is about.
        by: who.
        at: when (UTC).
        reason: for a denial.
        data: for an approval, the data set that may be used.
    """

    what: Literal["approved", "denied"]
    digest: str
    by: str
    at: str
    reason: str = ""
    data: str = ""


@dataclass(frozen=True, slots=True)
class SentReplies:
    """What the audit log says of replies that left.

    Attributes:
        at: when (UTC).
        round: of the run.
        heard: kind of the message that they answer.
        replies: their kinds.
        rows: in all of them.
    """

    at: str
    round: int
    heard: str
    replies: tuple[str, ...]
    rows: int


@dataclass(slots=True)
class RunRecord:
    """One run, by its name.

    Attributes:
        run: its name.
        versions: every version of the terms that came, as it was signed (in base 64), oldest first, by digest; empty
            for one that came before terms were signed.
        invited_at: when each came.
        consumers: who asks by each.
        ends: when each ends, if the log says so; not in logs of before.
        by_steward: digests of those that somebody in this house put here.
        decision: the last one; it is about one version of the terms only.
        withdrawn: by whom and when, if at all.
        reviewed: digest of the terms that somebody looked at last.
        began: whether it was recorded that the run began here.
        smallest_group: of the policy under which it began; None if it did not.
        heard: round and kind of every message that was answered, also with nothing.
        purges: how often messages were removed that may be of this run.
        sent: what was recorded as sent, by the entry of the ledger.
        receipts: digests of the curator's receipts that were kept, oldest first.
    """

    run: str
    versions: dict[str, str] = field(default_factory=dict)
    invited_at: dict[str, str] = field(default_factory=dict)
    consumers: dict[str, str] = field(default_factory=dict)
    ends: dict[str, str] = field(default_factory=dict)
    by_steward: set[str] = field(default_factory=set)
    decision: Decision | None = None
    withdrawn: tuple[str, str] | None = None
    reviewed: str = ""
    began: bool = False
    smallest_group: int | None = None
    heard: set[tuple[int, str]] = field(default_factory=set)
    purges: int = 0
    sent: dict[int, SentReplies] = field(default_factory=dict)
    receipts: list[str] = field(default_factory=list)

    @property
    def latest_digest(self) -> str:
        """Of the terms that came last."""
        return next(reversed(self.versions))

    @property
    def latest(self) -> Terms:
        """The terms that came last."""
        return self.version(self.latest_digest)

    def version(self, digest: str) -> Terms:
        """The terms of this digest; raises as ``invitation``."""
        return self.invitation(digest).terms

    def invitation(self, digest: str) -> Invitation:
        """The terms of this digest, as the consumer signed them.

        Raises:
            IllegalMessage: they never came, or this likeset refuses to read them.
        """
        if digest not in self.versions:
            raise IllegalMessage(f"run {self.run}: these terms never came here")
        try:
            return _invitation_in(self.versions[digest])
        except LikesetError as error:
            raise IllegalMessage(f"run {self.run}: its terms cannot be read here; deny it, or withdraw") from error

    def readable(self, digest: str) -> Terms | None:
        """The same; None if this likeset refuses to read them: one run must not keep others from theirs."""
        try:
            return self.version(digest)
        except IllegalMessage:
            return None

    def has_ended(self, now: datetime) -> bool:
        """Whether the terms that came last are over; of those that cannot be read here nobody knows."""
        if self.latest_digest in self.ends:  # most lists ask only this, and to read terms takes a while
            return now >= datetime.fromisoformat(self.ends[self.latest_digest])
        terms = self.readable(self.latest_digest)
        return terms is not None and terms.end is not None and now >= terms.end

    @property
    def decision_mark(self) -> str:
        """Stands for the terms and for all that was decided so far: who decides may say what it was that he saw."""
        words = [self.latest_digest, self.decision and self.decision.at, self.decision and self.decision.digest]
        return hashlib.sha256(json.dumps([*words, self.withdrawn]).encode()).hexdigest()[:16]

    @property
    def last_word(self) -> str:
        """What was decided last, by whom and when; empty if nothing was."""
        if self.withdrawn is not None:
            return f"withdrawn by {self.withdrawn[0]} at {self.withdrawn[1][:19]} (UTC)"
        last = self.decision
        return "" if last is None else f"{last.what} by {last.by} at {last.at[:19]} (UTC)"

    def decided(self, digest: str) -> Decision | None:
        """What was decided about these very terms."""
        return self.decision if self.decision is not None and self.decision.digest == digest else None


@lru_cache(maxsize=4096)
def _invitation_in(text: str) -> Invitation:
    return Invitation.read(base64.b64decode(text))


def _consumer_in(document: dict[str, Any]) -> str:
    if "signed" in document:
        return str(document["consumer"])
    return str(json.loads(document["terms"])["consumer"])  # of a time when terms were not signed


class Runs:
    """All runs of a node."""

    def __init__(self) -> None:
        self.by_name: dict[str, RunRecord] = {}
        self.refusals = RefusalCounts()
        self.policy = ""
        self.name = ""
        self.last_at = ""

    def take(self, entry: Entry, document: Any) -> None:
        """The next entry of the audit log, and what its body says."""
        self.last_at = max(self.last_at, document["at"])
        if entry.kind == "policy":
            self.policy, self.name = document["digest"], document["name"]
        elif entry.kind == "refused":
            self.refusals.take(entry.key, document)
        elif entry.kind == "purge":
            for record in self.by_name.values():
                record.purges += document["run"] in (None, record.run)
        elif entry.kind == "reserve":
            run, number, kind = json.loads(entry.key)
            if kind.startswith(HEARD) and run in self.by_name:
                self.by_name[run].heard.add((number, kind.removeprefix(HEARD)))
        elif entry.kind == "invited":
            record = self.by_name.setdefault(entry.key, RunRecord(entry.key))
            record.versions[document["digest"]] = document.get("signed", "")  # read when needed: that takes time
            record.invited_at[document["digest"]] = document["at"]
            record.consumers[document["digest"]] = _consumer_in(document)
            if "ends" in document:
                record.ends[document["digest"]] = document["ends"]
            if document.get("by_steward", False):
                record.by_steward.add(document["digest"])
        elif entry.key in self.by_name:
            self._happened(self.by_name[entry.key], entry.kind, document)

    def _happened(self, record: RunRecord, kind: str, document: dict[str, Any]) -> None:
        by, at = document.get("by", ""), document["at"]
        if kind == "approved":
            record.decision = Decision("approved", document["digest"], by, at, data=document["data"])
        elif kind == "denied":
            record.decision = Decision("denied", document["digest"], by, at, reason=document["reason"])
        elif kind == "withdrawn":
            record.withdrawn = (by, at)
        elif kind == "reviewed":
            record.reviewed = document["digest"]
        elif kind == "began":
            record.began, record.smallest_group = True, document["smallest_group"]
        elif kind == "sent":
            record.sent[document["entry"]] = SentReplies(
                at, document["round"], document["heard"], tuple(document["replies"]), document["rows"]
            )
        elif kind == "acknowledged":
            record.receipts = [
                *(digest for digest in record.receipts if digest != document["digest"]),
                document["digest"],
            ]

    def know(self, terms: Terms) -> bool:
        """Whether these very terms came before."""
        return terms.run in self.by_name and terms.digest in self.by_name[terms.run].versions

    def waiting(self) -> list[RunRecord]:
        """Runs whose latest terms nobody has decided about."""
        return [
            record
            for record in self.by_name.values()
            if record.withdrawn is None and record.decided(record.latest_digest) is None
        ]


def ended_split_runs(runs: Runs, now: datetime) -> list[str]:
    """Names of runs in which rows left as shares, and whose terms are over.

    What was shared (keys, random numbers, salts) is of no use to this owner then, and goes. That it left stays on
    record.
    """
    shared = (record for record in runs.by_name.values() if record.decision is not None and record.sent)
    return [
        record.run
        for record in shared
        if record.decision is not None
        and (terms := record.readable(record.decision.digest)) is not None
        and terms.split is not None
        and terms.end is not None
        and now >= terms.end
    ]
