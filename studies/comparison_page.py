"""The page of a comparison: for each market and kernel a figure like the paper's and a table."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from likeset.simulation.tasks import DELTA
from studies.comparison_figures import draw_comparison
from studies.contract import SIMULATED, SIMULATED_SENTENCE, Line, Presentation, Table
from studies.methods import METHODS
from studies.series import Group, Series, increase, label, points, spread, width_words

__all__ = ["presented"]

_COLUMNS = (
    "method",
    "size",
    "MMD² to target",
    "over paper's greedy",
    "over exact",
    "MMD² to held-out",
    "SVM",
    "net",
    "access",
    "ε target (basis)",
    "ε owners (basis)",
    "seeds",
)
_BRIEF = (0, 1, 2, 3, 6, 8)  # method, size, MMD², over the paper's greedy, SVM, access
_READING = (
    "MMD² is the squared distance of the summary from the target and, beside it, from held-out rows like the "
    "target's, that nobody saw. Percentages are over greedy with the same seed and size: over the paper's (140 "
    "Fourier features) and over exact greedy. SVM: a linear one. Net: one hidden layer of 32 units with dropout 0.2 "
    "on the hidden layer, written for this, since scikit-learn's has none. Both are trained on the summary and tested "
    "on the held-out rows. Access: rows that the curator saw and the target's, over rows bought and the target's. "
    f"ε: what owners together can learn about a row of the target and about a row of another owner, at δ = {DELTA:g}, "
    "replace-one, with its basis. Mean ± standard deviation over seeds."
)


def presented(lines: Sequence[Line], out: Path, *, title: str, words: Sequence[str]) -> Presentation:
    """Tables of all finished cells, and a figure for each market and kernel."""
    done = [line for line in lines if line.done]
    groups = list(dict.fromkeys(_group(line) for line in done))
    figures, tables = {}, []
    if len({group[1:] for group in groups}) > 1:
        tables += [_scale_table(done, groups)]
    for group in groups:
        mine = [line for line in done if _group(line) == group]
        series = _series(mine)
        name = f"{group[0]}, {width_words(group)}" if len({one[0] for one in groups}) > 1 else width_words(group)
        path = out / f"{_slug(name)}.svg"
        draw_comparison(mine, series, path, title=f"{title}: {name}")
        figures[path] = f"{name}: increase of MMD² over greedy, MMD², accuracies; {SIMULATED}"
        tables.append(Table(name, _COLUMNS, _rows(mine, series), SIMULATED_SENTENCE, _BRIEF))
    return Presentation(title, [_READING, *_setting(done), *words], tables, figures)


def _group(line: Line) -> Group:
    return line["market"], line["scale"], line.settings["gamma"]


def _series(lines: Sequence[Line]) -> list[Series]:
    """Those that have lines, in the order of the registry."""
    found = {Series.of(line) for line in lines}
    order = list(METHODS)
    return sorted(found, key=lambda one: (order.index(one.method), one.epsilon or 0.0, one.offers or 0))


def _rows(lines: Sequence[Line], series: Sequence[Series]) -> list[tuple[str, ...]]:
    rows = []
    for size in sorted({line["size"] for line in lines}):
        here = [line for line in lines if line["size"] == size]
        rows += [_row(here, one, size) for one in series if any(one.has(line) for line in here)]
    return rows


def _row(lines: Sequence[Line], series: Series, size: int) -> tuple[str, ...]:
    mine = [line for line in lines if series.has(line)]
    first = mine[0].results

    def mean(result: str, form: str) -> str:
        return spread(points(mine, series, result)[size], form)

    def over(other: str) -> str:
        if series.method == other:
            return "0%"
        values = increase(lines, series, over=other, result="squared_mmd").get(size)
        return f"{fmean(values):+.0f}%" if values else "-"

    return (
        label(series),
        str(size),
        mean("squared_mmd", ".5f"),
        over("greedy"),
        over("exact"),
        mean("squared_mmd_test", ".5f"),
        mean("svm", ".3f"),
        mean("net", ".3f"),
        f"{fmean(line.results['access_ratio'] for line in mine):.1f}",
        _guarantee(first["target_guarantee"]),
        _guarantee(first["owner_guarantee"]),
        str(len(mine)),
    )


def _guarantee(stated: dict[str, Any]) -> str:
    epsilon, basis = stated["epsilon"], stated["basis"]
    if epsilon is None:
        return basis if basis == "none" else f"none ({basis})"
    return f"{epsilon:g} ({basis})"


def _scale_table(lines: Sequence[Line], groups: Sequence[Group]) -> Table:
    """The same summaries' percentages under each kernel: they say as much about the kernel as about the method."""
    shown = [one for one in _series(lines) if one.method not in ("greedy", "pooled")]
    common = sorted(
        set.intersection(*({line["size"] for line in lines if _group(line) == group} for group in groups))
    ) or [0]
    size = common[len(common) // 2]
    several = len({group[0] for group in groups}) > 1
    names = [f"{group[0]}, {width_words(group)}" if several else width_words(group) for group in groups]
    parts = [[line for line in lines if _group(line) == group] for group in groups]
    rows = []
    for one in shown:
        cells = [increase(part, one, over="greedy", result="squared_mmd").get(size) for part in parts]
        rows.append((label(one), *(f"{fmean(cell):+.0f}%" if cell else "-" for cell in cells)))
    return Table(
        f"Increase of MMD² over the paper's greedy at {size} rows, by kernel",
        ("method", *names),
        rows,
        f"A percentage depends on the kernel's scale. {SIMULATED_SENTENCE}",
    )


def _setting(lines: Sequence[Line]) -> list[str]:
    """What the markets were, as the lines say it."""
    if not lines:
        return ["No cell has finished."]
    words = []
    for market in dict.fromkeys(line["market"] for line in lines):
        one = next(line for line in lines if line["market"] == market)
        at_most = f", at most {one['rows_per_owner']} each" if one["rows_per_owner"] else ""
        offers = sorted({line["offers"] for line in lines if line["market"] == market and line["offers"]})
        each = " or ".join(map(str, offers)) or "10 p / K"
        words.append(
            f"{market}: {len(one['owner_shares'])} owners with {one['pool_rows']} rows together{at_most}; a target of "
            f"{one['target_rows']} rows; each owner offers {each} rows in `sealed` (K owners, p rows wanted)"
        )
    return [f"Data: {lines[0]['data']} (digest {lines[0]['digest']}). " + ". ".join(words) + "."]


def _slug(name: str) -> str:
    plain = name.replace("gamma·median", "median").replace(" = ", "-").replace(", ", "-")
    return plain.replace(" ", "-")
