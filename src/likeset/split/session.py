"""From what a party of the protocol puts in to its computation, and back to what the consumer opens."""

from pathlib import Path
from typing import IO

import numpy as np

from likeset.errors import InvalidArgument
from likeset.protocol.split.compute_inputs import ComputeInputs, OpenedSlots
from likeset.split.engine.agreement import checksum_factors
from likeset.split.engine.settings import BadSettings, ProgramSettings
from likeset.split.party import Meeting, OpenedPicks, SplitParty

__all__ = ["computing_party", "opened_slots", "program_settings"]


def program_settings(inputs: ComputeInputs) -> ProgramSettings:
    """What the public program is told before it starts.

    Raises:
        InvalidArgument: the program does not take such numbers.
    """
    try:
        return ProgramSettings(
            offers=inputs.offers,
            target_rows=inputs.target_rows,
            size=inputs.size,
            gamma=inputs.gamma,
            lows=inputs.lows,
            highs=inputs.highs,
        )
    except BadSettings as error:
        raise InvalidArgument("terms", "split", f"cannot be computed: {error}") from None


def computing_party(
    inputs: ComputeInputs, *, folder: Path, python: Path, meeting: Meeting, log: IO[bytes] | None = None
) -> SplitParty:
    """The party that computes on these inputs; ``run`` it, and give what it returns to ``opened_slots``.

    Args:
        inputs: of ``ComputeParty.inputs``.
        folder: for its share of the picks; this party's own, and the same after a restart.
        python: interpreter of the worker's environment.
        meeting: how to find the others.
        log: where what the engine prints goes; nowhere if not given.

    Raises:
        InvalidArgument: the program here is another one than the terms name, or does not take such numbers.
    """
    party = SplitParty(
        inputs.rank,
        program_settings(inputs),
        program=inputs.program,
        inputs=inputs.digest,
        folder=folder,
        python=python,
        meeting=meeting,
        log=log,
    )
    party.put_shares(inputs.offer_words, inputs.target_words)
    return party


def opened_slots(picks: OpenedPicks, inputs: ComputeInputs) -> OpenedSlots:
    """What the computation opened, as the consumer's party takes it."""
    factors = checksum_factors(picks.seed, len(inputs.lows)).astype(np.int64)
    return OpenedSlots(picks.numbers, picks.secrets, picks.checksums, factors)
