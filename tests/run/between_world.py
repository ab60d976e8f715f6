"""Jobs between organisations for tests: two owners whose policies decide by themselves, a curator and a consumer."""

from datetime import timedelta
from pathlib import Path
from typing import Any

from home_world import CONSUMER, SCHEMA, Network, rows_text

from likeset import documents
from likeset.homes.consumer import RunProgress
from likeset.homes.runs import Run
from likeset.run.between import invite
from likeset.run.job import Job

OWNERS = ("a", "b")
UNTIL = "2030-01-01"
ANSWER_BY = "2029-06-01T00:00:00+00:00"
_LIMITS = {"epsilon": 5.0, "delta": 1e-5, "rows": 999}
POLICY = {"manual_approval": False, "per_run": _LIMITS, "total": dict(_LIMITS), "accept_unproven": ["unbounded"]}
JOB: dict[str, Any] = {
    "likeset": "job",
    "version": 1,
    "schema": "schema.yaml",
    "target": "target.csv",
    "owners": {name: f"network:{name}" for name in OWNERS},
    "size": 6,
    "epsilon": 8.0,
    "offer_factor": 4.0,
    "consumer": CONSUMER,
    "purpose": "Research on sepsis",
    "run": "run-1",
}


class Market(Network):
    def __init__(self, place: Path, **options: Any) -> None:
        super().__init__(place, OWNERS, policies=dict.fromkeys(OWNERS, POLICY), **options)

    def write_job(self, **changes: Any) -> Path:
        (self.place / "schema.yaml").write_text(SCHEMA)
        (self.place / "target.csv").write_text(rows_text(7, count=30))
        documents.write(self.place / "job.yaml", JOB | changes)
        return self.place / "job.yaml"

    def invite(self, **changes: Any) -> Run:
        return invite(self.consumer, Job.load(self.write_job(**changes)), expires=UNTIL, answer_by=ANSWER_BY)

    def hold(self, run: Run, *, absent: tuple[str, ...] = ()) -> RunProgress:
        """Carry a run to its end, also past all deadlines."""
        names = [name for name in (CONSUMER, *OWNERS, "curator") if name not in absent]
        self.consumer.start_run(self.consumer.run(run.name), self.address)
        progress = self.consumer.progress(run)
        for _ in range(8):
            for _ in range(60):
                look = self.turn(*names)
                if not look.something_happened:
                    break
            progress = self.consumer.progress(run)
            if progress.ended is not None or look.next_deadline is None:
                break
            self.clock.now = look.next_deadline + timedelta(seconds=1)
        return progress
