"""A split curator between organisations: no witness, a witness with nothing to do, no workers: one clear line each."""

from pathlib import Path
from typing import Any

import pytest
from kill_world import CONSUMER, folder_of
from node_world import SCHEMA, rows_text
from pinned_homes import introduce

from likeset.errors import InvalidArgument
from likeset.homes.consumer_home import ConsumerHome, make_consumer_home
from likeset.homes.curator_home import make_curator_home
from likeset.homes.owner_node import make_home
from likeset.homes.witness_home import make_witness_home
from likeset.protocol.terms import WITNESS
from likeset.run import runs
from likeset.run.job import Job
from likeset.run.runs import invite, plan_between, settled_curator

EXPIRES = "2099-01-01"


def job(place: Path, **changes: Any) -> Job:
    (place / "schema.yaml").write_text(SCHEMA, encoding="utf-8")
    (place / "target.csv").write_text(rows_text(7, count=30), encoding="utf-8")
    wished: dict[str, Any] = {
        "run": "run-1",
        "schema": str(place / "schema.yaml"),
        "target": str(place / "target.csv"),
        "owners": {"a": "network:a"},
        "consumer": CONSUMER,
        "epsilon": 30.0,
        "release_gamma": 0.4,
        "dimension": 16,
        "size": 6,
        "quorum": 1,
    }
    return Job.of(**{**wished, **changes})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ConsumerHome:
    monkeypatch.setattr(runs, "split_python", lambda: None)
    owner = make_home(folder_of(tmp_path, "a"), name="a")
    curator = make_curator_home(folder_of(tmp_path, "curator"))
    witness = make_witness_home(tmp_path / "uni", name="university")
    made = make_consumer_home(folder_of(tmp_path, CONSUMER), name=CONSUMER, listen="127.0.0.1:0")
    introduce([owner.folder], curator=curator.folder, consumer=made.folder, witness=witness.folder)
    return made


@pytest.mark.parametrize(
    ("wished", "curator"),
    [
        ({}, "trusted"),
        ({"witness": "university"}, "split"),
        ({"curator": "trusted"}, "trusted"),
        ({"curator": "split", "witness": "university"}, "split"),
    ],
)
def test_a_witness_makes_the_curator_a_split_one(tmp_path: Path, wished: dict[str, Any], curator: str) -> None:
    asked = job(tmp_path, **wished)
    assert settled_curator(asked).curator == curator
    assert (plan_between(asked).terms.split is not None) == (curator == "split")


@pytest.mark.parametrize(
    ("wished", "words"),
    [
        ({"curator": "split"}, "witness = .*name one whose card is pinned here"),
        ({"curator": "trusted", "witness": "university"}, "a trusted curator needs none"),
        ({"witness": "university", "protocol": "interactive"}, "interactive needs a trusted curator"),
        ({"witness": "university", "auction": "threshold"}, "threshold needs a trusted curator"),
    ],
)
def test_what_does_not_go_together_is_said_before_anything_is_written(
    home: ConsumerHome, tmp_path: Path, wished: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidArgument, match=words):
        invite(home, job(tmp_path, **wished), expires=EXPIRES)
    assert not home.run("run-1").folder.exists()


@pytest.mark.parametrize(
    ("witness", "words"),
    [("a", "pinned here as that of the owner"), ("curator", "as that of the curator"), ("nobody", "no card of that")],
)
def test_a_witness_that_is_an_owner_the_curator_or_nobody_is_refused_by_name(
    home: ConsumerHome, tmp_path: Path, witness: str, words: str
) -> None:
    with pytest.raises(InvalidArgument, match=f"witness = .*{witness}.*{words}"):
        invite(home, job(tmp_path, witness=witness), expires=EXPIRES)
    assert not home.run("run-1").folder.exists()


def test_a_consumer_without_workers_or_a_place_to_listen_signs_nothing(
    home: ConsumerHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise InvalidArgument("environment", "none", "is none; make it with `likeset split setup`")

    monkeypatch.setattr(runs, "split_python", missing)
    with pytest.raises(InvalidArgument, match="likeset split setup"):
        invite(home, job(tmp_path, witness="university"), expires=EXPIRES)
    monkeypatch.setattr(runs, "split_python", lambda: None)
    settings = home.folder / "consumer.yaml"
    settings.write_text(settings.read_text(encoding="utf-8").replace("127.0.0.1:0", '""'), encoding="utf-8")
    with pytest.raises(InvalidArgument, match=r"a split run needs listen: HOST:PORT in consumer\.yaml"):
        invite(home, job(tmp_path, witness="university"), expires=EXPIRES)
    assert not home.run("run-1").folder.exists()


def test_the_terms_name_the_witness_the_program_and_how_many_rows_may_be_opened(
    home: ConsumerHome, tmp_path: Path
) -> None:
    terms = invite(home, job(tmp_path, witness="university"), expires=EXPIRES).terms
    assert terms.split is not None
    assert terms.split.openings == 6
    assert WITNESS in terms.cards
