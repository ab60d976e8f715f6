"""``likeset match`` from files of several kinds, held against ``files.json``."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from file_market import FileMarket
from golden_command import prices, result_in, said_json, say
from golden_records import hold, names_in

SCENARIOS: dict[str, tuple[str, tuple[str, str, str], list[str]]] = {
    "csv": ("plain", ("csv", "csv", "csv"), ["--seed=1"]),
    "parquet, a directory of it, arrow": ("plain", ("parquet", "directory", "arrow"), ["--seed=1"]),
    "sqlite and a query": ("plain", ("sqlite", "sqlite", "sql"), ["--seed=2"]),
    "every kind of column": ("every", ("csv", "parquet", "csv"), ["--seed=3"]),
    "every kind of column, ids": ("every-ids", ("parquet", "csv", "arrow"), ["--seed=4", "--epsilon=14"]),
    "ids, weights": ("ids", ("csv", "parquet", "sqlite"), ["--seed=5", "--weights", "--epsilon=14"]),
    "public rows, add or remove": (
        "plain",
        ("csv", "csv", "parquet"),
        ["--seed=6", "--relation=add-or-remove", "--declared-size=64", "--public-rows={public}"],
    ),
    "uniform offers": ("plain", ("csv", "parquet", "csv"), ["--seed=7", "--offers=uniform", "--epsilon=0"]),
    "interactive": ("plain", ("csv", "parquet", "sqlite"), ["--seed=8", "--protocol=interactive"]),
}
_USUAL = ["--size=6", "--epsilon=8", "--offer-factor=6", "--noise=simulated"]


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> FileMarket:
    return FileMarket.make(tmp_path_factory.mktemp("market"))


def words_of(name: str, market: FileMarket) -> list[str]:
    """What a user would type; an option that comes twice counts as it came last."""
    schema, kinds, more = SCENARIOS[name]
    options = dict(one.partition("=")[::2] for one in [*_USUAL, *more])
    shown = [f"{option}={value}" if value else option for option, value in options.items()]
    filled = [one.replace("{public}", market.place("public", "csv")) for one in shown]
    return [*market.words(schema=schema, kinds=kinds), *filled]


def outcome(market: FileMarket, out: Path, *words: object) -> dict[str, Any]:
    planned = said_json("plan", *words, "--noise=secret")
    found = result_in(out, out / "ledger.sqlite", market.number_of)
    return {**found, "plan": prices(planned["guarantees"])}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_run_from_files_comes_to_what_it_came_to(name: str, market: FileMarket, tmp_path: Path) -> None:
    words, out = words_of(name, market), tmp_path / "out"
    code, _, complaint = say("match", *words, f"--out={out}")
    assert code == 0, complaint
    hold("files", name, outcome(market, out, *words))


def test_a_job_file_comes_to_what_options_come_to(market: FileMarket, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        "likeset: job\nversion: 1\nschema: plain.yaml\ntarget: target.csv\n"
        "owners: {north: north.csv, south: south.csv, west: west.csv}\n"
        "size: 6\nepsilon: 8\noffer_factor: 6\nnoise: simulated\nseed: 1\nout: out\n",
        encoding="utf-8",
    )
    for name in ("plain.yaml", "target.csv", "north.csv", "south.csv", "west.csv"):
        shutil.copy(market.folder / name, tmp_path / name)
    code, _, complaint = say("match", tmp_path / "job.yaml")
    assert code == 0, complaint
    hold("files", "csv", outcome(market, tmp_path / "out", tmp_path / "job.yaml"), again=True)


DRIVER = Path(__file__).parents[1] / "app" / "stop_driver.py"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "call"), [("likeset.protocol.sealed.draw_offer", 2), ("pyarrow.parquet.write_table", 1)]
)
def test_a_run_that_was_killed_goes_on_to_the_same(place: str, call: int, market: FileMarket, tmp_path: Path) -> None:
    """When one owner's rows have come, and when everything is paid and selected."""
    words, out = words_of("csv", market), tmp_path / "out"
    killed = subprocess.run(  # noqa: S603 - our own interpreter and arguments
        [sys.executable, DRIVER, place, str(call), str(int(signal.SIGKILL)), "match", *words, f"--out={out}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not out.exists()
    code, _, complaint = say("match", *words, f"--out={out}", "--resume")
    assert code == 0, complaint
    hold("files", "csv", outcome(market, out, *words), again=True)


def test_the_file_has_these_scenarios() -> None:
    assert names_in("files") == set(SCENARIOS)
