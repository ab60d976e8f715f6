"""A dry run: everything is done here, nothing is sent, nothing is charged.

Which rows an owner offers follows from its key, its rows, the terms and the release that it hears. So for a given
release these are exactly the rows that would leave. Before the release is known another one stands in, and says so.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from likeset.errors import BadDocument
from likeset.homes.owner import exchanges
from likeset.homes.owner.node import OwnerNode
from likeset.homes.owner.outbox import LeftRows, rows_of
from likeset.homes.shell import carry
from likeset.protocol.legality import RELEASE_ROUND
from likeset.protocol.messages import Asked, Body, Message, SummaryRelease, TargetRelease, decode
from likeset.protocol.owner import Owner
from likeset.protocol.parties import make_owner
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Terms

__all__ = ["Rehearsal", "read_release", "rehearse"]

Basis = Literal["the release that was heard", "the release in the file", "no release is needed", "a stand-in"]

_MOST_RELEASE = 1 << 24


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """What would leave.

    Attributes:
        basis: on which release it rests; unless that is a stand-in, exactly these rows would leave.
        rows: that would leave, at most: fewer do where not everyone is asked.
        messages: the bytes of the messages that would carry them.
        row_count: rows in the data set.
        withheld: rows that are never offered, because of small groups.
        too_long: rows with a cell that is longer than the schema declares: no rows of any run.
    """

    basis: Basis
    rows: LeftRows
    messages: tuple[bytes, ...]
    row_count: int
    withheld: int
    too_long: int

    @property
    def exact(self) -> bool:
        """Whether these are the rows that would leave, and not an example."""
        return self.basis != "a stand-in"


def rehearse(node: OwnerNode, terms: Terms, *, release: NDArray[np.float64] | None = None, data: str = "") -> Rehearsal:
    """Do here what a run would do.

    Args:
        node: whose rows.
        terms: of the run.
        release: of the target's mean; the one that was heard if there is one, and else a stand-in, if None.
        data: the data set to use; the one that was approved, or fits, if empty.
    """
    record = node.runs.by_name.get(terms.run)
    decision = None if record is None else record.decided(terms.digest)
    smallest = (None if record is None else record.smallest_group) or node.policy.smallest_group
    chosen = data or (decision.data if decision is not None else "")
    data_set = node.data_for(terms, data=chosen)
    basis, heard, used = _release(node, terms, release)
    with data_set.opened(terms, smallest_group=smallest, key=node.home.key()) as opened:
        owner = make_owner(
            used,
            node.name,
            scan=opened.scan,
            key=node.home.key(),
            declared=opened.declared,
            secret=None if terms.split is None else node.home.card_secret(),
        )
        replies = [reply for call in _calls(used, heard) for reply in _said(owner, call)]
        leaving = tuple(reply.data for reply in replies if exchanges.rows_in([reply]))
        return Rehearsal(
            basis=basis,
            rows=rows_of(leaving, data_set.schema, labelled=data_set.schema.label_column in terms.columns),
            messages=leaving,
            row_count=opened.row_count,
            withheld=opened.withheld,
            too_long=opened.too_long,
        )


def read_release(path: Path, terms: Terms) -> NDArray[np.float64]:
    """A release from a file that ``numpy.save`` wrote, or from text with one number a line."""
    try:
        if path.stat().st_size > _MOST_RELEASE:
            raise BadDocument(str(path), "is too large for a release")
        # Mapped, not read: a header may claim any size.
        is_array = path.suffix == ".npy"
        numbers: Any = np.load(path, mmap_mode="r", allow_pickle=False) if is_array else np.loadtxt(path, ndmin=1)
    except OSError as error:
        raise BadDocument(str(path), "cannot be read; give a .npy file, or text with one number a line") from error
    except ValueError as error:
        raise BadDocument(str(path), "holds no numbers; give a .npy file, or text with one number a line") from error
    if numbers.shape != (terms.kernel.dimension,) or not np.isfinite(numbers).all():
        raise BadDocument(str(path), f"must hold {terms.kernel.dimension} finite numbers, as the terms say")
    return np.array(numbers, dtype=np.float64)


def _release(
    node: OwnerNode, terms: Terms, given: NDArray[np.float64] | None
) -> tuple[Basis, NDArray[np.float64], Terms]:
    """The release to use, what it is, and the terms to use with it."""
    if terms.offers == "uniform":
        return "no release is needed", np.empty(0), terms
    if given is not None:
        return "the release in the file", given, terms
    for exchange in exchanges.exchanges(node.ledger, terms.run):
        message = decode(exchange.heard)
        if isinstance(message.body, TargetRelease) and message.terms == terms.digest:
            return "the release that was heard", message.body.release, terms
    if terms.protocol == "sealed":
        # The same run with uniform offers: the same key, and all rows weigh the same.
        return "a stand-in", np.empty(0), terms.with_changes(offers="uniform")
    return "a stand-in", np.zeros(terms.kernel.dimension), terms


def _calls(terms: Terms, release: NDArray[np.float64]) -> Iterator[tuple[int, Body]]:
    """What is said where all rows are asked for that may be, and nothing is released about the summary."""
    yield RELEASE_ROUND[terms.protocol], TargetRelease(release=release)
    if terms.protocol == "sealed":
        if terms.auction != "everyone":
            yield 2, Asked(asked=True)
        return
    for number in range(1, terms.size + 1):
        yield number, SummaryRelease(coordinates=np.empty(0, dtype=np.int64), values=np.empty(0))
        yield number, Asked(asked=True)


def _said(owner: Owner, call: tuple[int, Body]) -> tuple[Message, ...]:
    """What the owner says to that; what it wants charged is drawn, and nobody is charged: nothing leaves."""
    number, body = call
    sender = owner.terms.consumer if isinstance(body, TargetRelease) else CURATOR
    message = Message(owner.terms.run, owner.terms.digest, sender, owner.name, number, body)
    return carry(owner.receive(message), lambda wanted: wanted.draw()[0])
