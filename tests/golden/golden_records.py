"""Outcomes of runs as files: written once, and every later run is held against them.

What is kept is what a user can see, so that it can be compared however the inside is built: which rows were selected,
what they weigh, what each view costs, how many rows were disclosed, what the ledger charged, and which warnings came.
Rows' values are not kept.

``make golden`` writes the files anew. A difference that it shows in ``git diff`` is a change that users notice.

On another processor the last bits of a matrix product differ. Data and seeds are chosen such that no pick hangs on
them, so picks, counts, kinds and warnings are compared exactly everywhere; of runs from arrays, ``make golden`` refuses
those whose picks change when all rows grow by a millionth. Numbers are written with twelve digits and compared within
``TOLERANCE``.
"""

import json
import math
import os
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
REWRITES = os.environ.get("LIKESET_REWRITE_GOLDEN") == "1"
TOLERANCE = 1e-9
_DIGITS = 12
_WIDEST = 116


def hold(group: str, name: str, outcome: dict[str, Any], *, again: bool = False) -> None:
    """Compare an outcome with the one in the file of its group; with ``LIKESET_REWRITE_GOLDEN=1``, put it there.

    Args:
        group: of scenarios; the file's name without ending.
        name: of the scenario.
        outcome: what came of it, as JSON knows it.
        again: whether this is another way to the same outcome, which is compared in any case.
    """
    if REWRITES and not again:
        _write(group, _read(group) | {name: _rounded(outcome)})
        return
    kept = _read(group)
    assert name in kept, f"{group}.json has no scenario {name!r}; write it with: make golden"
    different = differences(kept[name], outcome)
    assert not different, f"{group}.json, scenario {name!r}:\n  " + "\n  ".join(different)


def names_in(group: str) -> set[str]:
    return set(_read(group))


def differences(kept: Any, new: Any, field: str = "") -> list[str]:
    """Each field that differs, with what was kept and what came now; numbers may differ by ``TOLERANCE``."""
    if isinstance(kept, dict) and isinstance(new, dict):
        return [
            line
            for key in sorted({*kept, *new})
            for line in _in_one_field(kept, new, key, f"{field}.{key}" if field else key)
        ]
    if isinstance(kept, list) and isinstance(new, list) and len(kept) == len(new):
        pairs = enumerate(zip(kept, new, strict=True))
        return [line for place, (old, now) in pairs for line in differences(old, now, f"{field}[{place}]")]
    return [] if _alike(kept, new) else [f"{field}: kept {kept!r}, now {new!r}"]


def _in_one_field(kept: dict[str, Any], new: dict[str, Any], key: str, field: str) -> list[str]:
    if key not in new:
        return [f"{field}: kept {kept[key]!r}, now missing"]
    if key not in kept:
        return [f"{field}: not kept, now {new[key]!r}"]
    return differences(kept[key], new[key], field)


def _alike(kept: Any, new: Any) -> bool:
    if isinstance(kept, float) or isinstance(new, float):
        numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in (kept, new))
        return numbers and math.isclose(kept, new, rel_tol=TOLERANCE, abs_tol=TOLERANCE * TOLERANCE)
    return type(kept) is type(new) and bool(kept == new)


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value


def _read(group: str) -> dict[str, Any]:
    path = FOLDER / f"{group}.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def _write(group: str, scenarios: dict[str, Any]) -> None:
    (FOLDER / f"{group}.json").write_text(_readable(scenarios) + "\n", encoding="utf-8")


def _readable(value: Any, indent: str = "") -> str:
    """JSON with sorted keys, in which whatever fits into a line stands in one."""
    flat = json.dumps(value, sort_keys=True, allow_nan=False)
    deep = isinstance(value, dict) and any(isinstance(one, dict) for one in value.values())
    if not isinstance(value, dict) or (not deep and len(indent) + len(flat) <= _WIDEST):
        return flat
    inner = indent + "  "
    lines = [f"{inner}{json.dumps(key)}: {_readable(value[key], inner)}" for key in sorted(value)]
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
