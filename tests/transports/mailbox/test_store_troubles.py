"""A place that is full, gone, read-only, silent or not the right one: one line that names it and says what to do."""

import contextlib
import errno
import os
import socket
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import paramiko
import pytest
from mail_servers import DATA, NAME, OTHER_PAIR, PAIR, MailServer, SshServer, mail_environment, s3_server, ssh_server

from likeset.errors import MailboxTrouble, PostTrouble
from likeset.transports import s3 as s3_store
from likeset.transports import sftp as sftp_store
from likeset.transports import stores
from likeset.transports.s3 import S3Store
from likeset.transports.sftp import SftpStore
from likeset.transports.stores import Store, open_store


@pytest.fixture(scope="module")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    with ssh_server(tmp_path_factory.mktemp("ssh")) as server, mail_environment(server):
        yield server


@pytest.fixture(scope="module")
def s3() -> Iterator[MailServer]:
    with s3_server() as server, mail_environment(server):
        yield server


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Takes connections, and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.fixture
def closed_port() -> Iterator[int]:
    """Taken by us, and nobody listens."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def trouble(action: Callable[[], object], reason: str) -> str:
    with pytest.raises(MailboxTrouble, match=reason) as caught:
        action()
    assert type(caught.value) is MailboxTrouble  # all of the mailbox, and not one file
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE, errno.EMFILE])
def test_a_folder_that_cannot_be_written_says_why_and_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    store = open_store(str(tmp_path))

    def fails(_descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        said = trouble(lambda: store.write(PAIR, NAME, DATA), os.strerror(number))
    assert said.startswith(f"mailbox file://{tmp_path}: ")
    assert list((tmp_path / PAIR).iterdir()) == []
    store.write(PAIR, NAME, DATA)
    assert store.read(PAIR, NAME, most_bytes=100) == DATA


def test_a_folder_of_somebody_else_is_trouble_with_that_folder_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the system says it to whoever is not root."""

    def refuses(*_place: object, **_how: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "open", refuses)
    with pytest.raises(PostTrouble, match="one of its folders or files: Permission denied"):
        open_store(str(tmp_path)).list(PAIR)


def test_what_a_killed_writer_began_is_not_listed_and_goes_when_it_is_old(tmp_path: Path, ssh: SshServer) -> None:
    for address, mailbox in ((str(tmp_path), tmp_path), (ssh.address, ssh.mailbox)):
        folder = mailbox / PAIR
        folder.mkdir(exist_ok=True)
        partial = folder / f".{NAME}.01234567"
        partial.write_bytes(b"a let")
        assert open_store(address).list(PAIR) == []
        open_store(address).write(PAIR, NAME, DATA)
        assert [file.name for file in open_store(address).list(PAIR)] == [NAME]
        assert partial.exists()  # somebody may be writing it
        old = time.time() - stores.PARTIAL_SECONDS - 60
        os.utime(partial, (old, old))
        open_store(address).write(PAIR, NAME, DATA)
        assert [path.name for path in folder.iterdir()] == [NAME]
        open_store(address).remove(PAIR, NAME)


