"""A program of its own that passes over rows on two local workers: Ray's threads and exits stay out of the tests."""

import json
import os
import secrets
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scan_world import SCHEMA, ByFeatures, assert_same, drawings, in_memory, table

from likeset.errors import BadTable
from likeset.geometry.offers import Drawing
from likeset.tables.ray_scan import ray_pass
from likeset.tables.scan import Passed, SourceScan
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


@contextmanager
def own_cluster(*, workers: int) -> Iterator[Any]:
    """A cluster with a token, so that no other user of this machine can enter it."""
    os.environ |= {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }
    import ray

    ray.init("local", num_cpus=workers, include_dashboard=False, object_store_memory=100 << 20, log_to_driver=False)
    try:
        yield ray
    finally:
        ray.shutdown()


def main(place: Path, broken: Path, work: Path) -> dict[str, object]:
    rows = table(9_000)
    wanted = drawings(300)
    expected = in_memory(rows).draw(*wanted)
    seen: list[Passed] = []
    with own_cluster(workers=2) as ray:

        def scan(place: Path, workers: int) -> SourceScan:
            return SourceScan(
                open_source(place), SCHEMA, passing=partial(ray_pass, ray), workers=workers, progress=seen.append
            )

        assert_same(scan(place, 2).draw(*wanted), expected)
        counted = [one.rows for one in seen]
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
            "rows": counted,
            "killed": (work / "killed").exists() and int((work / "killed").read_text()) != os.getpid(),
            "error": error,
        }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*(Path(given) for given in sys.argv[1:]))) + "\n")
