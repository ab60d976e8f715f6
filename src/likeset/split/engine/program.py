"""The public program: greedy selection by the exact kernel, on shares, with picks that stay hidden, and swaps after it.

Everything here is traced by JAX and run by the engine on shares of 64 bits. Nothing is opened. The functions keep to
what the engine does well: sums and products are cheap, comparisons and exponentials cost rounds of messages.

The score of a slot after q picks is ``(q+1) * mean_v k(v, x) - sum_s k(s, x)``: the marginal gain times q+1, so that
a step adds to it and never divides. A slot that is used or not valid counts far below all others.

Slots stand in a grid. A pick is known by two one-hot rows, its line and its place in that line, which are small where
there are many slots; a pick that was not possible is known by zeros. Nothing is picked there, and it adds no kernel.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .schedule import spare_seats
from .settings import SECRET_WORDS, WORD_BITS, ProgramSettings

__all__ = ["PAYLOAD_WORDS", "Program", "block_rows", "grid"]

jax.config.update("jax_enable_x64", True)

PAYLOAD_WORDS = 1 + SECRET_WORDS + 1
"""What is opened of a pick: its number plus 1 (0: none was left), its secret's words, the checksum of its row."""
_LOWEST_EXPONENT = -14.0
# The engine's exponential is (1 + x/1024)^1024: good for exponents down to -2048, and growing again below.
_FARTHEST_EXPONENT = 2000.0
_NOWHERE = 1000  # distance of a pick that was not possible, from every slot
_BLOCK_PAIRS = 1 << 18  # pairs of an offer and a target row that are in memory at a time
_BLOCK_WORDS = 1 << 20
_GROUPS = (4, 8)  # slots compared all with all, first and then: few rounds of messages, and not too many pairs
_FINALISTS = 16  # so few are compared all with all at once
_NOBODY = -float(1 << 30)

Array = Any  # traced by JAX


