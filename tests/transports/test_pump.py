"""The loop between the curator and bytes from elsewhere; the NVFlare engine, as far as no process is needed."""

import hashlib
import importlib.util
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from honest_wire import HonestWire
from protocol_world import THRESHOLD, carry, same_summary, terms, world

from likeset.errors import BadDocument, InvalidArgument, LikesetError, ProtocolError, QuorumMissed, RunCancelled
from likeset.homes.mail import Invitation
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Terms
from likeset.protocol.wire import Offer, encode
from likeset.transports.nvflare import engine as engine
from likeset.transports.nvflare.job import CLASSES, settle, write_job
from likeset.transports.nvflare.run_report import REPORT_FILE, RunReport, read_report, write_report
from likeset.transports.outcomes import Ending, SiteState
from likeset.transports.plain_messages import PlainCurator, read_parcel
from likeset.transports.pump import Parcel, Pump
from likeset.trust.cards import CardSecret
from likeset.trust.letters import sign_terms


@dataclass
class _Wire(HonestWire):
    """Parties in this process behind a wire on which owners may say anything."""

    says: dict[str, Sequence[bytes] | LikesetError] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def ask(self, owner: str, data: bytes) -> Sequence[bytes]:
        self.asked.append(owner)
        said = self.says.get(owner, super().ask(owner, data))
        if isinstance(said, LikesetError):
            raise said
        return said


def _pumped(says: dict[str, Sequence[bytes] | LikesetError], **options: Any) -> tuple[Pump, _Wire]:
    made = world(terms(**options))
    wire = _Wire(made, says)
    return Pump(PlainCurator(made.curator()), wire, read_parcel, most_bytes=1 << 16), wire


def _large_offer() -> bytes:
    """An honest offer with records that make it larger than the curator allows."""
    made = world(terms())
    call = made.first_words(made.curator())[0]
    (reply,) = made.owner("a").take(call)
    assert isinstance(reply.body, Offer)
    return encode(replace(reply, body=replace(reply.body, records=np.zeros(1 << 16, dtype=np.uint8))))


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (ProtocolError("no answer"), "no answer"),
        (ProtocolError("abstains"), "abstains"),
        ([b"garbage"], "not a message"),
        ([b"\x00" * (1 << 17)], "more than the"),
        ([_large_offer()], "more than the"),
    ],
    ids=["time-out", "abstains", "garbage", "oversized", "oversized message"],
)
@pytest.mark.parametrize("options", [{}, THRESHOLD, {"protocol": "interactive"}])
def test_whatever_an_owner_sends_in_place_of_an_answer_is_an_abstention(
    options: dict[str, Any], said: Sequence[bytes] | LikesetError, reason: str
) -> None:
    pump, wire = _pumped({"a": said}, **options)
    pump.run()
    assert reason in pump.failures["a"]
    assert wire.consumer.party.summary is not None
    absent = world(terms(**options))
    del absent.data["a"]
    assert same_summary(wire.consumer.party.summary, carry(absent).summary)


def test_too_few_answers_miss_the_quorum() -> None:
    pump, _ = _pumped({"a": ProtocolError("no answer")}, quorum=3)
    with pytest.raises(QuorumMissed):
        pump.run()


@dataclass
class _Repeating:
    """A curator who hears an old message in ever new letters, and says again what it said to it."""

    terms: Terms = field(default_factory=terms)
    waiting_for: frozenset[str] = frozenset()

    def take(self, data: bytes) -> Sequence[Parcel]:
        del data
        return [Parcel(CURATOR, "a", b"the same")]

    def give_up(self, owner: str) -> Sequence[Parcel]:
        del owner
        return []


@dataclass
class _Circling(_Wire):
    """An owner who puts an old message into a new letter whenever it is written to."""

    def start(self) -> Sequence[bytes]:
        return [b"hospital curator 0"]

    def ask(self, owner: str, data: bytes) -> Sequence[bytes]:
        del data
        self.asked.append(owner)
        assert len(self.asked) < 50, "round and round"
        return [f"a curator {len(self.asked)}".encode()]


def test_an_owner_cannot_go_round_in_circles_with_new_letters_that_say_the_same() -> None:
    wire = _Circling(world(terms()))

    def address(data: bytes) -> Parcel:
        sender, recipient, _ = data.decode().split()
        return Parcel(sender, recipient, data)

    with pytest.raises(RunCancelled, match="without a summary"):
        Pump(_Repeating(), wire, address).run()
    assert wire.asked == ["a"]


