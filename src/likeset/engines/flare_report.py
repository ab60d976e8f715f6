"""What the curator's site tells whoever submitted a job: how each run ended, and nothing about rows."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from likeset.errors import BadDocument

__all__ = ["CANCELLED", "NEWS_TOPIC", "REPORT_FILE", "News", "RunReport", "read_report", "write_report"]

REPORT_FILE = "likeset_report.json"
CANCELLED = "cancelled"
NEWS_TOPIC = "likeset"


@dataclass
class News:
    """Where a job is that still runs.

    Attributes:
        run: the run at hand; empty before the first.
        sites: what was last heard of a site: ``ready``, ``waiting`` for a decision, ``abstains``, ``no answer``.
        owners_done: owners whom the current step no longer waits for.
        owners: how many there are.
    """

    run: str = ""
    sites: dict[str, str] = field(default_factory=dict)
    owners_done: int = 0
    owners: int = 0

    def answered(self, done: int, total: int) -> None:
        """Called as answers come in."""
        self.owners_done, self.owners = done, total


@dataclass(frozen=True)
class RunReport:
    """How one run ended.

    Attributes:
        run: its name.
        terms: their digest.
        outcome: ``done``, ``quorum missed``, ``terms expired``, ``cancelled``, or what failed.
        unanswered: owners who abstained or gave no answer.
        refused: owners of whom the curator refused a message.
        messages: how many messages travelled.
        bytes_sent: and how many bytes.
        seconds: from the first call to the last, without NVFlare's start.
        calls: how many calls of other sites that took.
        seconds_in_calls: how long they lasted, added up over sites that are called at the same time.
    """

    run: str
    terms: str
    outcome: str
    unanswered: Mapping[str, str]
    refused: tuple[str, ...]
    messages: int
    bytes_sent: int
    seconds: float
    calls: int
    seconds_in_calls: float

    @property
    def done(self) -> bool:
        """Whether the consumer has its summary."""
        return self.outcome == "done"


def write_report(folder: Path, reports: Sequence[RunReport]) -> None:
    """Into the job's folder at the server; whole or not at all."""
    path = folder / REPORT_FILE
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps([asdict(report) for report in reports], indent=1), encoding="utf-8")
    draft.replace(path)


def read_report(folder: Path) -> list[RunReport]:
    """The report in a job's folder; none if the curator did not come so far."""
    path = folder / REPORT_FILE
    if not path.exists():
        return []
    try:
        return [RunReport(**{**one, "refused": tuple(one["refused"])}) for one in json.loads(path.read_text("utf-8"))]
    except (ValueError, TypeError, KeyError) as error:
        raise BadDocument(str(path), "is no report of runs") from error