def block_rows(settings: ProgramSettings) -> int:
    """How many offers are prepared at a time, so that memory does not grow with their number."""
    return max(1, min(settings.offers, _BLOCK_PAIRS // settings.target_rows, _BLOCK_WORDS // settings.offer_words))


def grid(offers: int) -> tuple[int, int]:
    """Lines of slots, and slots of a line."""
    line = int(np.ceil(np.sqrt(offers)))
    return -(-offers // line), line


class Program:
    """The steps of the program for given settings; each takes and returns shares.

    Args:
        settings: everything public.
    """

    def __init__(self, settings: ProgramSettings) -> None:
        self._settings = settings
        self._lows = np.array([*settings.lows, *[0] * settings.classes], dtype=np.int64)
        self._highs = np.array([*settings.highs, *[1] * settings.classes], dtype=np.int64)
        self._blocked = 8 * (settings.size + 20)  # scores lie between -size-1 and size+10

    def target(self, words: Array) -> tuple[Array, Array, Array]:
        """The target's rows, their squared norms, the chances of their classes.

        Chances are words of 16 bits; rows in which they sum to more than 1 only harm the consumer itself.
        """
        columns = self._settings.columns
        rows = self._rows(self._clipped(words[:, :columns]))
        chances = _within(words[:, columns:], 0, 1 << WORD_BITS)
        return rows, jnp.sum(rows * rows, axis=1), chances.astype(jnp.float32) * 2.0**-WORD_BITS

    def block(self, words: Array, target: Array, norms: Array, chances: Array, factors: Array) -> tuple[Array, ...]:
        """Some offers: rows with norms and classes, whether each is valid, mean kernel to the target, checksum.

        Args:
            words: for each offer its row, its label and its bit ``valid``.
            target: as ``target`` returned it, like the next two.
            norms: squared, of the target's rows.
            chances: of the target's classes.
            factors: of the checksum; public.
        """
        settings = self._settings
        clipped = self._clipped(words[:, :-1])
        rows, labels = self._rows(clipped[:, : settings.columns]), clipped[:, settings.columns :]
        valid = words[:, -1] == 1  # an exact bit, whatever was shared
        if settings.classes:
            valid = jnp.logical_and(valid, jnp.sum(labels, axis=1) == 1)
        classes = labels.astype(jnp.float32)
        own = jnp.sum(rows * rows, axis=1)
        kernel = self._kernel(own[:, None] + norms[None, :] - 2.0 * (rows @ target.T))
        kernel = self._agreeing(kernel, classes, chances.T)
        attraction = jnp.sum(kernel, axis=1) * (1.0 / settings.target_rows)
        joined = jnp.concatenate([rows, own[:, None], classes], axis=1)
        return joined, valid.astype(jnp.int64), attraction, clipped @ factors

    def begin(self, secrets: Array, checks: Array) -> Array:
        """What is opened of each offer."""
        numbers = jnp.arange(1, self._settings.offers + 1, dtype=jnp.int64)
        return jnp.concatenate([numbers[:, None], secrets, checks[:, None]], axis=1)

    def adds(
        self,
        rows: Array,
        attraction: Array,
        score: Array,
        free: Array,
        lines: Array,
        places: Array,
        seats: Array,
        steps: Array,
    ) -> tuple[Array, ...]:
        """Some steps, each of which makes several picks: of each strip of slots the best, scored as the middle pick is.

        Args:
            rows: all of them, with their norms and classes.
            attraction: mean kernels to the target.
            score: of all slots.
            free: 1 for slots that are valid and not picked.
            lines: of picks.
            places: likewise.
            seats: public: for each step which strip's pick goes to which position.
            steps: public: how many to make.
        """
        picks = seats.shape[2]

        def add(step: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
            score, free, lines, places = state
            seat = seats[step]
            chosen = self._best(score + _times(attraction, (picks - 1) // 2), free, strips=picks)
            chosen = chosen * jnp.sum(seat, axis=0)[:, None]
            line, place = self._in_grid(chosen)
            after = score + _times(attraction, picks) - jnp.sum(self._columns(rows, chosen), axis=0)
            return after, free - jnp.sum(chosen, axis=0), lines + seat @ line, places + seat @ place

        done: tuple[Array, ...] = jax.lax.fori_loop(0, steps, add, (score, free, lines, places))
        return done

    def take(
        self, rows: Array, attraction: Array, score: Array, free: Array, lines: Array, places: Array, strip: Array
    ) -> tuple[Array, ...]:
        """Take the pick out that fits worst among those of a strip: scores and free slots without it, and which it was.

        Args:
            rows: like all others as in ``adds``.
            attraction: mean kernels to the target.
            score: of all slots.
            free: 1 for slots that are valid and not picked.
            lines: of picks.
            places: likewise.
            strip: public: for each place in the strip a row with a 1 at its position, all 0 if it has none.
        """
        without = score - _times(attraction, 1 + spare_seats(self._settings.size))
        taken, slot = self._worst(without, lines, places, strip)
        return without + self._columns(rows, slot[None, :])[0], free + slot, taken

    def swaps(
        self,
        rows: Array,
        score: Array,
        free: Array,
        lines: Array,
        places: Array,
        taken: Array,
        strips: Array,
        steps: Array,
    ) -> tuple[Array, ...]:
        """Some steps, each of which fills a position with the best slot of all, and takes the next pick out.

        The next one is chosen before the kernel of the new pick is known: then both are computed at once.

        Args:
            rows: like the next four as in ``take``.
            score: of all slots.
            free: 1 for slots that are valid and not picked.
            lines: of picks.
            places: likewise.
            taken: 1 at the position of the pick that is out.
            strips: public: for each step where the next pick is taken out; see ``take``.
            steps: public: how many to make.
        """

        def swap(step: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
            score, free, lines, places, taken = state
            chosen = self._best(score, free, strips=1)
            line, place = self._in_grid(chosen)
            lines = lines + taken[:, None] * (line - (taken @ lines)[None, :])
            places = places + taken[:, None] * (place - (taken @ places)[None, :])
            taken, slot = self._worst(score, lines, places, strips[step])
            columns = self._columns(rows, jnp.concatenate([chosen, slot[None, :]]))
            return score - columns[0] + columns[1], free - chosen[0] + slot, lines, places, taken

        done: tuple[Array, ...] = jax.lax.fori_loop(0, steps, swap, (score, free, lines, places, taken))
        return done

    def finish(self, payload: Array, lines: Array, places: Array) -> Array:
        """What is opened: for each position its pick, zeros where none was possible."""
        height, width = grid(self._settings.offers)
        filled = jnp.zeros((height * width - self._settings.offers, PAYLOAD_WORDS), dtype=payload.dtype)
        table = jnp.concatenate([payload, filled]).reshape(height, width * PAYLOAD_WORDS)
        of_line = (lines @ table).reshape(lines.shape[0], width, PAYLOAD_WORDS)
        return jnp.sum(of_line * places[:, :, None], axis=1)

    def _best(self, score: Array, free: Array, *, strips: int) -> Array:
        """For each strip of slots a row with a 1 at its best free one; zeros if it has none."""
        counted = score - ((1 - free) * self._blocked).astype(jnp.float32)
        width = -(-score.shape[0] // strips)
        missing = width * strips - score.shape[0]
        filled = jnp.concatenate([counted, jnp.full(missing, _NOBODY, dtype=counted.dtype)])
        best = best_one_hot(filled.reshape(width, strips).T).astype(jnp.int64)
        usable = jnp.concatenate([free, jnp.zeros(missing, dtype=free.dtype)]).reshape(width, strips).T
        best = best * jnp.sum(best * usable, axis=1)[:, None]
        of_strip = np.eye(strips, dtype=np.int64)[:, None, :]
        return (best[:, :, None] * of_strip).reshape(strips, width * strips)[:, : score.shape[0]]

    def _worst(self, score: Array, lines: Array, places: Array, strip: Array) -> tuple[Array, Array]:
        """Of the picks of a strip: 1 at the position of the one with the lowest score, and 1 at its slot.

        Positions without a pick come first of all.
        """
        height, width = grid(self._settings.offers)
        own_lines, own_places = strip @ lines, strip @ places
        table = jnp.concatenate([score, jnp.zeros(height * width - score.shape[0], dtype=score.dtype)])
        of_line = own_lines.astype(jnp.float32) @ table.reshape(height, width)
        own = jnp.sum(of_line * own_places.astype(jnp.float32), axis=1)
        empty = 1 - jnp.sum(own_lines, axis=1)
        missing = 2 * (1 - jnp.sum(strip, axis=1))  # no position at all: never
        worst = best_one_hot(((empty - missing) * self._blocked).astype(jnp.float32) - own).astype(jnp.int64)
        slot = (worst @ own_lines)[:, None] * (worst @ own_places)[None, :]
        return worst @ strip, slot.reshape(height * width)[: score.shape[0]]

    def _in_grid(self, chosen: Array) -> tuple[Array, Array]:
        """One-hot rows over slots as those over lines and places."""
        height, width = grid(self._settings.offers)
        missing = jnp.zeros((chosen.shape[0], height * width - chosen.shape[1]), dtype=chosen.dtype)
        table = jnp.concatenate([chosen, missing], axis=1).reshape(chosen.shape[0], height, width)
        return jnp.sum(table, axis=2), jnp.sum(table, axis=1)

    def _columns(self, rows: Array, chosen: Array) -> Array:
        """For each one-hot row the kernel between its slot and all slots; zeros where it has none."""
        columns, weights = self._settings.columns, chosen.astype(jnp.float32)
        own = [weights[place] @ rows for place in range(chosen.shape[0])]  # several at once are ten times slower
        # 2 * (X @ row): 2 * X @ row is three times slower
        products = jnp.stack([2.0 * (rows[:, :columns] @ each[:columns]) for each in own])
        norms = (
            jnp.stack([each[columns] for each in own]) + (1 - jnp.sum(chosen, axis=1)).astype(jnp.float32) * _NOWHERE
        )
        kernel = self._kernel(rows[:, columns][None, :] + norms[:, None] - products)
        if not self._settings.label_weight:
            return kernel
        return self._agreeing(kernel, jnp.stack([each[columns + 1 :] for each in own]), rows[:, columns + 1 :].T)

    def _clipped(self, words: Array) -> Array:
        columns = words.shape[1]
        return _within(words, self._lows[:columns], self._highs[:columns])

    def _rows(self, words: Array) -> Array:
        """Around the middle of the ranges, and in units in which the kernel has width 1."""
        middles = (self._lows + self._highs)[: self._settings.columns] // 2
        return ((words - middles).astype(jnp.float32) * 2.0**-WORD_BITS) * float(np.sqrt(self._settings.gamma))

    def _kernel(self, distances: Array) -> Array:
        """Rows lie within their ranges, so a distance is below 0 by rounding only, and needs no bound there."""
        exponents = -distances
        if self._settings.farthest > _FARTHEST_EXPONENT:
            exponents = jnp.where(exponents < _LOWEST_EXPONENT, _LOWEST_EXPONENT, exponents)
        return jnp.exp(exponents)

    def _agreeing(self, kernel: Array, classes: Array, others: Array) -> Array:
        """The kernel of rows times that of labels."""
        weight = self._settings.label_weight
        return kernel * ((1.0 - weight) + weight * (classes @ others)) if weight else kernel


def _within(words: Array, low: Any, high: Any) -> Array:
    """Words of any 64 bits, brought into a range.

    The engine compares by the sign of a difference modulo 2^64, which is wrong for words far apart. The result lies
    in the range all the same: if neither difference is negative, both are below 2^63 and sum to high - low exactly.
    """
    return jnp.where(words < low, low, jnp.where(words > high, high, words))


def _times(numbers: Array, count: int) -> Array:
    """The sum of so many: a product with a number would be rounded."""
    return sum((numbers for _ in range(count)), jnp.zeros_like(numbers))


def best_one_hot(scores: Array) -> Array:
    """True for the largest of the last axis, False for all others; of equal ones the first in its group.

    Groups are compared all with all, then their winners, who are followed back to their places at the end. Ties and
    all, exactly one place has True.
    """
    levels: list[tuple[Array, int]] = []
    rivals = scores
    while True:
        count = rivals.shape[-1]
        size = count if count <= _FINALISTS else _GROUPS[min(len(levels), len(_GROUPS) - 1)]
        groups = -(-count // size)
        filled = jnp.full((*rivals.shape[:-1], groups * size - count), _NOBODY, dtype=rivals.dtype)
        grouped = jnp.concatenate([rivals, filled], axis=-1).reshape(*rivals.shape[:-1], groups, size)
        wins = _winners(grouped)
        levels.append((wins, count))
        if groups == 1:
            break
        rivals = jnp.sum(jnp.where(wins, grouped, 0.0), axis=-1)
    chosen = levels[-1][0]
    for wins, count in reversed(levels[:-1]):
        chosen = jnp.logical_and(chosen.reshape(*wins.shape[:-1], 1), wins)
        chosen = chosen.reshape(*scores.shape[:-1], -1)[..., :count]
    return chosen.reshape(scores.shape)


def _winners(rivals: Array) -> Array:
    """All of the last axis compared with all: the one that nobody before it reaches and nobody after it exceeds."""
    count = rivals.shape[-1]
    if count == 1:
        return jnp.ones(rivals.shape, dtype=bool)
    shifts = range(1, count)
    first = jnp.concatenate([rivals[..., : count - shift] for shift in shifts], axis=-1)
    later = jnp.concatenate([rivals[..., shift:] for shift in shifts], axis=-1)
    later_wins = first < later
    ends = np.cumsum([0, *(count - shift for shift in shifts)])
    pairs = {shift: later_wins[..., ends[shift - 1] : ends[shift]] for shift in shifts}
    # One against the shift-th after it, or, at the end, against the one that it is the (count - shift)-th after.
    beats = jnp.stack(
        [jnp.concatenate([jnp.logical_not(pairs[shift]), pairs[count - shift]], axis=-1) for shift in shifts]
    )
    while beats.shape[0] > 1:
        half = beats.shape[0] // 2
        both = jnp.logical_and(beats[:half], beats[half : 2 * half])
        beats = jnp.concatenate([both, beats[2 * half :]])
    return beats[0]
