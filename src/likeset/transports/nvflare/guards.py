"""Guards in NVFlare's own processes; ``settle`` has NVFlare build them from the site's own configuration.

NVFlare lets any site, and any administrator of role ``super``, ask every other site for shell commands and send it
code. A site that was settled answers only its server, does only what a job of likeset needs, and takes no job that
brings anything but signed terms, whoever submitted it. The server, as a second wall, passes nothing from one site to
another, and nothing whose origin is not its connection's.

They are built when NVFlare reads its configuration, before any connection: there is no time without them. What they
refuse at a site, its home is told.
"""

import contextlib
import queue
import threading
import time
from pathlib import Path
from typing import Any

from nvflare.apis.app_validation import AppValidator
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey
from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, MessagePropKey, MessageType, ReturnCode
from nvflare.fuel.f3.cellnet.utils import make_reply
from nvflare.fuel.f3.streaming.stream_const import StreamHeaderKey
from nvflare.private.admin_defs import Message as AdminMessage
from nvflare.private.admin_defs import error_reply
from nvflare.private.defs import CellChannel, RequestHeader, TrainingTopic, new_cell_message
from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors

from likeset.transports.curator_sides import line_to
from likeset.transports.home_socket.client import HomeLine
from likeset.transports.home_socket.verbs import Verb
from likeset.transports.nvflare.app_rules import is_job_id, why_folder_refused, why_zip_refused
from likeset.transports.nvflare.message_rules import SERVER, CellRequest, Passage, why_dropped, why_not_asked
from likeset.transports.sites import SiteParties, SocketSettings, load_settings

_OF_SERVER = frozenset(
    {
        TrainingTopic.CHECK_RESOURCE,
        TrainingTopic.CANCEL_RESOURCE,
        TrainingTopic.DEPLOY,
        TrainingTopic.START_JOB,
        TrainingTopic.ABORT,
    }
)
"""All that the server asks of a site in a job of likeset."""

_OF_JOBS = frozenset({TrainingTopic.NOTIFY_JOB_STATUS})
"""All that a site's own job tells it."""

_UNKNOWN_NAME = "N/A"  # NVFlare's word for a certificate that its driver does not show
_MOST_WAITING = 100  # of what was refused and the home was not told yet
_SECONDS_AFTER_FAILURE = 1.0
_REFUSED = "refused"  # the other side hears nothing else


class JobValidator(AppValidator):  # type: ignore[misc]
    """Refuses every job that brings something else than signed terms, whatever its submitter's role."""

    def validate(self, app_folder: str) -> tuple[str, dict[str, Any]]:
        return why_folder_refused(Path(app_folder)) or "", {}


class ServerGuard(FLComponent):  # type: ignore[misc]
    """At the server: nothing from one site to another, and nothing in the name of somebody else."""

    def __init__(self) -> None:
        super().__init__()
        _guard_new_cells(self)

    def attach(self, cell: Any) -> None:
        """Look at all that comes to a cell, before NVFlare does."""
        cell.add_incoming_filter("*", "*", self.look, cell)

    def look(self, message: Any, cell: Any) -> Any:
        """None for a message that passes; NVFlare drops one for which there is something else, or an error."""
        passage = _passage(message, cell)
        why = why_dropped(passage)
        is_request = message.get_header(MessageHeaderKey.MSG_TYPE) == MessageType.REQ
        if why is None and is_request and passage.destination == passage.cell:
            why = why_not_asked(_request(message), passage)
        if why is None:
            return None
        self.dropped(why)
        return make_reply(ReturnCode.UNAUTHENTICATED)

    def dropped(self, why: str) -> None:
        """Into the log of NVFlare's process."""
        self.logger.warning("dropped %s", why)


class _HomeTold:
    """Tells the home what was refused, beside NVFlare's own work: whoever floods a site must not hold it up.

    Args:
        settings: the site's own folder of settings, which says where the home is.
        site: its name.
    """

    def __init__(self, settings: Path, site: str) -> None:
        self._settings, self._site = settings, site
        self._waiting: queue.Queue[str] = queue.Queue(_MOST_WAITING)
        threading.Thread(target=self._work, name="likeset-guard", daemon=True).start()

    def tell(self, why: str) -> None:
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(why)

    def _work(self) -> None:
        line: HomeLine | None = None
        while True:
            why = self._waiting.get()
            try:
                if line is None:
                    settings = load_settings(self._settings, self._site)
                    if not isinstance(settings, SocketSettings):
                        SiteParties(self._site, {}, settings).refuse(f"NVFlare brought {why}")
                        continue
                    line = line_to(settings, ())
                line.ask(Verb.REFUSE, why.encode())
            except Exception:  # a home that is not there: NVFlare's log has it
                time.sleep(_SECONDS_AFTER_FAILURE)


