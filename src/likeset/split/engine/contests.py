"""Which of some shared numbers is the largest, as a bit for each, in few rounds of messages.

Groups are compared all with all, then their winners, who are followed back to their places at the end. Several
contests are held at once: what they need in a round goes into the same messages.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np

__all__ = ["group_sizes", "winners"]

_LOWEST = -float(1 << 30)
# Comparisons that take as long as the messages of one more level, or as one more place in its groups, which makes the
# program longer to read.
_LEVEL_PAIRS, _PLACE_PAIRS = 6000, 300
_LARGEST_GROUP = 32

Array = Any  # traced by JAX


@cache
def group_sizes(rivals: int, contests: int = 1) -> tuple[int, ...]:
    """Sizes of the groups of each level, the last of which has one group: as few comparisons and levels as can be."""
    return _cheapest(rivals, contests)[1]


@cache
def _cheapest(rivals: int, contests: int) -> tuple[int, tuple[int, ...]]:
    ways = []
    for size in range(min(rivals, 2), min(rivals, _LARGEST_GROUP) + 1):
        groups = -(-rivals // size)
        cost, sizes = (0, ()) if groups == 1 else _cheapest(groups, contests)
        pairs = contests * groups * size * (size - 1) // 2
        ways.append((cost + _LEVEL_PAIRS + size * _PLACE_PAIRS + pairs, (size, *sizes)))
    return min(ways)


def winners(*fields: Array) -> list[Array]:
    """For each field, of shape (contests, rivals), True for the largest of each row, and False for all others.

    Of equal ones the first in its group wins: ties and all, exactly one place of a row has True.
    """
    plans = [group_sizes(field.shape[1], field.shape[0]) for field in fields]
    levels: list[list[Array]] = [[] for _ in fields]
    rivals = list(fields)
    for level in range(max(map(len, plans))):
        here = [number for number, plan in enumerate(plans) if level < len(plan)]
        grouped = [_grouped(rivals[number], plans[number][level]) for number in here]
        for number, wins in zip(here, _largest(grouped), strict=True):
            levels[number].append(wins)
        on = [place for place, number in enumerate(here) if level + 1 < len(plans[number])]
        if on:
            wins = _flat([levels[here[place]][-1] for place in on])
            kept = jnp.where(wins, _flat([grouped[place] for place in on]), 0.0)
            for place, part in zip(on, _parts(kept, [grouped[place].shape for place in on]), strict=True):
                rivals[here[place]] = jnp.sum(part, axis=-1)
    return [_followed(field.shape, found) for field, found in zip(fields, levels, strict=True)]


def _grouped(rivals: Array, size: int) -> Array:
    contests, count = rivals.shape
    groups = -(-count // size)
    lowest = rivals[:, :1] - rivals[:, :1] + _LOWEST
    filled = jnp.broadcast_to(lowest, (contests, groups * size - count))
    return jnp.concatenate([rivals, filled], axis=1).reshape(contests, groups, size)


def _followed(shape: tuple[int, int], levels: Sequence[Array]) -> Array:
    """Winners of the first level whose group won, and whose group's group did, and so on."""
    chosen = levels[-1].reshape(shape[0], -1)
    for wins in reversed(levels[:-1]):
        groups = wins.shape[1]
        chosen = jnp.logical_and(chosen[:, :groups, None], wins).reshape(shape[0], -1)
    return chosen[:, : shape[1]]


def _largest(fields: Sequence[Array]) -> list[Array]:
    """All of the last axis compared with all: the one that nobody before it reaches and nobody after it exceeds."""
    pairs = [_pairs(field) for field in fields]
    lower = _flat([first for first, _ in pairs]) < _flat([later for _, later in pairs])
    later_wins = _parts(lower, [first.shape for first, _ in pairs])
    stacks = [_beaten(wins, field.shape[-1]) for wins, field in zip(later_wins, fields, strict=True)]
    while undecided := [number for number, stack in enumerate(stacks) if len(stack) > 1]:
        halves = [len(stacks[number]) // 2 for number in undecided]
        firsts = [stacks[number][:half] for number, half in zip(undecided, halves, strict=True)]
        seconds = [stacks[number][half : 2 * half] for number, half in zip(undecided, halves, strict=True)]
        both = _parts(jnp.logical_and(_flat(firsts), _flat(seconds)), [first.shape for first in firsts])
        for number, half, part in zip(undecided, halves, both, strict=True):
            stacks[number] = jnp.concatenate([part, stacks[number][2 * half :]])
    return [stack[0] for stack in stacks]


def _pairs(rivals: Array) -> tuple[Array, Array]:
    """Each with the next one, each with the second after it, and so on."""
    count = rivals.shape[-1]
    shifts = range(1, count)
    if not shifts:
        return rivals[..., :0], rivals[..., :0]
    first = jnp.concatenate([rivals[..., : count - shift] for shift in shifts], axis=-1)
    return first, jnp.concatenate([rivals[..., shift:] for shift in shifts], axis=-1)


def _beaten(later_wins: Array, count: int) -> Array:
    """For each shift, one against the shift-th after it, or, at the end, against the one it is that far after."""
    if count == 1:
        return jnp.ones((1, *later_wins.shape[:-1], 1), dtype=bool)
    ends = np.cumsum([0, *(count - shift for shift in range(1, count))])
    pairs = {shift: later_wins[..., ends[shift - 1] : ends[shift]] for shift in range(1, count)}
    return jnp.stack(
        [jnp.concatenate([jnp.logical_not(pairs[shift]), pairs[count - shift]], axis=-1) for shift in pairs]
    )


def _flat(arrays: Sequence[Array]) -> Array:
    return jnp.concatenate([array.reshape(-1) for array in arrays])


def _parts(flat: Array, shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    ends = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes)])
    return [flat[first:last].reshape(shape) for first, last, shape in zip(ends, ends[1:], shapes, strict=False)]
