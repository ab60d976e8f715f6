"""Several owners whose passes share a Ray cluster that runs: the rows of ``--scan local``, and it goes on running."""

import importlib.util
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import stop_driver

import job_world
from job_world import World

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed"),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are listed on Linux only"),
]

_NOTHING = ("likeset.run.here.run_job", 1, 0)  # signal 0 is none
_SECONDS = 1200.0  # until something must have happened, however busy the machine is


@dataclass(frozen=True)
class Ended:
    code: int
    said: str
    left: list[int]


def processes(session: int) -> list[int]:
    """Those of a session, whoever their parents are now; dead ones that nobody asked for do not count."""
    alive = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[3]) == session and words[0] != "Z":
            alive.append(int(stat.parent.name))
    return alive


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where Ray may write; its sockets want short names."""
    place = Path(tempfile.mkdtemp(prefix="t-", dir="/tmp"))
    yield place
    shutil.rmtree(place)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World.make(tmp_path_factory.mktemp("market"))


@pytest.fixture(scope="module")
def local(world: World) -> Path:
    out = world.folder / "local"
    assert job_world.call("match", options(world, out)) == 0
    return out


def options(world: World, out: Path, **more: Any) -> dict[str, Any]:
    return world.options(out=out, noise="simulated", seed=5, **more)


def match(
    given: Mapping[str, Any],
    folder: Path,
    *,
    stop: tuple[str, int, int] = _NOTHING,
    environment: Mapping[str, str] | None = None,
) -> Ended:
    """``likeset match`` in a session of its own, with the signal of ``stop`` at its place."""
    program = [sys.executable, str(Path(stop_driver.__file__)), *map(str, stop)]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    with subprocess.Popen(  # noqa: S603 - our own interpreter and arguments
        [*program, *job_world.arguments("match", given)],
        env={**inherited, "RAY_TMPDIR": str(folder), "OPENBLAS_NUM_THREADS": "1", **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=_SECONDS)
            return Ended(process.returncode, said, processes(process.pid))
        finally:
            end(process.pid)


def end(session: int) -> None:
    for process in processes(session):
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue


def check_same(out: Path, local: Path) -> None:
    assert pq.read_table(out / "summary.parquet").equals(pq.read_table(local / "summary.parquet"))
    assert (out / "terms.yaml").read_bytes() == (local / "terms.yaml").read_bytes()


@dataclass(frozen=True)
class Cluster:
    address: str
    access: Mapping[str, str]  # what a program needs to enter it
    head: int


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One that somebody else started, with a token: no other user of this machine can enter it."""
    theirs = Path(tempfile.mkdtemp(prefix="r-", dir="/tmp"))
    access = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    command = [
        *(str(Path(sys.executable).with_name("ray")), "start", "--head", "--block", "--port=0", "--num-cpus=2"),
        *("--include-dashboard=false", "--disable-usage-stats"),
        *("--dashboard-agent-listen-port=0", f"--temp-dir={theirs}", f"--object-store-memory={100 << 20}"),
    ]
    head = subprocess.Popen(  # noqa: S603 - our own arguments
        command,
        env={**os.environ, **access},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield Cluster(_address_of(theirs, head), access, head.pid)
        assert head.poll() is None
    finally:
        end(head.pid)
        head.wait()
        shutil.rmtree(theirs)


@pytest.mark.parametrize(
    "place",
    ["ray.shutdown", "likeset.protocol.sealed.draw_offer"],
    ids=["while the connection ends", "during an owner's pass"],
)
def test_nothing_is_left_after_ctrl_c(
    place: str, world: World, local: Path, cluster: Cluster, folder: Path, tmp_path: Path
) -> None:
    out, environment = tmp_path / "out", {**cluster.access, "RAY_ADDRESS": cluster.address}
    given = options(world, out, scan="ray", workers=2)
    ended = match(given, folder, stop=(place, 1, int(signal.SIGINT)), environment=environment)
    assert ended.code == 130, ended.said
    assert "Traceback" not in ended.said
    assert ended.left == []
    assert list(folder.iterdir()) == []
    if not out.exists():
        assert "go on with --resume" in ended.said
        ended = match(given | {"resume": True}, folder, environment=environment)
        assert ended.code == 0, ended.said
    check_same(out, local)


def test_a_cluster_that_somebody_else_started_is_used_and_left_running(
    world: World, local: Path, cluster: Cluster, folder: Path, tmp_path: Path
) -> None:
    """Given as an address, and by ``RAY_ADDRESS``: the second run finds it where the first has left it."""
    address, access, before = cluster.address, cluster.access, set(processes(cluster.head))
    for name, scan, more in [("given", f"ray:{address}", {}), ("named", "ray", {"RAY_ADDRESS": address})]:
        out = tmp_path / name
        ended = match(options(world, out, scan=scan), folder, environment={**access, **more})
        assert ended.code == 0, ended.said
        check_same(out, local)
        assert ended.left == []
        assert list(folder.iterdir()) == []
    assert {process for process in before if Path(f"/proc/{process}").exists()} == before
    refused = match(options(world, tmp_path / "out", scan=f"ray:{address}"), folder)
    assert refused.code == 2
    assert "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN" in refused.said


def _address_of(theirs: Path, head: "subprocess.Popen[bytes]") -> str:
    """Ray writes it down where others can find it."""
    limit, place = time.monotonic() + _SECONDS, theirs / "ray_current_cluster"
    while time.monotonic() < limit and head.poll() is None:
        if place.exists() and (address := place.read_text()):
            return address
        time.sleep(0.2)
    raise AssertionError("Ray did not start")