def test_two_processes_may_write_one_letter_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only whole files have the name of the letter, whoever comes first."""
    sync, meanwhile = os.fsync, [lambda: open_store(str(tmp_path)).write(PAIR, NAME, DATA)]

    def interrupted(descriptor: int) -> None:
        sync(descriptor)
        if meanwhile:
            meanwhile.pop()()

    monkeypatch.setattr(os, "fsync", interrupted)
    open_store(str(tmp_path)).write(PAIR, NAME, DATA)
    assert not meanwhile
    assert open_store(str(tmp_path)).read(PAIR, NAME, most_bytes=100) == DATA
    assert [path.name for path in (tmp_path / PAIR).iterdir()] == [NAME]


def test_an_unknown_host_key_is_refused_with_the_remedy(
    ssh: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for known_hosts in (tmp_path / "none", tmp_path / "empty"):
        monkeypatch.setenv("LIKESET_KNOWN_HOSTS", str(known_hosts))
        said = trouble(lambda: open_store(ssh.address).list(PAIR), "ssh-ed25519 SHA256:.* is not the one in")
        assert said.endswith(f"ssh-keyscan -p {ssh.port} 127.0.0.1 >> {known_hosts}")
        (tmp_path / "empty").touch()


def test_a_changed_host_key_is_refused(ssh: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = (ssh.known_hosts.parent / "user_key.pub").read_text(encoding="ascii").split()[:2]
    (tmp_path / "other").write_text(f"[127.0.0.1]:{ssh.port} {' '.join(other)}\n", encoding="ascii")
    monkeypatch.setenv("LIKESET_KNOWN_HOSTS", str(tmp_path / "other"))
    assert "ssh-keyscan" in trouble(lambda: open_store(ssh.address).list(PAIR), "is not the one in")


def test_a_key_that_the_server_does_not_know_or_that_is_not_there_is_said_to_be(
    ssh: SshServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIKESET_SFTP_KEY", str(ssh.known_hosts.parent / "host_key"))
    trouble(lambda: open_store(ssh.address).list(PAIR), "takes none of your keys for the login")
    monkeypatch.setenv("LIKESET_SFTP_KEY", str(ssh.known_hosts.parent / "none"))
    trouble(lambda: open_store(ssh.address).list(PAIR), "takes none of your keys for the login")


def test_a_broken_connection_is_made_anew(ssh: SshServer) -> None:
    store = open_store(ssh.address)
    store.write(PAIR, NAME, DATA)
    for _ in range(3):
        ssh.cut_connections()
        with contextlib.suppress(MailboxTrouble):  # unless the end of the connection was seen already
            store.list(PAIR)
        assert store.read(PAIR, NAME, most_bytes=100) == DATA
    store.remove(PAIR, NAME)
    store.close()


def test_a_mailbox_that_is_gone_is_not_an_empty_one(
    tmp_path: Path, ssh: SshServer, s3: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for address, reason in (
        (str(tmp_path / "gone"), "there is no such folder"),
        (f"{ssh.address}/elsewhere", "there is no such folder on the server"),
    ):
        store = open_store(address)
        trouble(lambda store=store: store.list(PAIR), reason)  # type: ignore[misc]
        trouble(lambda store=store: store.read(PAIR, NAME, most_bytes=100), reason)  # type: ignore[misc]
        trouble(lambda store=store: store.write(PAIR, NAME, DATA), reason)  # type: ignore[misc]
        trouble(lambda store=store: store.remove(PAIR, NAME), reason)  # type: ignore[misc]
        store.close()
    trouble(lambda: open_store("s3://elsewhere/letters").list(PAIR), "NoSuchBucket")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    trouble(lambda: open_store(s3.address).list(PAIR), "NoCredentialsError.*AWS_ACCESS_KEY_ID")


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
    tmp_path: Path, *, mailbox_mode: int, folder_mode: int, file_mode: int, umask: int
) -> None:
    tmp_path.chmod(mailbox_mode)
    before = os.umask(umask)
    try:
        open_store(str(tmp_path)).write(PAIR, NAME, DATA)
    finally:
        os.umask(before)
    assert modes(tmp_path / PAIR) == [folder_mode, file_mode]


def modes(folder: Path) -> list[int]:
    return [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / NAME)]


def test_a_folder_whose_maker_was_killed_before_it_set_the_mode_gets_it_later(tmp_path: Path) -> None:
    tmp_path.chmod(0o770)
    (tmp_path / PAIR).mkdir(mode=0o700)
    open_store(str(tmp_path)).write(PAIR, NAME, DATA)
    assert modes(tmp_path / PAIR) == [0o750, 0o640]


def test_a_link_in_place_of_a_folder_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / OTHER_PAIR).mkdir()
    (tmp_path / OTHER_PAIR / NAME).write_bytes(DATA)
    (tmp_path / PAIR).symlink_to(tmp_path / OTHER_PAIR)
    store = open_store(str(tmp_path))
    for use in (
        lambda: store.list(PAIR),
        lambda: store.read(PAIR, NAME, most_bytes=100),
        lambda: store.write(PAIR, NAME, b"other"),
        lambda: store.remove(PAIR, NAME),
    ):
        with pytest.raises(PostTrouble, match="one of its folders or files"):
            use()
    assert (tmp_path / OTHER_PAIR / NAME).read_bytes() == DATA


def test_what_is_no_ordinary_file_is_not_opened(tmp_path: Path, ssh: SshServer) -> None:
    for address, mailbox in ((str(tmp_path), tmp_path), (ssh.address, ssh.mailbox)):
        store, folder = open_store(address), mailbox / OTHER_PAIR
        mailbox.chmod(0o770)
        store.write(folder.name, NAME, DATA)
        mailbox.chmod(0o700)
        assert modes(folder) == [0o750, 0o640]
        odd = ["1" * 64, "2" * 64, "3" * 64]
        os.mkfifo(folder / odd[0])
        (folder / odd[1]).symlink_to(folder / NAME)
        (folder / odd[2]).mkdir()
        assert [file.name for file in store.list(folder.name)] == [NAME]
        for name in odd:
            with pytest.raises(PostTrouble, match="not an ordinary file"):
                store.read(folder.name, name, most_bytes=100)
        for name in odd[:2]:
            store.write(folder.name, name, b"other")  # takes its place
            assert store.read(folder.name, name, most_bytes=100) == b"other"
        assert (folder / NAME).read_bytes() == DATA
        store.close()


@pytest.mark.slow
def test_servers_that_are_not_reached_or_silent_are_said_to_be(
    closed_port: int, silent_port: int, s3: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    trouble(lambda: open_store(f"sftp://x@127.0.0.1:{closed_port}/m").list(PAIR), "its server is not reached")
    for module in (s3_store, sftp_store):
        monkeypatch.setattr(module, "_SECONDS", 0.2)
    silent = SftpStore("127.0.0.1", "/m", port=silent_port, user="x")
    trouble(lambda: silent.list(PAIR), "its server is not reached")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{closed_port}")
    trouble(lambda: open_store(s3.address).list(PAIR), "is not reached")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent_port}")
    trouble(lambda: S3Store("mailbox", "").list(PAIR), "is not reached")


def test_an_address_that_names_a_file_on_a_server_is_no_empty_mailbox(ssh: SshServer) -> None:
    open_store(ssh.address).write(PAIR, NAME, DATA)
    trouble(lambda: open_store(f"{ssh.address}/{PAIR}/{NAME}").list(PAIR), "is a file on the server; give the address")
    open_store(ssh.address).remove(PAIR, NAME)


# Places that do not keep to the rules.


def test_a_name_that_is_not_utf8_spoils_this_folder_only(ssh: SshServer) -> None:
    pair = "c" * 32
    store = open_store(ssh.address)
    store.write(pair, NAME, DATA)
    (Path(os.fsdecode(os.fsencode(ssh.mailbox / pair) + b"/\xff\xfe"))).touch()
    with pytest.raises(PostTrouble):
        store.list(pair)
    store.write(PAIR, NAME, DATA)
    assert [file.name for file in store.list(PAIR)] == [NAME]
    store.close()


@pytest.mark.parametrize("error", [ValueError("rows"), BlockingIOError(errno.EAGAIN, "a lease is on the file")])
def test_a_failure_that_no_store_knows_is_trouble_with_this_folder_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Whoever writes to a folder may have caused it, and keeps no other from being heard."""

    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(stores, "bounded_listing", fails)
    store = open_store(str(tmp_path))
    store.write(PAIR, NAME, DATA)
    with pytest.raises(PostTrouble) as caught:
        store.list(PAIR)
    assert "rows" not in str(caught.value)


