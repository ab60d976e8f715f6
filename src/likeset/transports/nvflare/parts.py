"""What NVFlare loads at each site from the installed package: the only classes that a job of likeset names.

Needs the extra ``likeset[nvflare]``; nothing else in likeset imports this module.
"""

import contextlib
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from nvflare.collab import collab
from nvflare.collab.api.exceptions import CollabCallError, RunAborted
from nvflare.collab.runtime.controller import CollabController, _ClientInfo
from nvflare.collab.runtime.defs import SETUP_TASK_NAME, SYNC_TASK_NAME

from likeset.errors import (
    LikesetError,
    NotCurated,
    ProtocolError,
    QuorumMissed,
    RunCancelled,
    TermsExpired,
    UnfinishedRequest,
)
from likeset.homes.home import ABSTAINS, READY, WAITING
from likeset.homes.mail import Invitation, check_not_expired, utc_now
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Terms
from likeset.transports.curator_sides import curator_side, line_to
from likeset.transports.first_answer import load_libraries
from likeset.transports.home_socket.client import HomeLine, SiteClient
from likeset.transports.home_socket.verbs import HomeFailed, HomeRefused
from likeset.transports.letter_parcels import CuratorLetters, LetterCurator, parcel_reader
from likeset.transports.nvflare.run_report import NEWS_TOPIC, News, RunReport, write_report
from likeset.transports.outcomes import Ending, SiteState
from likeset.transports.pump import EachAlone, Parcel, Pump
from likeset.transports.sites import (
    SiteLimits,
    SiteParties,
    SocketSettings,
    invitation_files,
    load_invitations,
    load_settings,
)
from likeset.trust.letters import is_acceptance

_SERVER = "server"  # NVFlare's word for the place where the curator works
_SECONDS_BETWEEN_LOOKS = 1.0
_SECONDS_FOR_RECEIPTS = 30.0


class Site:
    """An owner's or the consumer's place. Whoever calls it is believed nothing: letters say who wrote them."""

    def __init__(self) -> None:
        self._table: SiteParties | SiteClient | None = None

    @collab.publish  # type: ignore[untyped-decorator]
    def standing(self, terms: str, context: Any = None) -> object:
        """What this site signs to take part under the terms of this digest, or where it stands."""
        return self._answer(context, lambda table: table.standing(terms))

    @collab.publish  # type: ignore[untyped-decorator]
    def start(self, terms: str, acceptances: list[bytes], context: Any = None) -> object:
        return self._answer(context, lambda table: table.start(terms, acceptances))

    @collab.publish  # type: ignore[untyped-decorator]
    def hear(self, data: bytes, context: Any = None) -> object:
        return self._answer(context, lambda table: table.hear(data))

    @collab.init  # type: ignore[untyped-decorator]
    def load(self, context: Any = None) -> None:
        """Everything that takes long before the first call; what fails here fails again there, in one word."""
        with contextlib.suppress(Exception):
            table = self._open_parties(context)
            if isinstance(table, SiteClient):
                table.line.open()  # the home loads its libraries
            else:
                load_libraries()

    def _answer(self, context: Any, work: Callable[[SiteParties | SiteClient], object]) -> object:
        # What is raised here would travel to the caller, with a traceback.
        try:
            table = self._open_parties(context)
            if context.caller != _SERVER:
                return table.refuse_caller()
            return work(table)
        except Exception:
            return ABSTAINS

    def _open_parties(self, context: Any) -> SiteParties | SiteClient:
        if self._table is None:
            site, workspace = str(context.app.name), context.workspace
            settings = load_settings(Path(workspace.get_site_config_dir()), site)
            config = Path(workspace.get_app_config_dir(collab.fl_ctx.get_job_id()))
            if isinstance(settings, SocketSettings):
                self._table = SiteClient(line_to(settings, invitation_files(config)), Path(workspace.get_root_dir()))
                return self._table
            try:
                invitations = load_invitations(config)
            except LikesetError as error:
                SiteParties(site, {}, settings).refuse(f"a job whose terms cannot be used: {error}")
                raise
            self._table = SiteParties(site, invitations, settings)
        return self._table


class Curation:
    """The curator's place: one run after the other, in the order of their names."""

    def __init__(self) -> None:
        self._news = News()
        self._line: HomeLine | None = None  # to the curator's home, for all runs of the job

    @collab.main  # type: ignore[untyped-decorator]
    def curate(self) -> None:
        """Run all terms that came with the job, and leave a report for whoever submitted it."""
        context, engine = collab.context, collab.fl_ctx.get_engine()
        engine.register_app_command(NEWS_TOPIC, lambda *_: self._news.document())
        workspace, job = context.workspace, collab.fl_ctx.get_job_id()
        reports = []
        invitations = load_invitations(Path(workspace.get_app_config_dir(job))).values()
        for invitation in sorted(invitations, key=lambda invitation: invitation.terms.run):
            self._news = News(invitation.terms.run)
            report, end = _curate_run(invitation, context, self._news, self._opened)
            reports.append(report)
            write_report(Path(workspace.get_run_dir(job)), reports)
            end()
            if context.is_aborted():
                return

    def _opened(self, settings: SocketSettings) -> HomeLine:
        if self._line is None:
            config = Path(collab.context.workspace.get_app_config_dir(collab.fl_ctx.get_job_id()))
            self._line = line_to(settings, invitation_files(config))
        return self._line


