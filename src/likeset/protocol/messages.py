"""The closed set of messages between parties, and their bytes.

An envelope (run, digest of the terms, sender, receiver, round) around one body; versioned and bounded: a JSON head of
declared length, the arrays as they lie in memory, a digest of all of it against damage. Nothing is imported by name or
executed. Who sent a message is proven by the letter that it comes in (``homes.correspondence``).
"""

import hashlib
import json
import math
import re
import struct
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, get_args

import numpy as np
from numpy.typing import NDArray

from likeset.errors import BadMessage
from likeset.privacy.guarantee import checked_name
from likeset.protocol.message_arrays import (
    DIMENSIONS,
    MOST_BYTES,
    Blob,
    Handles,
    Labels,
    Matrix,
    Vector,
    array_in,
    check_content,
    checked_array,
)
from likeset.protocol.split.split_messages import (
    Envelopes,
    OfferShare,
    PicksOpened,
    RosterVote,
    ShareReceipts,
    TargetShare,
)

__all__ = [
    "MOST_BYTES",
    "Asked",
    "Bid",
    "Body",
    "Delivery",
    "Message",
    "Misfit",
    "Offer",
    "SplitBody",
    "Summary",
    "SummaryRelease",
    "Target",
    "TargetRelease",
    "decode",
    "encode",
]

_MAGIC = b"LKST"
_VERSION = 7  # in 6 a summary had exact numbers about rows that it did not hold
_DIGEST_BYTES = hashlib.sha256().digest_size
_PREFIX = struct.Struct("<4sBI")
_MOST_HEAD = 1 << 20
_MOST_ROUND = 1 << 32


def _nothing() -> Blob:
    return np.empty(0, dtype=np.uint8)


@dataclass(frozen=True, eq=False)
class Target:
    """Consumer to curator: the target, and how to select; no owner hears of either.

    Attributes:
        rows: the target's rows.
        release: what owners hear, where they bid under it, and by which bids are checked; empty in ``sealed``.
        gamma: width of the selection's kernel.
        weighted: whether to weigh the selected rows.
        folds: of the target, on which to measure likeness; 0 for not at all.
    """

    kind: ClassVar[str] = "target"
    rows: Matrix
    release: Vector
    gamma: float
    weighted: bool
    folds: int = 0


@dataclass(frozen=True, eq=False)
class TargetRelease:
    """Consumer to every owner: the released mean of the target's features, or nothing; a call for offers or bids."""

    kind: ClassVar[str] = "target-release"
    release: Vector


@dataclass(frozen=True, eq=False)
class Misfit:
    """Owner to curator: how far the owner's tilted mean stayed from the release."""

    kind: ClassVar[str] = "misfit"
    misfit: float


@dataclass(frozen=True, eq=False)
class Asked:
    """Curator to one owner: whether its rows are wanted; as long for a no as for a yes."""

    kind: ClassVar[str] = "asked"
    asked: bool


@dataclass(frozen=True, eq=False)
class Offer:
    """Owner to curator, sealed from everybody else: rows, their labels and opaque handles.

    Attributes:
        rows: one row each.
        labels: one label each, or none at all.
        handles: numbers by which the owner, and nobody else, finds the row again.
        records: the same rows in the columns that were declared (``tables.records``); empty for bare arrays.
    """

    kind: ClassVar[str] = "offer"
    rows: Matrix
    labels: Labels
    handles: Handles
    records: Blob = field(default_factory=_nothing)


@dataclass(frozen=True, eq=False)
class SummaryRelease:
    """Curator to every owner, once a round: what changed in the released mean of the summary so far.

    Attributes:
        coordinates: those that changed; empty where nothing about the summary is released.
        values: their new values.
    """

    kind: ClassVar[str] = "summary-release"
    coordinates: NDArray[np.int64]
    values: Vector


@dataclass(frozen=True, eq=False)
class Bid:
    """Owner to curator: the gain of its best remaining row, and that row's handle; not a number if none is left."""

    kind: ClassVar[str] = "bid"
    gain: float
    handle: int


