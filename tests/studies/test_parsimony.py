"""The study of auctions measures what is asked for, and its bound."""

from pathlib import Path

from studies.contract import Cell, Options
from studies.pages import write_page
from studies.parsimony import STUDY
from studies.runner import run_study


def test_the_study_measures_its_bound_and_says_that_noise_is_simulated(tmp_path: Path) -> None:
    lines = run_study(_Few(), Options(seeds=1, sizes=(10,)), out=tmp_path, workers=0)
    assert all(line.done for line in lines), [line.failure for line in lines]
    found = {line["method"]: line for line in lines}
    assert found["everyone each round"]["rows_per_pick"] == 10.0
    assert found["everyone once"]["rows_per_pick"] == 10.0  # the offer factor
    assert found["paper"]["rows_per_pick"] < 10.0 < found["paper"]["paper_bound"]
    page = write_page(STUDY.present(lines, tmp_path), lines, out=tmp_path, command="make study")
    assert "not private" in page.read_text(encoding="utf-8")


class _Few:
    name, description = STUDY.name, STUDY.description
    run, present = STUDY.run, STUDY.present

    def cells(self, options: Options) -> list[Cell]:
        return [cell for cell in STUDY.cells(options) if cell["owners"] == 10]
