"""What guards in NVFlare's processes let pass; live attacks are in ``test_network_attacks``."""

import importlib.util
import io
import json
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "homes"))

from card_world import signed_terms
from node_world import terms

from likeset.homes.mail import Invitation
from likeset.transports.nvflare.app_rules import is_job_id, why_folder_refused, why_zip_refused
from likeset.transports.nvflare.job import CLIENT_CONFIG, SERVER_CONFIG, settle, write_job
from likeset.transports.nvflare.message_rules import CellRequest, Passage, why_dropped, why_not_asked

JOB = "668445e3-1886-484f-b455-7d5770ee5a2b"
AT_SITE = Passage(f"b.{JOB}", "server", "localhost", "localhost", f"server.{JOB}", f"b.{JOB}")
AT_SERVER = Passage("server", "a", "a", "a", f"a.{JOB}", f"server.{JOB}")
FROM_PARENT = Passage(f"b.{JOB}", "b", None, "b", "server", f"b.{JOB}")
FROM_CHILD = Passage("b", f"b.{JOB}", None, "b", f"b.{JOB}", "b")
FROM_ADMIN = replace(
    AT_SERVER, neighbour="_admin_1", certificate="lead", expected="_admin_1", origin="_admin_1", destination="server"
)
FROM_SERVERS_JOB = Passage("server", f"server.{JOB}", None, "localhost", f"server.{JOB}", f"b.{JOB}")
AT_SERVERS_JOB = Passage(f"server.{JOB}", "server", None, "localhost", f"a.{JOB}", f"server.{JOB}")


@pytest.mark.parametrize(
    "passage",
    [
        AT_SITE,
        AT_SERVER,
        FROM_PARENT,
        replace(FROM_PARENT, origin="b"),
        FROM_CHILD,
        replace(FROM_CHILD, destination="server"),
        FROM_ADMIN,
        FROM_SERVERS_JOB,
        AT_SERVERS_JOB,
    ],
)
def test_what_runs_need_passes(passage: Passage) -> None:
    assert why_dropped(passage) is None


@pytest.mark.parametrize(
    ("passage", "why"),
    [
        (replace(AT_SITE, origin="a"), "another site"),
        (replace(AT_SITE, origin=f"b.{JOB}"), "another site"),
        (replace(AT_SITE, destination="c"), "for another site"),
        (replace(AT_SITE, certificate="a"), "another certificate"),
        (replace(AT_SITE, neighbour="a", certificate="a", expected="a", origin="a"), "with another site"),
        (replace(AT_SITE, neighbour="b2", certificate=None, expected=None, origin="server"), "with another site"),
        (replace(AT_SITE, offers_connection=True), "past the server"),
        (replace(FROM_PARENT, origin="a"), "another origin"),
        (replace(FROM_CHILD, origin="server"), "another origin"),
        (replace(FROM_CHILD, origin="b"), "another origin"),
        (replace(FROM_CHILD, destination="c"), "for another site"),
        (replace(AT_SERVER, destination="b"), "from one site to another"),
        (replace(AT_SERVER, destination=f"b.{JOB}"), "from one site to another"),
        (replace(AT_SERVER, origin="b"), "another origin"),
        (replace(AT_SERVER, origin=f"server.{JOB}"), "another origin"),
        (replace(AT_SERVER, certificate="b"), "another certificate"),
        (replace(AT_SERVER, certificate=None), "without a certificate"),
        (replace(FROM_ADMIN, destination="b"), "from one site to another"),
        (replace(FROM_ADMIN, origin="server"), "another origin"),
        (replace(FROM_SERVERS_JOB, origin="a"), "another origin"),
        (replace(AT_SERVERS_JOB, neighbour=f"a.{JOB}"), "past the server's own"),
    ],
)
def test_what_comes_from_elsewhere_is_dropped(passage: Passage, why: str) -> None:
    assert why in (why_dropped(passage) or "")


@pytest.mark.parametrize(
    ("request_", "passage", "answered"),
    [
        (CellRequest("admin", "admin"), FROM_CHILD, True),
        (CellRequest("cellnet.channel", "bye"), AT_SITE, True),
        (CellRequest("cellnet.channel", "bulk"), AT_SITE, False),
        (CellRequest("_net_manager", "stop_cell"), AT_SITE, False),
        (CellRequest("_net_manager", "stop_cell"), AT_SERVER, False),
        (CellRequest("cellnet.channel", "bulk"), AT_SERVER, False),
        (CellRequest("task", "heart_beat"), AT_SERVER, True),
        (CellRequest("aux_communication", "anything"), AT_SITE, False),
        (CellRequest("client_command", "abort"), AT_SITE, False),
        (CellRequest("client_command", "abort"), replace(FROM_PARENT, origin="b"), True),
        (CellRequest("sm__STREAM", "sm__ACK"), AT_SITE, True),
        (CellRequest("sm__STREAM", "sm__DATA", "collab", "call"), AT_SITE, True),
        (CellRequest("sm__STREAM", "sm__DATA", "aux_communication", "__end_run__"), AT_SITE, True),
        (CellRequest("sm__STREAM", "sm__DATA", "aux_communication", "fed.event"), AT_SITE, False),
        (CellRequest("sm__STREAM", "sm__DATA", "admin", "admin"), AT_SITE, False),
    ],
)
def test_a_site_is_asked_only_for_what_runs_need(request_: CellRequest, passage: Passage, answered: bool) -> None:
    assert (why_not_asked(request_, passage) is None) is answered


