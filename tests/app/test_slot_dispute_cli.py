"""``likeset run dispute`` about slots of split runs by mailbox: liars of every kind, found by who has files only."""

import dataclasses
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

sys.path.insert(0, str(Path(__file__).parents[1] / "homes"))
sys.path.insert(0, str(Path(__file__).parents[1] / "protocol"))
sys.path.insert(0, str(Path(__file__).parents[1] / "transports/mailbox"))
sys.path.insert(0, str(Path(__file__).parents[1] / "trust"))

import second_reader
from kill_world import CONSUMER
from split_homes import SplitHomes, split_homes_in

from likeset.app.cli import app
from likeset.errors import BadDocument
from likeset.homes.identity import Identity
from likeset.homes.slot_disputes import ruling_on
from likeset.homes.slot_files import SlotFile, merged
from likeset.protocol.party import CURATOR
from likeset.protocol.split import split_owner
from likeset.protocol.terms import WITNESS
from likeset.transports.outcomes import Ending
from likeset.trust import shared_offers
from likeset.trust.row_shares import Words, fixed_point, slot_words, split_words
from likeset.trust.share_receipts import Roster, sign_roster
from likeset.trust.shared_offers import SharedOffer, share_offer

LIAR = "b"
Forge = Callable[[pytest.MonkeyPatch], None]


def dispute(*words: object) -> Result:
    environment = {"COLUMNS": "200", "LIKESET_HOME": None, "LIKESET_NODE": None}
    return CliRunner().invoke(app, ["run", "dispute", *map(str, words)], env=environment)


def done(*words: object) -> str:
    result = dispute(*words)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def mistake(*words: object) -> str:
    result = dispute(*words)
    assert result.exit_code == 1
    assert result.exception is not None
    assert not isinstance(result.exception, SystemExit), result.output
    assert "\n" not in str(result.exception)
    return str(result.exception)


def checked(*files: Path, code: int, words: tuple[object, ...] = ()) -> Any:
    asked = [word for path in files for word in ("--check", path)]
    result = dispute(*asked, *words, "--json")
    assert result.exit_code == code, (result.output, result.exception)
    return json.loads(result.stdout)


def held(homes: SplitHomes, monkeypatch: pytest.MonkeyPatch, forge: Forge = lambda _: None) -> SplitHomes:
    """A whole run in which one owner does a step of its offer in its own way."""
    homes.settle()
    homes.approve()
    homes.look(*homes.owners)
    homes.look(CONSUMER)
    with monkeypatch.context() as patched:
        forge(patched)
        homes.look(LIAR)
    notes: list[str] = []
    while not homes.over():
        notes += homes.look().notes
    homes.settle()
    homes.drop()
    is_told = any(f"`likeset run dispute run-1 --picks --with {LIAR}`" in note for note in notes)
    assert is_told == homes.run.failed_picks_path.exists()
    return homes


def shown(homes: SplitHomes, place: Path, *, unproven: bool = False, roles: tuple[str, ...] = ()) -> list[Path]:
    """What all compute parties, or some, show about the liar; from then on nobody has anything but these files."""
    first = place / "consumer.evidence"
    done(homes.run.terms.run, "--picks", "--with", LIAR, "--home", homes.folder(CONSUMER), "--out", first)
    files = [first]
    for name in roles or homes.computing[1:]:
        files.append(place / f"{name}.evidence")
        how = ("--unproven",) if unproven else ()
        done("--open", first, "--home", homes.folder(name), "--out", files[-1], *how)
    assert all(path.stat().st_mode & 0o077 == 0 for path in files)
    shutil.rmtree(homes.place)
    return files


def _other_row(patched: pytest.MonkeyPatch) -> None:
    def changed(*arguments: Any, **named: Any) -> Words:
        words = slot_words(*arguments, **named)
        words[:, 0] += np.uint64(1)
        return words

    patched.setattr(shared_offers, "slot_words", changed)


