"""The closed set of messages between parties, and their bytes."""

import hashlib
import json
import math
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, get_args

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import checked_name
from likeset.errors import BadMessage
from likeset.tables.schema import MOST_LETTERS

READS: tuple[int, ...] = (7,)
"""The versions of messages that are read and written here, in ascending order."""
MOST_BYTES = 1 << 30
"""No message is larger, whatever the terms say."""

Vector = NDArray[np.float64]
Matrix = NDArray[np.float32]
Numbers = NDArray[np.int64]
Labels = NDArray[Any]
Handles = NDArray[np.uint64]
Blob = NDArray[np.uint8]

TARGET_ROUND, OFFER_ROUND, RECEIPTS_ROUND, ROSTER_ROUND, ENVELOPES_ROUND, OPENED_ROUND = 0, 1, 2, 3, 3, 4
"""Of which round each message is."""


@dataclass(frozen=True, eq=False)
class TargetShare:
    """Consumer to each other compute party: its share of the target, once, and commitments to all shares."""

    kind: ClassVar[str] = "target-share"
    share: Blob  # the party's words of the target
    salt: Blob  # of the commitment to them, 32 bytes; for this party only
    commitments: Blob  # to the shares of all compute parties, 32 bytes each, in their order


@dataclass(frozen=True, eq=False)
class OfferShare:
    """Owner to each compute party: that party's part of the offer (``trust.shares.OfferPart``)."""

    kind: ClassVar[str] = "offer-share"
    part: Blob


@dataclass(frozen=True, eq=False)
class ShareReceipts:
    """Compute party to the others: of whose offers it has its part, checked against the owner's list."""

    kind: ClassVar[str] = "share-receipts"
    receipts: Blob  # ``trust.shares.list_entries``


@dataclass(frozen=True, eq=False)
class RosterVote:
    """Compute party to the others: the roster that follows from all receipts, signed, and where it is reached."""

    kind: ClassVar[str] = "roster-vote"
    roster: Blob  # ``trust.shares.Roster``
    reach: Blob  # its worker's certificate and address, for the workers of the others; empty in one process


@dataclass(frozen=True, eq=False)
class Envelopes:
    """Curator to consumer, before anything is computed: the envelopes of all slots, owner after owner."""

    kind: ClassVar[str] = "envelopes"
    envelopes: Blob


@dataclass(frozen=True, eq=False)
class PicksOpened:
    """Consumer to the other compute parties: it is over, and shares may be forgotten."""

    kind: ClassVar[str] = "picks-opened"
    openings: int  # at most: public, and not how many opened to a record


def blob(data: bytes = b"") -> Blob:
    return np.frombuffer(data, dtype=np.uint8)


@dataclass(frozen=True, eq=False)
class Target:
    """Consumer to curator: the target, and how to select; no owner hears of either."""

    kind: ClassVar[str] = "target"
    rows: Matrix
    release: Vector  # what owners bid under, and by which bids are checked; empty in ``sealed``
    gamma: float  # of the selection's kernel
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
    """Owner to curator, sealed from everybody else: rows, their labels and opaque handles."""

    kind: ClassVar[str] = "offer"
    rows: Matrix
    labels: Labels  # one each, or none at all
    handles: Handles  # by which the owner, and nobody else, finds the row again
    records: Blob = field(default_factory=blob)  # the same rows in the columns of the schema; empty for bare arrays


@dataclass(frozen=True, eq=False)
class SummaryRelease:
    """Curator to every owner, once a round: what changed in the released mean of the summary so far."""

    kind: ClassVar[str] = "summary-release"
    coordinates: Numbers  # empty where nothing about the summary is released
    values: Vector  # their new values


@dataclass(frozen=True, eq=False)
class Bid:
    """Owner to curator: the gain of its best remaining row, and that row's handle; not a number if none is left."""

    kind: ClassVar[str] = "bid"
    gain: float
    handle: int


@dataclass(frozen=True, eq=False)
class Delivery:
    """Owner to curator: the row that it bid and was asked for."""

    kind: ClassVar[str] = "delivery"
    rows: Matrix
    labels: Labels
    handle: int
    features: Matrix  # as the owner scored them, in lattice steps
    records: Blob = field(default_factory=blob)


@dataclass(frozen=True, eq=False)
class Summary:
    """Curator to consumer: the rows selected, in order of selection."""

    kind: ClassVar[str] = "summary"
    rows: Matrix
    labels: Labels  # one each, or none at all
    owners: Numbers  # of each row its owner's place in the terms
    handles: Handles
    gains: Vector  # marginal gain of each pick when it was made
    squared_mmds: Vector  # to the target, after each pick
    rows_seen: int  # rows of owners that the curator saw
    absent: Numbers  # places of owners who did not take part
    flagged: Numbers  # places of owners whose messages were not used ...
    reasons: Labels  # ... and why
    records: Blob = field(default_factory=blob)
    # Both depend on labels of rows that were not selected, hence whole hundredths.
    label_weight: int = 0  # how much labels counted in the selection
    label_skill: int = 0  # how well rows predicted labels near the target; 0 where that was not tried
    held_out_squared_mmd: float = math.nan  # estimated to the target's population, by cross-fitting
    held_out_error: float = math.nan  # its standard error