def test_a_file_of_known_hosts_that_is_damaged_is_named(
    ssh: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "known").mkdir()
    monkeypatch.setenv("LIKESET_KNOWN_HOSTS", str(tmp_path / "known"))
    assert str(tmp_path / "known") in trouble(lambda: open_store(ssh.address).list(PAIR), "repair it")


@pytest.mark.parametrize("action", [lambda store: store.list(PAIR), lambda store: store.read(PAIR, NAME, most_bytes=9)])
def test_an_answer_that_comes_a_little_at_a_time_is_given_up(
    action: Callable[[Store], object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store = open_store(str(tmp_path))
    store.write(PAIR, NAME, DATA)
    monkeypatch.setattr("time.monotonic", iter(range(0, 10**9, 1000)).__next__)
    with pytest.raises(PostTrouble, match="takes too long"):
        action(store)


@pytest.mark.parametrize("skipped", [False, True])
def test_a_listing_without_an_end_is_given_up(
    ssh: SshServer, monkeypatch: pytest.MonkeyPatch, *, skipped: bool
) -> None:
    """The writer of a folder may have filled it; but only a server has entries that the library skips."""

    def endless(files: paramiko.SFTPClient, _folder: str, read_aheads: int) -> Iterator[paramiko.SFTPAttributes]:
        while read_aheads:
            status = files.stat(".")
            if not skipped:
                yield status

    store = open_store(ssh.address)
    with monkeypatch.context() as patch:
        for module in ("sftp", "stores"):
            patch.setattr(f"likeset.transports.{module}.MOST_SECONDS", 0.2)
        patch.setattr("paramiko.SFTPAttributes.filename", "", raising=False)
        patch.setattr(paramiko.SFTPClient, "listdir_iter", endless)
        with pytest.raises(MailboxTrouble) as caught:
            store.list("e" * 32)
        assert isinstance(caught.value, PostTrouble) != skipped
    assert store.list("e" * 32) == []
    store.close()


def test_a_directory_in_the_place_of_a_letter_is_trouble_with_this_folder_only(ssh: SshServer) -> None:
    store, place = open_store(ssh.address), ssh.mailbox / ("d" * 32) / NAME
    place.mkdir(parents=True)
    with pytest.raises(PostTrouble, match="its server failed"):
        store.write(place.parent.name, NAME, DATA)
    with pytest.raises(PostTrouble, match="its server failed"):
        store.remove(place.parent.name, NAME)
    place.rmdir()
    store.close()
