"""Parties of one house, who share a ledger: what they answer to one round is charged in one write.

Each of them is asked by itself, and fails by itself. Only draws that cost no privacy and are the same whenever they are
made (``ChargeWanted.repeatable``) wait for each other: they are made, then charged and kept together, and no reply is
there before that is durable. Where one of these charges is refused, none was made, and each is asked for alone.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from likeset.errors import LikesetError
from likeset.homes.shell import Resident, Shell, carry, request_of
from likeset.ledger import Charge, Ledger, Repeatable
from likeset.protocol.messages import Message
from likeset.protocol.steps import Step

__all__ = ["Answers", "AtOnce", "take_together"]

Answers = tuple[Message, ...] | LikesetError
"""A party's replies, or why there are none."""

AtOnce = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Calls a function with each of several things, perhaps side by side: ``map``, or that of a pool of threads."""


def take_together(asked: Sequence[tuple[Resident, Message]], *, at_once: AtOnce = map) -> list[Answers]:
    """The replies of different parties to a message each, in their order; all that they cost is charged."""
    begun = list(at_once(_begun, asked))
    houses: dict[int, list[_Waiting]] = defaultdict(list)
    for one in begun:
        if isinstance(one, _Waiting) and one.draw is not None:
            houses[id(one.ledger)].append(one)
    for neighbours in houses.values():
        if len(neighbours) > 1:
            _charge_together(neighbours, at_once)
    return list(at_once(_ended, begun))


@dataclass(eq=False)
class _Waiting:
    """A party that wants something charged before it goes on.

    Attributes:
        shell: with the party.
        step: as far as it came.
        ledger: of the house, if that is where it wants it charged.
        draw: what it waits for, if it may be charged there together with others.
        kept: what is kept for that.
    """

    shell: Shell[Any]
    step: Step
    ledger: Ledger | None = None
    draw: Repeatable | None = None
    kept: bytes | None = None


def _begun(asked: tuple[Resident, Message]) -> _Waiting | Answers:
    """A party's first step; all that it says, if it is in no shell or wants nothing charged."""
    resident, message = asked
    try:
        if not isinstance(resident, Shell) or type(resident).take is not Shell.take:
            return resident.take(message)  # it has a way of its own
        step = resident.party.receive(message)
        wanted, ledger = step.charge, resident.charges
        if wanted is None:
            return tuple(step.replies)
        if not wanted.repeatable or not isinstance(ledger, Ledger):
            return _Waiting(resident, step)
        draw = Repeatable(request_of(wanted), Charge(wanted.costs, wanted.rows, wanted.readable), wanted.draw)
        new = draw.charge.free and ledger.is_new(draw.request, draw.charge)
        return _Waiting(resident, step, ledger, draw if new else None)
    except LikesetError as error:
        return error


def _charge_together(waiting: Sequence[_Waiting], at_once: AtOnce) -> None:
    """Make the draws of one house and charge for all of them; for none, if one is refused."""
    ledger = waiting[0].ledger
    try:
        if ledger is not None:
            answers = ledger.answer_together([one.draw for one in waiting if one.draw is not None], draw=at_once)
            for one, kept in zip(waiting, answers, strict=True):
                one.kept = kept
    except LikesetError:
        return  # alone, each of them hears what is its own
    except BaseException:
        for one in waiting:
            one.step.abandon()
        raise


def _ended(one: _Waiting | Answers) -> Answers:
    """What a party says once its step is at its end."""
    if not isinstance(one, _Waiting):
        return one
    try:
        return carry(one.step if one.kept is None else one.step.go_on(one.kept), one.shell.committed)
    except LikesetError as error:
        return error
