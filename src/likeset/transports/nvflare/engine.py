"""Runs between organisations, over NVIDIA FLARE; needs the extra ``likeset[nvflare]``.

The curator works in NVFlare's server, each owner and the consumer is a client. Certificates, mutual TLS and roles come
from NVFlare's start-up kits; connections go out from the sites only. A job carries signed terms and names; parties are
made at each site by what the site's own configuration names (``likeset.transports.sites``), and nothing travels between
them but letters. To resume a run, submit the same terms again: the same letters are sent again, and nothing is drawn
anew.

What likeset sends is all that its own classes send. NVFlare's other messages can do more: ``flare_trust``.
"""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Self

from likeset.errors import InvalidArgument, LikesetError, NoAnswer, RunCancelled, missing_extra
from likeset.homes.mail import Invitation
from likeset.transports.nvflare.job import CLASSES, write_job, write_settings
from likeset.transports.nvflare.run_report import NEWS_TOPIC, REPORT_FILE, News, RunReport, read_report
from likeset.transports.outcomes import Ending

_SECONDS_BETWEEN_LOOKS = 1.0
_UNDER_WAY = ("DISPATCHED", "RUNNING")
_ABANDONED = "FINISHED:ABANDONED"


def _need_nvflare() -> None:
    if importlib.util.find_spec("nvflare") is None:
        raise InvalidArgument("engine", "nvflare", missing_extra("nvflare"))


@dataclass
class NvflareEngine:
    """Submits runs to a network of NVFlare and follows them.

    Used in a ``with`` statement it logs in once for all calls, and again only where the connection broke; else every
    call logs in by itself, which takes longer than most calls.

    Args:
        kit: start-up kit of a user who may submit jobs (role ``lead``).
        user: that user's name, as provisioned.
        progress: called with the state of the job whenever it has changed.
        cancelled: asked now and then; a run that is cancelled spends nothing more and can be resumed.
        attempts: how many jobs a run may take.
    """

    kit: Path
    user: str
    progress: Callable[[str], None] | None = None
    cancelled: Callable[[], bool] | None = None
    attempts: int = 3
    _held: Any = field(default=None, init=False, repr=False)
    _holds: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        _need_nvflare()

    def __enter__(self) -> Self:
        self._holds = True
        return self

    def __exit__(self, *_: object) -> None:
        self._holds = False
        self._let_go()

    def run(self, *invitations: Invitation, seconds: float = 3600.0) -> list[RunReport]:
        """Submit, wait for the end, and say how each run ended; the summary is at the consumer's site.

        NVFlare ends a job for all when the process of one site goes down; its runs are then resumed in another job.

        Raises:
            RunCancelled: ``cancelled`` said so, the time was up, or no job came to an end in as many attempts.
        """
        left, reports = {invitation.terms.digest: invitation for invitation in invitations}, dict[str, RunReport]()
        end = time.monotonic() + seconds
        with self._session() as session:
            for _ in range(self.attempts):
                job = self._submit(session, tuple(left.values()))
                self._wait(session, job, end)
                for report in self._report(session, job):
                    reports[report.terms] = report
                    if report.outcome is not Ending.CANCELLED:
                        left.pop(report.terms, None)
                if not left:
                    return [reports[invitation.terms.digest] for invitation in invitations]
        names = ", ".join(sorted(invitation.terms.run for invitation in left.values()))
        raise RunCancelled(f"{self.attempts} jobs ended before the end of {names}; submit the same terms to resume")

    def submit(self, *invitations: Invitation) -> str:
        """Submit and go away; returns NVFlare's name of the job, by which it is followed."""
        with self._session() as session:
            return self._submit(session, invitations)

    def state(self, job: str) -> str:
        with self._session() as session:
            return _state(session, job)

    def news(self, job: str) -> News | None:
        """Where a running job is, site by site; None if it does not run (any more)."""
        from nvflare.fuel.flare_api.api_spec import AuthorizationError

        with self._session() as session:
            try:
                return News.read(session.do_app_command(job, NEWS_TOPIC, {}))
            except AuthorizationError as error:
                raise InvalidArgument(
                    "user", self.user, "may not follow this job; only who submitted it may"
                ) from error
            except Exception:  # NVFlare raises whatever it likes for a job that is not there, or not yet
                return None

    def cancel(self, job: str) -> None:
        """Stop a job; what was drawn is kept, and submitting the same terms again resumes the run."""
        with self._session() as session:
            session.abort_job(job)

    def report(self, job: str) -> list[RunReport]:
        """How the runs of a job that has ended came out; nothing about those that the curator did not come to."""
        with self._session() as session:
            return self._report(session, job)

    def connected_sites(self) -> list[str]:
        with self._session() as session:
            return sorted(str(client.name) for client in session.get_connected_client_list())

    @contextmanager
    def _session(self) -> Iterator[Any]:
        session = self._held or self._new_session()
        if self._holds:
            self._held = session
        try:
            yield session
        except LikesetError:
            raise
        except Exception as error:
            self._let_go()  # the server may be another one by now
            raise NoAnswer(f"the curator's server did not answer as it should ({type(error).__name__})") from error
        finally:
            if not self._holds:
                session.close()

    def _new_session(self) -> Any:
        from nvflare.fuel.flare_api.flare_api import new_secure_session

        try:
            return new_secure_session(self.user, str(self.kit))
        except Exception as error:
            raise NoAnswer(
                f"no session with the curator's server ({type(error).__name__}); is it up, is {self.kit} your kit?"
            ) from error

    def _let_go(self) -> None:
        session, self._held = self._held, None
        if session is not None:
            with suppress(Exception):
                session.close()

    def _submit(self, session: Any, invitations: tuple[Invitation, ...]) -> str:
        with tempfile.TemporaryDirectory() as folder:
            job = write_job(Path(folder) / "likeset", *invitations)
            return str(session.submit_job(str(job)))

    def _wait(self, session: Any, job: str, end: float) -> None:
        last = ""
        while not last.startswith("FINISHED"):
            if (self.cancelled is not None and self.cancelled()) or time.monotonic() > end:
                session.abort_job(job)
                raise RunCancelled(f"job {job} was cancelled; submit the same terms to resume its runs")
            state = _state(session, job)
            if state != last and self.progress is not None:
                self.progress(state)
            last = state
            time.sleep(_SECONDS_BETWEEN_LOOKS)

    def _report(self, session: Any, job: str) -> list[RunReport]:
        if _state(session, job) == _ABANDONED:
            return []  # there is nothing to fetch, and NVFlare would say that the job still runs
        with tempfile.TemporaryDirectory() as folder:
            result = session.download_job_result(job, folder)
            paths = sorted(Path(result).rglob(REPORT_FILE))
            return read_report(paths[0].parent) if paths else []


