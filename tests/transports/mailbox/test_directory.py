"""A folder as a mailbox: whole files, private modes, nothing followed, nothing waited for."""

import os
import stat
from pathlib import Path

import pytest
from mail_servers import DATA, NAME, OTHER_PAIR, PAIR

from likeset.errors import PostTrouble
from likeset.transports.stores import Store, open_store


@pytest.fixture
def mailbox(tmp_path: Path) -> Path:
    folder = tmp_path / "mailbox"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def store(mailbox: Path) -> Store:
    return open_store(str(mailbox))


def modes(mailbox: Path) -> tuple[int, int]:
    """Of the pair's folder and of the file in it."""
    return (stat.S_IMODE((mailbox / PAIR).stat().st_mode), stat.S_IMODE((mailbox / PAIR / NAME).stat().st_mode))


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
@pytest.mark.parametrize(
    ("mailbox_mode", "folder_mode", "file_mode"),
    [
        (0o700, 0o700, 0o600),
        (0o3770, 0o2750, 0o640),
        (0o3730, 0o2750, 0o640),  # nobody lists the mailbox, and who knows a name reads what is there
        (0o1777, 0o755, 0o644),
        (0o760, 0o700, 0o600),  # a group that may not enter
    ],
)
def test_modes_follow_from_the_mailbox_and_not_from_the_umask(
    mailbox: Path, store: Store, *, mailbox_mode: int, folder_mode: int, file_mode: int, umask: int
) -> None:
    mailbox.chmod(mailbox_mode)
    before = os.umask(umask)
    try:
        store.write(PAIR, NAME, DATA)
    finally:
        os.umask(before)
    assert modes(mailbox) == (folder_mode, file_mode)


def test_a_folder_whose_maker_was_killed_before_it_set_the_mode_gets_it_later(mailbox: Path, store: Store) -> None:
    mailbox.chmod(0o770)
    (mailbox / PAIR).mkdir(mode=0o700)
    store.write(PAIR, NAME, DATA)
    assert modes(mailbox) == (0o750, 0o640)


def test_links_inside_the_mailbox_lead_nowhere(tmp_path: Path, mailbox: Path, store: Store) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / NAME).write_bytes(DATA)
    (mailbox / PAIR).symlink_to(elsewhere)
    for use in (
        lambda: store.list(PAIR),
        lambda: store.read(PAIR, NAME, most_bytes=100),
        lambda: store.write(PAIR, NAME, b"other"),
        lambda: store.remove(PAIR, NAME),
    ):
        with pytest.raises(PostTrouble, match="one of its folders or files"):
            use()
    (mailbox / OTHER_PAIR).mkdir()
    (mailbox / OTHER_PAIR / NAME).symlink_to(elsewhere / NAME)
    assert store.list(OTHER_PAIR) == []
    with pytest.raises(PostTrouble, match="no ordinary file"):
        store.read(OTHER_PAIR, NAME, most_bytes=100)
    store.write(OTHER_PAIR, NAME, b"takes the place of the link")
    assert (elsewhere / NAME).read_bytes() == DATA
