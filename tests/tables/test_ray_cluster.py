"""Who connects to a Ray cluster, who ends it, and what is said when there is none; Ray itself is played here."""

import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from likeset.errors import InvalidArgument
from likeset.tables import ray_scan
from likeset.tables.ray_scan import ray_cluster


class RayError(Exception):
    """As Ray's own."""


class GetTimeoutError(RayError):
    """As Ray's own."""


class PlayedRay:
    """Connects and disconnects as Ray does: one connection for the process, two at once never work."""

    exceptions = SimpleNamespace(RayError=RayError, GetTimeoutError=GetTimeoutError)

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.given: dict[str, Any] = {}
        self.fails: BaseException | None = None
        self.answer: Callable[[], str] = ray_scan._version

    def init(self, **given: Any) -> None:
        self.calls.append("init")
        self.given = given
        if self.fails is not None:
            raise self.fails

    def shutdown(self) -> None:
        self.calls.append("shutdown")

    def remote(self, **_: Any) -> Callable[[object], Any]:
        return lambda _: SimpleNamespace(remote=lambda: None)

    def get(self, _: object, timeout: float) -> str:
        assert timeout > 0.0
        return self.answer()


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[PlayedRay]:
    played = PlayedRay()
    monkeypatch.setitem(sys.modules, "ray", played)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    yield played
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def address() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def connect(place: str | None = None) -> None:
    with ray_cluster(place):
        pass


def test_without_an_address_one_is_started_in_a_private_folder(ray: PlayedRay, tmp_path: Path) -> None:
    with ray_cluster(workers=3):
        (folder,) = tmp_path.iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
        assert ray.given["_temp_dir"] == str(folder)
        assert (ray.given["address"], ray.given["num_cpus"]) == ("local", 3)


@pytest.mark.parametrize("given", [True, False], ids=["as an address", "by RAY_ADDRESS"])
def test_a_cluster_that_runs_is_joined(
    given: bool, ray: PlayedRay, address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if not given:
        monkeypatch.setenv("RAY_ADDRESS", address)
    with ray_cluster(address if given else None):
        assert ray.given["address"] == address
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "error", [OSError("AF_UNIX path length: /tmp/x"), RuntimeError("Version"), ImportError("grpc")]
)
@pytest.mark.parametrize("joined", [False, True])
def test_a_cluster_that_does_not_start_or_cannot_be_joined_is_told_in_our_words(
    ray: PlayedRay, address: str, error: Exception, joined: bool
) -> None:
    ray.fails = error
    with pytest.raises(InvalidArgument, match="RAY_AUTH_TOKEN" if joined else "RAY_TMPDIR") as caught:
        connect(address if joined else None)
    assert caught.value.value == (f"ray:{address}" if joined else "ray")
    assert type(error).__name__ in caught.value.reason
    assert str(error) not in str(caught.value)
    assert ray.calls == ["init", "shutdown"]


@pytest.mark.parametrize("error", [GetTimeoutError(), RayError(), None])
def test_workers_without_the_same_likeset_are_found_before_a_pass(
    ray: PlayedRay, address: str, error: Exception | None
) -> None:
    def answer() -> str:
        if error is not None:
            raise error
        return "0.0"

    ray.answer = answer
    with pytest.raises(InvalidArgument, match=r"^scan"):
        connect(address)
    assert ray.calls == ["init", "shutdown"]


@pytest.mark.parametrize("address", ["127.0.0.1:port", "127.0.0.1:99999", "ray://127.0.0.1:x"])
def test_an_address_where_nobody_can_be_is_refused_without_ray(ray: PlayedRay, address: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^scan"):
        connect(address)
    assert ray.calls == []


def test_a_folder_that_cannot_be_used_is_named(ray: PlayedRay, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path / "absent"))
    with pytest.raises(InvalidArgument, match=r"RAY_TMPDIR.*absent"):
        connect()
    assert ray.calls == []
