"""The pass on a Ray cluster: the same draw as in memory, whatever happens to the workers."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scan_world import spoil, table, write

from likeset.errors import InvalidArgument
from likeset.tables.ray_scan import import_ray
from likeset.tables.scan import SourceScan, scan_factory

_HAS_RAY = importlib.util.find_spec("ray") is not None
needs_ray = pytest.mark.skipif(not _HAS_RAY, reason="Ray is not installed: pip install 'likeset[ray]'")
_LOOPBACK = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What came of one program on one cluster of two workers."""
    work = tmp_path_factory.mktemp("ray")
    rows = table(9_000)
    place = write(work / "rows", rows, [1_500, 700, 2_300, 4_500])
    broken = write(work / "broken", rows, [1_500, 700, 2_300, 4_500])
    for file, row in ((1, 650), (3, 20)):
        spoil(broken, file, row, group=500)
    program = Path(__file__).parent / "ray_trial.py"
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, str(program), str(place), str(broken), str(work)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "RAY_TMPDIR": "/tmp", "OPENBLAS_NUM_THREADS": "1"},  # noqa: S108 - sockets have short names
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.mark.soak
@needs_ray
def test_units_of_any_size_give_the_draw_from_memory(trial: dict[str, Any]) -> None:
    """The program compares them bit by bit and fails otherwise; here, that every row went by once."""
    assert trial["rows"] == sorted(set(trial["rows"]))
    assert trial["rows"][-1] == 9_000


@pytest.mark.soak
@needs_ray
def test_a_killed_worker_changes_nothing(trial: dict[str, Any]) -> None:
    assert trial["killed"] is True


@pytest.mark.soak
@needs_ray
def test_a_row_that_cannot_be_used_is_named(trial: dict[str, Any]) -> None:
    places = {"part-001.parquet, row group 1, row 650", "part-003.parquet, row group 0, row 20"}
    assert trial["error"].pop("place") in places
    assert trial["error"] == {"column": "ward"}


@pytest.mark.soak
@needs_ray
def test_a_cluster_that_is_started_hears_this_machine_only(trial: dict[str, Any]) -> None:
    assert trial["listening"]
    assert set(trial["listening"]) <= _LOOPBACK


def test_without_ray_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InvalidArgument, match=r"likeset\[ray\]"):
        import_ray()
    with pytest.raises(InvalidArgument, match=r"likeset\[ray\]"):
        scan_factory("ray:127.0.0.1:6379").__enter__()


@pytest.mark.parametrize("text", ["", "rays", "local:here", "ray:", "spark"])
def test_a_word_for_no_scan_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="must be local, ray or ray:ADDRESS"):
        scan_factory(text).__enter__()


def test_local_is_the_threads_of_this_machine(tmp_path: Path) -> None:
    from scan_world import SCHEMA, assert_same, drawings, in_memory

    from likeset.tables.sources import open_source

    rows = table(3_000)
    place = write(tmp_path / "rows", rows, [1_000, 2_000])
    with scan_factory("local", workers=2) as open_scan:
        scan = open_scan(open_source(place), SCHEMA)
    assert type(scan) is SourceScan
    assert_same(scan.draw(*drawings(30)), in_memory(rows).draw(*drawings(30)))
