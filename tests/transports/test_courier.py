"""NVFlare as a courier: the home's store, the site's files, the server's routes, the settings of a kit."""

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("nvflare", reason="needs likeset[nvflare]")

from likeset.app.cli import app
from likeset.errors import InvalidArgument, MailboxTrouble, NoAnswer
from likeset.transports import nvflare
from likeset.transports.nvflare import CLASSES, Router, SiteFiles, folder_in, make_folder, settle
from likeset.transports.stores import Store, open_store

PAIR, OTHER = "a" * 32, "b" * 32
DATA = b"a sealed letter"
NAME = hashlib.sha256(DATA).hexdigest()


@dataclass
class Network:
    """Sites in this process; the server reaches them by calls, which are kept. Its clock stands still by itself."""

    folder: Path
    seconds: float = 1000.0
    sites: dict[str, SiteFiles] = field(default_factory=dict)
    calls: list[tuple[str, str, Any]] = field(default_factory=list)
    woken: list[str] = field(default_factory=list)
    answers: dict[str, Callable[[str, Any], object]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.router = Router(self.call, self.woken.append, clock=lambda: self.seconds)

    def add(self, *names: str) -> None:
        for name in names:
            make_folder(self.folder / name, home_uid=os.getuid(), nvflare_uid=os.getuid())
            self.sites[name] = SiteFiles(self.folder / name)

    def store(self, name: str) -> Store:
        return open_store(f"courier://{self.folder / name}")

    def call(self, site: str, topic: str, request: object, _seconds: float) -> object:
        self.calls.append((site, topic, request))
        if site in self.answers:
            return self.answers[site](topic, request)
        return self.sites[site].answer(topic, request)

    def update(self, *names: str) -> None:
        for name in names:
            self.router.update(name)

    def given(self) -> list[str]:
        return [site for site, topic, _ in self.calls if topic == "give"]


@pytest.fixture
def network(tmp_path: Path) -> Network:
    made = Network(tmp_path)
    made.add("a", "b", "c")
    return made


def test_a_letter_comes_to_whoever_reads_its_folder_and_to_nobody_else(network: Network) -> None:
    assert network.store("b").list(PAIR) == []
    assert network.store("c").list(OTHER) == []
    network.store("a").write(PAIR, NAME, DATA)
    network.update("a", "b", "c")
    assert network.store("b").read(PAIR, NAME, most_bytes=100) == DATA
    assert not any((network.folder / "c" / "in").iterdir())
    network.store("a").remove(PAIR, NAME)
    network.update("a", "b", "c")
    assert network.store("b").list(PAIR) == []


def test_a_site_is_updated_without_a_listing_when_nothing_changed_and_readers_are_woken(network: Network) -> None:
    network.store("b").list(PAIR)
    network.update("a", "b")
    assert not network.router.update("a")
    network.store("a").write(PAIR, NAME, DATA)
    assert network.router.update("a")
    assert network.woken == ["b"]
    assert network.router.update("b")


def test_what_came_stays_while_its_writer_is_not_connected(network: Network) -> None:
    network.store("b").list(PAIR)
    network.store("a").write(PAIR, NAME, DATA)
    network.update("a", "b")
    network.router.forget("a")
    network.update("b")
    assert [file.name for file in network.store("b").list(PAIR)] == [NAME]
    network.update("a", "b")
    assert network.given() == ["a"], "it is not carried twice"


def test_a_file_that_vanished_or_is_too_large_is_not_carried(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    network.store("b").list(PAIR)
    network.store("a").write(PAIR, NAME, DATA)
    network.update("a")
    network.store("a").remove(PAIR, NAME)  # after it was listed
    network.update("b", "b")
    assert network.given() == ["a"], "it is not asked for at each update"
    monkeypatch.setattr(nvflare, "MOST_FILE_BYTES", len(DATA) - 1)
    network.store("a").write(PAIR, "0" * 64, DATA)
    network.update("a", "b")
    assert network.given() == ["a"]
    assert network.store("b").list(PAIR) == []


def test_a_site_that_does_not_answer_or_lies_disturbs_no_other(network: Network) -> None:
    def silent(topic: str, _request: object) -> object:
        raise NoAnswer(topic)

    network.store("b").list(PAIR)
    network.store("b").list(OTHER)
    network.store("a").write(PAIR, NAME, DATA)
    network.store("c").write(OTHER, NAME, DATA)
    network.update("a", "c")
    network.answers["c"] = silent
    network.update("b")
    assert network.store("b").read(PAIR, NAME, most_bytes=100) == DATA
    assert network.store("b").list(OTHER) == []
    del network.answers["c"]
    network.update("c", "b")
    assert network.store("b").read(OTHER, NAME, most_bytes=100) == DATA


def test_a_silent_site_takes_little_time_of_its_reader(network: Network) -> None:
    """It lists large files, and gives none."""

    def silent(topic: str, request: object) -> object:
        if topic != "give":
            return network.sites["a"].answer(topic, request)
        network.seconds += 10
        raise NoAnswer(topic)

    network.store("b").list(PAIR)
    for number in range(5):
        network.store("a").write(PAIR, f"{number:064x}", DATA)
    network.answers["a"] = silent
    for _ in range(10):
        network.update("a", "b")
        network.seconds += 1
    assert network.seconds < 1030
    del network.answers["a"]
    network.seconds += 100
    network.update("a", "b")
    assert len(network.store("b").list(PAIR)) == 5


ODD_VIEWS: list[object] = [
    None,
    "files",
    {"digest": "x", "offered": {"../../etc": {}}, "wanted": {}},
    {"digest": "x", "offered": {PAIR: {"../passwd": 1}}, "wanted": {}},
    {"digest": "x", "offered": {PAIR: {NAME: -1}}, "wanted": {}},
    {"digest": "x", "offered": {}, "wanted": {PAIR: ["../passwd"]}},
    {"digest": "x", "offered": {}, "wanted": {"wanted": []}},
]


@pytest.mark.parametrize("view", ODD_VIEWS)
def test_a_listing_of_another_form_is_no_answer(network: Network, view: object) -> None:
    network.answers["a"] = lambda *_: view
    with pytest.raises(NoAnswer):
        network.router.update("a")


@pytest.mark.parametrize(
    ("topic", "request_"),
    [
        ("give", ["../in", NAME]),
        ("give", [PAIR, "../../in/x"]),
        ("take", [PAIR, "../../out/x", DATA]),
        ("take", ["wanted", NAME, DATA]),
        ("drop", [PAIR, ".."]),
        ("look", None),
        ("shell", ["cat", "x"]),
    ],
)
def test_a_site_opens_no_other_names(network: Network, topic: str, request_: object) -> None:
    network.store("a").list(PAIR)
    before = sorted(path for path in network.folder.rglob("*"))
    with contextlib.suppress(InvalidArgument):
        assert network.sites["a"].answer(topic, request_) is False
    assert sorted(path for path in network.folder.rglob("*")) == before


def test_a_site_takes_only_what_its_home_wants_and_has_room_for(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = network.sites["a"]
    assert site.answer("take", [PAIR, NAME, DATA]) is False
    network.store("a").list(PAIR)
    monkeypatch.setattr(nvflare, "MOST_STORED_BYTES", nvflare.SPACE_OF_A_FILE)
    assert site.answer("take", [PAIR, NAME, DATA]) is True
    assert site.answer("take", [PAIR, "0" * 64, DATA]) is False
    assert site.answer("give", [PAIR, NAME]) == [], "what came is given to nobody"


def test_small_files_and_long_listings_do_not_fill_a_sites_disk(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hostile server writes files that no listing shows, and empty ones."""
    site = network.sites["a"]
    network.store("a").list(PAIR)
    monkeypatch.setattr(nvflare, "MOST_STORED_BYTES", 10 * nvflare.SPACE_OF_A_FILE)
    monkeypatch.setattr("likeset.transports.stores.MOST_LISTED", 3)
    for number in (*[0] * 20, *range(30)):
        site.answer("take", [PAIR, f"{number:064x}", b""])
        site.answer("look", "")
    assert len(list((network.folder / "a" / "in" / PAIR).iterdir())) == 10
    assert SiteFiles(network.folder / "a").answer("take", [PAIR, "f" * 64, b""]) is False
    assert site.answer("drop", [PAIR, "0" * 64]) is True
    assert site.answer("take", [PAIR, "f" * 64, b""]) is True


def test_no_link_is_followed_out_of_the_courier(network: Network, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / NAME).write_bytes(b"rows")
    (tmp_path / "a" / "out" / PAIR).symlink_to(secret)
    (tmp_path / "a" / "out" / OTHER).mkdir()
    (tmp_path / "a" / "out" / OTHER / NAME).symlink_to(secret / NAME)
    assert network.sites["a"].answer("give", [PAIR, NAME]) == []
    assert network.sites["a"].answer("give", [OTHER, NAME]) == []
    (tmp_path / "b" / "in" / PAIR).symlink_to(secret)
    store = network.store("b")
    with contextlib.suppress(MailboxTrouble):
        assert not any(b"rows" in store.read(PAIR, file.name, most_bytes=100) for file in store.list(PAIR))


def make_kit(folder: Path, *, server: bool = False) -> Path:
    for part in ("startup", "local"):
        (folder / part).mkdir(parents=True)
    if server:
        (folder / "startup" / "fed_server.json").write_text("{}")
    parts = [{"id": "log_streamer", "path": "x.JobLogStreamer"}, {"id": "other", "path": "nvflare.Other"}]
    storage = {"id": "job_manager", "args": {"uri_root": "/tmp/nvflare/jobs-storage"}}  # noqa: S108
    text = json.dumps({"components": [*parts, storage], "allow_log_streaming": True})
    (folder / "local" / "resources.json.default").write_text(text)
    return folder


@pytest.mark.parametrize("server", [False, True])
def test_a_settled_kit_is_a_courier_and_nothing_else(tmp_path: Path, server: bool) -> None:
    kit = make_kit(tmp_path / "kit", server=server)
    for _ in range(2):
        settle(kit, None if server else tmp_path / "folder")
    resources = json.loads((kit / "local" / "resources.json").read_text())
    assert resources["class_allow_list"] == list(CLASSES)
    assert resources["class_list_enforcement_mode"] == "enforce"
    assert resources["allow_log_streaming"] is False
    first, *others = resources["components"]
    assert first["path"] == CLASSES[0 if server else 1]
    assert [one["id"] for one in others] == ["other", "job_manager"]
    assert str(kit) in others[1]["args"]["uri_root"], "NVFlare's own default is a folder for all users"
    roles = json.loads((kit / "local" / "authorization.json").read_text())["permissions"]
    for rights in roles.values():
        assert {rights[right] for right in ("submit_job", "byoc", "shell_commands", "download_job")} == {"none"}
    assert json.loads((kit / "comm_config.json").read_text())["streaming_max_blob_size"] > nvflare.MOST_FILE_BYTES
    if not server:
        assert folder_in(kit) == tmp_path / "folder"


def said(*words: object) -> Any:
    result = CliRunner().invoke(app, ["courier", *map(str, words), "--json"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, json.loads(result.stdout)


def test_a_check_says_that_one_user_is_not_two(tmp_path: Path) -> None:
    kit, home = make_kit(tmp_path / "kit"), tmp_path / "home"
    home.mkdir(mode=0o700)
    code, told = said("settle", kit, "--folder", tmp_path / "folder", "--home", home)
    assert (code, told["mailbox"]) == (0, f"courier://{tmp_path}/folder")
    code, told = said("check", kit, "--home", home)
    assert code == 1
    assert next(one["ok"] for one in told if one["check"] == "users") is False


@pytest.fixture
def two_users() -> Iterator[tuple[Path, Path, Path]]:
    """A kit of one user, the home of another, and a folder that is not there yet."""
    if os.geteuid() != 0:
        pytest.skip("gives files to two users")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:  # which these users can reach
        Path(place).chmod(0o711)
        kit, home = make_kit(Path(place) / "kit"), Path(place) / "home"
        home.mkdir(mode=0o700)
        (home / "card.secret").write_text("{}")
        for path in (kit, *kit.rglob("*")):
            os.chown(path, 4001, 4001)
        for path in (home, *home.iterdir()):
            os.chown(path, 4002, 4002)
        yield kit, home, Path(place) / "folder"


def test_links_in_a_kit_lead_root_nowhere(two_users: tuple[Path, Path, Path]) -> None:
    """Whoever got into NVFlare's user waits for root to settle the kit again."""
    kit, home, folder = two_users
    (kit / "local" / "resources.json").symlink_to(home / "card.secret")
    with pytest.raises(InvalidArgument, match=r"^KIT"):
        said("settle", kit, "--folder", folder, "--home", home)
    (kit / "local").rename(kit / "before")
    (kit / "local").symlink_to(home)
    with pytest.raises(InvalidArgument, match=r"^KIT"):
        said("settle", kit, "--folder", folder, "--home", home)
    assert os.geteuid() == 0
    assert [path.name for path in home.iterdir()] == ["card.secret"]
    assert (home / "card.secret").read_text() == "{}"
    assert (home / "card.secret").stat().st_uid == 4002


def test_links_in_place_of_a_couriers_folder_lead_root_nowhere(two_users: tuple[Path, Path, Path]) -> None:
    kit, home, folder = two_users
    folder.mkdir()
    (folder / "in").symlink_to(home)
    os.chown(folder, 4001, 4001)
    (folder.parent / "link").symlink_to(folder)
    for named in (folder, folder.parent / "link"):
        with pytest.raises(InvalidArgument, match=r"--folder"):
            said("settle", kit, "--folder", named, "--home", home)
    assert home.stat().st_uid == 4002


def test_two_users_are_kept_apart_by_owners_and_modes(two_users: tuple[Path, Path, Path]) -> None:
    kit, home, folder = two_users
    assert said("settle", kit, "--folder", folder, "--home", home)[0] == 0
    assert (kit / "local" / "resources.json").stat().st_uid == 4001
    assert said("check", kit, "--home", home)[0] == 0
    assert (folder / "out").stat().st_uid == 4002
    assert (folder / "in").stat().st_uid == 4001
    for path, mode, name in (
        (home, 0o755, "home"),
        (folder / "out", 0o2770, "out: modes"),
        (folder / "in", 0o700, "in: reader"),
    ):
        before = path.stat().st_mode & 0o7777
        path.chmod(mode)
        code, told = said("check", kit, "--home", home)
        assert (code, [one["check"] for one in told if not one["ok"]]) == (1, [name])
        path.chmod(before)
