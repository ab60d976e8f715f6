"""What NVFlare loads at each site from the installed package: the only classes that a job of likeset names.

Needs the extra ``likeset[nvflare]``; nothing else in likeset imports this module.
"""

import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from nvflare.collab import collab
from nvflare.collab.api.exceptions import CollabCallError, RunAborted
from nvflare.collab.runtime.controller import CollabController, _ClientInfo
from nvflare.collab.runtime.defs import SETUP_TASK_NAME, SYNC_TASK_NAME

from likeset.engines.flare_report import CANCELLED, RunReport, write_report
from likeset.engines.pump import Pump
from likeset.engines.seats import ABSTAINS, WAITING, SiteSettings, Table, load_settings, load_terms
from likeset.errors import LikesetError, ProtocolError, QuorumMissed, RunCancelled, TermsExpired
from likeset.protocol.curator import Curator
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Terms

__all__ = ["Controller", "Curation", "Site"]

_SERVER = "server"  # NVFlare's word for the place where the curator works
_MOST_REPLIES = 8
_SECONDS_BETWEEN_LOOKS = 1.0


class Site:
    """An owner's or the consumer's place: hears the curator and nobody else."""

    def __init__(self) -> None:
        self._table: Table | None = None

    @collab.publish  # type: ignore[untyped-decorator]
    def standing(self, terms: str, context: Any = None) -> object:
        """Whether this site takes part under the terms of this digest."""
        return self._answered(context, lambda table: table.standing(terms))

    @collab.publish  # type: ignore[untyped-decorator]
    def start(self, terms: str, context: Any = None) -> object:
        """What the consumer says first."""
        return self._answered(context, lambda table: table.start(terms))

    @collab.publish  # type: ignore[untyped-decorator]
    def hear(self, data: bytes, context: Any = None) -> object:
        """The replies to a message."""
        return self._answered(context, lambda table: table.hear(data))

    def _answered(self, context: Any, work: Callable[[Table], object]) -> object:
        # What is raised here would travel to the caller, with a traceback.
        try:
            if context is None or context.caller != _SERVER:
                return ABSTAINS
            if self._table is None:
                settings, terms, _ = _at_this_site(context, str(context.app.name))
                self._table = Table(str(context.app.name), terms, settings)
            return work(self._table)
        except Exception:
            return ABSTAINS


class Curation:
    """The curator's place: one run after the other, in the order of their names."""

    @collab.main  # type: ignore[untyped-decorator]
    def curate(self) -> None:
        """Run all terms that came with the job, and leave a report for whoever submitted it."""
        context = collab.context
        settings, all_terms, run_folder = _at_this_site(context, _SERVER)
        reports = []
        for terms in sorted(all_terms.values(), key=lambda one: one.run):
            reports.append(_curated(terms, settings, context))
            write_report(run_folder, reports)
            if context.is_aborted():
                return


def _at_this_site(context: Any, site: str) -> tuple[SiteSettings, dict[str, Terms], Path]:
    """The site's own settings, the terms that came with the job, and the job's folder at this site."""
    workspace, job = context.workspace, collab.fl_ctx.get_job_id()
    settings = load_settings(Path(workspace.get_site_config_dir()), site)
    return settings, load_terms(Path(workspace.get_app_config_dir(job))), Path(workspace.get_run_dir(job))


def _curated(terms: Terms, settings: SiteSettings, context: Any) -> RunReport:
    """One run, and how it ended, in words that say nothing about rows."""
    began = time.monotonic()
    transport = _Calls(terms, {proxy.name: proxy for proxy in context.clients}, settings)
    pump: Pump | None = None
    try:
        seat = settings.factory(terms, CURATOR, settings.folder)
        if seat is None or not isinstance(seat.party, Curator) or seat.party.terms.digest != terms.digest:
            raise ProtocolError("the curator's site made no curator for these terms")
        transport.wait_for_decisions(context.is_aborted)
        pump = Pump(
            seat.party,
            transport,
            workers=max(1, len(terms.owners)),
            cancelled=context.is_aborted,
            most_bytes=settings.most_bytes,
        )
        pump.run()
        outcome = "done"
    except (RunAborted, RunCancelled):
        outcome = CANCELLED
    except QuorumMissed:
        outcome = "quorum missed"
    except TermsExpired:
        outcome = "terms expired"
    except _NoConsumer:
        outcome = "the consumer gave no answer"
    except LikesetError as error:
        outcome = f"failed: {type(error).__name__}"
    except Exception as error:  # its text may quote rows
        outcome = f"failed: {type(error).__name__}"
    return RunReport(
        run=terms.run,
        terms=terms.digest,
        outcome=outcome,
        unanswered=dict(transport.unanswered),
        refused=tuple(sorted(set(pump.failures) - set(transport.unanswered))) if pump else (),
        messages=pump.messages if pump else 0,
        bytes_sent=pump.bytes_sent if pump else 0,
        seconds=time.monotonic() - began,
        calls=transport.calls,
        seconds_in_calls=transport.seconds,
    )


