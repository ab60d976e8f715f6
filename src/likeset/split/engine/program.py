"""The public program: greedy selection by the exact kernel on shares, with hidden picks, and swaps after it."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .agreement import FEWEST_SQUARES, SECRET_WORDS, TAYLOR, WORD_BITS, ProgramSettings, grid, slot_count, spare_seats

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


jax.config.update("jax_enable_x64", True)

PAYLOAD_WORDS = 1 + SECRET_WORDS + 1
"""What is opened of a pick: its number plus 1 (0: none was left), its secret's words, the checksum of its row."""
_LOWEST_EXPONENT = -14.0
_ABSENT_EXPONENT = -16.0  # between a pick that was not possible and the middle of all ranges
_TAYLOR_RANGE = 2.7  # for exponents down to minus this its first five terms lie between 0 and 1
_MOST_SQUARES = 5
_BLOCK_PAIRS = 1 << 18  # pairs of an offer and a target row that are in memory at a time
_BLOCK_WORDS = 1 << 20
_ROUNDING = 2.0**-24  # of the engine's numbers
_HEADROOM = 4  # bits; the scale of rows is a number of 24 bits behind the point, and small


def block_rows(settings: ProgramSettings) -> int:
    """How many slots are prepared at a time, so that memory does not grow with their number; blocks are alike."""
    slots = slot_count(settings.offers, settings.size)
    most = max(1, min(slots, _BLOCK_PAIRS // settings.target_rows, _BLOCK_WORDS // settings.offer_words))
    return -(-slots // -(-slots // most))


def row_words(settings: ProgramSettings) -> int:
    """Of a prepared row: its columns, its squared norm, what tells it from a pick that was not possible."""
    return settings.columns + 2


class Program:
    """The steps of the program for given public settings; each takes and returns shares."""

    def __init__(self, settings: ProgramSettings) -> None:
        self._settings = settings
        self._lows, self._highs = np.array(settings.lows, dtype=np.int64), np.array(settings.highs, dtype=np.int64)
        self._middles = (self._lows + self._highs) // 2
        self._blocked = 8 * (settings.size + 20)  # scores lie between -size-1 and size+17
        self._slots = slot_count(settings.offers, settings.size)
        self._grid = grid(settings.offers, settings.size)
        # Rows lie within a fourth of the farthest exponent from the middle.
        farthest = max(settings.farthest, settings.farthest / 4 - _ABSENT_EXPONENT)
        squares = max(FEWEST_SQUARES, int(np.ceil(np.log2(farthest / _TAYLOR_RANGE))))
        self._clamped = squares > _MOST_SQUARES
        self._squares = FEWEST_SQUARES if self._clamped else squares
        self._unit = TAYLOR * 2**self._squares  # exponents are counted in so many
        self._scale = float(np.sqrt(settings.gamma / self._unit)) * 2.0**_HEADROOM
        # Of a row at the ends of all ranges, if every number on the way is rounded up.
        ends = (self._highs - self._middles) * 2.0 ** -(WORD_BITS + _HEADROOM)
        ends = ends * (self._scale * (1 + 2 * _ROUNDING) + _ROUNDING) + _ROUNDING
        self._largest_norm = float(np.sum(ends * ends + _ROUNDING) + _ROUNDING) * (1 + 2 * _ROUNDING)

    def target(self, words: Array) -> tuple[Array, Array]:
        """The target's rows and their squared norms."""
        rows = self._rows(_within(words, self._lows, self._highs))
        return rows, jnp.sum(rows * rows, axis=1)

    def block(
        self, words: Array, bits: Array, target: Array, norms: Array, factors: Array, tests: Array
    ) -> tuple[Array, ...]:
        """Some slots: rows with norms, whether each is valid, mean kernel to the target, checksum.

        Args:
            words: for each slot its row.
            bits: whether it is valid.
            target: as ``target`` returned it, like ``norms``.
            norms: squared, of the target's rows.
            factors: of the checksum; public.
            tests: sums of a row's words that are looked at; public.
        """
        columns = self._settings.columns
        shared = self._rows(words)
        shared = jnp.concatenate([shared, jnp.sum(shared * shared, axis=1)[:, None]], axis=1)
        # An exact bit, whatever was shared.
        valid = jnp.logical_and(bits == 1, self._near(words, shared[:, columns], tests))
        # A difference is shared as numbers are; a bit would become a number once for each column.
        valid = 1 - jnp.logical_not(valid).astype(jnp.int64)
        kept = shared * valid.astype(jnp.float32)[:, None]
        own = kept[:, columns:]
        nothing, none = own - own, norms[:, None] - norms[:, None]
        # The product of (x, |x|², 1) and (2y, -1, -|y|²): minus the squared distance, without a sum over all pairs.
        left = jnp.concatenate([kept, nothing + 1.0], axis=1)
        right = jnp.concatenate([target + target, none - 1.0, -norms[:, None]], axis=1)
        attraction = jnp.sum(self._kernel(left @ right.T), axis=1) * (1.0 / self._settings.target_rows)
        absent = nothing - _ABSENT_EXPONENT / self._unit
        return jnp.concatenate([kept, absent], axis=1), valid, attraction, words @ factors

    def _near(self, words: Array, norms: Array, tests: Array) -> Array:
        """Whether rows are no farther from the middle than the ends of all ranges.

        Each sum must lie between the smallest and the largest that words in their ranges have. Then no word is so
        large that the squared norm is not what it seems to be, and that one must be small enough too.
        """
        sums, middles = (words - self._middles) @ tests, self._middles
        above, below = sums - (self._lows - middles) @ tests, (self._highs - middles) @ tests - sums
        within = jnp.all(jnp.concatenate([above, below], axis=1) >= 0, axis=1)
        return jnp.logical_and(within, norms <= self._largest_norm)

    def begin(self, secrets: Array, checks: Array, numbers: Array) -> Array:
        """What is opened of each slot; its number is public."""
        return jnp.concatenate([numbers[:, None], secrets, checks[:, None]], axis=1)

    def adds(
        self, rows: Array, attraction: Array, score: Array, free: Array, spots: Array, seats: Array, steps: Array
    ) -> tuple[Array, ...]:
        """Some steps, each of which makes several picks: of each strip of slots the best, scored as the middle pick is.

        Args:
            rows: all of them, with their norms.
            attraction: mean kernels to the target.
            score: of all slots.
            free: 1 for slots that are valid and not picked.
            spots: of picks.
            seats: public: for each step which strip's pick goes to which position.
            steps: public: how many to make.
        """
        picks = seats.shape[2]
        of_strip = np.eye(picks, dtype=np.int64)[:, None, :]

        def add(step: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
            score, free, spots = state
            seat = seats[step]
            raised = self._usable(score + _times(attraction, (picks - 1) // 2), free)
            (best,) = winners(self._or_nobody(raised.reshape(-1, picks).T))
            chosen = (best[:, :-1].astype(jnp.int64)[:, :, None] * of_strip).reshape(picks, self._slots)
            chosen = chosen * jnp.sum(seat, axis=0)[:, None]
            after = score + _times(attraction, picks) - jnp.sum(self._columns(rows, chosen), axis=1)
            return after, free - jnp.sum(chosen, axis=0), spots + seat @ self._in_grid(chosen)

        done: tuple[Array, ...] = jax.lax.fori_loop(0, steps, add, (score, free, spots))
        return done

    def settle(self, score: Array, attraction: Array) -> Array:
        """Scores when one of all picks is out, from those after the last step that picked."""
        return score - _times(attraction, 1 + spare_seats(self._settings.size))

    def swaps(
        self,
        rows: Array,
        score: Array,
        free: Array,
        spots: Array,
        out: Array,
        strips: Array,
        strips_before: Array,
        fills: Array,
        steps: Array,
    ) -> tuple[Array, ...]:
        """Some steps: each puts the best slot of all where a pick is out, and takes out the worst of the next strip.

        That one is chosen before the kernel of the new pick is known: so both contests are one, and both kernels are
        computed at once. No position is in two strips that follow one another.

        Args:
            rows: like the next three as in ``adds``; the kernel of the pick that is out is not in the scores.
            score: of all slots.
            free: 1 for slots that are valid and not picked.
            spots: of picks; zeros where one is out.
            out: 1 at the place of the strip before where a pick is out.
            strips: public: for each step and each place of its strip a row with a 1 at its position, all 0 if it has
                none.
            strips_before: public: of the steps before.
            fills: public: for each step 1 if a pick is out, 0 in the first of all.
            steps: public: how many to make.
        """
        height = strips.shape[1]

        def swap(step: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
            score, free, spots, out = state
            strip, before = strips[step], strips_before[step]
            own = strip @ spots
            rivals = self._or_nobody(self._usable(score, free)[None, :])
            best, worst = winners(rivals, self._misfits(score, own, strip)[None, :])
            bits = jnp.concatenate([best[0, :-1], worst[0]]).astype(jnp.int64)
            chosen, worst = bits[: self._slots] * fills[step], bits[self._slots :]
            spot = jnp.broadcast_to(self._in_grid(chosen[None, :]), own.shape)
            moved = jnp.concatenate([out, worst])[:, None] * jnp.concatenate([spot, own])
            spots = spots + before.T @ moved[:height] - strip.T @ moved[height:]
            slot = self._from_grid(jnp.sum(moved[height:], axis=0))
            columns = self._columns(rows, jnp.stack([chosen, slot]))
            return score - columns[:, 0] + columns[:, 1], free - chosen + slot, spots, worst

        done: tuple[Array, ...] = jax.lax.fori_loop(0, steps, swap, (score, free, spots, out))
        return done

    def finish(self, payload: Array, spots: Array) -> Array:
        """What is opened: for each position its pick, zeros where none was possible."""
        height, width = self._grid
        of_line = (spots[:, :height] @ payload.reshape(height, width * PAYLOAD_WORDS)).reshape(-1, width, PAYLOAD_WORDS)
        return jnp.sum(of_line * spots[:, height:, None], axis=1)

    def _usable(self, score: Array, free: Array) -> Array:
        """Scores, far below all others where a slot is not free."""
        return score - ((1 - free) * self._blocked).astype(jnp.float32)

    def _or_nobody(self, rivals: Array) -> Array:
        """With one more at the end that wins where none of the others is free."""
        nobody = rivals[:, :1] - rivals[:, :1] - self._blocked / 2
        return jnp.concatenate([rivals, nobody], axis=1)

    def _misfits(self, score: Array, own: Array, strip: Array) -> Array:
        """How badly each pick of a strip fits. Positions without a pick come first of all, places without one last."""
        height, width = self._grid
        of_line = own[:, :height].astype(jnp.float32) @ score.reshape(height, width)
        scores = jnp.sum(of_line * own[:, height:].astype(jnp.float32), axis=1)
        empty, missing = 1 - jnp.sum(own[:, :height], axis=1), 2 * (1 - jnp.sum(strip, axis=1))
        return ((empty - missing) * self._blocked).astype(jnp.float32) - scores

    def _in_grid(self, chosen: Array) -> Array:
        """One-hot rows over slots as spots."""
        table = chosen.reshape(chosen.shape[0], *self._grid)
        return jnp.concatenate([jnp.sum(table, axis=2), jnp.sum(table, axis=1)], axis=1)

    def _from_grid(self, spot: Array) -> Array:
        height = self._grid[0]
        return (spot[:height, None] * spot[None, height:]).reshape(self._slots)

    def _columns(self, rows: Array, chosen: Array) -> Array:
        """For each one-hot row a column: the kernel between its slot and all slots; next to nothing where it has none.

        The product of (x, |x|², ...) and (2y, -1, 0), less |y|², is minus the squared distance. All picks share
        the messages of one product; the other way round, with columns as rows, it takes six times as long.
        """
        columns, own = self._settings.columns, chosen.astype(jnp.float32) @ rows
        nothing, absent = own[:, :1] - own[:, :1], -_ABSENT_EXPONENT / self._unit
        factors = jnp.concatenate([own[:, :columns] + own[:, :columns], nothing - 1.0, nothing], axis=1)
        return self._kernel(rows @ factors.T - (own[:, columns] - own[:, columns + 1] + absent))

    def _rows(self, words: Array) -> Array:
        """Around the middle of the ranges, and in units in which ``_kernel`` takes distances."""
        return ((words - self._middles).astype(jnp.float32) * 2.0 ** -(WORD_BITS + _HEADROOM)) * self._scale

    def _kernel(self, exponents: Array) -> Array:
        """The exponential: five terms of a series, squared some times. It takes half as many rounds as the engine's.

        Rows lie within their ranges, so an exponent is above 0 by rounding only, and below what the series is good
        for never: there are enough squares, or exponents are clamped.
        """
        if self._clamped:
            lowest = _LOWEST_EXPONENT / self._unit
            exponents = jnp.where(exponents < lowest, lowest, exponents)
        squared = exponents * exponents
        linear = exponents + _times(squared, 3)
        linear = linear + _times(squared * (linear + exponents), 3)
        # 1 + 6z + 18z² + 36z³ + 54z⁴
        power = _times(_times(linear, 3), 2) + 1.0
        for _ in range(self._squares):
            power = power * power
        return power


def _within(words: Array, low: Any, high: Any) -> Array:
    """Words of any 64 bits, brought into a range.

    The engine compares by the sign of a difference modulo 2^64, which is wrong for words far apart. The result lies
    in the range all the same: if neither difference is negative, both are below 2^63 and sum to high - low exactly.
    """
    above, span = words - low, high - low
    return jnp.where(above < 0, 0, jnp.where(span - above < 0, span, above)) + low


def _times(numbers: Array, count: int) -> Array:
    """The sum of so many: a product with a number would be rounded."""
    total = numbers
    for _ in range(count - 1):
        total = total + numbers
    return total if count else numbers - numbers