def test_a_job_is_signed_terms_and_names_and_nothing_else(tmp_path: Path) -> None:
    invited = _invited(terms())
    name = f"invitation-{invited.terms.digest}.bin"
    job = write_job(tmp_path / "job", invited)
    files = {path.relative_to(job).as_posix() for path in job.rglob("*") if path.is_file()}
    config = "app/config"
    assert files == {
        "meta.json",
        f"{config}/config_fed_server.json",
        f"{config}/config_fed_client.json",
        f"{config}/{name}",
    }
    assert (job / config / name).read_bytes() == invited.to_bytes()
    assert json.loads((job / "meta.json").read_text())["deploy_map"] == {"app": ["server", "hospital", "a", "b", "c"]}
    named = [
        one
        for name in ("server", "client")
        for one in _paths(json.loads((job / config / f"config_fed_{name}.json").read_text()))
    ]
    assert sorted(named) == sorted(CLASSES)


def _paths(document: Any) -> list[str]:
    if isinstance(document, dict):
        found = [document["path"]] if "path" in document else []
        return found + [path for one in document.values() for path in _paths(one)]
    return [path for one in document for path in _paths(one)] if isinstance(document, list) else []


@pytest.mark.parametrize(
    ("agreed", "complaint"),
    [
        ([], "at least one run"),
        ([terms(), terms(size=5)], "once only"),
        ([terms(owners=("a", "server"))], "no name for a site"),
        ([terms(owners=("a.b",))], "no name for a site"),
        ([terms(consumer="x@y")], "no name for a site"),
    ],
)
def test_a_job_that_no_network_could_run_is_refused(tmp_path: Path, agreed: list[Any], complaint: str) -> None:
    with pytest.raises(InvalidArgument, match=complaint):
        write_job(tmp_path / "job", *map(_invited, agreed))


def _invited(agreed: Terms) -> Invitation:
    """Signed terms, each of a run id of its own; of no home."""
    secrets_of_cards = {name: _secret(name) for name in (agreed.consumer, CURATOR, *agreed.owners)}
    cards = {name: secret.card.fingerprint for name, secret in secrets_of_cards.items()}
    run_id = hashlib.sha256(agreed.run.encode()).hexdigest()[:32]
    named = agreed.with_changes(run_id=run_id, cards=cards)
    secret = secrets_of_cards[agreed.consumer]
    return Invitation(sign_terms(named.to_json(), secret, secret.sealing.public), named)


@cache
def _secret(name: str) -> CardSecret:
    return CardSecret.generate("".join(letter if letter.isalnum() else "-" for letter in name))


def _kit(folder: Path, *, server: bool) -> Path:
    (folder / "local").mkdir(parents=True)
    (folder / "startup").mkdir()
    (folder / "startup" / f"fed_{'server' if server else 'client'}.json").write_text("{}")
    components = [
        {"id": "site_log_streamer", "path": "nvflare.app_common.logging.site_log_streamer.SiteLogStreamer"},
        {"id": "process_launcher", "path": "nvflare.x.Launcher"},
    ]
    document = {"class_allow_list": ["*"], "allow_log_streaming": True, "components": components, "kept": 1}
    (folder / "local" / "resources.json.default").write_text(json.dumps(document))
    return folder


@pytest.mark.parametrize("server", [False, True])
def test_a_settled_site_builds_no_other_class_runs_no_foreign_code_and_sends_no_log(
    tmp_path: Path, server: bool
) -> None:
    kit = _kit(tmp_path / "kit", server=server)
    settle(kit, socket=tmp_path / "home.sock", home_user="likeset")
    found = json.loads((kit / "local" / "resources.json").read_text())
    assert found["class_allow_list"] == list(CLASSES)
    assert found["class_list_enforcement_mode"] == "enforce"
    assert found["allow_log_streaming"] is False
    assert [one["id"] for one in found["components"]] == ["likeset_guard", "process_launcher"]
    assert found["kept"] == 1
    for rights in json.loads((kit / "local" / "authorization.json").read_text())["permissions"].values():
        assert rights["byoc"] == rights["shell_commands"] == "none"
        if not server:
            assert rights["view"] == rights["download_job"] == "none"
    settle(kit, socket=tmp_path / "home.sock", home_user="likeset")  # again, from what it wrote


def test_a_settled_site_takes_no_message_that_is_too_large_and_no_job_can_change_that(tmp_path: Path) -> None:
    """NVFlare reads the first ``comm_config.json`` that it finds under the kit, and jobs are unpacked there."""
    kit = _kit(tmp_path / "kit", server=False)
    (kit / "local" / "comm_config.json").write_text('{"allow_adhoc_conns": false}')
    settle(kit, socket=tmp_path / "home.sock", home_user="likeset", most_bytes=1000)
    expected = {"allow_adhoc_conns": False, "streaming_max_blob_size": 1000 + (1 << 20)}
    assert json.loads((kit / "comm_config.json").read_text()) == expected
    for place in ("0", "a-job/app/config", "zzz"):
        (kit / place).mkdir(parents=True)
        (kit / place / "comm_config.json").write_text('{"streaming_max_blob_size": 9e99}')
    if importlib.util.find_spec("nvflare"):
        from nvflare.fuel.utils.config_factory import ConfigFactory

        assert ConfigFactory.load_config("comm_config.json", [str(kit)]).to_dict() == expected
    settle(kit, socket=tmp_path / "home.sock", home_user="likeset")
    assert json.loads((kit / "comm_config.json").read_text())["streaming_max_blob_size"] == (1 << 28) + (1 << 20)


