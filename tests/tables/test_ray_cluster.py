"""Connecting to a Ray cluster that runs, and what is said when there is none; Ray itself is played here."""

import socket
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from likeset.errors import InvalidArgument
from likeset.tables import ray_scan
from likeset.tables.ray_scan import ray_cluster
from likeset.tables.scan import scan_factory


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
def ray(monkeypatch: pytest.MonkeyPatch) -> PlayedRay:
    played = PlayedRay()
    monkeypatch.setitem(sys.modules, "ray", played)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return played


@pytest.fixture
def address() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def connect(place: str) -> None:
    with ray_cluster(place):
        pass


@pytest.mark.parametrize(("scan", "named"), [("ray", None), ("ray", "local"), ("ray:local", None), ("ray", "")])
def test_no_cluster_is_started(scan: str, named: str | None, ray: PlayedRay, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that likeset started ran programs of every user of the machine."""
    if named is not None:
        monkeypatch.setenv("RAY_ADDRESS", named)
    with pytest.raises(InvalidArgument, match="names no cluster"):
        scan_factory(scan).__enter__()
    assert ray.calls == []


@pytest.mark.parametrize("given", [True, False], ids=["as an address", "by RAY_ADDRESS"])
def test_a_cluster_that_runs_is_joined(
    given: bool, ray: PlayedRay, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not given:
        monkeypatch.setenv("RAY_ADDRESS", address)
    with ray_cluster(address if given else None):
        assert ray.given["address"] == address
        assert ray.calls == ["init"]
    assert ray.calls == ["init", "shutdown"]


@pytest.mark.parametrize(
    "error", [OSError("AF_UNIX path length: /tmp/x"), RuntimeError("Version"), ImportError("grpc")]
)
def test_a_cluster_that_cannot_be_joined_is_told_in_our_words(ray: PlayedRay, address: str, error: Exception) -> None:
    ray.fails = error
    with pytest.raises(InvalidArgument, match="RAY_AUTH_TOKEN") as caught:
        connect(address)
    assert caught.value.value == f"ray:{address}"
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


@pytest.mark.parametrize("address", ["127.0.0.1:port", "127.0.0.1:99999", "ray://127.0.0.1:x", "auto", "ray://"])
def test_an_address_where_nobody_can_be_is_refused_without_ray(ray: PlayedRay, address: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^scan"):
        connect(address)
    assert ray.calls == []