@dataclass(frozen=True, eq=False)
class Delivery:
    """Owner to curator: the row that it bid and was asked for.

    Attributes:
        rows: that one row, or its hash.
        labels: its label, or none.
        handle: its handle.
        features: its features as the owner scored them, in lattice steps.
        records: the row in the columns that were declared; empty for bare arrays.
    """

    kind: ClassVar[str] = "delivery"
    rows: Matrix
    labels: Labels
    handle: int
    features: Matrix
    records: Blob = field(default_factory=_nothing)


@dataclass(frozen=True, eq=False)
class Summary:
    """Curator to consumer: the rows selected, in order of selection.

    Attributes:
        rows: one row each, or its hash.
        labels: one label each, or none at all.
        owners: for each row its owner's place in the terms.
        handles: by which the owner finds the row again.
        weights: non-negative, summing to 1.
        gains: marginal gain of each pick when it was made.
        squared_mmds: squared MMD to the target after each pick.
        rows_seen: how many rows of owners the curator saw.
        absent: places of owners who did not take part.
        flagged: places of owners whose messages were not used.
        reasons: for each of those, why.
        records: the rows in the columns that were declared; empty for bare arrays.
        label_weight: how much labels counted in the selection; 0 where they did not.
        label_skill: how well rows told labels near the target; 0 where that was not tried.
        held_out_squared_mmd: estimate of the squared MMD to the target's population, by cross-fitting.
        held_out_error: its standard error; not a number where nothing was estimated.
    """

    kind: ClassVar[str] = "summary"
    rows: Matrix
    labels: Labels
    owners: NDArray[np.int64]
    handles: Handles
    weights: Vector
    gains: Vector
    squared_mmds: Vector
    rows_seen: int
    absent: NDArray[np.int64]
    flagged: NDArray[np.int64]
    reasons: Labels
    records: Blob = field(default_factory=_nothing)
    label_weight: float = 0.0
    label_skill: float = 0.0
    held_out_squared_mmd: float = math.nan
    held_out_error: float = math.nan


SplitBody = TargetShare | OfferShare | ShareReceipts | RosterVote | Envelopes | PicksOpened
Body = Target | TargetRelease | Misfit | Asked | Offer | SummaryRelease | Bid | Delivery | Summary | SplitBody
_BODIES: dict[str, type[Any]] = {body.kind: body for body in get_args(Body)}


@dataclass(frozen=True, eq=False)
class Message:
    """One message: an envelope and a body. Written once: whoever needs its bytes again gets the same ones."""

    run: str
    terms: str
    sender: str
    receiver: str
    round: int
    body: Body

    @cached_property
    def data(self) -> bytes:
        """Its bytes: those that it came in, or else those that ``encode`` writes."""
        return encode(self)