def _envelopes(change: Callable[[list[bytes]], list[bytes]]) -> Forge:
    honest = shared_offers._sealed

    def forge(patched: pytest.MonkeyPatch) -> None:
        def sealed(records: Any, **more: Any) -> Any:
            return honest(change(list(records)), **more)

        patched.setattr(shared_offers, "_sealed", sealed)

    return forge


def _swapped(patched: pytest.MonkeyPatch) -> None:
    honest = shared_offers._sealed
    patched.setattr(shared_offers, "_sealed", lambda records, **more: honest(records, **more)[::-1])


def _wrong_r(patched: pytest.MonkeyPatch) -> None:
    def other(words: Words) -> tuple[Words, ...]:
        changed = words.copy()
        changed[:, -1] ^= np.uint64(1)
        return split_words(changed)

    patched.setattr(shared_offers, "split_words", other)


def _sold_twice(patched: pytest.MonkeyPatch) -> None:
    def twice(*arguments: Any, **named: Any) -> SharedOffer:
        rows, records = np.asarray(named["rows"]), list(named["records"])
        same = {"rows": rows[np.zeros(len(rows), dtype=np.int64)], "records": [records[0]] * len(records)}
        return share_offer(*arguments, **{**named, **same})

    patched.setattr(split_owner, "share_offer", twice)


LIES: dict[str, tuple[Forge, str, bool]] = {
    "shares of another row": (_other_row, "are of another row than its record", False),
    "envelopes swapped": (_swapped, "does not open with the K and r that its list commits to", False),
    "no record": (_envelopes(lambda records: [b"\x07" * 9] * len(records)), "holds no record as the schema", False),
    "empty envelope": (_envelopes(lambda records: [b""] * len(records)), "are of another row than its record", False),
    "sold twice": (_sold_twice, "it sold one row twice, in slots", False),
    "wrong r": (_wrong_r, "add up to another r than the one in its list", True),
}


@pytest.mark.parametrize("lie", LIES)
def test_an_owner_that_lied_is_named_with_the_reason_by_who_has_files_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: str
) -> None:
    """The only owner lies: no pick, or one, gives a record; evidence is there whether the run came to rows or not."""
    forge, words, unproven = LIES[lie]
    homes = held(split_homes_in(tmp_path, (LIAR,)), monkeypatch, forge)
    assert homes.progress.ended is (Ending.DONE if lie == "sold twice" else Ending.NOT_COMPUTED)
    files = shown(homes, tmp_path, unproven=unproven)
    proof = checked(*files, code=1)
    assert (proof["owner"], proof["at_fault"], proof["must_open"]) == (LIAR, [LIAR], [])
    assert all(words in finding["words"] for finding in proof["findings"]), proof["findings"]
    told = dispute(*(word for path in files for word in ("--check", path)))
    assert told.exit_code == 1
    assert f"{LIAR} is at fault" in told.output
    assert f"who wants no further run with {LIAR} revokes the card: likeset card revoke" in told.output
    assert "Whose card" in told.output
    known = [word for card in proof["cards"].values() for word in ("--card", card["card"])]
    assert checked(*files, code=1, words=tuple(known))["not_proven"] == []


def test_a_reader_written_from_the_page_reads_the_file_and_finds_what_does_not_fit(
    lied: SplitHomes, tmp_path: Path
) -> None:
    """Terms, acceptances, rosters and evidence by ``second_reader``: words and record of each slot, which differ."""
    files = shown(lied, tmp_path)
    everybody = merged([SlotFile.from_bytes(path.read_bytes()) for path in files])
    assert everybody.reader is not None
    terms, accepted, schema, evidence, rosters = second_reader.parts_of("likeset slots", everybody.to_bytes(), 5)
    text, consumer, _ = second_reader.read_terms(terms)
    assert schema.decode().startswith("likeset: schema")
    owner, curator, witness = (second_reader.read_acceptance(data)[4] for data in second_reader.split(accepted))
    named = {party.fingerprint for party in (owner, curator, witness, consumer)}
    assert {second_reader.fingerprint_text(each) for each in named} <= set(json.loads(text)["cards"].values())
    for roster in second_reader.split(rosters):
        role = second_reader.parts_of("likeset roster", roster, 5)[3].decode()
        signer = {"curator": curator, "consumer": consumer, "witness": witness}[role]
        assert owner.fingerprint in second_reader.read_roster(roster, signer)
    for _slot, words, record in second_reader.read_evidence(evidence, owner, [curator, consumer, witness]):
        honest = fixed_point(everybody.reader.read([record]).rows)[0].tolist()
        assert words[: len(honest)] == [honest[0] + 1, *honest[1:]], "the liar added one to the first word of each row"


