"""A witness's directory, what its check-up says, and whom a run may name as its witness."""

import socket
from pathlib import Path

import pytest
from card_world import secret_of

from likeset.errors import BadDocument, InvalidArgument
from likeset.homes.consumer_home import make_consumer_home, named_cards
from likeset.homes.curator_home import CuratorHome, make_curator_home
from likeset.homes.home import Finding, TunnelPlace, TunnelPorts
from likeset.homes.pinning import home_in
from likeset.homes.witness_home import WitnessHome, checkup, make_witness_home
from likeset.split.host import PYTHON_VARIABLE
from likeset.trust.cards import Role


def by_subject(home: WitnessHome) -> dict[str, Finding]:
    return {finding.what: finding for finding in checkup(home)}


def pin(home: WitnessHome, name: str, role: Role) -> None:
    home.pins().pin(secret_of(name).card, role, fingerprint=None)


def test_a_new_witness_has_a_card_and_settings_and_is_found_as_a_home(tmp_path: Path) -> None:
    home = make_witness_home(
        tmp_path / "uni", name="university", mailboxes=["file:///mnt/share"], listen="0.0.0.0:7301", reach_at="u.ex:80"
    )
    assert home.card().name == "university"
    assert home.settings.mailboxes == ("file:///mnt/share",)
    assert home.tunnels == TunnelPlace(TunnelPorts.parse("0.0.0.0:7301"), TunnelPorts("u.ex", 80, 80))
    assert isinstance(home_in(home.folder), WitnessHome)
    with pytest.raises(InvalidArgument, match="make one with `likeset witness init`"):
        WitnessHome(tmp_path).check()


@pytest.mark.parametrize(
    ("listen", "reach_at", "words"),
    [
        ("7301", "", "must be HOST:PORT"),
        ("host:70000", "", "must be HOST:PORT"),
        ("host:9-3", "", "must be HOST:PORT"),
        ("0.0.0.0:7301", "", "write reach_at: in witness.yaml"),
        ("host:7301-7302", "host:7301", "as many ports as listen"),
        ("", "host:7301", "needs listen: HOST:PORT in witness.yaml"),
    ],
)
def test_a_place_where_nobody_could_call_is_refused_before_anything_is_made(
    listen: str, reach_at: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidArgument, match=words):
        make_witness_home(tmp_path / "uni", name="university", listen=listen, reach_at=reach_at)
    assert not (tmp_path / "uni").exists()


def test_ports_are_told_in_the_order_in_which_they_are_reached() -> None:
    place = TunnelPlace.of("10.0.0.1:7301-7303", "uni.example:9001-9003", file="witness.yaml")
    assert place.told(7302) == ("uni.example", 9002)
    assert TunnelPlace.of("[::1]:0", "", file="x").told(40000) == ("::1", 40000)


def test_settings_that_say_no_place_are_refused_by_file_and_field(tmp_path: Path) -> None:
    home = make_curator_home(tmp_path / "hub")
    with pytest.raises(InvalidArgument, match=r"a split run needs listen: HOST:PORT in curator\.yaml"):
        _ = home.tunnels
    path = home.folder / "curator.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace('listen: ""', "listen: nowhere"), encoding="utf-8")
    with pytest.raises(BadDocument, match="listen"):
        _ = CuratorHome(home.folder).settings
    consumer = make_consumer_home(tmp_path / "clinic", name="clinic", listen="127.0.0.1:0")
    assert consumer.tunnels.listen.first == 0


def test_a_checkup_says_what_is_missing_and_what_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PYTHON_VARIABLE, str(tmp_path / "none" / "bin" / "python"))
    home = make_witness_home(tmp_path / "uni", name="university", listen="127.0.0.1:0")
    found = by_subject(home)
    assert {what for what, finding in found.items() if not finding.ok} == {"pinned cards", "mailboxes", "workers"}
    assert "likeset split setup" in found["workers"].words
    assert "no consumer and no curator" in found["pinned cards"].words
    assert "free; 127.0.0.1:0 answers" in found["tunnels"].words
    pin(home, "clinic", "consumer")
    pin(home, "hub", "curator")
    assert by_subject(home)["pinned cards"].ok


def test_a_checkup_says_that_a_port_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        home = make_witness_home(tmp_path / "uni", name="u", listen=f"127.0.0.1:{other.getsockname()[1]}")
        finding = by_subject(home)["tunnels"]
    assert not finding.ok
    assert "nothing can listen at" in finding.words


def test_a_run_names_a_witness_who_is_pinned_as_one_and_nothing_else(tmp_path: Path) -> None:
    home = make_consumer_home(tmp_path / "clinic", name="clinic")
    pins = home.pins()
    for name, role in (("a", "owner"), ("hub", "curator"), ("university", "witness")):
        pins.pin(secret_of(name).card, role, fingerprint=None)  # type: ignore[arg-type]

    def named(witness: str) -> dict[str, str]:
        with home.identity.book:
            return named_cards(home.identity, consumer="clinic", owners=["a"], witness=witness)

    assert named("university")["witness"] == secret_of("university").card.fingerprint
    for name, words in (
        ("nobody", "no card of that name is pinned here"),
        ("a", "pinned here as that of the owner, not of the witness; a witness is a third organisation"),
        ("hub", "pinned here as that of the curator"),
        ("clinic", "is the consumer's own name"),
    ):
        with pytest.raises(InvalidArgument, match=f"witness = .*{words}"):
            named(name)
