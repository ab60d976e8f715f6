"""Every home has a card from the start; changes of pinned cards are in an owner's audit log before they count."""

import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from node_world import logged

from likeset.errors import BadDocument, InvalidArgument, LedgerError
from likeset.homes.consumer_home import ConsumerHome, make_consumer_home
from likeset.homes.curator_home import CuratorHome, make_curator_home
from likeset.homes.home import PartyHome
from likeset.homes.owner_node import Home, OwnerNode, make_home
from likeset.homes.pinning import check_not_own, home_in, make_own_card, pins_to_change
from likeset.homes.policy import Policy, starting_text
from likeset.homes.review import checkup
from likeset.trust.cards import CARD_FILE, SECRET_FILE, Card, CardSecret, Pin

THEN = datetime(2026, 7, 1, 12, tzinfo=UTC)


def make_named_curator(folder: Path, *, name: str) -> CuratorHome:
    return make_curator_home(folder, name=name)


MAKERS: list[Callable[..., PartyHome]] = [make_home, make_consumer_home, make_named_curator]


def card_of(name: str) -> Card:
    return CardSecret.generate(name).card


def state_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("make", MAKERS)
def test_every_new_home_has_a_card_of_its_name(tmp_path: Path, make: Callable[..., PartyHome]) -> None:
    home = make(tmp_path / "home", name="party-1")
    found = home_in(tmp_path / "home")
    assert type(found) is type(home)
    assert found.card().name == "party-1"
    assert found.card() == found.card_secret().card
    assert found.card_file.read_text(encoding="ascii") == found.card().to_text()
    assert stat.S_IMODE((home.folder / SECRET_FILE).stat().st_mode) == 0o600
    assert home.pins().all() == ()
    assert not home.cards.exists(), "looking writes nothing"


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("name", ["", "a b", "x\x1b[31m", "-", "é"])
def test_a_name_that_no_party_may_have_leaves_no_directory(
    tmp_path: Path, make: Callable[..., PartyHome], name: str
) -> None:
    with pytest.raises(InvalidArgument, match="must be 1 to 128 letters"):
        make(tmp_path / "home", name=name)
    assert list(tmp_path.iterdir()) == []


def test_names_where_nobody_gives_one(tmp_path: Path) -> None:
    homes = [
        make_home(tmp_path / "a", name="st-mary"),
        make_consumer_home(tmp_path / "b", name="clinic"),
        make_curator_home(tmp_path / "c"),
    ]
    assert [home.usual_name for home in homes] == ["st-mary", "clinic", "curator"]
    for home in homes:
        (home.folder / CARD_FILE).unlink()
        (home.folder / SECRET_FILE).unlink()
        assert make_own_card(home, by="Ada").card.name == home.usual_name


def test_what_is_no_home(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"--home = .*is no directory of an owner, consumer, curator or witness"):
        home_in(tmp_path)


