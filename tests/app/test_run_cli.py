"""``likeset run`` and ``likeset site`` as a user types them; the network is in this process."""

import io
import json
import math
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1] / "run"))

from console_world import ADDRESS, signed_in_at
from node_world import rows_text
from remote_world import HereEngine, make_world, write_job

from likeset.app.cli import app, run
from likeset.app.console.consumer import consumer_site
from likeset.app.console.server import application
from likeset.errors import (
    BadDocument,
    BudgetExceeded,
    InvalidArgument,
    LikesetError,
    NoAnswer,
    NotCurated,
    UnfinishedRequest,
)
from likeset.homes.consumer_home import ConsumerHome
from likeset.homes.curator_home import CuratorHome
from likeset.homes.mail import Invitation
from likeset.ledger.ledger import Ledger
from likeset.protocol.terms import Terms
from likeset.transports.nvflare.run_report import News
from likeset.transports.outcomes import Ending, SiteState
from likeset.transports.sites import SiteSettings

pytestmark = pytest.mark.usefixtures("without_figures")


class World:
    """A consumer at a keyboard."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        make_world(folder)
        self.engine = HereEngine(folder)
        monkeypatch.setattr(run, "engine_of", lambda _: self.engine)
        monkeypatch.setenv("LIKESET_HOME", str(folder / "home"))

    def say(self, *words: object, code: int = 0) -> Any:
        result = CliRunner().invoke(app, ["run", *map(str, words), "--json"])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return json.loads(result.stdout)

    def shown(self, *words: object) -> str:
        result = CliRunner().invoke(app, ["run", *map(str, words)])
        assert result.exit_code == 0, result.output
        return result.stdout


def _terms(invited: dict[str, Any]) -> Terms:
    """What the file says that is given to owners."""
    return Invitation.read(Path(invited["invitation"]).read_bytes()).terms


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def test_a_run_from_invitation_to_shares(world: World) -> None:
    job = world.folder / "job.yaml"
    assert world.say("plan", job)["rows_per_owner"] == 12
    invited = world.say("invite", job, "--days", 3)
    assert _terms(invited).expires == invited["expires"]
    assert invited["cards"] == dict(_terms(invited).cards)
    assert set(invited["cards"]) == {"new-clinic", "curator", "a", "b"}
    assert world.say("invite", job, "--days", 4) == invited  # the same bytes, whatever is asked for now
    assert world.say("submit", job)["digest"] == invited["digest"]
    done = {"run": "run-1", "state": "done", "detail": "", "sites": {"a": "done", "b": "done"}, "obstacle": None}
    assert world.say("watch", "run-1") == done
    assert world.say("report", "run-1")["rows_selected"] == 6
    shares = world.say("shares", "run-1")["owners"]
    assert sum(one["share"] for one in shares) == pytest.approx(1.0)
    assert sum(one["selected"] for one in shares) == 6
    (listed,) = world.say("list")["runs"]
    assert (listed["jobs"], listed["result"]) == (1, True)


def test_every_screen_shows_one_price_and_one_share(world: World) -> None:
    """The width of the release's kernel is chosen privately: 15% of rho. The release alone costs 7.26 of the 8."""
    job, home = world.folder / "job.yaml", ConsumerHome(world.folder / "home")

    def told() -> list[str]:
        site = consumer_site(home)
        console = signed_in_at(application(site, ADDRESS), site).get("/run?name=run-1").words
        return re.findall(r"epsilon = (\S+) ", console) + re.findall(r"becomes correct at most (\S+)%", console)

    planned = world.say("plan", job)["guarantees"]
    world.say("invite", job)
    before = told()
    world.say("submit", job)
    result = world.say("report", "run-1")
    about_target = result["guarantees"][0]
    assert planned == result["guarantees"]
    assert about_target["epsilon"] == pytest.approx(8.0, rel=1e-5)
    assert {one["what"]: round(one["epsilon"], 2) for one in about_target["parts"]}["release"] == 7.26
    with Ledger(home.ledger) as ledger:
        (account,) = [one for one in ledger.accounts() if one.view.observer == "owners"]
    assert account.epsilon == pytest.approx(8.0, rel=1e-5)
    percent = f"{math.ceil(1000 * about_target['guess']) / 10:g}"
    shown = [world.shown("plan", job), world.shown("report", "run-1")]
    page = (home.known("run-1").result / "report.html").read_text()
    assert before == told() == ["8", percent]
    for text in (*shown, page):
        assert f"at most {percent}% of the time (epsilon 8, delta 1e-05)" in " ".join(text.split())
    shares = {one["name"]: one["share"] for one in world.say("shares", "run-1")["owners"]}
    assert shares == result["shares"] == {one["name"]: one["share"] for one in result["owners"]}


