"""What the curator's site tells whoever submitted a job: how each run ended, and nothing about rows."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from likeset import documents
from likeset.errors import BadDocument
from likeset.transports.outcomes import Ending, SiteState

REPORT_FILE = "likeset_report.json"
NEWS_TOPIC = "likeset"


@dataclass
class News:
    """Where a job is that still runs.

    Attributes:
        run: the run at hand; empty before the first.
        sites: what was last heard of a site: ready, waiting, abstains or no answer.
        owners_done: owners whom the current step no longer waits for.
        owners: how many there are.
    """

    run: str = ""
    sites: dict[str, SiteState] = field(default_factory=dict)
    owners_done: int = 0
    owners: int = 0

    def document(self) -> dict[str, Any]:
        """As plain data, which any transport carries."""
        return {**asdict(self), "sites": {site: state.value for site, state in self.sites.items()}}

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """What ``document`` wrote; raises where it is something else."""
        return cls(**{**document, "sites": {site: SiteState(said) for site, said in document["sites"].items()}})

    def count_answers(self, done: int, total: int) -> None:
        self.owners_done, self.owners = done, total


@dataclass(frozen=True)
class RunReport:
    """How one run ended.

    Attributes:
        run: its name.
        terms: their digest.
        outcome: how it ended.
        unanswered: owners who abstained or gave no answer, and which of the two.
        refused: owners of whom the curator refused a message.
        messages: how many messages travelled.
        bytes_sent: and how many bytes.
        seconds: from the first call to the last, without NVFlare's start.
        calls: how many calls of other sites that took.
        seconds_in_calls: how long they lasted, added up over sites that are called at the same time.
        detail: what the curator lacks, in words, or the kind of error; empty where the outcome says all.
    """

    run: str
    terms: str
    outcome: Ending
    unanswered: Mapping[str, SiteState]
    refused: tuple[str, ...]
    messages: int
    bytes_sent: int
    seconds: float
    calls: int
    seconds_in_calls: float
    detail: str = ""

    @property
    def done(self) -> bool:
        return self.outcome is Ending.DONE


def write_report(folder: Path, reports: Sequence[RunReport]) -> None:
    """Into the job's folder at the server; whole or not at all."""
    documents.write_text(folder / REPORT_FILE, json.dumps([asdict(report) for report in reports], indent=1))


def read_report(folder: Path) -> list[RunReport]:
    """The report in a job's folder; none if the curator did not come so far."""
    path = folder / REPORT_FILE
    if not path.exists():
        return []
    try:
        return [_report_from(document) for document in json.loads(path.read_text("utf-8"))]
    except (AttributeError, ValueError, TypeError, KeyError) as error:
        raise BadDocument(str(path), "is no report of runs") from error


def _report_from(document: Mapping[str, Any]) -> RunReport:
    typed = {
        "outcome": Ending(document["outcome"]),
        "unanswered": {owner: SiteState(said) for owner, said in document["unanswered"].items()},
        "refused": tuple(document["refused"]),
    }
    return RunReport(**{**document, **typed})
