"""How parts are put in a row of bytes so that there is one way to write them and one way to read them.

Every part has its length before it, so two different lists of parts never give the same bytes. Whatever is signed
begins with the name of what it is, its *context*: a signature of one kind is none of another kind.
"""

from likeset.errors import BadDocument, InvalidArgument

__all__ = [
    "ACCEPTANCE_CONTEXT",
    "CARD_CONTEXT",
    "CONTEXTS",
    "LETTER_CONTEXT",
    "LIST_CONTEXT",
    "RECEIPT_CONTEXT",
    "ROSTER_CONTEXT",
    "SHARE_RECEIPT_CONTEXT",
    "TERMS_CONTEXT",
    "fields",
    "read_fields",
    "read_tagged",
    "signed",
    "view_fields",
]

CARD_CONTEXT = "likeset/card/1"
TERMS_CONTEXT = "likeset/terms/1"
ACCEPTANCE_CONTEXT = "likeset/acceptance/1"
LETTER_CONTEXT = "likeset/letter/1"
RECEIPT_CONTEXT = "likeset/receipt/2"
LIST_CONTEXT = "likeset/list/1"
SHARE_RECEIPT_CONTEXT = "likeset/share-receipt/1"
ROSTER_CONTEXT = "likeset/roster/1"

CONTEXTS = frozenset(
    {
        CARD_CONTEXT,
        TERMS_CONTEXT,
        ACCEPTANCE_CONTEXT,
        LETTER_CONTEXT,
        RECEIPT_CONTEXT,
        LIST_CONTEXT,
        SHARE_RECEIPT_CONTEXT,
        ROSTER_CONTEXT,
    }
)
"""Everything that a card signs. One that is not here cannot be signed: two kinds never share a name by accident."""

_LENGTH_BYTES = 8
_MOST_PARTS = 1 << 16  # empty parts cost their reader more memory than they have bytes


def fields(*parts: bytes) -> bytes:
    """The parts one after another, each after its length: 8 bytes, the most significant one first."""
    return b"".join([piece for part in parts for piece in (len(part).to_bytes(_LENGTH_BYTES, "big"), part)])


def read_fields(data: bytes | memoryview, count: int | None, *, what: str) -> tuple[bytes, ...]:
    """The parts that ``fields`` put together, and nothing after them.

    Args:
        data: anything.
        count: how many parts there must be; None for any number.
        what: what it should be, for the error.

    Raises:
        BadDocument: ``fields`` of that many parts never gives these bytes.
    """
    return tuple(bytes(view) for view in view_fields(data, count, what=what))


def view_fields(data: bytes | memoryview, count: int | None, *, what: str) -> list[memoryview]:
    """The same parts where they lie, without a copy."""
    whole = memoryview(data)
    most = _MOST_PARTS if count is None else count
    parts: list[memoryview] = []
    position, end = 0, len(whole)
    while position < end:
        start = position + _LENGTH_BYTES
        if len(parts) == most:
            raise BadDocument(what, f"has more than its {most} parts")
        if start > end:
            raise BadDocument(what, "is cut off in the length of a part")
        position = start + int.from_bytes(whole[start - _LENGTH_BYTES : start], "big")
        if position > end:
            raise BadDocument(what, "is cut off, or a length in it is wrong")
        parts.append(whole[start:position])
    if count is not None and len(parts) != count:
        raise BadDocument(what, f"has {len(parts)} parts; {count} are needed")
    return parts


def read_tagged(tag: bytes, data: bytes, count: int) -> tuple[bytes, ...]:
    """The parts after the first, which must be ``tag``: the words that say what the bytes are.

    Raises:
        BadDocument: it is something else, or not in the one form that it has.
    """
    what = tag.decode("ascii")
    first, *parts = read_fields(data, count + 1, what=what)
    if first != tag:
        raise BadDocument(what, "is something else: it does not begin with its name")
    return tuple(parts)


def signed(context: str, *parts: bytes) -> bytes:
    """The bytes that a signature of a kind is over.

    Raises:
        InvalidArgument: there is no such kind.
    """
    if context not in CONTEXTS:
        raise InvalidArgument("context", context, f"must be one of {', '.join(sorted(CONTEXTS))}")
    return fields(context.encode("ascii"), *parts)
