"""A home that was put back from an old copy stops in the midst of a run, whoever it is, and the others see to it."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from engine_scenarios import charges, settle_sites
from letter_wire import SERVER, LetterWire
from protocol_world import CONSUMER, THRESHOLD, terms

from likeset.errors import HomeRestored, IllegalMessage, LikesetError
from likeset.homes.mail import Identity

INTERACTIVE = {"protocol": "interactive"}
Stage = Callable[[LetterWire], object]
STAGES: dict[str, Stage] = {
    "before it accepted": lambda _: None,
    "before it answered": lambda wire: wire.acceptances(),
}


def _run_with_an_old_copy(folder: Path, home: str, stage: Stage, **options: Any) -> LetterWire:
    """A whole run; then the folder of one home is what it was at some earlier time, and the run is resumed."""
    invited = settle_sites(folder, [terms(run="resumed", **options)])["resumed"]
    stage(LetterWire(folder, invited))
    shutil.copytree(folder / home, folder / "old")
    LetterWire(folder, invited).run()
    shutil.rmtree(folder / home)
    (folder / "old").rename(folder / home)
    return LetterWire(folder, invited)


def _is_stopped(folder: Path, home: str) -> bool:
    with Identity.of(folder / home).book as book:
        try:
            book.check_running()
        except HomeRestored:
            return True
    return False


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
@pytest.mark.parametrize("options", [{}, THRESHOLD, INTERACTIVE], ids=["sealed", "threshold", "interactive"])
def test_an_owner_stops_and_the_run_goes_on_without_it(tmp_path: Path, options: dict[str, Any], stage: Stage) -> None:
    """By its acceptance, or by its first answer: it wrote another one before, and is shown that."""
    resumed = _run_with_an_old_copy(tmp_path, "a", stage, **options)
    pump = resumed.run()
    assert _is_stopped(tmp_path, "a")
    assert "a" in pump.failures
    assert resumed.summary is not None
    assert list(resumed.summary.absent) == [0]
    before = charges(tmp_path, "a", "resumed")
    assert resumed.sites["a"].standing(resumed.terms.digest) == "abstains"
    LetterWire(tmp_path, resumed.invitation).run()
    assert charges(tmp_path, "a", "resumed") == before
    assert not any(_is_stopped(tmp_path, home) for home in ("b", "c", CONSUMER, SERVER))


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
@pytest.mark.parametrize("options", [{}, THRESHOLD, INTERACTIVE], ids=["sealed", "threshold", "interactive"])
def test_a_curator_stops_and_the_run_ends(tmp_path: Path, options: dict[str, Any], stage: Stage) -> None:
    resumed = _run_with_an_old_copy(tmp_path, SERVER, stage, **options)
    with pytest.raises(HomeRestored, match="old copy"):
        resumed.run()
    assert _is_stopped(tmp_path, SERVER)
    assert not any(_is_stopped(tmp_path, home) for home in ("a", "b", "c", CONSUMER))
    with pytest.raises(HomeRestored):
        LetterWire(tmp_path, resumed.invitation).run()


def test_a_consumer_stops_and_its_second_release_is_heard_by_nobody(tmp_path: Path) -> None:
    resumed = _run_with_an_old_copy(tmp_path, CONSUMER, STAGES["before it answered"])
    before = {owner: charges(tmp_path, owner, "resumed") for owner in resumed.terms.owners}
    with pytest.raises(IllegalMessage, match="wrote two different letters"):
        resumed.run()
    assert _is_stopped(tmp_path, CONSUMER)
    assert {owner: charges(tmp_path, owner, "resumed") for owner in resumed.terms.owners} == before
    with pytest.raises(LikesetError, match="abstains"):
        LetterWire(tmp_path, resumed.invitation).run()


def test_what_somebody_wrote_comes_back_to_it_once_and_to_nobody_else(tmp_path: Path) -> None:
    resumed = _run_with_an_old_copy(tmp_path, "a", STAGES["before it answered"])
    honest = LetterWire.give_back
    shown: list[tuple[str, bytes]] = []

    def give_back(wire: LetterWire, writer: str, data: bytes) -> None:
        shown.append((writer, data))
        honest(wire, writer, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LetterWire, "give_back", give_back)
        resumed.run()
    ((writer, data),) = shown
    assert writer == "a"
    assert resumed.parcel(data).sender == "a"
    assert [reader for reader, told in resumed.told if told == data] == ["a"]
