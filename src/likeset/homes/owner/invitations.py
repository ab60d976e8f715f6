"""Which invitations are written into the audit log, which keeps them for ever.

Only those that a pinned card signed, only terms that ``owner.yaml`` does not forbid by their words, and only so many:
of all, of one consumer, of one run. Whoever is forbidden, or whose terms have ended, takes nobody's place. Of a card
that is not pinned nothing is read but its fingerprint.
"""

import base64
from datetime import UTC, datetime
from typing import Any

from likeset.errors import IllegalMessage
from likeset.homes.owner.policy import Policy, plainly_against
from likeset.homes.owner.run_records import RunRecord, Runs
from likeset.homes.signed_invitation import Invitation, card_fault
from likeset.protocol.terms import Terms
from likeset.trust.pins import Pins
from likeset.trust.signed_terms import SignedTerms

__all__ = ["check_known_card", "check_not_begun", "check_room", "check_words", "entry_words", "waiting"]

_MOST_WAITING = 200  # runs that wait for a decision
_MOST_WAITING_OF_ONE = 20  # of one consumer
_MOST_VERSIONS = 20  # of the terms of one run, from one consumer
_MOST_A_DAY = 500  # versions that come, of all consumers
_MOST_A_DAY_OF_ONE = 50


def check_known_card(data: bytes, pins: Pins) -> None:
    """Raise unless bytes are terms that a card signed which is pinned here as a consumer's; the terms are not read.

    Raises:
        BadDocument: they are no signed terms.
        IllegalMessage: the card does not count here; with its fingerprint, which is all that is kept.
    """
    fault = card_fault("consumer", SignedTerms.from_bytes(data).card.fingerprint, pins)
    if fault:
        raise IllegalMessage(f"an invitation: {fault}")


def entry_words(invitation: Invitation, *, by_steward: bool) -> dict[str, Any]:
    """What the audit log keeps of an invitation: the whole document as it was signed."""
    terms, signed = invitation.terms, base64.b64encode(invitation.to_bytes()).decode("ascii")
    words = {"digest": terms.digest, "consumer": terms.consumer, "card": terms.cards[terms.consumer], "signed": signed}
    words |= {} if terms.end is None else {"ends": terms.end.isoformat()}
    return {**words, "by_steward": True} if by_steward else words


def check_words(policy: Policy, terms: Terms, now: datetime) -> None:
    """Raise if the policy forbids these terms whatever they cost: nothing is computed from them.

    Raises:
        IllegalMessage: it does; with the digest, which is all that is kept of them.
    """
    against = plainly_against(policy, terms, now)
    if against:
        raise IllegalMessage(f"run {terms.run}, terms {terms.digest}: {'; '.join(against)}")


def check_not_begun(runs: Runs, terms: Terms) -> None:
    """Raise if the run has begun under other terms.

    Raises:
        IllegalMessage: it has.
    """
    record = runs.by_name.get(terms.run)
    if record is not None and record.began:
        raise IllegalMessage(
            f"run {terms.run}, terms {terms.digest}: the run is known under other terms, and has begun"
        )


def check_room(runs: Runs, policy: Policy, terms: Terms, now: datetime) -> None:
    """Raise if these terms came too often, or too many others wait; what the steward put there does not count.

    Raises:
        IllegalMessage: no room is left.
    """
    what, record = f"run {terms.run}, terms {terms.digest}", runs.by_name.get(terms.run)
    if record is not None:
        versions = [who for digest, who in record.consumers.items() if digest not in record.by_steward]
        if versions.count(terms.consumer) >= _MOST_VERSIONS:
            raise IllegalMessage(f"{what}: the terms changed too often")
    else:
        others = [
            other.consumers[other.latest_digest]
            for other in waiting(runs, policy, now)
            if other.latest_digest not in other.by_steward
        ]
        if len(others) >= _MOST_WAITING or others.count(terms.consumer) >= _MOST_WAITING_OF_ONE:
            raise IllegalMessage(f"{what}: the inbox is full")
    today = f"{now.astimezone(UTC):%Y-%m-%d}"
    came = [
        known.consumers[digest]
        for known in runs.by_name.values()
        for digest, at in known.invited_at.items()
        if at.startswith(today) and digest not in known.by_steward
    ]
    if len(came) >= _MOST_A_DAY or came.count(terms.consumer) >= _MOST_A_DAY_OF_ONE:
        raise IllegalMessage(f"{what}: too many terms came today")


def waiting(runs: Runs, policy: Policy, now: datetime) -> list[RunRecord]:
    """Runs that somebody could decide about: not what is forbidden by its words, has ended, or cannot be read."""
    return [
        record
        for record in runs.waiting()
        if (terms := record.readable(record.latest_digest)) is not None and not plainly_against(policy, terms, now)
    ]