def app_files(folder: Path) -> dict[str, bytes]:
    """The app of an honest job, with NVFlare's signatures."""
    job = write_job(folder / "job", Invitation.read(signed_terms(terms())))
    files = [path for path in (job / "app").rglob("*") if path.is_file()]
    signatures = {".__nvfl_sig.json": b"{}", "config/.__nvfl_submitter.crt": b"-"}
    return {path.relative_to(job / "app").as_posix(): path.read_bytes() for path in files} | signatures


def zipped(files: dict[str, bytes]) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as made:
        made.mkdir("config")
        for name, data in files.items():
            made.writestr(name, data)
    return archive.getvalue()


CHANGES: dict[str, dict[str, bytes]] = {
    "code": {"custom/evil.py": b"1"},
    "beside": {"config/evil.py": b"1"},
    "outside": {"../evil.py": b"1"},
    "communication": {"config/comm_config.json": b"{}"},
    "other name": {"config/invitation-x.bin": b"1"},
    "large": {".__nvfl_sig.json": bytes(1 << 17)},
    "components": {"config/config_fed_client.json": b'{"format_version": 2, "components": []}'},
    "no JSON": {"config/config_fed_server.json": b"{"},
}


@pytest.mark.parametrize("change", [None, *CHANGES])
def test_a_job_brings_terms_and_nothing_else(change: str | None, tmp_path: Path) -> None:
    files = app_files(tmp_path) | CHANGES.get(change or "", {})
    assert (why_zip_refused(zipped(files)) is None) is (change is None)
    app = tmp_path / "unpacked" / "app"
    for name, data in files.items():
        (app / name).parent.mkdir(parents=True, exist_ok=True)
        (app / name).write_bytes(data)
    if change != "outside":  # there it is outside
        assert (why_folder_refused(app) is None) is (change is None)


def test_links_and_broken_archives_are_refused(tmp_path: Path) -> None:
    files = app_files(tmp_path)
    link = zipfile.ZipInfo(f"config/invitation-{'0' * 64}.bin")
    link.external_attr = 0o120777 << 16
    archive = io.BytesIO(zipped(files))
    with zipfile.ZipFile(archive, "a") as made:
        made.writestr(link, "/etc/passwd")
    assert why_zip_refused(archive.getvalue()) is not None
    assert why_zip_refused(b"PK") is not None
    assert why_zip_refused("text") is not None
    app = tmp_path / "job" / "app"
    assert why_folder_refused(app) is None
    (app / "config" / link.filename.split("/")[1]).symlink_to("/etc/passwd")
    assert why_folder_refused(app) is not None


def test_archives_and_configurations_that_break_their_readers_are_refused(tmp_path: Path) -> None:
    """A stream that the decompressor does not know, and brackets that no reader follows to their end."""
    archive = io.BytesIO()
    name = "config/config_fed_client.json"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as writer:
        writer.writestr(name, json.dumps(CLIENT_CONFIG))
    data = bytearray(archive.getvalue())
    data[30 + len(name)] ^= 0xFF
    assert why_zip_refused(bytes(data)) is not None
    (tmp_path / "config").mkdir()
    (tmp_path / name).write_text("[" * 60_000)
    (tmp_path / "config/config_fed_server.json").write_text(json.dumps(SERVER_CONFIG))
    assert why_folder_refused(tmp_path) is not None


@pytest.mark.parametrize("name", ["..", "../x", f"{JOB}/..", f"{JOB} --set x", "", None, JOB.upper(), f"{JOB}\n"])
def test_a_name_that_could_be_a_path_or_an_option_is_no_job(name: object) -> None:
    assert not is_job_id(name)
    assert is_job_id(JOB)