def test_what_the_consumer_alone_shows_proves_what_needs_no_shares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K, r and the envelope of the list are enough where it does not open: nobody else has to open anything."""
    homes = held(split_homes_in(tmp_path), monkeypatch, _swapped)
    assert homes.progress.ended is Ending.DONE
    assert LIAR not in {homes.run.terms.owners[place] for place in homes.summary.owners}
    first = tmp_path / "consumer.evidence"
    done("run-1", "--picks", "--with", LIAR, "--home", homes.folder(CONSUMER), "--out", first)
    assert checked(first, code=1)["at_fault"] == [LIAR]


@pytest.fixture
def lied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SplitHomes]:
    """A run with an honest owner and one whose shares are of other rows than its records."""
    homes = held(split_homes_in(tmp_path), monkeypatch, _other_row)
    yield homes
    homes.drop()


def test_who_does_not_open_is_named_once_the_reader_says_that_it_asked(lied: SplitHomes, tmp_path: Path) -> None:
    files = shown(lied, tmp_path, roles=(CURATOR,))
    pending = checked(*files, code=0)
    assert (pending["at_fault"], pending["must_open"]) == ([], [WITNESS])
    assert "what witness got of it is not shown" in pending["findings"][0]["words"]
    told = done(*(word for path in files for word in ("--check", path)))
    assert "to go on, ask witness: likeset run dispute --open FILE --home HOME --out ANSWER" in told
    ruled = checked(*files, code=1, words=("--silent", WITNESS))
    assert ruled["at_fault"] == [WITNESS]
    assert "it signed for its part of the offer, and did not open" in ruled["findings"][0]["words"]
    assert any("that is your own word" in words for words in ruled["not_proven"])
    assert "must be one of those who computed: curator" in mistake("--check", files[0], "--silent", "a")


def test_a_consumer_that_complains_about_a_sound_row_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes = held(split_homes_in(tmp_path, (LIAR,)), monkeypatch)
    (picks,) = homes.meeting.picks.values()
    random = picks.secrets[0].astype(">i8").tobytes().hex()
    claim = {LIAR: [{"slot": int(picks.numbers[0]), "random": random, "fault": "it is not as I like it"}]}
    assert not homes.run.failed_picks_path.exists(), "no pick failed"
    homes.run.failed_picks_path.write_text(json.dumps(claim))
    ruled = checked(*shown(homes, tmp_path), code=0)
    assert ruled["at_fault"] == []
    assert [finding["kind"] for finding in ruled["findings"]] == ["in order"]


def test_nobody_learns_of_a_row_that_was_not_bought_by_asking_about_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer that has K asks the others to open slots of which it knows no r, or a made-up one."""
    homes = held(split_homes_in(tmp_path, (LIAR,)), monkeypatch)
    (picks,) = homes.meeting.picks.values()
    slots = homes.run.terms.rows_per_owner
    others = sorted(set(range(slots)) - set(picks.numbers.tolist()))
    assert others
    for random in ("", "00" * 32):
        claim = {LIAR: [{"slot": others[0], "random": random, "fault": "x"}]}
        homes.run.failed_picks_path.write_text(json.dumps(claim))
        first = tmp_path / "fishing.evidence"
        done("run-1", "--picks", "--with", LIAR, "--home", homes.folder(CONSUMER), "--out", first)
        for name in (CURATOR, WITNESS):
            said = mistake("--open", first, "--home", homes.folder(name), "--out", tmp_path / "answer")
            assert f"nothing proves that slot {others[0]} of b was opened to the consumer" in said
            assert not (tmp_path / "answer").exists()
    many = [{"slot": slot, "random": "", "fault": "x"} for slot in range(slots)]
    homes.run.failed_picks_path.write_text(json.dumps({LIAR: many}))
    done("run-1", "--picks", "--with", LIAR, "--home", homes.folder(CONSUMER), "--out", first)
    said = mistake("--open", first, "--home", homes.folder(CURATOR), "--unproven", "--out", tmp_path / "answer")
    assert "asks about more slots than could be bought" in said


