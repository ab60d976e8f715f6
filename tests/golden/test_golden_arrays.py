"""Runs of the ``Summarizer``, held against ``arrays.json`` and, with secret noise, ``spent.json``.

The prices are those that ``likeset plan`` tells for the same job in files.
"""

import contextlib
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import yaml
from array_scenarios import PUBLIC, SCENARIOS, TARGET, Scenario
from golden_command import books, prices, said_json
from golden_records import REWRITES, differences, hold, names_in
from numpy.typing import NDArray

from likeset import Summarizer
from likeset.errors import QuorumMissed
from summarizer_world import arguments

_NUDGE = 1.0 + 1e-6
_PLANNED = ("offers", "rows_per_owner", "rows_seen_at_most", "messages_at_most", "released_coordinates")
_COLUMNS = ("first", "second", "third")


def fitted(
    scenario: Scenario,
    *,
    scale: float = 1.0,
    ledger: Path | None = None,
    noise: Literal["secret", "simulated"] = "simulated",
) -> Summarizer:
    """What comes of a scenario, with rows that are ``scale`` times as large."""
    settings = arguments(scenario.settings())
    return Summarizer(**settings, noise=noise, random_state=scenario.seed, ledger=ledger, run="golden").fit(
        TARGET * scale,
        {name: rows * scale for name, rows in scenario.tables().items()},
        scenario.label_columns(),
        public_rows=PUBLIC * scale if scenario.public_rows else None,
    )


def picks(run: Summarizer) -> str:
    return ", ".join(f"{owner} {row}" for owner, row in run.indices_)


def planned(scenario: Scenario, folder: Path) -> dict[str, Any]:
    """What ``likeset plan`` says that the same run costs with secret noise."""
    settings = scenario.settings()
    rows_per_unit = settings.pop("rows_per_unit", 1)
    columns = {name: {"kind": "numeric", "bounds": [0, 1]} for name in _COLUMNS}
    schema: dict[str, Any] = {"likeset": "schema", "version": 1, "columns": columns}
    if rows_per_unit > 1:
        schema["id"] = {"column": "person", "rows_per_id": rows_per_unit}
    (folder / "schema.yaml").write_text(yaml.safe_dump(schema), encoding="utf-8")
    write_rows(folder / "target.csv", TARGET, rows_per_unit)
    job = {**settings, "schema": "schema.yaml", "target": "target.csv", "out": "out"}
    for name in scenario.tables():
        (folder / f"{name}.csv").touch()  # a plan reads no owner's rows
    job["owners"] = {name: f"{name}.csv" for name in scenario.tables()}
    job["offers"] = settings.get("offers", "tilted")
    if scenario.public_rows:
        job["public_rows"] = write_rows(folder / "public.csv", PUBLIC, rows_per_unit)
    if "seed_rows" in settings:
        job["seed_rows"] = write_rows(folder / "seeds.csv", settings["seed_rows"], rows_per_unit)
    if "accept_unproven" in settings:
        job["accept_unproven"] = list(settings["accept_unproven"])
    text = yaml.safe_dump({"likeset": "job", "version": 1, **job})
    (folder / "job.yaml").write_text(text, encoding="utf-8")
    found = said_json("plan", folder / "job.yaml")
    return {
        **{name: found[name] for name in _PLANNED},
        "prices": prices(found["guarantees"]),
        "warnings": sorted(one["kind"] for one in found["warnings"]),
    }


def write_rows(path: Path, rows: NDArray[np.float64], rows_per_person: int) -> str:
    """A text file; so many rows in turn are of one person."""
    lines = [
        ",".join([*(f"{number:.6f}" for number in row), f"p{place // rows_per_person}"])
        for place, row in enumerate(rows)
    ]
    path.write_text("\n".join([",".join((*_COLUMNS, "person")), *lines]) + "\n", encoding="utf-8")
    return path.name


def outcome(run: Summarizer, ledger: Path) -> dict[str, Any]:
    weights = run.weights_.tolist()
    return {
        "picks": picks(run),
        "labels": None if run.labels_ is None else run.labels_.tolist(),
        "weights": weights if len(set(weights)) > 1 else "equal",
        "squared_mmd": float(run.in_sample_squared_mmd_),
        "gamma": float(run.gamma_),
        "rows_seen": run.rows_seen_,
        "disclosed": {one.owner: one.rows_disclosed for one in run.attribution_.owners},
        "payment": {one.owner: float(one.payment) for one in run.attribution_.owners},
        "shapley": {one.owner: float(one.shapley) for one in run.attribution_.owners},
        **books(ledger),
        "warnings": sorted(one.kind for one in run.warnings_),
    }


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_run_from_arrays_comes_to_what_it_came_to(name: str, tmp_path: Path) -> None:
    scenario, ledger = SCENARIOS[name], tmp_path / "ledger.sqlite"
    run = fitted(scenario, ledger=ledger)
    if REWRITES:
        assert picks(fitted(scenario, scale=_NUDGE)) == picks(run), "picks hang on last bits: take another seed"
    hold("arrays", name, {**outcome(run, ledger), "plan": planned(scenario, tmp_path)})


def test_the_file_has_these_scenarios_and_ten_seeds() -> None:
    assert names_in("arrays") == set(SCENARIOS)
    assert len({scenario.seed for scenario in SCENARIOS.values()}) == 10


def test_a_difference_is_told_by_its_field() -> None:
    kept = {"picks": "a 1, b 2", "plan": {"owners about a": {"epsilon": 1.0}}, "weights": [0.5, 0.5], "rows": 1}
    assert differences(kept, kept | {"plan": {"owners about a": {"epsilon": 1.0 + 1e-11}}}) == []
    other = {"plan": {"owners about a": {"epsilon": None}}, "weights": [0.5, 0.6], "rows": True, "new": 1}
    assert differences(kept, other) == [
        "new: not kept, now 1",
        "picks: kept 'a 1, b 2', now missing",
        "plan.owners about a.epsilon: kept 1.0, now None",
        "rows: kept 1, now True",
        "weights[1]: kept 0.5, now 0.6",
    ]


SPENT = (
    "sealed",
    "sealed, width chosen privately",
    "sealed, uniform where a release is noise",
    "sealed, two rows per unit",
    "sealed, add or remove",
    "sealed, threshold",
    "interactive",
    "interactive, threshold",
    "interactive, gaussian summary",
    "interactive, gaussian summary, two rows per unit",
    "interactive, mwem",
    "interactive, the paper, experiment",
)


@pytest.mark.parametrize("name", SPENT)
def test_a_run_with_secret_noise_spends_what_it_spent(name: str, tmp_path: Path) -> None:
    """What owners may learn is charged whatever is drawn, and even where an auction happens to ask nobody."""
    ledger = tmp_path / "ledger.sqlite"
    with contextlib.suppress(QuorumMissed):
        fitted(SCENARIOS[name], noise="secret", ledger=ledger)
    accounts = books(ledger)["accounts"]
    told = {view: spent for view, spent in accounts.items() if view.startswith("owners about")}
    hold("spent", name, {view: {"basis": one["basis"], "epsilon": one["epsilon"]} for view, one in told.items()})


def test_the_file_of_what_is_spent_has_these_scenarios() -> None:
    assert names_in("spent") == set(SPENT)
