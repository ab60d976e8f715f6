"""The formula behind the advice, fitted to half of the frontier's settings and checked on the others.

A release puts noise of standard deviation ``nu`` into the score of a row. Without noise it would bring the summary
nearer by some factor, which depends on how rare the right rows are and which nobody knows beforehand; with noise it
keeps the share ``1 / (1 + (nu/s)²)`` of that gain, in logarithms. The one number ``s`` is what the advice calls the
signal.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np

from likeset.privacy.events import ROW, Relation
from likeset.protocol.terms import Budget
from likeset.run.draft import ReleaseOutlook, release_outlook
from likeset.simulation import DELTA
from studies.contract import RecordLine

FACTORS = ("target", "owners", "size", "offer_factor")


@dataclass(frozen=True, slots=True)
class Point:
    """A method with a budget in a setting, over all seeds.

    Attributes:
        setting: by the name of each factor, and ``right``.
        method: of the registry.
        epsilon: the budget asked for; None for methods without.
        proven: what is proven about the target's rows toward owners; None if nothing is.
        owners_proven: the same about the rows of another owner.
        ratio: mean MMD² to held-out rows, over that of exact greedy in the same market.
        spread: its standard deviation over seeds; 0 for one seed.
        access: mean access ratio.
        right_share: mean share of rows of the target's digits.
        seeds: how many.
    """

    setting: dict[str, float]
    method: str
    epsilon: float | None
    proven: float | None
    owners_proven: float | None
    ratio: float
    spread: float
    access: float
    right_share: float
    seeds: int

    def at(self, base: dict[str, float], *, but: str = "") -> bool:
        """Whether the setting is the base's in every factor but one; offers count only where rows are offered."""
        return all(self.setting[name] == base[name] for name in (*FACTORS, "right") if name != but)


def points_of(lines: Sequence[RecordLine]) -> list[Point]:
    """One for each setting, method and budget that has a run of exact greedy beside it."""
    exact = {_market(line): line for line in lines if line.done and line["method"] == "exact"}
    groups: dict[tuple[tuple[float, ...], str, float | None], list[RecordLine]] = {}
    for line in lines:
        if line.done and _market(line) in exact:
            key = tuple(float(line[name]) for name in (*FACTORS, "right"))
            groups.setdefault((key, line["method"], line["epsilon"]), []).append(line)
    averages = []
    for (key, method, epsilon), runs in groups.items():
        ratios = [run["squared_mmd_held_out"] / exact[_market(run)]["squared_mmd_held_out"] for run in runs]
        averages.append(
            Point(
                setting=dict(zip((*FACTORS, "right"), key, strict=True)),
                method=method,
                epsilon=epsilon,
                proven=runs[0]["target_guarantee"]["epsilon"],
                owners_proven=runs[0]["owner_guarantee"]["epsilon"],
                ratio=fmean(ratios),
                spread=stdev(ratios) if len(ratios) > 1 else 0.0,
                access=fmean(run["access_ratio"] for run in runs),
                right_share=fmean(run["right_share"] for run in runs),
                seeds=len(runs),
            )
        )
    return averages


def _market(line: RecordLine) -> tuple[float, ...]:
    return (*(float(line[name]) for name in (*FACTORS, "right")), line["seed"])


NO_NOISE = 1000.0
"""An epsilon at which the release is as good as exact."""

_FACTORS = ("target", "owners", "size", "offer_factor", "right")
_LEAST_GAIN = math.log(1.1)
"""Below ten percent there is nothing to win, and shares of it are noise."""


@dataclass(frozen=True, slots=True)
class Gain:
    """What a release of some epsilon gained over none, in one setting.

    Attributes:
        setting: target rows, owners, size, offer factor, right rows in the pool.
        epsilon: of the release.
        noise: in the score of a row.
        gained: mean logarithm of held-out MMD² with uniform offers over that with tilted ones.
        best: the same for a release without noise.
        seeds: how many it is the mean of.
    """

    setting: tuple[float, ...]
    epsilon: float
    noise: float
    gained: float
    best: float
    seeds: int

    @property
    def share(self) -> float:
        """Of what a release without noise gains."""
        return self.gained / self.best

    @property
    def offer_factor(self) -> float:
        """Rows offered per row wanted."""
        return self.setting[_FACTORS.index("offer_factor")]

    @property
    def counts(self) -> bool:
        """Whether there is anything to win in this setting."""
        return self.best >= _LEAST_GAIN


@dataclass(frozen=True, slots=True)
class Fit:
    """The fitted formula.

    Attributes:
        signal: at ten offers per row wanted.
        power: with which it grows with the number of offers.
    """

    signal: float
    power: float

    def at(self, offer_factor: float) -> float:
        """The signal at a number of offers per row wanted."""
        return self.signal * math.pow(offer_factor / 10.0, self.power)

    def share(self, noise: float, offer_factor: float = 10.0) -> float:
        """What a release keeps of the gain."""
        return 1.0 / (1.0 + (noise / self.at(offer_factor)) ** 2)