def test_keys_are_never_overwritten(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home", name="a")
    before = state_of(home.folder)
    with pytest.raises(InvalidArgument, match="never overwritten; if they were stolen or lost, add --new"):
        make_own_card(home, by="Ada")
    (home.folder / CARD_FILE).unlink()
    with pytest.raises(InvalidArgument, match=r"card\.secret: is there already"):
        make_own_card(home, by="Ada")
    with pytest.raises(BadDocument, match="is missing beside its keys"):
        home.card()
    assert state_of(home.folder) == {path: data for path, data in before.items() if path != CARD_FILE}


def test_a_new_card_after_a_theft_keeps_the_old_one_beside_it(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home", name="a")
    old, keys = home.card(), (home.folder / SECRET_FILE).read_bytes()
    (home.folder / SECRET_FILE).chmod(0o644)  # how it was stolen; it is no reason to keep it
    made = make_own_card(home, by="Ada", new=True, now=THEN)
    assert home.card() == made.card
    assert (made.card.name, made.card.fingerprint != old.fingerprint) == ("a", True)
    aside = {path.name: path.read_bytes() for path in made.before}
    assert aside == {
        "card.secret.until-20260701T120000Z": keys,
        "card.until-20260701T120000Z": old.to_text().encode("ascii"),
    }
    with OwnerNode(home.folder) as node:
        (entry,) = logged(node, "card")
    assert {word: entry[word] for word in ("state", "name", "fingerprint", "by")} == {
        "state": "own",
        "name": "a",
        "fingerprint": made.card.fingerprint,
        "by": "Ada",
    }
    with pytest.raises(InvalidArgument, match="try again in a second"):
        make_own_card(home, by="Ada", new=True, now=THEN)
    assert home.card() == made.card


@pytest.mark.parametrize("lost", [CARD_FILE, SECRET_FILE])
def test_a_new_card_where_half_of_the_old_one_is_left(tmp_path: Path, lost: str) -> None:
    home = make_consumer_home(tmp_path / "home", name="clinic")
    (home.folder / lost).unlink()
    made = make_own_card(home, by="Ada", new=True, name="clinic-2")
    assert home.card() == made.card
    assert made.card.name == "clinic-2"
    assert len(made.before) == 1


def test_pinning_replacing_and_revoking_are_in_an_owners_log(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home", name="a")
    old, new = card_of("clinic"), card_of("clinic")
    with pins_to_change(home, by="Ada") as pins:
        pins.pin(old, "consumer", fingerprint=old.fingerprint)
        pins.pin(old, "consumer", fingerprint=None)  # no change, and no entry
        pins.replace(new)
        pins.revoke("clinic", "moved away")
    told = ("state", "name", "role", "fingerprint", "by", "replaced_by", "reason")
    with OwnerNode(home.folder) as node:
        entries = [tuple(entry.get(word, "") for word in told) for entry in logged(node, "card")]
        problems = [finding.words for finding in checkup(node) if finding.what == "audit log and ledger"]
    first, second = old.fingerprint, new.fingerprint
    assert entries == [
        ("pinned", "clinic", "consumer", first, "Ada", "", ""),
        ("replaced", "clinic", "consumer", first, "Ada", second, ""),
        ("pinned", "clinic", "consumer", second, "Ada", "", ""),
        ("revoked", "clinic", "consumer", second, "Ada", "", "moved away"),
    ]
    assert problems == ["they hold and agree"]


def test_what_the_log_does_not_take_is_not_pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = make_home(tmp_path / "home", name="a")

    def full(*_: object, **__: Any) -> None:
        raise LedgerError("no space")

    monkeypatch.setattr(OwnerNode, "note", full)
    with pytest.raises(LedgerError), pins_to_change(home, by="Ada") as pins:
        pins.pin(card_of("clinic"), "consumer", fingerprint=None)
    before = home.card()
    with pytest.raises(LedgerError):
        make_own_card(home, by="Ada", new=True)
    assert home.pins().all() == ()
    assert home.card() == before


def test_a_replacement_killed_between_its_two_files_goes_on(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home", name="a")
    old, new = card_of("clinic"), card_of("clinic")
    home.pins().pin(old, "consumer", fingerprint=None)

    def killed(pin: Pin) -> None:
        if pin.card == new:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        home.pins(note=killed).replace(new)
    assert home.pins().get("clinic") is None, "between the two neither counts"
    with pins_to_change(home, by="Ada") as pins:
        assert pins.replace(new).role == "consumer"
    assert [(pin.card, pin.state) for pin in home.pins().all() if pin.state == "pinned"] == [(new, "pinned")]


def test_a_home_does_not_pin_its_own_card_or_name(tmp_path: Path) -> None:
    home = make_consumer_home(tmp_path / "home", name="clinic")
    with pytest.raises(InvalidArgument, match="this home's own card"):
        check_not_own(home, home.card())
    with pytest.raises(InvalidArgument, match="this home's own name"):
        check_not_own(home, card_of("clinic"))
    check_not_own(home, card_of("st-mary"))


def words_about(home: Home, what: str) -> tuple[bool, str]:
    with OwnerNode(home.folder) as node:
        (finding,) = (finding for finding in checkup(node) if finding.what == what)
    return finding.ok, finding.words


def test_the_checkup_looks_at_cards(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home", name="a")
    ok, words = words_about(home, "card")
    assert ok
    assert home.card().fingerprint in words
    assert words_about(home, "pinned cards")[1].startswith("no consumer and no curator yet")
    for name, role in (("clinic", "consumer"), ("lab", "consumer"), ("hub", "curator"), ("gone", "witness")):
        home.pins().pin(card_of(name), role, fingerprint=None)  # type: ignore[arg-type]
    home.pins().revoke("gone", "moved away")
    assert words_about(home, "pinned cards") == (True, "1 as curator, 2 as consumer")
    (home.folder / SECRET_FILE).chmod(0o640)
    ok, words = words_about(home, "card")
    assert not ok
    assert "other users can read it (mode 0640)" in words
    (home.folder / SECRET_FILE).unlink()
    ok, words = words_about(home, "card")
    assert not ok
    assert "likeset card make" in words
    (home.cards / f"{card_of('x').fingerprint}.json").write_text("{}")
    ok, words = words_about(home, "pinned cards")
    assert not ok
    assert "is damaged" in words


def test_curators_and_witnesses_of_a_policy_are_all_that_are_pinned(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home", name="a")
    policy = Policy.load(home.policy)
    assert (policy.consumers, policy.curators, policy.witnesses) == ((), ("*",), ("*",))
    lines = [line for line in starting_text("a").splitlines() if not line.startswith(("curators:", "witnesses:"))]
    home.policy.write_text("\n".join(lines), encoding="utf-8")
    assert Policy.load(home.policy) == policy, "a policy of an older likeset says the same"
    home.policy.write_text("\n".join([*lines, "curators: [hub]", "witnesses: []"]), encoding="utf-8")
    policy = Policy.load(home.policy)
    assert (policy.curators, policy.witnesses) == (("hub",), ())


def test_consumers_home_is_told_by_its_check(tmp_path: Path) -> None:
    make_consumer_home(tmp_path / "home", name="clinic").check()
    with pytest.raises(InvalidArgument, match="is not the directory of a consumer"):
        ConsumerHome(tmp_path).check()