Body = (
    Target | TargetRelease | Misfit | Asked | Offer | SummaryRelease | Bid | Delivery | Summary
    | TargetShare | OfferShare | ShareReceipts | RosterVote | Envelopes | PicksOpened
)  # fmt: skip
_BODIES: dict[str, type[Any]] = {body.kind: body for body in get_args(Body)}


@dataclass(frozen=True, eq=False)
class Message:
    """One message: an envelope and a body. Written once: whoever needs its bytes again gets the same ones.

    It is written in the newest version that writer and reader have in common, as both have signed.
    """

    run: str
    terms: str
    sender: str
    receiver: str
    round: int
    body: Body
    version: int = field(default_factory=lambda: READS[-1])

    @cached_property
    def data(self) -> bytes:
        return encode(self)


def in_common(some: Iterable[int], others: Iterable[int]) -> int:
    """The newest version of messages that two parties read; 0 if there is none."""
    return max({*some} & {*others}, default=0)


_MAGIC = b"LKST"
_DIGEST_BYTES = hashlib.sha256().digest_size
_PREFIX = struct.Struct("<4sBI")
_MOST_HEAD = 1 << 20
_MOST_ROUND = 1 << 32
_ENVELOPE = ("run", "terms", "sender", "receiver", "round")
_LAST_CODE_POINT, _SURROGATES = 0x10FFFF, (0xD800, 0xDFFF)
_DTYPE = re.compile(r"<f4|<f8|<i8|<u8|\|u1|\|b1|<U[1-9][0-9]{0,3}")
# The fields of messages that are arrays: dimensions, and the type in which they travel; labels are of several types.
_ARRAYS = {Matrix: (2, "<f4"), Vector: (1, "<f8"), Handles: (1, "<u8"), Numbers: (1, "<i8"), Blob: (1, "|u1")}
_ARRAYS |= {Labels: (1, "")}


def words_of(versions: Iterable[int]) -> str:
    return " or ".join(map(str, versions))


