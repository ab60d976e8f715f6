"""Peers and keepers of a mailbox who mean harm: nobody else's run is held up, and nothing is said that must not be."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from kill_world import CONSUMER
from mail_homes import MailHomes, MemoryStore, homes_in
from test_mail_runs import check_done

from likeset.errors import MailboxTrouble, PostTrouble
from likeset.protocol.party import CURATOR
from likeset.transports.mailbox.stores import Listing


@dataclass
class SpoiltStore(MemoryStore):
    """A mailbox in which somebody spoilt one folder.

    Attributes:
        spoilt: the folder.
        call: what cannot be done there.
    """

    spoilt: str = ""
    call: str = ""

    def list(self, folder: str) -> Listing:
        self._try("list", folder)
        return super().list(folder)

    def write(self, folder: str, name: str, data: bytes) -> None:
        self._try("write", folder)
        super().write(folder, name, data)

    def remove(self, folder: str, name: str) -> None:
        self._try("remove", folder)
        super().remove(folder, name)

    def _try(self, call: str, folder: str) -> None:
        if (call, folder) == (self.call, self.spoilt):
            raise PostTrouble(self.address, "no permission for one of its folders")


def spoilt(homes: MailHomes, writer: str, reader: str, call: str) -> None:
    """Both of a pair know its folders, and either can make one first that the other cannot use."""
    folder = homes.pair(writer, reader).outgoing_folder
    homes.store = SpoiltStore(homes.clock, homes.store.files, spoilt=folder, call=call)


@pytest.mark.parametrize("call", ["list", "write", "remove"])
@pytest.mark.parametrize("pair", [("b", CONSUMER), (CONSUMER, "b"), ("b", CURATOR), (CURATOR, "b")])
def test_who_spoils_a_folder_of_its_own_holds_nobody_else_up(tmp_path: Path, call: str, pair: tuple[str, str]) -> None:
    homes = homes_in(tmp_path)
    spoilt(homes, *pair, call)
    notes = list(homes.look().notes)
    homes.approve("a")
    for _ in range(12):  # with b's time to decide, and the curator's patience
        homes.clock.pass_by(days=1)
        notes += homes.settle().notes
    assert homes.progress.done
    assert list(homes.summary.absent) == [1]
    assert any("no permission" in note for note in notes) or call != "list"


def test_what_could_not_be_left_is_left_when_it_can_be(tmp_path: Path) -> None:
    """The release for b, while all the others go out."""
    homes = homes_in(tmp_path)
    homes.look()
    homes.approve()
    homes.look("a", "b")
    spoilt(homes, CONSUMER, "b", "write")
    homes.drop(CONSUMER)
    look = homes.look(CONSUMER)
    assert f"nothing can be left for b: {PostTrouble('memory', 'no permission for one of its folders')}" in look.notes
    assert homes.lying(CONSUMER, "a")
    homes.store.call = ""  # type: ignore[attr-defined]
    homes.settle()
    check_done(homes)


def test_a_curator_that_meets_a_full_mailbox_accepts_when_there_is_room(tmp_path: Path) -> None:
    homes = homes_in(tmp_path)
    homes.look(CONSUMER)

    def full() -> None:
        raise MailboxTrouble("memory", "is full")

    homes.store.before = full
    for _ in range(2):
        with pytest.raises(MailboxTrouble):
            homes.look(CURATOR)
        homes.drop(CURATOR)
    homes.store.before = lambda: None
    homes.look("a", "b")
    homes.approve()
    homes.settle()
    check_done(homes)
