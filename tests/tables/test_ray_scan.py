"""The pass on a Ray cluster: the same draw as in memory, whatever happens to the workers."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from scan_world import SCHEMA, assert_same, drawings, in_memory, spoil, table, write

from likeset.errors import InvalidArgument
from likeset.tables.ray_scan import import_ray
from likeset.tables.scan import SourceScan, scan_factory
from likeset.tables.sources import open_source


@pytest.mark.soak
@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'likeset[ray]'")
def test_a_cluster_of_two_workers_gives_the_draw_from_memory_whatever_happens_to_them(tmp_path: Path) -> None:
    """The program compares draws bit by bit and fails otherwise; here, that every row went by once.

    A killed worker changes nothing, and a row that cannot be used is named.
    """
    rows = table(9_000)
    place = write(tmp_path / "rows", rows, [1_500, 700, 2_300, 4_500])
    broken = write(tmp_path / "broken", rows, [1_500, 700, 2_300, 4_500])
    for file, row in ((1, 650), (3, 20)):
        spoil(broken, file, row, group=500)
    program = Path(__file__).parent / "ray_trial.py"
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, str(program), str(place), str(broken), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "RAY_TMPDIR": "/tmp", "OPENBLAS_NUM_THREADS": "1"},  # noqa: S108 - sockets have short names
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    trial = json.loads(done.stdout.splitlines()[-1])
    assert trial["rows"] == sorted(set(trial["rows"]))
    assert trial["rows"][-1] == 9_000
    assert trial["killed"] is True
    places = {"part-001.parquet, row group 1, row 650", "part-003.parquet, row group 0, row 20"}
    assert trial["error"]["place"] in places
    assert trial["error"]["column"] == "ward"


def test_without_ray_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InvalidArgument, match="packages of the extra ray"):
        import_ray()
    with pytest.raises(InvalidArgument, match="packages of the extra ray"):
        scan_factory("ray:127.0.0.1:6379").__enter__()


@pytest.mark.parametrize("text", ["", "rays", "local:here", "ray:", "spark"])
def test_a_word_for_no_scan_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^scan"):
        scan_factory(text).__enter__()


def test_local_is_the_threads_of_this_machine(tmp_path: Path) -> None:
    rows = table(3_000)
    place = write(tmp_path / "rows", rows, [1_000, 2_000])
    with scan_factory("local", workers=2) as open_scan:
        scan = open_scan(open_source(place), SCHEMA)
    assert type(scan) is SourceScan
    assert_same(scan.draw(*drawings(30)), in_memory(rows).draw(*drawings(30)))
