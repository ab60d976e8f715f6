"""The uniform baseline: rows of every owner without a look at them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from likeset import arguments

__all__ = ["uniform"]


def uniform(owner_sizes: Sequence[int], size: int, *, coins: np.random.Generator) -> list[NDArray[np.int64]]:
    """The uniform baseline: the same number of random rows from each owner, as in the paper.

    An owner with fewer rows gives all it has, and the others make up for it; what does not divide evenly goes to
    the first owners.

    Returns:
        for each owner the chosen rows, in increasing order.
    """
    sizes = [arguments.count(f"owner_sizes[{owner}]", rows, least=0) for owner, rows in enumerate(owner_sizes)]
    arguments.count("size", size, most=sum(sizes), most_is="the number of rows of all owners")
    quota = [0] * len(sizes)
    remaining = size
    while remaining:
        open_owners = [owner for owner, rows in enumerate(sizes) if quota[owner] < rows]
        each, singles = divmod(remaining, len(open_owners))
        for turn, owner in enumerate(open_owners):
            # Single rows are handed out only once fewer are left than owners who have some.
            given = min(each, sizes[owner] - quota[owner]) if each else int(turn < singles)
            quota[owner] += given
            remaining -= given
    return [
        np.sort(coins.choice(rows, size=chosen, replace=False)).astype(np.int64)
        for rows, chosen in zip(sizes, quota, strict=True)
    ]