def test_an_owner_that_signs_two_lists_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forge(patched: pytest.MonkeyPatch) -> None:
        def both(*arguments: Any, **named: Any) -> SharedOffer:
            first, second = share_offer(*arguments, **named), share_offer(*arguments, **named)
            return SharedOffer({**second.parts, "curator": first.parts["curator"]}, first.slot_of_row)

        patched.setattr(split_owner, "share_offer", both)

    homes = held(split_homes_in(tmp_path), monkeypatch, forge)
    files = [tmp_path / f"{name}.evidence" for name in (CURATOR, WITNESS, CONSUMER)]
    for name, path in zip((CURATOR, WITNESS, CONSUMER), files, strict=True):
        said = done("run-1", "--picks", "--with", LIAR, "--home", homes.folder(name), "--out", path)
        assert "No record is in this file" in said
    shutil.rmtree(homes.place)
    ruled = checked(*files, code=1)
    assert ruled["at_fault"] == [LIAR]
    assert "it signed two different lists for one offer" in ruled["findings"][0]["words"]
    assert checked(files[1], files[2], code=0)["at_fault"] == [], "one of the two lists alone contradicts nothing"


@pytest.mark.parametrize("list_digest", [b"", bytes(32)], ids=["dropped", "replaced"])
def test_a_roster_without_an_owner_names_nobody_and_one_with_another_list_than_acknowledged_its_signer(
    lied: SplitHomes, tmp_path: Path, list_digest: bytes
) -> None:
    """All three acknowledged the list. That it is dropped anybody may have caused who kept its receipt back."""
    files = [tmp_path / f"{name}.evidence" for name in (CURATOR, CONSUMER)]
    for name, path in zip((CURATOR, CONSUMER), files, strict=True):
        done("run-1", "--picks", "--with", LIAR, "--home", lied.folder(name), "--out", path)
    given = [SlotFile.from_bytes(path.read_bytes()) for path in files]
    (first, *_) = given[1].rosters
    liar = lied.run.terms.cards[LIAR]
    others = {owner: digest for owner, digest in first.roster.lists.items() if owner != liar}
    lists = others | ({liar: list_digest} if list_digest else {})
    with Identity.of(lied.folder(CURATOR)).book as book:
        secret = Identity.of(lied.folder(CURATOR)).secret
        book.close()
    signed = sign_roster(secret, Roster(first.roster.terms, first.roster.parties, lists), "curator")
    forged = dataclasses.replace(given[0], rosters=(signed,))
    ruled = ruling_on([forged, given[1]])
    (finding, *_) = (finding for finding in ruled.findings if finding.kind == "roster")
    assert finding.at_fault == ((CURATOR,) if list_digest else ())
    expected = "named another list of b than" if list_digest else "nothing here tells which"
    assert expected in finding.words


