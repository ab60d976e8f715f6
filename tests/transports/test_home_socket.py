"""The socket between NVFlare's process and a home's: who may speak, what a frame may be, who is back after a kill."""

import json
import os
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from engine_scenarios import PYTHONPATH, SCENARIOS, settle_sites
from letter_wire import SERVER, LetterWire
from protocol_world import CONSUMER

from likeset.errors import BadMessage, IllegalMessage, InvalidArgument, NoAnswer, NotCurated, RunCancelled
from likeset.homes.mail import Invitation
from likeset.protocol.party import CURATOR
from likeset.transports.home_socket.client import CuratorClient, HomeLine, SiteClient
from likeset.transports.home_socket.exposure import exposures
from likeset.transports.home_socket.frames import SocketLine, address_in
from likeset.transports.home_socket.home_settings import HomeSettings
from likeset.transports.home_socket.listening import HomeListener
from likeset.transports.home_socket.machine_users import SocketPeer
from likeset.transports.home_socket.verbs import HomeFailed, HomeRefused, Verb, error_in, error_parts
from likeset.transports.home_socket.worker import answer_line
from likeset.transports.site_reasons import REASONS_FILE
from likeset.transports.sites import file_of_invitation

pytestmark = pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="peers are known on Linux only")

OTHER = 54321  # a user who is nobody here
AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root can be two users")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Sites of a sealed run and of an interactive one."""
    settle_sites(tmp_path / "sites", [SCENARIOS["sealed"], SCENARIOS["interactive"]])
    return tmp_path / "sites"


def invited(folder: Path, run: str = "sealed") -> Invitation:
    return Invitation.read((folder / "invitations" / run).read_bytes())


def home_of(folder: Path, site: str, **changes: Any) -> HomeSettings:
    """The settings of a site's home, written there."""
    party = CURATOR if site == SERVER else site
    options = {"socket": folder / site / "home.sock", "nvflare_user": os.getuid(), "most_bytes": 1 << 22, **changes}
    home = HomeSettings(folder / site, "site_factory:seat", party, **options)
    home.write()
    return home


def reasons(folder: Path) -> list[str]:
    path = folder / REASONS_FILE
    return [json.loads(line)["reason"] for line in path.read_text().splitlines()] if path.exists() else []


class Listening:
    """A home that listens in a thread of this process; its answers come from processes of their own."""

    def __init__(self, home: HomeSettings, **options: Any) -> None:
        self.listener, self.stop = HomeListener(home, **options), threading.Event()
        ready = threading.Event()
        self._thread = threading.Thread(target=self.listener.serve, args=(self.stop, ready))
        self._thread.start()
        assert ready.wait(60)

    def end(self) -> None:
        self.stop.set()
        self._thread.join(60)


@pytest.fixture
def listen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Listening]]:
    """Makes homes listen, and stops them."""
    monkeypatch.setenv("PYTHONPATH", PYTHONPATH)
    made: list[Listening] = []

    def start(home: HomeSettings, **options: Any) -> Listening:
        made.append(Listening(home, **options))
        return made[-1]

    yield start
    for listening in made:
        listening.end()


MakeLine = Callable[..., HomeLine]


@pytest.fixture
def line_to() -> Iterator[MakeLine]:
    """Makes connections to homes, and hangs up."""
    made: list[HomeLine] = []

    def start(home: HomeSettings, invitation: Invitation, **options: Any) -> HomeLine:
        files = [(file_of_invitation(invitation.terms.digest), invitation.to_bytes())]
        made.append(HomeLine(home.socket, os.getuid(), files, **{"seconds_to_connect": 20.0, **options}))
        return made[-1]

    yield start
    for line in made:
        line.close()


def connected(home: HomeSettings) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with address_in(home.socket) as address:
        connection.connect(address)
    connection.settimeout(60.0)
    return connection


def spoken(home: HomeSettings, say: Callable[[socket.socket], object]) -> bytes:
    """All that a home answers to a peer that says something by hand, and then hangs up; one process, no socket file."""
    ours, theirs = socket.socketpair()
    answering = threading.Thread(target=answer_line, args=(home, SocketLine(theirs, seconds_of_a_frame=0.3)))
    answering.start()
    heard = b""
    with ours:
        say(ours)
        while data := ours.recv(1 << 16):
            heard += data
    answering.join(60)
    assert not answering.is_alive()
    return heard


