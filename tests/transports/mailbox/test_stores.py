"""What holds for every place that a mailbox can be in: a folder, an OpenSSH server, an S3 server."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from mail_servers import DATA, NAME, OTHER_PAIR, PAIR, MailServer, mail_environment, s3_server, ssh_server

from likeset.errors import InvalidArgument, PostTrouble
from likeset.transports import stores
from likeset.transports.stores import Store, open_store

LARGE = bytes(range(256)) * 4096


@pytest.fixture(scope="module", params=["directory", "courier", "sftp", "s3"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MailServer]:
    folder: Path = tmp_path_factory.mktemp("server")
    if request.param == "directory":
        yield MailServer(str(folder))
        return
    if request.param == "courier":
        for name in ("out", "in"):
            (folder / name).mkdir()
        yield MailServer(f"courier://{folder}")
        return
    with ssh_server(folder) if request.param == "sftp" else s3_server() as running, mail_environment(running):
        yield running


@pytest.fixture
def store(server: MailServer) -> Iterator[Store]:
    store = open_store(server.address)
    for pair in (PAIR, OTHER_PAIR):
        for file in store.list(pair):
            store.remove(pair, file.name)
    yield store
    store.close()


class TestEveryStore:
    def test_a_folder_that_is_not_there_is_empty(self, store: Store) -> None:
        assert store.list("c" * 32) == []
        store.remove("c" * 32, NAME)

    @pytest.mark.parametrize("data", [DATA, LARGE, b"x" * 32768], ids=["small", "large", "one-packet"])
    def test_what_was_written_is_listed_and_read(self, store: Store, data: bytes) -> None:
        store.write(PAIR, NAME, data)
        (file,) = store.list(PAIR)
        assert (file.name, file.size) == (NAME, len(data))
        assert abs(file.modified - datetime.now(UTC)) < timedelta(hours=1)
        assert store.read(PAIR, NAME, most_bytes=len(data)) == data
        assert store.list(OTHER_PAIR) == []

    def test_a_file_beyond_the_bound_is_refused(self, store: Store) -> None:
        store.write(PAIR, NAME, LARGE)
        with pytest.raises(PostTrouble, match=f"more than the {len(LARGE) - 1} bytes"):
            store.read(PAIR, NAME, most_bytes=len(LARGE) - 1)

    def test_writing_and_removing_twice_is_fine(self, store: Store) -> None:
        store.write(PAIR, NAME, b"half of it")
        store.write(PAIR, NAME, DATA)
        assert store.read(PAIR, NAME, most_bytes=100) == DATA
        store.remove(PAIR, NAME)
        store.remove(PAIR, NAME)
        assert store.list(PAIR) == []

    def test_a_file_that_is_gone_is_trouble_with_this_file_only(self, store: Store) -> None:
        store.write(PAIR, NAME, DATA)
        with pytest.raises(PostTrouble, match="a file is gone"):
            store.read(PAIR, "0" * 64, most_bytes=100)
        with pytest.raises(PostTrouble, match="a file is gone"):
            store.read("c" * 32, NAME, most_bytes=100)
        assert store.read(PAIR, NAME, most_bytes=100) == DATA

    def test_a_closed_store_opens_again(self, store: Store) -> None:
        store.write(PAIR, NAME, DATA)
        store.close()
        assert store.read(PAIR, NAME, most_bytes=100) == DATA

    def test_a_listing_has_an_end_and_an_order(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        names = [f"{number:064x}" for number in range(5)]
        for name in reversed(names):
            store.write(PAIR, name, DATA)
        whole = store.list(PAIR)
        assert ([file.name for file in whole], whole.is_whole) == (names, True)
        monkeypatch.setattr(stores, "MOST_LISTED", 3)
        first = store.list(PAIR)
        assert ([file.name for file in first], first.is_whole) == (names[:3], False)

    @pytest.mark.parametrize("name", ["", "..", NAME.upper(), f"../{NAME}", f".{NAME}.01234567", f"{NAME}\n"])
    def test_no_other_names_are_used(self, store: Store, name: str) -> None:
        with pytest.raises(InvalidArgument, match="64 hexadecimal digits"):
            store.read(PAIR, name, most_bytes=100)
        with pytest.raises(InvalidArgument, match="64 hexadecimal digits"):
            store.write(PAIR, name, DATA)
        with pytest.raises(InvalidArgument, match="32 letters"):
            store.list(name)


@pytest.mark.parametrize("scheme", ["sftp", "s3", "file", "ftp"])
def test_a_password_is_refused_before_anything_is_opened_and_is_not_shown(scheme: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^mailbox") as caught:
        open_store(f"{scheme}://user:hunter2@example.org/folder")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "ftp://example.org/folder",
        "sftp:///folder",
        "sftp://example.org:port/folder",
        "s3://key@bucket/letters",
        "s3://bucket/letters?endpoint=x",
        "file://server/share",
        "file:///folder?x",
        "courier:///folder#x",
        "",
    ],
)
def test_what_is_no_mailbox_is_refused(address: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^mailbox"):
        open_store(address)


@pytest.mark.parametrize(("scheme", "part"), [("sftp", "paramiko"), ("s3", "boto3")])
def test_a_part_that_is_not_installed_is_named(scheme: str, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (part, "likeset.transports.sftp", "likeset.transports.sftp"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.delitem(sys.modules, "likeset.transports.s3", raising=False)
    monkeypatch.setitem(sys.modules, part, None)
    with pytest.raises(InvalidArgument, match=rf"extra {scheme}"):
        open_store(f"{scheme}://example/letters")


def test_one_place_has_one_address(tmp_path: Path) -> None:
    assert open_store(f"{tmp_path}/x/../").address == open_store(f"file://{tmp_path}").address == f"file://{tmp_path}"
    assert open_store("sftp://st-mary@example.org/in/").address == "sftp://st-mary@example.org:22/in"
    assert open_store("s3://bucket/letters/").address == "s3://bucket/letters"
