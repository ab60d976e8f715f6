"""Which cards a home pins and revokes; only those that are pinned count, each for one role."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from home_world import NOON, Clock, secret_of

from likeset.errors import InvalidArgument
from likeset.homes.home import Home, Pins, make_home
from likeset.trust.cards import CardSecret, Pin

BOB, MALLORY = (secret_of(name).card for name in ("bob", "mallory"))
NEW_BOB = CardSecret.generate("bob").card
AT = f"{NOON:%Y-%m-%d}T12:00:00+00:00"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    make_home(tmp_path / "home", name="clinic", roles=("consumer",)).close()
    with Home(tmp_path / "home", clock=Clock()) as found:
        yield found


@pytest.fixture
def pins(home: Home) -> Pins:
    return home.pins


def refuses(pins: Pins, reason: str, *attempts: Callable[[], object]) -> None:
    """Each attempt fails for this reason, and changes nothing."""
    before = pins.all()
    for attempt in attempts:
        with pytest.raises(InvalidArgument, match=reason):
            attempt()
    assert pins.all() == before


def test_a_pinned_card_is_there_for_the_next_process(home: Home, pins: Pins) -> None:
    assert (pins.get("bob"), pins.by_fingerprint(BOB.fingerprint), pins.all()) == (None, None, ())
    pinned = pins.pin(BOB, "owner", fingerprint=BOB.fingerprint.lower())
    assert pinned == Pin(BOB, "owner", AT)
    with Home(home.folder) as again:
        assert again.pins.get("bob") == again.pins.by_fingerprint(BOB.fingerprint) == pinned
        assert again.pins.by_fingerprint(BOB.fingerprint.replace("-", "").lower()) == pinned
        assert again.pins.all() == (pinned,)
        again.pins.revoke("bob", "stolen")
    assert pins.get("bob") is None, "what another process changed is seen"


def test_a_wrong_fingerprint_or_role_pins_nothing(pins: Pins) -> None:
    letters = BOB.fingerprint
    wrong = letters[:6] + ("A" if letters[6] != "A" else "B") + letters[7:]
    refuses(pins, "groups differ: 2", lambda: pins.pin(BOB, "owner", fingerprint=wrong))
    refuses(pins, "role", lambda: pins.pin(BOB, "banker"))  # type: ignore[arg-type]
    refuses(pins, "groups differ", lambda: pins.pin(NEW_BOB, "owner", fingerprint=BOB.fingerprint))


def test_a_name_means_one_card_and_a_card_has_one_role(pins: Pins) -> None:
    first = pins.pin(BOB, "owner")
    assert pins.pin(BOB, "owner") == first, "the same pin again changes nothing"
    refuses(pins, "is pinned as owner; a card has one role here", lambda: pins.pin(BOB, "curator"))
    assert "with the role owner" in pins.fault("curator", BOB.fingerprint)
    named = f"{BOB.fingerprint}.*revoke that one first"
    refuses(pins, named, lambda: pins.pin(NEW_BOB, "owner"), lambda: pins.pin(NEW_BOB, "consumer"))


def test_a_new_card_of_an_own_curator_belongs_to_the_same_consumer(pins: Pins) -> None:
    pins.pin(BOB, "curator", belongs_to="alice")
    pins.revoke("bob", "a new card")
    assert pins.pin(NEW_BOB, "curator").belongs_to == "alice"


def test_a_revoked_card_never_comes_back_but_its_party_may(pins: Pins) -> None:
    pins.pin(BOB, "owner")
    revoked = pins.revoke("bob", "the laptop was stolen")
    assert (revoked.state, revoked.reason, pins.get("bob")) == ("revoked", "the laptop was stolen", None)
    assert pins.is_given_up(BOB.fingerprint)
    assert "was revoked here" in pins.fault("owner", BOB.fingerprint)
    reason = "was revoked .*ask bob for a new card"
    refuses(pins, reason, lambda: pins.pin(BOB, "owner"))
    assert pins.pin(NEW_BOB, "owner").state == "pinned"
    assert {pin.state for pin in pins.all()} == {"revoked", "pinned"}


def test_what_is_not_pinned_cannot_be_revoked(pins: Pins) -> None:
    pins.pin(BOB, "owner")
    for name in ("bbo", "Bob", MALLORY.fingerprint):
        refuses(pins, "no card of that name is pinned", lambda name=name: pins.revoke(name, "why not"))  # type: ignore[misc]
    refuses(pins, "did you mean bob", lambda: pins.revoke("Bob", "why not"))
    refuses(pins, "reason", lambda: pins.revoke("bob", " "))
