"""Which parties a run has: the terms say it."""

from numpy.typing import ArrayLike

from likeset.privacy.noise import Noise
from likeset.protocol.curator import Curator
from likeset.protocol.declarations import Declared
from likeset.protocol.interactive import InteractiveCurator
from likeset.protocol.interactive_owner import InteractiveOwner
from likeset.protocol.owner import Owner, Scan
from likeset.protocol.sealed import SealedCurator, SealedOwner
from likeset.protocol.terms import Terms

__all__ = ["make_curator", "make_owner"]


def make_owner(
    terms: Terms,
    name: str,
    *,
    scan: Scan,
    key: int,
    declared: Declared | None = None,
) -> Owner:
    """An owner of the run; what it takes is said by ``Owner``."""
    kind = SealedOwner if terms.protocol == "sealed" else InteractiveOwner
    return kind(terms, name, scan=scan, key=key, declared=declared)


def make_curator(
    terms: Terms, *, noise: Noise, declared: Declared | None = None, seed_rows: ArrayLike | None = None
) -> Curator:
    """The curator of the run; what it takes is said by ``InteractiveCurator``, which alone needs the terms' seed rows.

    Raises:
        InvalidArgument: the seed rows are not those that the terms name.
    """
    if terms.protocol == "sealed":
        return SealedCurator(terms, noise=noise, declared=declared)
    return InteractiveCurator(terms, noise=noise, declared=declared, seed_rows=seed_rows)
