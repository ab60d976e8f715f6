"""What an owner's pass costs in time and memory as rows, columns, features and offers grow; and the curator's part.

Every number comes from a process of its own (``scale_measures.py``) and is appended to a file, from which the page and
the figure are made; what is in the file is not measured again.

    python benchmarks/scale.py --work DIRECTORY            1, 10 and 100 million rows; generated there
    python benchmarks/scale.py --work DIRECTORY --quick    100,000 rows: does everything work?
    python benchmarks/scale.py --page                      the page again, from what was measured
"""

import argparse
import datetime
import json
import math
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from peers.environments import measured_commit
from scale_data import write_tables

_HERE = Path(__file__).parent
_MILLION = 1_000_000
_DECISIVE = 10 * _MILLION

_SELECTIONS = (
    (10_000, 500),
    (100_000, 500),
    (100_000, 1500),
    (100_000, 5000),
    (1_000_000, 500),
    (1_000_000, 5000),
)
_MARKETS = {"market": (5, 50, 200, 1000), "mailbox": (5, 50, 200, 1000)}
_NUMBERS = "50 numbers: "
"""How the lines of tables of numbers alone begin; the others are of mixed columns."""

ScaleLine = dict[str, Any]


def main() -> None:
    """Read the options, measure what is missing, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="folder for the generated tables; about 0.2 GB a million rows")
    parser.add_argument("--rows", type=float, nargs="+", default=[1, 10, 100], help="sizes, in millions of rows")
    parser.add_argument("--again", default="", help="measure these lines anew: a word in their names, such as 10M")
    parser.add_argument("--only", default="", help="measure only lines with this word in their names")
    parser.add_argument("--quick", action="store_true", help="small tables: does everything work?")
    parser.add_argument("--page", action="store_true", help="measure nothing")
    parser.add_argument("--out", type=Path, default=_HERE / "results", help="folder of the results")
    options = parser.parse_args()
    sizes = [100_000] if options.quick else [int(size * _MILLION) for size in options.rows]
    name = "scale-quick" if options.quick else "scale"
    options.out.mkdir(parents=True, exist_ok=True)
    record = options.out / f"{name}.jsonl"
    if not options.page:
        _measure_all(options, sizes, record)
    results = _known_lines(record)
    (options.out / f"{name}.md").write_text("\n".join(_page(results)) + "\n", encoding="utf-8")


def _lines(sizes: list[int], *, quick: bool) -> Iterator[tuple[str, int, list[str]]]:
    """Name, rows and arguments of every measurement."""
    for rows in sizes:
        for measure in ("read", "hash", "sample", "pass", "owner"):
            yield f"{_NUMBERS}{measure}", rows, [measure, "--workers", "2"]
    few, middle = sizes[0], min(_DECISIVE, sizes[-1])
    for rows in dict.fromkeys((few, middle)):
        for measure in ("read", "hash", "sample", "pass", "owner"):
            yield measure, rows, [measure, "--workers", "2"]
    for measure in ("read", "hash", "pass"):
        yield f"{measure}, one core", few, [measure, "--workers", "1"]
    yield "memory", few, ["memory", "--workers", "2"]
    yield "by hand", few, ["by-hand", "--workers", "2"]
    for offered in (50, 5000):
        yield f"pass, {offered} offered, two cores", middle, ["pass", "--workers", "2", "--offered", str(offered)]
    yield "pass, ray", middle, ["pass", "--workers", "2", "--scan", "ray"]
    yield "pass, ray, one worker", middle, ["pass", "--workers", "1", "--scan", "ray"]
    kill = "0.1" if quick else "3"
    yield "pass, ray, one killed", middle, ["pass", "--workers", "2", "--scan", "ray", "--kill", kill]
    for dimension in (70, 280, 560):
        yield f"pass, d = {dimension}", few, ["pass", "--workers", "1", "--dimension", str(dimension)]
    for share in (25, 50):
        yield f"pass, {share} % of the columns", few, ["pass", "--workers", "1", "--share", str(share)]
    for offered in (50, 500, 5000):
        yield f"pass, {offered} offered", few, ["pass", "--workers", "1", "--offered", str(offered)]
    for candidates, size in _SELECTIONS:
        wanted = ["--candidates", str(candidates // (10 if quick else 1)), "--size", str(size // (10 if quick else 1))]
        yield f"select {size:,} of {candidates:,}", 0, ["select", "--workers", "1", *wanted]
    for owners in (100, 1000):
        yield f"offers of {owners:,} owners", 0, ["offers", "--workers", "1", "--owners", str(owners)]
    for kind, counts in _MARKETS.items():
        for owners in counts[:1] if quick else counts:
            yield f"{kind} of {owners:,} owners", 0, [kind, "--workers", "1", "--owners", str(owners)]


def _label(name: str, rows: int) -> str:
    return f"{name} {rows / _MILLION:g}M" if rows else name


def _measure_all(options: argparse.Namespace, sizes: list[int], record: Path) -> None:
    if options.work is None:
        raise SystemExit("say where the generated tables may lie: --work DIRECTORY")
    known, commit = _known_lines(record), measured_commit()
    for name, rows, arguments in _lines(sizes, quick=options.quick):
        label = _label(name, rows)
        skip = label in known and not (options.again and options.again in label)
        if skip or options.only not in label:
            continue
        kind = "numbers" if name.startswith(_NUMBERS) else "mixed"
        table = [str(_tables(options.work, kind, rows)), "--kind", kind] if rows else []
        command = [sys.executable, str(_HERE / "scale_measures.py"), arguments[0], *table, *arguments[1:]]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=_environment(arguments))
        if done.returncode:
            measurement: ScaleLine = {"failed": done.stderr.strip().splitlines()[-1][:200] if done.stderr else "killed"}
        else:
            measurement = json.loads(done.stdout.splitlines()[-1])
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M")
        line = {"label": label, "name": name, "rows": rows, "at": now, "commit": commit, **measurement}
        with record.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(line, flush=True)


def _tables(work: Path, kind: str, rows: int) -> Path:
    """Made by a process of their own: the peak of one that is started later would begin at this one's."""
    with ProcessPoolExecutor(max_workers=1) as alone:
        return alone.submit(write_tables, work, kind, rows).result()