def _curate_run(
    invitation: Invitation, context: Any, news: News, line: Callable[[SocketSettings], HomeLine] | None = None
) -> tuple[RunReport, Callable[[], None]]:
    """One run: how it ended, in words that say nothing about rows, and what then lets owners see that it has."""
    began, terms = time.monotonic(), invitation.terms
    transport = _Calls(terms, {proxy.name: proxy for proxy in context.clients}, news)
    pump: Pump | None = None
    curator: CuratorLetters | None = None
    try:
        settings = load_settings(Path(context.workspace.get_site_config_dir()), _SERVER)
        transport.take_limits(settings)
        curator = curator_side(settings, invitation, line)
        check_not_expired(terms, utc_now())
        transport.wait_for_quorum(settings.seconds_for_decisions, context.is_aborted)
        transport.acceptances.append(curator.acceptance())  # only now: terms that nobody takes up leave nothing here
        pump = Pump(
            LetterCurator(curator, transport.parcel),
            transport,
            transport.parcel,
            workers=max(1, len(terms.owners)),
            progress=lambda _, done, total: news.count_answers(done, total),
            cancelled=context.is_aborted,
            most_bytes=settings.most_bytes,
        )
        pump.run()
        outcome, detail = Ending.DONE, ""
    except Exception as error:
        outcome, detail = _ending(error)
    report = RunReport(
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
        detail=detail,
    )
    return report, lambda: transport.end(curator, context.is_aborted)


def _ending(error: Exception) -> tuple[Ending, str]:
    """How a run ended that an error ended, and what else may be said of it: texts of errors may quote rows."""
    match error:
        case RunAborted() | RunCancelled():
            return Ending.CANCELLED, ""
        case QuorumMissed():
            return Ending.QUORUM_MISSED, ""
        case TermsExpired():
            return Ending.TERMS_EXPIRED, ""
        case NotCurated():
            return Ending.NOT_CURATED, str(error)  # which is written for whoever submitted the run
        case _NoConsumer():
            return Ending.NO_CONSUMER, ""
        case UnfinishedRequest():
            return Ending.UNFINISHED, type(error).__name__
        case HomeFailed() | HomeRefused():
            return Ending.FAILED, error.kind
        case _:
            return Ending.FAILED, type(error).__name__


class _NoConsumer(ProtocolError):
    """The consumer's site did not answer."""


class _Unanswered(ProtocolError):
    """A site said something else than an answer, or nothing.

    Attributes:
        state: what is known of it.
    """

    def __init__(self, state: SiteState) -> None:
        super().__init__(str(state))
        self.state = state


