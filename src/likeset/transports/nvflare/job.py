"""What is written down before NVFlare runs: a job, and what a site lets in.

A job is signed terms and the names of those who take part. It carries no code: the classes that it names come from the
package that each site has installed, and a site that was settled here builds no others.
"""

import json
import re
from pathlib import Path
from typing import Any

from likeset.errors import BadDocument, InvalidArgument
from likeset.homes.mail import Invitation
from likeset.protocol.terms import PlannedTerms, check_meant
from likeset.transports.sites import MOST_RUNS, SETTINGS_FILE, SiteLimits, file_of_invitation

CLASSES = (
    "likeset.transports.nvflare.parts.Controller",
    "likeset.transports.nvflare.parts.Curation",
    "likeset.transports.nvflare.parts.Site",
    "nvflare.collab.runtime.executor.CollabExecutor",
)
"""All that a job of likeset ever asks a site to build."""

_SITE_NAME = re.compile(r"[A-Za-z0-9_-]+")
_RESERVED = "server"

SERVER_CONFIG = {
    "format_version": 2,
    "workflows": [{"id": "controller", "path": CLASSES[0], "args": {"server_obj_id": "curation"}}],
    "components": [{"id": "curation", "path": CLASSES[1], "args": {}}],
    "task_data_filters": [],
    "task_result_filters": [],
}
CLIENT_CONFIG = {
    "format_version": 2,
    "executors": [{"tasks": ["*"], "executor": {"path": CLASSES[3], "args": {"client_obj_id": "site"}}}],
    "components": [{"id": "site", "path": CLASSES[2], "args": {}}],
    "task_data_filters": [],
    "task_result_filters": [],
}
_LOG_SENDERS = ("log_streamer", "log_sender")
_GUARDS = "likeset.transports.nvflare.guards"  # not imported: a kit is settled without NVFlare, too
_GUARD_ID = "likeset_guard"
_COMMUNICATION = "comm_config.json"
_ENVELOPE = 1 << 20  # bytes that NVFlare puts around a message, and room to spare


def check_sendable(terms: PlannedTerms, *, room: int = 0) -> None:
    """Raise unless these terms can go into a job.

    Args:
        terms: as they are, or what is fixed of them.
        room: characters to leave for what is not.

    Raises:
        InvalidArgument: a party has a name that no site can have, or sites would refuse to read the terms.
    """
    check_meant(terms, room=room)
    for name in (terms.consumer, *terms.owners):
        if _SITE_NAME.fullmatch(name) is None or name == _RESERVED:
            raise InvalidArgument("owners", name, "is no name for a site: letters, digits, _ and - only, not server")


def write_job(folder: Path, *invitations: Invitation) -> Path:
    """A job for runs under signed terms, as a folder that NVFlare takes; its parties are sites of the same names.

    Raises:
        InvalidArgument: there are no terms or too many, two runs have one name or one id, a party has a name that no
            site can have, or sites would refuse to read the terms.
    """
    terms = [invitation.terms for invitation in invitations]
    if not terms:
        raise InvalidArgument("terms", "none", "a job needs the terms of at least one run")
    for names in ([run_terms.run for run_terms in terms], [run_terms.run_id for run_terms in terms]):
        if len(set(names)) < len(names):
            raise InvalidArgument("terms", "several of one run", "a job may name a run once only")
    if len(terms) > MOST_RUNS:
        raise InvalidArgument("terms", f"of {len(terms)} runs", f"a job may name at most {MOST_RUNS}")
    for run_terms in terms:
        check_sendable(run_terms)
    consumers = sorted({run_terms.consumer for run_terms in terms})
    owners = sorted({name for run_terms in terms for name in run_terms.owners} - set(consumers))
    meta = {
        "name": "likeset",
        "resource_spec": {},
        "min_clients": 1,
        "mandatory_clients": consumers,
        "deploy_map": {"app": [_RESERVED, *consumers, *owners]},
    }
    config = folder / "app" / "config"
    config.mkdir(parents=True, exist_ok=False)
    _write(folder / "meta.json", meta)
    _write(config / "config_fed_server.json", SERVER_CONFIG)
    _write(config / "config_fed_client.json", CLIENT_CONFIG)
    for invitation in invitations:
        (config / file_of_invitation(invitation.terms.digest)).write_bytes(invitation.to_bytes())
    return folder