def _environment(arguments: list[str]) -> dict[str, str]:
    """Threads are the measure's own business, except where a library's are all there is."""
    threads = "2" if arguments[0] == "by-hand" else "1"
    # Ray would let everybody else on the machine go first.
    return {**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, "RAY_worker_niceness": "0"}


def _known_lines(record: Path) -> dict[str, ScaleLine]:
    """The last result of every line."""
    if not record.exists():
        return {}
    lines = (json.loads(line) for line in record.read_text(encoding="utf-8").splitlines())
    return {line["label"]: line for line in lines}


def _sizes(results: dict[str, ScaleLine]) -> list[int]:
    return sorted({line["rows"] for line in results.values() if line["rows"]})


def _page(results: dict[str, ScaleLine]) -> Iterator[str]:
    loads = sorted(line["load"] for line in results.values() if "load" in line)
    days = sorted({line["at"][:10] for line in results.values()})
    commits = sorted({line["commit"] for line in results.values()})
    yield "# What a pass over an owner's rows costs\n"
    yield (
        f"Written by `benchmarks/scale.py`, measured on {' and '.join(days)} at commit {' and '.join(commits)} on a "
        "virtual machine with\n"
        f"{os.cpu_count()} cores ({platform.machine()}) that had other work to do (load average {loads[0]:.0f} to "
        f"{loads[-1]:.0f}). So times on the clock are\nlonger than on a quiet "
        "machine, and ratios of CPU seconds count: they hold for all cores together. Every line is a\nprocess of its "
        "own. Tables have 50 numbers in 32 bits, or 30 mixed columns (18 numbers in 32 or 64 bits, 6 whole numbers,\n"
        "2 truth values, 4 words of 6 values) that map to 50 numbers, and a label; Parquet with Snappy, files of\n"
        "2^20 rows; d = 140; 1,000 rows offered, so 6,000 drawn. *Over hashing*: over the least that a hashing pass\n"
        "over the same files takes, which is to decode their columns and to hash as many mapped rows; and over the\n"
        "hashing alone.\n"
    )
    yield from _passes(results, "50 numbers", _NUMBERS)
    yield from _passes(results, "30 mixed columns", "")
    yield from _decisive_table(results)
    yield from _growth(results)
    yield from _curator(results)


