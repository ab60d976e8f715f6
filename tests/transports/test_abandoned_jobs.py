"""What a server of NVFlare says about a job that it no longer runs."""

import importlib.util
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from likeset.transports.nvflare.engine import NvflareEngine

pytestmark = pytest.mark.skipif(importlib.util.find_spec("nvflare") is None, reason="needs likeset[nvflare]")

START = 1_000_000.0  # of the server


@dataclass
class Server:
    """Answers for one job; there is no result to download while it is called running."""

    about: dict[str, Any]

    def get_job_meta(self, job: str) -> dict[str, Any]:
        assert job == "job"
        return self.about

    def get_system_info(self) -> Any:
        return SimpleNamespace(server_info=SimpleNamespace(start_time=START))

    def download_job_result(self, job: str, folder: str) -> str:
        raise RuntimeError(f"{job} is not done; nothing comes to {folder}")

    def close(self) -> None:
        pass


class Engine(NvflareEngine):
    """Logs in at a server of this test."""

    server: Server

    def _new_session(self) -> Any:
        return self.server


def at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


@pytest.mark.parametrize(
    ("about", "state"),
    [
        ({"status": "SUBMITTED"}, "SUBMITTED"),
        ({"status": "DISPATCHED", "start_time": "", "last_schedule_time": START + 5}, "DISPATCHED"),
        ({"status": "RUNNING", "start_time": at(START + 5), "last_schedule_time": START + 4}, "RUNNING"),
        ({"status": "FINISHED:COMPLETED", "start_time": at(START - 5)}, "FINISHED:COMPLETED"),
        ({"status": "DISPATCHED", "start_time": "", "last_schedule_time": START - 5}, "FINISHED:ABANDONED"),
        ({"status": "RUNNING", "start_time": at(START - 5), "last_schedule_time": START - 6}, "FINISHED:ABANDONED"),
    ],
)
def test_a_job_that_began_before_its_server_did_has_ended(about: dict[str, Any], state: str) -> None:
    engine = Engine(Path(), "lead")
    engine.server = Server(about)
    assert engine.state("job") == state


def test_an_abandoned_job_has_no_report_and_is_not_waited_for() -> None:
    engine = Engine(Path(), "lead")
    engine.server = Server({"status": "RUNNING", "start_time": at(START - 5)})
    assert engine.report("job") == []
    with engine._session() as session:
        engine._wait(session, "job", end=float("inf"))
