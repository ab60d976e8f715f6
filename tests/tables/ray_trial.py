"""A program of its own that passes over rows on two local workers: Ray's threads and exits stay out of the tests."""

import json
import os
import signal
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import psutil  # type: ignore[import-untyped,unused-ignore]  # Ray brings it
from numpy.typing import NDArray
from scan_world import SCHEMA, ByFeatures, assert_same, drawings, in_memory, table

from likeset.errors import BadTable
from likeset.geometry.offers import Drawing
from likeset.tables.ray_scan import ray_pass
from likeset.tables.scan import Passed, SourceScan, scan_factory
from likeset.tables.schema import FetchedRows
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


def main(place: Path, broken: Path, work: Path) -> dict[str, object]:
    rows = table(9_000)
    wanted = drawings(300)
    expected = in_memory(rows).draw(*wanted)
    seen: list[Passed] = []
    with scan_factory("ray", workers=2, progress=seen.append) as open_scan:
        import ray

        def scan(place: Path, workers: int) -> SourceScan:
            return SourceScan(open_source(place), SCHEMA, passing=partial(ray_pass, ray), workers=workers)

        assert_same(open_scan(open_source(place), SCHEMA).draw(*wanted), expected)
        for workers in (1, 9_000):  # two units, and one for each part
            assert_same(scan(place, workers).draw(*wanted), expected)
        tilted, uniform = wanted
        assert isinstance(tilted.score, ByFeatures)
        deadly = Drawing(tilted.count, tilted.key, _Deadly(tilted.score.projection, work / "killed"))
        assert_same(scan(place, 9_000).draw(deadly, uniform), expected)
        try:
            scan(broken, 9_000).draw(*wanted)
            error = None
        except BadTable as caught:
            error = {"place": caught.place, "column": caught.column}
        return {
            "rows": [one.rows for one in seen],
            "killed": (work / "killed").exists() and int((work / "killed").read_text()) != os.getpid(),
            "error": error,
            "listening": [
                connection.laddr.ip
                for process in (psutil.Process(), *psutil.Process().children(recursive=True))
                for connection in process.net_connections("inet")
                if connection.status == psutil.CONN_LISTEN
            ],
        }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*(Path(given) for given in sys.argv[1:]))) + "\n")