@pytest.mark.parametrize(("startup", "guard"), [("fed_server.json", "ServerGuard"), ("fed_client.json", "SiteGuard")])
def test_to_settle_again_is_to_settle(tmp_path: Path, startup: str, guard: str) -> None:
    for folder in ("startup", "local"):
        (tmp_path / folder).mkdir()
    (tmp_path / "startup" / startup).write_text("{}")
    other = {"id": "process_launcher", "path": "x"}
    (tmp_path / "local" / "resources.json.default").write_text(json.dumps({"components": [other]}))
    settle(tmp_path, socket=tmp_path / "socket", home_user=0)
    first = (tmp_path / "local" / "resources.json").read_text()
    settle(tmp_path, socket=tmp_path / "socket", home_user=0)
    assert (tmp_path / "local" / "resources.json").read_text() == first
    found = json.loads(first)
    guards = "likeset.transports.nvflare.guards"
    assert found["components"] == [{"id": "likeset_guard", "path": f"{guards}.{guard}", "args": {}}, other]
    assert found["app_validator"] == {"path": f"{guards}.JobValidator", "args": {}}


@pytest.fixture
def site_guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """In this process, which is put back to what it was."""
    if importlib.util.find_spec("nvflare") is None:
        pytest.skip("needs likeset[nvflare]")
    from nvflare.fuel.f3.cellnet.core_cell import CoreCell
    from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors

    from likeset.transports.nvflare.guards import SiteGuard

    monkeypatch.setattr(CoreCell, "__init__", CoreCell.__init__)
    processors = list(ClientRequestProcessors.request_processors)
    monkeypatch.setattr(ClientRequestProcessors, "request_processors", processors)
    guard = SiteGuard()
    guard._workspace = SimpleNamespace(site_name="b", get_root_dir=lambda: str(tmp_path))
    guard.told = []
    monkeypatch.setattr(guard, "dropped", guard.told.append)
    guard.processors = processors
    return guard


def asked(guard: Any, topic: str, *, origin: str = "server", body: object = "", **headers: object) -> str | None:
    """What is refused of an administrative request, if it is."""
    from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
    from nvflare.private.admin_defs import Message
    from nvflare.private.defs import new_cell_message

    request = Message(topic, body)
    request.set_headers(headers)
    guard.told.clear()
    answer = guard.look_at_administration(new_cell_message({MessageHeaderKey.ORIGIN: origin}, request))
    assert (answer is None) is (not guard.told)
    return guard.told[0] if guard.told else None


def test_processors_that_no_run_needs_are_gone(site_guard: Any) -> None:
    kept = {topic for processor in site_guard.processors for topic in processor.get_topics()}
    assert kept == {
        "scheduler.check_resource",
        "scheduler.cancel_resource",
        "train.deploy",
        "train.start_job",
        "train.abort",
        "train.notify_job_status",
    }


def test_a_site_takes_administrative_requests_of_its_server_and_its_jobs(site_guard: Any, tmp_path: Path) -> None:
    files = app_files(tmp_path)
    named: dict[str, Any] = {"job_id": JOB, "job_meta": {"job_id": JOB}}
    assert asked(site_guard, "train.abort", job_id=JOB) is None
    assert asked(site_guard, "scheduler.check_resource") is None
    assert asked(site_guard, "train.notify_job_status", origin=f"b.{JOB}", job_id=JOB) is None
    assert asked(site_guard, "train.deploy", body=zipped(files), **named) is None
    app = tmp_path / JOB / "app_b"
    app.parent.mkdir()
    (tmp_path / "job" / "app").rename(app)
    assert asked(site_guard, "train.start_job", **named) is None
    (app / "custom").mkdir()  # as it may lie there from before the site was settled
    assert asked(site_guard, "train.start_job", **named) == "a job that brings something else than terms"


def test_a_site_refuses_all_other_administrative_requests(site_guard: Any, tmp_path: Path) -> None:
    app = zipped(app_files(tmp_path))
    for topic in ("sys.shell", "train.delete_run", "train.shutdown", "train.restart", "train.configure_job_log"):
        assert asked(site_guard, topic, job_id=JOB) == "an administrative command that no run of likeset needs"
    somebody = "an administrative request of somebody else than the server"
    assert asked(site_guard, "train.abort", origin=f"b.{JOB}", job_id=JOB) == somebody
    assert asked(site_guard, "train.deploy", origin=f"server.{JOB}", body=app, job_id=JOB) == somebody
    assert asked(site_guard, "train.notify_job_status", origin="b.other", job_id=JOB) == somebody
    no_name = "a job with a name that is none"
    assert asked(site_guard, "train.abort", job_id="..") == no_name
    assert asked(site_guard, "train.deploy", body=app, job_id=JOB, job_meta={"job_id": "../x"}) == no_name
    assert asked(site_guard, "train.deploy", body=app, job_meta={"job_id": JOB}) == no_name
    code = zipped({**app_files(tmp_path / "again"), "custom/evil.py": b"1"})
    named: dict[str, Any] = {"job_id": JOB, "job_meta": {"job_id": JOB, "submitter_role": "super"}}
    assert asked(site_guard, "train.deploy", body=code, **named) == "a job that brings something else than terms"
