"""The figures of ``frontier``: the frontier itself, one factor at a time, and the formula behind the advice."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from studies.canvas import draw_panels, plain_log_axis
from studies.frontier_fit import NO_NOISE, Fit, Gain
from studies.frontier_points import FACTORS, Point

LABELS = {
    "sealed": "sealed",
    "sealed-hashed": "sealed, hash-only",
    "uniform-offers": "uniform offers (epsilon = 0)",
    "private-silent": "interactive, summary not released",
    "private-sound": "interactive, sound",
    "private": "interactive, published (owners: no guarantee)",
    "uniform": "uniform sampling (epsilon = 0)",
}
_COLOURS = {
    "sealed": "#0b8457",
    "sealed-hashed": "#7ac29a",
    "uniform-offers": "#b5a300",
    "private-silent": "#c67bb5",
    "private-sound": "#f28e2b",
    "private": "#d62839",
    "uniform": "#8d5b3e",
}
_EPSILON_TICKS = [0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0]
_RATIO_TICKS = [1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0]
_WORDS = {
    "target": "rows of the target (m)",
    "owners": "owners (K)",
    "size": "rows wanted (p)",
    "offer_factor": "rows offered per row wanted",
}
_FACTOR_COLOURS = {"base": "#1b2a41", "target": "#0b8457", "owners": "#4c78a8", "size": "#d62839"}
_FACTOR_COLOURS["offer_factor"] = "#b5a300"


def draw_frontier(
    points: Sequence[Point], bases: Sequence[dict[str, float]], path: Path, *, pool: int, note: str
) -> Path:
    """MMD² over exact greedy's against the proven epsilon, a panel for each share of right rows."""

    def fill(panels: Any) -> None:
        for axes, base in zip(panels[0], bases, strict=True):
            for method, label in LABELS.items():
                mine = [
                    point for point in points if point.method == method and point.at(base) and point.epsilon != NO_NOISE
                ]
                if mine:
                    _frontier_curve(axes, mine, method, label)
            axes.axhline(1.0, color="#1b2a41", linewidth=1.0)
            axes.text(0.082, 0.985, "exact greedy", fontsize=8.5, color="#1b2a41", va="top")
            plain_log_axis(axes.xaxis, _EPSILON_TICKS)
            plain_log_axis(axes.yaxis, _RATIO_TICKS)
            axes.set(xlabel="epsilon proven for the target's rows, toward owners", xlim=(0.08, 10.0))
            axes.set_title(f"right rows: 1 in {round(pool / base['right'])}")
        shown = [point.ratio + point.spread for point in points if any(point.at(base) for base in bases)]
        for axes in panels[0]:
            axes.set_ylim(0.85, 1.25 * max(shown))
        panels[0][0].set_ylabel("held-out MMD² over exact greedy's")
        handles, names = panels[0][0].get_legend_handles_labels()
        for size in (1.0, 4.0):
            handles.append(panels[0][0].scatter([], [], s=_area(size), color="#aaaaaa"))
            names.append(f"access ratio {size:g}")
        panels[0][0].figure.legend(handles, names, loc="outside right upper", fontsize=8.5)

    base = bases[0]
    title = (
        f"Quality against privacy: m = {base['target']:g}, K = {base['owners']:g}, p = {base['size']:g}, "
        f"{base['offer_factor']:g} offers per row"
    )
    return draw_panels(path, fill, columns=len(bases), title=title, note=note, width=6.6, height=5.0)


def _frontier_curve(axes: Any, mine: Sequence[Point], method: str, label: str) -> None:
    colour = _COLOURS[method]
    ordered = sorted(mine, key=lambda point: point.proven or 0.0)
    if (ordered[0].proven or 0.0) == 0.0:
        # A logarithmic axis has no zero: what costs nothing is a level line.
        axes.axhline(ordered[0].ratio, color=colour, linestyle="--", linewidth=1.4, label=label)
        axes.scatter([0.085], [ordered[0].ratio], s=_area(ordered[0].access), color=colour, marker="<", clip_on=False)
        return
    x, y = [point.proven for point in ordered], [point.ratio for point in ordered]
    axes.errorbar(x, y, yerr=[point.spread for point in ordered], color=colour, linewidth=1.3, capsize=2, alpha=0.8)
    whole = ordered[0].owners_proven is not None
    axes.scatter(
        x,
        y,
        s=[_area(point.access) for point in ordered],
        facecolor=colour if whole else "white",
        edgecolor=colour,
        linewidth=1.5,
        label=label,
        zorder=3,
    )


def _area(access: float) -> float:
    return 16.0 * access


