"""Runs that a consumer has signed and that have released nothing yet: may all of them be released?

Nothing is reserved for a run when its terms are signed. Owners may never answer, and an invitation that waits for them
would block the budget until it expires. The charge comes with the release, which is refused where too little is left:
so no budget is ever exceeded, but the run that comes last ends without a summary, though owners approved it. Whoever
signs hears of that beforehand.
"""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime

from likeset.homes.consumer.home import ConsumerHome, KeptRun
from likeset.ledger import Ledger
from likeset.privacy.events import Composition
from likeset.privacy.guarantee import View
from likeset.protocol.notices import Notice
from likeset.protocol.plans import PlannedView, planned_views

__all__ = ["SignedTogether", "signed_together"]

_RELEASE = "/target-release"
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class SignedTogether(Notice):
    """Runs that are signed and, released all, would exceed the target's budget.

    Attributes:
        runs: their names.
        epsilon: what owners would then know.
        limit: what they may know.
        ledger: file of the budget.
        consumer: whose rows it is about.
    """

    kind = "signed-runs-exceed-budget"
    runs: tuple[str, ...]
    epsilon: float
    limit: float
    ledger: str
    consumer: str

    @property
    def text(self) -> str:
        """The words."""
        return (
            f"runs {', '.join(self.runs)} are signed and have released nothing yet; together they come to epsilon = "
            f"{self.epsilon:.3g}, and the limit is {self.limit:.3g}: the last of them will be refused when it is to be "
            f"released. Cancel one (likeset run cancel), or raise the limit: likeset ledger limit "
            f"{shlex.quote(self.ledger)} --of {self.consumer} --epsilon {self.epsilon + 0.005:.2f}"
        )


def signed_together(home: ConsumerHome, *, today: date | None = None) -> tuple[SignedTogether, ...]:
    """A notice if the runs that were signed here, and may yet be released, exceed the target's budget together."""
    if not home.ledger.exists():
        return ()
    day = (today or datetime.now(UTC).date()).isoformat()
    with Ledger(home.ledger, read_only=True) as ledger:
        waiting = dict(_waiting(home, ledger, day))
        if len(waiting) < 2:
            return ()  # whether there is room for one was asked when it was signed
        view = View.owners(home.connection.name)
        quoted = ledger.quote(view, Composition(tuple(planned.event for planned in waiting.values())))
    return tuple(
        SignedTogether(tuple(waiting), after.epsilon, limit, str(home.ledger), after.view.protected)
        for _, after in quoted
        for limit in [after.limit.epsilon]
        if limit is not None and after.epsilon is not None and after.epsilon > limit * (1.0 + _ROUNDING)
    )


def _waiting(home: ConsumerHome, ledger: Ledger, day: str) -> Iterator[tuple[str, PlannedView]]:
    """What owners would learn about the target in each run that is signed, not over, and not released.

    A private choice of the release's width was charged when the terms were signed.
    """
    for run in home.runs():
        released = any(_RELEASE in message.key for message in ledger.messages(run=run.name))
        if not released and not _is_over(run, day):
            yield run.name, planned_views(run.terms, width_choice=None)[0]


def _is_over(run: KeptRun, day: str) -> bool:
    return run.cancelled or run.ending_path.exists() or run.result.exists() or run.terms.expires < day