def frame(*parts: bytes) -> bytes:
    from likeset.trust.cards import fields

    data = fields(*parts)
    return len(data).to_bytes(4, "big") + data


ABSTAINED = frame(b"word", b"abstains")
READY = frame(b"word", b"ready")


def job(invitation: Invitation) -> bytes:
    return frame(b"job", file_of_invitation(invitation.terms.digest).encode(), invitation.to_bytes())


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (frame(b"standing", b"ab"), "does not begin with a job"),
        (frame(b"pickle", b"ab"), "a verb that there is not"),
        (b"\xff\xff\xff\xff", "at most"),
        (b"\x00\x00\x00\x00", "empty frame"),
        (b"\x00\x00\x00\x04abcd", "cut off"),
        (b"\x00\x00\x10\x00half", "too slowly"),
        (b"\x00\x00", "too slowly"),
    ],
)
def test_what_is_no_request_ends_the_connection_and_is_written_down(folder: Path, said: bytes, reason: str) -> None:
    home = home_of(folder, "a")
    heard = spoken(home, lambda ours: ours.sendall(said))
    assert heard in (b"", ABSTAINED)
    assert len(reasons(folder / "a")) == 1
    assert reason in reasons(folder / "a")[0]


def test_a_frame_that_is_too_large_is_not_read(folder: Path) -> None:
    home = home_of(folder, "a", most_bytes=1000)
    large = (1000 + (1 << 20) + 1).to_bytes(4, "big")
    assert spoken(home, lambda ours: ours.sendall(job(invited(folder)) + large)) == READY + ABSTAINED
    assert "at most" in reasons(folder / "a")[-1]


@pytest.mark.parametrize(
    "said",
    [
        frame(b"standing"),
        frame(b"standing", b"ab"),
        frame(b"standing", b"\xff\xfe"),
        frame(b"hear", b"no letter"),
        frame(b"start", b"ab", b"x"),
        frame(b"take", b"ab", b"x"),
        frame(b"end", b"ab"),
        frame(b"job"),
        frame(b"refuse"),
    ],
)
def test_a_site_refuses_with_one_word_whatever_the_reason(folder: Path, said: bytes) -> None:
    home = home_of(folder, "a")

    def say(ours: socket.socket) -> None:
        ours.sendall(job(invited(folder)) + said)
        ours.shutdown(socket.SHUT_WR)

    assert spoken(home, say) == READY + ABSTAINED
    assert len(reasons(folder / "a")) == 1


def test_terms_that_cannot_be_used_are_written_down_at_the_home(folder: Path) -> None:
    home = home_of(folder, "a")

    def say(ours: socket.socket) -> None:
        ours.sendall(frame(b"job", b"invitation-x.bin", b"no terms") + frame(b"standing", b"ab"))
        ours.shutdown(socket.SHUT_WR)

    assert spoken(home, say) == READY + ABSTAINED
    assert "a job whose terms cannot be used" in reasons(folder / "a")[0]


def test_errors_of_a_curator_are_told_by_kind_and_no_text_but_one_written_for_others() -> None:
    assert isinstance(error_in(error_parts(BadMessage("row 17 holds 3"))), HomeRefused)
    told = error_in(error_parts(RuntimeError("row 17 holds 3")))
    assert isinstance(told, HomeFailed)
    assert told.kind == "RuntimeError"
    assert "row 17" not in b"".join(error_parts(RuntimeError("row 17 holds 3"))).decode()
    assert str(error_in(error_parts(NotCurated("no schema")))) == "no schema"


@pytest.mark.slow
def test_a_run_over_sockets_leaves_what_a_run_without_them_leaves(
    line_to: MakeLine, folder: Path, listen: Callable[..., Listening], tmp_path: Path
) -> None:
    """Owners, consumer and curator, each behind a socket."""
    invitation = invited(folder, "interactive")
    homes = {site: home_of(folder, site) for site in (SERVER, CONSUMER, "a", "b", "c")}
    serving = {site: listen(home) for site, home in homes.items()}
    wire = LetterWire(folder, invitation)
    wire.curator = CuratorClient.check(line_to(homes[SERVER], invitation), invitation.terms)  # type: ignore[assignment]
    clients = {
        name: SiteClient(line_to(homes[name], invitation), tmp_path / "notes")
        for name in (*invitation.terms.owners, CONSUMER)
    }
    wire.sites = clients  # type: ignore[assignment]
    pump = wire.run()
    assert wire.done
    assert pump.failures == {}
    assert wire.summary is not None
    assert (folder / "a" / f"{invitation.terms.run}.receipt").exists()
    assert reasons(tmp_path / "notes") == []
    assert serving.keys() == homes.keys()


