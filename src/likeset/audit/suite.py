"""The sound mechanisms with their claims: no lower bound may exceed a claim.

Every claim is what the accountant says about the event that the plan carries, so the whole way is audited:
from the plan through the noise and the mechanism to the price, at the delta of the plan and at 1e-5. Trials draw
secret noise; where that would take too long, simulated noise of the same law goes through the same code, and the table
says so.

The last trials are the sound twins of ``broken``: the same channels and the same attacks, withstood.
"""

from collections.abc import Iterator

from likeset.audit import channel_trials, kept_trials, mean_trials, neighbours, noise_trials, owner_trials
from likeset.audit.prefetch import PrefetchedNoise
from likeset.audit.sums import fresh_seed
from likeset.audit.trials import Trial
from likeset.privacy.events import Observer, Relation
from likeset.privacy.noise import Noise, SecretNoise, SimulatedNoise

__all__ = ["sound_trials"]

_UNITS = tuple((relation, rows) for relation in Relation for rows in (1, 3))


def sound_trials(seed: int | None = None) -> list[Trial]:
    """Every mechanism, the bare noise first, the sound twins of the broken set last.

    Args:
        seed: of the simulated noise; a fresh one if not given, so that repeated audits see other coins.
    """
    secret, simulated = (
        PrefetchedNoise(SecretNoise()),
        PrefetchedNoise(SimulatedNoise(fresh_seed() if seed is None else seed)),
    )
    return [
        *_noise(secret, simulated),
        *_means(secret, simulated),
        *_selections(simulated),
        *_owners(secret),
        owner_trials.width(secret, rows_per_unit=1, samples=5_000),
        owner_trials.width(simulated, rows_per_unit=3, samples=12_000),
        channel_trials.resent_sum(secret),
        channel_trials.traced_sum(secret),
        channel_trials.restarted_sum(),
        channel_trials.lattice_sum(secret),
        mean_trials.gaussian_twice(secret),
    ]


def _noise(secret: Noise, simulated: Noise) -> Iterator[Trial]:
    for relation, rows in _UNITS:
        yield noise_trials.laplace(secret, relation, rows_per_unit=rows, samples=20_000)
    for relation, rows in _UNITS:
        yield noise_trials.gaussian(secret, relation, rows_per_unit=rows, samples=15_000)
    for relation, keep in ((relation, keep) for relation in Relation for keep in (1, 2)):
        yield kept_trials.kept_sum(secret, relation, keep=keep, samples=10_000)
    yield noise_trials.choice(secret, samples=5_000)
    yield noise_trials.choice(simulated, samples=40_000)
    yield noise_trials.coin(secret)


def _means(secret: Noise, simulated: Noise) -> Iterator[Trial]:
    yield mean_trials.gaussian_budget(secret, dimension=2, delta=0.05, samples=10_000)
    yield mean_trials.gaussian_budget(simulated, dimension=16, delta=0.05, samples=20_000)
    yield mean_trials.gaussian_budget(simulated, dimension=16, delta=0.05, samples=20_000, axis=15)
    yield mean_trials.gaussian_budget(simulated, dimension=2, delta=0.05, rows_per_unit=3, samples=40_000)
    yield mean_trials.gaussian_budget(simulated, dimension=2, delta=1e-5, samples=40_000)
    for relation, rows in _UNITS:
        yield mean_trials.gaussian_fixed(simulated, relation, rows_per_unit=rows, selected=False, samples=20_000)
    yield mean_trials.mwem(secret, epsilon=0.5, iterations=1, calls=1, delta=0.0, samples=4_000)
    yield mean_trials.mwem(simulated, epsilon=0.5, iterations=1, calls=1, delta=0.0, samples=5_000)
    yield mean_trials.mwem(simulated, epsilon=0.2, iterations=4, calls=1, delta=0.05, samples=6_000)
    yield mean_trials.mwem(simulated, epsilon=0.2, iterations=2, calls=2, delta=0.05, samples=6_000)
    for relation, rows in _UNITS[1:]:
        yield mean_trials.mwem_rows(simulated, relation, rows_per_unit=rows, selected=False, samples=5_000)


def _selections(simulated: Noise) -> Iterator[Trial]:
    """The summary stream: sums over rows that were selected, of which some give way to others."""
    for relation, rows in _UNITS:
        yield mean_trials.gaussian_fixed(simulated, relation, rows_per_unit=rows, selected=True, samples=20_000)
    for relation in Relation:
        yield mean_trials.mwem_rows(simulated, relation, rows_per_unit=1, selected=True, samples=5_000)


def _owners(secret: Noise) -> Iterator[Trial]:
    ranked = owner_trials.threshold_plan(Observer.ONE_OWNER).offset  # where one rank decides most
    owners = owner_trials.OWNERS
    split = neighbours.coalition_is_split(owners, rank=ranked - 1)
    yield owner_trials.threshold(secret, neighbours.owner_is_overtaken(owners, rank=ranked), hears=[0])
    yield owner_trials.threshold(secret, neighbours.tie_is_lost(owners, rank=ranked), hears=[owners - 1])
    yield owner_trials.threshold(secret, neighbours.absent_owner_appears(owners, rank=ranked), hears=[0])
    yield owner_trials.threshold(secret, split, hears=[0, 1])
    yield owner_trials.threshold(secret, split, hears=[0, 1], rounds=2)
    yield owner_trials.everyone(secret)