def encode(message: Message) -> bytes:
    """The bytes of a message; equal messages give equal bytes."""
    if message.version not in READS:
        raise BadMessage(f"no message for {message.receiver} can be written here: versions {words_of(READS)} can")
    scalars: dict[str, Any] = {}
    arrays: list[tuple[str, NDArray[Any]]] = []
    for declared in fields(message.body):
        value = getattr(message.body, declared.name)
        if declared.type in _ARRAYS:
            arrays.append((declared.name, _plain_array(declared, value)))
        else:
            scalars[declared.name] = _plain_scalar(declared, value)
    head = {name: getattr(message, name) for name in _ENVELOPE} | {
        "kind": message.body.kind,
        "scalars": scalars,
        "arrays": [[name, array.dtype.str, list(array.shape)] for name, array in arrays],
    }
    text = json.dumps(head, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    parts = [_PREFIX.pack(_MAGIC, message.version, len(text)), text, *(array.tobytes() for _, array in arrays)]
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
    if magic != _MAGIC or version not in READS:
        raise BadMessage(f"not a message of version {words_of(READS)}")
    end = len(data) - _DIGEST_BYTES
    if hashlib.sha256(memoryview(data)[:end]).digest() != data[end:]:
        raise BadMessage("its digest does not match: it was cut short or damaged on its way")
    if length > _MOST_HEAD or _PREFIX.size + length > end:
        raise BadMessage("its head is truncated or too long")
    try:
        text = data[_PREFIX.size : _PREFIX.size + length].decode("ascii")  # from bytes, JSON would guess other codes
        message = _build_message(json.loads(text), data, _PREFIX.size + length, end, version=version)
    except BadMessage:
        raise
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:  # which may quote what was sent
        raise BadMessage(f"its head does not describe a message ({type(error).__name__})") from None
    message.__dict__["data"] = bytes(data)  # where ``cached_property`` keeps it
    return message


def _build_message(head: Any, data: bytes, start: int, end: int, *, version: int) -> Message:
    if set(head) != {*_ENVELOPE, "kind", "scalars", "arrays"} or head["kind"] not in _BODIES:
        raise BadMessage("its head has other fields than a message")
    if type(head["round"]) is not int or not 0 <= head["round"] <= _MOST_ROUND:
        raise BadMessage("its round is not a number")
    for name in ("run", "sender", "receiver", "terms"):
        checked_name(name, head[name])
    kind = _BODIES[head["kind"]]
    declared = {field.name: field for field in fields(kind)}
    if not isinstance(head["arrays"], list) or not isinstance(head["scalars"], dict):
        raise BadMessage("its head has other fields than a message")
    values: dict[str, Any] = {}
    for name, dtype, shape in head["arrays"]:
        values[name], start = _array(declared[name], data, start, end, dtype, shape)
    if start != end:
        raise BadMessage("it has bytes that belong to nothing")
    for name, value in head["scalars"].items():
        values[name] = _scalar(declared[name], value)
    if set(values) != set(declared) or len(head["arrays"]) + len(head["scalars"]) != len(declared):
        raise BadMessage(f"a {kind.kind} message has other fields")
    return Message(**{name: head[name] for name in _ENVELOPE}, body=kind(**values), version=version)


def _plain_array(declared: Any, value: Any) -> NDArray[Any]:
    """An array in the very type and layout in which it travels."""
    name, (dimensions, dtype), array = declared.name, _ARRAYS[declared.type], np.asarray(value)
    if array.ndim != dimensions:
        raise BadMessage(f"{name} has {array.ndim} dimensions")
    if dtype:
        if array.dtype.kind != np.dtype(dtype).kind:
            raise BadMessage(f"{name} holds {array.dtype}")
        with np.errstate(over="ignore"):  # its reader refuses what is not finite
            return np.ascontiguousarray(array, dtype=dtype)
    if array.dtype.kind in "iu":
        array = array.astype("<i8")
    elif array.dtype.kind == "f":
        array = array.astype("<f8")
    elif array.dtype.kind == "U" and array.dtype.itemsize == 0:
        array = array.astype("<U1")
    if _DTYPE.fullmatch(array.dtype.str) is None:
        raise BadMessage(f"{name} holds {array.dtype}")
    if array.dtype.kind == "U" and int(array.dtype.str[2:]) > MOST_LETTERS:
        # Joining arrays of texts takes, for every text, the room of the longest.
        raise BadMessage(f"a text has more than {MOST_LETTERS} letters")
    return np.ascontiguousarray(array)


def _array(declared: Any, data: bytes, start: int, end: int, dtype: Any, shape: Any) -> tuple[NDArray[Any], int]:
    """The array that lies at a place of a message, and the place after it."""
    name = declared.name
    if not isinstance(dtype, str) or _DTYPE.fullmatch(dtype) is None:
        raise BadMessage("an array is of a type that is not allowed")
    if (
        not isinstance(shape, list)
        or len(shape) > 2
        or not all(type(side) is int and 0 <= side <= MOST_BYTES for side in shape)
    ):
        raise BadMessage("an array has no shape")
    count, item = math.prod(shape), np.dtype(dtype)
    after = start + count * item.itemsize
    if after > end:
        raise BadMessage("an array is truncated")
    array = np.frombuffer(data, dtype=item, count=count, offset=start).reshape(shape)
    plain = _plain_array(declared, array)
    if plain.dtype != array.dtype:
        raise BadMessage(f"{name} is of another type than encode writes")
    # Bytes that are no text and no truth value would end in an error wherever they are first looked at.
    if array.dtype.kind == "U":
        codes = np.frombuffer(array.tobytes(), dtype="<u4")
        surrogates = (codes >= _SURROGATES[0]) & (codes <= _SURROGATES[1])
        if bool((surrogates | (codes > _LAST_CODE_POINT)).any()):
            raise BadMessage(f"{name} holds something that is not text")
    if array.dtype.kind == "b" and bool((np.frombuffer(array.tobytes(), dtype=np.uint8) > 1).any()):
        raise BadMessage(f"{name} holds something that is neither yes nor no")
    return plain, after


def _plain_scalar(declared: Any, value: Any) -> Any:
    # A number travels as its bits: it comes back as it was sent, and every answer has the same length.
    if declared.type is float:
        return struct.pack("<d", float(value)).hex()
    if declared.type is bool:
        return int(bool(value))
    return f"{int(value):016x}"


def _scalar(declared: Any, value: Any) -> Any:
    if declared.type not in (bool, int, float):
        raise BadMessage(f"{declared.name} is not a single number")
    if declared.type is bool:
        if type(value) is not int or value not in (0, 1):
            raise BadMessage(f"{declared.name} is neither yes nor no")
        return bool(value)
    if not isinstance(value, str) or re.fullmatch(r"[0-9a-f]{16}", value) is None:
        raise BadMessage(f"{declared.name} is not a number")
    return struct.unpack("<d", bytes.fromhex(value))[0] if declared.type is float else int(value, 16)