def test_a_folder_that_is_no_kit_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadDocument, match="start-up kit"):
        settle(tmp_path, socket=tmp_path / "home.sock", home_user="likeset")
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "resources.json").write_text("{")
    with pytest.raises(BadDocument, match="not JSON"):
        settle(tmp_path, socket=tmp_path / "home.sock", home_user="likeset")


def test_a_report_comes_back_as_it_was_written(tmp_path: Path) -> None:
    report = RunReport("r", "d", Ending.DONE, {"a": SiteState.ABSTAINS}, ("b",), 3, 4, 0.5, 6, 0.25, "words")
    assert read_report(tmp_path) == []
    write_report(tmp_path, [report])
    assert read_report(tmp_path) == [report]
    assert report.done
    (tmp_path / "likeset_report.json").write_text("[{}]")
    with pytest.raises(BadDocument, match="no report"):
        read_report(tmp_path)


def test_without_nvflare_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(InvalidArgument, match=r"likeset\[nvflare\]"):
        engine.NvflareEngine(tmp_path, "lead")
    with pytest.raises(InvalidArgument, match=r"likeset\[nvflare\]"):
        engine.simulate(workspace=tmp_path, factory="f:g", folder=tmp_path)


@dataclass
class _Session:
    """A server at which jobs end as told."""

    ends: list[list[RunReport]]
    folder: Path
    submitted: list[set[str]] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)

    def submit_job(self, job: str) -> str:
        self.submitted.append({path.name for path in Path(job).rglob("invitation-*.bin")})
        return f"job-{len(self.submitted)}"

    def get_job_meta(self, _job: str) -> dict[str, str]:
        return {"status": "FINISHED:COMPLETED"}

    def abort_job(self, job: str) -> None:
        self.aborted.append(job)

    def download_job_result(self, _job: str, folder: str) -> str:
        reports = self.ends.pop(0)
        if reports:
            write_report(Path(folder), reports)
        return folder


def _engine(session: _Session, monkeypatch: pytest.MonkeyPatch, **options: Any) -> engine.NvflareEngine:
    from contextlib import nullcontext

    made = engine.NvflareEngine(session.folder, "lead", **options)
    monkeypatch.setattr(engine, "_need_nvflare", lambda: None)
    monkeypatch.setattr(engine.NvflareEngine, "_session", lambda _: nullcontext(session))
    monkeypatch.setattr(engine, "_SECONDS_BETWEEN_LOOKS", 0.0)
    return made


def _report(agreed: Any, outcome: str) -> RunReport:
    return RunReport(agreed.run, agreed.digest, Ending(outcome), {}, (), 1, 1, 0.0, 1, 0.0)


@pytest.mark.parametrize(
    ("field", "said"), [("outcome", "failed: UnfinishedRequest"), ("unanswered", {"a": "gone"}), ("unanswered", ["a"])]
)
def test_a_report_with_words_that_are_none_of_ours_is_refused(tmp_path: Path, field: str, said: object) -> None:
    write_report(tmp_path, [_report(terms(), "done")])
    assert read_report(tmp_path)[0].outcome is Ending.DONE
    path = tmp_path / REPORT_FILE
    path.write_text(json.dumps([{**json.loads(path.read_text())[0], field: said}]))
    with pytest.raises(BadDocument, match="is no report of runs"):
        read_report(tmp_path)


def test_runs_of_a_job_that_ended_early_are_resumed_and_those_that_ended_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = (_invited(terms(run=name)) for name in ("x", "y", "z"))
    ends = [
        [_report(first.terms, "done"), _report(second.terms, "cancelled")],
        [],
        [_report(second.terms, "quorum missed"), _report(third.terms, "done")],
    ]
    session = _Session(ends, tmp_path)
    states: list[str] = []
    reports = _engine(session, monkeypatch, progress=states.append).run(first, second, third)
    assert [report.outcome for report in reports] == ["done", "quorum missed", "done"]
    assert [len(names) for names in session.submitted] == [3, 2, 2]
    assert session.submitted[1] == {f"invitation-{one.terms.digest}.bin" for one in (second, third)}
    assert states == ["FINISHED:COMPLETED"] * 3


def test_a_run_that_never_ends_and_one_that_is_cancelled_are_said_to_be_resumable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = _Session([[], []], tmp_path)
    with pytest.raises(LikesetError, match="2 jobs ended before the end of run-1; submit the same terms"):
        _engine(session, monkeypatch, attempts=2).run(_invited(terms()))
    session = _Session([], tmp_path)
    with pytest.raises(LikesetError, match="submit the same terms to resume"):
        _engine(session, monkeypatch, cancelled=lambda: True).run(_invited(terms()))
    assert session.aborted == ["job-1"]
