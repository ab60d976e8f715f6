"""The Markdown report of a comparison."""

import datetime
import os
import platform
from collections.abc import Iterable

from peers.jobs import DEFAULT, Limits, ToolResult

_MEGABYTE = 1e6
_LIMIT = "one_pass pool x target"
_NO_PEERS = ("likeset", "uniform", "one_pass")


def line(result: ToolResult) -> str:
    """One result as a line on the terminal."""
    head = f"{result.data:9} N={result.rows:>9,} p={result.size:>5,} {result.label:25}"
    if result.status != "ok":
        return f"{head} {result.status}: {result.reason}"
    weighted = "" if result.weighted_mmd2 is None else f" weighted {result.weighted_mmd2:.4e}"
    peak = f"{result.peak_bytes / _MEGABYTE:,.0f} MB"
    return f"{head} MMD² {result.mmd2:.4e}{weighted} CPU {result.cpu:.2f} s peak {peak}"


def markdown(results: list[ToolResult], limits: Limits) -> str:
    """The whole report."""
    parts = [
        "# Comparison with peers",
        "",
        f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, {os.cpu_count()} cores ({platform.machine()}), "
        f"Python {platform.python_version()}; `benchmarks/peers.py` at commit {results[0].commit},",
        f"every job in a process of its own on {limits.cores} of the cores, with at most "
        f"{limits.memory_bytes / 2**30:.0f} GB and {limits.seconds:.0f} s.",
        "",
        *_explanation(),
        "",
        "## What must hold",
        "",
        *_claims(results),
        "",
        "## Peers, tuned and by default",
        "",
        *_both_ways(results),
        "",
        *_tables(results),
        "## Versions and settings",
        "",
        *_settings(results),
    ]
    return "\n".join(parts) + "\n"


def _explanation() -> list[str]:
    return [
        "MMD² is the exact squared MMD between the rows selected and the target, by `likeset.squared_mmd` for",
        "every tool; *weighted* is the same with the tool's weights, scaled to sum to 1. CPU is user plus system",
        "time of the selection itself, the least of up to three calls if they are short; *cold* adds what is done",
        "only once (compiling). Times include the mean kernel with the target and, for tools that want it, the",
        "kernel matrix. Memory is the peak above that of the interpreter with the tool imported, before the data",
        "are loaded; *of data* relates it to the pool's bytes. Gaussians: 8 in 50 columns, the target 500 points",
        "of two of them, shifted; float32. MNIST: pixels / 255, the target 500 test images, 3s and 4s at 0.7/0.3.",
        "",
        "*One pass* is what whoever matches a target does at least: a product of rows and an exponential for each",
        "row of the pool and each of the target, in float32 by numpy, in tiles that fit a cache, and nothing else.",
        "Peers are measured twice: *tuned*, with the fastest settings that we found, and with their *defaults*.",
    ]


def _claims(results: list[ToolResult]) -> list[str]:
    result_of = {(r.data, r.rows, r.size, r.label): r for r in results if r.status == "ok"}
    fastest = _fastest_peers(result_of.values())
    largest = result_of.get(("gaussians", 1_000_000, 1000, "likeset exact"))
    rows = ["| claim | wanted | measured | holds |", "|---|---|---|---|"]
    for (data, number, size), peer in sorted(fastest.items()):
        own = result_of.get((data, number, size, "likeset exact"))
        what = f"{data}, N={number:,}, p={size:,}: CPU of the fastest peer ({peer.label}) / `exact`"
        rows += _claim(what, ">= 10", peer, own, "cpu", least=10)
        one_pass = result_of.get((data, number, size, _LIMIT))
        rows += _claim(
            f"{data}, N={number:,}, p={size:,}: CPU of `exact` / one pass", "<= 2", own, one_pass, "cpu", most=2
        )
    for protodash in (r for r in result_of.values() if r.tool == "protodash"):
        own = result_of.get((protodash.data, protodash.rows, protodash.size, "likeset weighted"))
        where = f"N={protodash.rows:,}, p={protodash.size:,}"
        what = f"{where}: weighted MMD² of likeset `weighted` / ProtoDash"
        rows += _claim(what, "<= 1", own, protodash, "weighted_mmd2", most=1.0)
        rows += _claim(f"{where}: CPU of ProtoDash / likeset", ">= 50", protodash, own, "cpu", least=50)
    if largest:
        share = largest.peak_bytes / largest.pool_bytes
        rows.append(f"| N=1,000,000, p=1,000: peak memory of `exact` / data | < 3 | {share:.2f} | {_yes(share < 3)} |")
    return rows


def _fastest_peers(results: Iterable[ToolResult]) -> dict[tuple[str, int, int], ToolResult]:
    """For each pool and size the peer that took least, among those who look for rows and not for weights."""
    fastest: dict[tuple[str, int, int], ToolResult] = {}
    for result in results:
        if result.tool in (*_NO_PEERS, "protodash"):
            continue
        where = (result.data, result.rows, result.size)
        if where not in fastest or result.cpu < fastest[where].cpu:
            fastest[where] = result
    return fastest