class SiteGuard(ServerGuard):
    """At a site: its server and its own jobs are heard, in what a job of likeset needs, and nobody else."""

    def __init__(self) -> None:
        super().__init__()
        self._workspace: Any = None
        self._home: _HomeTold | None = None
        self._before: list[str] = []  # what was refused before NVFlare had said where its files are
        processors = ClientRequestProcessors.request_processors
        processors[:] = [processor for processor in processors if set(processor.get_topics()) <= _OF_SERVER | _OF_JOBS]

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        """The first event of the site's process, and of the process of a job, says where NVFlare's files are."""
        if event_type in (EventType.SYSTEM_BOOTSTRAP, EventType.BEFORE_BUILD_COMPONENT) and self._workspace is None:
            self._workspace = fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT)
            before, self._before = self._before, []
            for why in before:
                self.dropped(why)

    def attach(self, cell: Any) -> None:
        """Look at all that comes to a cell, and again at administrative requests when they can be read."""
        super().attach(cell)
        cell.add_incoming_request_filter(CellChannel.CLIENT_MAIN, "*", self.look_at_administration)

    def look_at_administration(self, message: Any) -> Any:
        """None for a request that is answered, or the answer to one that is refused."""
        why = self._why_refused(message.payload, str(message.get_header(MessageHeaderKey.ORIGIN)))
        if why is None:
            return None
        self.dropped(why)
        return new_cell_message({}, error_reply(_REFUSED))

    def dropped(self, why: str) -> None:
        """Told to the home, and by it to its people; also into the log of NVFlare's process."""
        super().dropped(why)
        workspace = self._workspace
        if workspace is None:
            self._before = [*self._before[:99], why]
            return
        if self._home is None:
            self._home = _HomeTold(Path(workspace.get_site_config_dir()), str(workspace.site_name))
        self._home.tell(why)

    def _why_refused(self, request: Any, origin: str) -> str | None:
        if not isinstance(request, AdminMessage):
            return "an administrative request that is none"
        job = request.get_header(RequestHeader.JOB_ID)
        if origin != SERVER:
            its_own = request.topic in _OF_JOBS and is_job_id(job) and origin.endswith(f".{job}")
            return None if its_own else "an administrative request of somebody else than the server"
        if request.topic not in _OF_SERVER:
            return "an administrative command that no run of likeset needs"
        if job is not None and not is_job_id(job):
            return "a job with a name that is none"
        if request.topic in (TrainingTopic.DEPLOY, TrainingTopic.START_JOB):
            return self._why_job_refused(request, job)
        return None

    def _why_job_refused(self, request: Any, job: Any) -> str | None:
        meta = request.get_header(RequestHeader.JOB_META)
        if self._workspace is None or not is_job_id(job) or not isinstance(meta, dict) or meta.get("job_id") != job:
            return "a job with a name that is none"
        if request.topic == TrainingTopic.DEPLOY:
            return why_zip_refused(request.body)
        # What lies there may have come before this site was settled.
        return why_folder_refused(Path(self._workspace.get_root_dir()) / job / f"app_{self._workspace.site_name}")


def _guard_new_cells(guard: ServerGuard) -> None:
    """Every cell that this process makes from now on has the guard before it connects."""
    make = CoreCell.__init__

    def make_guarded(cell: Any, *args: Any, **kwargs: Any) -> None:
        make(cell, *args, **kwargs)
        guard.attach(cell)

    CoreCell.__init__ = make_guarded


def _passage(message: Any, cell: Any) -> Passage:
    neighbour = message.get_prop(MessagePropKey.ENDPOINT).name
    certificate = message.get_prop(MessagePropKey.COMMON_NAME)
    return Passage(
        cell=cell.get_fqcn(),
        neighbour=neighbour,
        certificate=None if certificate in (None, "", _UNKNOWN_NAME) else certificate,
        expected=cell.identity_resolver.resolve(neighbour),
        origin=str(message.get_header(MessageHeaderKey.ORIGIN)),
        destination=str(message.get_header(MessageHeaderKey.DESTINATION)),
        offers_connection=message.get_header(MessageHeaderKey.CONN_URL) is not None,
    )


def _request(message: Any) -> CellRequest:
    return CellRequest(
        channel=str(message.get_header(MessageHeaderKey.CHANNEL)),
        topic=str(message.get_header(MessageHeaderKey.TOPIC)),
        streamed_channel=str(message.get_header(StreamHeaderKey.CHANNEL)),
        streamed_topic=str(message.get_header(StreamHeaderKey.TOPIC)),
    )