@pytest.mark.slow
def test_a_home_that_was_killed_answers_again_over_a_new_connection(
    line_to: MakeLine, folder: Path, listen: Callable[..., Listening]
) -> None:
    invitation, home = invited(folder), home_of(folder, "a")
    listening = listen(home)
    client = SiteClient(line_to(home, invitation), folder / "notes")
    signed = client.standing(invitation.terms.digest)
    assert isinstance(signed, bytes)
    (worker,) = listening.listener._workers
    worker.kill()
    worker.wait()
    assert client.standing(invitation.terms.digest) == signed
    listening.end()
    again = listen(home)
    assert client.standing(invitation.terms.digest) == signed
    assert len(again.listener._workers) == 1
    assert reasons(folder / "notes") == []


@pytest.mark.slow
def test_a_curators_home_that_was_killed_in_a_run_ends_it_so_that_it_can_be_resumed_and_still_signs_receipts(
    line_to: MakeLine, folder: Path, listen: Callable[..., Listening]
) -> None:
    invitation, home = invited(folder), home_of(folder, SERVER)
    listening = listen(home)
    curator = CuratorClient.check(line_to(home, invitation), invitation.terms)
    assert curator.acceptance() == curator.acceptance()
    assert curator.waiting_for == frozenset()
    with pytest.raises(HomeRefused):
        curator.hear(b"no letter")
    listening.listener._workers[0].kill()
    with pytest.raises(RunCancelled):
        curator.hear(b"no letter")
    with pytest.raises(RunCancelled):
        _ = curator.waiting_for
    assert curator.end() == []


def test_a_home_hears_its_own_nvflare_user_alone_and_writes_down_who_else_came(
    folder: Path, listen: Callable[..., Listening]
) -> None:
    home = home_of(folder, "a")
    listening = listen(home, read_peer=lambda _: SocketPeer(1, OTHER, OTHER))
    for _ in range(3):
        with connected(home) as connection:
            assert connection.recv(1) == b""
    assert listening.listener._workers == []
    (reason,) = reasons(folder / "a")
    assert str(OTHER) in reason


def test_nvflare_speaks_to_the_homes_user_alone(
    line_to: MakeLine, folder: Path, listen: Callable[..., Listening]
) -> None:
    invitation, home = invited(folder), home_of(folder, "a")
    listen(home)
    line = line_to(home, invitation, read_peer=lambda _: SocketPeer(1, OTHER, OTHER))
    with pytest.raises(IllegalMessage, match=str(OTHER)):
        line.open()
    client = SiteClient(line, folder / "notes")
    assert client.standing(invitation.terms.digest) == "abstains"
    assert str(OTHER) in reasons(folder / "notes")[0]


def test_without_a_home_a_site_abstains_and_says_at_its_own_place_why(line_to: MakeLine, folder: Path) -> None:
    invitation, home = invited(folder), home_of(folder, "a")
    client = SiteClient(line_to(home, invitation, seconds_to_connect=0.0), folder / "notes")
    assert client.hear(b"x") == client.start("ab", []) == client.standing("ab") == client.refuse_caller() == "abstains"
    assert "site serve" in reasons(folder / "notes")[0]


def test_a_home_that_does_not_answer_in_time_is_not_waited_for(line_to: MakeLine, folder: Path) -> None:
    invitation, home = invited(folder), home_of(folder, "a")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as mute:
        with address_in(home.socket) as address:
            mute.bind(address)
        mute.listen()
        line = line_to(home, invitation, seconds_to_connect=0.0, seconds_for_answer=0.1)
        with pytest.raises(NoAnswer):
            line.ask(Verb.STANDING, b"ab")


@pytest.mark.slow
def test_several_jobs_at_once_and_no_more_than_there_may_be(
    line_to: MakeLine, folder: Path, listen: Callable[..., Listening]
) -> None:
    invitation, home = invited(folder), home_of(folder, "a")
    listening = listen(home, most_connections=2)
    lines = [line_to(home, invitation) for _ in range(2)]
    for line in lines:
        assert line.ask(Verb.STANDING, invitation.terms.digest.encode())[0] == b"signed"
    third = line_to(home, invitation, seconds_to_connect=0.5)
    with pytest.raises(NoAnswer):
        third.open()
    assert len(listening.listener._workers) == 2
    lines[0].close()
    third.seconds_to_connect = 60.0
    third.open()


