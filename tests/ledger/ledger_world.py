"""Names, events and limits that the ledger's tests share."""

from collections.abc import Iterable
from typing import Any

from likeset.ledger.budget import Charge, Limit, Request
from likeset.ledger.ledger import Ledger, Reservation, Transaction
from likeset.privacy.events import (
    ROW,
    Event,
    Gaussian,
    Laplace,
    Norm,
    PaperAuction,
    Relation,
    Release,
    RowSum,
    Unbounded,
    View,
)

TARGET = View.owners("target")
CURATOR = View.curator("clinic-a")
ROWS = Unbounded("rows are shown to the curator")
AUCTION = PaperAuction(epsilon=0.012, owners=5, rounds=1, patience=3)


def gaussian(sigma: float = 40.0, relation: Relation = Relation.REPLACE_ONE) -> Gaussian:
    """A release of a mean feature vector, of which an account of epsilon 1 can pay 24 at sigma = 40, replace-one."""
    return Gaussian(sigma=sigma, quantity=RowSum(Norm.EUCLIDEAN, 1.0, ROW, relation), coordinates=140, spacing=1e-4)


def laplace(epsilon: float) -> Laplace:
    """A pure release: sensitivity 2 under replace-one, so the scale is 2/epsilon."""
    return Laplace(scale=2.0 / epsilon, quantity=RowSum(Norm.COORDINATE, 1.0, ROW, Relation.REPLACE_ONE))


def limit(epsilon: float = 1.0, *, rows: int = 0, accept_unproven: tuple[str, ...] = ()) -> Limit:
    """At delta = 1e-5, replace-one."""
    return Limit(epsilon, 1e-5, Relation.REPLACE_ONE, rows, accept_unproven)


class Died(BaseException):
    """What a death looks like from inside: nothing that comes after it is done, and no handler stops it."""


def opened(ledger: Ledger, *, rows: int = 1000) -> Ledger:
    """With one account of each kind of budget."""
    ledger.set_limit(TARGET, limit())
    ledger.set_limit(CURATOR, Limit.rows_only(rows))
    return ledger


def charge(
    view: View, event: Event, *, rows: int = 0, readable: int | None = None, also: Iterable[tuple[View, Event]] = ()
) -> Charge:
    return Charge(((view, event), *also), rows, readable)


def reserve(where: Ledger | Transaction, view: View, event: Event, *, request: Request, **more: Any) -> Reservation:
    """In a block of its own, or in the one that is given."""
    repeatable = more.pop("repeatable", False)
    if isinstance(where, Transaction):
        return where.reserve(charge(view, event, **more), request=request, repeatable=repeatable)
    with where.deciding() as transaction:
        return reserve(transaction, view, event, request=request, repeatable=repeatable, **more)


def commit(ledger: Ledger, reservation: Reservation, message: bytes, *, release: Release[Any] | None = None) -> bytes:
    with ledger.deciding() as transaction:
        return transaction.commit(reservation, message, release=release)