def write_settings(local: Path, *, factory: str, folder: Path | str, **limits: float) -> None:
    """The ``likeset_site.json`` of sites in the simulator; see ``likeset.transports.sites``."""
    local.mkdir(parents=True, exist_ok=True)
    _write(local / SETTINGS_FILE, {"factory": factory, "folder": str(folder), **limits})


def settle(kit: Path, *, socket: Path, home_user: str | int, **limits: float) -> None:
    """Configure a site of NVFlare for likeset.

    Written into the ``local`` folder of the site's start-up kit: jobs may name likeset's classes only and bring no code
    of their own, users have as few rights as NVFlare's roles allow, and logs are not streamed; guards against other
    sites and administrators, who can get around all that (``guards``). Into the kit itself: no message is taken that is
    larger than ``most_bytes``. To settle a kit again is to settle it.

    Args:
        kit: the site's start-up kit.
        socket: where the process of the site's home listens.
        home_user: whose process that is.
        limits: see ``SiteLimits``; most are for the curator's site.
    """
    local = kit / "local"
    resources = _resources(local)
    resources["class_allow_list"] = list(CLASSES)
    resources["class_list_enforcement_mode"] = "enforce"
    resources["allow_log_streaming"] = False
    components = resources.get("components", [])
    is_server = (kit / "startup" / "fed_server.json").exists()
    guard = {"id": _GUARD_ID, "path": f"{_GUARDS}.{'ServerGuard' if is_server else 'SiteGuard'}", "args": {}}
    others = [component for component in components if not _sends_logs(component) and not _is_guard(component)]
    resources["components"] = [guard, *others]
    resources["app_validator"] = {"path": f"{_GUARDS}.JobValidator", "args": {}}
    _write(local / "resources.json", resources)
    _write(local / "authorization.json", _permissions(is_server=is_server))
    _bound_messages(kit, int(limits.get("most_bytes", SiteLimits.most_bytes)) + _ENVELOPE)
    _write(local / SETTINGS_FILE, {"socket": str(socket), "home_user": home_user, **limits})


def _bound_messages(kit: Path, most_bytes: int) -> None:
    """NVFlare refuses a larger message when it is announced, or as soon as it grows too large; else at 4 GiB.

    The file lies in the kit itself. NVFlare takes the first one of that name that it finds below, and jobs are unpacked
    there, too: one in ``local`` could be set aside by one that comes with a job.
    """
    document = _json_in(kit / "local" / _COMMUNICATION) or {}
    _write(kit / _COMMUNICATION, {**document, "streaming_max_blob_size": most_bytes})


def _resources(local: Path) -> dict[str, Any]:
    for name in ("resources.json", "resources.json.default"):
        document = _json_in(local / name)
        if document is not None:
            return document
    raise BadDocument(str(local), "is not the local folder of a start-up kit: it has no resources.json.default")


def _json_in(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadDocument(str(path), "is not JSON") from error
    return document if isinstance(document, dict) else None


def _sends_logs(component: Any) -> bool:
    words = f"{component.get('id', '')} {component.get('path', '')}".lower() if isinstance(component, dict) else ""
    return any(word in words for word in _LOG_SENDERS)


def _is_guard(component: Any) -> bool:
    return isinstance(component, dict) and component.get("id") == _GUARD_ID


def _permissions(*, is_server: bool) -> dict[str, Any]:
    """Who may do what here: submit and follow jobs; at the server also stop and fetch one's own."""
    nothing = dict.fromkeys(("clone_job", "shell_commands", "byoc", "server-predeployed-flwr"), "none")
    follow = {**nothing, "submit_job": "any", "view": "any" if is_server else "none", "operate": "none"}
    follow |= dict.fromkeys(("manage_job", "download_job", "app_command"), "n:submitter" if is_server else "none")
    admin = {**follow, "operate": "any", "manage_job": "any"} if is_server else {**follow, "manage_job": "any"}
    roles = {"project_admin": admin, "lead": follow}
    quiet = {**follow, "submit_job": "none", "manage_job": "none", "download_job": "none"}
    return {"format_version": "1.0", "permissions": {**roles, "org_admin": quiet, "member": quiet}}


def _write(path: Path, document: Any) -> None:
    path.write_text(json.dumps(document, indent=2, sort_keys=True), encoding="utf-8")
