"""``make walk``: count how runs walk through the package, and write ``docs/walk.md`` and ``docs/walk.svg``."""

import os
import sys
import tempfile
from pathlib import Path

# As in conftest.py: before the first import of numpy.
os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1]))

from floors import floors_of
from footsteps import PACKAGE
from page import lines, page
from picture import picture
from rich.console import Console
from rich.table import Table
from sizes import sizes
from walks import walks_of_answers, walks_of_matches

ROOT = Path(__file__).parents[2]


def main() -> int:
    """Write the page and the picture; returns 1 if a figure is above its bound."""
    with tempfile.TemporaryDirectory() as folder:
        matches = walks_of_matches(Path(folder) / "matches")
        answers = walks_of_answers(Path(folder) / "answers")
    walks, parts, floors = [*matches, *answers], sizes(PACKAGE), floors_of(PACKAGE)
    drawn = [
        ("likeset match, under the sealed protocol", matches[0]),
        ("an owner answers the first message", answers[0]),
    ]
    (ROOT / "docs" / "walk.svg").write_text(picture(drawn, floors), encoding="utf-8")
    (ROOT / "docs" / "walk.md").write_text(page(walks, floors, parts), encoding="utf-8")
    table = Table("", "now", "bound", "wanted", "", title="The walk of a run", title_justify="left")
    above = 0
    for line in lines(walks, parts):
        remark = ""
        if line.bound is not None and line.figure != line.bound:
            above += line.figure > line.bound
            remark = "above its bound" if line.figure > line.bound else "lower its bound in tests/walk/bounds.py"
        bound = "" if line.bound is None else f"{line.bound:,}"
        table.add_row(line.what, f"{line.figure:,}", bound, f"{line.wanted:,}", remark)
    Console().print(table)
    Console().print("Written: docs/walk.md, docs/walk.svg.")
    return int(above > 0)


if __name__ == "__main__":
    sys.exit(main())
