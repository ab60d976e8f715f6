"""What a run draws by itself, before it hears anything: noise, keys and seeds."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from likeset import arguments
from likeset.ledger import Ledger
from likeset.privacy.noise import Noise, SecretNoise, SimulatedNoise
from likeset.protocol.run_settings import RunSettings
from likeset.run.run_secrets import RunSecrets

__all__ = ["RunDraws", "draws_of_run", "new_draws", "public_coins"]


@dataclass(frozen=True, eq=False, repr=False)
class RunDraws:
    """What a run draws.

    Attributes:
        noises: of the width's choice, the curator and the consumer.
        public_seed: of the release's features, where the user wants a particular one.
        secrets: keys and seeds, unless the run began earlier with others.
    """

    noises: tuple[Noise, Noise, Noise]
    public_seed: int | None
    secrets: RunSecrets


def new_draws(wishes: RunSettings) -> RunDraws:
    """New draws; the same for the same seed where noise is simulated."""
    coins, simulated = public_coins(wishes), wishes.noise == "simulated"
    draw = _drawn_from(coins) if simulated else secrets.randbits
    # Each release has a noise of its own: a run that is resumed draws what it would have drawn.
    first, second, third = (SimulatedNoise(draw(63)) if simulated else SecretNoise() for _ in range(3))
    public_seed = None if wishes.seed is None else int(coins.integers(2**63))
    return RunDraws((first, second, third), public_seed, RunSecrets(draw(256)))


def draws_of_run(wishes: RunSettings, ledger_path: Path, *, run: str) -> RunDraws:
    """What a run will draw; with the secrets that it began with, if it began earlier."""
    draws = new_draws(wishes)
    if ledger_path.exists():
        with Ledger(ledger_path) as ledger:
            began = RunSecrets.found_in(ledger, run=run)
            draws = draws if began is None else replace(draws, secrets=began)
    return draws


def public_coins(wishes: RunSettings) -> np.random.Generator:
    """Coins that anybody may know."""
    return np.random.default_rng(None if wishes.seed is None else arguments.count("seed", wishes.seed, least=0))


def _drawn_from(coins: np.random.Generator) -> Callable[[int], int]:
    """A stand-in for ``secrets.randbits`` that repeats itself with the seed."""
    return lambda bits: int.from_bytes(coins.bytes((bits + 7) // 8), "big") >> (-bits % 8)
