"""A study of numbers, to test what runs studies: it squares, fails, dies or waits, as its cells say."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studies.contract import Cell, Options, Presentation, RecordLine, Table


@dataclass(frozen=True)
class Squares:
    """Cells 0, 1, ...; a folder (the cells' source) keeps a file for each time that a cell was run.

    A file ``fail-N`` or ``die-N`` in that folder makes cell N fail or die.
    """

    name: str = "squares"
    description: str = "squares of numbers"

    def cells(self, options: Options) -> Sequence[Cell]:
        return [
            Cell(self.name, {"seed": 0, "number": number}, source=options.data) for number in range(options.seeds or 4)
        ]

    def run(self, cell: Cell) -> dict[str, Any]:
        assert cell.source is not None
        number, folder = cell["number"], Path(cell.source)
        runs = len(list(folder.glob(f"ran-{number}-*")))
        (folder / f"ran-{number}-{runs}").write_text(os.environ.get("OPENBLAS_NUM_THREADS", ""), encoding="utf-8")
        if (folder / f"fail-{number}").exists():
            raise ArithmeticError("no square today")
        if (folder / f"die-{number}").exists():
            os._exit(9)
        if (folder / f"nan-{number}").exists():
            return {"square": float("nan")}
        return {"square": number * number}

    def present(self, lines: Sequence[RecordLine], out: Path) -> Presentation:
        rows = [(str(line["number"]), str(line["square"])) for line in lines if line.done]
        (out / "squares.svg").write_text("<svg/>", encoding="utf-8")
        return Presentation(
            "Squares", ["Of numbers."], [Table("All", ("n", "n²"), rows)], {out / "squares.svg": "none"}
        )
