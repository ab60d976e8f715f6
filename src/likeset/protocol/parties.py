"""Which parties a run has: the terms say it."""

from collections.abc import Mapping

from numpy.typing import ArrayLike

from likeset.errors import IllegalMessage
from likeset.privacy.noise import Noise
from likeset.protocol.interactive import InteractiveCurator, InteractiveOwner
from likeset.protocol.sealed import Curator, Owner, Scan, SealedCurator, SealedOwner
from likeset.protocol.split_run import ComputeParty, SplitOwner
from likeset.protocol.terms import Terms
from likeset.tables.records import DeclaredRecords
from likeset.trust.cards import Card, CardSecret
from likeset.trust.shares import ComputeRole


def make_owner(
    terms: Terms,
    name: str,
    *,
    scan: Scan,
    key: int,
    declared: DeclaredRecords | None = None,
    secret: CardSecret | None = None,
) -> Owner:
    """An owner of the run; what it takes is said by ``Owner``, and for a split run by ``SplitOwner``.

    Raises:
        IllegalMessage: the run is a split one, and there is no card to sign the offer with.
    """
    if terms.split is not None:
        if secret is None:
            raise IllegalMessage(f"run {terms.run} has a split curator: an owner signs its offer with its card")
        return SplitOwner(terms, name, scan=scan, key=key, secret=secret, declared=declared)
    kind = SealedOwner if terms.protocol == "sealed" else InteractiveOwner
    return kind(terms, name, scan=scan, key=key, declared=declared)


def make_curator(
    terms: Terms,
    *,
    noise: Noise,
    fold_key: int | None,
    declared: DeclaredRecords | None = None,
    seed_rows: ArrayLike | None = None,
) -> Curator:
    """The curator of the run; ``SealedCurator`` needs the fold key, ``InteractiveCurator`` the terms' seed rows.

    Raises:
        InvalidArgument: the seed rows are not those that the terms name.
        IllegalMessage: the curator of the run is split, and trusted with nothing.
    """
    if terms.split is not None:
        raise IllegalMessage(f"run {terms.run} has a split curator, which sees no rows")
    if terms.protocol == "sealed":
        return SealedCurator(terms, noise=noise, fold_key=fold_key, declared=declared)
    return InteractiveCurator(terms, noise=noise, declared=declared, seed_rows=seed_rows)


def make_compute_party(
    terms: Terms,
    role: ComputeRole,
    *,
    secret: CardSecret,
    cards: Mapping[str, Card],
    reach: bytes = b"",
) -> ComputeParty:
    """The curator or the witness of a split run; what it takes is said by ``ComputeParty``.

    Raises:
        IllegalMessage: the curator of the run is trusted, or the role is the consumer's, who has a target.
    """
    if role == "consumer":
        raise IllegalMessage("the consumer of a split run is made with its target")
    return ComputeParty(terms, role, secret=secret, cards=cards, reach=reach)