class _NoConsumer(ProtocolError):
    """The consumer's site did not answer."""


class _Calls:
    """Calls of NVFlare's Collab interface, each with a time-out."""

    def __init__(self, terms: Terms, proxies: dict[str, Any], settings: SiteSettings) -> None:
        self._terms = terms
        self._proxies = proxies
        self._settings = settings
        self._gone: set[str] = set()
        self.unanswered: dict[str, str] = {}
        self.done = False
        self.calls = 0
        self.seconds = 0.0

    @property
    def owners(self) -> Collection[str]:
        return [name for name in self._terms.owners if name in self._proxies]

    def wait_for_decisions(self, aborted: Callable[[], bool]) -> None:
        """Until nobody is waiting for a person's decision any more, or the curator's patience ends."""
        end = time.monotonic() + self._settings.seconds_for_decisions
        sites = [self._terms.consumer, *self.owners]
        while end > time.monotonic() and not aborted():
            with ThreadPoolExecutor(max_workers=len(sites)) as pool:
                standings = pool.map(self._standing, sites)
            if WAITING not in standings:
                return
            time.sleep(_SECONDS_BETWEEN_LOOKS)

    def _standing(self, site: str) -> object:
        try:
            return self._call(site, "standing", self._terms.digest)
        except ProtocolError:
            return ABSTAINS

    def start(self) -> Sequence[bytes]:
        try:
            return self._replies(self._call(self._terms.consumer, "start", self._terms.digest))
        except ProtocolError as error:
            raise _NoConsumer(str(error)) from None

    def ask(self, owner: str, data: bytes) -> Sequence[bytes]:
        try:
            return self._replies(self._call(owner, "hear", data))
        except ProtocolError as error:
            self.unanswered.setdefault(owner, str(error))
            raise

    def hand_over(self, data: bytes) -> Sequence[bytes]:
        try:
            replies = self._replies(self._call(self._terms.consumer, "hear", data))
        except ProtocolError as error:
            raise _NoConsumer(str(error)) from None
        self.done = True
        return replies

    def _replies(self, answer: object) -> Sequence[bytes]:
        if (
            not isinstance(answer, list)
            or len(answer) > _MOST_REPLIES
            or not all(isinstance(one, bytes) for one in answer)
        ):
            # Whatever else came is not looked at: one word for all of it.
            raise ProtocolError(ABSTAINS)
        return answer

    def _call(self, site: str, method: str, argument: object) -> object:
        """A site that once gave no answer is not waited for again in this job; a resumed run asks it anew."""
        if site in self._gone or site not in self._proxies:
            raise ProtocolError("no answer")
        began = time.monotonic()
        try:
            return getattr(self._proxies[site](timeout=self._settings.seconds_per_call), method)(argument)
        except CollabCallError:
            self._gone.add(site)
            raise ProtocolError("no answer") from None
        finally:
            self.calls += 1
            self.seconds += time.monotonic() - began


class Controller(CollabController):  # type: ignore[misc]
    """NVFlare's own, but for one thing: a site that does not come to the start does not stop the others.

    NVFlare ends the job of everybody when one site does not report its interface in time. All our sites have the same
    interface, so that one is filled in, and the site is then simply one that gives no answer.
    """

    def broadcast_and_wait(self, task: Any, *args: Any, **kwargs: Any) -> Any:
        """As in NVFlare; afterwards absent sites are entered as if they had reported."""
        result = super().broadcast_and_wait(task, *args, **kwargs)
        if task.name == SYNC_TASK_NAME:
            reported = [one.publish_interface for one in self.client_info.values() if one]
            for name in [name for name, info in self.client_info.items() if not info]:
                self.client_info[name] = _ClientInfo(reported[0]) if reported else None
        if task.name == SETUP_TASK_NAME:
            self.client_setup_status.update(dict.fromkeys(self.client_info, True))
        return result