def test_a_second_run_beyond_the_limit_of_the_first_says_where_that_stands(world: World) -> None:
    world.say("invite", world.folder / "job.yaml")
    world.say("submit", world.folder / "job.yaml")
    with pytest.raises(BudgetExceeded) as refused:
        world.say("invite", write_job(world.folder, run="run-2"))
    look, change = refused.value.__notes__
    assert look == f"look at it with: likeset ledger show {world.folder / 'home' / 'ledger.sqlite'}"
    assert "likeset ledger limit" in change


def test_people_read_tables(world: World) -> None:
    assert "What will travel" in world.shown("plan", world.folder / "job.yaml")
    home = world.folder / "home"
    assert f"Next: likeset run watch run-1 --home {home}" in world.shown("submit", world.folder / "job.yaml")
    assert "a: done" in world.shown("watch", "run-1")
    shown = world.shown("report", "run-1")
    assert "unknown" in shown  # nobody told how many rows an owner has
    assert "at most 12" in shown  # nor how many of them left
    assert "run-1" in world.shown("list")


def test_people_see_whom_they_invite_by_which_card(world: World) -> None:
    told = world.shown("invite", world.folder / "job.yaml")
    cards = world.say("invite", world.folder / "job.yaml")["cards"]
    for name in ("a", "b", "curator"):
        assert f"{name}  {cards[name]}\n" in told
    assert f"only if they have pinned your card: {cards['new-clinic']}" in told
    assert "likeset owner inbox --add run-1.invitation" in told


def test_a_home_without_keys_is_told_before_anything_is_submitted(world: World) -> None:
    world.say("submit", world.folder / "job.yaml")
    world.say("report", "run-1")
    (world.folder / "home" / "card.secret").unlink()
    for words in (["resume", "run-1"], ["submit", world.folder / "job.yaml"]):
        with pytest.raises(BadDocument, match="there are no keys in this home"):
            world.say(*words)
    assert world.say("report", "run-1")["rows_selected"] == 6  # to look needs no keys
    assert world.say("list")["runs"][0]["invitation"].endswith("run-1.invitation")


def test_wishes_for_the_selection_are_told_to_the_consumer_and_not_in_the_terms(world: World) -> None:
    job = write_job(world.folder, gamma=0.625, weights=True)
    (note,) = world.say("plan", job)["between_organisations"]
    words = "the curator hears, with your rows, how to select: gamma = 0.625, weights = True; no owner does"
    assert note == {"kind": "selection-is-told", "owner": None, "text": words}
    assert words in world.shown("plan", job)
    invited = world.say("invite", job)
    assert invited["notes"] == [note]
    assert "0.625" not in _terms(invited).to_json()
    world.say("submit", job)
    assert world.say("report", "run-1")["gamma"] == 0.625


def test_a_curator_is_given_public_rows_and_a_run_says_which_it_needs(world: World) -> None:
    (world.folder / "public.csv").write_text(rows_text(3, count=5))
    job = write_job(world.folder, protocol="interactive", seed_rows="public.csv")
    note, _ = world.say("plan", job)["between_organisations"]
    assert "the curator must have the same public seed rows" in note["text"]
    terms = _terms(world.say("invite", job))
    assert terms.seed_rows == 5
    with pytest.raises(NotCurated, match=terms.seed_digest[:12]):
        world.say("submit", job)
    kit = world.folder / "kit"
    for name in ("startup", "local"):
        (kit / name).mkdir(parents=True)
    (kit / "local" / "resources.json.default").write_text(json.dumps({"components": []}))
    words = ["site", "curator", str(kit), "--home", str(world.folder / "curator")]
    odd = CliRunner().invoke(app, [*words, "--seed-rows", str(world.folder / "schema.yaml")])
    assert isinstance(odd.exception, LikesetError)
    assert not (kit / "local" / "likeset_site.json").exists()
    given = CliRunner().invoke(app, [*words, "--seed-rows", str(world.folder / "public.csv"), "--json"])
    assert given.exit_code == 0, given.output
    world.say("submit", job)
    assert world.say("report", "run-1")["rows_selected"] == 6


