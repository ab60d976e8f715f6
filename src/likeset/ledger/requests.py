"""What is asked for, what is reserved for it, and what of the answer the ledger may record."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal, Protocol

from likeset.arguments import count
from likeset.errors import ChargeRefused, InvalidArgument
from likeset.ledger.chain import canonical
from likeset.ledger.charges import Charge, unproven_parts
from likeset.privacy.events import Event, Release
from likeset.privacy.guarantee import checked_name

__all__ = ["Repeatable", "Request", "Reservation", "Unfinished", "recorded_release"]

Unfinished = Literal["refuse", "charge", "resume"]
"""What to do about a request that was charged, and interrupted before its answer was stored: refuse it; charge once
more for another draw; or take the charge up again. The last is free, and sound only for an answer that follows from
the request and from what is kept (a key, pinned data), so that it is the same again: with fresh coins the draw that is
finally sent would be one that was let live."""


class Keyed(Protocol):
    """Has a secret for digests that say nothing to others: the journal."""

    def fingerprint(self, content: bytes) -> str:
        """A digest of the content."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for. A (run, round, kind) is answered once; asked again, it gets the same bytes.

    Args:
        run: the run's id.
        round: within the run.
        kind: what is asked for; where one ledger serves several parties, with the name of the one who
            answers.
        content: the request's own bytes, to tell a repetition from another request; only a keyed digest is
            kept.
    """

    run: str
    round: int
    kind: str
    content: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        checked_name("run", self.run)
        checked_name("kind", self.kind)
        count("round", self.round, least=0)

    @property
    def key(self) -> str:
        """What the ledger knows it by."""
        return canonical([self.run, self.round, self.kind])

    def fingerprint(self, charge: Charge, keyed: "Keyed") -> str:
        """What it is recognised by when it comes again: a keyed digest of its own bytes and of what is charged."""
        return keyed.fingerprint(canonical(charge.to_json()).encode() + b"\n" + self.content)

    def __str__(self) -> str:
        return f"run {self.run}, round {self.round}, {self.kind}"


@dataclass(frozen=True, slots=True)
class Repeatable:
    """A draw that follows from a key and pinned data, so that it is the same whenever it is run.

    Attributes:
        request: what it is for.
        charge: what it costs.
        run: draws it.
    """

    request: Request
    charge: Charge
    run: Callable[[], tuple[bytes, Release[Any] | None]] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Reservation:
    """A charge that is on the disk.

    Attributes:
        number: its entry in the ledger.
        request: what it is for.
        event: what may be run.
        attempt: 1, or more if earlier charges for the same request were interrupted; those stay spent.
        answer: the bytes to send if the request was answered before (then nothing may be drawn); else None.
        repeatable: whether it may be taken up again after a crash, for no new charge: then no noise may be drawn.
    """

    number: int
    request: Request
    event: Event
    attempt: int
    answer: bytes | None = field(default=None, repr=False)
    repeatable: bool = False


def recorded_release(charge: Charge, release: Release[Any] | None) -> str | None:
    """The value that the ledger records of an answer; none if it holds rows or unproven parts.

    Raises:
        ChargeRefused: another event was run than was reserved.
        InvalidArgument: the value is not plain data.
    """
    if release is None:
        return None
    if release.event != charge.costs[0][1]:
        raise ChargeRefused("the release was made by another event than the one that was reserved")
    if charge.rows or any(unproven_parts(event) for _, event in charge.costs):
        return None
    try:
        return canonical(_plain(release.value))
    except (TypeError, ValueError):
        # Without the original error, which may quote the value.
        raise InvalidArgument(
            "release",
            type(release.value).__name__,
            "must hold finite numbers, text, lists, or arrays of them",
        ) from None


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {part.name: _plain(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    return value.tolist() if hasattr(value, "tolist") else value
