"""The smallest mechanism there is: a sum of signs plus discrete Laplace noise, sound in every channel.

It stands for what the ledger and the protocols do around a mechanism: store an answer and send it again, read
all rows whatever they hold, draw noise that a restart does not repeat. Its broken relatives are in
``broken``.
"""

import numpy as np
from numpy.typing import NDArray

from likeset.audit.neighbours import Neighbours, opposite_signs
from likeset.audit.partitions import Score
from likeset.audit.trials import Channel, Observe, Trial, claims, trial_of
from likeset.privacy.events import ROW, Laplace, Norm, Relation, RowSum
from likeset.privacy.noise import Integers, Noise

__all__ = [
    "EVENT",
    "PAIR",
    "SCALE",
    "CountedRows",
    "NoisySum",
    "ResentSum",
    "TracedSum",
    "fresh_seed",
    "sum_trial",
]

SCALE = 2.0
PAIR: Neighbours[Integers] = opposite_signs(8)
EVENT = Laplace(scale=SCALE, quantity=RowSum(norm=Norm.COORDINATE, radius=1.0, unit=ROW, relation=Relation.REPLACE_ONE))
"""Epsilon 1 under replace-one: the sum of signs moves by 2, the scale is 2."""


def fresh_seed() -> int:
    """A seed that no two calls share, for simulated noise: repeated audits should not see the same coins."""
    return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])


class NoisySum:
    """Answers every request with fresh noise: sound if every request is a new one and is charged."""

    def __init__(self, rows: Integers, noise: Noise) -> None:
        self.rows = rows
        self.noise = noise

    def answer(self, request: int) -> tuple[float, ...]:  # noqa: ARG002 - every request is answered alike
        """The noisy sum."""
        return (float(self.rows.sum() + self.noise.discrete_laplace(SCALE, 1)[0]),)


class ResentSum(NoisySum):
    """Keeps what it sent, and sends the same again when asked again."""

    def __init__(self, rows: Integers, noise: Noise) -> None:
        super().__init__(rows, noise)
        self.sent: dict[int, tuple[float, ...]] = {}

    def answer(self, request: int) -> tuple[float, ...]:
        """The noisy sum, drawn once per request."""
        if request not in self.sent:
            self.sent[request] = super().answer(request)
        return self.sent[request]


class CountedRows:
    """Rows that count how often they are read: a trace of the time taken that no other load disturbs."""

    def __init__(self, rows: NDArray[np.int64]) -> None:
        self.rows = rows
        self.reads = 0

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> int:
        if index >= len(self.rows):
            raise IndexError(index)
        self.reads += 1
        return int(self.rows[index])


class TracedSum(NoisySum):
    """Reads all rows, whatever they hold; the observer sees the answer and how many rows were read."""

    def answer(self, request: int) -> tuple[float, ...]:  # noqa: ARG002 - every request is answered alike
        """The noisy sum and the trace."""
        rows = CountedRows(self.rows)
        total = self.read(rows)
        return float(total + self.noise.discrete_laplace(SCALE, 1)[0]), float(rows.reads)

    def read(self, rows: CountedRows) -> int:
        """The sum of the rows."""
        return sum(rows[index] for index in range(len(rows)))


def sum_trial(
    mechanism: str,
    channel: Channel,
    observe: Observe,
    noise: Noise,
    *,
    samples: int,
    unseen: str,
    score: Score | None = None,
) -> Trial:
    """A trial of the sum, or of a relative of it, against what the sum claims."""
    return trial_of(
        mechanism,
        PAIR,
        observe,
        claims=claims(EVENT, delta=0.0, relation=Relation.REPLACE_ONE),
        noise=noise,
        samples=samples,
        relation=Relation.REPLACE_ONE,
        channel=channel,
        unseen=unseen,
        score=score,
    )