def _passes(results: dict[str, ScaleLine], title: str, prefix: str) -> Iterator[str]:
    """What everything takes with tables of one kind."""
    yield f"## The passes: {title}\n"
    yield "| what | rows | s | CPU s | rows/s | rows per CPU s | peak MB | over hashing files | hashing alone |"
    yield "|---|---|---|---|---|---|---|---|---|"
    words = {
        "read": "decode the columns, nothing else",
        "hash": "hash mapped rows that lie in memory",
        "sample": "first pass: read, check every cell, draw the sample",
        "pass": "second pass: read, map, check, score, keep the best",
        "owner": "all that an owner does: both passes, fit, thinning, ledger, message, shares, letters",
        "pass, one core": "second pass, one core",
        "read, one core": "decode the columns, one core",
        "hash, one core": "hash the rows, one core",
        "pass, ray, one worker": "second pass, one Ray worker",
        "pass, ray": "second pass, two Ray workers",
        "pass, ray, one killed": "second pass, two Ray workers, of which one is killed",
        "memory": "map all rows, hold them, then draw",
        "by hand": "pandas, ColumnTransformer, RBFSampler, numpy's top n",
    }
    for rows in _sizes(results):
        for name, text in words.items():
            line = results.get(_label(prefix + name, rows))
            if line is not None:
                yield _row(text, line, results, prefix)
    yield ""


def _row(text: str, line: ScaleLine, results: dict[str, ScaleLine], prefix: str) -> str:
    rows = line["rows"]
    if line.get("failed"):
        return f"| {text} | {rows:,} | {line['failed']} | | | | | | |"
    reading, hashing = (results.get(_label(prefix + base, rows), {}).get("cpu") for base in ("read", "hash"))
    ratios = ["", ""]
    if reading and hashing:
        ratios = [f"{line['cpu'] / base:.2f}" for base in (reading + hashing, hashing)]
    return (
        f"| {text} | {rows:,} | {line['seconds']:.1f} | {line['cpu']:.1f} | {rows / line['seconds']:,.0f} | "
        f"{rows / line['cpu']:,.0f} | {line['peak_mb']:,.0f} | {' | '.join(ratios)} |"
    )


def _decisive_table(results: dict[str, ScaleLine]) -> Iterator[str]:
    """At the largest size of which all is known."""
    names = [_NUMBERS + name for name in ("read", "hash", "sample", "pass", "owner")]
    sizes = [rows for rows in _sizes(results) if all(_label(name, rows) in results for name in names)]
    if not sizes:
        return
    rows = sizes[-1]
    read, hashed, first, second, owner = (results[_label(name, rows)] for name in names)
    yield f"## What must hold at {rows:,} rows of 50 numbers on two cores\n"
    yield "| must hold | measured |\n|---|---|"
    hashing = read["cpu"] + hashed["cpu"]
    peaks = max(line["peak_mb"] for line in (first, second, owner))
    yield f"| peak memory below 1,000 MB | {peaks:,.0f} MB |"
    yield (
        f"| all that an owner does at most 2.0 times one hashing pass over the same files | "
        f"{owner['cpu'] / hashing:.2f} by CPU (first pass {first['cpu'] / hashing:.2f}, second "
        f"{second['cpu'] / hashing:.2f}); {owner['cpu'] / hashed['cpu']:.2f} times the hashing alone |"
    )
    whole, passing = (
        _exponent([(line["rows"], line["cpu"]) for line in _lines_of(results, _NUMBERS + name)])
        for name in ("owner", "pass")
    )
    yield (
        f"| linear in rows: exponent 0.95 to 1.05 | {passing:.3f} (the second pass), {whole:.3f} (all of it, with what "
        "does not grow) |"
    )
    yield f"| at least 5 times faster than by hand (mixed columns) | {_against_hand(results)} |"
    few, many = (results.get(_label(f"pass, {offered} offered, two cores", _DECISIVE)) for offered in (50, 5000))
    if few and many:
        times = many["cpu"] / few["cpu"]
        yield f"| independent of the rows offered, up to 5,000 (mixed) | {times:.2f} times the CPU of 50 |"
    yield from _ray(results)


def _ray(results: dict[str, ScaleLine]) -> Iterator[str]:
    names = ("pass", "pass, ray, one worker", "pass, ray", "pass, ray, one killed")
    lines = [results.get(_label(name, _DECISIVE)) for name in names]
    if all(line and not line.get("failed") for line in lines):
        _, one, two, _ = (line or {} for line in lines)
        draws = {(line or {})["draw"] for line in lines}
        clock = two["seconds"] / one["seconds"]
        yield f"| two Ray workers at most 0.65 of the time of one | {clock:.2f} on the clock |"
        same = "the same" if len(draws) == 1 else "NOT THE SAME"
        yield f"| the same draw with threads, one Ray worker, two, and two of which one is killed | {same} |"