def _claim(
    what: str,
    wanted: str,
    upper: ToolResult | None,
    lower: ToolResult | None,
    figure: str,
    *,
    most: float = float("inf"),
    least: float = 0.0,
) -> list[str]:
    if upper is None or lower is None:
        return []
    ratio = getattr(upper, figure) / getattr(lower, figure)
    holds = _yes(least <= ratio <= most) if wanted else ""
    return [f"| {what} | {wanted} | {ratio:.3g} | {holds} |"]


def _yes(holds: bool) -> str:
    return "yes" if holds else "**no**"


def _tables(results: list[ToolResult]) -> Iterable[str]:
    groups = sorted({(r.data, r.rows, r.size) for r in results})
    for name, rows, size in groups:
        members = [r for r in results if (r.data, r.rows, r.size) == (name, rows, size) and r.status == "ok"]
        if len(members) < 2:
            continue
        yield f"## {name}: N = {rows:,}, p = {size:,}"
        yield ""
        yield "| method | MMD² | of exact | weighted | CPU s | cold | of likeset | wall s | peak MB | of data |"
        yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
        exact = next((r.mmd2 for r in members if r.label == "likeset exact"), None)
        own = next((r.cpu for r in members if r.label == "likeset exact"), None)
        for result in sorted(members, key=lambda r: (r.tool != "likeset", r.cpu is None, r.cpu)):
            yield _row(result, exact, own)
        yield ""


def _row(result: ToolResult, exact: float | None, own: float | None) -> str:
    memory = None if result.peak_bytes is None else result.peak_bytes / _MEGABYTE
    share = None if result.peak_bytes is None else result.peak_bytes / result.pool_bytes
    cells = [
        result.label,
        f"{result.mmd2:.3e}",
        _number(result.mmd2, over=exact, form=".3f"),
        "" if result.weighted_mmd2 is None else f"{result.weighted_mmd2:.3e}",
        _number(result.cpu),
        _number(result.cold_cpu),
        _number(result.cpu, over=own),
        _number(result.wall),
        _number(memory, form=",.0f"),
        _number(share, form=".2f"),
    ]
    return "| " + " | ".join(cells) + " |"


def _number(value: float | None, *, over: float | None = 1.0, form: str = "") -> str:
    if value is None or over is None:
        return ""
    ratio = value / over
    return format(ratio, form or (".3g" if ratio < 100 else ",.0f"))


def _both_ways(results: list[ToolResult]) -> list[str]:
    """What each peer takes, with settings of our choice and with its own."""
    rows = [
        "| peer | data | N | p | tuned, CPU s | of likeset | by default, CPU s | of likeset |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    result_of = {(r.data, r.rows, r.size, r.label): r for r in results}
    for data, number, size, label in sorted(result_of, key=lambda key: (key[3], key[0], key[1], key[2])):
        if label.startswith(_NO_PEERS) or label.endswith(DEFAULT):
            continue
        own = result_of.get((data, number, size, "likeset exact"))
        cells = [label, data, f"{number:,}", f"{size:,}"]
        for variant in ("", DEFAULT):
            result = result_of.get((data, number, size, label + variant))
            cells += _times(result, own)
        rows.append("| " + " | ".join(cells) + " |")
    return rows


def _times(result: ToolResult | None, own: ToolResult | None) -> list[str]:
    if result is None:
        return ["", ""]
    if result.status != "ok":
        return [f"{result.status} ({result.reason})", ""]
    return [_number(result.cpu), _number(result.cpu, over=None if own is None else own.cpu)]


def _settings(results: list[ToolResult]) -> list[str]:
    seen = {r.tool.replace("_", " "): r for r in results if r.status == "ok" and r.versions}
    lines = [
        f"- {tool}: {', '.join(' '.join(pair) for pair in result.versions.items())}; {result.chosen}."
        for tool, result in seen.items()
    ]
    missing = {r.tool: r.reason for r in results if r.status == "not installed"}
    lines += [f"- {tool} could not be installed: {reason}" for tool, reason in missing.items()]
    raw = [r for r in results if r.tool == "protodash" and r.status == "ok"]
    if raw:
        lines += [
            "",
            "ProtoDash's weights need not sum to 1. The squared distance that it minimises, with its weights",
            "as they are:",
            "",
            "| N | p | sum of weights | as it is | scaled to 1 | likeset, summing to 1 |",
            "|--:|--:|--:|--:|--:|--:|",
        ]
    for result in raw:
        own = next(
            (
                r.weighted_mmd2
                for r in results
                if (r.data, r.rows, r.size) == (result.data, result.rows, result.size) and r.label == "likeset weighted"
            ),
            None,
        )
        lines.append(
            f"| {result.rows:,} | {result.size:,} | {result.weight_sum:.4f} | {result.unnormalised_mmd2:.3e} "
            f"| {result.weighted_mmd2:.3e} | {'' if own is None else f'{own:.3e}'} |"
        )
    return lines
