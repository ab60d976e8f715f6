"""The study of numbers with two cells that do not end until they may."""

import time
from pathlib import Path
from typing import Any

from small_study import Squares

from studies.contract import Cell


class SlowSquares(Squares):
    """Cells 2 and 3 wait for ever."""

    def run(self, cell: Cell) -> dict[str, Any]:
        results = super().run(cell)
        while cell["number"] >= 2 and not (Path(str(cell.source)) / "quick").exists():
            time.sleep(0.05)
        return results
