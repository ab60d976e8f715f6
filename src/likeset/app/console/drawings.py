"""Drawings as SVG: bars of budgets, and what others could learn. Each says in words what it shows."""

from markupsafe import Markup, escape

from likeset.privacy.accounting import bound_in_words
from likeset.protocol.prices import PlannedView

_WIDTH = 400
_NOTHING = 1e-9


def budget_bar(what: str, before: float, after: float, limit: float) -> Markup:
    """One budget: what is spent, what a run adds, and the limit; past the limit where it would pass it."""
    most = max(limit, after, _NOTHING)
    if most <= _NOTHING:  # an empty bar would look like room
        shape = f'<rect class="unknown" x="1" y="4" width="{_WIDTH - 2}" height="18"/>'
        return _figure(f"{what}: the rules allow none, and none is spent", 26, shape)
    spent, added, end = (_WIDTH * part / most for part in (before, after - before, limit))
    words = f"{what}: {_number(before)} spent, {_number(after - before)} by this run, {_number(limit)} in all"
    if after == before:
        words = f"{what}: {_number(before)} of {_number(limit)} spent, {_number(max(0, limit - after))} left"
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