def encode(message: Message) -> bytes:
    """The bytes of a message; equal messages give equal bytes."""
    scalars: dict[str, Any] = {}
    arrays: list[tuple[str, NDArray[Any]]] = []
    for body_field in fields(message.body):
        value = getattr(message.body, body_field.name)
        if body_field.type in DIMENSIONS:
            arrays.append((body_field.name, checked_array(body_field.name, value, body_field.type)))
        else:
            scalars[body_field.name] = _plain_scalar(body_field, value)
    head = {
        "kind": message.body.kind,
        "run": message.run,
        "terms": message.terms,
        "sender": message.sender,
        "receiver": message.receiver,
        "round": message.round,
        "scalars": scalars,
        "arrays": [[name, array.dtype.str, list(array.shape)] for name, array in arrays],
    }
    text = json.dumps(head, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    parts = [_PREFIX.pack(_MAGIC, _VERSION, len(text)), text, *(array.tobytes() for _, array in arrays)]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    data = b"".join([*parts, digest.digest()])
    if len(data) > MOST_BYTES or len(text) > _MOST_HEAD:
        raise BadMessage(f"a {message.body.kind} message of {len(data)} bytes is too large")
    return data


def decode(data: bytes, *, most_bytes: int = MOST_BYTES) -> Message:
    """The message that ``encode`` wrote.

    Raises:
        BadMessage: for anything else: too long, truncated, of another version, with a field too many or too few.
    """
    if len(data) > min(most_bytes, MOST_BYTES):
        raise BadMessage(f"{len(data)} bytes are more than the {most_bytes} that may come")
    if len(data) < _PREFIX.size + _DIGEST_BYTES:
        raise BadMessage("shorter than any message")
    magic, version, length = _PREFIX.unpack_from(data)
    if magic != _MAGIC or version != _VERSION:
        raise BadMessage(f"not a message of version {_VERSION}")
    end = len(data) - _DIGEST_BYTES
    if hashlib.sha256(memoryview(data)[:end]).digest() != data[end:]:
        raise BadMessage("its digest does not match: it was cut short or damaged on its way")
    if length > _MOST_HEAD or _PREFIX.size + length > end:
        raise BadMessage("its head is truncated or too long")
    try:
        text = data[_PREFIX.size : _PREFIX.size + length].decode("ascii")  # from bytes, JSON would guess other codes
        head = json.loads(text, parse_constant=_refuse_constant)
        message = _build_message(head, data, _PREFIX.size + length, end)
    except BadMessage:
        raise
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:  # which may quote what was sent
        raise BadMessage(f"its head does not describe a message ({type(error).__name__})") from None
    message.__dict__["data"] = bytes(data)  # where ``cached_property`` keeps it
    return message


def _build_message(head: Any, data: bytes, start: int, end: int) -> Message:
    wanted = {"kind", "run", "terms", "sender", "receiver", "round", "scalars", "arrays"}
    if not isinstance(head, dict) or set(head) != wanted or head["kind"] not in _BODIES:
        raise BadMessage("its head has other fields than a message")
    if type(head["round"]) is not int or not 0 <= head["round"] <= _MOST_ROUND:
        raise BadMessage("its round is not a number")
    for name in ("run", "sender", "receiver", "terms"):
        checked_name(name, head[name])
    kind = _BODIES[head["kind"]]
    declared = {body_field.name: body_field for body_field in fields(kind)}
    values: dict[str, Any] = {}
    if not isinstance(head["arrays"], list) or not isinstance(head["scalars"], dict):
        raise BadMessage("its head has other fields than a message")
    for name, dtype, shape in head["arrays"]:
        array, start = array_in(data, start, end, dtype, shape)
        values[name] = checked_array(name, array, declared[name].type)
        if values[name].dtype != array.dtype:
            raise BadMessage(f"{name} is of another type than encode writes")
        check_content(name, array)
    if start != end:
        raise BadMessage("it has bytes that belong to nothing")
    for name, value in head["scalars"].items():
        values[name] = _scalar(declared[name], value)
    if set(values) != set(declared) or len(head["arrays"]) + len(head["scalars"]) != len(declared):
        raise BadMessage(f"a {kind.kind} message has other fields")
    return Message(
        run=head["run"],
        terms=head["terms"],
        sender=head["sender"],
        receiver=head["receiver"],
        round=head["round"],
        body=kind(**values),
    )


def _plain_scalar(field: Any, value: Any) -> Any:
    # A number travels as its bits: it comes back as it was sent, and every answer has the same length.
    if field.type is float:
        return struct.pack("<d", float(value)).hex()
    if field.type is bool:
        return int(bool(value))
    return f"{int(value):016x}"


def _scalar(field: Any, value: Any) -> Any:
    if field.type not in (bool, int, float):
        raise BadMessage(f"{field.name} is no single number")
    if field.type is bool:
        if type(value) is not int or value not in (0, 1):
            raise BadMessage(f"{field.name} is neither yes nor no")
        return bool(value)
    if not isinstance(value, str) or re.fullmatch(r"[0-9a-f]{16}", value) is None:
        raise BadMessage(f"{field.name} is no number")
    return struct.unpack("<d", bytes.fromhex(value))[0] if field.type is float else int(value, 16)


def _refuse_constant(_name: str) -> Any:
    raise BadMessage("its head holds something that is not a number")
