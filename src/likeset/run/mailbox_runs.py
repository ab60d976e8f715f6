"""Runs that travel by mailbox, from the consumer's side: how one starts, where it is, and how its consumer stops it."""

import json
from datetime import timedelta

from likeset import documents
from likeset.errors import InvalidArgument
from likeset.homes.consumer.home import ConsumerHome, KeptRun, Travel
from likeset.homes.expiry import utc_now
from likeset.protocol.party import CURATOR
from likeset.transports.mailbox.progress import PartyState, RunProgress, progress_of
from likeset.transports.outcomes import SiteState

__all__ = ["cancel", "check_not_by_mailbox", "mailbox_for", "mailboxes_in_use", "open_runs", "start", "whereabouts"]


def mailbox_for(home: ConsumerHome, given: str | None) -> str:
    """The mailbox of a new run: the one that was named, or the only one of ``consumer.yaml``.

    Raises:
        InvalidArgument: there is none, or there are several to choose from.
    """
    settled = home.connection.mailboxes
    if given is not None:
        return given
    if len(settled) == 1:
        return settled[0]
    reason = "consumer.yaml names several mailboxes; say which" if settled else "consumer.yaml names none (mailboxes:)"
    raise InvalidArgument("--mailbox", "none", f"{reason}: file:///FOLDER, sftp://USER@HOST/FOLDER or s3://BUCKET")


def start(run: KeptRun, mailbox: str, *, decide_within: timedelta | None = None) -> Travel:
    """Let a run whose terms are signed travel by a mailbox; asked again, as it was.

    Args:
        run: the run.
        mailbox: the address, as its store tells it.
        decide_within: how long others may think; half of the terms' life if None.

    Raises:
        InvalidArgument: it travels otherwise already, was cancelled, or has its result.
    """
    known = run.travel
    if run.jobs:
        raise InvalidArgument("run", run.name, "was submitted to NVFlare already; go on with `likeset run resume`")
    if run.cancelled:
        raise InvalidArgument("run", run.name, "was cancelled; give the job another name, and start that")
    if known is not None and known.mailbox != mailbox:
        raise InvalidArgument("--mailbox", mailbox, f"run {run.name} travels by another one already: {known.mailbox}")
    now = utc_now()
    return run.keep_travel(mailbox, decide_by=None if decide_within is None else now + decide_within, now=now)


def check_not_by_mailbox(run: KeptRun, command: str) -> None:
    """Refuse what is made for runs over NVFlare.

    Raises:
        InvalidArgument: the run travels by mailbox.
    """
    if run.travel is not None:
        reason = (
            f"travels by mailbox, where there is nothing to {command}: `likeset run watch` and `likeset run sync` "
            "go on where it is"
        )
        raise InvalidArgument("RUN", run.name, reason)


def open_runs(home: ConsumerHome) -> list[KeptRun]:
    """Runs that travel by mailbox and have no result yet, and that their consumer did not stop."""
    return [run for run in home.runs() if run.travel is not None and not run.cancelled and not run.result.exists()]


def mailboxes_in_use(home: ConsumerHome) -> tuple[str, ...]:
    """The mailboxes by which runs of this consumer travel, also ended ones: what they left there is cleared away."""
    return tuple(dict.fromkeys(run.travel.mailbox for run in home.runs() if run.travel is not None))


def whereabouts(home: ConsumerHome, run: KeptRun) -> RunProgress:
    """Where a run is, by what this home keeps; how it ended is kept beside its result."""
    progress = progress_of(home, run)
    if progress.ended is not None and not run.ending:
        kept = {"outcome": progress.ended, "detail": progress.detail, "unanswered": _unanswered(progress)}
        documents.write_text(run.ending_path, json.dumps(kept, indent=1) + "\n")
    return progress


def _unanswered(progress: RunProgress) -> dict[str, SiteState]:
    """Owners whose rows are not in the summary, as far as the consumer knows, and why."""
    silent = {
        name: SiteState.ABSTAINS if state is PartyState.ABSTAINS else SiteState.NO_ANSWER
        for name, state in progress.parties.items()
        if name != CURATOR and state is not PartyState.TAKES_PART
    }
    return silent | dict.fromkeys(progress.waited_for, SiteState.NO_ANSWER)


def cancel(run: KeptRun) -> None:
    """Stop a run: nothing is looked for and nothing is posted in it any more; owners see its terms end.

    Raises:
        InvalidArgument: it has its result.
    """
    if run.result.exists() or run.summary_path.exists():
        raise InvalidArgument("RUN", run.name, "has its summary; there is nothing to cancel: `likeset run report`")
    run.cancel()
