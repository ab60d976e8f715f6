"""A split curator between organisations: what ``auto`` means there, who witnesses, and whether a home can compute."""

from likeset.errors import InvalidArgument
from likeset.homes.consumer.home import ConsumerHome
from likeset.protocol.planned_terms import PlannedTerms
from likeset.run.job import Job
from likeset.split.environment import split_python

__all__ = ["check_able_to_compute", "settled_curator"]


def settled_curator(job: Job) -> Job:
    """The job with a curator that is trusted or split: split where a witness is named.

    Raises:
        InvalidArgument: the curator is split, and no witness is named; or one is named that has nothing to do.
    """
    asked = "split" if job.witness is not None else "trusted"
    curator = asked if job.curator == "auto" else job.curator
    if curator == "split" and job.witness is None:
        reason = "is missing: a split curator is three parties; name one whose card is pinned here (witness: NAME)"
        raise InvalidArgument("witness", "none", reason)
    if job.witness is not None and curator == "trusted":
        reason = "has nothing to do in this run: a trusted curator needs none; leave it out"
        raise InvalidArgument("witness", job.witness, reason)
    return job.model_copy(update={"curator": curator})


def check_able_to_compute(home: ConsumerHome, terms: PlannedTerms) -> None:
    """Raise, before anything is signed, unless the consumer itself can compute in a split run.

    Raises:
        InvalidArgument: it has no environment for workers, or its settings name no place for tunnels.
    """
    if terms.split is not None:
        split_python()
        _ = home.tunnels