def outlook_of(*, target: int, epsilon: float, offer_factor: float) -> ReleaseOutlook:
    """What ``likeset plan`` would say about a release, replace-one, at the studies' delta."""
    return release_outlook(
        Budget(epsilon, DELTA),
        target_size=target,
        dimension=140,
        relation=Relation.REPLACE_ONE,
        unit=ROW,
        offer_factor=offer_factor,
    )


def fit_in_use() -> Fit:
    """The formula as the advice has it."""
    usual, more = (outlook_of(target=360, epsilon=1.0, offer_factor=factor).signal for factor in (10.0, 100.0))
    return Fit(usual, math.log10(more / usual))


def measured_gains(lines: Iterable[RecordLine]) -> list[Gain]:
    """One for each setting and epsilon of ``sealed`` for which there is a run without release and one without noise."""
    mmd_by_setting: dict[tuple[float, ...], dict[int, dict[float, float]]] = {}
    for line in lines:
        if line.done and line["method"] in ("sealed", "uniform-offers"):
            key = tuple(float(line[name]) for name in _FACTORS)
            runs = mmd_by_setting.setdefault(key, {}).setdefault(line["seed"], {})
            runs[line["epsilon"] or 0.0] = math.log(line["squared_mmd_held_out"])
    gains = []
    for setting, seeds in mmd_by_setting.items():
        whole = [runs for runs in seeds.values() if 0.0 in runs and NO_NOISE in runs]
        for epsilon in sorted({epsilon for runs in whole for epsilon in runs} - {0.0, NO_NOISE}):
            gains += [gain for gain in [_gain(setting, epsilon, whole)] if gain is not None]
    return gains


def _gain(setting: tuple[float, ...], epsilon: float, runs: Sequence[Mapping[float, float]]) -> Gain | None:
    mine = [run for run in runs if epsilon in run]
    if not mine:
        return None
    return Gain(
        setting=setting,
        epsilon=epsilon,
        noise=outlook_of(target=int(setting[0]), epsilon=epsilon, offer_factor=setting[3]).noise,
        gained=fmean(run[0.0] - run[epsilon] for run in mine),
        best=fmean(run[0.0] - run[NO_NOISE] for run in mine),
        seeds=len(mine),
    )


def halves(gains: Sequence[Gain]) -> tuple[list[Gain], list[Gain]]:
    """Every other setting, unusual numbers of offers first, so that both halves have some; budgets stay together."""
    offers = _FACTORS.index("offer_factor")
    settings = sorted(
        {gain.setting for gain in gains},
        key=lambda setting: (setting[offers] == 10.0, setting[offers], setting[-1], setting),
    )
    first = set(settings[::2])
    return [gain for gain in gains if gain.setting in first], [gain for gain in gains if gain.setting not in first]


def fit_signal(gains: Sequence[Gain]) -> Fit:
    """Least squares in logarithms of MMD²: settings in which a release can win more count for more.

    The power is fitted only where there is more than one number of offers; otherwise it is 0.
    """
    several = len({gain.offer_factor for gain in gains}) > 1
    powers = np.linspace(0.0, 1.5, 31) if several else np.zeros(1)
    signals = np.geomspace(0.005, 1.0, 531)  # steps of one percent
    fits = [Fit(float(signal), float(power)) for power in powers for signal in signals]
    noise, offers, gained, best = (
        np.array([getattr(gain, name) for gain in gains]) for name in ("noise", "offer_factor", "gained", "best")
    )
    at = np.array([fit.signal for fit in fits])[:, None] * (offers / 10.0) ** np.array([f.power for f in fits])[:, None]
    left = gained - best / (1.0 + (noise / at) ** 2)
    return fits[int(np.argmin((left**2).sum(axis=1)))]


def residual(gains: Sequence[Gain], fit: Fit) -> float:
    """Root mean square of what the formula leaves of the measured gains, in logarithms of MMD²."""
    left = (gain.gained - gain.best * fit.share(gain.noise, gain.offer_factor) for gain in gains)
    return math.sqrt(fmean(value**2 for value in left))


def agreement(gains: Sequence[Gain], *, fit: Fit, margin: float) -> tuple[int, int]:
    """How often 'pays', noise at most the signal, agrees with having kept half of the gain: (right, of how many).

    Left out are settings with nothing to win, and noise within a factor ``margin`` of the signal, where either word is
    as good.
    """
    right = clear = 0
    for gain in gains:
        ratio = gain.noise / fit.at(gain.offer_factor)
        if gain.counts and not 1.0 / margin < ratio < margin:
            clear += 1
            right += (ratio <= 1.0) == (gain.share >= 0.5)
    return right, clear
