"""A run between organisations that was submitted: where it is, how it ended, and why it cannot go on."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Protocol, Self

from likeset import documents
from likeset.errors import InvalidArgument
from likeset.homes.consumer_home import KeptRun
from likeset.homes.mail import Invitation
from likeset.ledger.ledger import Ledger
from likeset.run.plan import views_of_run
from likeset.transports.nvflare.run_report import News, RunReport
from likeset.transports.outcomes import Ending, SiteState

_FINISHED = "FINISHED"
_AGAIN = (
    "Give the job another name (run: in job.yaml) and invite owners anew; that is paid once more, if the budget allows."
)


class Engine(Protocol):
    """How jobs are submitted and followed: ``likeset.transports.nvflare.engine.NvflareEngine``."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def submit(self, *invitations: Invitation) -> str:
        """Submit runs; returns the job's name."""

    def state(self, job: str) -> str: ...

    def news(self, job: str) -> News | None:
        """Where it is, site by site, while it runs."""

    def cancel(self, job: str) -> None: ...

    def report(self, job: str) -> list[RunReport]: ...

    def connected_sites(self) -> list[str]: ...


class Stage(StrEnum):
    """Where a run is that has not ended by the curator's word; its value is what people read."""

    STARTING = "starting"
    DECIDING = "waiting for decisions"
    RUNNING = "running"
    CLOSING = "ending"
    """The curator is gone, and the server has not said so yet."""

    AWAY = "the curator's server does not answer"
    INTERRUPTED = "interrupted"
    """The job is over, and the run did not come to an end in it."""


_BEFORE_RESUMING: dict[Stage | Ending, str] = {
    Stage.INTERRUPTED: "",
    Ending.QUORUM_MISSED: "Too few owners answered; ask those who did not.",
    Ending.NO_CONSUMER: "Your own site was not reached, or abstentions.jsonl in its directory says more.",
}


@dataclass(frozen=True)
class Whereabouts:
    """Where a run is.

    Attributes:
        stage: under way, interrupted, or how the curator says that it ended.
        sites: what was last heard of each site.
        detail: what else the curator says about the end, in words.
    """

    stage: Stage | Ending
    sites: Mapping[str, SiteState] = field(default_factory=dict)
    detail: str = ""

    @property
    def is_open(self) -> bool:
        return isinstance(self.stage, Stage) and self.stage is not Stage.INTERRUPTED

    @property
    def is_done(self) -> bool:
        return self.stage is Ending.DONE

    @property
    def ending(self) -> Ending | None:
        return self.stage if isinstance(self.stage, Ending) else None

    @property
    def text(self) -> str:
        return f"{self.stage}: {self.detail}" if self.detail else str(self.stage)

    @property
    def is_resumable(self) -> bool:
        return self.stage in _BEFORE_RESUMING

    @property
    def before_resuming(self) -> str:
        return _BEFORE_RESUMING.get(self.stage, "")


def submit(run: KeptRun, engine: Engine) -> str:
    """Submit a run's terms, or submit them again: ledgers resend, and nothing is drawn anew. Returns the job's name."""
    if run.result.exists():
        raise InvalidArgument("RUN", run.name, "has ended, and its result is here; see `likeset run report`")
    if run.terms.split is not None:
        raise InvalidArgument("RUN", run.name, "has a split curator, and travels by mailbox: `likeset run start`")
    job = engine.submit(run.invitation)
    run.add_job(job)
    return job


def look(run: KeptRun, engine: Engine) -> Whereabouts:
    job = run.last_job()
    if engine.state(job).startswith(_FINISHED):
        report = ending_of(run, engine)
        if report is None or report.outcome is Ending.CANCELLED:
            return Whereabouts(Stage.INTERRUPTED)
        sites = {**dict.fromkeys(run.terms.owners, SiteState.DONE), **report.unanswered}
        sites |= dict.fromkeys(report.refused, SiteState.REFUSED)
        return Whereabouts(report.outcome, sites, report.detail)
    news = engine.news(job)
    if news is None or news.run != run.name:
        return Whereabouts(Stage.STARTING)
    sites = {site: SiteState.WORKING if said is SiteState.READY else said for site, said in news.sites.items()}
    return Whereabouts(Stage.DECIDING if SiteState.WAITING in sites.values() else Stage.RUNNING, sites)


def ending_of(run: KeptRun, engine: Engine) -> RunReport | None:
    """How the job that was submitted last ended for this run, which is kept; None if it did not come to it."""
    digest = run.terms.digest
    for report in engine.report(run.last_job()):
        if report.terms == digest:
            documents.write_text(run.ending_path, json.dumps(asdict(report), indent=1) + "\n")
            return report
    return None


class StoppedParty(StrEnum):
    CONSUMER = "consumer"
    CURATOR = "curator"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What keeps a run from ever being resumed.

    Attributes:
        run: its name.
        stopped: who has a charge without an answer.
        epsilon: what stays spent of the consumer's budget.
    """

    run: str
    stopped: StoppedParty
    epsilon: float

    @property
    def text(self) -> str:
        spent = f"epsilon = {self.epsilon:.3g} of your budget"
        if self.stopped is StoppedParty.CONSUMER:
            return (
                f"run {self.run} cannot go on: your site was stopped after it had paid for the target's release and "
                f"before it had kept one. Nothing was released and no owner was asked; {spent} stays spent. {_AGAIN}"
            )
        return (
            f"run {self.run} cannot go on: the curator was stopped after it had paid for a draw and before it had kept "
            f"one. Your release was sent, and {spent} stays spent; rows that owners sent stay disclosed and charged. "
            f"{_AGAIN}"
        )

    def document(self) -> dict[str, Any]:
        return {"stopped": self.stopped, "epsilon": self.epsilon, "text": self.text}


def obstacle(run: KeptRun, ending: Ending | None = None) -> Obstacle | None:
    """What keeps a run from ever being resumed; None if nothing does.

    A process that is killed between a charge and its draw leaves a charge without an answer. Nobody can tell whether
    something was drawn, so nothing is drawn again under the same terms.

    Args:
        run: the run.
        ending: how its last job ended, as far as that is known.
    """
    if _has_open_charge(run):
        return Obstacle(run.name, StoppedParty.CONSUMER, _spent(run))
    if ending is Ending.UNFINISHED:
        return Obstacle(run.name, StoppedParty.CURATOR, _spent(run))
    return None


def _has_open_charge(run: KeptRun) -> bool:
    """Whether the consumer's ledger has a charge of this run for which nothing was kept."""
    if not run.ledger_path.exists():
        return False
    with Ledger(run.ledger_path, read_only=True) as ledger:
        entries = ledger.entries()
        answered = {entry.key for entry in entries if entry.kind == "commit"}
        charged = {entry.key for entry in entries if entry.kind == "reserve" and _is_of(entry.key, run)}
        kept = {message.key for message in ledger.messages(run=run.name)} if charged else set()
    return bool(charged - answered - kept)


def _is_of(key: str, run: KeptRun) -> bool:
    return bool(json.loads(key)[0] == run.name)


def _spent(run: KeptRun) -> float:
    return views_of_run(run)[0].guarantee.epsilon