def draw_factors(
    points: Sequence[Point], bases: Sequence[dict[str, float]], path: Path, *, pool: int, note: str
) -> Path:
    """The same ratios, one factor at a time."""
    curves = (
        ("uniform-offers", None, "#b5a300", "uniform offers, epsilon = 0"),
        ("sealed", 0.25, "#a6dbc0", "sealed, epsilon = 0.25"),
        ("sealed", 1.0, "#3fae7f", "sealed, epsilon = 1"),
        ("sealed", 4.0, "#0b5d3e", "sealed, epsilon = 4"),
        ("sealed-hashed", 1.0, "#4c78a8", "sealed, hash-only, epsilon = 1"),
    )

    shown: dict[float, list[float]] = {base["right"]: [2.0] for base in bases}

    def fill(panels: Any) -> None:
        for line, base in zip(panels, bases, strict=True):
            for axes, factor in zip(line, FACTORS, strict=True):
                ticks: set[float] = set()
                for method, epsilon, colour, label in curves:
                    mine = [
                        point
                        for point in points
                        if (point.method, point.epsilon) == (method, epsilon) and point.at(base, but=factor)
                    ]
                    if not mine:
                        continue
                    mine.sort(key=lambda point: point.setting[factor])
                    positions = [point.setting[factor] for point in mine]
                    shown[base["right"]] += [point.ratio + point.spread for point in mine]
                    ticks |= set(positions)
                    axes.errorbar(
                        positions,
                        [point.ratio for point in mine],
                        yerr=[point.spread for point in mine],
                        color=colour,
                        marker="o",
                        markersize=4,
                        capsize=2,
                        label=label,
                    )
                axes.axhline(1.0, color="#1b2a41", linewidth=0.8)
                plain_log_axis(axes.xaxis, sorted(ticks))
                plain_log_axis(axes.yaxis, [1.0, 1.2, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 15.0, 20.0])
                axes.set(xlabel=_WORDS[factor])
            line[0].set_ylabel(f"MMD² over exact greedy's\nright rows: 1 in {round(pool / base['right'])}")
            for axes in line:
                axes.set_ylim(0.9, 1.2 * max(shown[base["right"]]))
        handles, names = panels[0][0].get_legend_handles_labels()
        panels[0][0].figure.legend(handles, names, loc="outside upper right", fontsize=9, ncols=5)

    return draw_panels(
        path, fill, columns=4, rows=len(bases), title="One factor at a time", note=note, width=3.6, height=3.3
    )


def draw_advice(gains: Sequence[Gain], fitted: Fit, path: Path, *, base: dict[str, float], note: str) -> Path:
    """Shares of the gain against noise over signal, and predictions, for the settings left out of the fit."""
    counted = [gain for gain in gains if gain.counts]

    def fill(panels: Any) -> None:
        left, right = panels[0]
        for factor, colour in _FACTOR_COLOURS.items():
            mine = [gain for gain in counted if _factor(gain, base) == factor]
            if mine:
                label = "the base" if factor == "base" else f"other {_WORDS[factor]}"
                noises = [gain.noise / fitted.at(gain.offer_factor) for gain in mine]
                left.scatter(noises, [gain.share for gain in mine], color=colour, s=24, alpha=0.85, label=label)
        ratios = np.geomspace(0.01, 20.0, 200)
        left.plot(ratios, 1.0 / (1.0 + ratios**2), color="#1b2a41", label="1 / (1 + (noise/signal)²)")
        left.axvspan(1.0, 20.0, color="#eeeeee", zorder=0)
        left.text(1.15, 1.28, "a release does not pay:\nuniform offers", fontsize=8.5, color="#555555", va="top")
        left.axhline(0.0, color="#888888", linewidth=0.8)
        plain_log_axis(left.xaxis, [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0])
        left.set(xlabel="noise in a row's score over the signal", ylabel="share kept of the gain without noise")
        left.set(xlim=(0.01, 20.0), ylim=(-0.5, 1.4))
        left.legend(fontsize=8.5, loc="lower left")
        left.set_title("What noise leaves of a release's gain")
        predicted = [gain.best * fitted.share(gain.noise, gain.offer_factor) for gain in gains]
        measured = [gain.gained for gain in gains]
        right.scatter(np.exp(predicted), np.exp(measured), color="#4c78a8", s=24, alpha=0.85)
        ends = [0.85, math.exp(max(*predicted, *measured)) * 1.1]
        right.plot(ends, ends, color="#1b2a41", linewidth=1.0)
        for axis in (right.xaxis, right.yaxis):
            plain_log_axis(axis, [1.0, 1.5, 2.0, 3.0, 5.0])
        right.set(xlim=ends, ylim=ends, xlabel="predicted by the fit to the other half", ylabel="measured")
        right.set_title("MMD² of uniform offers over sealed's")

    return draw_panels(path, fill, columns=2, title="When a release pays", note=note, width=6.0, height=4.8)


def _factor(gain: Gain, base: dict[str, float]) -> str:
    changed = [name for name, value in zip(FACTORS, gain.setting, strict=False) if base[name] != value]
    return changed[0] if changed else "base"
