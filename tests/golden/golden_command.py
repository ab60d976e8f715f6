"""The command line in this process, and what its files say: all that the golden runs know of the inside."""

import contextlib
import io
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from likeset.app.cli import main

_NO_CHARGE = ("run/secrets",)  # an entry of the run's own, which costs nothing


def say(*words: object) -> tuple[int, str, str]:
    """Type a command: its exit code, what it printed, and what it complained of."""
    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["likeset", *map(str, words)]
    code = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as ended:
        code = 0 if ended.code is None else int(ended.code)
    finally:
        sys.argv = before
    return code, out.getvalue(), err.getvalue()


def said_json(*words: object) -> Any:
    code, out, err = say(*words, "--json")
    assert code == 0, err
    return json.loads(out)


def books(ledger: Path) -> dict[str, dict[str, Any]]:
    """What a ledger says.

    ``charges``: for each kind of request and who made it, how often, and for how many rows in all. ``accounts``: for
    each view what was spent, in how many charges, and on which basis.
    """
    shown = said_json("ledger", "show", ledger, "--last", 0)
    times: Counter[str] = Counter()
    rows: Counter[str] = Counter()
    for entry in shown["history"]:
        if entry["kind"] == "reserve" and entry["request"] not in _NO_CHARGE:
            times[entry["request"]] += 1
            rows[entry["request"]] += entry["rows"]
    found = [(request.partition("/")[::2], {"times": times[request], "rows": rows[request]}) for request in times]
    accounts = (
        (
            f"{one['view']['observer']} about",
            one["view"]["protected"],
            {**one["spent"], "basis": one["basis"], "charges": one["charges"]},
        )
        for one in shown["accounts"]
    )
    charges = _gathered((f"{kind} of", who, charged) for (who, kind), charged in found)
    return {"charges": charges, "accounts": _gathered(accounts)}


def prices(guarantees: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """What each view costs, from the ``guarantees`` of a plan or a result."""
    return _gathered(
        (
            f"{one['observer']} about",
            one["protects"],
            {name: one[name] for name in ("epsilon", "delta", "relation", "basis", "rows")},
        )
        for one in guarantees
    )


def _gathered(facts: Iterable[tuple[str, str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Facts of which several parties have the very same, in one line with all their names."""
    together: dict[tuple[str, str], list[str]] = {}
    for what, whose, fact in facts:
        together.setdefault((what, json.dumps(fact)), []).append(whose)
    return {f"{what} {', '.join(sorted(names))}": json.loads(fact) for (what, fact), names in together.items()}


def result_in(out: Path, ledger: Path, number_of: Callable[[str, Mapping[str, Any]], int]) -> dict[str, Any]:
    """What came of a run, from the files in its directory.

    Args:
        out: that directory.
        ledger: of whoever ran it.
        number_of: finds a selected row's number in its owner's file.
    """
    written = sorted(path.name for path in out.iterdir())
    result = json.loads((out / "result.json").read_text(encoding="utf-8"))
    rows = pq.read_table(out / "summary.parquet").to_pylist()
    weights = [row["weight"] for row in rows]
    return {
        "picks": ", ".join(f"{row['owner']} {number_of(row['owner'], row)}" for row in rows),
        "weights": weights if len(set(weights)) > 1 else "equal",
        "squared_mmd": result["in_sample_squared_mmd"],
        "gamma": result["gamma"],
        "rows_seen": result["rows_seen"],
        "disclosed": {one["name"]: _known(one, "disclosed") for one in result["owners"]},
        "payment": {one["name"]: _known(one, "payment") for one in result["owners"]},
        "shapley": {one["name"]: one["shapley"] for one in result["owners"]},
        "prices": prices(result["guarantees"]),
        **books(ledger),
        "warnings": sorted(one["kind"] for one in result["warnings"]),
        "written": written,
    }


def _known(owner: Mapping[str, Any], what: str) -> Any:
    """A figure about an owner, or its bound where only the owner knows it."""
    return f"at most {owner[f'{what}_at_most']:g}" if owner[what] is None else owner[what]