def _state(session: Any, job: str) -> str:
    """NVFlare's word for where a job is.

    A server that was killed comes back with its jobs still called running, and nothing ever changes that; so whatever
    ran before the server started has ended.
    """
    about = session.get_job_meta(job)
    state = str(about.get("status"))
    if state not in _UNDER_WAY:
        return state
    began = about.get("last_schedule_time") or 0.0
    if state == "RUNNING" and about.get("start_time"):
        began = datetime.fromisoformat(about["start_time"]).timestamp()
    since = session.get_system_info().server_info.start_time
    return _ABANDONED if since is not None and 0.0 < began < since else state


def simulate(
    *invitations: Invitation,
    workspace: Path,
    factory: str,
    folder: Path | str,
    environment: Mapping[str, str] | None = None,
    seconds: float = 600.0,
    **limits: float,
) -> list[RunReport]:
    """All sites on this machine, in NVFlare's simulator, each client a process of its own.

    Args:
        invitations: to the runs.
        workspace: a folder for NVFlare's own files; what a former simulation left there is removed.
        factory: makes the sites' parties, as ``package.module:function``.
        folder: of the sites; ``{site}`` in it stands for a site's name.
        environment: of the processes, in place of this one's.
        seconds: how long it may take.
        limits: of the curator's site; see ``SiteLimits``.
    """
    _need_nvflare()
    local = workspace / "local"
    write_settings(local, factory=factory, folder=folder, **limits)
    (local / "resources.json").write_text(_simulator_resources(), encoding="utf-8")
    terms = [invitation.terms for invitation in invitations]
    sites = sorted({name for run_terms in terms for name in (*run_terms.owners, run_terms.consumer)})
    with tempfile.TemporaryDirectory() as temporary:
        job = write_job(Path(temporary) / "likeset", *invitations)
        command = [sys.executable, "-m", "nvflare.cli", "simulator", str(job), "-w", str(workspace)]
        command += ["-c", ",".join(sites), "-t", str(len(sites))]
        with (Path(temporary) / "console.txt").open("wb") as console:
            code = _exit_code(command, console, environment, seconds)
        shutil.copy(Path(temporary) / "console.txt", workspace)  # only now: the simulator empties the folder
    reports = read_report(workspace / "server" / "simulate_job")
    if not reports:
        raise LikesetError(f"the simulator ended with {code} and without a report; see {workspace}")
    return reports


def _exit_code(command: list[str], console: IO[bytes], environment: Mapping[str, str] | None, seconds: float) -> int:
    """The exit code of a process of its own: the simulator changes folder, logging and signals of the one it is in."""
    process = subprocess.Popen(  # noqa: S603 (our own words only)
        command,
        stdout=console,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        env=dict(environment if environment is not None else os.environ),
        start_new_session=True,
    )
    try:
        return process.wait(timeout=seconds)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            raise RunCancelled(f"the simulator took more than {seconds:.0f} s and was stopped") from error
        raise


def _simulator_resources() -> str:
    return json.dumps(
        {"format_version": 2, "class_allow_list": list(CLASSES), "class_list_enforcement_mode": "enforce"}
    )