def test_what_is_no_evidence_or_of_something_else_is_one_clear_line(
    lied: SplitHomes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = tmp_path / "consumer.evidence"
    terms = lied.run.terms
    consumer, curator = lied.folder(CONSUMER), lied.folder(CURATOR)
    done(terms.run, "--picks", "--with", LIAR, "--home", consumer, "--out", first)
    data = first.read_bytes()
    broken = tmp_path / "broken"
    for place in range(40, len(data), 997):
        broken.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        result = dispute("--check", broken, "--json")
        # Bytes of an opening or an envelope may change: then that is not what the list commits to, and counts as not
        # shown. Nobody else is ever at fault.
        assert result.exception is None or not isinstance(result.exception, AssertionError)
        if result.exit_code == 0 or isinstance(result.exception, SystemExit):
            assert json.loads(result.stdout)["at_fault"] in ([], [LIAR])
        else:
            assert str(broken) in str(result.exception)
    broken.write_bytes(data[:-1])
    assert "is no evidence that holds" in mistake("--check", broken)
    assert "is no owner of run run-1; there are a, b" in mistake(
        terms.run, "--picks", "--with", "curator", "--home", consumer, "--out", broken
    )
    assert "only who did has shares" in mistake(
        terms.run, "--picks", "--with", LIAR, "--home", lied.folder("a"), "--out", broken
    )
    other = held(split_homes_in(tmp_path / "other", (LIAR,)), monkeypatch)
    assert "is about a run that this home took no part in" in mistake(
        "--open", first, "--home", other.folder(CURATOR), "--out", broken
    )
    second = tmp_path / "second"
    done("run-1", "--picks", "--with", LIAR, "--home", other.folder(CONSUMER), "--out", second)
    assert "the files are about different runs" in mistake("--check", first, "--check", second)
    for words in (
        ("--open", first, "--home", curator),
        ("--check", first, "--picks"),
        ("--check", first, "--save", tmp_path),
        ("run-1", "--unproven", "--home", consumer, "--out", broken),
        ("run-1", "--picks", "--disclose", "b:0", "--home", consumer, "--out", broken),
        ("--silent", WITNESS),
    ):
        mistake(*words)


def test_evidence_under_another_list_is_refused(
    lied: SplitHomes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner lied in one run; its list of that run, shown under the terms of another one, proves nothing there."""
    other = held(split_homes_in(tmp_path / "other", (LIAR,)), monkeypatch)
    given: list[SlotFile] = []
    for homes in (lied, other):
        path = tmp_path / f"{len(given)}.evidence"
        done("run-1", "--picks", "--with", LIAR, "--home", homes.folder(CONSUMER), "--out", path)
        given.append(SlotFile.from_bytes(path.read_bytes()))
    first, second = given
    with pytest.raises(BadDocument):
        dataclasses.replace(second, evidence=first.evidence)
    with pytest.raises(BadDocument):
        dataclasses.replace(second, evidence=dataclasses.replace(first.evidence, receipts=(), slots=()), rosters=())


def test_when_the_terms_have_ended_nothing_can_be_opened_any_more(lied: SplitHomes, tmp_path: Path) -> None:
    first = tmp_path / "consumer.evidence"
    done("run-1", "--picks", "--with", LIAR, "--home", lied.folder(CONSUMER), "--out", first)
    assert lied.run.failed_picks_path.exists()
    lied.clock.now = datetime(2029, 4, 4, tzinfo=UTC)
    lied.settle()
    lied.drop()
    assert not lied.run.failed_picks_path.exists()
    for name in (CURATOR, WITNESS):
        said = mistake("--open", first, "--home", lied.folder(name), "--out", tmp_path / "answer")
        assert "its key gone: disputes can be decided until the terms end" in said


def test_a_bundle_of_a_split_run_says_that_the_consumer_signs_receipts(lied: SplitHomes, tmp_path: Path) -> None:
    for home, other in ((LIAR, CONSUMER), (CONSUMER, LIAR), (LIAR, CURATOR)):
        path = tmp_path / f"{home}-{other}"
        done("run-1", "--home", lied.folder(home), "--with", other, "--out", path)
        facts = checked(path, code=0)["proven"]
        words = [fact["words"] for fact in facts if "receipt" in fact["words"]]
        if home == LIAR and other == CONSUMER:
            slots = lied.run.terms.rows_per_owner
            assert [(fact["by"]) for fact in facts if "in a receipt" in fact["words"]] == [CONSUMER]
            assert f"with {slots} rows" in words[0]
        assert not any(fact["by"] == CURATOR and "receipt" in fact["words"] for fact in facts)
