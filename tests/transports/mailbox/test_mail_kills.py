"""Consumer, curator and owners of runs by mailbox are killed wherever they write, and at random; each run has its end.

12 random kills by default; ``LIKESET_MAIL_KILLS`` asks for more, and then also for kills at each statement of each
database. ``LIKESET_SEED`` asks for others; the seed of a failure is in what it prints, and repeats it (kills after some
time as far as processes keep their pace).
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mail_servers import SshServer, ssh_server

from chance import SEED

pytestmark = [pytest.mark.slow, pytest.mark.soak, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")]

HERE = Path(__file__).parent
_FLOORS = [HERE.parents[1] / floor for floor in ("trust", "protocol", "homes")]
KILLS = int(os.environ.get("LIKESET_MAIL_KILLS", "12"))
PLACES = "statements" if "LIKESET_MAIL_KILLS" in os.environ else "places"
RANDOM = (("sealed", "sftp"), ("threshold", "directory"), ("rounds-of-releases", "directory"))
ROLES = {"new-clinic", "curator", "owner"}


@pytest.fixture(scope="module")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    with ssh_server(tmp_path_factory.mktemp("ssh")) as server:
        yield server


def driven(folder: Path, kind: str, how: str, server: SshServer | None = None) -> dict[str, Any]:
    """What the program says that kills."""
    mailboxes, world = folder / "mailboxes", folder / kind
    world.mkdir()
    mailboxes.mkdir()
    address, place = str(mailboxes), mailboxes
    if server is not None:  # which other tests use, too
        address, place = f"{server.address}/{folder.name}", server.mailbox / folder.name
        place.mkdir()
    paths = os.pathsep.join(map(str, [*_FLOORS, os.environ["PYTHONPATH"]]))
    more = {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": paths, **(server.environment if server is not None else {})}
    result = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, str(HERE / "mail_kill_driver.py"), str(world), kind, address, str(place), how],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | more,
        timeout=1800 + 30 * KILLS,
    )
    assert result.returncode == 0, f"{how}: {result.stderr[-3000:]}"
    sys.stdout.write(result.stdout)  # how often each end was; `make soak` shows it
    said: dict[str, Any] = json.loads(result.stdout)
    assert said["bad"] == [], how
    return said


@pytest.mark.parametrize("kind", ["sealed", "threshold"])
def test_whoever_is_killed_where_it_writes_goes_on_and_the_run_ends_as_if_nobody_had_been(
    tmp_path: Path, kind: str
) -> None:
    """Only who is killed between a charge and its draw cannot go on, and the run ends with that reason."""
    said = driven(tmp_path, kind, PLACES)
    assert set(said["killed"]) == ROLES
    assert min(said["killed"].values()) > 30, "there are many places where each of them writes"
    assert said["ends"]["done"] == 1
    # After the charge is on the disk, and before what was drawn is: the consumer, and the curator where it draws.
    draws = {"sealed": 1, "threshold": 2}[kind]
    assert said["ends"]["unfinished"] >= 2 * draws


def test_whoever_is_killed_while_it_speaks_with_a_server_goes_on(tmp_path: Path, ssh: SshServer) -> None:
    said = driven(tmp_path, "sealed", f"{PLACES}:sftp", ssh)
    assert set(said["killed"]) == ROLES
    assert min(said["killed"].values()) > 8
    assert said["ends"] == {"done": 1}


@pytest.mark.parametrize(("kind", "where"), RANDOM)
def test_whoever_is_killed_at_random_goes_on_or_says_why_not(
    tmp_path: Path, request: pytest.FixtureRequest, kind: str, where: str
) -> None:
    kills = -(-KILLS // len(RANDOM))
    said = driven(tmp_path, kind, f"{kills}:{SEED}", request.getfixturevalue("ssh") if where == "sftp" else None)
    assert sum(said["killed"].values()) >= kills
    assert set(said["ends"]) <= {"done", "unfinished"}
    assert said["ends"]["done"] > 0