def test_what_cannot_be_carried_is_said_by_the_plan(world: World) -> None:
    for changes, reason in (
        ({"noise": "simulated"}, "noise is secret"),
        ({"purpose": "x" * 501}, "at most 500 characters"),
        ({"protocol": "interactive", "size": 10_001}, "more than anybody can mean"),
        ({"owners": {"a": "network:a", "st.mary": "network:b"}}, "is no name for a site"),
    ):
        result = CliRunner().invoke(app, ["run", "plan", str(write_job(world.folder, **changes))])
        assert isinstance(result.exception, InvalidArgument)
        assert reason in str(result.exception)


def test_offers_that_a_curator_would_not_take_are_said_by_the_plan(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, many = world.folder / "job.yaml", {"protocol": "interactive", "size": 40}
    offer = world.say("plan", job)["sent_bytes_per_owner_at_most"]
    monkeypatch.setattr(SiteSettings, "most_bytes", offer)
    assert world.say("plan", job)["between_organisations"] == []
    assert world.say("plan", write_job(world.folder, **many))["sent_bytes_per_owner_at_most"] > offer
    assert [note["kind"] for note in world.say("plan", job)["between_organisations"]] == ["rounds-are-looks"]
    monkeypatch.setattr(SiteSettings, "most_bytes", offer - 1)
    (note,) = world.say("plan", write_job(world.folder))["between_organisations"]
    assert note["kind"] == "large-offer"
    assert "lower size or offer_factor" in note["text"]
    assert "lower size or offer_factor" in " ".join(world.shown("plan", job).split())


def test_absent_sites_are_named(world: World) -> None:
    job = world.folder / "job.yaml"
    assert world.say("sites", job) == {"connected": {"new-clinic": True, "a": True, "b": True}}
    world.engine.absent = ("b",)
    assert world.say("sites", job, code=1)["connected"]["b"] is False


def test_a_run_that_was_interrupted_goes_on(world: World) -> None:
    world.engine.dies = True
    world.say("submit", world.folder / "job.yaml")
    assert world.say("watch", "run-1", code=1)["state"] == "interrupted"
    with pytest.raises(InvalidArgument, match="was submitted already"):
        world.say("submit", world.folder / "job.yaml")
    world.engine.dies = False
    assert world.say("resume", "run-1")["job"] == "job-1"
    assert world.say("watch", "run-1")["state"] == "done"


def _stopped(*_: object) -> Any:
    raise NoAnswer("the process of the site is gone")


def test_a_run_whose_charge_has_no_draw_says_what_is_spent_and_what_to_do(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("likeset.privacy.gaussian_mean.run", _stopped)
    world.say("submit", world.folder / "job.yaml")
    monkeypatch.undo()
    monkeypatch.setattr(run, "engine_of", lambda _: world.engine)
    monkeypatch.setenv("LIKESET_HOME", str(world.folder / "home"))
    why = world.say("watch", "run-1", code=1)["obstacle"]["text"]
    for words in ("your site was stopped", "epsilon = 8 of your budget stays spent", "another name"):
        assert words in why
    with pytest.raises(UnfinishedRequest, match="run run-1 cannot go on"):
        world.say("resume", "run-1")
    assert list(world.engine.ended) == ["job-0"]
    with pytest.raises(BudgetExceeded):  # it was all that this consumer allows
        world.say("submit", write_job(world.folder, run="run-2"))


def test_a_run_whose_curator_has_a_charge_without_a_draw_says_so(world: World) -> None:
    world.say("submit", world.folder / "job.yaml")
    (report,) = world.engine.ended["job-0"]
    world.engine.ended["job-0"] = [replace(report, outcome=Ending.UNFINISHED, detail="UnfinishedRequest")]
    why = world.say("watch", "run-1", code=1)["obstacle"]
    assert why["stopped"] == "curator"
    assert "the curator was stopped" in why["text"]
    with pytest.raises(UnfinishedRequest, match="rows that owners sent stay disclosed and charged"):
        world.say("resume", "run-1")


@pytest.mark.parametrize("words", ["failed: UnfinishedRequest", "unfinished", "quorum missed", "interrupted", "done"])
def test_what_a_curator_writes_into_its_reasons_is_no_ending(world: World, words: str) -> None:
    """It lacks a schema, and says so in words that are an ending's elsewhere."""
    world.say("submit", world.folder / "job.yaml")
    (report,) = world.engine.ended["job-0"]
    world.engine.ended["job-0"] = [replace(report, outcome=Ending.NOT_CURATED, detail=words)]
    told = world.say("watch", "run-1", code=1)
    assert (told["state"], told["detail"], told["obstacle"]) == ("not curated", words, None)
    result = CliRunner().invoke(app, ["run", "watch", "run-1"])
    assert f"run run-1: not curated: {words}" in result.stderr
    assert "Next: " not in result.stdout


@pytest.mark.parametrize("outcome", [Ending.QUORUM_MISSED, Ending.NO_CONSUMER])
def test_what_can_be_resumed_is_said_to_be(world: World, outcome: Ending) -> None:
    world.say("submit", world.folder / "job.yaml")
    (report,) = world.engine.ended["job-0"]
    world.engine.ended["job-0"] = [replace(report, outcome=outcome)]
    result = CliRunner().invoke(app, ["run", "watch", "run-1"])
    assert result.exit_code == 1
    assert f"run run-1: {outcome}" in result.stderr
    assert "Next: likeset run resume run-1" in result.stdout


def test_what_waits_and_works_is_told_apart(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.say("submit", world.folder / "job.yaml")
    monkeypatch.setattr(world.engine, "state", lambda _: "RUNNING")
    assert world.say("watch", "run-1", "--once")["state"] == "starting"
    news = News("run-1", {"a": SiteState.READY, "b": SiteState.WAITING})
    monkeypatch.setattr(world.engine, "news", lambda _: news)
    found = world.say("watch", "run-1", "--once")
    assert (found["state"], found["sites"]) == ("waiting for decisions", {"a": "working", "b": "waiting"})
    with pytest.raises(InvalidArgument, match="there is nothing to resume"):
        world.say("resume", "run-1")
    assert world.say("cancel", "run-1")["cancelled"]
    assert world.engine.cancelled == ["job-0"]


def test_a_server_that_is_away_for_a_while_is_waited_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.say("submit", world.folder / "job.yaml")
    answers = iter(["", "", "RUNNING", "FINISHED:COMPLETED"])

    def state(_: str) -> str:
        answer = next(answers)
        if not answer:
            raise NoAnswer("away")
        return answer

    monkeypatch.setattr(world.engine, "state", state)
    monkeypatch.setattr(run, "_SECONDS_BETWEEN_LOOKS", 0.0)
    shown = world.shown("watch", "run-1").splitlines()
    assert [line.split("  ")[0] for line in shown[:3]] == ["the curator's server does not answer", "starting", "done"]

    monkeypatch.setattr(world.engine, "state", lambda _: state_of_a_dead_server())
    with pytest.raises(NoAnswer):
        world.say("watch", "run-1", "--once")
    monkeypatch.setattr(run, "_SECONDS_WITHOUT_SERVER", 0.0)
    with pytest.raises(NoAnswer):
        world.say("watch", "run-1")


def test_a_terminal_shows_a_table_that_changes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.say("submit", world.folder / "job.yaml")
    states = iter(["RUNNING", "RUNNING", "FINISHED:COMPLETED"])
    news = iter(
        [
            News("run-1", {"a": SiteState.READY, "b": SiteState.WAITING}),
            News("run-1", {"a": SiteState.READY, "b": SiteState.ABSTAINS}),
        ]
    )
    monkeypatch.setattr(world.engine, "state", lambda _: next(states))
    monkeypatch.setattr(world.engine, "news", lambda _: next(news))
    monkeypatch.setattr(run, "_SECONDS_BETWEEN_LOOKS", 0.0)
    terminal = Console(file=io.StringIO(), force_terminal=True, width=80)
    monkeypatch.setattr(run, "stdout", terminal)
    world.shown("watch", "run-1")
    drawn = terminal.file.getvalue()  # type: ignore[attr-defined]
    found = [drawn.find(words) for words in ("waiting", "abstains", "Run run-1: done")]
    assert -1 < found[0] < found[1] < found[2]


def state_of_a_dead_server() -> str:
    raise NoAnswer("away")


@pytest.mark.parametrize("command", ["watch", "cancel", "resume", "report", "shares"])
def test_a_run_that_nobody_knows_is_named(world: World, command: str) -> None:
    with pytest.raises(InvalidArgument, match="is not known here"):
        world.say(command, "other")


def test_a_run_that_was_not_submitted_cannot_be_followed(world: World) -> None:
    world.say("invite", write_job(world.folder))
    for command in ("watch", "cancel"):
        with pytest.raises(InvalidArgument, match="was not submitted yet"):
            world.say(command, "run-1")
    with pytest.raises(InvalidArgument, match="has no summary yet"):
        world.say("report", "run-1")


@pytest.mark.usefixtures("world")
def test_a_kit_is_settled_for_each_party(tmp_path: Path) -> None:
    kit = tmp_path / "kit"
    for part in ("startup", "local"):
        (kit / part).mkdir(parents=True)
    (kit / "local" / "resources.json.default").write_text('{"components": []}')
    words = {
        "owner": ["--node", tmp_path / "node-a"],
        "consumer": ["--home", tmp_path / "home"],
        "curator": ["--home", tmp_path / "new-curator", "--schema", tmp_path / "schema.yaml", "--patience", 5],
    }
    for party, options in words.items():
        result = CliRunner().invoke(app, ["site", party, str(kit), *map(str, options), "--json"])
        assert result.exit_code == 0, result.output
        settings = json.loads((kit / "local" / "likeset_site.json").read_text())
        assert settings["socket"] == str(Path(str(options[1])) / "home.sock")
        assert {"factory", "folder"}.isdisjoint(settings)
        assert str(options[1]) == json.loads(result.output)["home"]
    assert settings["seconds_for_decisions"] == 5
    assert len(list(CuratorHome(tmp_path / "new-curator").schemas.iterdir())) == 1
    shown = CliRunner().invoke(app, ["site", "curator", str(kit), "--home", str(tmp_path / "new-curator")]).stdout
    for group in CuratorHome(tmp_path / "new-curator").card().fingerprint.split("-"):
        assert group in shown
    assert "likeset card pin FILE --as curator" in shown
    assert "can delay and suppress" in " ".join(shown.split())
    wrong = CliRunner().invoke(app, ["site", "owner", str(tmp_path), "--node", str(tmp_path / "node-a")])
    assert isinstance(wrong.exception, InvalidArgument)
    assert not (tmp_path / "local").exists()


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(("party", "option", "home"), [
    ("owner", "--node", "node-a"), ("consumer", "--home", "home"), ("curator", "--home", "curator"),
])  # fmt: skip
def test_a_site_whose_keys_cannot_be_used_is_not_settled(tmp_path: Path, party: str, option: str, home: str) -> None:
    kit = tmp_path / "kit"
    for part in ("startup", "local"):
        (kit / part).mkdir(parents=True)
    (kit / "local" / "resources.json.default").write_text('{"components": []}')
    keys = tmp_path / home / "card.secret"
    for words in ("can read it", "there are no keys"):
        keys.chmod(0o644) if words == "can read it" else keys.unlink()
        refused = CliRunner().invoke(app, ["site", party, str(kit), option, str(tmp_path / home)])
        assert isinstance(refused.exception, BadDocument)
        assert words in str(refused.exception)
    assert [path.name for path in kit.rglob("*") if path.is_file()] == ["resources.json.default"]
