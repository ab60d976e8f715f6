"""Drawings as SVG: bars of budgets, what others could learn, budgets over time. Each says in words what it shows."""

from collections.abc import Sequence
from datetime import datetime

from markupsafe import Markup, escape

from likeset.homes.policy import Accounts, TotalLimit
from likeset.privacy.guarantee import bound_in_words
from likeset.protocol.prices import PlannedView

_WIDTH = 400
_MOST_POINTS = 200
_NOTHING = 1e-9


def budget_bars(accounts: Accounts, limit: TotalLimit) -> list[Markup]:
    readable = limit.rows if limit.readable is None else limit.readable
    return [
        budget_bar("rows that leave", accounts.rows_spent, accounts.rows_after, limit.rows),
        budget_bar("rows that one party may read", accounts.read_spent, accounts.read_after, readable),
        budget_bar("epsilon to owners", accounts.epsilon_spent, accounts.epsilon_after, limit.epsilon),
    ]


def budget_bar(what: str, before: float, after: float, limit: float) -> Markup:
    """One budget: what is spent, what a run adds, and the limit; past the limit where it would pass it."""
    most = max(limit, after, _NOTHING)
    spent, added, end = (_WIDTH * part / most for part in (before, after - before, limit))
    left = max(0, limit - after)
    words = f"{what}: {_number(before)} spent, {_number(after - before)} by this run, {_number(limit)} in all"
    words = words if after != before else f"{what}: {_number(before)} of {_number(limit)} spent, {_number(left)} left"
    if most <= _NOTHING:  # an empty bar would look like room
        return _figure(
            f"{what}: the rules allow none, and none is spent",
            26,
            f'<rect class="unknown" x="1" y="4" width="{_WIDTH - 2}" height="18"/>',
        )
    over = ' class="over"' if after > limit else ' class="added"'
    return _figure(
        words,
        26,
        f'<rect class="room" x="0" y="4" width="{_WIDTH}" height="18" rx="3"/>'
        f'<rect class="spent" x="0" y="4" width="{spent:.1f}" height="18" rx="3"/>'
        f'<rect{over} x="{spent:.1f}" y="4" width="{added:.1f}" height="18"/>'
        f'<line class="limit" x1="{min(end, _WIDTH - 1):.1f}" y1="0" x2="{min(end, _WIDTH - 1):.1f}" y2="26"/>',
    )


def learned(others: PlannedView, *, unit: str) -> Markup:
    """How often a guess about one row is right: by a coin, and by what other owners hear."""
    if others.guess is None:
        words = "Nobody can say how much other owners learn: there is no proof."
        return _figure(words, 60, _bar(6, _WIDTH, "unknown") + _bar(34, _WIDTH, "unknown"))
    cost = others.guarantee
    guess = bound_in_words(others.guess, epsilon=cost.epsilon, delta=cost.delta, relation=cost.relation, unit=unit)
    words = f"By what other owners hear in this run, {guess}. Above: by a coin, 50%. Below: at most, by what they hear."
    return _figure(words, 60, _bar(6, _WIDTH / 2.0, "without") + _bar(34, _WIDTH * others.guess, "with"))


def over_time(what: str, course: Sequence[tuple[str, float]], limit: float) -> Markup | None:
    """What was spent of a budget after each charge, as stairs below the limit; None before anything was.

    Args:
        what: is counted.
        course: when, and how much was spent by then.
        limit: over all runs.
    """
    if not course or not course[-1][1]:
        return None
    steps = _thinned([(datetime.fromisoformat(at).timestamp(), spent) for at, spent in course])
    total, most = course[-1][1], max(limit, course[-1][1], _NOTHING)
    first, span = steps[0][0], max(steps[-1][0] - steps[0][0], 1.0)
    path, height = [f"M 0 {_y(0, most):.1f}"], 0.0
    for at, spent in steps:
        x = 12 + (_WIDTH - 24) * (at - first) / span
        path.append(f"L {x:.1f} {_y(height, most):.1f} L {x:.1f} {_y(spent, most):.1f}")
        height = spent
    path.append(f"L {_WIDTH} {_y(height, most):.1f}")
    begin, end = (f"{datetime.fromisoformat(course[place][0]):%Y-%m-%d}" for place in (0, -1))
    plural = "" if len(course) == 1 else "s"
    words = (
        f"{what}: {_number(total)} of {_number(limit)} spent, by {len(course):,} charge{plural} from {begin} to {end}"
    )
    line, ground = _y(limit, most), _y(0, most)
    return _figure(
        words,
        168,
        f'<line class="ground" x1="0" y1="{ground:.1f}" x2="{_WIDTH}" y2="{ground:.1f}"/>'
        f'<line class="limit" x1="0" y1="{line:.1f}" x2="{_WIDTH}" y2="{line:.1f}"/>'
        f'<path class="curve" d="{" ".join(path)}"/>'
        f'<text class="axis" x="0" y="{line - 4:.1f}">limit {_number(limit)}</text>'
        f'<text class="axis" x="0" y="164">{begin}</text>'
        f'<text class="axis" x="{_WIDTH}" y="164" text-anchor="end">{end}</text>',
    )


def _thinned(steps: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The same curve with fewer points: the last one stays."""
    every = -(-len(steps) // _MOST_POINTS)
    return [*steps[: len(steps) - 1 : every], steps[-1]]


def _y(value: float, most: float) -> float:
    return 148.0 - 130.0 * value / most


def _bar(top: int, width: float, kind: str) -> str:
    return f'<rect class="{kind}" x="0" y="{top}" width="{width:.1f}" height="20" rx="3"/>'


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _figure(words: str, height: int, shapes: str) -> Markup:
    """A drawing above its words, which are read out in its place. Shapes are written here alone."""
    return Markup(
        '<figure class="drawing"><svg viewBox="0 0 {width} {height}" aria-hidden="true">{shapes}</svg>'
        "<figcaption>{words}</figcaption></figure>"
    ).format(width=_WIDTH, height=height, words=escape(words), shapes=Markup(shapes))  # noqa: S704
