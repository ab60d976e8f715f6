"""The public program: greedy selection by the exact kernel, on shares, with picks that stay hidden.

Everything here is traced by JAX and run by the engine on shares of 64 bits. Nothing is opened. The functions keep to
what the engine does well: sums and products are cheap, comparisons and exponentials cost rounds of messages.

The score of an offer after q picks is ``(q+1) * mean_v k(v, x) - sum_s k(s, x)``: the marginal gain times q+1, so
that a round adds to it and never divides. An offer that is used or not valid starts far below all others.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .settings import SECRET_WORDS, WORD_BITS, ProgramSettings

__all__ = ["PAYLOAD_WORDS", "Program", "block_rows"]

jax.config.update("jax_enable_x64", True)

PAYLOAD_WORDS = 1 + SECRET_WORDS + 1
"""What is opened of a pick: its number plus 1 (0: none was left), its secret's words, the checksum of its row."""
_LOWEST_EXPONENT = -14.0  # the engine's exponential is a polynomial: exp(-600) comes out as -4e7
_BLOCK_PAIRS = 1 << 18  # pairs of an offer and a target row that are in memory at a time
_BLOCK_WORDS = 1 << 20
_FINALISTS = 8  # so few are compared all with all at once: fewer rounds of messages

Array = Any  # traced by JAX


def block_rows(settings: ProgramSettings) -> int:
    """How many offers are prepared at a time, so that memory does not grow with their number."""
    return max(1, min(settings.offers, _BLOCK_PAIRS // settings.target_rows, _BLOCK_WORDS // settings.offer_words))


class Program:
    """The steps of the program for given settings; each takes and returns shares.

    Args:
        settings: everything public.
    """

    def __init__(self, settings: ProgramSettings) -> None:
        self._settings = settings
        self._lows = np.array([*settings.lows, *[0] * settings.classes], dtype=np.int64)
        self._highs = np.array([*settings.highs, *[1] * settings.classes], dtype=np.int64)
        self._blocked = 8 * (settings.size + 2)  # scores lie between -size-1 and size+1

    def target(self, words: Array) -> tuple[Array, Array, Array]:
        """The target's rows, their squared norms, the chances of their classes.

        Chances are words of 16 bits; rows in which they sum to more than 1 only harm the consumer itself.
        """
        columns = self._settings.columns
        rows = self._rows(self._clipped(words[:, :columns]))
        chances = _within(words[:, columns:], 0, 1 << WORD_BITS)
        return rows, jnp.sum(rows * rows, axis=1), chances.astype(jnp.float32) * 2.0**-WORD_BITS

    def block(self, words: Array, target: Array, norms: Array, chances: Array, factors: Array) -> tuple[Array, ...]:
        """Some offers: rows, norms, labels, whether each is valid, mean kernel to the target, checksum.

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
        return rows, own, classes, valid.astype(jnp.int64), attraction, clipped @ factors

    def begin(self, valid: Array, attraction: Array, secrets: Array, checks: Array) -> tuple[Array, ...]:
        """Scores before the first pick, what is opened of each offer, and how many offers are valid."""
        score = attraction - ((1 - valid) * self._blocked).astype(jnp.float32)
        numbers = jnp.arange(1, self._settings.offers + 1, dtype=jnp.int64)
        return score, jnp.concatenate([numbers[:, None], secrets, checks[:, None]], axis=1), jnp.sum(valid)

    def pick(
        self, rows: Array, norms: Array, classes: Array, attraction: Array, payload: Array, score: Array
    ) -> tuple[Array, Array]:
        """One round: the scores after it, and the payload of the offer with the best score, still shared."""
        chosen = best_one_hot(score)
        weights = chosen.astype(jnp.float32)
        row, norm = weights @ rows, jnp.sum(weights * norms)
        kernel = self._kernel(norms + norm - 2.0 * (rows @ row))  # 2 * (X @ row): 2 * X @ row is three times slower
        kernel = self._agreeing(kernel, classes, weights @ classes)
        after = score + attraction - kernel - (chosen * self._blocked).astype(jnp.float32)
        return after, chosen @ payload

    def finish(self, payloads: Array, valid: Array) -> Array:
        """What is opened: zeros for every pick that came after the last valid offer was used."""
        made = jnp.arange(self._settings.size, dtype=jnp.int64) < valid
        return payloads * made[:, None].astype(jnp.int64)

    def _clipped(self, words: Array) -> Array:
        columns = words.shape[1]
        return _within(words, self._lows[:columns], self._highs[:columns])

    def _rows(self, words: Array) -> Array:
        """Around the middle of the ranges, and in units in which the kernel has width 1."""
        middles = (self._lows + self._highs)[: self._settings.columns] // 2
        return ((words - middles).astype(jnp.float32) * 2.0**-WORD_BITS) * float(np.sqrt(self._settings.gamma))

    @staticmethod
    def _kernel(distances: Array) -> Array:
        """Rows lie within their ranges, so a distance is below 0 by rounding only, and needs no bound there."""
        exponents = -distances
        return jnp.exp(jnp.where(exponents < _LOWEST_EXPONENT, _LOWEST_EXPONENT, exponents))

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


def best_one_hot(score: Array) -> Array:
    """1 for the largest, 0 for all others: a knock-out whose winner is followed back to its place.

    Of equal scores one is taken, always the same. Ties and all, exactly one place has a 1.
    """
    places = _FINALISTS
    while places < score.shape[0]:
        places *= 2
    filled = jnp.full(places - score.shape[0], -float(1 << 30), dtype=score.dtype)
    rivals, results = jnp.concatenate([score, filled]), []
    while rivals.shape[0] > _FINALISTS:
        first, second = rivals[: rivals.shape[0] // 2], rivals[rivals.shape[0] // 2 :]
        second_wins = second > first
        results.append(second_wins)
        rivals = jnp.where(second_wins, second, first)
    chosen = _best_of_few(rivals)
    for second_wins in reversed(results):
        second_chosen = jnp.logical_and(chosen, second_wins)
        chosen = jnp.concatenate([jnp.logical_xor(chosen, second_chosen), second_chosen])
    return chosen[: score.shape[0]].astype(jnp.int64)


def _best_of_few(rivals: Array) -> Array:
    """All compared with all: the one that nobody before it reaches and nobody after it exceeds."""
    count = rivals.shape[0]
    one, other = np.triu_indices(count, 1)
    later_wins = rivals[other] > rivals[one]
    known = jnp.concatenate([later_wins, jnp.logical_not(later_wins), jnp.ones(1, dtype=bool)])
    place = np.full((count, count), 2 * len(one))
    place[other, one] = np.arange(len(one))
    place[one, other] = len(one) + np.arange(len(one))
    beats = known[place]
    while beats.shape[1] > 1:
        half = beats.shape[1] // 2
        beats = jnp.logical_and(beats[:, :half], beats[:, half:])
    return beats[:, 0]
