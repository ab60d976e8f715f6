"""A small world of offers and a target on shares, the same program in the clear, and the environment of workers."""

import dataclasses
import os
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from clear_program import clear_selection, near_rows
from likeset.protocol.split import ComputeInputs, OpenedSlots
from likeset.split.engine.agreement import ProgramSettings
from likeset.split.host import Meeting, OpeningFile, SplitParty, program_digest
from likeset.trust.shares import split_words

ENVIRONMENT = Path(os.environ.get("LIKESET_SPLIT", Path(__file__).parents[2] / ".venv-split"))
PYTHON = ENVIRONMENT / "bin" / "python"
ONE = 1 << 16

needs_engine = pytest.mark.skipif(
    not PYTHON.exists(), reason=f"there is no environment for workers at {ENVIRONMENT}; make it with `make split`"
)

Words = NDArray[np.int64]
Told = Callable[[int, SplitParty, str, int], None]


@dataclass
class SplitWorld:
    """Offers, target and settings; change the words before they are shared."""

    settings: ProgramSettings
    coins: np.random.Generator
    rows: Words = field(init=False)
    valid: Words = field(init=False)
    secrets: Words = field(init=False)
    target: Words = field(init=False)

    def __post_init__(self) -> None:
        wanted = self.settings
        shape, target_shape = (wanted.offers, wanted.columns), (wanted.target_rows, wanted.columns)
        self.rows = self.coins.integers(0, ONE, shape, endpoint=True)
        self.target = np.clip(np.rint(ONE * (0.5 + 0.2 * self.coins.standard_normal(target_shape))), 0, ONE)
        self.target = self.target.astype(np.int64)
        self.valid = np.ones(wanted.offers, dtype=np.int64)
        self.secrets = self.coins.integers(-(2**63), 2**63 - 1, (wanted.offers, 4))

    def selected(self) -> list[int]:
        """In the clear, without rows far out of their ranges; -1 where nothing valid was left."""
        settings, near = self.settings, near_rows(self.rows, self.settings.lows, self.settings.highs)
        rows = np.where(near[:, None], self.rows, 0) / ONE
        among, toward = _kernel(rows, rows, settings.gamma), _kernel(rows, self.target / ONE, settings.gamma)
        return clear_selection(among, toward.mean(axis=1), (self.valid == 1) & near, settings.size)

    def shares(self) -> list[tuple[Words, Words]]:
        """For each party, of offers and target."""
        offers = np.concatenate([self.rows, self.valid[:, None], self.secrets], axis=1)
        return list(zip(_split(offers), _split(self.target), strict=True))

    def inputs(self) -> list[ComputeInputs]:
        named = dataclasses.asdict(self.settings)
        return [
            ComputeInputs(
                rank, **named, program=program_digest(), digest="agreed", offer_words=own, target_words=target
            )
            for rank, (own, target) in enumerate(self.shares())
        ]

    def check(self, opened: OpenedSlots | Exception | None, expected: list[int]) -> None:
        """The picks are these, each with its own secret and the checksum of its own row."""
        assert isinstance(opened, OpenedSlots), opened
        assert opened.numbers.tolist() == expected
        there = opened.numbers >= 0
        made = opened.numbers[there]
        assert (opened.secrets[there] == self.secrets[made]).all()
        assert (opened.checksums[there] == self.rows[made] @ opened.factors).all()
        assert not opened.secrets[~there].any()
        assert not opened.checksums[~there].any()


def world(coins: np.random.Generator, **changes: object) -> SplitWorld:
    columns = 6
    usual: dict[str, object] = {
        "offers": 40,
        "target_rows": 10,
        "size": 6,
        "gamma": 0.5,
        "lows": (0,) * columns,
        "highs": (ONE,) * columns,
    }
    return SplitWorld(ProgramSettings(**{**usual, **changes}), coins)  # type: ignore[arg-type]


def run_parties(
    inputs: Sequence[ComputeInputs],
    meetings: Sequence[Meeting],
    *,
    told: Told | None = None,
    patience: float = 240.0,
    folder: Path | None = None,
) -> list[OpenedSlots | Exception | None]:
    """What each party's ``run`` returned or raised, all of them in threads; what they store is in the folder."""
    results: list[OpenedSlots | Exception | None] = [None] * len(inputs)

    def act(rank: int, place: Path) -> None:
        opening = OpeningFile(place / str(rank))
        party = SplitParty(inputs[rank], opening=opening, python=PYTHON, meeting=meetings[rank])
        try:
            results[rank] = party.run(
                progress=lambda stage, done, _: told(rank, party, stage, done) if told else None, patience=patience
            )
        except Exception as error:
            results[rank] = error

    with tempfile.TemporaryDirectory() as passing:
        place = folder or Path(passing)
        threads = [threading.Thread(target=act, args=(rank, place)) for rank in range(len(inputs))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return results


def _split(words: Words) -> list[Words]:
    return [share.view(np.int64) for share in split_words(words.view(np.uint64))]


def _kernel(one: NDArray[np.float64], other: NDArray[np.float64], gamma: float) -> NDArray[np.float64]:
    return np.asarray(np.exp(-gamma * ((one[:, None, :] - other[None, :, :]) ** 2).sum(axis=2)))
