"""``likeset run dispute``: from every home, for whoever has the cards, and one line for what is no bundle."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from letter_world import LetterWorld
from owner_letters import Outside
from protocol_world import CONSUMER, terms
from receipt_house import RUN, House
from typer.testing import CliRunner, Result

from likeset.app.cli import app
from likeset.errors import BadDocument, InvalidArgument
from likeset.homes.bundles import Bundle
from likeset.homes.receipts import write_receipt
from likeset.homes.transcripts import TO_OWNER
from likeset.protocol.messages import decode
from likeset.protocol.party import CURATOR
from likeset.trust.letters import write_letter


def dispute(*words: object) -> Result:
    environment = {"COLUMNS": "200", "LIKESET_HOME": None, "LIKESET_NODE": None}
    return CliRunner().invoke(app, ["run", "dispute", *map(str, words)], env=environment)


def checked(path: Path, *words: object, code: int = 0) -> Any:
    result = dispute("--check", path, *words, "--json")
    assert result.exit_code == code, (result.output, result.exception)
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> LetterWorld:
    made = LetterWorld(tmp_path_factory.mktemp("run"), terms(protocol="interactive"))
    made.carry(made.all_runs())
    (made.place / "a" / "receipts").mkdir()
    write_receipt(made.place / "a" / "receipts" / "run-1.json", made.receipt("a"))
    (made.place / "a" / "receipts" / "note.json").write_text("{}")  # what is no receipt is left out
    return made


def written(world: LetterWorld, out: Path, *words: object, home: str = "a") -> Path:
    result = dispute(world.agreed.run, "--home", world.place / home, "--out", out, *words)
    assert result.exit_code == 0, (result.output, result.exception)
    return out


# From every home.


@pytest.mark.parametrize(
    ("home", "other"), [("a", CURATOR), ("a", CONSUMER), (CURATOR, "a"), (CURATOR, CONSUMER), (CONSUMER, "a")]
)
def test_every_home_shows_its_letters_with_everybody(world: LetterWorld, tmp_path: Path, home: str, other: str) -> None:
    path = written(world, tmp_path / "bundle", "--with", other, home=home)
    proof = checked(path)
    assert (proof["run"], proof["run_id"], proof["terms"]) == (
        world.agreed.run,
        world.agreed.run_id,
        world.agreed.digest,
    )
    assert (proof["parties"], proof["agree"]) == ([home, other], True)
    assert path.stat().st_mode & 0o077 == 0
    named = dispute(world.agreed.run_id, "--home", world.place / home, "--with", other, "--out", tmp_path / "by-id")
    assert named.exit_code == 0
    assert (tmp_path / "by-id").read_bytes() == path.read_bytes()


def test_a_steward_need_not_name_the_node_again(world: LetterWorld, tmp_path: Path) -> None:
    words = ["run", "dispute", world.agreed.run, "--out", str(tmp_path / "bundle")]
    environment = {"LIKESET_HOME": None, "LIKESET_NODE": str(world.place / "a")}
    result = CliRunner().invoke(app, words, env=environment)
    assert result.exit_code == 0, (result.output, result.exception)
    assert checked(tmp_path / "bundle")["parties"] == ["a", CURATOR]


def test_what_is_proven_and_what_is_not_is_said_in_sentences(world: LetterWorld, tmp_path: Path) -> None:
    path = written(world, tmp_path / "bundle")
    shown = dispute("--check", path)
    assert shown.exit_code == 0
    proven, not_proven = shown.stdout.split("Not proven:")
    assert f"a wrote {len([1 for line in world.transcript('a').lines if line.way != TO_OWNER])} letters to" in proven
    assert f"with {world.transcript('a').rows} rows. (signed by curator)" in proven
    assert "What letters say that are not disclosed" in not_proven
    assert world.homes[CURATOR].fingerprint in not_proven
    cards = [word for name in ("a", CURATOR, CONSUMER) for word in ("--card", world.place / name / "card")]
    assert "Whose card" not in dispute("--check", path, *cards).stdout


def test_cards_are_known_by_their_files_or_as_they_were_read_out(world: LetterWorld, tmp_path: Path) -> None:
    path = written(world, tmp_path / "bundle")
    heard = world.homes[CURATOR].fingerprint.replace("-", " ").lower()
    cards = checked(path, "--card", world.place / "a" / "card", "--card", heard)["cards"]
    assert {name: card["known"] for name, card in cards.items()} == {"a": True, CURATOR: True, CONSUMER: False}
    wrong = ("A" if heard[0] != "a" else "B") + heard[1:]
    assert isinstance(dispute("--check", path, "--card", wrong).exception, InvalidArgument)
    other = make_card(tmp_path / "impostor")
    refused = dispute("--check", path, "--card", other)
    assert "the card of no party of this run" in str(refused.exception)


def make_card(folder: Path) -> Path:
    CliRunner().invoke(app, ["owner", "init", str(folder), "--name", CURATOR])
    return folder / "card"


def test_who_contradicts_itself_is_shown_and_the_exit_code_says_so(tmp_path: Path) -> None:
    world = LetterWorld(tmp_path / "homes")
    world.carry(world.all_runs())
    keys = world.homes["a"].book.run_keys(bytes.fromhex(world.agreed.digest))
    assert keys is not None
    assert keys.secret is not None
    other = write_letter(
        world.homes[CONSUMER].secret,
        recipient=world.homes["a"].secret.card,
        recipient_key=keys.secret.public,
        run_id=bytes.fromhex(world.agreed.run_id),
        terms=bytes.fromhex(world.agreed.digest),
        round=1,
        number=0,
        message=b"another release",
    )
    world.run_at("a").hear(other.data)
    path = written(world, tmp_path / "bundle", "--with", CONSUMER)
    proof = checked(path, code=1)
    assert not proof["agree"]
    (fact,) = [fact for fact in proof["proven"] if fact["kind"] == "contradiction"]
    assert (fact["by"], fact["numbers"]) == (CONSUMER, [0])
    assert "2 different letters under the number 0" in dispute("--check", path).stdout


# What letters say.


def test_what_letters_say_is_in_a_bundle_only_where_somebody_disclosed_it(world: LetterWorld, tmp_path: Path) -> None:
    """The consumer keeps what it bought; a curator keeps no bytes of what owners sent, and cannot show them."""
    consumer = world.place / world.agreed.consumer
    showing = ("--with", CURATOR, "--disclose", f"{CURATOR}:0", "--out", tmp_path / "open")
    warned = dispute(world.agreed.run, "--home", consumer, *showing)
    assert warned.exit_code == 0
    assert f"reads all that is in letter 0 of {CURATOR}, rows too" in warned.stderr
    said = [fact for fact in checked(tmp_path / "open")["proven"] if fact["kind"] == "said"]
    assert [(fact["by"], fact["numbers"]) for fact in said] == [(CURATOR, [0])]
    assert "said: summary" in said[0]["words"]
    dispute("--check", tmp_path / "open", "--save", tmp_path / "saved")
    (saved,) = (tmp_path / "saved").iterdir()
    row = decode(saved.read_bytes()).body.rows.tobytes()  # type: ignore[union-attr]
    assert row in (tmp_path / "open").read_bytes()
    quiet = dispute(world.agreed.run, "--home", consumer, "--with", CURATOR, "--out", tmp_path / "shut")
    assert "No row and nothing else that a letter says is in this bundle" in quiet.stderr
    assert row not in (tmp_path / "shut").read_bytes()
    nothing = dispute("--check", tmp_path / "shut", "--save", tmp_path / "empty")
    assert "there is nothing to write" in nothing.stdout


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.node.close()


def test_an_owner_whose_rows_nobody_acknowledged_can_show_what_it_sent(house: House, tmp_path: Path) -> None:
    """Its outbox has the message, and its letter book what opens the commitment, until a receipt is kept."""
    showing = ("--home", house.folder, "--disclose", "a:0", "--out", tmp_path / "bundle")
    result = dispute(RUN.run, *showing)
    assert result.exit_code == 0, result.exception
    (said,) = [fact["words"] for fact in checked(tmp_path / "bundle")["proven"] if fact["kind"] == "said"]
    assert "offer with 12 rows" in said
    house.send(house.signed())
    settled = dispute(RUN.run, *showing)
    assert "the run is settled and its key gone" in str(settled.exception)
    assert dispute(RUN.run, "--home", house.folder, "--out", tmp_path / "bundle").exit_code == 0
    proof = checked(tmp_path / "bundle")
    assert "letter 0 of a, with 12 rows" in proof["proven"][-1]["words"]


def test_a_receipt_that_was_refused_is_shown_too(house: House, tmp_path: Path) -> None:
    line = house.copy.lines[0]
    lie = house.signed(lines=(type(line)(1, "from owner", 0, "offer", "0" * 64, 5, 3),))
    house.send(lie)
    assert house.aside()
    assert dispute(RUN.run, "--home", house.folder, "--out", tmp_path / "bundle").exit_code == 0
    (words,) = [fact["words"] for fact in checked(tmp_path / "bundle")["proven"] if "another letter" in fact["words"]]
    assert words.startswith(f"A receipt of {lie.at} names another letter 0 of a than the one here: either a wrote two")


# What cannot be used: one line each.


def test_a_bundle_that_was_forged_is_one_clear_line(world: LetterWorld, tmp_path: Path) -> None:
    data = written(world, tmp_path / "bundle").read_bytes()
    bundle = Bundle.from_bytes(data)
    signature = bundle.stubs[0].signature
    spoilt = {
        "": b"",
        "cut": data[:-1],
        "longer": data + b"\0",
        "letter": data.replace(signature, bytes(64)),
        "noise": b"\xff" * 100,
        "card": (world.place / "a" / "card").read_bytes(),
    }
    for name, content in spoilt.items():
        path = tmp_path / f"spoilt {name}"
        path.write_bytes(content)
        error = dispute("--check", path).exception
        assert isinstance(error, BadDocument), name
        assert str(error).startswith(f"{path}: is no bundle that holds: ")
        assert "\n" not in str(error)
    assert isinstance(dispute("--check", tmp_path / "missing").exception, BadDocument)
    assert isinstance(dispute("--check", tmp_path).exception, BadDocument)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["run-1"], "name the run and the file to write"),
        (["--out", "bundle"], "name the run and the file to write"),
        (["run-2", "--out", "bundle"], "is no run that this home took part in; there are: run-1"),
        (["run-1", "--out", "bundle", "--with", "mallory"], "is nobody else in run run-1"),
        (["run-1", "--out", "bundle", "--with", "a"], "is nobody else in run run-1"),
        (["run-1", "--out", "bundle", "--with", "b"], "b did not take part in run run-1, as far as this home knows"),
        (["run-1", "--out", "bundle", "--disclose", "a"], "must be a party and the number of its letter"),
        (["run-1", "--out", "bundle", "--disclose", "a:-1"], "must be a party and the number of its letter"),
        (["run-1", "--out", "bundle", "--disclose", "a:99"], "is no letter between a and curator"),
        (["run-1", "--out", "bundle", "--disclose", "a:0"], "keeps no copy of what it says; curator may have one"),
        (["run-1", "--out", "bundle", "--card", "x"], "are for --check"),
        (["run-1", "--check", "bundle"], "looks at a file; leave RUN"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    world: LetterWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    error = dispute(*words, "--home", world.place / "a").exception
    assert isinstance(error, BadDocument | InvalidArgument)
    assert reason in str(error)
    assert list(tmp_path.iterdir()) == []


def test_a_place_without_letters_is_no_home(tmp_path: Path) -> None:
    error = dispute("run-1", "--home", tmp_path, "--out", tmp_path / "bundle").exception
    assert "has no letters" in str(error)
    assert list(tmp_path.iterdir()) == [], "to look leaves no file"


def test_a_home_that_has_a_new_card_still_shows_what_it_signed_with_the_old_one(house: House, tmp_path: Path) -> None:
    assert dispute(RUN.run, "--home", house.folder, "--out", tmp_path / "before").exit_code == 0
    house.node.home.set_card_aside()
    assert dispute(RUN.run, "--home", house.folder, "--out", tmp_path / "after").exit_code == 0
    assert (tmp_path / "after").read_bytes() == (tmp_path / "before").read_bytes()


def test_versions_of_a_run_are_named_by_their_ids(tmp_path: Path) -> None:
    other = RUN.with_changes(run_id="f" * 32)
    Outside(tmp_path / "others", other)
    consumer = tmp_path / "others" / RUN.consumer
    Outside(tmp_path / "others", RUN)
    ambiguous = dispute(RUN.run, "--home", consumer, "--out", tmp_path / "bundle").exception
    assert f"name it by its id: {', '.join(sorted([RUN.run_id, other.run_id]))}" in str(ambiguous)
    named = dispute(other.run_id, "--home", consumer, "--out", tmp_path / "bundle").exception
    assert "curator did not take part" in str(named)
