"""Sound twins of the broken set: the same channels and the same attacks, withstood."""

from likeset.audit.floating import reachability
from likeset.audit.sums import EVENT, PAIR, NoisySum, ResentSum, TracedSum, sum_trial
from likeset.audit.trials import Channel, Trial, draws, repeated_answers, restarted_answers
from likeset.privacy.noise import Noise, SecretNoise

__all__ = ["lattice_sum", "resent_sum", "restarted_sum", "traced_sum"]


def resent_sum(noise: Noise) -> Trial:
    """A stored answer is sent again."""
    observe = repeated_answers(lambda side: ResentSum(PAIR[side], noise), times=8)
    unseen = "requests that differ a little; what a ledger does after a crash"
    return sum_trial("sum, repeated request resent", Channel.REPEATED, observe, noise, samples=20_000, unseen=unseen)


def traced_sum(noise: Noise) -> Trial:
    """All rows are read, whatever they hold."""
    observe = draws(lambda side: TracedSum(PAIR[side], noise).answer(0))
    unseen = "time by the clock: the trace counts rows that are read"
    return sum_trial("sum, all rows read", Channel.TRACE, observe, noise, samples=20_000, unseen=unseen)


def restarted_sum() -> Trial:
    """Not prefetched: a new process has nothing in store."""
    observe = restarted_answers(lambda side: NoisySum(PAIR[side], SecretNoise()))
    unseen = "restarts of a whole machine or of a copied image"
    name = "sum, secret noise after a restart"
    return sum_trial(name, Channel.RESTARTED, observe, SecretNoise(), samples=3_000, unseen=unseen)


def lattice_sum(noise: Noise) -> Trial:
    """Mironov's attack finds nothing in integer noise: every integer can be reached from every value."""
    sums = [float(PAIR[side].sum()) for side in (0, 1)]
    return sum_trial(
        "sum, integer noise under attack on doubles",
        Channel.OUTPUT,
        lambda side, size: sums[side] + noise.discrete_laplace(EVENT.scale, size),
        noise,
        samples=20_000,
        unseen="attacks on doubles other than which ones can be reached",
        score=reachability(sums[0], sums[1], EVENT.scale),
    )
