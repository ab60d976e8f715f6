"""The page of a comparison: for each market and kernel a figure like the paper's and a table."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from likeset.simulation import DELTA
from studies.comparison_figures import draw_comparison
from studies.contract import SIMULATED, SIMULATED_SENTENCE, Presentation, RecordLine, Table
from studies.methods import METHODS
from studies.series import Group, Series, increase, label, results_by_size, spread, width_words

_COLUMNS = (
    "method",
    "size",
    "MMD² to target",
    "over paper's greedy",
    "over exact",
    "MMD² to held-out",
    "SVM",
    "balanced",
    "AUC",
    "net",
    "access",
    "ε target (basis)",
    "ε owners (basis)",
    "seeds",
)
_BRIEF = (0, 1, 2, 3, 6, 10)  # method, size, MMD², over the paper's greedy, SVM, access
_READING = (
    "MMD² is the squared distance of the summary from the target and, beside it, from held-out rows like the "
    "target's, that nobody saw. Percentages are over greedy with the same seed and size: over the paper's (140 "
    "Fourier features) and over exact greedy. SVM: the accuracy of a linear one, then its balanced accuracy and, of "
    "two classes, its AUC. Net: one hidden layer of 32 units with dropout 0.2 "
    "on the hidden layer, written for this, since scikit-learn's has none. Both are trained on the summary and tested "
    "on the held-out rows. Access: rows that the curator saw and the target's, over rows bought and the target's. "
    f"ε: what owners together can learn about a row of the target and about a row of another owner, at δ = {DELTA:g}, "
    "replace-one, with its basis. Mean ± standard deviation over seeds."
)


def present_comparison(lines: Sequence[RecordLine], out: Path, *, title: str, words: Sequence[str]) -> Presentation:
    """Tables of all finished cells, and a figure for each market and kernel."""
    done = [line for line in lines if line.done]
    groups = list(dict.fromkeys(_group(line) for line in done))
    figures, tables = {}, []
    if len({group[1:] for group in groups}) > 1:
        tables += [_scale_table(done, groups)]
    for group in groups:
        mine = [line for line in done if _group(line) == group]
        series = _series(mine)
        name = f"{group[0]}, {width_words(group)}" if len({other[0] for other in groups}) > 1 else width_words(group)
        path = out / f"{_slug(name)}.svg"
        draw_comparison(mine, series, path, title=f"{title}: {name}")
        figures[path] = f"{name}: increase of MMD² over greedy, MMD², accuracies; {SIMULATED}"
        tables.append(Table(name, _COLUMNS, _rows(mine, series), SIMULATED_SENTENCE, _BRIEF))
    return Presentation(title, [_READING, *_setting(done), *words], tables, figures)


def _group(line: RecordLine) -> Group:
    return line["market"], line["scale"], line.settings["gamma"]


def _series(lines: Sequence[RecordLine]) -> list[Series]:
    """Those that have lines, in the order of the registry."""
    members = {Series.of(line) for line in lines}
    order = list(METHODS)
    return sorted(members, key=lambda member: (order.index(member.method), member.epsilon or 0.0, member.offers or 0))


def _rows(lines: Sequence[RecordLine], series: Sequence[Series]) -> list[tuple[str, ...]]:
    rows = []
    for size in sorted({line["size"] for line in lines}):
        here = [line for line in lines if line["size"] == size]
        rows += [_row(here, member, size) for member in series if any(member.has(line) for line in here)]
    return rows


def _row(lines: Sequence[RecordLine], series: Series, size: int) -> tuple[str, ...]:
    mine = [line for line in lines if series.has(line)]
    first = mine[0].results

    def mean(result: str, form: str) -> str:
        return spread(results_by_size(mine, series, result)[size], form)

    def mean_if_known(result: str) -> str:
        return mean(result, ".3f") if all(result in line.results for line in mine) else "-"

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
        mean_if_known("svm_balanced"),
        mean_if_known("svm_auc"),
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


def _scale_table(lines: Sequence[RecordLine], groups: Sequence[Group]) -> Table:
    """The same summaries' percentages under each kernel: they say as much about the kernel as about the method."""
    shown = [member for member in _series(lines) if member.method not in ("greedy", "pooled")]
    common = sorted(
        set.intersection(*({line["size"] for line in lines if _group(line) == group} for group in groups))
    ) or [0]
    size = common[len(common) // 2]
    several = len({group[0] for group in groups}) > 1
    names = [f"{group[0]}, {width_words(group)}" if several else width_words(group) for group in groups]
    parts = [[line for line in lines if _group(line) == group] for group in groups]
    rows = []
    for member in shown:
        cells = [increase(part, member, over="greedy", result="squared_mmd").get(size) for part in parts]
        rows.append((label(member), *(f"{fmean(cell):+.0f}%" if cell else "-" for cell in cells)))
    return Table(
        f"Increase of MMD² over the paper's greedy at {size} rows, by kernel",
        ("method", *names),
        rows,
        f"A percentage depends on the kernel's scale. {SIMULATED_SENTENCE}",
    )


def _setting(lines: Sequence[RecordLine]) -> list[str]:
    """What the markets were, as the lines say it."""
    if not lines:
        return ["No cell has finished."]
    words = []
    for market in dict.fromkeys(line["market"] for line in lines):
        first = next(line for line in lines if line["market"] == market)
        at_most = f", at most {first['rows_per_owner']} each" if first["rows_per_owner"] else ""
        offers = sorted({line["offers"] for line in lines if line["market"] == market and line["offers"]})
        offered = " or ".join(map(str, offers)) or "10 p / K"
        words.append(
            f"{market}: {len(first['owner_shares'])} owners with {first['pool_rows']} rows together{at_most}; a target "
            f"of {first['target_rows']} rows; each owner offers {offered} rows in `sealed` (K owners, p rows wanted)"
        )
    return [f"Data: {lines[0]['data']} (digest {lines[0]['digest']}). " + ". ".join(words) + "."]


def _slug(name: str) -> str:
    plain = name.replace("gamma·median", "median").replace(" = ", "-").replace(", ", "-")
    return plain.replace(" ", "-")