def test_one_process_serves_a_home_and_only_its_own_user_can_reach_the_socket(
    folder: Path, listen: Callable[..., Listening]
) -> None:
    home = home_of(folder, "a")
    listen(home)
    assert home.socket.stat().st_mode & 0o777 == 0o600
    with pytest.raises(InvalidArgument, match="another process"):
        HomeListener(home).serve(threading.Event())


def test_a_socket_is_put_only_where_nobody_else_could_put_another(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    home = home_of(folder, "a", socket=tmp_path / "open" / "home.sock")
    with pytest.raises(InvalidArgument, match="install -d"):
        HomeListener(home).serve(threading.Event())
    inside = home_of(folder, "a", nvflare_user=OTHER)
    with pytest.raises(InvalidArgument, match="in the home"):
        HomeListener(inside).serve(threading.Event())
    (tmp_path / "file.sock").write_text("x")
    with pytest.raises(InvalidArgument, match="something else"):
        HomeListener(home_of(folder, "a", socket=tmp_path / "file.sock")).serve(threading.Event())


def _as_user(uid: int, home: HomeSettings, said: bytes) -> bytes | None:
    """What a process of another user hears; None if it cannot even connect."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            with connected(home) as connection:
                if said:
                    connection.sendall(said)
                os.write(writing, b"+" + connection.recv(100))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        heard = pipe.read()
    os.waitpid(child, 0)
    return heard[1:] if heard else None


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that every user of the machine can reach; pytest's own are for one user."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o711)
        yield Path(name)


@AS_ROOT
def test_of_two_real_users_only_nvflares_is_heard(
    folder: Path, reachable: Path, listen: Callable[..., Listening]
) -> None:
    home = home_of(folder, "a", socket=reachable / "run" / "home.sock", nvflare_user=OTHER)
    listen(home)
    assert home.socket.parent.stat().st_mode & 0o777 == 0o710
    assert _as_user(OTHER, home, job(invited(folder))) == READY
    assert _as_user(OTHER + 1, home, job(invited(folder))) is None
    home.socket.parent.chmod(0o711)
    home.socket.chmod(0o666)
    assert _as_user(OTHER + 1, home, b"") == b""
    assert str(OTHER + 1) in reasons(folder / "a")[-1]


def _kit(place: Path, home: HomeSettings, uid: int) -> Path:
    kit = place / "kits" / "a"
    (kit / "startup").mkdir(parents=True)
    (kit / "local").mkdir()
    settings = {"socket": str(home.socket), "home_user": os.getuid()}
    (kit / "local" / "likeset_site.json").write_text(json.dumps(settings))
    (place / "kits" / "b" / "startup").mkdir(parents=True)
    (place / "kits" / "b" / "startup" / "client.key").write_text("key")
    os.chown(kit, uid, uid)
    return kit


@AS_ROOT
@pytest.mark.parametrize("tried", [True, False], ids=["tried", "by modes"])
def test_the_check_says_what_nvflares_user_could_read(
    reachable: Path, listen: Callable[..., Listening], monkeypatch: pytest.MonkeyPatch, tried: bool
) -> None:
    settle_sites(reachable / "sites", [SCENARIOS["sealed"]])
    (reachable / "sites" / "a").chmod(0o700)
    home = home_of(reachable / "sites", "a", socket=reachable / "run" / "home.sock", nvflare_user=OTHER)
    kit = _kit(reachable, home, OTHER)
    key = reachable / "kits" / "b" / "startup" / "client.key"
    key.chmod(0o600)
    listen(home)
    if not tried:
        monkeypatch.setattr(os, "geteuid", lambda: 1)

    def wrong() -> list[str]:
        return [exposure.what for exposure in exposures(kit, home.folder) if not exposure.ok]

    assert wrong() == []
    key.chmod(0o644)
    assert wrong() == ["other kits"]
    key.chmod(0o600)
    home.folder.chmod(0o755)
    assert wrong() == ["home"]
    (home.folder / "card.secret").chmod(0o644)
    assert "card.secret" in next(found.words for found in exposures(kit, home.folder) if found.what == "home")
    home.folder.chmod(0o700)
    home.socket.chmod(0o600)
    assert wrong() == ["socket"]
    home.socket.chmod(0o660)
    os.chown(kit, os.getuid(), os.getgid())
    assert "users" in wrong()