class _Calls(EachAlone):
    """Calls of NVFlare's Collab interface, each with a time-out."""

    seconds_per_call = SiteLimits.seconds_per_call
    seconds_after_auction = 0.0
    _told: float | None = None  # when the curator wrote to an owner last, in a run with an auction

    def __init__(self, terms: Terms, proxies: dict[str, Any], news: News) -> None:
        self._terms = terms
        self._proxies = proxies
        self._news = news
        self._gone: set[str] = set()
        self.parcel = parcel_reader(terms, most_bytes=SiteLimits.most_bytes)
        self.acceptances: list[bytes] = []
        self.unanswered: dict[str, SiteState] = {}
        self.done = False
        self.calls = 0
        self.seconds = 0.0

    def take_limits(self, settings: SiteLimits) -> None:
        self.seconds_per_call = settings.seconds_per_call
        self.seconds_after_auction = settings.seconds_after_auction
        self.parcel = parcel_reader(self._terms, most_bytes=settings.most_bytes)

    @property
    def owners(self) -> Collection[str]:
        return [name for name in self._terms.owners if name in self._proxies]

    def wait_for_quorum(self, seconds: float, aborted: Callable[[], bool]) -> None:
        """Gather acceptances, until nobody waits for a person's decision any more or the curator's patience ends.

        Raises:
            QuorumMissed: too few owners take part. Nothing was begun, and nothing is kept of the run: anybody who may
                submit jobs can write terms.
        """
        end = time.monotonic() + seconds
        sites = [self._terms.consumer, *self.owners]
        while True:
            with ThreadPoolExecutor(max_workers=len(sites)) as pool:
                answers = dict(zip(sites, pool.map(self._standing, sites), strict=True))
            standings = {site: SiteState.READY if isinstance(said, bytes) else said for site, said in answers.items()}
            self._news.sites.update(standings)
            if SiteState.WAITING not in standings.values() or aborted() or end <= time.monotonic():
                break
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        self.acceptances = [said for said in answers.values() if isinstance(said, bytes)]
        # Who has not decided by now abstains.
        self.unanswered = {
            owner: SiteState.ABSTAINS if standings[owner] is SiteState.WAITING else standings[owner]
            for owner in self.owners
            if standings[owner] is not SiteState.READY
        }
        if len(self.acceptances) < self._terms.quorum and not aborted():
            raise QuorumMissed(f"{len(self.acceptances)} owners take part; the terms ask for {self._terms.quorum}")

    def _standing(self, site: str) -> bytes | SiteState:
        """What an owner signed, or where it stands; whether it holds, the consumer sees."""
        try:
            said = self._call(site, "standing", self._terms.digest)
        except _Unanswered as error:
            return error.state
        if site == self._terms.consumer:
            return SiteState.READY if said == READY else SiteState.ABSTAINS
        if isinstance(said, bytes) and self._is_accepted_by(site, said):
            return said
        return SiteState.WAITING if said == WAITING else SiteState.ABSTAINS

    def _is_accepted_by(self, site: str, data: bytes) -> bool:
        try:
            return is_acceptance(data) and self.parcel(data).sender == site
        except ProtocolError:
            return False

    def start(self) -> Sequence[bytes]:
        try:
            letters = self._replies(self._call(self._terms.consumer, "start", self._terms.digest, self.acceptances))
        except _Unanswered as error:
            raise _NoConsumer(str(error)) from None
        asked = {self.parcel(letter).recipient for letter in letters}
        for owner in set(self.owners) - asked:
            self.unanswered.setdefault(owner, SiteState.ABSTAINS)  # it came too late: who takes part was fixed before
        return letters

    def ask(self, owner: str, data: bytes) -> Sequence[bytes]:
        if self._terms.auction != "everyone" and self.parcel(data).sender == CURATOR:
            # Its last words to owners are whether they are asked; what a letter says, nobody sees here.
            self._told = time.monotonic()
        try:
            return self._replies(self._call(owner, "hear", data))
        except _Unanswered as error:
            self.unanswered.setdefault(owner, error.state)
            self._news.sites[owner] = error.state
            raise

    def hand_over(self, data: bytes) -> Sequence[bytes]:
        try:
            replies = self._replies(self._call(self._terms.consumer, "hear", data))
        except _Unanswered as error:
            raise _NoConsumer(str(error)) from None
        self.done = not replies  # it has nothing to say to its summary, but for one that contradicts another
        return replies

    def give_back(self, writer: str, data: bytes) -> None:
        self._call(writer, "hear", data)

    def end(self, curator: CuratorLetters | None, aborted: Callable[[], bool]) -> None:
        """What owners see of the end: receipts, and then that the job is over.

        After an auction it comes at a time that does not depend on who was asked. Who heard a no could otherwise tell
        by the clock whether somebody heard a yes: without one there is nothing to wait for and nothing to select.
        """
        until = 0.0 if self._told is None else self._told + self.seconds_after_auction
        while (left := until - time.monotonic()) > 0.0 and not aborted():
            time.sleep(min(left, _SECONDS_BETWEEN_LOOKS))
        if curator is not None:
            self._send_receipts(curator)

    def _send_receipts(self, curator: CuratorLetters) -> None:
        """To every owner who can be reached, all at once; how the run ended is settled, and nothing here changes it.

        Whoever is not reached gets the receipt when the run is resumed, or by hand.
        """
        self.seconds_per_call = min(self.seconds_per_call, _SECONDS_FOR_RECEIPTS)
        parcels: list[Parcel] = []
        with contextlib.suppress(Exception):  # a full disk, a key that is gone: they can be signed when that is mended
            parcels = [parcel for data in curator.end() if (parcel := self.parcel(data)).recipient in self.owners]

        def send(parcel: Parcel) -> None:
            with contextlib.suppress(Exception):
                self._call(parcel.recipient, "hear", parcel.data)

        with ThreadPoolExecutor(max_workers=max(1, len(parcels))) as pool:
            list(pool.map(send, parcels))

    def _replies(self, answer: object) -> Sequence[bytes]:
        if not isinstance(answer, list) or not all(isinstance(reply, bytes) for reply in answer):
            # Whatever else came is not looked at: one word for all of it.
            raise _Unanswered(SiteState.ABSTAINS)
        return answer

    def _call(self, site: str, method: str, *arguments: object) -> object:
        """A site that once gave no answer is not waited for again in this job; a resumed run asks it anew."""
        if site in self._gone or site not in self._proxies:
            raise _Unanswered(SiteState.NO_ANSWER)
        began = time.monotonic()
        try:
            return getattr(self._proxies[site](timeout=self.seconds_per_call), method)(*arguments)
        except CollabCallError:
            self._gone.add(site)
            raise _Unanswered(SiteState.NO_ANSWER) from None
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
            reported = [client.publish_interface for client in self.client_info.values() if client]
            for name in [name for name, info in self.client_info.items() if not info]:
                self.client_info[name] = _ClientInfo(reported[0]) if reported else None
        if task.name == SETUP_TASK_NAME:
            self.client_setup_status.update(dict.fromkeys(self.client_info, True))
        return result
