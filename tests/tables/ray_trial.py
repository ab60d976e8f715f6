"""A program of its own that passes over rows on two local workers: Ray's threads and exits stay out of the tests."""

import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scan_world import SCHEMA, ByFeatures, assert_same, drawings, in_memory, table

from likeset.errors import BadTable
from likeset.geometry.offers import Drawing
from likeset.tables.ray_scan import RayCluster, RayScan
from likeset.tables.scan import FetchedRows, Passed, scan_factory
from likeset.tables.sources import open_source


@dataclass(frozen=True, eq=False)
class _Deadly(ByFeatures):
    """Weights whose computation kills the worker, once."""

    flag: Path = Path()

    def __call__(self, block: FetchedRows, first_row: int) -> NDArray[np.float64]:
        if first_row > 3_000 and not self.flag.exists():
            self.flag.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(block, first_row)


def _listening(own: set[int]) -> list[str]:
    """Addresses on which processes of this session listen, as the kernel writes them."""
    sockets: set[str] = set()
    for process in own:
        for file in Path(f"/proc/{process}/fd").glob("*"):
            try:
                target = str(file.readlink())
            except OSError:
                continue
            if target.startswith("socket:["):
                sockets.add(target[8:-1])
    lines = [
        line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    return sorted(words[1].rpartition(":")[0] for words in lines if words[3] == "0A" and words[9] in sockets)


def _descendants(root: int) -> set[int]:
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = {root}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def main(place: Path, broken: Path, work: Path) -> dict[str, object]:
    """Everything that needs a cluster, on one cluster."""
    rows = table(9_000)
    wanted = drawings(300)
    expected = in_memory(rows).draw(*wanted)
    seen: list[Passed] = []
    cluster = RayCluster(workers=2)
    with scan_factory("ray", workers=2, progress=seen.append) as open_scan:
        assert_same(open_scan(open_source(place), SCHEMA).draw(*wanted), expected)
        cluster.join()  # and keeps what was started, also after this block
    for unit_rows in (1, 4_000, 20_000):
        assert_same(RayScan(open_source(place), SCHEMA, cluster=cluster, unit_rows=unit_rows).draw(*wanted), expected)
    tilted, uniform = wanted
    assert isinstance(tilted.score, ByFeatures)
    deadly = Drawing(tilted.count, tilted.key, _Deadly(tilted.score.projection, work / "killed"))
    assert_same(RayScan(open_source(place), SCHEMA, cluster=cluster, unit_rows=1).draw(deadly, uniform), expected)
    try:
        RayScan(open_source(broken), SCHEMA, cluster=cluster, unit_rows=1).draw(*wanted)
        error = None
    except BadTable as caught:
        error = {"place": caught.place, "column": caught.column}
    return {
        "rows": [one.rows for one in seen],
        "killed": (work / "killed").exists() and int((work / "killed").read_text()) != os.getpid(),
        "error": error,
        "listening": _listening(_descendants(os.getpid())),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*(Path(given) for given in sys.argv[1:]))) + "\n")
