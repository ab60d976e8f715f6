"""``likeset run`` as a user types it; the other parties look into the mailbox in this process."""

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1] / "run"))

from console_world import ADDRESS, signed_in_at
from node_world import rows_text
from remote_world import hold, make_world, write_job

from likeset.app.cli import app
from likeset.app.console.consumer import consumer_site
from likeset.app.console.server import application
from likeset.errors import (
    BadDocument,
    BudgetExceeded,
    InvalidArgument,
)
from likeset.homes.consumer_home import ConsumerHome
from likeset.homes.curator_home import CuratorHome
from likeset.homes.mail import Invitation
from likeset.ledger.ledger import Ledger
from likeset.protocol.terms import Terms

pytestmark = pytest.mark.usefixtures("without_figures")


class World:
    """A consumer at a keyboard."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        make_world(folder)
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

    def held(self, job: Path) -> Any:
        """Started, and carried to its end."""
        (self.folder / "mailbox").mkdir(exist_ok=True)
        told = self.say("start", job, "--mailbox", self.folder / "mailbox")
        hold(self.folder)
        return told


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
    assert world.held(job)["digest"] == invited["digest"]
    told = world.say("watch", "run-1")
    assert (told["ended"], told["parties"]["a"], told["parties"]["b"]) == ("done", "takes part", "takes part")
    assert world.say("report", "run-1")["rows_selected"] == 6
    shares = world.say("shares", "run-1")["owners"]
    assert sum(one["share"] for one in shares) == pytest.approx(1.0)
    assert sum(one["selected"] for one in shares) == 6
    (listed,) = world.say("list")["runs"]
    assert (listed["mailbox"] is not None, listed["result"]) == (True, True)


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
    world.held(job)
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
    world.held(world.folder / "job.yaml")
    with pytest.raises(BudgetExceeded) as refused:
        world.say("invite", write_job(world.folder, run="run-2"))
    look, change = refused.value.__notes__
    assert look == f"look at it with: likeset ledger show {world.folder / 'home' / 'ledger.sqlite'}"
    assert "likeset ledger limit" in change


def test_people_read_tables(world: World) -> None:
    assert "What will travel" in world.shown("plan", world.folder / "job.yaml")
    world.held(world.folder / "job.yaml")
    assert "likeset run report" in world.shown("watch", "run-1")
    shown = world.shown("report", "run-1")
    assert "unknown" in shown  # nobody told how many rows an owner has
    assert "at most 12" in shown  # nor how many of them left
    assert "run-1" in world.shown("list")


def test_people_see_whom_they_invite_by_which_card(world: World) -> None:
    told = world.shown("invite", world.folder / "job.yaml")
    cards = world.say("invite", world.folder / "job.yaml")["cards"]
    for name in ("a", "b", "curator"):
        assert f"{name.ljust(len('new-clinic'))}  {cards[name]}\n" in told
    assert f"only if they have pinned your card: {cards['new-clinic']}" in told
    assert "likeset owner inbox --add run-1.invitation" in told


def test_a_home_without_keys_is_told_before_anything_is_sent(world: World) -> None:
    world.held(world.folder / "job.yaml")
    world.say("report", "run-1")
    (world.folder / "home" / "card.secret").unlink()
    with pytest.raises(BadDocument, match="there are no keys in this home"):
        world.held(write_job(world.folder, run="run-2"))
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
    world.held(job)
    assert world.say("report", "run-1")["gamma"] == 0.625


def test_a_curator_is_given_public_rows_and_a_run_says_which_it_needs(world: World) -> None:
    (world.folder / "public.csv").write_text(rows_text(3, count=5))
    job = write_job(world.folder, protocol="interactive", seed_rows="public.csv")
    note, _ = world.say("plan", job)["between_organisations"]
    assert "the curator must have the same public seed rows" in note["text"]
    terms = _terms(world.say("invite", job))
    assert terms.seed_rows == 5
    CuratorHome(world.folder / "curator").add_seed_rows(str(world.folder / "public.csv"))
    world.held(job)
    assert world.say("report", "run-1")["rows_selected"] == 6


def test_what_cannot_be_carried_is_said_by_the_plan(world: World) -> None:
    for changes, reason in (
        ({"noise": "simulated"}, "noise is secret"),
        ({"purpose": "x" * 501}, "at most 500 characters"),
        ({"protocol": "interactive", "size": 10_001}, "more than anybody can mean"),
    ):
        result = CliRunner().invoke(app, ["run", "plan", str(write_job(world.folder, **changes))])
        assert isinstance(result.exception, InvalidArgument)
        assert reason in str(result.exception)


def test_offers_that_a_curator_would_not_take_are_said_by_the_plan(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, many = world.folder / "job.yaml", {"protocol": "interactive", "size": 40}
    offer = world.say("plan", job)["sent_bytes_per_owner_at_most"]
    monkeypatch.setattr("likeset.run.runs.LARGEST_LETTER", offer)
    assert world.say("plan", job)["between_organisations"] == []
    assert world.say("plan", write_job(world.folder, **many))["sent_bytes_per_owner_at_most"] > offer
    assert [note["kind"] for note in world.say("plan", job)["between_organisations"]] == ["rounds-are-looks"]
    monkeypatch.setattr("likeset.run.runs.LARGEST_LETTER", offer - 1)
    (note,) = world.say("plan", write_job(world.folder))["between_organisations"]
    assert note["kind"] == "large-offer"
    assert "lower size or offer_factor" in note["text"]
    assert "lower size or offer_factor" in " ".join(world.shown("plan", job).split())


@pytest.mark.parametrize("command", ["watch", "cancel", "report", "shares"])
def test_a_run_that_nobody_knows_is_named(world: World, command: str) -> None:
    with pytest.raises(InvalidArgument, match="is not known here"):
        world.say(command, "other")


def test_a_run_that_was_not_started_cannot_be_followed(world: World) -> None:
    world.say("invite", write_job(world.folder))
    for command in ("watch", "cancel"):
        with pytest.raises(InvalidArgument, match="was not started yet"):
            world.say(command, "run-1")
    with pytest.raises(InvalidArgument, match="has no summary yet"):
        world.say("report", "run-1")
