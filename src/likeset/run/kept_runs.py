"""A consumer's runs as lists and pages show them: one typed place for both."""

from dataclasses import dataclass
from typing import Any

from likeset.homes.consumer_home import ConsumerHome, KeptRun
from likeset.run.runs import Render, collect, conclude, read_result


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run in a list."""

    run: str
    digest: str
    invitation: str
    expires: str
    mailbox: str | None
    cancelled: bool
    jobs: int
    result: bool

    @property
    def way(self) -> str:
        if self.cancelled:
            return "cancelled"
        if self.mailbox is not None:
            return "mailbox"
        return f"NVFlare, {self.jobs} job{'' if self.jobs == 1 else 's'}" if self.jobs else "nothing yet"


def listed_run(run: KeptRun) -> ListedRun:
    terms, travel = run.terms, run.travel
    return ListedRun(
        run=run.name,
        digest=terms.digest,
        invitation=str(run.invitation_path),
        expires=terms.expires,
        mailbox=None if travel is None else travel.mailbox,
        cancelled=run.cancelled,
        jobs=len(run.jobs),
        result=run.result.exists(),
    )


def published(home: ConsumerHome, run: KeptRun, *, render: Render) -> dict[str, Any]:
    """The result of a run whose summary has come; published when it is first asked for."""
    if not run.result.exists():
        conclude(home, run, collect(run), render=render)
    return read_result(run.result)[0]
