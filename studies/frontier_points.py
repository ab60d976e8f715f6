"""Runs of the frontier beside the yardsticks of the same market: ratios, and means over seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from studies.contract import RecordLine

FACTORS = ("target", "owners", "size", "offer_factor")


@dataclass(frozen=True, slots=True)
class Point:
    """A method with a budget in a setting, over all seeds.

    Attributes:
        setting: by the name of each factor, and ``right``.
        method: of the registry.
        epsilon: the budget asked for; None for methods without.
        proven: what is proven about the target's rows toward owners; None where nothing is.
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
