"""Lines of results, and the table made of them."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean, stdev

from quality.judging import Line
from quality.markets import SETTINGS
from quality.methods import METHODS

__all__ = ["markdown", "read", "relative", "write_lines"]

_HEAD = (
    "| method | MMD² over exact greedy's | the same to held-out rows | linear SVM | MLP | right classes | access ratio "
    "| target, toward owners | owner's row, toward owners | seconds | seeds |"
)


def write_lines(path: Path, lines: Iterable[Line]) -> None:
    """One JSON document a line."""
    path.write_text("".join(json.dumps(line.to_json()) + "\n" for line in lines), encoding="utf-8")


def read(path: Path) -> list[Line]:
    """What ``write_lines`` wrote; nothing if there is no such file."""
    if not path.exists():
        return []
    return [Line(**json.loads(text)) for text in path.read_text(encoding="utf-8").splitlines()]


def relative(line: Line, lines: Sequence[Line], *, test: bool = False) -> float | None:
    """MMD² of a run over that of exact greedy on the same market; None where that was not run."""
    for other in lines:
        if other.method == "exact greedy" and _same_task(line, other):
            mine, its = (
                (line.squared_mmd_test, other.squared_mmd_test) if test else (line.squared_mmd, other.squared_mmd)
            )
            return mine / its
    return None


def _same_task(line: Line, other: Line) -> bool:
    """Exact greedy does not care how many rows are offered."""
    kind = {setting.name: setting.kind for setting in SETTINGS}
    mine, its = (kind[line.setting], *line.key[1:3], line.seed), (kind[other.setting], *other.key[1:3], other.seed)
    return mine == its


def markdown(lines: Sequence[Line], *, heading: str) -> str:
    """Everything as one document: a table for each market, kernel and size; means and, after ±, spreads over seeds."""
    parts = [heading]
    tasks = sorted({(line.setting, line.scale, line.size) for line in lines}, key=_order)
    for setting, scale, size in tasks:
        words = next(one.words for one in SETTINGS if one.name == setting)
        parts += [f"\n## {words[0].upper()}{words[1:]}; gamma·median = {scale:g}, p = {size}\n", _HEAD]
        parts.append("|" + "---|" * _HEAD.count(" | ") + "---|")
        parts += [
            _row(method, mine, lines)
            for method in METHODS
            if (mine := [one for one in lines if (*one.key[:3], one.method) == (setting, scale, size, method)])
        ]
    return "\n".join(parts) + "\n"


def _order(task: tuple[str, float, int]) -> tuple[bool, float, int, int]:
    """The core first: gamma·median = 3 and p = 200."""
    setting, scale, size = task
    place = [one.name for one in SETTINGS].index(setting)
    return (scale, size) != (3.0, 200), -scale, size, place


def _row(method: str, mine: Sequence[Line], lines: Sequence[Line]) -> str:
    near = [ratio for line in mine if (ratio := relative(line, lines)) is not None]
    far = [ratio for line in mine if (ratio := relative(line, lines, test=True)) is not None]
    cells = [
        method,
        _spread(near, ".2f"),
        _spread(far, ".2f"),
        _spread([line.svm for line in mine], ".3f"),
        _spread([line.mlp for line in mine], ".3f"),
        _spread([line.right for line in mine], ".2f"),
        f"{fmean(line.access_ratio for line in mine):.1f}",
        mine[0].target_guarantee,
        mine[0].owner_guarantee,
        f"{fmean(line.seconds for line in mine):.1f}",
        str(len(mine)),
    ]
    return "| " + " | ".join(cells) + " |"


def _spread(values: Sequence[float], form: str) -> str:
    if not values:
        return "-"
    if len(values) == 1:
        return f"{values[0]:{form}}"
    return f"{fmean(values):{form}} ± {stdev(values):{form}}"
