"""The page of ``frontier``: figures, tables, and how well the advice does."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from studies.contract import Presentation, RecordLine, Table
from studies.frontier_figures import LABELS, draw_advice, draw_factors, draw_frontier
from studies.frontier_fit import (
    NO_NOISE,
    Fit,
    Gain,
    agreement,
    fit_in_use,
    fit_signal,
    halves,
    measured_gains,
    residual,
)
from studies.frontier_market import base_of
from studies.frontier_points import FACTORS, Point, points_of

MARGIN = 1.5
"""Noise within this factor of the signal: either word is as good."""


def present_frontier(lines: Sequence[RecordLine], out: Path) -> Presentation:
    """Figures and tables of whatever was run."""
    done = [line for line in lines if line.done]
    points, gains = points_of(done), measured_gains(done)
    pool, data = done[0]["pool"], done[0]["data"]
    rights = sorted({point.setting["right"] for point in points}, reverse=True)
    bases = [{**asdict(base_of(data)), "right": right} for right in rights]
    note = (
        f"Data: {data}, {pool:,} rows in all; gamma·median = 3, delta = 1e-5, replace-one; "
        f"{_seeds_in_words(done)}. Numbers: cells.jsonl."
    )
    figures = {
        draw_frontier(points, bases, out / "frontier.svg", pool=pool, note=note): (
            "MMD² over exact greedy's against the proven epsilon, by protocol; area: access ratio."
        ),
        draw_factors(points, bases, out / "frontier-factors.svg", pool=pool, note=note): "One factor at a time.",
    }
    tables = [_base_table(points, base, pool) for base in bases] + [_settings_table(points)]
    if len({gain.setting for gain in gains}) >= 2:
        first, second = halves(gains)
        fitted = fit_signal(first)
        figures[draw_advice(second, fitted, out / "frontier-advice.svg", base=bases[0], note=note)] = (
            "Left: what noise leaves of a release's gain, on settings left out of the fit. Right: the same, predicted."
        )
        tables.append(_fit_table(first, second))
    return Presentation(
        "Quality against privacy",
        [
            "Target: 3s and 4s at 0.7/0.3. Every digit is dealt to the owners in proportions of its own "
            "(Dirichlet, 0.3). MMD² is to held-out rows of the target's kind, which no method saw. Exact greedy sees "
            "all rows and does not swap at the end, as the curator of sealed does: less than 1 is possible.",
            "interactive and the published protocol were run up to 500 rounds and 4,000 bids.",
        ],
        tables,
        figures,
    )


def _seeds_in_words(lines: Sequence[RecordLine]) -> str:
    """How many seeds the means are over: not all cells need have been run with all."""
    seeds = len({line["seed"] for line in lines})
    return "one seed" if seeds == 1 else f"means over up to {seeds} seeds, bars: one standard deviation"


def _spread(point: Point) -> str:
    return f"{point.ratio:.2f} ± {point.spread:.2f}" if point.seeds > 1 else f"{point.ratio:.2f}"


def _epsilon(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"


def _base_table(points: Sequence[Point], base: dict[str, float], pool: int) -> Table:
    rows = []
    for method, label in LABELS.items():
        mine = [point for point in points if point.method == method and point.at(base)]
        for point in sorted(mine, key=lambda point: point.epsilon or 0.0):
            name = "sealed, no noise (not private)" if point.epsilon == NO_NOISE else label
            proven = "-" if point.epsilon == NO_NOISE else _epsilon(point.proven)
            cells = [
                _spread(point),
                f"{point.right_share:.2f}",
                f"{point.access:.1f}",
                str(point.seeds),
            ]
            rows.append([name, proven, _epsilon(point.owners_proven), *cells])
    where = (
        f"m = {base['target']:g}, K = {base['owners']:g}, p = {base['size']:g}, {base['offer_factor']:g} offers a row"
    )
    return Table(
        f"At the base, right rows 1 in {round(pool / base['right'])}: {where}",
        [
            "protocol",
            "epsilon, target",
            "epsilon, owners",
            "MMD² over exact greedy's",
            "right digits",
            "access ratio",
            "seeds",
        ],
        rows,
    )


def _settings_table(points: Sequence[Point]) -> Table:
    """Every setting with uniform offers and sealed at some budgets."""
    settings = list(
        {tuple(point.setting.items()): point.setting for point in points if point.method == "sealed"}.values()
    )
    epsilons = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, NO_NOISE)
    rows = []
    for setting in settings:
        mine = {(point.method, point.epsilon): point for point in points if point.setting == setting}
        cells = [mine.get(("uniform-offers", None)), *(mine.get(("sealed", epsilon)) for epsilon in epsilons)]
        rows.append(
            [
                ", ".join(f"{setting[name]:g}" for name in (*FACTORS, "right")),
                *("-" if point is None else f"{point.ratio:.2f}" for point in cells),
                str(max(point.seeds for point in cells if point is not None)),
            ]
        )
    heads = [f"sealed {epsilon:g}" for epsilon in epsilons[:-1]]
    return Table(
        "MMD² over exact greedy's in every setting",
        ["m, K, p, offers per row, right rows", "uniform offers", *heads, "no noise", "seeds"],
        rows,
    )


def _fit_table(first: Sequence[Gain], second: Sequence[Gain]) -> Table:
    fits = {
        "fitted to one half of the settings": fit_signal(first),
        "fitted to the other half": fit_signal(second),
        "fitted to all": fit_signal([*first, *second]),
        "what the advice uses": fit_in_use(),
        "if noise did nothing": Fit(1e9, 0.0),
        "if a release never gained anything": Fit(1e-9, 0.0),
    }
    rows = []
    for name, fit in fits.items():
        known = 1e-6 < fit.signal < 1e6
        words = [f"{fit.signal:.3f}", f"{fit.power:.2f}"] if known else ["-", "-"]
        errors = [f"{residual(gains, fit):.3f}" for gains in (first, second)]
        agreed = ["{} of {}".format(*agreement(gains, fit=fit, margin=MARGIN)) for gains in (first, second)]
        rows.append([name, *words, *errors, *(agreed if known else ["-", "-"])])
    return Table(
        "The formula behind the advice: share kept of the gain = 1 / (1 + (noise/signal)²)",
        [
            "formula",
            "signal at 10 offers per row",
            "power of the offers",
            "RMS error of log MMD², one half",
            "the other half",
            "advice right, one half",
            "the other half",
        ],
        rows,
        "Advice: a release pays where noise is at most the signal; right where the release kept half of its gain. "
        "Left out of the last two columns: settings where even a release without noise gains less than a tenth, and "
        f"noise within a factor {MARGIN:g} of the signal.",
    )
