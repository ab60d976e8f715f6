"""The picture: how far a summary is from the target, by epsilon."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev

import matplotlib as mpl

mpl.use("svg")

import matplotlib.pyplot as plt

from quality.judging import Line
from quality.markets import SETTINGS
from quality.methods import EPSILONS
from quality.report import relative

__all__ = ["draw"]

_FLAT = {
    "exact greedy": "#08415c",
    "feature greedy": "#7f7f7f",
    "uniform sampling": "#b07d62",
    "uniform offers": "#cc2936",
    "interactive, no summary release": "#8e44ad",
    "interactive, paper's settings": "#e377c2",
}


def draw(lines: Sequence[Line], file: Path) -> None:
    """One panel per market, at gamma·median = 3 and p = 200; bars are one standard deviation over seeds."""
    core = [line for line in lines if (line.scale, line.size) == (3.0, 200)]
    panels = [one for one in SETTINGS if any(line.setting == one.name for line in core)]
    if not panels:
        return
    figure, axes = plt.subplots(
        1, len(panels), figsize=(2.9 * len(panels) + 2.6, 4.4), squeeze=False, sharey=True, layout="constrained"
    )
    for axis, setting in zip(axes[0], panels, strict=True):
        mine = [line for line in core if line.setting == setting.name]
        for method, colour in _FLAT.items():
            ratios = _ratios(mine, lines, method)
            if ratios:
                axis.axhline(fmean(ratios), color=colour, linewidth=1.2, linestyle="--", label=method)
        curve = [
            (epsilon, ratios) for epsilon in EPSILONS if (ratios := _ratios(mine, lines, f"sealed, eps {epsilon:g}"))
        ]
        axis.errorbar(
            [epsilon for epsilon, _ in curve],
            [fmean(ratios) for _, ratios in curve],
            yerr=[stdev(ratios) if len(ratios) > 1 else 0.0 for _, ratios in curve],
            color="#0b6e4f",
            marker="o",
            capsize=3,
            label="sealed",
        )
        axis.set(xscale="log", yscale="log", title=setting.name, xlabel="epsilon toward owners (target's rows)")
        axis.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        axis.minorticks_off()
        axis.set_yticks([1, 1.5, 2, 3, 5, 10, 20, 50], ["1", "1.5", "2", "3", "5", "10", "20", "50"])
        axis.grid(visible=True, alpha=0.3)
    axes[0][0].set_ylabel("squared MMD to the target, over exact greedy's")
    handles = {label: one for axis in axes[0] for one, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside right center", fontsize=8, frameon=False)
    figure.suptitle(
        "MNIST, p = 200, gamma·median = 3, delta = 1e-5, replace-one; simulated noise, not private", fontsize=10
    )
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)


def _ratios(mine: Sequence[Line], lines: Sequence[Line], method: str) -> list[float]:
    found = (relative(line, lines) for line in mine if line.method == method)
    return [ratio for ratio in found if ratio is not None]