def _against_hand(results: dict[str, ScaleLine]) -> str:
    words = []
    for rows in _sizes(results):
        by_hand, ours = results.get(_label("by hand", rows)), results.get(_label("pass", rows))
        if by_hand is None or ours is None:
            continue
        if by_hand.get("failed"):
            words.append(f"at {rows / _MILLION:g}M rows it runs out of memory at a limit of 12 GB")
        else:
            cpu, clock = by_hand["cpu"] / ours["cpu"], by_hand["seconds"] / ours["seconds"]
            words.append(f"{cpu:.1f} by CPU and {clock:.1f} by the clock at {rows / _MILLION:g}M rows")
    return "; ".join(words) or "not measured"


def _lines_of(results: dict[str, ScaleLine], name: str) -> list[ScaleLine]:
    return sorted(
        (line for line in results.values() if line["name"] == name and "cpu" in line), key=lambda line: line["rows"]
    )


def _exponent(points: list[tuple[float, float]]) -> float:
    """Slope of a straight line through the logarithms."""
    if len(points) < 2:
        return float("nan")
    xs, ys = ([math.log(point[axis]) for point in points] for axis in (0, 1))
    middle_x, middle_y = sum(xs) / len(xs), sum(ys) / len(ys)
    over = sum((x - middle_x) * (y - middle_y) for x, y in zip(xs, ys, strict=True))
    return over / sum((x - middle_x) ** 2 for x in xs)


def _growth(results: dict[str, ScaleLine]) -> Iterator[str]:
    few = min(_sizes(results), default=0)
    base = results.get(_label("pass, one core", few))
    if base is None:
        return
    kinds = {
        "features d": [("pass, d = 70", 70), ("pass, one core", 140), ("pass, d = 280", 280), ("pass, d = 560", 560)],
        "columns after mapping": [
            ("pass, 25 % of the columns", 12),
            ("pass, 50 % of the columns", 25),
            ("pass, one core", 50),
        ],
        "rows offered": [("pass, 50 offered", 50), ("pass, 500 offered", 500), ("pass, 5000 offered", 5000)],
    }
    yield f"\n## How the second pass grows, at {few:,} rows on one core\n"
    yield "| with | CPU s | exponent |\n|---|---|---|"
    for kind, lines in kinds.items():
        points = [(at, results[_label(name, few)]["cpu"]) for name, at in lines if _label(name, few) in results]
        shown = ", ".join(f"{at:,}: {cpu:.2f}" for at, cpu in points)
        yield f"| {kind} | {shown} | {_exponent([*points]):.2f} |"


def _curator(results: dict[str, ScaleLine]) -> Iterator[str]:
    kinds = ("select", "offers", *_MARKETS)
    lines = [line for line in results.values() if line["name"].startswith(kinds) and "cpu" in line]
    if not lines:
        return
    yield "\n## The curator, and many owners\n"
    yield (
        "One core: two threads of the library of matrix products wait for one another on a busy machine. Exact greedy\n"
        "selection, two rounds of swaps and the judging of all picks, 50 columns, 2,000 target rows; and the accounts\n"
        "of all owners in the ledger with their offers (100,000 rows in all) encoded and decoded. A market is a whole\n"
        "run in one process: owners with 200 rows of 20 numbers, 100 rows selected, everything charged in one ledger.\n"
        "A mailbox is a whole run through one directory, every party a home of its own, and the making of the homes.\n"
    )
    yield "| what | s | CPU s | peak MB |\n|---|---|---|---|"
    for line in sorted(lines, key=lambda line: [line["name"].startswith(kind) for kind in kinds], reverse=True):
        yield f"| {line['name']} | {line['seconds']:.1f} | {line['cpu']:.1f} | {line['peak_mb']:,.0f} |"
    few, many = (results.get(f"select 5,000 of {pool:,}") for pool in (100_000, 1_000_000))
    if few and many:
        yield f"\nTo select 5,000 of a million took {many['cpu'] / few['cpu']:.1f} times the CPU seconds of 100,000."
    for kind, counts in _MARKETS.items():
        known = [
            (count, results[f"{kind} of {count:,} owners"])
            for count in counts
            if f"{kind} of {count:,} owners" in results
        ]
        if len(known) > 1:
            (first, small), (last, large) = known[0], known[-1]
            each = 1000.0 * (large["cpu"] - small["cpu"]) / (last - first)
            growth = _exponent([(count, line["cpu"]) for count, line in known[-2:]])
            yield (
                f"\nA {kind}: {each:.1f} ms of CPU for each further owner, from {first:,} to {last:,}; exponent "
                f"{growth:.2f} between the last two."
            )


if __name__ == "__main__":
    main()
